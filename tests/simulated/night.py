"""One night of three scheduled runs, in simulated time, in a real repository with real journals and reports.

    01:00  the provider flaps; a second scheduled run at once is skipped
    03:00  a rate limit; tests that the first run knows as green are red or crash, red ones are mended; the machine is
           restarted in the middle, which ends all its agents
    05:30  from a newer commit; the day's budget ends it early; a fourth one, at 06:00, is skipped if the rest of the
           budget pays for no agent; the next day pays for the rest of the tests

Agents, their roles, durations and prices are simulated; the rest is the product: the command's scheduling, conductors,
journals on the disk, the budget of the day, comparisons and reports. `make night` plays 300 agents, `make test` fewer.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from core.run.rehearsals import (
    POLL,
    Rehearsal,
    a_plan,
    assert_told_rightly,
    doubled,
    lost,
)
from selftest_core.compare.reading import compare_runs, previous_run
from selftest_core.compare.words import counts
from selftest_core.journal import read
from selftest_core.run.budget.day import day_of
from selftest_core.run.budget.ledger import DayLedger
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Event
from selftest_core.run.history.scheduled_log import scheduled_lines
from selftest_core.run.meter import RunMeter
from selftest_core.run.plan.estimates import estimate
from selftest_core.run.plan.offer import Offer, offered_tests
from selftest_core.run.plan.plan import PlannedTest
from selftest_core.run.plan.preparation import Prepared
from selftest_core.run.plan.source import look_at
from selftest_core.run.store import folder_of, make_run_folder
from selftest_core.usage.tokens import Usage
from selftest_recorder.report.writer import write_run_report
from selftest_tui.cli.command import DONE, Call
from selftest_tui.cli.runs.scheduled import run_scheduled
from simulated.clock import EPOCH
from simulated.crew import Role, SimulatedWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from selftest_core.compare.comparison import Comparison
    from selftest_core.run.fold import Member
    from selftest_core.run.store import RunFolder
    from worlds import World

MIDNIGHT = day_of(EPOCH).end - EPOCH
"""The first midnight of simulated time, in its seconds."""
HOUR = 3600.0
USD, TOKENS = 0.05, 30_000
"""Dollars and tokens of an agent; a dear one takes four times as much."""
_ODD = (
    Role.VANISHES_ONCE, Role.FAILS_TO_LAUNCH_ONCE, Role.STAYS_RED, Role.NEEDS_A_REMINDER, Role.BLOCKED,
    Role.WRITES_SLOWLY, Role.CRASHES, Role.HANGS,
)  # fmt: skip
"""Every tenth agent plays one of these."""


class SimulatedMeter(RunMeter):
    """Usage of the agents of a simulated world; those of `dear` tests, by their agents' names, take four times more."""

    def __init__(self, world: SimulatedWorld, dear: Iterable[str] = ()) -> None:
        super().__init__({})
        self._world = world
        self._dear = frozenset(dear)

    async def read(self, members: Iterable[Member], folder: RunFolder) -> None:
        """Meter those that exist."""
        for member in members:
            if member.agent_id in self._world.agents:
                times = 4 if member.test in self._dear else 1
                self.latest[member.agent_id] = Usage(output=TOKENS * times, usd=USD * times, model="simulated")


@dataclass
class NightRun:
    """One run of the night. `expected`: lists of its comparison with the run before, by name."""

    rehearsal: Rehearsal
    folder: RunFolder
    began: float
    expected: dict[str, set[str]] = field(default_factory=dict)
    exits: list[int] = field(default_factory=list)
    kills: int = 0
    comparison: Comparison | None = None
    report: Path | None = None

    @property
    def lost(self) -> list[str]:
        """Tests without the end that their agent's role leads to."""
        return lost(self.rehearsal)

    @property
    def doubled(self) -> list[str]:
        """Tests that had two agents at once, and attempts that ended twice."""
        return doubled(self.rehearsal)


@dataclass
class Night:
    """The night of a repository. `say`: gets a line for each step."""

    world: World
    agents: int
    say: Callable[[str], None] = print
    runs: list[NightRun] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    budget: float = 0.0
    commits: list[str] = field(default_factory=list)

    def play(self) -> None:
        """Play the night, then check each run and what is left of all."""
        repository = self.world.make_repository()
        # Two runs, a fifth of one again for the restart, and dear agents: the third one ends in its middle.
        self.budget = round(2.95 * self.agents * USD, 2)
        self.commits = [self._commit(range(self.agents)), self._commit(range(3, self.agents + 5))]
        self._first()
        self._second()
        second_ended = self.runs[1].rehearsal.passed
        self._third()
        assert second_ended < self.runs[2].began, "the second run is over before the third one"
        for number, one in enumerate(self.runs):
            self._check(one, self.runs[number - 1] if number else None)
        days = [DayLedger(repository).read(EPOCH + MIDNIGHT + day * 24 * HOUR + 1.0) for day in (0, 1)]
        assert all(day.usd <= self.budget + 1e-6 for day in days), days
        assert round(sum(day.usd for day in days), 6) == round(self._metered(), 6), (
            days,
            "each agent is paid for once",
        )
        assert [line.get("run", "") for line in scheduled_lines(repository)] == [
            "" if run is None else self.runs[run].folder.run for run in (0, None, 1, 2, None)[: 3 + len(self.skipped)]
        ]  # fmt: skip
        assert (
            self.skipped
            == [
                "another scheduled run of this repository is conducted",
                f"the day's budget of {self.budget:.2f} USD is used up",
            ][: len(self.skipped)]
        )
        used = ", ".join(f"{day.usd:.2f} USD" for day in days)
        self.say(f"budget of a day {self.budget:.2f} USD; used on the two days: {used}")

    # the runs

    def _first(self) -> None:
        at = MIDNIGHT + HOUR
        flaps = tuple((at + 40.0 + 70.0 * n, at + 60.0 + 70.0 * n) for n in range(6))
        one = self._plan(1, at, self._roles({}), outages=flaps)

        def start(run: Prepared, note: Callable[[RunFolder], None]) -> int:
            note(one.folder)
            self._skip_another(one)
            return self._conduct(one)

        one.exits.append(self._schedule(one, start))

    def _second(self) -> None:
        worse = dict.fromkeys(range(0, self.agents, 30), Role.STAYS_RED)
        crashed = dict.fromkeys(range(1, self.agents, 30), Role.CRASHES)
        limited = {n: Role.IS_LIMITED for n in range(self.agents) if n % 10 in (2, 3, 4)}
        before = self._roles({})
        mended = {n: Role.SUCCEEDS for n, role in before.items() if role in (Role.STAYS_RED, Role.BLOCKED)}
        one = self._plan(2, MIDNIGHT + 3 * HOUR, self._roles({**limited, **worse, **crashed, **mended}))
        dear = range(self.agents - self.agents // 10, self.agents)
        one.rehearsal.meter = SimulatedMeter(one.rehearsal.world, (_name(n) for n in dear))
        one.expected = {
            "newly_red": {_test(n) for n in worse}, "no_result": {_test(n) for n in crashed},
            "mended": {_test(n) for n in mended}, "new": set(), "gone": set(),
        }  # fmt: skip

        def start(run: Prepared, note: Callable[[RunFolder], None]) -> int:
            note(one.folder)
            assert one.rehearsal.conduct(seconds=40.0) is None, "the machine is restarted in the middle"
            self._write(one)
            one.kills += 1
            at_work = one.folder.read().running
            self.say(f"  the machine is restarted: {at_work} agents were at work or being made")
            one.rehearsal.world.restart(one.rehearsal.passed)
            one.rehearsal.booted = "after the restart"
            one.rehearsal.passed += 90.0
            return self._conduct(one)

        one.exits.append(self._schedule(one, start))

    def _third(self) -> None:
        roles = {n: role for n, role in self._roles({}).items() if n >= 3}
        roles |= dict.fromkeys(range(self.agents, self.agents + 5), Role.SUCCEEDS)
        one = self._plan(3, MIDNIGHT + 5.5 * HOUR, roles, base=self.commits[1])
        second = self.runs[1].rehearsal.world.roles
        one.expected = {
            "newly_red": {_test(n) for n, role in roles.items() if role is Role.STAYS_RED and n < self.agents},
            "mended": {
                _test(n) for n, role in roles.items()
                if second.get(_name(n)) is Role.STAYS_RED and role in (Role.SUCCEEDS, Role.CHANGES_NOTHING)
            },
            "new": {_test(n) for n in range(self.agents, self.agents + 5)},
            "gone": {_test(n) for n in range(3)},
        }  # fmt: skip

        def start(run: Prepared, note: Callable[[RunFolder], None]) -> int:
            note(one.folder)
            return self._conduct(one)

        one.exits.append(self._schedule(one, start))
        waiting = sum(row.end is None for row in one.folder.read().rows.values())
        assert waiting > 0, "the budget ends before the run"
        self.say(f"  the day's budget is used up: {waiting} tests wait for the next day")
        one.rehearsal.passed = MIDNIGHT + 6 * HOUR
        left = self.budget - DayLedger(self.world.repository).read(EPOCH + one.rehearsal.passed).usd
        if left < USD / 2:  # else a launch that failed at last has left the price of an agent
            self._skip_another(one)
        one.rehearsal.passed = MIDNIGHT + 25 * HOUR
        one.exits.append(self._conduct(one))

    # its parts

    def _roles(self, changed: Mapping[int, Role]) -> dict[int, Role]:
        """The roles of all agents by number, some of them changed."""
        usual = {
            n: _ODD[n // 10 % len(_ODD)] if n % 10 == 9 else Role.CHANGES_NOTHING if n % 10 > 5 else Role.SUCCEEDS
            for n in range(self.agents)
        }
        return usual | dict(changed)

    def _plan(
        self, number: int, at: float, roles: Mapping[int, Role], *, outages: tuple[tuple[float, float], ...] = (),
        base: str = "",
    ) -> NightRun:  # fmt: skip
        """Plan a run."""
        repository = self.world.repository
        tests = tuple(PlannedTest(_test(n), _name(n), f"agent-{n + 1:08x}{number:024x}", ()) for n in roles)
        most = max(10, self.agents // 5)
        plan = a_plan(
            0, run=f"20251010-0{2 * number - 1}00-000{number}", repository=str(repository),
            base=base or self.commits[0], created_at=EPOCH + at, max_running=most, launch_rate=1.0, timeout=220.0,
            budget_day_usd=self.budget, adapt=True, lost_retries=2,
        )  # fmt: skip
        plan = replace(plan, tests=tests)
        folder = folder_of(plan)
        world = SimulatedWorld(number, {_name(n): role for n, role in roles.items()}, 0.01, outages, provider="local")
        rehearsal = Rehearsal(
            plan, world, folder, Policy(poll=POLL), passed=at, booted="before the restart",
            meter=SimulatedMeter(world), day=DayLedger(repository, without=plan.run),
        )  # fmt: skip
        made = NightRun(rehearsal, folder, at)
        self.runs.append(made)
        return made

    def _conduct(self, one: NightRun) -> int:
        """Conduct, write the journal and the report; return the exit status of `run --batch`."""
        from selftest_core.schema.run import exit_status

        why = one.rehearsal.conduct()
        self._write(one)
        path = write_run_report(one.folder, self.world.environment, self._complain)
        assert path is not None
        one.report = one.folder.path / "report"
        run = one.folder.read()
        ends = {str(end): count for end, count in run.ends().items() if count}
        at = (one.rehearsal.passed - MIDNIGHT) / HOUR
        self.say(f"run {one.folder.run} left at {int(at):02}:{int(at % 1 * 60):02}: {why}, {ends}")
        return 3 if why == "budget" else exit_status(run)

    def _write(self, one: NightRun) -> None:
        one.folder.journal.write_bytes(one.rehearsal.ledger.data)

    def _complain(self, says: str) -> None:
        raise AssertionError(f"the report cannot be written: {says}")

    def _schedule(self, one: NightRun, start: Callable[[Prepared, Callable[[RunFolder], None]], int]) -> int:
        """Start as `run --batch --scheduled` does. No pull request is asked for: there is no remote here."""
        environ = {**self.world.environment, "SELFTEST_TUI_SKIP_WHILE_OPEN": "false"}
        call = Call(argparse.Namespace(batch=True, sockets=[], settings=[]), environ, self.world.repository)

        def prepare() -> Prepared:
            # The user knows what an agent costs.
            plan, now = replace(one.rehearsal.plan, usd_per_agent=USD), EPOCH + one.rehearsal.passed
            source = look_at(self.world.repository, plan.base, environ)
            spent = DayLedger(self.world.repository).read(now)
            estimates = estimate(plan, source.size, spent=spent)
            offer = Offer(plan, estimates, offered_tests(plan, {}), (), "HEAD", "", len(plan.tests), 0, None)
            return Prepared(plan, source, {}, (), offer)

        def begin(run: Prepared, note: Callable[[RunFolder], None]) -> int:
            make_run_folder(one.rehearsal.plan, environ)
            return start(run, note)

        return run_scheduled(call, prepare, begin)

    def _skip_another(self, one: NightRun) -> None:
        """Start another scheduled run now, which is skipped."""
        printed = io.StringIO()

        def start(run: Prepared, note: Callable[[RunFolder], None]) -> int:
            raise AssertionError("this run should be skipped")

        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            assert self._schedule(one, start) == DONE
        [says] = [json.loads(line)["skipped"] for line in printed.getvalue().splitlines()]
        self.skipped.append(says)
        self.say(f"  skipped: {says}")

    def _commit(self, numbers: Iterable[int]) -> str:
        repository = self.world.repository
        (repository / "tests").mkdir(exist_ok=True)
        text = "".join(f"def test_{n:03}() -> None: ...\n" for n in numbers)
        (repository / "tests" / "test_all.py").write_text(text)
        git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(repository))
        for words in (("add", "tests"), ("commit", "-qm", "Tests")):
            subprocess.run([*git, *words], check=True, env=self.world.environment)
        return self.world.run(["git", "rev-parse", "HEAD"], cwd=repository).stdout.strip()

    def _metered(self) -> float:
        """Dollars of all agents of the night, by their meters."""
        meters = [one.rehearsal.meter for one in self.runs]
        return sum(usage.usd or 0.0 for one in meters if one for usage in one.latest.values())

    # what must hold

    def _check(self, one: NightRun, before: NightRun | None) -> None:
        """One run: journalled, compared, reported; nothing lost, nothing doubled."""
        run = one.folder.read()
        entries = read(one.folder.journal.read_bytes()).entries
        assert_told_rightly(run.plan, entries)
        assert run.is_over
        assert one.lost == []
        assert one.doubled == []
        assert one.rehearsal.world.wrongs == []
        limits = [level.limit for level in run.curve]
        assert 1 <= min(limits) <= max(limits) <= run.plan.max_running
        self.say(f"{one.folder.run}: agents at a time {' '.join(map(str, limits))}")
        assert one.rehearsal.world.live(one.rehearsal.passed) == [], "no agent is left over"
        self._check_report(one, before)
        events = {entry.event for entry in entries}
        if one is self.runs[1]:
            assert {Event.LIMITED, Event.SLOWED} <= events, "the rate limit was seen, and slowed the launches"
            assert any(level.reason.endswith("rate limited") for level in run.curve), "and fewer agents ran at a time"
            assert any(retry.text.startswith("this machine") for row in run.rows.values() for retry in row.retries)
        if before is None:
            assert previous_run(one.folder, self.world.environment) is None
            return
        assert previous_run(one.folder, self.world.environment) == before.folder
        found = one.comparison = compare_runs(before.folder, one.folder, self.world.environment)
        assert found.problems == ()
        for name, tests in one.expected.items():
            assert {each.test for each in getattr(found, name)} == tests, name
        self.say(f"{one.folder.run} since {before.folder.run}: {counts(found)}")
        assert (len(found.dearer) >= self.agents // 20) == (one is self.runs[1])

    def _check_report(self, one: NightRun, before: NightRun | None) -> None:
        assert one.report is not None
        assert (one.report / "index.html").is_file()
        report = json.loads((one.report / "run.json").read_text(encoding="utf-8"))
        run = one.folder.read()
        assert [test["test"] for test in report["tests"]] == [row.planned.node_id for row in run.rows.values()]
        since = report["since"]
        assert (None if since is None else since["before"]["run"]) == (None if before is None else before.folder.run)
        assert len(list((one.report / "tests").glob("*.html"))) == len(run.rows)


def _test(number: int) -> str:
    return f"tests/test_all.py::test_{number:03}"


def _name(number: int) -> str:
    return f"agent-{number:03}"
