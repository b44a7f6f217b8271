"""Growth of a test suite: tests that are new since an earlier run, and tests that are gone, with the commit.

Suites are compared only where the same tests were asked for: else each run of a single file would delete all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.git.objects import is_oid
from selftest_core.run.plan.plan import Deletion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from selftest_core.git.command import Git
    from selftest_core.run.plan.plan import RunPlan

_MOST_SEARCHED = 50
"""Deleted tests whose commit is searched: each costs a call of git."""
_SEARCH = 20.0
"""Seconds for one search."""
_LONGEST = 200


def suite_tests(plan: RunPlan) -> frozenset[str]:
    """Return all tests that were found for a run: with an agent, resting, or not selected."""
    suite = plan.suite
    own = {test.node_id for test in plan.tests if "::" in test.node_id}
    if suite is None:
        return frozenset(own)
    return frozenset(own.union(suite.unselected, (one.node_id for one in suite.resting)))


def comparable(plans: Iterable[RunPlan], asked: Sequence[str], pytest_args: Sequence[str]) -> RunPlan | None:
    """Return the first plan for which the same tests were asked, None without one. Older plans do not say."""
    for plan in plans:
        if plan.suite is not None and plan.suite.asked == tuple(asked) and plan.pytest_args == tuple(pytest_args):
            return plan
    return None


def unknown_files(plan: RunPlan) -> frozenset[str]:
    """Return the files of which a run did not know which tests they have: broken or skipping themselves."""
    broken = frozenset(test.node_id for test in plan.tests if "::" not in test.node_id)
    return broken if plan.suite is None else broken.union(plan.suite.unknown)


def new_and_gone(before: RunPlan, found: Iterable[str], unknown: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the tests that are new since a run, and those that are gone.

    `found`: all tests now; `unknown`: files of which it is not known which tests they have now. Tests of such files,
    now or then, are neither new nor gone.
    """
    unknown = unknown_files(before).union(unknown)
    now = [one for one in dict.fromkeys(found) if one.partition("::")[0] not in unknown]
    then = {one for one in suite_tests(before) if one.partition("::")[0] not in unknown}
    known = set(now)
    return tuple(one for one in now if one not in then), sorted(one for one in then if one not in known)


def deletions(gone: Sequence[str], before: str, base: str, git: Git) -> tuple[Deletion, ...]:
    """Find the commit between two bases that removed each test; the agent is named by the commit's trailers.

    Where one search takes too long, no more are made: the others would take as long.
    """
    found: list[Deletion] = []
    try:
        for name in gone[:_MOST_SEARCHED]:
            found.append(_deletion(name, before, base, git))
    except SelftestError:
        pass
    return (*found, *(Deletion(name) for name in gone[len(found) :]))


def _deletion(node_id: str, before: str, base: str, git: Git) -> Deletion:
    """Search one commit. Raises ToolError where that takes too long."""
    path, _, name = node_id.partition("[")[0].partition("::")
    function = name.rpartition("::")[2]
    fields = "%x00".join(("%H", "%s", "%(trailers:key=Selftest-Agent,valueonly,separator=%x2C )"))
    done = git.run(
        "log", "-1", f"--format={fields}", f"-Sdef {function}(", "--end-of-options", f"{before}..{base}", "--",
        path, timeout=_SEARCH,
    )  # fmt: skip
    oid, _, rest = done.stdout.strip("\n").partition("\0")
    if not done.ok or not is_oid(oid):
        return Deletion(node_id)
    subject, _, agents = rest.partition("\0")
    return Deletion(node_id, oid, _one_line(subject), _one_line(agents))


def _one_line(text: str) -> str:
    """Return a text of an agent as one printable line that is not too long."""
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def rewritten_base(last: RunPlan, base: str, git: Git) -> str:
    """Return a warning where a base does not build on that of the last run, nor the other way; empty where it does."""
    if last.base == base:
        return ""
    short = last.base[:12]
    if not git.run("cat-file", "-e", f"{last.base}^{{commit}}").ok:
        return (
            f"the base of the last run ({last.run}), {short}, is not in this repository: the branch was rewritten, or "
            "this clone has only a part of its history"
        )
    for older, newer in ((last.base, base), (base, last.base)):
        if git.run("merge-base", "--is-ancestor", older, newer).exit_status == 0:
            return ""
    return (
        f"the base {base[:12]} does not contain {short}, the base of the last run ({last.run}): the branch was "
        "rewritten (force-pushed), or is another one"
    )
