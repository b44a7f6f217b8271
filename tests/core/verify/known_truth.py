"""Lines whose truth is known: which tests are fixed, lied about, broken by another change, or flaky."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from selftest_core.verify.schedule import Item, Job, Report, verify
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.verify.runner import Collected
    from selftest_core.verify.schedule import Order

TESTS_OF_AN_ITEM = 3
FIGURES = {"executions": 243, "processes": 45, "checkouts": 30}
"""Measured by simulation on this model, 60 changes: what a good schedule needs, without the base."""


@dataclass
class KnownLine:
    """Changes with three tests each, whose results follow from what is applied; answers the jobs of the schedule.

    On the base 40 % of the tests are missing, 30 % red, 30 % green. `executions` counts runs of tests that exist.
    """

    chance: random.Random
    count: int
    liars: float = 0.1
    culprits: float = 0.03
    flakes: float = 0.02
    flaky_rate: float = 0.3
    items: list[Item] = field(default_factory=list)
    owner: dict[str, int] = field(default_factory=dict)
    on_base: dict[str, str] = field(default_factory=dict)
    flaky: set[str] = field(default_factory=set)
    lies: set[str] = field(default_factory=set)
    broken_by: dict[str, int] = field(default_factory=dict)
    executions: int = 0
    processes: int = 0
    trees: set[str] = field(default_factory=set)
    executions_before: int = 0

    def __post_init__(self) -> None:
        chance = self.chance
        for place in range(self.count):
            tests = tuple(f"test_{place}.py::test_{number}" for number in range(TESTS_OF_AN_ITEM))
            for test in tests:
                self.owner[test] = place
                self.on_base[test] = chance.choices(["missing", "red", "green"], [0.4, 0.3, 0.3])[0]
                if chance.random() < self.flakes:
                    self.flaky.add(test)
            if chance.random() < self.liars:
                self.lies.add(chance.choice(tests))
            self.items.append(Item(f"change {place}", tests, frozenset(tests), f"own {place}"))
        for place in range(self.count):
            if chance.random() < self.culprits:
                others = [
                    test
                    for test, owner in self.owner.items()
                    if owner != place and test not in self.lies and test not in self.broken_by
                ]
                for test in chance.sample(others, min(len(others), chance.randint(1, 3))):
                    self.broken_by[test] = place

    def prefix(self, count: int) -> str:
        return self.only(range(count)) or ""

    def only(self, places: Sequence[int]) -> str | None:
        return "line " + ",".join(map(str, sorted(places)))

    def before(self) -> str:
        return "before"

    def control(self, tree: str) -> tuple[str, Mapping[str, bool]]:
        return tree, {}  # scripted lines have no files whose assertions could be turned

    def with_tests_of_base(self, tree: str) -> str:
        return tree

    def without(self, places: Collection[int]) -> PartOfLine:
        """The line with these changes reverted."""
        return PartOfLine(self, tuple(place for place in range(self.count) if place not in places))

    def result(self, tree: str, test: str) -> Result:
        """The result of one run, decided by the truth, and by chance for a flaky test."""
        kind, _, places = tree.partition(" ")
        owner = self.owner[test]
        if kind == "own":
            is_green = places == str(owner) and test not in self.lies
        else:
            applied = set() if kind == "before" else {int(place) for place in places.split(",") if place}
            if owner in applied:
                is_green = test not in self.lies and self.broken_by.get(test) not in applied
            elif self.on_base[test] == "missing":
                return Result.MISSING
            else:
                is_green = self.on_base[test] == "green"
        if is_green and test in self.flaky and self.chance.random() < self.flaky_rate:
            is_green = False
        return Result.PASSED if is_green else Result.FAILED

    def truth(self, test: str, applied: Collection[int]) -> tuple[tuple[str, ...], str | None]:
        """Who makes a false claim of a test, and who breaks it, with these changes applied."""
        owner = self.owner[test]
        if owner not in applied:
            return (), None
        culprit = self.broken_by.get(test)
        return (
            (f"change {owner}",) if test in self.lies else (),
            f"change {culprit}" if culprit in applied and test not in self.lies else None,
        )

    def verify(self) -> Report:
        """Run the schedule to its end. Fails where a run is asked for twice."""
        seen: set[tuple[str, str, int]] = set()
        steps = verify(self)
        jobs = next(steps)
        while True:
            answers: dict[Job, dict[str, Execution]] = {}
            for job in jobs:
                self.processes += job.tree != "before"
                self.trees.add(job.tree)
                answers[job] = {}
                for test, number in job.runs:
                    assert (job.tree, test, number) not in seen
                    seen.add((job.tree, test, number))
                    result = self.result(job.tree, test)
                    answers[job][test] = Execution(result)
                    if result is not Result.MISSING:
                        self.executions += job.tree != "before"
                        self.executions_before += job.tree == "before"
            try:
                jobs = steps.send(answers)
            except StopIteration as end:
                report: Report = end.value
                return report


def count(line: KnownLine, what: str) -> int:
    """One of the figures of a line that was verified."""
    return len(line.trees - {"before"}) if what == "checkouts" else int(getattr(line, what))


@dataclass
class PartOfLine:
    """Some changes of a known line, as a review has them after decisions."""

    whole: KnownLine
    applied: tuple[int, ...]

    @property
    def items(self) -> Sequence[Item]:
        return [self.whole.items[place] for place in self.applied]

    def prefix(self, count: int) -> str:
        return self.only(range(count)) or ""

    def only(self, places: Sequence[int]) -> str | None:
        return self.whole.only([self.applied[place] for place in places])

    def before(self) -> str:
        return "before " + ",".join(map(str, self.applied))

    def control(self, tree: str) -> tuple[str, Mapping[str, bool]]:
        return self.whole.control(tree)

    def with_tests_of_base(self, tree: str) -> str:
        return tree


class ScriptedVerifier:
    """Answers the jobs of a known line from its truth, as a `Verifier`; counts each run of each test on each tree."""

    is_isolated = True
    makes_environments = True
    is_stopped = False

    def __init__(self, line: KnownLine) -> None:
        self._line = line
        self.processes = self.checkouts = 0
        self.runs: Counter[tuple[str, str, int]] = Counter()

    def collect(self, tree: str, files: Callable[[Path], Sequence[str]]) -> tuple[Collected, Path]:
        """The tests of a known line are known."""
        raise NotImplementedError

    def run(
        self, jobs: Sequence[tuple[Job, Sequence[str]]], on_run: Callable[[Job, str, Execution], None], order: Order
    ) -> Iterator[tuple[Job, Mapping[str, Execution]]]:
        """Answer these tests of these jobs."""
        for job, tests in jobs:
            self.processes += 1
            numbers = dict(job.runs)
            runs = {test: Execution(self._line.result(job.tree, test)) for test in tests}
            for test, run in runs.items():
                self.runs[job.tree, test, numbers[test]] += 1
                on_run(job, test, run)
            yield job, runs
