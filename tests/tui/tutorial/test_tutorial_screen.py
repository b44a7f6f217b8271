"""The tutorial's screen: files change under it, it meets what is hostile, large or missing, and says what is so."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import scenes
from core.review.changes.test_inputs import a_run
from core.review.desks import make_desk
from selftest_core.run.outcome.ends import End
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_tui.replay.screen import ReplayScreen
from selftest_tui.review.screen import ReviewScreen
from selftest_tui.run.screen import RunScreen
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.tutorial.keys import TUTORIAL
from selftest_tui.tutorial.table import TutorialTable
from selftest_tui.tutorial.view import BlockLine
from tui.driving import PATIENCE, compare, driven
from tui.review.review_driving import environ_of as environ_of_review
from tui.tutorial.tutorial_driving import environ_of, opened, shop, shown
from tui.tutorial.tutorials import write_project, write_run

__all__ = ["shop"]

if TYPE_CHECKING:
    from pathlib import Path

    from tui.tutorial.tutorial_driving import Shown

pytestmark = pytest.mark.slow  # whole screens


async def test_blocks_with_their_tests_and_results_what_is_open_first(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        lines = it.lines
        assert "blocks without a test  3" in lines[1]
        assert "shop refund last" in lines[2]
        assert "no test" in lines[2]
        assert "≠" in lines[3]
        assert "85% alike" in lines[3]
        text = "\n".join(lines)
        assert "▾ The cart  2" in text
        assert "✗ failed 1/3" in text
        assert "⊘ blocked" in text
        assert "● working" in text
        assert "heredoc END that begins here is cut" in text
        assert "✗  3" in it.status
        assert isinstance(it.table.line, BlockLine), "the cursor begins on what is open"
        compare("tutorial", it.picture())


async def test_differing_words_stand_beside_each_other(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        await it.go_to("test_refund")
        assert "cites text that no block has any more; tutorial.sh:23 is 85% alike" in it.details
        assert "- shop refund --all --reason broken" in it.details
        assert "+ shop refund last --reason damaged" in it.details
        compare("tutorial-stale", it.picture())


async def on_top[S](it: Shown, kind: type[S]) -> S:
    await it.until(lambda: isinstance(it.one.app.screen, kind), f"a {kind.__name__}")
    screen: object = it.one.app.screen
    assert isinstance(screen, kind)
    return screen


async def test_a_test_leads_to_its_run_recording_commits_and_agent_and_back(tmp_path: Path) -> None:
    desk = make_desk(tmp_path / "desk")
    story = a_run(desk)
    planned = story.plan.tests[0]
    path, name = planned.node_id.split("::")
    cites = f'def {name}(e2e):\n    e2e.write_tutorial_block("""\n        # Log in.\n        shop login\n    """)\n'
    write_project(desk.folder, "# A shop.\n\n# Log in.\nshop login\n", {path: cites})
    member = story.run.rows[planned.agent_name].member
    assert member is not None
    cast = story.folder.attempt(member) / "terminal.cast"
    write_cast(cast, Header(3, 20, 4, timestamp=1_800_000_000), [(1.0, "o", "$ ")])
    environ = environ_of_review(desk)
    view = scenes.few().view
    view = replace(
        view, rows=(replace(view.rows[5], agent=replace(view.rows[5].agent, id=member.agent_id)), *view.rows)
    )
    async with driven(view, environ=environ, folder=desk.folder) as one:
        it = await opened(one, desk.folder, environ)
        app = one.app
        await it.go_to(name)

        await it.press("w")
        run = await on_top(it, RunScreen)
        await it.until(lambda: run.table.row is not None and run.table.row.name == planned.agent_name, "the test")
        await it.press("escape")
        assert app.screen is it.screen

        await it.press("r")
        await it.until(lambda: isinstance(app.screen, ReplayScreen), "the recording")
        await it.press("escape")
        assert app.screen is it.screen

        await it.press("v")
        review = await on_top(it, ReviewScreen)
        tip = desk.git("rev-parse", "ada")
        await it.until(lambda: review.table.row is not None and review.is_settled, "the review")
        assert review.table.row is not None
        assert planned.agent_name in review.table.row.change.agents
        assert tip in {source.oid for source in review.table.row.change.sources}
        await it.press("escape")
        assert app.screen is it.screen

        await it.press("f")
        await it.until(lambda: app.screen is one.screen, "the fleet")
        assert one.screen.table.row is not None
        assert one.screen.table.row.agent.id == member.agent_id


async def test_a_small_terminal_has_the_right_pane_a_key_away(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent), (80, 24)) as it:
        assert not it.screen.pane_is_open
        assert "? help" in it.key_line
        compare("tutorial-small", it.picture())
        await it.press("enter")
        assert it.screen.pane_is_open


async def test_a_wide_terminal_says_what_was_said(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent), (250, 70)) as it:
        assert "AssertionError: 2 apples of 3" in "\n".join(it.lines)
        assert "reason" in it.lines[0]


async def test_a_saved_file_is_on_the_screen(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        await it.go_to("shop export")
        tests = shop / "tests" / "test_pay.py"
        more = 'def test_export(e2e):\n    e2e.write_tutorial_block("shop export --format csv > sales.csv")\n'
        tests.write_text(f"{tests.read_text()}\n\n{more}")
        await it.until(lambda: it.screen.view is not None and it.screen.view.uncited == 2, "the new test")
        line = it.table.line
        assert isinstance(line, BlockLine)
        assert line.view.block.text.startswith("shop export"), "the cursor stays on its block"
        await it.until(lambda: "test_export" in it.details, "the new test among the details")
        tutorial = shop / "tutorial.sh"
        tutorial.write_text(tutorial.read_text().replace("shop cart empty", "shop cart clear"))
        await it.until(lambda: it.screen.view is not None and it.screen.view.stale == 4, "the changed block")


async def test_a_new_folder_of_tests_is_followed_too(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        deep = shop / "tests" / "deep"
        deep.mkdir()
        source = 'def test_today(e2e):\n    e2e.write_tutorial_block("of today\\nEND")\n'
        (deep / "test_deep.py").write_text(source)
        await it.until(lambda: it.screen.view is not None and it.screen.view.uncited == 2, "the deep test")
        (deep / "test_deep.py").write_text(source.replace("today", "yesterday"))
        await it.until(lambda: it.screen.view is not None and it.screen.view.uncited == 3, "its change")


async def test_a_newer_run_is_followed(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        results = {"tests/test_cart.py::test_list": (End.BLOCKED, "")}
        write_run(shop, environ_of(shop.parent), results, run="20261122-0931-0000")
        wanted = {End.BLOCKED: 1}
        await it.until(lambda: it.screen.view is not None and it.screen.view.results() == wanted, "the newer run")


async def test_without_a_tutorial_it_says_so_until_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    async with shown(tmp_path / "shop", environ_of(tmp_path), (100, 30)) as it:
        assert any("No tutorial at" in line for line in it.lines)
        for action in ("open", "copy", "edit", "next_needing"):
            await it.press(TUTORIAL.row(action).keys[0])
        assert "Nothing is shown here" in it.toasts
        write_project(tmp_path / "shop")
        await it.until(lambda: it.screen.view is not None, "the tutorial")


async def test_what_was_seen_stays_when_a_look_fails(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        before = it.screen.view
        shutil.move(shop / "tutorial.sh", shop / "gone.sh")
        await it.until(lambda: it.screen.problems, "the problem")
        assert it.screen.view is before
        assert it.table.lines
        await it.press("e")
        assert isinstance(it.one.app.screen, Page)
        await it.press("escape")
        shutil.move(shop / "gone.sh", shop / "tutorial.sh")
        await it.until(lambda: not it.screen.problems, "the end of the problem")


async def test_what_agents_and_tests_wrote_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    evil = "\x1b[31mred\x1b]0;t\x07 [bold red]markup[/] \u202eright"
    project = write_project(
        tmp_path / "shop",
        f"# {evil}\n\nshop {evil}\n\nshop cart\n",
        {"tests/test_a.py": f"def test_a(e2e):\n    e2e.write_tutorial_block({f'shop cart {evil}'!r})\n"
         "def test_b(e2e):\n    e2e.write_tutorial_block('shop cart')\n"},
    )  # fmt: skip
    write_run(project, environ_of(tmp_path), {"tests/test_a.py::test_b": (End.RED, evil)})
    async with shown(project, environ_of(tmp_path)) as it:
        for _ in range(12):
            svg = it.picture()
            assert "\x1b" not in svg
            assert "\u202e" not in svg
            await it.press("down")
        assert "[bold red]markup[/]" in "\n".join(it.lines)


async def test_hundreds_of_blocks_are_moved_through(tmp_path: Path) -> None:
    tutorial = "\n\n".join(f"# Part {n}\n\nshop make n{n}\n\nshop drop n{n}" for n in range(200))
    source = "\n".join(f"def test_{n}(e2e):\n    e2e.write_tutorial_block('shop make n{n}')" for n in range(200))
    project = write_project(tmp_path / "shop", tutorial, {"tests/test_all.py": source})
    async with shown(project, environ_of(tmp_path)) as it:
        assert len(it.table.lines) == 1 + 200 + 3 * 200
        await it.press("G")
        assert it.table.cursor == len(it.table.lines) - 1
        await it.press("slash", *"n7", "enter")
        assert {line.view.block.text for line in it.table.lines if isinstance(line, BlockLine)} == {
            f"shop {verb} n{n}" for verb in ("make", "drop") for n in (7, *range(70, 80))
        }


async def test_what_is_typed_right_behind_the_filter_key_is_for_the_filter(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        await it.press("slash", *"refund")
        assert it.screen.layout_of_lines.query == "refund"


async def test_a_click_moves_folds_and_opens(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        it.one.app.CLICK_CHAIN_TIME_THRESHOLD = PATIENCE  # type: ignore[misc]  # a machine may be slow between two
        await it.one.pilot.click(TutorialTable, offset=(6, 4))
        await it.until(lambda: it.table.cursor == 3, "the line")
        count = len(it.table.lines)
        await it.one.pilot.click(TutorialTable, offset=(6, 1))
        await it.until(lambda: len(it.table.lines) < count, "the closed section")
        await it.one.pilot.click(TutorialTable, offset=(6, 3), times=2)
        await it.until(lambda: it.screen.has_class("-zoomed"), "the right pane")


async def test_help_and_palette_are_of_this_screen(shop: Path) -> None:
    async with shown(shop, environ_of(shop.parent)) as it:
        await it.press("question_mark")
        page = it.one.app.screen
        assert isinstance(page, Page)
        assert "a block that no test cites" in str(page.sections)
        await it.press("escape", "q")
        await it.until(lambda: not it.one.app.is_running, "the end")
