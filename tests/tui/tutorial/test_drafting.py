"""Drafts on the tutorial's screen: proposed blocks as rows beneath their heading, decided, edited and published."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import TextArea

import scenes
from core.run.fingerprints import fingerprint
from selftest_core.demo.other_roles import HEADING
from selftest_core.draft.draft_log import decisions_of, open_log, read_log
from selftest_core.git.command import find_place
from selftest_core.tutorial.tutorial import parse_blocks
from selftest_tui.review.screen import ReviewScreen
from selftest_tui.run.screen import RunScreen
from selftest_tui.shared.dialogs.composer import Composer
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.tutorial.view import PROPOSED, DrafterLine, ProposalLine
from tui.driving import compare, driven
from tui.tutorial.drafted_shops import DRAFT, PAY, DraftedShop, synced_shop
from tui.tutorial.tutorial_driving import opened, shown

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.draft.decisions import DraftDecisions
    from selftest_tui.tutorial.drafts import DraftView
    from tui.tutorial.tutorial_driving import Shown
    from worlds import World

pytestmark = pytest.mark.slow  # whole screens over a real repository


@pytest.fixture
def drafted(world: World, tmp_path: Path) -> DraftedShop:
    return DraftedShop(world, tmp_path / "acme-shop")


def draft_of(it: Shown) -> DraftView:
    assert it.screen.draft is not None
    return it.screen.draft


def decided(drafted: DraftedShop) -> DraftDecisions:
    """The decisions on the disk."""
    return decisions_of(read_log(drafted.run.path))


async def on_top(it: Shown, kind: type) -> Any:
    await it.until(lambda: isinstance(it.one.app.screen, kind), f"a {kind.__name__}")
    return it.one.app.screen


def table(it: Shown) -> list[str]:
    """The lines of the drafted heading: its commands and decisions."""
    found = []
    for line in it.table.lines:
        match line:
            case ProposalLine(_, one):
                found.append(f"{one.block.kind} {one.text.splitlines()[-1]}: {one.decision}")
            case DrafterLine(heading):
                found.append(f"{heading.title}: {heading.agent.how}")
            case _:
                continue
    return found


async def test_a_proposed_block_is_decided_line_by_line_and_undone_after_a_restart_too(drafted: DraftedShop) -> None:
    drafted.end()
    async with shown(drafted.folder, drafted.world.environment) as it:
        assert f"{PROPOSED}{HEADING}  3" in it.lines[1]
        assert isinstance(it.table.line, DrafterLine)
        await it.press("tab", "y", "y", "x")
        await it.until(lambda: draft_of(it).open == 0, "all decided")
        assert table(it) == [
            f"{HEADING}: succeeded", "new ./acme cart save friday.json: keep", "new ./acme cart total: keep",
            "new ./acme cart merge monday.json: drop", f"{PAY}: working",
        ]  # fmt: skip
        assert "proposed" not in it.status
    async with shown(drafted.folder, drafted.world.environment) as it:
        assert draft_of(it).undo_text == "drop ./acme cart merge monday.json"
        await it.press("z", "z")
        await it.until(lambda: draft_of(it).open == 2, "two undone")
        assert "Undone: keep ./acme cart merge friday.json" in it.toasts
        await it.press("Z")
        await it.until(lambda: draft_of(it).open == 1, "one done again")
        await it.press("home", "x")
        await it.until(
            lambda: [one.decision for one in draft_of(it).headings[0].proposals] == ["drop"] * 3, "all of it"
        )
        assert len(decided(drafted).blocks) == 3


async def test_blocks_appear_while_the_run_goes_on_and_the_cursor_stays(drafted: DraftedShop) -> None:
    async with shown(drafted.folder, drafted.world.environment) as it:
        assert table(it) == [f"{HEADING}: working", f"{PAY}: working"]
        await it.go_to("--card")
        before = it.table.line
        drafted.end()
        await it.until(lambda: draft_of(it).open == 3, "the blocks")
        assert it.table.line == before
        await it.go_to("tea --count 2")
        await it.press("w")
        run = await on_top(it, RunScreen)
        assert run.folder.run == DRAFT


async def test_what_the_gate_refuses_is_a_row_with_its_reason(drafted: DraftedShop) -> None:
    drafted.end("failed", "it changes other files: README.md")
    async with shown(drafted.folder, drafted.world.environment, (200, 50)) as it:
        assert "it changes other files: README.md" in it.details
        assert table(it) == [f"{HEADING}: red", f"{PAY}: working"]
        await it.go_to("st-0d0d-00")
        await it.press("y", "P")
        assert "Move to a proposed block" in it.toasts
        assert "No proposed block is kept" in it.toasts


async def test_an_edited_block_is_kept_with_the_users_text(
    drafted: DraftedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted.end()
    editor = drafted.world.script("edit", '#!/bin/sh\nsed -i "$CHANGE" "$2"\n')
    environ = {**drafted.world.environment, "EDITOR": str(editor), "CHANGE": "s/friday/saturday/"}
    async with shown(drafted.folder, environ) as it:
        monkeypatch.setattr(it.one.app, "suspend", contextlib.nullcontext)  # a headless terminal has no other
        await it.go_to("tea --count 2")
        await it.press("E")
        await it.until(lambda: "✓ kept, edited" in "".join(it.lines), "the new text")
        assert "./acme cart save saturday.json" in it.details
        assert "You edited it. The agent wrote:" in it.details
        environ["CHANGE"] = "s/^$/./"
        await it.press("E")
        await it.until(lambda: "The text is as it was" in it.toasts, "nothing was edited")
        environ["CHANGE"] = "s/.*add tea.*//"
        await it.press("E")
        await it.until(lambda: "it is not one block" in it.toasts, "the reason")
        assert list(decided(drafted).edits.values()) == [draft_of(it).headings[0].proposals[0].text]
        await it.press("z")
        await it.until(lambda: draft_of(it).open == 3, "undone")
        assert decided(drafted).edits == {}


async def test_a_finding_is_noted_about_a_block_or_the_whole_heading(drafted: DraftedShop) -> None:
    drafted.end()
    async with shown(drafted.folder, drafted.world.environment, (200, 50)) as it:
        for words, typed in (("monday", "silent"), ("st-0d0d-00", "twofold")):
            await it.go_to(words)
            await it.press("number_sign")
            dialog = await on_top(it, Composer)
            assert dialog.query_one(TextArea).text == "confusing because "
            await it.press(*typed, "enter")
            await it.until(lambda: it.one.app.screen is it.screen, "the screen")
        await it.until(lambda: len(decided(drafted).findings) == 2, "both")
        await it.until(lambda: "confusing because twofold" in "".join(it.lines), "of the heading")
        assert "Your finding: confusing because twofold" in it.details
        assert "confusing because merging a cart that nobody saved says nothing" in it.details


async def test_what_is_kept_becomes_one_commit_on_a_branch_and_nothing_else_changes(drafted: DraftedShop) -> None:
    drafted.end()
    git, environ = drafted.repository.git, drafted.world.environment
    place = find_place(drafted.folder, environ)
    before = fingerprint(place, environ)
    async with shown(drafted.folder, environ) as it:
        await it.go_to("tea --count 2")
        await it.press("y", "x", "P")  # at once: what was decided counts
        await it.until(lambda: draft_of(it).open == 1, "two decided")
        await it.press("enter")
        question = await on_top(it, Question)
        assert "Publish as tutorial-draft?" in str(question.query_one("#dialog").border_title)
        assert fingerprint(place, environ) == before
        await it.press("y")
        await it.until(lambda: "Published 1 block" in it.toasts, "published")
        await it.until(lambda: draft_of(it).published == "tutorial-draft", "its name for the next time")
    assert git("log", "--format=%s", "main..tutorial-draft") == "Add 1 block of tutorial.sh"
    made, old = (parse_blocks(git("show", f"{ref}:tutorial.sh")).blocks for ref in ("tutorial-draft", "main"))
    assert [one.text for one in made if one.text not in {block.text for block in old}] == [
        "# A cart for Friday: saved beside the one in use.\n./acme cart add tea --count 2\n./acme cart save friday.json"
    ]
    git("update-ref", "-d", "refs/heads/tutorial-draft")
    git("update-ref", "-d", git("for-each-ref", "--format=%(refname)", f"refs/selftest/{DRAFT}/published"))
    assert fingerprint(place, environ) == before


async def test_a_draft_that_another_process_decides_about_is_left_alone(drafted: DraftedShop) -> None:
    drafted.end()
    async with shown(drafted.folder, drafted.world.environment) as it:
        await it.go_to("tea --count 2")
        with open_log(drafted.run.path) as log:
            await it.press("y")
            await it.until(lambda: "is open in another process" in it.toasts, "the refusal")
            block = draft_of(it).headings[0].proposals[0].block.id
            log.append("decided", 1.0, blocks={block: "drop"}, says="drop it")
        await it.until(lambda: draft_of(it).open == 2, "what the other decided")


async def test_a_heading_that_was_renamed_meanwhile_keeps_its_rows(drafted: DraftedShop) -> None:
    drafted.end()
    tutorial = drafted.folder / "tutorial.sh"
    tutorial.write_text(tutorial.read_text().replace(HEADING, "Keep it for later"))
    drafted.repository.git("commit", "-q", "-a", "-m", "Rename a heading")
    async with shown(drafted.folder, drafted.world.environment, (200, 50)) as it:
        assert f"{PROPOSED}{HEADING}  3" in it.lines[1]
        assert "HEAD has no such heading in tutorial.sh any more" in it.details


async def test_what_an_agent_drafts_is_shown_and_not_obeyed(drafted: DraftedShop) -> None:
    drafted.end()
    outcome = next((drafted.run.path / "agents").glob("*/attempt-1/outcome.json"))
    document = json.loads(outcome.read_text())
    document["escalations"][0]["title"] = "confusing \x1b]0;owned\x07 [bold]because[/bold]"
    outcome.write_text(json.dumps(document))
    async with shown(drafted.folder, drafted.world.environment, (200, 50)) as it:
        assert "[bold]because[/bold]" in it.details
        assert "\x1b" not in it.details


async def test_a_draft_without_its_base_is_a_problem_and_the_rest_is_shown(drafted: DraftedShop) -> None:
    plan = drafted.run.path / "plan.json"
    document = json.loads(plan.read_text())
    plan.write_text(json.dumps({**document, "base": "b" * 40}))
    async with shown(drafted.folder, drafted.world.environment) as it:
        assert [problem.key for problem in it.screen.problems] == ["draft"]
        assert "▾ Fill a cart  5" in "".join(it.lines)


async def test_tests_that_a_writer_offers_stand_beneath_its_block_and_lead_to_the_review(
    world: World, tmp_path: Path
) -> None:
    folder, environ = tmp_path / "acme-shop", world.environment
    tip = synced_shop(world, folder)
    async with driven(scenes.few().view, size=(120, 40), environ=environ, folder=folder) as one:
        it = await opened(one, folder, environ)
        assert it.lines[3].endswith("✓ succeeded")
        assert "parts.py::test_each_part_is_paid_back" in it.lines[4]
        assert [line.endswith(" offered") for line in it.lines[4:7]] == [True, True, False]
        await it.press("down")
        assert "It offers these tests, which pass, and fail without the command." in it.details
        await it.press("v")
        review = await on_top(it, ReviewScreen)
        await it.until(lambda: review.table.row is not None, "its commits")
        assert tip in {source.oid for source in review.table.row.change.sources}


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_picture_of_a_draft(drafted: DraftedShop, size: tuple[int, int]) -> None:
    drafted.end()
    async with shown(drafted.folder, drafted.world.environment, size) as it:
        await it.press("tab", "y")
        await it.until(lambda: draft_of(it).open == 2, "one kept")
        await it.until(lambda: it.table.line is not None and "friday" in it.details, "the next one")
        compare(f"tutorial-draft-{size[0]}", it.picture())
