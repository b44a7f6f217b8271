"""Verify a review: the trees of its line, the runs of its tests on them, and a verdict for each change."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Status, build_line
from selftest_core.review.changes.kinds import Kind, kind_of_path
from selftest_core.review.pull_request import VerifiedTests
from selftest_core.review.resolutions import answers_of
from selftest_core.verify import schedule
from selftest_core.verify.commands.setup import why_environment_differs
from selftest_core.verify.control import is_example, is_plain_addition, turn_tree, with_entries
from selftest_core.verify.ownership import Owned, changes_judge, files_with_tests, find_owned, is_test_file
from selftest_core.verify.runner import Collected
from selftest_core.verify.schedule import Order, TestReport
from selftest_core.verify.verdicts import Effect, Verdict
from selftest_core.verify.verifier import Driver, stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.command import Git
    from selftest_core.git.commit_changes import PathChange
    from selftest_core.git.object_store import ObjectStore
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.engine import Engine
    from selftest_core.review.evidence import Evidence
    from selftest_core.verify.kept.results import Results
    from selftest_core.verify.sandbox import Isolation
    from selftest_core.verify.schedule import Report
    from selftest_core.verify.verdicts import Execution
    from selftest_core.verify.verifier import Progress, Verifier


class Verified(StrEnum):
    """The verdict on one change, or on the whole line."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    UNKNOWN = "unknown"


class Mark(StrEnum):
    """A reason to look at a change first."""

    LIAR = "liar"
    CULPRIT = "culprit"
    OWN_JUDGE = "changes its own judge"
    EDITED = "passes only as it edits the test"
    FEWER = "fewer assertions run"
    NO_FIX = "claims a fix that is not there"
    NOTHING_NEW = "proves nothing new"


ASKS = frozenset({Mark.LIAR, Mark.OWN_JUDGE, Mark.EDITED, Mark.FEWER})
"""Marks of changes that a person has to decide: no rule of a decisions file publishes them."""


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """The verdict on one change. `tests`: those that it owns; `broke`: those of others that it turns red.

    `claimed`: what its agents say of their tests, None where they say nothing.
    """

    oid: str
    verified: Verified
    claimed: bool | None
    tests: tuple[TestReport, ...] = ()
    broke: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CollectionError:
    """A file whose tests could not be collected. `message`: the last line; `breaker`: the change that is the cause."""

    path: str
    message: str
    breaker: str | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdicts on one line. `tree` is what was verified; counts are of this time, `from_cache` of earlier ones.

    `vanished`: tests of the base that are not collected any more, without parameters; none where it passed.
    """

    tree: str
    verified: Verified
    items: Mapping[str, ItemVerdict]
    tests: tuple[TestReport, ...]
    is_whole_suite: bool
    executions: int = 0
    processes: int = 0
    checkouts: int = 0
    from_cache: int = 0
    flaky_before: Mapping[str, int] = field(default_factory=dict)
    vanished: tuple[str, ...] = ()
    collection_errors: tuple[CollectionError, ...] = ()

    @property
    def broken(self) -> tuple[tuple[str, str], ...]:
        """Each broken test with the change that breaks it."""
        return tuple((one.test, one.culprit) for one in self.tests if one.culprit is not None)

    @property
    def flaky(self) -> tuple[str, ...]:
        """Tests that are flaky, or depend on the order."""
        return tuple(one.test for one in self.tests if one.after in _DOUBTFUL)


def verified_tests(verification: Verification, isolation: Isolation) -> VerifiedTests:
    """Say for a pull request what was verified, how, and where."""
    counts = Counter(one.after for one in verification.tests)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) or "no test"
    suite = "the whole suite" if verification.is_whole_suite else "the tests that the changes own or affect"
    where = f"in a sandbox ({isolation.kind})" if isolation.is_isolated else "not isolated"
    says = (
        f"Verified: {verification.verified}. On exactly this branch (tree {verification.tree[:12]}) selftest-tui ran "
        f"{suite}, {where}: {verdicts}. Red tests were repeated in new processes."
    )
    rows = []
    for one in verification.tests:
        before = f" (before: {one.before})" if one.before is not None else ""
        rows.append((one.test, f"{one.after}, {one.effect}{before}"))
    return VerifiedTests(verification.tree, says, tuple(rows))


class ReviewLine:
    """The applied changes of a review, as `schedule.Line`. For the thread that has the engine."""

    def __init__(self, engine: Engine, reviewed: Reviewed, own_trees: Mapping[str, str]) -> None:
        laid = {one.item.oid for one in reviewed.line.items if one.status is Status.LAID}
        self.changes = tuple(change for change in reviewed.order if change.oid in laid)
        self.items: Sequence[schedule.Item] = ()
        made_by: dict[str, list[Change]] = {}
        for change in reviewed.order:
            for agent in change.agents:
                made_by.setdefault(agent, []).append(change)
        self._fewest = {agent: min(len(one.agents) for one in made) for agent, made in made_by.items()}
        off = {one.item.oid for one in reviewed.line.items if one.status in (Status.HELD, Status.DROPPED)}
        # What the chosen change of a row says is applied, whoever said it.
        applied = {oid for oid, row in reviewed.row_of.items() if row.chosen not in off}
        self._whole = {agent for agent, made in made_by.items() if all(one.oid in applied for one in made)}
        self.others = {
            change.oid: reviewed.agents_of(change.oid)[len(change.agents) :]
            for change in self.changes
            if reviewed.row_of[change.oid].others
        }
        self._engine = engine
        self._own_trees = own_trees
        self._base = reviewed.plan.base
        self._base_tree = engine.store.tree_of(reviewed.plan.base)
        self._answers = answers_of(reviewed.decisions.resolutions.values())
        self._trees: dict[tuple[int, ...], str | None] = {}
        self.edits: frozenset[str] = frozenset()
        self._of_base: dict[str, str] = {}
        self.controlled: set[str] = set()
        self.seed = b""
        self._controls: dict[str, tuple[str, Mapping[str, bool]]] = {}

    def assign(
        self, owned: Mapping[str, Owned], evidence: Mapping[str, Evidence], *, makes_environments: bool = True
    ) -> None:
        """Take in which tests each change owns, and what agents say of them.

        `makes_environments`: each tree gets the environment that its manifests ask for.

        A claim is about the whole branch of its agent. It belongs to the changes that the fewest agents share, so that
        those who made one of them too are not to blame for it; where part of the branch is not applied, what others
        made too is judged by the tests of the others.
        """
        self.items = tuple(
            self._scheduled(change, owned[change.oid], evidence, makes_environments=makes_environments)
            for change in self.changes
        )

    def _scheduled(
        self, change: Change, owned: Owned, evidence: Mapping[str, Evidence], *, makes_environments: bool
    ) -> schedule.Item:
        tests = {test: agent for agent in change.agents if agent in evidence for test, _ in evidence[agent].tests}
        same = (*change.agents, *self.others.get(change.oid, ()))
        tests_of_all = {test: agent for agent in same if agent in evidence for test, _ in evidence[agent].tests}
        judged: Sequence[str] = owned.own
        if any(agent in self._whole for agent in same):
            files = {one.path for one in change.paths}
            void = {test for test, agent in tests_of_all.items() if agent not in self._whole}
            judged = [test for test in owned.own if test not in void or test.partition("::")[0] in files]
        claimed = frozenset(
            test
            for test, is_green in owned.claimed.items()
            if is_green and (test not in tests or len(change.agents) == self._fewest[tests[test]])
        )
        own = [self._own_trees[agent] for agent in change.agents if agent in self._own_trees]
        by_test = {test: self._own_trees[agent] for test, agent in tests.items() if agent in self._own_trees}
        doubt = "" if makes_environments else why_environment_differs(one.path for one in change.paths)
        return schedule.Item(
            change.oid, tuple(judged), claimed, own[0] if own else None, by_test, owned.affected, doubt
        )

    def prefix(self, count: int) -> str:
        """Return the tree with the first `count` changes."""
        tree = self.only(range(count))
        assert tree is not None  # they are all applied on the candidate, in this order
        return tree

    def only(self, places: Sequence[int]) -> str | None:
        """Return the tree of the base with these changes, in this order; None where they conflict."""
        key = tuple(places)
        if key not in self._trees:
            items = [self.changes[place].item for place in key]
            line = build_line(self._engine, self._base, self._base_tree, items, {}, answers=self._answers)
            is_whole = all(one.status is not Status.HELD for one in line.items)
            self._trees[key] = line.tree if is_whole else None
        return self._trees[key]

    def before(self) -> str:
        """Return the tree of the base with the test files of the candidate that any change touches."""
        paths = {one.path for change in self.changes for one in change.paths if kind_of_path(one.path) is Kind.TEST}
        return with_files_of(self._engine.store.git, self._base_tree, self.prefix(len(self.changes)), paths)

    def find_edits(self, files: Collection[str]) -> None:
        """Find what the candidate edits of tests and their settings, and may change what other tests are.

        `files`: those that hold tests on the base, by whatever name.
        """
        touched = {one.path for change in self.changes for one in change.paths if kind_of_path(one.path) is Kind.TEST}
        touched |= {path for change in self.changes for path in changes_judge(self._engine.store, change)}
        touched |= {one.path for change in self.changes for one in change.paths if one.path in files or _is_link(one)}
        self.edits = reaching_edits(self._engine.store, self._base_tree, self.prefix(len(self.changes)), touched)

    def with_tests_of_base(self, tree: str) -> str:
        """Return a tree of the line with what `find_edits` found as the base has it."""
        if tree not in self._of_base:
            self._of_base[tree] = with_files_of(self._engine.store.git, tree, self._base_tree, self.edits)
        return self._of_base[tree]

    def control(self, tree: str) -> tuple[str, Mapping[str, bool]]:
        """Return the tree in which the tests must fail, and whether the file of each could be turned for it."""
        if tree not in self._controls:
            self._controls[tree] = turn_tree(self._engine.store, tree, self.controlled, self.seed)
        return self._controls[tree]


def _is_link(path: PathChange) -> bool:
    """True where a link is made or taken away: tests may be found behind it."""
    return any(side is not None and not side.mode.startswith("100") for side in (path.before, path.after))


def reaching_edits(store: ObjectStore, before: str, after: str, paths: Collection[str]) -> frozenset[str]:
    """Return those of the paths that differ in two trees, but for test files to which only tests were added."""
    old, new = _entries(store.git, before), _entries(store.git, after)
    found = set()
    for path in paths:
        was, now = old.get(path), new.get(path)
        if was == now:
            continue
        if is_test_file(path) and now is not None and now.startswith("100") and (was or "100").startswith("100"):
            text = None if was is None else store.read(was.split()[2])[1]
            if is_plain_addition(text, store.read(now.split()[2])[1]):
                continue
        found.add(path)
    return frozenset(found)


def _entries(git: Git, tree: str) -> dict[str, str]:
    """Map the paths of a tree to mode, type and id."""
    listed = git.ask("ls-tree", "-r", "-z", tree)
    return {path: words for words, _, path in (line.partition("\t") for line in listed.split("\0") if line)}


def with_files_of(git: Git, tree: str, other: str, paths: Collection[str]) -> str:
    """Return `tree` with these files as they are in `other`; a file that is not there goes."""
    if not paths:
        return tree
    entries = _entries(git, other)
    lines = []
    for path in sorted(paths):
        if path in entries:
            mode, _, oid = entries[path].split()
            lines.append(f"{mode} {oid}\t{path}")
        else:
            lines.append(f"0 {'0' * 40}\t{path}")
    return with_entries(git, tree, lines)


def verify_line(
    engine: Engine,
    reviewed: Reviewed,
    line: ReviewLine,
    evidence: Mapping[str, Evidence],
    verifier: Verifier,
    results: Results,
    on_progress: Callable[[Progress], None] = lambda _: None,
    *,
    only: Sequence[str] = (),
    is_whole_suite: bool = False,
    first: Callable[[], Sequence[str]] = tuple,
    on_owned: Callable[[Mapping[str, tuple[str, ...]]], None] = lambda _: None,
    on_kept: Callable[[str, str, Execution], None] = lambda _tree, _test, _run: None,
) -> Verification:
    """Verify the candidate of a review. `only`: node ids or files to restrict it to. Blocking.

    `first`: gives the changes whose tests are run before the others, whenever it is asked. `on_owned` is called once
    with the tests of each change; `on_kept` with each result of earlier, by tree and test. Raises StoppedError,
    ToolError.
    """
    tree = line.prefix(len(line.changes))
    processes, checkouts = verifier.processes, verifier.checkouts
    collected, owned, base = _collect(engine, line, evidence, verifier, results, tree, is_whole_suite=is_whole_suite)
    if verifier.is_stopped:
        raise stopped()
    if collected.reason or base.reason:
        why = collected.reason or f"the tests of the base cannot be collected: {base.reason}"
        return _unknown(engine, reviewed, line, tree, why, is_whole_suite=is_whole_suite)
    line.assign(owned, evidence, makes_environments=verifier.makes_environments)
    affected = dict.fromkeys(test for one in owned.values() for test in one.affected)
    is_whole_suite = is_whole_suite or collected.is_opaque
    # Of a file that cannot be imported any more no test is collected: those of the base are red.
    lost = [test for test in base.tests if test.partition("::")[0] in collected.errors]
    suite = list(dict.fromkeys((*(collected.tests if is_whole_suite else affected), *lost)))
    vanished = _vanished(base, collected, owned)
    if only:
        keeps = tuple(only)
        line.items = tuple(
            replace(one, tests=tuple(test for test in one.tests if _is_named(test, keeps))) for one in line.items
        )
        suite = [test for test in suite if _is_named(test, keeps)]
        vanished = [test for test in vanished if _is_named(test, keeps)]
    line.controlled = set() if collected.is_opaque else {*suite, *(test for item in line.items for test in item.tests)}
    line.seed = results.secret()
    tests_of = {item.id: item.tests or owned[item.id].affected for item in line.items}
    on_owned(tests_of)
    of_base = frozenset(base.tests)
    if not collected.is_opaque:
        line.find_edits({test.partition("::")[0] for test in of_base if not is_example(test)})
    # A new test may leave something behind that turns others green: it runs after those that the base has.
    late = frozenset(test for test in collected.tests if test not in of_base)
    driver = Driver(verifier, results, on_progress, on_kept, Order(first, tests_of, late))
    report = driver.drive(schedule.verify(line, suite, results.flakes(), of_base, _refuted(line.items, results)))
    results.purge((one.test, tree) for one in report.tests if one.after in _DOUBTFUL)
    verified = _whole(report)
    errors = () if only else _collection_errors(collected, report)
    return Verification(
        tree=tree,
        # What could not be collected was not seen to pass.
        verified=Verified.UNKNOWN if verified is Verified.PASSED and (vanished or errors) else verified,
        items=_with_vanished(
            _with_missing_fixes(
                _items(engine, reviewed, line, owned, report, is_opaque=collected.is_opaque), reviewed, evidence
            ),
            line.changes,
            vanished,
        ),
        tests=report.tests,
        is_whole_suite=is_whole_suite,
        executions=driver.executions,
        processes=verifier.processes - processes,
        checkouts=verifier.checkouts - checkouts,
        from_cache=driver.from_cache,
        flaky_before=results.flakes(),
        vanished=tuple(vanished),
        collection_errors=errors,
    )


def _refuted(items: Sequence[schedule.Item], results: Results) -> dict[str, list[str]]:
    """Map tests to the changes that claim them green though they were red each time on the tree of their agent.

    As it was seen when the claim arrived: nothing is run for it here.
    """
    found: dict[str, list[str]] = {}
    for item in items:
        for test in item.claimed:
            tree = item.own_trees.get(test, item.own_tree)
            runs = [tree and results.find(tree, test, number) for number in range(schedule.REPEATS + 1)]
            if all(run and run.result.is_red and not (run.is_unimportable or run.lacks) for run in runs):
                found.setdefault(test, []).append(item.id)
    return found


def _vanished(base: Collected, collected: Collected, owned: Mapping[str, Owned]) -> list[str]:
    """List the tests of the base that are not there any more, without parameters; those with a new name are there."""
    renamed = {test for one in owned.values() for test, new in one.gone.items() if new}
    there = {test.partition("[")[0] for test in collected.tests} | renamed
    gone = dict.fromkeys(test.partition("[")[0] for test in base.tests)
    return [test for test in gone if test not in there and test.partition("::")[0] not in collected.errors]


def _collection_errors(collected: Collected, report: Report) -> tuple[CollectionError, ...]:
    culprits = {one.test.partition("::")[0]: one.culprit for one in report.tests if one.culprit is not None}
    return tuple(
        CollectionError(
            path, next((line for line in reversed(why.splitlines()) if line.strip()), ""), culprits.get(path)
        )
        for path, why in collected.errors.items()
    )


def _collect(
    engine: Engine,
    line: ReviewLine,
    evidence: Mapping[str, Evidence],
    verifier: Verifier,
    results: Results,
    tree: str,
    *,
    is_whole_suite: bool,
) -> tuple[Collected, dict[str, Owned], Collected]:
    """Find the tests of the candidate, which change owns which, and the tests of the base in the same files.

    From what was kept of the same line, if it is.
    """
    claims = {name: one.tests for name, one in sorted(evidence.items())}
    made = [(change.oid, change.agents, line.others.get(change.oid, ())) for change in line.changes]
    about = ["gone, opaque, base", line.prefix(0), tree, is_whole_suite, made, claims]
    key = hashlib.sha256(json.dumps(about).encode()).hexdigest()
    kept = results.find_plan(key)
    if kept is not None:
        found = json.loads(kept)
        owned = {
            oid: Owned(tuple(own), tuple(affected), claimed, gone)
            for oid, (own, affected, claimed, gone) in found["owned"].items()
        }
        base = Collected(tuple(found["base"]), found["base_errors"])
        return Collected(tuple(found["tests"]), found["errors"], "", found["opaque"]), owned, base
    looked_into: list[str] = []

    def files(root: Path) -> list[str]:
        looked_into[:] = [] if is_whole_suite else files_with_tests(line.changes, evidence, root)
        return looked_into

    def files_of_base(root: Path) -> list[str]:
        removed = [one.path for change in line.changes for one in change.paths if one.after is None]
        wanted = dict.fromkeys((*looked_into, *filter(is_test_file, removed)))
        return [] if is_whole_suite else [path for path in wanted if (root / path).is_file()]

    collected, root = verifier.collect(tree, files)
    if collected.reason:
        return collected, {}, Collected((), {})
    owned = find_owned(engine.store, line.changes, evidence, collected.tests, root, line.others)
    if collected.is_opaque:
        files_of = {change.oid: {one.path for one in change.paths} for change in line.changes}
        owned = {oid: _with_tests_in(one, files_of[oid], collected.tests) for oid, one in owned.items()}
    base = Collected((), {})
    if not collected.is_opaque and not verifier.is_stopped:
        base, _ = verifier.collect(line.prefix(0), files_of_base)
    shown = {oid: (one.own, one.affected, dict(one.claimed), dict(one.gone)) for oid, one in owned.items()}
    plan = {
        "tests": collected.tests, "errors": dict(collected.errors), "owned": shown, "opaque": collected.is_opaque,
        "base": base.tests, "base_errors": dict(base.errors),
    }  # fmt: skip
    if not base.reason:
        results.keep_plan(key, json.dumps(plan))
    return collected, owned, base


def _with_tests_in(owned: Owned, paths: Collection[str], tests: Sequence[str]) -> Owned:
    """Add the tests in files that a change touches: of other languages nothing finer is known."""
    inside = [test for test in tests if test.partition("::")[0] in paths]
    return replace(owned, own=tuple(dict.fromkeys((*owned.own, *inside))))


def _items(
    engine: Engine,
    reviewed: Reviewed,
    line: ReviewLine,
    owned: Mapping[str, Owned],
    report: Report,
    *,
    is_opaque: bool,
) -> dict[str, ItemVerdict]:
    """Give each change its verdict. `is_opaque`: each may affect any test; those that it leaves as they were are many,
    and not listed for each.
    """
    tests = {one.test: one for one in report.tests}
    broke: dict[str, list[TestReport]] = {}
    for one in report.tests:
        if one.culprit is not None:
            broke.setdefault(one.culprit, []).append(one)
    status = {one.item.oid: one.status for one in reviewed.line.items}
    found = {
        change.oid: ItemVerdict(change.oid, Verified.UNKNOWN, None, reason=_why_not(reviewed, change.oid, status))
        for change in reviewed.order
    }
    for change, item in zip(line.changes, line.items, strict=True):
        own = tuple(tests[test] for test in item.tests if test in tests)
        if is_opaque:
            affected = tuple(one for one in report.tests if one not in own)
        else:
            affected = tuple(tests[test] for test in owned[change.oid].affected if test in tests)
        verdict = _item(
            engine, line, change, own, affected, tuple(broke.get(change.oid, ())), owned[change.oid], report
        )
        if is_opaque:
            listed = [one for one in verdict.tests if one in own or one.effect is not Effect.KEPT]
            verdict = replace(verdict, tests=tuple(listed))
        found[change.oid] = verdict
    return found


def _with_missing_fixes(
    items: Mapping[str, ItemVerdict], reviewed: Reviewed, evidence: Mapping[str, Evidence]
) -> dict[str, ItemVerdict]:
    """Mark the changes of agents that claim a fix of the product, of which none changes the product."""
    # By its paths: what a commit says of its kind is a claim, too.
    fixing = {
        agent
        for change in reviewed.order
        if any(kind_of_path(one.path) is Kind.IMPLEMENTATION for one in change.paths)
        for agent in change.agents
    }
    lacking = {agent for agent, one in evidence.items() if one.claims_fix} - fixing
    marked = {change.oid for change in reviewed.order if not lacking.isdisjoint(change.agents)}
    return {oid: replace(one, marks=(*one.marks, Mark.NO_FIX)) if oid in marked else one for oid, one in items.items()}


def _with_vanished(
    items: Mapping[str, ItemVerdict], changes: Sequence[Change], vanished: Sequence[str]
) -> dict[str, ItemVerdict]:
    """Leave no change passed that edits a file from which tests of the base vanished."""
    found = dict(items)
    for change in changes:
        paths = {one.path for one in change.paths}
        lost = next((test for test in vanished if test.partition("::")[0] in paths), None)
        if lost is not None and items[change.oid].verified is Verified.PASSED:
            found[change.oid] = replace(items[change.oid], verified=Verified.UNKNOWN, reason=f"{lost} vanished")
    return found


_UNPROVED = (Verdict.UNKNOWN, Verdict.MISSING, Verdict.CANNOT_FAIL)
_DOUBTFUL = (Verdict.FLAKY, Verdict.ORDER_DEPENDENT)
_WHY_NOT = {
    Status.LAID: "not verified",
    Status.HELD: "in conflict, so it is not on the candidate",
    Status.VOID: "it changes nothing any more",
    Status.DROPPED: "reverted",
}


def _why_not(reviewed: Reviewed, oid: str, status: Mapping[str, Status]) -> str:
    """Say why a change has no verdict."""
    return _WHY_NOT[status[oid]] if reviewed.is_chosen(oid) else "another change that says the same is chosen"


def _item(
    engine: Engine,
    line: ReviewLine,
    change: Change,
    own: tuple[TestReport, ...],
    affected: tuple[TestReport, ...],
    broke: tuple[TestReport, ...],
    owned: Owned,
    report: Report,
) -> ItemVerdict:
    said = [is_green for is_green in owned.claimed.values() if is_green is not None]
    claimed = all(said) if said else None
    marks = []
    if any(change.oid in one.false_claims for one in own):
        marks.append(Mark.LIAR)
    if broke:
        marks.append(Mark.CULPRIT)
    if changes_judge(engine.store, change):
        marks.append(Mark.OWN_JUDGE)
    if _passes_by_edits(line, change, report):
        marks.append(Mark.EDITED)
    if any(one.lost_assertions for one in (*own, *affected)):
        marks.append(Mark.FEWER)
    tests = (*own, *affected, *_gone(own, owned))
    if tests and all(one.effect is Effect.KEPT for one in tests):
        marks.append(Mark.NOTHING_NEW)
    verified, reason = _judge(change.oid, own, affected, broke)
    return ItemVerdict(change.oid, verified, claimed, tests, tuple(one.test for one in broke), tuple(marks), reason)


def _passes_by_edits(line: ReviewLine, change: Change, report: Report) -> bool:
    """True where a test passes only as this change edits tests: its own file, or another one if nobody edits that."""
    edited = line.edits.intersection(one.path for one in change.paths)
    files = [one.test.partition("::")[0] for one in report.tests if one.only_edited]
    return bool(edited) and any(file in edited or file not in line.edits for file in files)


def _gone(own: Sequence[TestReport], owned: Owned) -> list[TestReport]:
    """Report the tests that a change removes or renames."""
    known = {one.test for one in own}
    return [
        TestReport(test, None, Verdict.MISSING, Effect.GONE, (), reason=f"now {new}" if new else "removed")
        for test, new in owned.gone.items()
        if test not in known
    ]


def _judge(
    oid: str, own: Sequence[TestReport], affected: Sequence[TestReport], broke: Sequence[TestReport]
) -> tuple[Verified, str]:
    """Judge one change, and give the reason for one that did not pass.

    What is affected counts where nothing is owned; a test that others break, or that was red before, is not its fault,
    and neither is a test of which another change makes a false claim.
    """
    false = next((one for one in own if oid in one.false_claims), None)
    if false is not None:
        by = f"; here {false.fixed_by[:9]} turns it green" if false.fixed_by else ""
        return Verified.FAILED, f"its agent says that the test passes; it fails on the agent's own tree{by}"
    if broke:
        more = f" and {len(broke) - 1} more" if len(broke) > 1 else ""
        if broke[0].after is Verdict.CANNOT_FAIL:
            return Verified.FAILED, f"with it, {broke[0].test}{more} cannot fail: {broke[0].reason}"
        return Verified.FAILED, f"breaks {broke[0].test}{more}"
    own = [one for one in own if not one.false_claims or one.after is Verdict.GREEN]
    tests = own or [one for one in affected if one.after is Verdict.GREEN]
    tests = tests or [one for one in affected if one.after in _DOUBTFUL]
    lost = next((one for one in (*own, *affected) if one.after is Verdict.SKIPPED and one.effect is Effect.GONE), None)
    if lost is not None:
        return Verified.UNKNOWN, f"{lost.test} is {lost.reason}"
    if not tests:
        broken = next((one for one in affected if one.culprit is not None), None)
        if broken is not None:
            return Verified.UNKNOWN, f"{broken.test}, which it affects, fails: {_cause(broken)}"
        return Verified.UNKNOWN, "the tests that it affects do not pass before or after" if affected else "no test"
    first = next((one for one in tests if one.after is Verdict.RED), None)
    if first is not None:
        return Verified.FAILED, f"{first.test} fails: {_cause(first)}"
    first = next((one for one in tests if one.after in _DOUBTFUL), None)
    if first is not None:
        return Verified.FLAKY, f"{first.test} is {first.after}"
    first = next((one for one in tests if one.after is Verdict.CANNOT_FAIL), None)
    if first is not None:
        by = f", since {first.culprit[:9]}" if first.culprit else ""
        return Verified.UNKNOWN, f"{first.test} cannot fail here{by}: {first.reason}"
    first = next((one for one in tests if one.after is not Verdict.GREEN), None)
    if first is not None:
        why = first.reason or (first.runs[0].reason if first.runs else "")
        return Verified.UNKNOWN, f"{first.test}: {why or first.after}"
    return Verified.PASSED, ""


def _cause(report: TestReport) -> str:
    return f"broken by {report.culprit[:9]}" if report.culprit else report.reason


def _whole(report: Report) -> Verified:
    counts = Counter(one.after for one in report.tests)
    if counts[Verdict.RED]:
        return Verified.FAILED
    if counts[Verdict.FLAKY] or counts[Verdict.ORDER_DEPENDENT]:
        return Verified.FLAKY
    if any(one.after is Verdict.CANNOT_FAIL and one.culprit is not None for one in report.tests):
        return Verified.FAILED
    # What the base skips too is not the branch's doing.
    if (
        not report.tests
        or any(one.effect is Effect.GONE for one in report.tests)
        or any(counts[one] for one in _UNPROVED)
    ):
        return Verified.UNKNOWN
    return Verified.PASSED


def _unknown(
    engine: Engine, reviewed: Reviewed, line: ReviewLine, tree: str, reason: str, *, is_whole_suite: bool
) -> Verification:
    laid = {change.oid for change in line.changes}
    judges = {change.oid for change in line.changes if changes_judge(engine.store, change)}
    status = {one.item.oid: one.status for one in reviewed.line.items}
    items = {
        change.oid: ItemVerdict(
            change.oid,
            Verified.UNKNOWN,
            None,
            reason=reason if change.oid in laid else _why_not(reviewed, change.oid, status),
            # Who changes how tests are judged is the first suspect.
            marks=(Mark.OWN_JUDGE,) if change.oid in judges else (),
        )
        for change in reviewed.order
    }
    return Verification(tree, Verified.UNKNOWN, items, (), is_whole_suite)


def _is_named(test: str, names: Sequence[str]) -> bool:
    return any(test == name or test.startswith((f"{name}::", f"{name}[", f"{name}/")) for name in names)
