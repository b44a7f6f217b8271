"""The order of test runs that proves a line of changes with few runs: a pure generator, without clock or IO.

`verify` yields waves of jobs and is sent their results; jobs of one wave may run side by side, in any order. Equal
questions are asked once. The plan, cheapest first:

1. Candidate: all owned tests on the tree with every change, in one process. A red test is repeated in new processes
   (`REPEATS`); one that was green after its own change is run alone, too.
2. Each test that stays red: on the tree of the agent that owns it (red there: the claim does not hold), then right
   after its own change. Green there: bisect the later changes. Red there: apply its change first, and bisect the
   earlier ones.
3. A culprit is named only after three reds with it and three greens without it.
4. Before: all owned tests on the base with the candidate's test files, in one process.
5. Control: what is green on the candidate, on the same tree with its assertions turned round, in one process. A test
   that is green there too cannot fail. If the base's own can, the change that took that away is found by bisection.
6. As the base has them: where test files are edited, the tests that the base has too, on the candidate with the test
   files of the base, and their control. A test that is not green there passes only as it was edited.
7. A test that is green, and was seen red on the tree of an agent that claims it: the change that turns it green is
   found by bisection, and the claim stays refuted unless that is the agent's own.

Of very many red tests on one tree a few are repeated first, and the others only if one of these turns green.

That a test was green right after its own change is inferred from a green candidate: a later change can mask a failure.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.verify.verdicts import Effect, Execution, Result, Verdict, effect_of, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

REPEATS = 2
"""Repeats of a red test. With 2, a test that fails in three of ten runs is called red in 2.7 % of cases."""
CONFIRMATIONS = 2
"""More reds with a culprit, and greens without it, before it is named."""
MANY, MANY_PART = 10, 0.3
"""Reds, and their part of all tests, from which a common cause is assumed: three are looked at first."""
SAMPLE = 3
MOST_SIBLINGS = 5
"""Tests of the base of which one has to pass before anybody is accused, where nothing has passed yet."""
MOST_AFFECTING = 4
"""Changes that affect a test which nobody owns, of which it is asked whether one had turned it green."""
_SKIPPED = frozenset({Result.SKIPPED, Result.XFAILED, Result.MISSING, Result.NOT_RUN})
"""Results on the base of a test whose skipping takes nothing away."""
PASSED_ALL_THE_SAME = frozenset({Result.PASSED, Result.SKIPPED, Result.XFAILED, Result.XPASSED})
"""Results of a control that accuse: the test ran, and did not fail."""
ALONE = -1
"""The number of a run without other tests, in `Job.runs`."""
_LAST = 1 << 30
"""The place of a test that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Item:
    """One applied change. `tests`: the node ids that it owns; `claimed`: of these, what its agents said is green.

    `own_tree`: the tree of the agent's own branch, None where there is none to judge the claim on; `own_trees`: of
    another agent that made the same change, by the test that is its own. `affected`: tests of nobody that it may turn
    green or red. `doubt`: why its agent may have had another environment than the tests have here.
    """

    id: str
    tests: tuple[str, ...]
    claimed: frozenset[str] = frozenset()
    own_tree: str | None = None
    own_trees: Mapping[str, str] = field(default_factory=dict)
    affected: tuple[str, ...] = ()
    doubt: str = ""


class Line(Protocol):
    """The applied changes in order, and the trees that they give. Trees are ids; equal trees have equal ids."""

    @property
    def items(self) -> Sequence[Item]:
        """The applied changes, in order."""
        ...

    def prefix(self, count: int) -> str:
        """The tree with the first `count` changes."""
        ...

    def only(self, places: Sequence[int]) -> str | None:
        """The tree of the base with these changes alone, in this order; None where they conflict."""
        ...

    def before(self) -> str:
        """The tree of the base with the candidate's test files."""
        ...

    def control(self, tree: str) -> tuple[str, Mapping[str, bool]]:
        """The tree in which the tests must fail, and for files of tests whether that could be made of them."""
        ...

    def with_tests_of_base(self, tree: str) -> str:
        """The tree with the test files of the base, where edits may change what its tests are; else the tree itself."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """Tests to run in one process on one tree. `runs`: node id and which of its runs on this tree this is, from 0."""

    tree: str
    runs: tuple[tuple[str, int], ...]
    purpose: str


class Order:
    """The order in which tests are wanted, which may change while they run. Safe to use from any thread.

    `first`: gives the ids of changes, the most wanted first; `tests`: the tests of each change. `late`: tests that run
    after all others of their process, so that what they leave behind reaches none of these.
    """

    def __init__(
        self,
        first: Callable[[], Sequence[str]] = tuple,
        tests: Mapping[str, Sequence[str]] | None = None,
        late: Collection[str] = frozenset(),
    ) -> None:
        self._first, self._tests, self.late = first, tests or {}, late
        self._made: tuple[Sequence[str], Mapping[str, int]] = ((), {})

    def places(self) -> Mapping[str, int]:
        """Return the places of the tests that are wanted before all others; the same object while nothing changes."""
        first, made = self._first(), self._made
        if first is not made[0]:
            found: dict[str, int] = {}
            for place, oid in enumerate(first):
                for test in self._tests.get(oid, ()):
                    found.setdefault(test, place)
            self._made = made = first, found
        return made[1]

    def sorted(self, tests: Iterable[str]) -> list[str]:
        """Sort tests; those of one place stay as they are."""
        places = self.places()
        return sorted(tests, key=lambda test: places.get(test, _LAST))

    def place_of(self, tests: Iterable[str]) -> int:
        """Return the place of a job with these tests: that of its most wanted one."""
        places = self.places()
        return min((places.get(test, _LAST) for test in tests), default=_LAST)


@dataclass(frozen=True, slots=True)
class TestReport:
    """One test. `culprit`: the id of the change that breaks it; `false_claims`: ids of changes that claim it green.

    `fixed_by`: the id of the change that turns it green, where one of these claims is about it. `only_edited`: it is
    green, and not as the base has it; how it is there. `assertions_before`: how many assertions held in it before.
    """

    test: str
    before: Verdict | None
    after: Verdict
    effect: Effect
    runs: tuple[Execution, ...]
    culprit: str | None = None
    false_claims: tuple[str, ...] = ()
    reason: str = ""
    fixed_by: str | None = None
    only_edited: str = ""
    assertions_before: int | None = None

    @property
    def lost_assertions(self) -> int:
        """The number of assertions that held in it before and do not now, as far as that was counted."""
        now = self.runs[0].assertions if self.runs and self.after is Verdict.GREEN else None
        return max(self.assertions_before - now, 0) if self.assertions_before is not None and now is not None else 0


@dataclass(frozen=True, slots=True)
class Report:
    """The tests of one line, in the order of their owners."""

    tests: tuple[TestReport, ...] = field(default=())


type Answers = Mapping[Job, Mapping[str, Execution]]


@dataclass(frozen=True, slots=True)
class _Ask:
    tree: str
    test: str
    attempt: int
    purpose: str


type _Task[T] = Generator[_Ask, Execution, T]


def verify(
    line: Line,
    suite: Sequence[str] = (),
    doubted: Collection[str] = (),
    of_base: Collection[str] = (),
    refuted: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Generator[list[Job], Answers, Report]:
    """Verify a line; `suite`: tests that no change owns but that are to hold too.

    `doubted`: tests that were flaky before, for which one green is not enough. `of_base`: tests that the base has.
    `refuted`: by test, the changes that claim it green and were seen red on the tree of their agent.
    Yields waves of jobs, is sent for each job the run of each of its tests, and returns the report.
    """
    owners: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(line.items):
        for test in item.tests:
            owners[test].append(place)
    for test in suite:
        owners.setdefault(test, [])
    affecting: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(line.items):
        for test in item.affected:
            affecting[test].append(place)
    memory: _Memory = {}
    candidate = line.prefix(len(line.items))
    tests = list(owners)

    afters = yield from _judge_all(candidate, tests, "candidate", memory)
    green = [test for test in tests if test in doubted and afters[test] is Verdict.GREEN]
    thrice = yield from _together([_run_all(candidate, test, "flaky before") for test in green], memory)
    afters |= dict(zip(green, thrice, strict=True))
    lasting = [test for test in tests if afters[test] is Verdict.RED]
    # Where nothing has passed, the environment may be the reason, and nobody is accused.
    is_proved = Verdict.GREEN in afters.values() or not lasting
    siblings = [] if is_proved else [(line.prefix(0), test, "ground") for test in sorted(of_base)[:MOST_SIBLINGS]]
    proofs = yield from _together([_once(*asked) for asked in siblings], memory)
    is_proved = is_proved or any(run.result is Result.PASSED for run in proofs)

    causes: dict[str, _Cause] = {}
    hints: list[int] = []
    for part in (_spread(lasting, SAMPLE), lasting) if _have_common_cause(lasting, tests) else (lasting,):
        left = [test for test in part if test not in causes]
        found = yield from _together(
            [_investigate(line, test, owners[test], affecting[test], hints, is_proved=is_proved) for test in left],
            memory,
        )
        causes |= dict(zip(left, found, strict=True))
        hints += sorted({cause.culprit for cause in found if cause.culprit is not None} - set(hints))

    before_tree = line.before()
    befores = yield from _judge_all(before_tree, tests, "before", memory)
    green = [test for test in tests if afters[test] is Verdict.GREEN]
    causes |= yield from _control(line, green, memory, lambda tree: tree)
    green = [test for test in green if test in of_base and test not in causes]
    edited, not_able = yield from _as_base_has_them(line, green, memory)
    causes |= not_able
    claimed = [test for test in tests if test in refuted and afters[test] is Verdict.GREEN and test not in causes]
    fixers = yield from _together([_find_fixer(line, test, refuted[test]) for test in claimed], memory)
    causes |= {test: cause for test, cause in zip(claimed, fixers, strict=True) if cause.false_claims}
    skipped = [test for test in tests if afters[test] is Verdict.SKIPPED]
    at_base = yield from _together([_once(line.prefix(0), test, "base") for test in skipped], memory)
    lost = {test for test, run in zip(skipped, at_base, strict=True) if run.result not in _SKIPPED}
    causes |= {test: _Cause(reason="skipped; the base runs it") for test in lost}
    reports = []
    for test in tests:
        before, cause = befores[test], causes.get(test, _Cause())
        after = Verdict.CANNOT_FAIL if cause.cannot_fail else afters[test]
        after = Verdict.FLAKY if cause.is_flaky else after
        after = Verdict.ORDER_DEPENDENT if cause.is_order_dependent else after
        after = Verdict.UNKNOWN if cause.is_unknown else after
        reports.append(
            TestReport(
                test=test,
                before=before,
                after=after,
                effect=Effect.GONE if test in lost else _effect(before, after, cause),
                runs=_runs(memory, candidate, test),
                culprit=None if cause.culprit is None else line.items[cause.culprit].id,
                false_claims=tuple(line.items[place].id for place in cause.false_claims),
                reason=cause.reason or (f"as the base has it, it is {edited[test]}" if test in edited else ""),
                fixed_by=None if cause.fixer is None else line.items[cause.fixer].id,
                only_edited=edited.get(test, ""),
                assertions_before=next(iter(_runs(memory, before_tree, test)), Execution(Result.NOT_RUN)).assertions,
            )
        )
    return Report(tuple(reports))


@dataclass(frozen=True, slots=True)
class _Cause:
    culprit: int | None = None
    false_claims: tuple[int, ...] = ()
    reason: str = ""
    is_flaky: bool = False
    is_order_dependent: bool = False
    cannot_fail: bool = False
    fixer: int | None = None
    is_unknown: bool = False


_FLAKY = _Cause(reason="flaky while its cause was looked for", is_flaky=True)


def _effect(before: Verdict, after: Verdict, cause: _Cause) -> Effect:
    """A test that its own change had turned green, and a later change turned red again, is broken."""
    if cause.culprit is not None and after in (Verdict.RED, Verdict.CANNOT_FAIL):
        return Effect.BROKEN
    return effect_of(before, after)


def _investigate(
    line: Line, test: str, owners: Sequence[int], affecting: Sequence[int], hints: Sequence[int], *, is_proved: bool
) -> _Task[_Cause]:
    """Find out why a test stays red on the candidate. `hints`: changes that break others, which are left out first.

    `is_proved`: some test has passed in this environment.
    """
    items, count = line.items, len(line.items)
    first = yield _Ask(line.prefix(count), test, 0, "candidate")
    if first.lacks or first.is_unimportable:
        before = yield from _once(line.prefix(0), test, "base")
        # What the base can do here, and the candidate cannot, is red like any other.
        if before.result is not Result.PASSED and (first.lacks or before.is_unimportable):
            return _Cause(reason=first.reason, is_unknown=True)
    for place in hints:
        if place not in owners:
            rest = line.only([number for number in range(count) if number != place])
            if rest is not None and (yield from _is_green(rest, test, "without a change that breaks others")):
                return (yield from _confirm(line.prefix(count), rest, test, place))
    if not owners:
        at_base = yield from _judge(line.prefix(0), test, "base")
        if at_base is Verdict.GREEN:
            return (yield from _bisect_if_red_alone(line, line.prefix, range(count), test, 0))
        # A change that edits no test may have turned it green, before another one broke it.
        for place in reversed(affecting[-MOST_AFFECTING:]):
            if (yield from _is_green(line.prefix(place + 1), test, "right after a change that affects it")):
                return (yield from _bisect_if_red_alone(line, line.prefix, range(count), test, place + 1))
        return _Cause(reason=f"{at_base} on the base too")
    failing: list[int] = []
    doubts: list[str] = []
    for place in owners:
        tree = items[place].own_trees.get(test, items[place].own_tree)
        run = None if tree is None else (yield from _once(tree, test, "agent's own tree"))
        # A run that says nothing, such as one whose set-up failed, accuses nobody.
        if run is not None and run.result.is_red:
            failing.append(place)
            doubts += [why for why in (items[place].doubt, run.reason if run.lacks else "") if why]
    if len(failing) == len(owners):
        claims = tuple(place for place in failing if test in items[place].claimed)
        if claims and not is_proved:
            doubts.append("no test has passed here, so that nothing shows that this one can")
        if doubts:
            return _Cause(reason=f"red on the agent's own tree too; {doubts[0]}", is_unknown=True)
        return _Cause(false_claims=claims, reason="red on the agent's own tree too")

    last = max(place for place in owners if place not in failing)
    if (yield from _is_green(line.prefix(last + 1), test, "right after its change")):
        return (yield from _bisect_if_red_alone(line, line.prefix, range(count), test, last + 1))
    tree = line.only([last])
    if tree is None:
        return _Cause(reason="red right after its change; the change cannot be applied before the earlier ones")
    if not (yield from _is_green(tree, test, "its change alone")):
        return _Cause(reason="red with its change alone on this base")
    earlier = range(last)
    return (
        yield from _bisect_if_red_alone(line, lambda number: line.only([last, *earlier[:number]]), earlier, test, 0)
    )


def _control(
    line: Line, tests: Sequence[str], memory: _Memory, formed: Callable[[str], str]
) -> Generator[list[Job], Answers, dict[str, _Cause]]:
    """Run green tests where they must fail, and find out why one does not. `formed`: gives each tree its test files."""
    tree, turnable = line.control(formed(line.prefix(len(line.items))))
    known = {test: turnable.get(test.partition("::")[0]) for test in tests}
    wanted = [test for test in tests if known[test]]
    runs = yield from _together([_once(tree, test, "control") for test in wanted], memory)
    causes = {
        test: _Cause(reason=f"it was not seen to fail where it must: {run.reason or run.result}", cannot_fail=True)
        for test, run in zip(wanted, runs, strict=True)
        if not can_fail(run)
    }
    causes |= {test: _Cause(reason=CANNOT_BE_TURNED, cannot_fail=True) for test in tests if known[test] is False}
    suspects = [test for test, run in zip(wanted, runs, strict=True) if run.result in PASSED_ALL_THE_SAME]
    hints: list[int] = []
    # One change that patches pytest is the cause for all: it is looked for with a few of them.
    for part in (_spread(suspects, SAMPLE), suspects):
        left = [test for test in part if test not in causes or causes[test].culprit is None]
        found = yield from _together([_investigate_control(line, test, hints, formed) for test in left], memory)
        causes |= dict(zip(left, found, strict=True))
        hints += sorted({cause.culprit for cause in found if cause.culprit is not None} - set(hints))
    return causes


STAYS_GREEN = "it stays green with its assertions turned round"
CANNOT_BE_TURNED = (
    "its assertions cannot be turned round: its file is too large, too deep, or no Python that can be read"
)


def _as_base_has_them(
    line: Line, tests: Sequence[str], memory: _Memory
) -> Generator[list[Job], Answers, tuple[dict[str, str], dict[str, _Cause]]]:
    """Run green tests with the test files of the base; returns what those are that are not green, and cannot fail."""
    candidate = line.prefix(len(line.items))
    tree = line.with_tests_of_base(candidate)
    if tree == candidate:
        return {}, {}
    found = yield from _judge_all(tree, tests, "as the base has it", memory)
    green = [test for test in tests if found[test] is Verdict.GREEN]
    causes = yield from _control(line, green, memory, line.with_tests_of_base)
    return {test: str(found[test]) for test in tests if found[test] is not Verdict.GREEN}, causes


def _find_fixer(line: Line, test: str, claimants: Collection[str]) -> _Task[_Cause]:
    """Find the change that turns a test green of which others make claims that were refuted."""
    false = tuple(place for place, item in enumerate(line.items) if item.id in claimants)
    if (yield from _is_green(line.prefix(0), test, "base")):
        return _Cause(false_claims=false, reason="green on the base, red on the agent's own tree")
    low, high = 0, len(line.items)
    while high - low > 1:
        middle = _middle(low, high)
        is_green = yield from _is_green(line.prefix(middle), test, "what turns it green")
        low, high = (low, middle) if is_green else (middle, high)
    found = yield from _confirm(line.prefix(low), line.prefix(high), test, low)
    # Nobody is accused of a test that now passes, now fails.
    false = () if found.culprit is None else tuple(place for place in false if place != found.culprit)
    return _Cause(false_claims=false, reason="red on the agent's own tree", fixer=found.culprit)


def _investigate_control(line: Line, test: str, hints: Sequence[int], formed: Callable[[str], str]) -> _Task[_Cause]:
    """Find out why a test stays green where it must fail."""
    count = len(line.items)
    run = yield _Ask(line.control(formed(line.prefix(0)))[0], test, 0, "control of the base")
    if run.result in PASSED_ALL_THE_SAME:
        before = yield from _once(line.prefix(0), test, "base")
        # A test that is red on the base can fail there: its control came out green by chance, and says nothing.
        return _Cause(reason=f"{STAYS_GREEN}, on the base too", cannot_fail=before.result is not Result.PASSED)
    if not can_fail(run):
        return _Cause(reason=STAYS_GREEN, cannot_fail=True)  # the base does not have it

    def tree_without(place: int) -> str | None:
        tree = line.only([number for number in range(count) if number != place])
        return None if tree is None else line.control(formed(tree))[0]

    for place in hints:
        without = tree_without(place)
        if without is not None and can_fail((yield _Ask(without, test, 0, "control without a change"))):
            return _Cause(place, reason=STAYS_GREEN, cannot_fail=True)
    low, high = 0, count
    while high - low > 1:
        middle = _middle(low, high)
        run = yield _Ask(line.control(formed(line.prefix(middle)))[0], test, 0, "control")
        low, high = (low, middle) if run.result in PASSED_ALL_THE_SAME else (middle, high)
    for place, wanted in ((low, True), (high, False)):
        for attempt in range(CONFIRMATIONS + 1):
            run = yield _Ask(line.control(formed(line.prefix(place)))[0], test, attempt, "control")
            if can_fail(run) is not wanted:
                return _Cause(reason=STAYS_GREEN, cannot_fail=True)
    return _Cause(low, reason=STAYS_GREEN, cannot_fail=True)


def _bisect_if_red_alone(
    line: Line, tree_at: Callable[[int], str | None], places: Sequence[int], test: str, low: int
) -> _Task[_Cause]:
    """Find the change that turns a test red, unless other tests do. See `_bisect`."""
    run = yield _Ask(line.prefix(len(line.items)), test, ALONE, "alone")
    if run.result is Result.PASSED:
        return _Cause(reason="green alone, red after other tests", is_order_dependent=True)
    return (yield from _bisect(tree_at, places, test, low))


def _bisect(tree_at: Callable[[int], str | None], places: Sequence[int], test: str, low: int) -> _Task[_Cause]:
    """Find the change that turns a test red. Green with the first `low` of `places`, red with all of them.

    One run for each tree on the way: a wrong turn ends at a tree that fails the confirmation.
    """
    high = len(places)
    while high - low > 1:
        middle = _middle(low, high)
        tree = tree_at(middle)
        if tree is None:
            return _Cause(reason="the changes conflict in the order that would show which one breaks it")
        if (yield from _is_green(tree, test, "bisect")):
            low = middle
        else:
            high = middle
    with_it, without_it = tree_at(high), tree_at(low)
    if low == high or with_it is None or without_it is None:
        return _Cause(reason="the changes conflict in the order that would show which one breaks it")
    return (yield from _confirm(with_it, without_it, test, places[low]))


def _confirm(with_it: str, without_it: str, test: str, place: int) -> _Task[_Cause]:
    """Name a change only where the test is red with it and green without it, several times."""
    for tree, wanted in ((with_it, False), (without_it, True)):
        for attempt in range(CONFIRMATIONS + 1):
            run = yield _Ask(tree, test, attempt, "confirm")
            if run.result is Result.NOT_RUN:
                return _Cause(reason=f"a tree that would show which change breaks it was not tested: {run.reason}")
            if not (run.result is Result.PASSED if wanted else run.result.is_red):
                return _FLAKY
    return _Cause(culprit=place, reason="green without this change, red with it")


def can_fail(run: Execution) -> bool:
    """True for a run of a control in which the test did fail, as it must."""
    return run.result.is_red and not run.is_unimportable


def _middle(low: int, high: int) -> int:
    """Choose a number strictly between, not far from the middle, that other bisections are likely to choose too."""
    quarter = max((high - low) // 4, 1)
    numbers = range(low + quarter, high - quarter + 1)
    return max(numbers, key=lambda number: (number & -number, -abs(2 * number - low - high)))


def _once(tree: str, test: str, purpose: str) -> _Task[Execution]:
    return (yield _Ask(tree, test, 0, purpose))


def _is_green(tree: str, test: str, purpose: str) -> _Task[bool]:
    run = yield _Ask(tree, test, 0, purpose)
    return run.result is Result.PASSED


def _judge(tree: str, test: str, purpose: str) -> _Task[Verdict]:
    """Run a test, and repeat it where it is red: the first green of the repeats makes it flaky."""
    runs: list[Execution] = []
    while not runs or (runs[-1].result.is_red and len(runs) <= REPEATS):
        runs.append((yield _Ask(tree, test, len(runs), purpose)))
    return verdict_of(runs)


def _run_all(tree: str, test: str, purpose: str) -> _Task[Verdict]:
    """Run a test as often as a red one, whatever comes."""
    runs: list[Execution] = []
    for attempt in range(REPEATS + 1):
        runs.append((yield _Ask(tree, test, attempt, purpose)))
    return verdict_of(runs)


def _judge_all(
    tree: str, tests: Sequence[str], purpose: str, memory: _Memory
) -> Generator[list[Job], Answers, dict[str, Verdict]]:
    """Judge tests that run in one process at first. Of very many reds only a few are repeated, if these stay red."""
    firsts = yield from _together([_once(tree, test, purpose) for test in tests], memory)
    verdicts = {test: verdict_of([run]) for test, run in zip(tests, firsts, strict=True)}
    red = [test for test, run in zip(tests, firsts, strict=True) if run.result.is_red]
    for part in (_spread(red, SAMPLE), red) if _have_common_cause(red, tests) else (red,):
        repeated = yield from _together([_judge(tree, test, "repeat") for test in part], memory)
        verdicts |= dict(zip(part, repeated, strict=True))
        if all(verdict is Verdict.RED for verdict in repeated):
            break
    return verdicts


def _have_common_cause(red: Sequence[str], tests: Sequence[str]) -> bool:
    return len(red) > MANY and len(red) > MANY_PART * len(tests)


@dataclass(frozen=True, slots=True)
class Judged:
    """A test on one tree: its verdict and all of its runs."""

    verdict: Verdict
    runs: tuple[Execution, ...]


def judge_tests(tree: str, tests: Sequence[str], purpose: str) -> Generator[list[Job], Answers, dict[str, Judged]]:
    """Judge tests on one tree: red ones are repeated, as `verify` does."""
    memory: _Memory = {}
    verdicts = yield from _together([_judge(tree, test, purpose) for test in tests], memory)
    return {test: Judged(verdict, _runs(memory, tree, test)) for test, verdict in zip(tests, verdicts, strict=True)}


def run_once(tree: str, test: str, purpose: str) -> Generator[list[Job], Answers, Execution]:
    """Run a test once on one tree."""
    (run,) = yield from _together([_once(tree, test, purpose)], {})
    return run


type _Memory = dict[tuple[str, str, int], Execution]


def _together[T](tasks: Sequence[_Task[T]], memory: _Memory) -> Generator[list[Job], Answers, list[T]]:
    """Run tasks in step, so that questions about one tree share a process. Results in the order of the tasks."""
    results: dict[int, T] = {}
    asks: dict[int, _Ask] = {}

    def advance(number: int, run: Execution | None) -> None:
        """Go on with a task until it asks something new, or ends."""
        while True:
            try:
                ask = next(tasks[number]) if run is None else tasks[number].send(run)
            except StopIteration as end:
                results[number] = end.value
                asks.pop(number, None)
                return
            asks[number] = ask
            run = memory.get(_key(ask))
            if run is None:
                return

    for number in range(len(tasks)):
        advance(number, None)
    while asks:
        jobs = list(_jobs(asks.values()))
        answers = yield jobs
        for job in jobs:
            for test, attempt in job.runs:
                memory[job.tree, test, attempt] = answers[job][test]
        for number, ask in list(asks.items()):
            advance(number, memory[_key(ask)])
    return [results[number] for number in range(len(tasks))]


def _key(ask: _Ask) -> tuple[str, str, int]:
    return ask.tree, ask.test, ask.attempt


def _jobs(asks: Iterable[_Ask]) -> Generator[Job]:
    """One job for each tree, one for each test that is to run alone; a test occurs once in a job."""
    groups: dict[tuple[str, str, int], dict[tuple[str, int], str]] = defaultdict(dict)
    for ask in dict.fromkeys(asks):
        group = (ask.tree, ask.test, ALONE) if ask.attempt == ALONE else (ask.tree, "", 0)
        # The same test may be asked for twice at different stages: then it needs a second process.
        while any(test == ask.test for test, _ in groups[group]):
            group = (group[0], group[1], group[2] + 1)
        groups[group][ask.test, ask.attempt] = ask.purpose
    for (tree, _, _), runs in groups.items():
        yield Job(tree, tuple(runs), ", ".join(dict.fromkeys(runs.values())))


def _runs(memory: _Memory, tree: str, test: str) -> tuple[Execution, ...]:
    """The runs of a test on a tree, in order, the one alone last."""
    found: list[Execution] = []
    while (tree, test, len(found)) in memory:
        found.append(memory[tree, test, len(found)])
    return (*found, memory[tree, test, ALONE]) if (tree, test, ALONE) in memory else tuple(found)


def _spread[T](values: Sequence[T], count: int) -> list[T]:
    """`count` of the values, evenly spread."""
    if len(values) <= count:
        return list(values)
    return [values[round(number * (len(values) - 1) / (count - 1))] for number in range(count)]
