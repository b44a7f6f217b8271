"""Expectations: `expect(result).to_succeed()`, `expect(result.stdout).to_contain("…")`, `expect(path).to_exist()`.

Each returns itself, so that several can follow one another. A failure shows the command, its exit status and both of
its outputs, shortened and masked. `eventually` asks again until an expectation holds.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, overload

from selftest_recorder.e2e.noop import longest
from selftest_recorder.e2e.results import Output, Result, cut, masked, shown, shown_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from typing import Self

_LONGEST_PAUSE = 1.0
_NAMES_SHOWN = 40


@overload
def expect(value: Result) -> ResultExpectation: ...
@overload
def expect(value: str) -> TextExpectation: ...
@overload
def expect(value: Path) -> PathExpectation: ...
@overload
def expect(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...] | set[Any] | float | None,
) -> ValueExpectation: ...


def expect(value: Any) -> Any:
    """Begin an expectation of a command's result, a text, a path, or any other value such as parsed JSON."""
    match value:
        case Result():
            return ResultExpectation(value)
        case str():
            return TextExpectation(value)
        case Path():
            return PathExpectation(value)
        case _:
            return ValueExpectation(value)


def eventually[T](ask: Callable[[], T], what: str = "", timeout: float = 60.0) -> T:
    """Ask until the answer is true, and return it. A failed expectation counts as "not yet".

    Raises AssertionError with `what` and the last answer, or the last failure, after `timeout` seconds.
    """
    __tracebackhide__ = True
    timeout = longest(timeout)
    deadline = time.monotonic() + timeout
    pause = 0.02
    while True:
        answer: T | None = None
        failure: AssertionError | None = None
        try:
            answer = ask()
        except AssertionError as error:
            failure = error
        if answer:
            return answer
        if time.monotonic() > deadline:
            last = masked(str(failure) if failure is not None else f"the last answer: {cut(repr(answer))}")
            raise AssertionError(f"{what or 'it'} did not come within {timeout:g} s; {last}")
        time.sleep(pause)  # what a test asks for has no event in general
        pause = min(2 * pause, _LONGEST_PAUSE)


class ResultExpectation:
    """Expectations of a command."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def to_succeed(self) -> Self:
        """Expect exit status 0."""
        __tracebackhide__ = True
        return self.to_have_exit_code(0)

    def to_fail(self) -> Self:
        """Expect any other exit status."""
        __tracebackhide__ = True
        if self._result.exit_status == 0:
            self._fail("it was expected to fail, and succeeded")
        return self

    def to_have_exit_code(self, code: int) -> Self:
        """Expect this exit status."""
        __tracebackhide__ = True
        if self._result.exit_status != code:
            self._fail(f"exit status {self._result.exit_status}, expected {code}")
        return self

    @property
    def stdout(self) -> TextExpectation:
        """Expectations of its output."""
        return TextExpectation(self._result.stdout)

    @property
    def stderr(self) -> TextExpectation:
        """Expectations of its errors."""
        return TextExpectation(self._result.stderr)

    def to_have_json(self, expected: object) -> Self:
        """Expect stdout to be a JSON document with these values; objects in it may have more keys."""
        __tracebackhide__ = True
        if difference := differing(expected, self._result.json()):
            self._fail(f"its JSON differs {difference}")
        return self

    def _fail(self, says: str) -> NoReturn:
        __tracebackhide__ = True
        raise AssertionError(f"{masked(says)}\n{shown(self._result)}")


class TextExpectation:
    """Expectations of a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def to_contain(self, *parts: str) -> Self:
        """Expect each of these in the text."""
        __tracebackhide__ = True
        for part in parts:
            if part not in self._text:
                self._fail(f"does not contain {part!r}")
        return self

    def not_to_contain(self, *parts: str) -> Self:
        """Expect none of these in the text."""
        __tracebackhide__ = True
        for part in parts:
            if part in self._text:
                self._fail(f"contains {part!r}")
        return self

    def to_match(self, pattern: str) -> Self:
        """Expect a pattern somewhere in the text; `^` and `$` are those of a line."""
        __tracebackhide__ = True
        if not re.search(pattern, self._text, re.MULTILINE):
            self._fail(f"does not match {pattern!r}")
        return self

    def not_to_match(self, pattern: str) -> Self:
        """Expect a pattern nowhere in the text."""
        __tracebackhide__ = True
        if found := re.search(pattern, self._text, re.MULTILINE):
            self._fail(f"matches {pattern!r} at {found.group()!r}")
        return self

    def to_equal(self, expected: str) -> Self:
        """Expect exactly this text."""
        __tracebackhide__ = True
        if self._text != expected:
            before, after = expected.splitlines(), self._text.splitlines()
            lines = list(difflib.unified_diff(before, after, "expected", "found", lineterm="", n=2))
            # Texts that differ in their line ends alone have no lines that differ.
            told = (
                f":\n{shown_text('\n'.join(lines))}" if lines else f": {expected!r} was expected, {self._text!r} found"
            )
            self._fail(f"differs{told}")
        return self

    def to_be_empty(self) -> Self:
        """Expect no text; blanks and line ends do not count."""
        __tracebackhide__ = True
        if self._text.strip():
            self._fail("is not empty")
        return self

    def to_have_json(self, expected: object) -> Self:
        """Expect a JSON document with these values; objects in it may have more keys."""
        __tracebackhide__ = True
        try:
            document = json.loads(self._text)
        except ValueError as error:
            self._fail(f"is no JSON ({error})")
        if difference := differing(expected, document):
            self._fail(f"as JSON differs {difference}")
        return self

    def _fail(self, says: str) -> NoReturn:
        __tracebackhide__ = True
        if isinstance(self._text, Output):
            result = self._text.result
            name = "stderr" if self._text == result.stderr != result.stdout else "stdout"
            raise AssertionError(f"{name} {masked(says)}\n{shown(result)}")
        raise AssertionError(f"the text {masked(says)}; it is:\n{shown_text(self._text)}")


class PathExpectation:
    """Expectations of a file or folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def to_exist(self) -> Self:
        """Expect a file, a folder, or anything else at the path."""
        __tracebackhide__ = True
        if not self._path.exists():
            self._fail("does not exist")
        return self

    def to_be_missing(self) -> Self:
        """Expect nothing at the path."""
        __tracebackhide__ = True
        if self._path.is_symlink() or self._path.exists():
            self._fail("exists")
        return self

    def to_be_a_folder(self) -> Self:
        """Expect a folder."""
        __tracebackhide__ = True
        if not self._path.is_dir():
            self._fail("is no folder")
        return self

    def to_have_text(self, expected: str) -> Self:
        """Expect a file with exactly this text."""
        __tracebackhide__ = True
        TextExpectation(self._read()).to_equal(expected)
        return self

    def to_contain(self, *parts: str) -> Self:
        """Expect each of these in the text of a file."""
        __tracebackhide__ = True
        TextExpectation(self._read()).to_contain(*parts)
        return self

    def to_have_json(self, expected: object) -> Self:
        """Expect a file with a JSON document with these values; objects in it may have more keys."""
        __tracebackhide__ = True
        TextExpectation(self._read()).to_have_json(expected)
        return self

    def _read(self) -> str:
        __tracebackhide__ = True
        try:
            return self._path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self._fail(f"cannot be read ({error.strerror})")

    def _fail(self, says: str) -> NoReturn:
        __tracebackhide__ = True
        folder = self._path.parent
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        beside = ", ".join(names[:_NAMES_SHOWN]) + (" …" if len(names) > _NAMES_SHOWN else "")
        where = f"in {folder} there is: {beside or 'nothing'}" if folder.is_dir() else f"{folder} does not exist either"
        raise AssertionError(masked(f"{self._path} {says}; {where}"))


class ValueExpectation:
    """Expectations of any other value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def to_equal(self, expected: object) -> Self:
        """Expect this value."""
        __tracebackhide__ = True
        if self._value != expected:
            self._fail(f"expected {expected!r}, found {self._value!r}")
        return self

    def to_contain(self, *parts: object) -> Self:
        """Expect each of these in the value."""
        __tracebackhide__ = True
        for part in parts:
            if part not in self._value:
                self._fail(f"{part!r} is not in {self._value!r}")
        return self

    def to_be_empty(self) -> Self:
        """Expect nothing in the value."""
        __tracebackhide__ = True
        value: Sized = self._value
        if len(value):
            self._fail(f"not empty: {value!r}")
        return self

    def to_have_json(self, expected: object) -> Self:
        """Expect these values; objects may have more keys."""
        __tracebackhide__ = True
        if difference := differing(expected, self._value):
            self._fail(f"it differs {difference}")
        return self

    def _fail(self, says: str) -> NoReturn:
        __tracebackhide__ = True
        raise AssertionError("\n".join(cut(line) for line in masked(says).splitlines()))


def differing(expected: object, found: object, at: str = "") -> str:
    """Describe the first difference of two JSON values, "" for none; objects that were found may have more keys."""
    where = at or "at the top"
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            if key not in found:
                return f"{where}: no key {key!r} among {cut(repr(sorted(map(str, found))))}"
            if difference := differing(value, found[key], f"{at}.{key}" if at else f"at {key}"):
                return difference
        return ""
    if isinstance(expected, list | tuple) and isinstance(found, list):
        if len(expected) != len(found):
            return f"{where}: expected {len(expected)} values, found {len(found)}: {cut(repr(found))}"
        pairs = enumerate(zip(expected, found, strict=True))
        differences = (differing(one, other, f"{at or 'at '}[{number}]") for number, (one, other) in pairs)
        return next(filter(None, differences), "")
    if isinstance(expected, bool) is not isinstance(found, bool) or expected != found:
        return f"{where}: expected {cut(repr(expected))}, found {cut(repr(found))}"
    return ""
