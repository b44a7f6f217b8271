"""The run's screen: what it shows of every kind of run, live, in every size; and that it obeys nothing."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import run_scenes
import scenes
from selftest_core.fleet.clusters import signature
from selftest_core.fleet.view import Category
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.crew.recording import live_recording
from selftest_core.run.events import Event
from selftest_core.run.fold import RunRow
from selftest_core.run.outcome.ends import End
from selftest_core.run.progress import progress
from selftest_core.usage.tokens import Label, Usage, as_fields
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_tui.fleet.pane.preview import Preview
from selftest_tui.replay.screen import ReplayScreen
from selftest_tui.run.bar import facts_of
from selftest_tui.run.lines import RunGroup, changed_places, lay_out, said_of
from selftest_tui.run.pane import Report
from selftest_tui.run.report import pace_facts
from selftest_tui.run.screen import RunScreen
from selftest_tui.shared.dialogs.help import Page
from tui.driving import compare, driven, text_of
from tui.quiet import press
from tui.run.run_driving import conducted, shown

if TYPE_CHECKING:
    from pathlib import Path

    from tui.run.run_driving import RunDriven

pytestmark = pytest.mark.slow  # whole screens of runs


def titles(one: RunDriven) -> list[str]:
    return [f"{line.sign} {line.title}" for line in one.table.shown.lines if isinstance(line, RunGroup)]


async def test_progress_clusters_and_states(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path)) as one:
        assert "launched 81/96" in one.head
        assert "$4.05 est of $10.00" in one.head
        assert "● running" in one.head
        assert "✓ 42" in one.head
        assert "✗  6" in one.head
        counts = re.findall(r"[✓=⊘✗◆●…■] +(\d+)", one.head)
        assert sum(map(int, counts)) == 96, "each test is counted once"
        groups = titles(one)
        assert groups[0] == "◆ it asks something that only a person can answer", "what needs a person comes first"
        assert any(title.startswith("✗ ConnectionRefusedError") for title in groups)
        assert any("rate limited" in title for title in groups)
        assert groups[-4:] == ["● working", "… waiting", "✓ succeeded", "= unchanged"]
        names = [line.name for line in one.table.shown.lines if isinstance(line, RunRow)]
        assert sorted(names) == sorted(one.story.run.rows), "each test is there exactly once"
        assert any("3\N{MULTIPLICATION SIGN} ConnectionRefusedError" in line for line in one.lines)
        assert any("at test collection" in line for line in one.lines)
        compare("run", await one.picture())


async def test_a_cluster_tells_its_evidence_and_its_tests(tmp_path: Path) -> None:
    async with shown(run_scenes.paused(tmp_path)) as one:
        assert "‖ paused" in one.head
        assert "launching paused" in one.lines[1]
        assert one.screen.problems[0].title == "Launching paused: 6 of the last 6 failed alike"
        said = one.screen.pane.markdown
        assert "127.0.0.1:40005" in said, "the newest, whole"
        assert r"tests/test\_login\.py\:\:test\_redirect" in said
        assert "H resumes it" in said
        compare("run-paused", await one.picture())


async def test_an_outcome_is_told_as_its_agent_wrote_it(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path)) as one:
        done = next(row.name for row in one.story.run.rows.values() if row.end is End.SUCCEEDED)
        await one.go_to(done)
        await one.until(lambda: "drops the query" in one.screen.pane.markdown, "the report")
        said = one.screen.pane.markdown
        assert "claims **succeeded**, not verified" in said
        assert "customers lose their coupons" in said
        assert "FIX\\_IMPL" in said
        assert "views\\.py, line 118" in said
        await one.until(lambda: "branch.bundle" in one.screen.pane.artifacts, "its files")


async def test_a_claim_that_does_not_hold_is_red_and_says_so(tmp_path: Path) -> None:
    story = run_scenes.halfway(tmp_path)
    row = next(row for row in story.run.rows.values() if row.end is End.SUCCEEDED)
    story.note(
        Event.VERIFIED, 1_400.0, agent=row.name, attempt=row.attempt, result="failed",
        reason="it failed in 3 of 3 runs", text=run_scenes.RED, signature=signature(run_scenes.RED),
    )  # fmt: skip
    async with shown(story) as one:
        await one.go_to(row.name)
        await one.until(lambda: "claimed green" in one.screen.pane.markdown, "the report")
        assert "assert 107.00 == 106.99" in one.screen.pane.markdown
        assert any("claimed green" in line for line in one.lines)
        compare("run-claimed-green", await one.picture())


async def test_a_test_that_has_not_begun_and_one_that_timed_out_say_so(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path)) as one:
        await one.go_to(one.story.plan.tests[-1].agent_name)
        assert "Its agent is not launched yet" in one.screen.pane.markdown
        late = next(row.name for row in one.story.run.rows.values() if row.end is End.TIMEOUT)
        await one.go_to(late)
        assert "timed out" in one.screen.pane.markdown
        assert "waiting for lock" in one.screen.pane.markdown, "its last screen"


async def test_the_run_goes_on_under_the_cursor(tmp_path: Path) -> None:
    story = run_scenes.halfway(tmp_path, 24)
    async with shown(story) as one:
        working = [name for name, row in story.run.rows.items() if row.phase == "working" and not row.attention]
        await one.go_to(working[0])
        place = one.table.cursor - one.table.scroll_offset.y
        number = next(at for at, test in enumerate(story.plan.tests) if test.agent_name == working[1])
        story.end(number, 1_499, End.SUCCEEDED, outcome=run_scenes.FIXED)
        await one.goes_on()
        assert one.table.row is not None
        assert one.table.row.name == working[0], "the cursor stays with its test"
        assert abs(one.table.cursor - one.table.scroll_offset.y - place) <= 1
        own = next(at for at, test in enumerate(story.plan.tests) if test.agent_name == working[0])
        story.fail(own, 1_500, End.RED, run_scenes.RED, "test")
        await one.goes_on()
        assert one.table.row.name == working[0], "into its cluster too"
        assert "AssertionError" in one.screen.pane.markdown
        story.note(Event.PAUSED, 1_501, reason="the budget of 10.00 USD is used up", by="budget", signature="")
        await one.goes_on()
        assert "‖ paused" in one.head
        assert "budget" in one.screen.problems[0].title
        story.note(Event.DECLINED, 1_502, wish="retry", test=working[0], says="it has not ended yet")
        await one.goes_on()
        await one.until(lambda: "it has not ended yet" in one.toasts, "the refusal, said once")
        story.note(Event.SLOWED, 1_503, reason="4 agents are held up")
        await one.goes_on()
        assert any(problem.key == "slowed" for problem in one.screen.problems)
        story.note(Event.ADAPTED, 1_504, limit=9, reason="4 of 12 agents are rate limited")
        await one.goes_on()
        facts = pace_facts(story.run, run_scenes.BEGAN + 1_504)
        assert [(fact.label, fact.value) for fact in facts] == [
            ("at once", f"9 of {story.plan.max_running}"),
            ("", "9: 4 of 12 agents are rate limited (0 s ago)"),
            ("", f"{story.plan.max_running}: at first (25 min ago)"),
        ]
        assert f"9 of {story.plan.max_running} at once" in facts_of(story.run, progress(story.run, 0.0))


def test_a_run_that_is_over_does_not_tell_how_many_it_had_come_down_to(tmp_path: Path) -> None:
    story = run_scenes.over(tmp_path)
    story.note(Event.ADAPTED, 9_000, limit=1, reason="4 of 12 agents are rate limited")
    assert story.run.at_once == 1
    assert f"at most {story.plan.max_running} at once" in facts_of(story.run, progress(story.run, 0.0))


async def test_what_comes_back_while_the_screen_is_taken_down_breaks_nothing(tmp_path: Path) -> None:
    story = run_scenes.halfway(tmp_path, 24)
    async with shown(story) as one:
        done = next(row for row in one.story.run.rows.values() if row.end is End.SUCCEEDED)
        assert done.member is not None
        outcome = story.folder.attempt(done.member) / OUTCOME
        outcome.unlink()
        os.mkfifo(outcome)  # it is read once somebody has written it
        await one.go_to(done.name)
        assert one.screen.pane.collected is None
        await one.screen.pane.remove_children()
        await asyncio.to_thread(outcome.write_bytes, b"{}")
        await one.until(lambda: one.screen.pane.collected is not None, "what came back")
        assert one.fleet.app.is_running


async def test_a_conductor_that_goes_is_missed_and_one_that_comes_is_seen(tmp_path: Path) -> None:
    story = run_scenes.abandoned(tmp_path)
    async with shown(story, is_live=False) as one:
        assert "○ no conductor" in one.head
        (nobody,) = one.screen.problems
        assert nobody.title == "This run has no conductor"
        assert "interrupted" in nobody.detail
        with conducted(story.folder):
            story.note(Event.CONDUCTING, 1_400, pid=2)
            await one.goes_on()
            await one.until(lambda: "● running" in one.head, "the next conductor")
            assert not one.screen.problems
        await one.until(lambda: "no conductor" in one.head, "its end without a reason")
        assert "without a reason" in next(problem.detail for problem in one.screen.problems)


async def test_a_budget_that_ended_a_run_comes_before_its_end_and_says_what_to_do(tmp_path: Path) -> None:
    story = run_scenes.abandoned(tmp_path)
    story.note(Event.PAUSED, 1_399, by="budget", reason="the day's budget of 2.00 USD is used up", signature="")
    story.note(Event.LEFT, 1_400, why="budget")
    async with shown(story, is_live=False) as one:
        used_up, nobody = one.screen.problems
        assert used_up.title == "Launching paused: the day's budget of 2.00 USD is used up"
        assert f"`selftest-tui resume {run_scenes.RUN}`" in used_up.hint, "only this reads a raised setting"
        assert nobody.title == "This run has no conductor"


async def test_a_smoke_agent_is_seen_and_its_failure_is_told(tmp_path: Path) -> None:
    story = run_scenes.abandoned(tmp_path)
    async with shown(story, is_live=False) as one:
        with conducted(story.folder):
            story.note(Event.CONDUCTING, 1_400, pid=2)
            story.note(Event.SMOKING, 1_401, place="local", type="claude", number=1, agent_id="agent-7", name="smoke-7")
            await one.goes_on()
            await one.until(lambda: "● trying one agent first" in one.head, "the smoke agent")
            says = "it did not get its prompt\n  | [bold]Make auto mode your default?"
            story.note(Event.SMOKED, 1_420, place="local", number=1, ok=False, seconds=19.0, says=says)
            story.note(Event.LEFT, 1_421, why="smoke")
            await one.goes_on()
        await one.until(lambda: "no conductor" in one.head, "the conductor's end")
        failed = one.screen.problems[0]
        assert failed.title == "The smoke agent on local failed", "the cause of the end comes first"
        assert "[bold]Make auto mode your default?" in failed.detail
        assert "selftest-tui doctor" in failed.hint


async def test_a_small_terminal_has_the_right_pane_a_key_away(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path), size=(80, 24)) as one:
        assert not one.screen.is_zoomed
        assert "? help" in one.key_line
        assert "launched 81/96" in one.head
        compare("run-small", await one.picture())
        await one.press("1")
        assert one.screen.pane_is_open
        await one.press("d", "d")
        assert not one.screen.is_zoomed, "asking again for what is shown closes it"


async def test_a_wide_terminal_has_more_columns(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path), size=(250, 70)) as one:
        assert {"commits", "host", "agent"} <= set(one.lines[0].split())
        assert "✓ 42 succeeded" in one.head
        assert any("modal" in line for line in one.lines)
        compare("run-wide", await one.picture())


async def test_what_agents_used_is_shown_in_all_and_for_each(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 3, usd_per_agent=None)
    told.note(Event.CONDUCTING, 0, pid=1)
    for number, usage in enumerate((Usage(1, 2, 3, 4, 0.25, Label.METERED, "m"), Usage(1, 1, 1, 1, None))):
        told.launch(number, 0.0)
        row = told.row(number)
        told.note(Event.METERED, 5.0, agent=row.name, attempt=1, usage=as_fields(usage))
        told.end(number, 9.0, End.SUCCEEDED)
    async with shown(told, size=(200, 40)) as one:
        assert "~$0.25" in one.head, "the price of the second is not known"
        assert any("cost" in line and "commits" in line for line in one.lines)
        assert sum("$0.25" in line for line in one.lines[2:]) == 1


async def test_states_can_be_told_apart_without_colour(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path), theme="textual-light", size=(140, 130)) as one:
        signs = {line.lstrip()[:1] for line in one.lines[1:] if line.startswith("  ")}
        assert {"◆", "✗", "⊘", "●", "◌", "…", "✓", "="} <= signs
        assert {"█", "▒", "░"} <= set(one.head)


async def test_hostile_words_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    async with shown(run_scenes.hostile(tmp_path)) as one:
        for name in one.story.run.rows:
            await one.go_to(name)
            await one.until(lambda: one.screen.pane.collected is not None, "what came back")
        await one.press("4", "p", "d", "1")
        svg = await one.picture()
        assert not [character for character in svg if ord(character) < 32 and character != "\n"]
        assert "\u202e" not in svg
        assert any("[bold red]markup" in line for line in one.lines), "markup is shown, not obeyed"
        assert "<script>" in one.screen.pane.markdown
        shown_text = "\n".join(text_of(svg))
        assert "<script>x" in shown_text, "HTML is text"


async def test_a_report_of_ten_thousand_paragraphs_costs_no_more_than_a_long_one(tmp_path: Path) -> None:
    story = run_scenes.story(tmp_path, 1)
    story.note(Event.CONDUCTING, 0, pid=1)
    story.launch(0, 1.0)
    huge = {**run_scenes.FIXED, "summary_markdown": "a\n\n" * 10_000 + "| x " * 50_000}
    story.end(0, 10.0, End.SUCCEEDED, outcome=huge)
    async with shown(story) as one:
        await one.go_to(story.plan.tests[0].agent_name)
        await one.until(lambda: "where the whole file is" in one.screen.pane.markdown, "the cut report")
        await one.picture()
        assert len(str(one.screen.pane.query_one(Report).visual)) < 40_000


async def test_a_thousand_tests(tmp_path: Path) -> None:
    story = run_scenes.halfway(tmp_path, 1_000)
    async with shown(story, view=scenes.empty().view) as one:
        assert len(one.table.shown.group_of) == 1_000
        await one.press("G")
        assert one.table.cursor == len(one.table.shown.lines) - 1
        assert one.table.scroll_offset.y > 900
        before, number = one.table.shown, _working(story)
        story.asks(number, 1_499, "it asks something else")
        await one.goes_on()
        assert one.table.shown is not before
        assert one.table.cursor == len(one.table.shown.lines) - 1
        assert one.table.row is not None


def _working(story: run_scenes.Story) -> int:
    rows = story.run.rows
    return next(at for at, test in enumerate(story.plan.tests) if rows[test.agent_name].phase == "working")


def test_only_what_looks_different_is_painted_again(tmp_path: Path) -> None:
    story = run_scenes.halfway(tmp_path, 1_000)
    before, number = lay_out(story.run), _working(story)
    story.note(Event.PULLING, 1_499, agent=story.row(number).name, attempt=story.row(number).attempt, stamp="1")
    after = lay_out(story.run)
    assert [after.lines[place] for place in changed_places(before, after)] == [story.row(number)]
    assert list(changed_places(after, lay_out(story.run))) == []


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        (run_scenes.RED, "failed: AssertionError: assert 107.00 == 106.99"),
        ("E   ValueError: no\nE   \nE   Use -v to get more diff\n1 failed", "failed: ValueError: no"),
        ("Segmentation fault\n\n", "failed: Segmentation fault"),
        ("\x1b[31mE   [red]evil", "failed: [red]evil"),
        ("", "failed"),
    ],
)
def test_of_a_failure_the_line_that_tells_most_is_shown(tmp_path: Path, text: str, tells: str) -> None:
    story = run_scenes.story(tmp_path, 1)
    story.launch(0, 1.0)
    story.fail(0, 2.0, End.RED, text, "test")
    assert said_of(story.row(0)) == tells


async def test_a_run_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    story = run_scenes.over(tmp_path)
    story.write()
    (story.folder.path / "plan.json").write_text("{}")
    async with driven(scenes.few().view) as fleet:
        fleet.app.show_run(story.folder)
        await fleet.until(lambda: isinstance(fleet.app.screen, RunScreen), "the run's screen")
        screen = fleet.app.screen
        assert isinstance(screen, RunScreen)
        await fleet.until(lambda: screen.problems, "why")
        assert "cannot be read" in screen.problems[0].title
        assert any("cannot be read" in line for line in screen.table.placeholder)
        await press(fleet.app, "down", "enter", "m", "r", "H", "Q", "1", "d", "4", "p", "slash", "escape", "tab")
        assert fleet.app.is_running


async def test_the_run_of_an_agent_is_a_key_away_and_back(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path)) as one:
        working = next(name for name, row in one.story.run.rows.items() if row.phase == "working")
        await one.go_to(working)
        await one.press("f")
        fleet = one.fleet.screen
        assert one.top is fleet
        assert fleet.table.row is not None
        assert fleet.table.row.agent.name == working, "on the same agent"
        one.fleet.app.show_run(one.story.folder)
        await one.until(lambda: one.top is one.screen, "the run again")
        assert one.table.row is not None
        assert one.table.row.name == working, "as it was left"
        await one.press("escape")
        assert one.top is fleet


async def test_the_recording_of_a_red_test_opens_where_it_failed(tmp_path: Path) -> None:
    story = run_scenes.story(tmp_path, 1)
    story.note(Event.CONDUCTING, 0, pid=1)
    story.launch(0, 1.0)
    member = story.row(0).member
    assert member is not None
    folder = story.folder.attempt(member)
    folder.mkdir(parents=True)
    events = [(1.0, "o", "$ "), (8.0, "m", "pytest: 1 failed"), (9.0, "m", "pytest: 5 passed"), (20.0, "o", "bye")]
    write_cast(folder / "terminal.cast", Header(3, 20, 4, timestamp=1_800_000_000), events)
    story.fail(0, 30.0, End.RED, "1 failed", "test")
    async with shown(story, is_live=False) as one:
        await one.go_to(story.plan.tests[0].agent_name)
        await one.press("r")
        await one.until(lambda: isinstance(one.top, ReplayScreen), "the recording")
        replay = one.top
        assert isinstance(replay, ReplayScreen)
        player = replay.player
        await one.until(lambda: player.time == 8.0, "the red run, not the green one of other tests after it")
        await one.press("escape")
        assert one.top is one.screen


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_help_has_every_key_and_every_symbol(tmp_path: Path, size: tuple[int, int]) -> None:
    async with shown(run_scenes.over(tmp_path), size=size, is_live=False) as one:
        await one.press("question_mark")
        page = one.top
        assert isinstance(page, Page)
        lines = {line for section in page.sections for line in section.lines}
        assert {(key.shows, key.help) for key in one.screen.KEYS.rows} <= lines
        assert {"◆", "◔", "✗", "⊘", "✓", "=", "●"} <= {term for term, _ in lines}


async def test_an_agent_that_the_fleet_does_not_see_is_no_error(tmp_path: Path) -> None:
    async with shown(run_scenes.halfway(tmp_path, 24), view=replace(scenes.empty().view)) as one:
        working = next(name for name, row in one.story.run.rows.items() if row.phase == "working")
        await one.go_to(working)
        await one.press("p", "enter")
        assert "There is no terminal to attach to" in one.toasts


async def test_of_an_agent_that_has_ended_the_last_screen_is_shown(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 3)
    for number in range(3):
        told.launch(number, 10.0)
        told.end(number, 100.0, End.SUCCEEDED)
    member = told.row(0).member
    assert member is not None
    recording = live_recording(told.folder, member)
    recording.parent.mkdir()
    write_cast(recording, Header(3, 60, 12), [(0.5, "o", "\x1b[31mFAILED\x1b[0m test_cart\r\n"), (1.0, "o", "the end")])
    view = scenes.many(3).view
    rows = tuple(replace(row, session=None, pane_id=None, category=Category.STOPPED) for row in view.rows)
    environ = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    async with shown(told, view=replace(view, rows=rows), is_live=False, environ=environ) as one:
        await one.go_to(told.row(0).name)
        await one.until(
            lambda: one.screen.pane.collected is not None and one.screen.pane.collected.screen, "what was kept"
        )
        await one.press("p")  # it was hidden when it was given its lines
        preview = one.screen.pane.query_one(Preview)

        def lines() -> list[str]:
            return [preview.render_line(y).text.rstrip() for y in range(preview.size.height)]

        await one.until(lambda: lines()[:2] == ["FAILED test_cart", "the end"], "the last frame of its recording")
        await one.go_to(told.row(1).name)
        await one.until(lambda: "its terminal was not recorded" in " ".join(lines()), "no recording")
        assert "another machine" not in " ".join(lines())
