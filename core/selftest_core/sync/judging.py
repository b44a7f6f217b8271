"""Judge the tree that a writer left, without running anything: is its gap closed, and is all else as it was? Pure.

Refused are: a gap that stays open, fewer than two tests of a block or none of an unhappy path, a citation that is not
the block word for word, a changed tutorial, a test that is deleted or weakened, a file that does not parse.
"""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from typing import TYPE_CHECKING

from selftest_core.collect.edits_of_tests import BEYOND
from selftest_core.collect.imports import parsed
from selftest_core.frozen import dataclass
from selftest_core.review.changes.weakening import find_weakenings
from selftest_core.sync.gaps import edited_block
from selftest_core.sync.unhappy import WORD, asserts_failure, says_unhappy
from selftest_core.tutorial.citations import each_test
from selftest_core.verify.ownership import is_test_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from selftest_core.review.changes.weakening import Weakening
    from selftest_core.sync.gaps import Gap
    from selftest_core.sync.snapshot import Paths, Snapshot
    from selftest_core.tutorial.citations import TestFunction
    from selftest_core.tutorial.tutorial import Block

_MENDING = (
    "an assertion is changed", "cases are taken out or changed", "a limit or mark is changed", BEYOND,
)  # fmt: skip
"""Changes that mending a test may need: the block says something else now."""

type Changed = Mapping[str, tuple[bytes | None, bytes | None]]
"""The changed files by path, before and after; None where there is no such file."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result. `reasons`: why it is refused, the gravest first; empty where it is not.

    `new`: the tests of the gap that are new, and `mended`: those that were there, by node ids without parameters.
    `unhappy`: of these, the ones of an unhappy path.
    """

    reasons: tuple[str, ...]
    new: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    unhappy: frozenset[str] = frozenset()


def judge(gap: Gap, before: Snapshot, after: Snapshot, changed: Changed, paths: Paths) -> Judgement:
    """Judge what an agent made of the base."""
    if after.tutorial != before.tutorial:
        what = "deletes" if after.tutorial is None else "changes"
        return Judgement((f"it {what} {paths.tutorial}, which is the person's",))
    reasons = [*_unparsable(changed), *_weakened(gap, before, changed), *_left_open(gap, before, after)]
    tests = _tests_of(gap, after)
    if gap.block is not None:
        reasons += _of_block(gap.block, tests, after)
    known = set(_functions(before))
    functions = _functions(after)
    return Judgement(
        tuple(dict.fromkeys(reasons)),
        tuple(test for test in tests if test not in known),
        tuple(test for test in tests if test in known),
        frozenset(_unhappy({test: functions[test] for test in tests})),
    )


def _unparsable(changed: Changed) -> Iterator[str]:
    for path, (before, after) in sorted(changed.items()):
        if after is None:
            continue
        error = _error_in(path, after)
        if error and (before is None or not _error_in(path, before)):
            yield f"{path} does not parse: {error}"


def _error_in(path: str, content: bytes) -> str:
    """Return why a file cannot be parsed; empty where it can, and for files of other kinds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.endswith((".py", ".pyi")):
                ast.parse(content)
            elif path.endswith(".toml"):
                tomllib.loads(content.decode())
            elif path.endswith(".json"):
                json.loads(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        said = getattr(error, "msg", None) or str(error) or type(error).__name__
        return f"line {line}: {said}" if line else said
    return ""


def _weakened(gap: Gap, before: Snapshot, changed: Changed) -> Iterator[str]:
    """Yield what makes existing tests easier to pass; a test with a stale citation may change what it expects."""
    files = {
        path: (_text(old), _text(new))
        for path, (old, new) in changed.items()
        if is_test_file(path) or path.rpartition("/")[2] == "conftest.py"
    }
    stale = {stale.citation.text.strip() for stale in gap.stale}
    for found in find_weakenings(files):
        if not _is_mending(found, gap, stale, before):
            yield f"{found.place}: {found.what}"


def _is_mending(found: Weakening, gap: Gap, stale: set[str], before: Snapshot) -> bool:
    subject, colon, what = found.what.rpartition(": ")
    if colon and what in _MENDING:
        return any(test == f"{found.path}::{subject}" for test in gap.stale_tests)
    name = found.what.removesuffix(" is changed")
    source = before.tests.get(found.path)
    # A citation is often a constant above the tests.
    return found.what != name and source is not None and _constant(source, name).strip() in stale


def _constant(source: bytes, name: str) -> str:
    """Return the text of a module's constant, empty for none."""
    for statement in parsed(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Constant(value=str(text))) if found == name:
                return text
            case _:
                continue
    return ""


def _left_open(gap: Gap, before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Yield what the checker says against it."""
    old = {(stale.citation.test, stale.citation.text) for stale in before.check.coverage.stale}
    mine = {(stale.citation.test, stale.citation.text) for stale in gap.stale}
    for stale in after.check.coverage.stale:
        one = (stale.citation.test, stale.citation.text)
        if one in mine:
            yield f"{one[0]} still cites a text that is no block"
        elif one not in old:
            yield f"{one[0]} cites a text that is no block of the tutorial"
    cited = {citation.test for citation in after.check.citations}
    for stale in gap.stale:
        if edited_block(stale) is not None and stale.citation.test not in cited:
            yield f"{stale.citation.test} cites no block any more"
    for was, now in zip(before.check.coverage.blocks, after.check.coverage.blocks, strict=True):
        if was.tests and not now.tests:
            yield f"the block at line {was.block.line} is cited no longer"
    known = {(unreadable.path, unreadable.message) for unreadable in before.check.unreadable}
    for unreadable in after.check.unreadable:
        path, message = unreadable.path, unreadable.message
        # A file that does not parse has been named already.
        if (path, message) not in known and not _error_in(path, after.tests[path]):
            yield f"{path}:{unreadable.line}: {message}"


def _tests_of(gap: Gap, after: Snapshot) -> tuple[str, ...]:
    citing: dict[str, None] = {}
    if gap.block is not None:
        citing = dict.fromkeys(
            test for cited in after.check.coverage.blocks if cited.block == gap.block for test in cited.tests
        )
    functions = _functions(after)
    return tuple(dict.fromkeys((*citing, *(test for test in gap.stale_tests if test in functions))))


def _of_block(block: Block, tests: Sequence[str], after: Snapshot) -> Iterator[str]:
    citing = next(cited.tests for cited in after.check.coverage.blocks if cited.block == block)
    if not citing:
        yield f"no test cites the block at line {block.line}"
        return
    lines = _lines(block.text)
    for test in citing:
        texts = [citation.text for citation in after.check.citations if citation.test == test]
        if not any(_has_run(lines, _lines(text)) for text in texts):
            yield f"{test} does not cite the block word for word: other lines stand between its lines"
    functions = _functions(after)
    found = {test: functions[test] for test in citing}
    if len(found) < 2:
        yield f"only {citing[0]} cites the block: it needs a test of the happy path and one of an unhappy path"
        return
    if not _unhappy(found):
        yield f"none of the {len(found)} tests is of an unhappy path: none asserts a failure or is marked `{WORD}`"
    elif all(map(says_unhappy, found.values())):
        yield f"all {len(found)} tests are marked `{WORD}`: none is of the happy path"


def _unhappy(tests: Mapping[str, TestFunction]) -> list[str]:
    """Return the tests of an unhappy path: those that say so; where none does, those that assert a failure."""
    said = [test for test, function in tests.items() if says_unhappy(function)]
    return said or [test for test, function in tests.items() if asserts_failure(function)]


def _has_run(lines: Sequence[str], cited: Sequence[str]) -> bool:
    """True if these lines stand in the cited ones, one after the other."""
    count = len(lines)
    return any(cited[at : at + count] == lines for at in range(len(cited) - count + 1))


def _functions(snapshot: Snapshot) -> dict[str, TestFunction]:
    """Map the node ids of all tests to their syntax."""
    return {
        "::".join((path, *names, function.name)): function
        for path, source in snapshot.tests.items()
        for names, function in each_test(parsed(source).body)
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
