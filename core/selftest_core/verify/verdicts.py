"""Results of single test runs, verdicts over several of them, and what a change did to a test.

A *result* is one run of one test. A *verdict* sums up all runs of a test on one tree. An *effect* compares the
verdicts before and after a change. Only `passed` counts as green: a skipped or expectedly failing test proves nothing.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


UNIMPORTABLE = "its file cannot be imported"
"""The beginning of the reason of a test that is red since its file could not be collected."""
LACKS = "tests may lack something here: "
"""The part of the reason of a red test that may miss something which its agent had."""
_MODULE = re.compile(r"No module named '?([\w.]+)")
_VARIABLE = re.compile(r"KeyError: '([A-Z][A-Z0-9_]+)'")
_FILE = re.compile(r"(?:FileNotFoundError|PermissionError|NotADirectoryError): \[Errno \d+\] [^:\n]+: '([^'\n]+)'")
_MISSING = (
    (re.compile(r"name resolution|Name or service not known|Network is unreachable|No route to host"), "the network"),
    (re.compile(r"not a git repository"), "the .git folder of the project"),
    (
        re.compile(r"tell me who you are|identity unknown|empty ident name"),
        "an identity for git (user.name, user.email)",
    ),
    (re.compile(r"ConnectionRefusedError"), "a service that listens on this machine"),
    (re.compile(r"Read-only file system"), "the right to write outside of the tree"),
)
_LONGEST = 20_000


def find_missing(output: str, is_in_tree: Callable[[str], bool]) -> str:
    """Return what a red test may have missed that another machine has, by what it printed; empty for nothing.

    `is_in_tree`: tells of a module, by the first part of its name, and of an absolute path whether it is the tree's
    own: then it is the change that lacks it.
    """
    said = output[-_LONGEST:]
    for found in _MODULE.finditer(said):
        if not is_in_tree(found[1].partition(".")[0]):
            return f"the module {found[1]}"
    for pattern, what in _MISSING:
        if pattern.search(said):
            return what
    variable = _VARIABLE.search(said)
    if variable is not None and "environ" in said:
        return f"the variable {variable[1]}"
    for found in _FILE.finditer(said):
        name = found[1]
        if name.startswith("/") and not is_in_tree(name):
            return name
        if "/" not in name and "subprocess" in said:
            return f"the program {name}"
    return ""


class Result(StrEnum):
    """One run of one test."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    FLAKY = "flaky"
    """A runner that repeats tests itself saw it fail and pass."""
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    MISSING = "missing"
    """pytest did not collect it: the test is not in this tree, or its file does not import."""
    NOT_RUN = "not run"
    """Nothing can be said: the environment could not be made, or another tree's code was tested."""

    @property
    def is_red(self) -> bool:
        """The test ran, or should have, and did not pass."""
        return self in _RED

    @property
    def is_kept(self) -> bool:
        """May be stored as the result for its tree. Timeouts and crashes may come from the load of the machine."""
        return self not in (Result.FLAKY, Result.TIMEOUT, Result.CRASHED, Result.NOT_RUN)


_RED = frozenset({Result.FAILED, Result.ERROR, Result.TIMEOUT, Result.CRASHED})


class Verdict(StrEnum):
    """All runs of one test on one tree."""

    GREEN = "green"
    RED = "red"
    FLAKY = "flaky"
    ORDER_DEPENDENT = "order-dependent"
    """Red together with other tests, green alone."""
    CANNOT_FAIL = "cannot fail"
    """Green, and green as well where its assertions are turned round."""
    SKIPPED = "skipped"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Effect(StrEnum):
    """The effect of a change, or of the whole candidate, on a test."""

    FIXED = "fixed"
    KEPT = "kept"
    STILL_RED = "still red"
    BROKEN = "broken"
    NEW = "new"
    GONE = "gone"
    FLAKY = "flaky"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of one test. `seconds`: None where it did not end. `output`: the end of its report, not safe to show.

    `assertions`: how many different `assert` statements of test files held in it; None where nobody counted.
    """

    result: Result
    seconds: float | None = None
    output: str = ""
    reason: str = ""
    assertions: int | None = None

    @property
    def is_unimportable(self) -> bool:
        """True where it is red since its file could not be collected."""
        return self.reason.startswith(UNIMPORTABLE)

    @property
    def lacks(self) -> bool:
        """True where it is red, and may have missed something that its agent had: it accuses nobody."""
        return LACKS in self.reason


def verdict_of(runs: Sequence[Execution], alone: Execution | None = None) -> Verdict:
    """Sum up the runs of one test on one tree, in the order they were made; `alone`: a run without other tests."""
    results = [run.result for run in runs]
    if not results or Result.NOT_RUN in results:
        return Verdict.UNKNOWN
    if Result.FLAKY in results:
        return Verdict.FLAKY
    first = results[0]
    if Result.PASSED in results:
        return Verdict.GREEN if all(one is Result.PASSED for one in results) else Verdict.FLAKY
    if first.is_red:
        if alone is not None and alone.result is Result.PASSED:
            return Verdict.ORDER_DEPENDENT
        return Verdict.RED
    return Verdict.MISSING if first is Result.MISSING else Verdict.SKIPPED


def effect_of(before: Verdict | None, after: Verdict) -> Effect:
    """Compare a test before and after; `before` None: not run."""
    if Verdict.FLAKY in (before, after) or after is Verdict.ORDER_DEPENDENT:
        return Effect.FLAKY
    if before is None or Verdict.UNKNOWN in (before, after):
        return Effect.UNKNOWN
    if after is Verdict.MISSING:
        return Effect.UNKNOWN if before is Verdict.MISSING else Effect.GONE
    if after in (Verdict.SKIPPED, Verdict.CANNOT_FAIL):
        return Effect.UNKNOWN
    is_green = after is Verdict.GREEN
    if before is Verdict.GREEN:
        return Effect.KEPT if is_green else Effect.BROKEN
    if before in (Verdict.MISSING, Verdict.SKIPPED):
        return Effect.NEW if is_green else Effect.STILL_RED
    return Effect.FIXED if is_green else Effect.STILL_RED
