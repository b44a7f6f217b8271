"""The review of a run that is still going: evidence beside each change, arrivals under a title of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import run_scenes
from core.review.changes.test_inputs import a_run, arrive, pass_the_gate
from core.review.desks import make_desk
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.run.plan.plan import TaskFile
from selftest_core.run.store import RequestKind, RunFolder
from selftest_tui.replay.screen import ReplayScreen
from selftest_tui.review.lines import NEW, ReviewGroup
from selftest_tui.shared.dialogs.composer import Composer
from tui.review.review_driving import reviewing
from tui.run.run_driving import conducted

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_tui.replay.player import Player
    from tui.review.review_driving import Reviewing

pytestmark = pytest.mark.slow  # whole screens over a real repository

_RECORDING = '{"version": 2, "width": 20, "height": 4}\n[0.1, "o", "hello"]\n[0.2, "m", "commit: Mend a"]\n'


async def test_a_live_run_with_its_evidence_and_what_arrives(tmp_path: Path) -> None:
    desk = make_desk(tmp_path / "a desk")
    story = a_run(desk)
    name = story.plan.tests[0].agent_name
    row = story.run.rows[name]
    assert row.member is not None
    folder = story.folder.attempt(row.member)
    folder.joinpath("terminal.cast").write_text(_RECORDING)
    async with reviewing(desk, Request(run=story.plan.run)) as one:
        assert "agents still at work" in one.head
        await one.go_to("Mend a")
        assert any("✔" in line and "Mend a" in line for line in one.lines), "its agent's word, not ours"
        await one.press("3")
        said = one.pane.text_of("evidence")
        assert str(run_scenes.FIXED["summary_markdown"]).splitlines()[0] in said
        assert "test_redirect claimed" in said
        assert "recording (r plays it)" in said
        assert "claimed ✔ 1 test" in one.pane.text_of("headline")
        await one.press("y", "r")
        await one.until(lambda: isinstance(one.top, ReplayScreen), "the recording")
        one.fleet.app.pop_screen()
        await one.until(lambda: one.top is one.screen, "back")
        arrive(desk, story, 1, "eve", "critical")
        await one.press("R")
        await one.until(lambda: any(row.is_new for row in one.screen.rows), "what arrived")
        groups = [line for line in one.table.shown.lines if isinstance(line, ReviewGroup)]
        assert [(group.key, len(group.members)) for group in groups if group.key == NEW] == [(NEW, 2)]
        assert "2 new" in one.head
        kept = [row for row in one.screen.rows if name in row.change.agents and row.number]
        assert [row.decision for row in kept] == [Decision.KEEP], "decisions stay"


async def test_what_writers_wrote_is_published_with_what_the_tutorial_then_lacks(tmp_path: Path) -> None:
    desk = make_desk(tmp_path / "a desk")
    desk.git("checkout", "-q", "-b", "kit", "main")
    desk.commit("[CREATE_TEST] Begin", {"tutorial.sh": "./shop\n", "tests/test_new.py": "def test_new(): assert 1\n"})
    desk.git("checkout", "-q", "main")
    told = run_scenes.a_plan(1, repository=str(desk.folder), base=desk.git("rev-parse", "main"), role="writer")
    task = replace(told.tests[0], files=(TaskFile("task.json", '{"tutorial": "tutorial.sh", "tests": "tests"}'),))
    runs = desk.folder / ".selftest" / "runs"
    story = run_scenes.Story(replace(told, tests=(task,)), RunFolder(runs / told.run))
    pass_the_gate(desk, story, ["kit"])
    story.write()
    async with reviewing(desk, Request(run=told.run)) as one:
        await one.press("home", "y", "P", "enter")
        await one.until(lambda: one.top is not one.screen, "the question")
        await one.press("y")
        await one.until(
            lambda: "1 uncited block, 0 tests with a stale citation" in " ".join(one.toasts.split()), "what it lacks"
        )


async def test_a_note_on_a_hunk_goes_back_to_its_author_who_goes_on(tmp_path: Path) -> None:
    desk = make_desk(tmp_path / "a desk")
    story = a_run(desk)
    name = story.plan.tests[0].agent_name
    async with reviewing(desk, Request(run=story.plan.run)) as one:
        await one.go_to("Mend a")
        with conducted(story.folder):
            await one.press("m")
            await one.until(lambda: isinstance(one.top, Composer), "the note")
            assert isinstance(one.top, Composer)
            assert str(one.top.query_one("#dialog").border_title) == f"Answer {story.plan.tests[0].node_id}"
            await one.press(*"Why?", "enter")
            await one.until(story.folder.requests, "the request")
            await one.until(lambda: "goes on" in one.toasts, "what happens")
    ((_, request),) = story.folder.requests()
    assert (request.kind, request.test, request.attempt) == (RequestKind.ANSWER, name, 1)
    # The path, the lines and the text.
    assert "About “Mend a”" in request.text
    assert "+++ src/a.py" in request.text
    assert "@@ -" in request.text
    assert request.text.endswith("+2\n\nWhy?")


BEGAN = 1_800_000_000


def _told(at: str, text: str, path: str = "", content: str = "") -> str:
    step: dict[str, object] = {
        "type": "step",
        "event_id": at,
        "timestamp": f"2027-01-15T08:{at}Z",
        "source": "agent",
        "message": text,
    }
    if path:
        arguments = {"file_path": f"/home/me/work/{path}", "content": content}
        step["tool_calls"] = [{"tool_call_id": path, "function_name": "Write", "arguments": arguments}]
    return json.dumps(step) + "\n"


async def _player(one: Reviewing) -> Player:
    await one.until(lambda: isinstance(one.top, ReplayScreen), "the recording")
    screen = one.top
    assert isinstance(screen, ReplayScreen)
    return screen.player


async def test_a_hunk_leads_to_its_moment_in_the_recording_and_back(tmp_path: Path) -> None:
    desk = make_desk(tmp_path / "a desk")
    desk.git("checkout", "-q", "ada")
    desk.commit("[FIX_IMPL] Two places", {"src/c.py": "first = 1\n", "src/d.py": "second = 2\n"}, "ada")
    desk.git("checkout", "-q", "main")
    story = a_run(desk)
    name = story.plan.tests[0].agent_name
    member = story.run.rows[name].member
    assert member is not None
    folder = story.folder.attempt(member)
    lines = (
        [4.0, "o", "I begin"], [21.0, "o", "\r\nfirst"], [30.0, "m", "pytest: 1 failed"], [61.0, "o", "\r\nsecond"],
        [70.0, "o", "\r\nthe end"],
    )  # fmt: skip
    header = {"version": 2, "width": 20, "height": 4, "timestamp": BEGAN}
    (folder / "terminal.cast").write_text("".join(f"{json.dumps(line)}\n" for line in (header, *lines)))
    (folder / "conversation.txt").write_text("said")
    told = (
        _told("00:20.500", "One place \x1b[31mis\x1b[0m wrong.", "src/c.py", "first = 1\n"),
        _told("01:01.500", "So is [bold]another.", "src/d.py", "second = 2\n"),
        _told("01:05.000", "Both are right now."),
    )
    (folder / "conversation.jsonl").write_text("".join(told))
    async with reviewing(desk, Request(run=story.plan.run)) as one:
        await one.go_to("Two places")
        await one.press("3")
        await one.until(lambda: "how the selected hunk" in one.pane.text_of("evidence"), "the words of the first hunk")
        assert "One place is wrong." in one.pane.text_of("evidence")
        await one.press("1", "full_stop")
        selected = one.diff.here
        await one.press("3")
        await one.until(lambda: "So is [bold]another." in one.pane.text_of("evidence"), "the words of the second")
        said = one.pane.text_of("evidence")
        assert said.index("So is [bold]another.") < said.index("Write: /home/me/work/src/d.py") < said.index("Both are")
        assert "r plays terminal.cast at 1:01" in said
        await one.press("1", "r")
        player = await _player(one)
        await one.until(lambda: player.time == 61.5, "the moment of the second hunk")
        assert player.view.text().splitlines()[:3] == ["I begin", "first", "second"]
        await one.press("escape")
        assert one.top is one.screen
        assert (one.diff.here, one.pane.tab) == (selected, "diff")
        await one.press("6", "r")
        player = await _player(one)
        await one.until(lambda: player.time == 30.0, "the agent's own red run")
