"""What a run spent and may spend: by its meter where there is one, else by the estimate."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import run_scenes
from core.run.rehearsals import a_rehearsal, assert_told_rightly
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Event
from selftest_core.run.log_lines import summary_lines
from selftest_core.run.meter import RunMeter
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import RestingTest, Suite
from selftest_core.run.spending import Affordable, affordable, spending, usd_each, used_by
from selftest_core.schema.run import run_summary
from selftest_core.usage.tokens import Label, Usage, as_fields, from_fields
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

METERED = Usage(10, 20, 30, 40, 0.25, Label.METERED, "m")


def meter(told: run_scenes.Story, number: int, seconds: float, usage: Usage) -> None:
    """The line that says what the agent of a test used."""
    row = list(told.run.rows.values())[number]
    told.note(Event.METERED, seconds, agent=row.name, attempt=row.attempt, usage=as_fields(usage))


def test_what_is_written_is_read_and_hostile_figures_are_not() -> None:
    for usage in (METERED, Usage(), Usage(usd=0.0, label=Label.ESTIMATED)):
        assert from_fields(as_fields(usage)) == usage
    assert from_fields(None) is None
    assert from_fields([]) is None
    hostile: dict[str, Any] = {"input": -1, "cached": 1e300, "output": "7", "usd": float("nan"), "label": "free"}
    assert from_fields(hostile) == Usage(label=Label.IMPUTED)
    assert from_fields({"usd": 10**400, "label": "free"}) == Usage(label=Label.IMPUTED)
    assert from_fields({"usd": 1e300, "label": ["metered"], "model": 3}) == Usage(label=Label.IMPUTED)


def test_each_attempt_counts_once_and_the_last_figure_of_it(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 3, usd_per_agent=None)
    told.note(Event.CONDUCTING, 0, pid=1)
    told.launch(0, 0.0)
    meter(told, 0, 1.0, Usage(1, 1, 1, 1, 0.01, Label.METERED, "m"))
    meter(told, 0, 2.0, METERED)
    row = next(iter(told.run.rows.values()))
    told.note(Event.RETRYING, 3.0, agent=row.name, attempt=1, reason="lost", text="gone")
    assert next(iter(told.run.rows.values())).usage is None
    assert spending(told.run).usage == METERED
    told.launch(0, 4.0)
    meter(told, 0, 5.0, METERED)
    told.end(0, 6.0, End.SUCCEEDED)
    row = next(iter(told.run.rows.values()))
    assert used_by(row) == Usage(20, 40, 60, 80, 0.5, Label.METERED, "m")
    assert spending(told.run).by_label == {Label.METERED: 0.5}
    assert summary_lines(told.run)[-1] == "used 0.50 USD metered, 200 tokens"
    summary = run_summary(told.run, 0.0)
    assert summary.usage is not None
    assert summary.usage.model_dump() == {
        "input": 20, "cached": 40, "cache_write": 60, "output": 80, "usd": 0.5, "label": "metered", "model": "m",
        "by_label": {"metered": 0.5},
    }  # fmt: skip


def test_the_summary_tells_the_tests_beside_those_of_the_run(tmp_path: Path) -> None:
    suite = Suite(resting=(RestingTest("t::a", "green", 1),), since="20261120-0200-7f3a", grown=("t::b", "t::c"))
    lines = summary_lines(run_scenes.story(tmp_path, 1, suite=suite).run)
    assert "1 further test had no agent: at rest" in lines
    assert "2 tests new and 0 gone since run 20261120-0200-7f3a" in lines


def test_what_is_metered_and_what_is_estimated_are_kept_apart(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 3, usd_per_agent=1.0)
    told.note(Event.CONDUCTING, 0, pid=1)
    for number in range(2):
        told.launch(number, 0.0)
    meter(told, 0, 1.0, METERED)
    for number in range(2):
        told.end(number, 2.0, End.SUCCEEDED)
    spent = spending(told.run)
    assert spent.by_label == {Label.METERED: 0.25, Label.ESTIMATED: 1.0}
    assert spent.usage is not None
    assert (spent.usd, spent.usage.label) == (1.25, Label.ESTIMATED)
    assert usd_each(told.run) == 0.25


@pytest.mark.parametrize(
    ("budget", "says"), [(0.9, Affordable.YES), (0.7, Affordable.WAIT), (0.5, Affordable.NO), (None, Affordable.YES)]
)
def test_the_budget_counts_what_was_metered_and_what_running_agents_may_take(
    tmp_path: Path, budget: float | None, says: Affordable
) -> None:
    told = run_scenes.story(tmp_path, 4, usd_per_agent=5.0, budget_usd=budget, agent_type="claude", agent_command=None)
    told.note(Event.CONDUCTING, 0, pid=1)
    told.launch(0, 0.0)
    meter(told, 0, 1.0, METERED)
    told.end(0, 2.0, End.SUCCEEDED)
    told.launch(1, 3.0)
    row = list(told.run.rows.values())[1]
    assert row.member is not None
    # 0.25 spent by the first, 0.05 by the second until now, of the 0.25 that it is expected to take; 0.25 for the next.
    live = {row.member.agent_id: Usage(1, 1, 1, 1, 0.05, Label.METERED, "m")}
    assert affordable(told.run, Policy(), live) is says


def test_a_budget_without_any_figure_lets_the_first_ones_start(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 2, usd_per_agent=None, budget_usd=0.2, agent_type="claude", agent_command=None)
    told.note(Event.CONDUCTING, 0, pid=1)
    assert affordable(told.run, Policy()) is Affordable.YES
    told.launch(0, 0.0)
    meter(told, 0, 1.0, METERED)
    assert affordable(told.run, Policy()) is Affordable.NO
    assert affordable(told.run, Policy(budget_usd=5.0)) is Affordable.YES


def test_smoke_agents_count(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 1, usd_per_agent=1.0, agent_type="claude", agent_command=None)
    told.note(Event.SMOKING, 0, place="local", type="claude", number=1, agent_id="agent-s", name="smoke")
    told.note(Event.SMOKED, 1, place="local", number=1, ok=True, seconds=9.0, says="", usage=as_fields(METERED))
    told.note(Event.SMOKING, 2, place="boxes", type="claude", number=1, agent_id="agent-t", name="smoke")
    told.note(Event.SMOKED, 3, place="boxes", number=1, ok=True, seconds=9.0, says="")
    assert spending(told.run).by_label == {Label.METERED: 0.25, Label.ESTIMATED: 1.0}
    summary = run_summary(told.run, 0.0)
    assert [item.usage is not None for item in summary.smoke] == [True, False]
    assert affordable(told.run, Policy(budget_usd=2.25)) is Affordable.YES
    assert affordable(told.run, Policy(budget_usd=2.0)) is Affordable.NO


def test_a_conductor_writes_down_what_its_agents_used(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path / "run", tests=2, agent_type="claude", agent_command=None)
    used, unmetered = rehearsal.plan.tests
    transcript = tmp_path / "agents" / used.agent_id / "events" / "claude" / "common_transcript" / "events.jsonl"
    transcript.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / "tests/fixtures/claude/2.1.330/common_transcript/work.jsonl", transcript)
    rehearsal.meter = RunMeter({"MNGR_HOST_DIR": str(tmp_path)})

    assert rehearsal.conduct() == "done"

    usage = rehearsal.run.rows[used.agent_name].usage
    assert usage is not None
    assert (usage.output, usage.label) == (202, Label.METERED)
    assert rehearsal.run.rows[unmetered.agent_name].usage is None
    events = [entry.event for entry in rehearsal.ledger.entries if entry.fields.get("agent") == used.agent_name]
    assert events.index("metered") < events.index("ended")
    # The other one is elsewhere: its conversation was fetched, the second time without its beginning.
    meter, member = rehearsal.meter, rehearsal.run.rows[unmetered.agent_name].member
    assert member is not None
    conversation = rehearsal.folder.attempt(member) / "conversation.jsonl"
    shutil.copyfile(transcript, conversation)
    asyncio.run(meter.read((member,), rehearsal.folder))
    assert meter.latest[member.agent_id] == usage
    conversation.write_bytes(b"".join(conversation.read_bytes().splitlines(keepends=True)[4:]))
    asyncio.run(meter.read((member,), rehearsal.folder))
    cut = meter.latest[member.agent_id]
    assert (cut.output, cut.label) == (167, Label.IMPUTED)
    assert_told_rightly(rehearsal.plan, rehearsal.ledger.entries)
