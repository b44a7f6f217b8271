"""The number of agents at a time: within its bounds whatever happens, down in trouble, up again after it, and kept."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.run.plan.test_offer import an_offer, said
from core.run.rehearsals import a_plan, a_rehearsal
from selftest_core.journal import Entry
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Event
from selftest_core.run.fold import Level, fold
from selftest_core.run.log_lines import log_line, summary_lines
from selftest_core.run.pace.adapting import QUIET, SETTLE, Adapter, Signs, sweet_spot
from selftest_core.run.pace.sweet_spots import keep_found, kept_sweet_spot
from selftest_core.schema.run import run_summary
from selftest_core.schema.run_plan import offer_document
from simulated.clock import EPOCH
from simulated.crew import Role, SimulatedAgent, SimulatedCrew

if TYPE_CHECKING:
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.run.fold import Run

STEPS = st.lists(
    st.tuples(
        st.floats(0.1, 90.0),  # seconds until then
        st.integers(-4, 4),  # agents beyond the number, or fewer
        st.integers(0, 10),  # rate-limited ones
        st.sampled_from((0.0, 1.0, 3.0, 9.0)),  # load
        st.sampled_from(("", "ok", "failed", "timeout")),  # the result of a launch
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS, start=st.integers(1, 40), most=st.integers(1, 40))
def test_it_never_starves_never_exceeds_and_recovers(
    steps: list[tuple[float, int, int, float, str]], start: int, most: int
) -> None:
    adapter = Adapter(start, most, 0.0)
    at, cut_at = 0.0, -1e9
    for seconds, more, limited, load, launch in steps:
        at += seconds
        before, running = adapter.limit, max(0, adapter.limit + more)
        if launch:
            adapter.note_launch(is_ok=launch == "ok", is_timeout=launch == "timeout")
        reason = adapter.decide(Signs(running, min(limited, running), load), at)
        assert 1 <= adapter.limit <= most
        assert bool(reason) is (adapter.limit != before)
        if adapter.limit < before:
            assert at - cut_at >= SETTLE
            assert running <= before  # the last decrease has taken effect
            cut_at = at
        else:
            assert adapter.limit - before in (0, 1)
    for _ in range(10):
        adapter.note_launch(is_ok=True)
    for _ in range(most):
        at += SETTLE
        adapter.decide(Signs(adapter.limit), at)
    assert adapter.limit == most


@pytest.mark.parametrize(
    ("signs", "launches", "reason", "limit"),
    [
        (Signs(16, limited=4), "", "4 of 16 agents are rate limited", 12),
        (Signs(10, limited=3), "", "3 of 10 agents are rate limited", 7),
        (Signs(16, limited=15), "", "15 of 16 agents are rate limited", 8),
        (Signs(1, limited=1), "", "1 of 1 agents are rate limited", 1),
        (Signs(16, load=4.5), "", "the load is 4.5 for each core", 8),
        (Signs(16), "t", "a launch timed out", 8),
        (Signs(16), "xoooox", "2 of the last 6 launches failed", 8),
        (Signs(16, limited=3, load=3.9), "xoooooooooox", "", 16),  # few, and one long ago
    ],
)
def test_rare_trouble_is_no_trouble_and_more_of_it_leaves_what_works_or_half(
    signs: Signs, launches: str, reason: str, limit: int
) -> None:
    adapter = Adapter(16, 16, 0.0)
    for one in launches:
        adapter.note_launch(is_ok=one == "o", is_timeout=one == "t")
    assert adapter.decide(signs, 1.0) == reason
    assert adapter.limit == limit


def test_a_decrease_is_judged_a_minute_after_it_took_effect() -> None:
    adapter = Adapter(16, 16, 0.0)
    assert adapter.decide(Signs(16, limited=16), 1.0)
    for seconds in (100.0, 200.0):
        assert adapter.decide(Signs(12, limited=12), seconds) == ""  # agents of the time before are still at work
    assert adapter.decide(Signs(8, limited=8), 200.0 + SETTLE - 1) == ""
    assert adapter.limit == 8
    assert adapter.decide(Signs(8, limited=8), 200.0 + SETTLE)
    assert adapter.limit == 4


def test_the_number_stays_at_what_a_provider_bears() -> None:
    adapter = Adapter(60, 60, 0.0)
    limits = []
    for minute in range(1, 200):
        adapter.decide(Signs(adapter.limit, limited=max(0, adapter.limit - 20)), 60.0 * minute)
        limits.append(adapter.limit)
    assert limits[:2] == [30, 20]
    assert (min(limits), max(limits[2:])) == (20, 26)


def test_a_load_that_is_almost_too_high_keeps_the_number_where_it_is() -> None:
    adapter = Adapter(4, 8, 0.0)
    assert adapter.decide(Signs(4, load=3.0), QUIET + 1) == ""
    assert adapter.decide(Signs(3), QUIET + 1) == ""  # nobody needs more
    assert adapter.decide(Signs(4), QUIET + 1) == "no trouble for 30 s"


def test_the_sweet_spot_is_the_average_since_the_first_decrease_and_survives_a_clock_that_jumps() -> None:
    def curve(*levels: tuple[float, int]) -> tuple[Level, ...]:
        return tuple(Level(at, limit, "") for at, limit in levels)

    assert sweet_spot(curve((0, 20)), 100.0) is None
    assert sweet_spot(curve((0, 8), (50, 9), (90, 10)), 100.0) == 10
    assert sweet_spot(curve((0, 20), (100, 10), (160, 5)), 200.0) == 8
    assert sweet_spot(curve((0, 20), (100, 10), (-9e9, 5)), -9.1e9) == 5


CAPACITY = 6


class Crowded(SimulatedCrew):
    """A provider that turns away the newest agents, all beyond CAPACITY."""

    def _screen(self, agent: SimulatedAgent) -> str:
        live = sorted(self.world.live(self.clock.passed), key=lambda one: one.there_at)
        return "API Error: Rate limit reached\n" if agent in live[CAPACITY:] else super()._screen(agent)


def crowded(folder: Path, **changes: Any) -> Rehearsal:
    rehearsal = a_rehearsal(
        folder, [Role.SUCCEEDS] * 120, policy=Policy(poll=2.0), max_running=24, launch_rate=5.0, adapt=True, **changes
    )
    rehearsal.crew = Crowded
    return rehearsal


def test_a_run_finds_what_its_provider_bears_and_tells_each_change(tmp_path: Path) -> None:
    rehearsal = crowded(tmp_path)
    told: list[str] = []

    def check(run: Run, entry: Entry) -> None:
        if entry.event == Event.LAUNCHING:
            assert run.running <= run.at_once
        if entry.event == Event.ADAPTED:
            told.append(log_line(run, entry))

    assert rehearsal.conduct(seconds=240.0, on_change=check) is None
    assert rehearsal.run.at_once < 24
    level = rehearsal.run.at_once
    assert rehearsal.conduct(on_change=check) == "done"  # the next conductor goes on from there
    run = rehearsal.run
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    lines = [entry for entry in rehearsal.ledger.entries if entry.event == Event.ADAPTED]
    assert len(run.curve) == len(lines) + 1 == len(told) + 1
    assert run.curve[0].limit == 24
    assert all(1 <= one.limit <= 24 for one in run.curve)
    assert told[0].startswith(f"{run.curve[1].limit} at once from now on: ")
    assert "rate limited" in told[0]
    limits = [one.limit for one in run.curve]
    assert level in limits
    assert f"at once: 24 at first, {min(limits)} to 24, {limits[-1]} at the end" in summary_lines(run)
    shown = run_summary(run, EPOCH).model_dump(mode="json")["at_once"]
    assert [one["limit"] for one in shown] == limits
    assert shown[0]["reason"] == ""
    found = sweet_spot(run.curve, max(row.ended_at or 0.0 for row in run.rows.values()))
    assert found is not None
    assert CAPACITY / 2 <= found <= 2 * CAPACITY

    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    keep_found(run, environ)
    assert kept_sweet_spot("local", "command", environ) == found
    assert kept_sweet_spot("modal", "command", environ) == kept_sweet_spot("local", "claude", environ) == 0
    after = crowded(tmp_path / "after", start_running=found)
    after.conduct()
    assert after.run.curve[0].limit == found
    assert sum(one.limit for one in after.run.curve) / len(after.run.curve) < 24


def test_without_the_setting_the_number_stays(tmp_path: Path) -> None:
    rehearsal = crowded(tmp_path)
    rehearsal.plan = dataclasses.replace(rehearsal.plan, adapt=False, start_running=3)
    assert rehearsal.conduct() == "done"
    assert [one.limit for one in rehearsal.run.curve] == [24]
    assert rehearsal.world.most_at_once > 2 * CAPACITY


def test_what_is_kept_may_be_damaged_or_impossible_to_write(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    plan = a_plan(1, adapt=True, max_running=8)

    def a_run(*limits: int) -> Run:
        about = {"agent": plan.tests[0].agent_name, "attempt": 0}
        events = [Entry(1, 0.0, "conducting", {}), Entry(2, 900.0, "ended", {**about, "end": "not_started"})]
        more = [Entry(n, 100.0 * n, "adapted", {"limit": limit}) for n, limit in enumerate(limits, start=3)]
        return fold(plan, [*events, *more])

    place = tmp_path / "state" / "selftest-tui" / "at-once.json"
    place.parent.mkdir(parents=True)
    for text in (
        "{",
        "[]",
        "[" * 100_000,
        '{"local": 3}',
        '{"local": {"command": true}}',
        '{"local": {"command": -1}}',
        "\xff",
    ):
        place.write_text(text, encoding="latin-1")
        assert kept_sweet_spot("local", "command", environ) == 0
        keep_found(a_run(4, 3), environ)
        assert kept_sweet_spot("local", "command", environ) == 3
    keep_found(a_run(), environ)
    assert kept_sweet_spot("local", "command", environ) == 3
    keep_found(a_run(99), environ)  # cut to the maximum of this run: another one may have a higher one
    assert json.loads(place.read_text()) == {"local": {"command": 8}}
    place.unlink()
    place.parent.rmdir()
    place.parent.write_text("a file where the folder should be")
    keep_found(a_run(4), environ)
    assert kept_sweet_spot("local", "command", environ) == 0


def test_the_plan_says_with_how_many_it_starts_and_that_it_adapts() -> None:
    offer = an_offer(3, max_running=20, adapt=True, start_running=8)
    assert "20 at once, 8 at first, as earlier runs found, at most 1 launched per second" in said(offer)["limits"]
    assert "the number at once goes down on rate limits, failing launches and load" in said(offer)["limits"]
    document = offer_document(offer)
    assert (document.max_running, document.start_running, document.adapt) == (20, 8, True)
    fixed = an_offer(3, max_running=20)
    assert "at first" not in said(fixed)["limits"]
    assert (offer_document(fixed).start_running, offer_document(fixed).adapt) == (None, False)
