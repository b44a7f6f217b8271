"""Runs rehearsed on the simulated crew: whole, or killed at any line of the journal and taken up again."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from selftest_core.journal import Entry, JournalWriteError, encode, read
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import NEXT, Event
from selftest_core.run.fold import Run, apply, begin, fold
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest, RunPlan
from selftest_core.run.store import RunFolder
from simulated.clock import EPOCH, SimulatedClock, play
from simulated.crew import Role, SimulatedBundles, SimulatedCrew, SimulatedWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from selftest_core.run.budget.ledger import DayLedger
    from selftest_core.run.conduct.notifier import Notifier
    from selftest_core.run.meter import RunMeter
    from selftest_core.run.outcome.claims import ClaimVerifier
    from selftest_core.run.outcome.gate import Gate

RUN = "20261121-0931-7f3a"
TIMEOUT = 220.0
POLL = 6.0
"""Seconds between looks: what a rehearsal costs is how often it looks."""

ENDS: dict[Role, End] = {
    Role.SUCCEEDS: End.SUCCEEDED,
    Role.CHANGES_NOTHING: End.UNCHANGED,
    Role.STAYS_RED: End.RED,
    Role.BLOCKED: End.BLOCKED,
    Role.CRASHES: End.CRASH,
    Role.HANGS: End.TIMEOUT,
    Role.WRITES_NONSENSE: End.UNREADABLE,
    Role.WRITES_SLOWLY: End.SUCCEEDED,
    Role.BREAKS_ITS_BUNDLE: End.UNREADABLE,
    Role.VANISHES_ONCE: End.SUCCEEDED,
    Role.VANISHES: End.LOST,
    Role.FAILS_TO_LAUNCH_ONCE: End.SUCCEEDED,
    Role.FAILS_TO_LAUNCH: End.LAUNCH,
    Role.NEEDS_A_REMINDER: End.SUCCEEDED,
    Role.FORGETS: End.TIMEOUT,
    Role.ASKS: End.TIMEOUT,
    Role.IS_LIMITED: End.SUCCEEDED,
}
"""How a test must end by what its agent does, killed conductors or not."""


def a_plan(tests: int = 12, *, named: Sequence[tuple[str, str]] = (), is_real: bool = False, **changes: Any) -> RunPlan:
    """A plan of so many tests, `agent-00` and so on, or of those `named`: node id and agent name.

    `is_real`: for the real mngr, with ids that no other plan has, for mngr ends every process on the machine whose
    environment names the id of the agent that it stops, and tests run beside each other.
    """
    names = named or [(f"tests/test_all.py::test_{n:02}", f"agent-{n:02}") for n in range(tests)]
    planned = tuple(
        PlannedTest(node_id, name, f"agent-{uuid4().hex if is_real else f'{n + 1:08x}{n:024x}'}", ())
        for n, (node_id, name) in enumerate(names)
    )
    fields: dict[str, Any] = {
        "run": RUN, "repository": "/nowhere", "base": "a" * 40, "provider": "local", "agent_type": "command",
        "agent_command": ("agent",), "transfer": "mirror", "env_names": (), "max_running": 6, "launch_rate": 1.0,
        "timeout": TIMEOUT, "budget_usd": None, "usd_per_agent": None, "create_args": (), "on_cluster": "go",
        "pytest_command": ("pytest",), "pytest_args": (), "tests": planned, "left_out": (), "created_at": EPOCH,
    }  # fmt: skip
    return RunPlan(**{**fields, **changes})


class KilledError(BaseException):
    """The conductor was ended by kill -9."""


@dataclass
class MemoryLedger:
    """A journal as bytes in memory, written by the real encoder; `lives` lines can be written before the kill.

    `torn`: so many bytes of the line that the kill cut were written. `is_full`: with the last of these lines the disk
    is full, instead of a kill.
    """

    data: bytes = b""
    lives: int | None = None
    torn: int = 0
    is_full: bool = False
    entries: Sequence[Entry] = field(init=False)

    def __post_init__(self) -> None:
        reading = read(self.data)
        assert not reading.is_damaged
        self.data = self.data[: reading.good_bytes]
        self.entries = list(reading.entries)

    def append(self, event: str, at: float, **fields: Any) -> Entry:
        entry = Entry(len(self.entries) + 1, at, event, fields)
        line = encode(entry)
        if self.lives == 0 and self.is_full:
            raise JournalWriteError("Cannot write journal.jsonl", "No space left on device")
        if self.lives == 0:
            self.data += line[: self.torn]
            self.torn = 0
            raise KilledError
        if self.lives is not None:
            self.lives -= 1
        self.data += line
        self.entries = [*self.entries, entry]
        return entry


@dataclass
class Rehearsal:
    """One run on one simulated world, through any number of conductors."""

    plan: RunPlan
    world: SimulatedWorld
    folder: RunFolder
    policy: Policy = field(default_factory=Policy)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    passed: float = 0.0
    clock_jump: float = 0.0
    booted: str = "simulated"
    is_full: bool = False
    notifier: Notifier | None = None
    meter: RunMeter | None = None
    claims: ClaimVerifier | None = None
    gate: Gate | None = None
    day: DayLedger | None = None
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    crew: type[SimulatedCrew] = SimulatedCrew
    bundles: type[SimulatedBundles] = SimulatedBundles

    def conduct(
        self,
        *,
        lives: int | None = None,
        torn: int = 0,
        seconds: float | None = None,
        on_change: Callable[[Run, Entry], None] | None = None,
    ) -> str | None:
        """One conductor's life: why it left, or None where it was killed.

        It is killed before it can write line `lives` + 1, or after so many `seconds` of its life, whatever it does
        then.
        """
        self.ledger = MemoryLedger(self.ledger.data, lives, torn)
        self.ledger.is_full = self.is_full
        clock = self.clock = SimulatedClock(self.passed, self.booted)
        clock.jump = self.clock_jump

        async def life() -> str | None:
            crew = self.crew(self.world, clock)
            conductor = Conductor(
                self.plan, self.ledger, crew, self.folder, self.bundles(),
                clock=clock, policy=self.policy, on_change=on_change, notifier=self.notifier,
                meter=self.meter, claims=self.claims, gate=self.gate, ledger=self.day,
            )  # fmt: skip
            conducting = asyncio.ensure_future(conductor.run())
            try:
                done, _ = await asyncio.wait((conducting,), timeout=seconds)
                if not done:
                    self.ledger.lives = 0  # what it would still write on its way out, a killed one does not
                    conducting.cancel()
                return await conducting
            except (KilledError, asyncio.CancelledError):
                return None
            finally:
                self.passed = clock.passed

        return play(life)

    @property
    def run(self) -> Run:
        """The run as its journal tells it."""
        return fold(self.plan, read(self.ledger.data).entries)

    def outcomes(self) -> dict[str, str]:
        """How each test ended."""
        return {name: str(row.end) for name, row in self.run.rows.items()}


def a_rehearsal(
    folder: Path, roles: Sequence[Role] = (), *, tests: int | None = None, seed: int = 0, trouble: float = 0.0,
    policy: Policy | None = None, **changes: Any,
) -> Rehearsal:  # fmt: skip
    """A rehearsal in which the n-th test's agent plays the n-th role."""
    plan = a_plan(tests or len(roles), **changes)
    named = {test.agent_name: role for test, role in zip(plan.tests, roles, strict=False)}
    folder.mkdir(parents=True, exist_ok=True)
    return Rehearsal(plan, SimulatedWorld(seed, named, trouble), RunFolder(folder), policy or Policy(poll=POLL))


def lost(rehearsal: Rehearsal) -> list[str]:
    """Tests without the end that the role of their agent leads to."""
    expected = {test.agent_name: ENDS[rehearsal.world.roles[test.agent_name]] for test in rehearsal.plan.tests}
    rows = rehearsal.run.rows
    return [f"{name}: {rows[name].end}, not {end}" for name, end in expected.items() if rows[name].end is not end]


def doubled(rehearsal: Rehearsal) -> list[str]:
    """Tests that had two agents at once, and attempts that ended twice."""
    ends = Counter(
        (str(entry.fields["agent"]), entry.fields["attempt"])
        for entry in read(rehearsal.ledger.data).entries
        if entry.event == Event.ENDED
    )
    twice = [f"{name}, attempt {attempt}" for (name, attempt), times in ends.items() if times > 1]
    return [*twice, *(wrong for wrong in rehearsal.world.wrongs if wrong.startswith("two agents"))]


def assert_told_rightly(plan: RunPlan, entries: Sequence[Entry]) -> None:
    """No line of the journal is one that the fold had to pass over, none ends an attempt that ended before."""
    run = begin(plan)
    ended: set[tuple[str, int]] = set()
    for entry in entries:
        name = str(entry.fields.get("agent", ""))
        if name:
            assert (run.rows[name].phase, Event(entry.event)) in NEXT, f"line {entry.number} was not obeyed"
        run = apply(run, entry)
        if entry.event == Event.ENDED:
            attempt = (name, int(entry.fields["attempt"]))
            assert attempt not in ended
            ended.add(attempt)
        assert run.running <= plan.max_running
    assert run == fold(plan, entries)
