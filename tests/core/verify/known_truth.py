"""Lines whose truth is known: which tests are fixed, lied about, broken by another change, or flaky."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from selftest_core.verify.schedule import Item, Job, Report, verify
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

TESTS_OF_AN_ITEM = 3


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

    def result(self, tree: str, test: str) -> Result:
        """The result of one run, decided by the truth, and by chance for a flaky test."""
        kind, _, places = tree.partition(" ")
        owner = self.owner[test]
        if kind == "own":
            is_green = places == str(owner) and test not in self.lies
        else:
            applied = {int(place) for place in places.split(",") if place}
            if owner in applied:
                is_green = test not in self.lies and self.broken_by.get(test) not in applied
            elif self.on_base[test] == "missing":
                return Result.MISSING
            else:
                is_green = self.on_base[test] == "green"
        if is_green and test in self.flaky and self.chance.random() < self.flaky_rate:
            is_green = False
        return Result.PASSED if is_green else Result.FAILED

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
