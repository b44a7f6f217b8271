"""Proof of a resolution by tests: those that both sides own pass on the tree with it, in the sandbox of `verify`.

A test that does not pass without the resolution either (an agent's own is tried on its own branch) says nothing about
it. Results are kept like all others, so a verification of the review finds them.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.paths import cache_folder
from selftest_core.review.changes.inputs import own_folder
from selftest_core.verify.environment import find_testing
from selftest_core.verify.kept.results import Results
from selftest_core.verify.local import LocalVerifier
from selftest_core.verify.ownership import files_with_tests, find_owned
from selftest_core.verify.review_verifier import lock_slots
from selftest_core.verify.sandbox import choose_isolation
from selftest_core.verify.schedule import judge_tests
from selftest_core.verify.verdicts import Verdict
from selftest_core.verify.verifier import Driver, stopped

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.integrate.standing import Standing
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.verify.verifier import Verifier

_FINE = frozenset({Verdict.GREEN, Verdict.FLAKY, Verdict.ORDER_DEPENDENT})
_LONGEST_OUTPUT = 4000


@dataclass(frozen=True, slots=True)
class Proof:
    """The result. `reason`: why the resolution is refused, empty where it is not; `output`: of the test that says so.

    `passed`: how many tests of both sides pass.
    """

    reason: str = ""
    output: str = ""
    passed: int = 0


def prove(
    standing: Standing,
    trees: tuple[str, str],
    mine: Sequence[Change],
    others: Sequence[Change],
    slots: Path,
    config: Config,
    environ: Mapping[str, str],
    isolation: str,
    is_stopped: threading.Event,
) -> Proof:
    """Run the tests of the changes that an answer is about (`mine`), and of the `others` that it concerns. Blocking.

    `trees`: of the branch without the answer and with it. `slots`: a folder for the trees. `isolation`: as the plan has
    it. Raises StoppedError, ToolError, RefusedError.
    """
    top = standing.inputs.place.top
    wanted = "none" if isolation == "none" else "require"
    folder = standing.inputs.folder
    started_with = () if folder is None else folder.plan().started_with
    testing = find_testing(top, config, choose_isolation(wanted, environ), environ, started_with)
    before, after = trees
    with (
        lock_slots(slots, slots.name),  # a sweep leaves locked ones alone
        closing(Results.open(own_folder(top), testing.environment.digest)) as results,
        LocalVerifier(slots, standing.engine.store.git, testing, 1) as verifier,
    ):
        verifier.begin(is_stopped, standing.engine.store.tree_of(standing.reviewed.plan.base))
        tests = _tests_of(standing, (*mine, *others), after, verifier)
        if verifier.is_stopped:
            raise stopped()
        if isinstance(tests, str):
            return Proof(f"its tests cannot be run: {tests}")
        driver = Driver(verifier, results)
        every = list(dict.fromkeys(test for of_one in tests.values() for test in of_one))
        found = driver.drive(judge_tests(after, every, "resolution"))
        red = [test for test in every if found[test].verdict not in _FINE]
        alone = _trees_alone(standing, mine, tests, before)
        for test in red:
            without = alone.get(test, (before,))
            was = [driver.drive(judge_tests(tree, [test], "without it"))[test].verdict for tree in without]
            if all(verdict not in _FINE for verdict in was):
                continue
            last = found[test].runs[-1]
            why = f" ({last.reason})" if last.reason else ""
            return Proof(f"{test} is {found[test].verdict} with it{why}", last.output[-_LONGEST_OUTPUT:])
        results.purge((test, after) for test in every if found[test].verdict is Verdict.FLAKY)
    passed = sum(found[test].verdict in _FINE for test in every)
    return Proof(passed=passed)


def _tests_of(
    standing: Standing, changes: Sequence[Change], tree: str, verifier: Verifier
) -> dict[str, tuple[str, ...]] | str:
    """The tests of each change by its id: those that it owns, else those that it affects; or why none can be run."""
    evidence = {
        agent: standing.inputs.evidence[agent]
        for change in changes
        for agent in change.agents
        if agent in standing.inputs.evidence
    }
    collected, root = verifier.collect(tree, lambda folder: list(files_with_tests(changes, evidence, folder)))
    if collected.reason:
        return collected.reason.strip().split("\n")[0]
    owned = find_owned(standing.engine.store, changes, evidence, collected.tests, root)
    return {oid: one.own or one.affected for oid, one in owned.items()}


def _trees_alone(
    standing: Standing, mine: Sequence[Change], tests: Mapping[str, tuple[str, ...]], before: str
) -> dict[str, tuple[str, ...]]:
    """The trees without the resolution on which a test of resolved changes can pass: its agents' own, the branch."""
    found: dict[str, list[str]] = {}
    for change in mine:
        trees = [tree for agent in change.agents[:1] if (tree := standing.own_tree(agent)) is not None]
        for test in tests[change.oid]:
            found.setdefault(test, [before]).extend(trees)
    return {test: tuple(dict.fromkeys(trees)) for test, trees in found.items()}


def slots_of(run: str, environ: Mapping[str, str]) -> Path:
    """The folder for the trees of an integrator run's proofs."""
    return cache_folder(environ) / "verify" / f"{run}-integrate"
