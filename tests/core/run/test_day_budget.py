"""The budget of a day: what counts, what the plan says about it, and that no run goes beyond it."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.run.plan.test_offer import SIZE, an_offer
from core.run.rehearsals import POLL, a_plan, a_rehearsal
from selftest_core.journal import Entry, encode
from selftest_core.run.budget.day import Day, DaySpent, day_of
from selftest_core.run.budget.ledger import DayLedger
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.plan.estimates import Typical, estimate
from selftest_core.run.plan.offer import Offer, offer_parts
from selftest_core.run.plan.plan import plan_json
from selftest_core.schema.run_plan import offer_document
from selftest_core.usage.tokens import Label, Usage, as_fields
from simulated.clock import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOUR = 3600.0
METERED = Usage(100, 200, 300, 400, 0.5, Label.METERED, "m")


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the time zone of this process until the test ends."""
    before = os.environ.get("TZ")

    def set_zone(name: str) -> None:
        os.environ["TZ"] = name
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def write_run(repository: Path, run: str, launches: list[float], usage: Usage | None = METERED, **changes: Any) -> Path:
    """Write a run whose agents were launched at these times, and ended with this usage; returns its folder."""
    plan = a_plan(len(launches), run=run, repository=str(repository), created_at=min(launches), **changes)
    entries = [Entry(1, min(launches), "conducting", {"pid": 1})]

    def note(event: str, at: float, **fields: Any) -> None:
        entries.append(Entry(len(entries) + 1, at, event, fields))

    for test, at in zip(plan.tests, launches, strict=True):
        about: dict[str, Any] = {"agent": test.agent_name, "attempt": 1}
        note("launching", at, **about, agent_id=test.agent_id, name=test.agent_name)
        note("launched", at, **about, host_id="h", provider="local")
        if usage is not None:
            note("metered", at + 1, **about, usage=as_fields(usage))
        note("ended", at + 2, **about, end="succeeded", stage="work", text="", tip="", commits=0)
    folder = repository / ".selftest" / "runs" / run
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan_json(plan)))
    (folder / "journal.jsonl").write_bytes(b"".join(map(encode, entries)))
    return folder


def test_a_day_is_one_of_the_place_even_where_it_has_23_hours(zone: Callable[[str], None]) -> None:
    zone("Europe/Berlin")
    spring = day_of(1_774_760_000.0)  # 29 March 2026, when the clocks go forward
    assert spring.end - spring.start == 23 * HOUR
    assert time.localtime(spring.start)[:4] == (2026, 3, 29, 0)
    assert time.localtime(spring.end)[:4] == (2026, 3, 30, 0)
    assert day_of(spring.start) == day_of(spring.end - 1) == spring != day_of(spring.end)


def test_what_was_launched_since_midnight_counts_from_the_meter_else_as_estimated(
    tmp_path: Path, zone: Callable[[str], None]
) -> None:
    zone("UTC")
    midnight = day_of(EPOCH).start
    write_run(tmp_path, "20251008-2300-aaaa", [midnight - 60, midnight + 60, midnight + 70])
    write_run(tmp_path, "20251009-0100-bbbb", [midnight + HOUR], usage=None, usd_per_agent=2.0)
    write_run(tmp_path, "20251009-0200-cccc", [midnight + 2 * HOUR], usage=None)
    write_run(tmp_path, "20251007-0100-dddd", [midnight - 30 * HOUR])
    ledger = DayLedger(tmp_path)
    assert ledger.read(EPOCH) == DaySpent(Day(midnight, midnight + 24 * HOUR), 3.0, 2000, 2)
    assert DayLedger(tmp_path, without="20251009-0100-bbbb").read(EPOCH).usd == 1.0
    # A live run goes on, and what it writes is read.
    write_run(tmp_path, "20251009-0300-eeee", [midnight + 3 * HOUR])
    assert ledger.read(EPOCH).usd == 3.5


def test_a_run_of_a_wrong_clock_and_one_that_cannot_be_read_are_named_and_stop_nobody(
    tmp_path: Path, zone: Callable[[str], None]
) -> None:
    zone("UTC")
    write_run(tmp_path, "20261009-0900-aaaa", [EPOCH + 365 * 24 * HOUR])
    (write_run(tmp_path, "20251009-0900-bbbb", [EPOCH]) / "plan.json").write_text("{")
    write_run(tmp_path, "20251009-0900-cccc", [EPOCH])
    spent = DayLedger(tmp_path).read(EPOCH)
    assert (spent.usd, spent.runs) == (0.5, 1)
    broken, future = spent.problems
    assert broken.startswith("run 20251009-0900-bbbb cannot be read, so what it used today is not known: ")
    assert future == (
        "run 20261009-0900-aaaa is dated in the future: the clock was wrong when it started, or is wrong now; "
        "its usage does not count"
    )


def test_a_run_stops_launching_at_the_day_budget_and_goes_on_after_midnight(
    tmp_path: Path, zone: Callable[[str], None]
) -> None:
    zone("UTC")
    write_run(tmp_path, "20251009-0700-aaaa", [EPOCH - HOUR], usage=None, usd_per_agent=1.0)
    rehearsal = a_rehearsal(tmp_path / "run", tests=5, usd_per_agent=0.5, budget_day_usd=2.0)
    rehearsal.day = DayLedger(tmp_path, without=rehearsal.plan.run)
    assert rehearsal.conduct() == "budget"
    assert rehearsal.run.paused == "the day's budget of 2.00 USD is used up"
    assert len(rehearsal.world.creates) == 2  # 1.00 USD of the other run, and 0.50 USD each
    assert rehearsal.conduct() == "budget"
    assert len(rehearsal.world.creates) == 2
    rehearsal.clock_jump = 24 * HOUR
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    assert len(rehearsal.world.creates) == 5


def test_nothing_at_all_starts_on_a_day_whose_budget_is_used_up_until_it_is_raised(
    tmp_path: Path, zone: Callable[[str], None]
) -> None:
    zone("UTC")
    write_run(tmp_path, "20251009-0700-aaaa", [EPOCH - HOUR])
    rehearsal = a_rehearsal(
        tmp_path / "run", tests=2, agent_type="claude", agent_command=None, budget_day_tokens=1000, smoke=("local",)
    )
    rehearsal.world.is_interactive = True
    rehearsal.day = DayLedger(tmp_path, without=rehearsal.plan.run)
    assert rehearsal.conduct() == "budget"
    assert rehearsal.run.paused == "the day's budget of 1,000 tokens is used up"
    assert rehearsal.world.creates == []  # no smoke agent either
    rehearsal.policy = Policy(poll=POLL, budget_day_tokens=5000)
    assert rehearsal.conduct() == "done"


def offered(spent: DaySpent, usual: Typical | None = None, tests: int = 10, **changes: Any) -> Offer:
    plan = a_plan(tests, agent_type="claude", agent_command=None, **changes)
    return an_offer(tests, plan=plan, estimates=estimate(plan, SIZE, usual, spent=spent))


@pytest.mark.parametrize(
    ("usd", "tokens", "spent", "lines", "affordable"),
    [
        (20.0, 0, 4.0, ["used since midnight: 4.00 USD by 1 run", "pays for 32 agents", "into a day 4 times"], 32),
        (6.0, 0, 4.0, ["the rest pays for 4 of 10 agents: launching stops then", "fits into a day once"], 4),
        (2.0, 0, 0.0, ["the rest pays for 4 of 10 agents", "takes the budget of 2.5 days"], 4),
        (2.0, 0, 2.0, ["it is used up: no agent starts before midnight"], 0),
        (20.0, 30_000, 0.0, ["20.00 USD and 30,000 tokens;", "the rest pays for 28 agents", "a day 3 times"], 28),
    ],
)
def test_the_plan_says_how_many_agents_the_day_pays_for_and_how_often(
    usd: float, tokens: int, spent: float, lines: list[str], affordable: int
) -> None:
    usual = Typical(60.0, "the median", usd=0.5, usd_basis="metered", tokens=1000.0)
    before = DaySpent(day_of(EPOCH), spent, int(spent * 1000) or 2000, 1 if spent else 0)
    offer = offered(before, usual, budget_day_usd=usd, budget_day_tokens=tokens)
    text = "\n".join(line for part in offer_parts(offer) if part.word == "cost" for line in part.lines)
    for line in lines:
        assert line in text
    day = offer_document(offer).money.day
    assert day is not None
    assert (day.affordable, day.budget_usd, day.budget_tokens, day.spent_usd) == (
        affordable,
        usd,
        tokens or None,
        spent,
    )
    assert day.used_up is (affordable == 0)


def test_where_the_cost_of_an_agent_is_unknown_the_plan_says_so() -> None:
    before = DaySpent(day_of(EPOCH), problems=("run r cannot be read",))
    offer = offered(before, budget_day_usd=3.0)
    text = "\n".join(line for part in offer_parts(offer) if part.word == "cost" for line in part.lines)
    assert "how many agents it pays for is unknown: no earlier run was metered" in text
    assert "run r cannot be read" in text
    assert offer_document(offer).money.day is not None
    assert offer_document(an_offer(3)).money.day is None
