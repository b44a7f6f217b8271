"""The review of a run that is still going: evidence beside each change, arrivals under a title of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import run_scenes
from core.review.changes.test_inputs import a_run, arrive
from core.review.desks import make_desk
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_tui.replay.screen import ReplayScreen
from selftest_tui.review.lines import NEW, ReviewGroup
from tui.review.review_driving import reviewing

if TYPE_CHECKING:
    from pathlib import Path

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
