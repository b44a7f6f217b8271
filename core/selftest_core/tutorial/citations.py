"""Read the citations of tutorial blocks from the syntax trees of tests.

The tests are neither imported nor run, so files that cannot be imported are read too. A citation has one of two forms,
in test functions and in methods of test classes:

    e2e.write_tutorial_block(\"\"\"…\"\"\")         a call with a literal text
    Tutorial block:                             a section of the docstring, up to the next section
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CALL = "write_tutorial_block"
SECTION = "Tutorial block:"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_HEADER = re.compile(r"[A-Z][\w ]*:(\s|$)")

type TestFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Citation:
    """One text that a test cites. `test`: the node id without parameters. `line`: 1-based, in the test's file."""

    test: str
    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something unreadable: a test file, or a citation that is computed at run time."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Read:
    """The citations of one test file. `tests`: number of its test functions."""

    citations: tuple[Citation, ...]
    unreadable: tuple[Unreadable, ...]
    tests: int


def read_tests(source: str | bytes, path: str) -> Read:
    """Read one test file. `path` is relative to the repository, with slashes, and becomes part of the node ids.

    Bytes are decoded like Python source: by a byte order mark, a `coding` comment, else as UTF-8.
    """
    try:
        tree = _parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        says = getattr(error, "msg", None) or str(error) or type(error).__name__
        return Read((), (Unreadable(path, line, f"not Python that can be read: {says}"),), 0)
    calling = _lines_with_the_call(source)
    constants = dict(_constants(tree))
    citations: list[Citation] = []
    unreadable: list[Unreadable] = []
    tests = 0
    for names, function in each_test(tree.body):
        tests += 1
        node_id = "::".join((path, *names, function.name))
        for line, text in _docstring_blocks(function):
            citations.append(Citation(node_id, path, line, text))
        # Most tests have no call, and walking all trees would take most of the time.
        has_call = any(function.lineno <= line <= (function.end_lineno or line) for line in calling)
        for call in _calls(function) if has_call else ():
            text_or_none = _text(call, constants)
            if text_or_none is None:
                message = f"{node_id} cites a text that is only known when it runs: write the block out"
                unreadable.append(Unreadable(path, call.lineno, message))
            else:
                citations.append(Citation(node_id, path, call.lineno, text_or_none))
    return Read(tuple(citations), tuple(unreadable), tests)


def _parsed(source: str | bytes) -> ast.Module:
    with warnings.catch_warnings():
        # The compiler would print its warnings over the screen.
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _lines_with_the_call(source: str | bytes) -> list[int]:
    data = source if isinstance(source, bytes) else source.encode("utf-8", "replace")
    name = CALL.encode()
    return (
        [number for number, line in enumerate(_LINE_END.split(data), start=1) if name in line] if name in data else []
    )


def each_test(body: list[ast.stmt], names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TestFunction]]:
    """Yield the test functions of a module's body by pytest's default names, each with the names of its classes.

    Those in nested classes and under `if` and `try` too.
    """
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name.startswith("test"):
                yield names, statement
        elif isinstance(statement, ast.ClassDef):
            # unittest.TestCase classes are collected whatever their name is, so the name is no condition.
            yield from each_test(statement.body, (*names, statement.name))
        elif isinstance(statement, ast.If):
            branch = statement
            yield from each_test(branch.body, names)
            # `elif` is an `if` in the `else`: a chain of them may be longer than Python recurses.
            while len(branch.orelse) == 1 and isinstance(branch.orelse[0], ast.If):
                branch = branch.orelse[0]
                yield from each_test(branch.body, names)
            yield from each_test(branch.orelse, names)
        elif isinstance(statement, ast.Try):
            handled = [inner for handler in statement.handlers for inner in handler.body]
            yield from each_test([*statement.body, *handled, *statement.orelse, *statement.finalbody], names)
        elif isinstance(statement, ast.With):
            yield from each_test(statement.body, names)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))):
                yield name, text
            case _:
                continue


def _calls(function: TestFunction) -> Iterator[ast.Call]:
    found = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == CALL
    ]
    yield from sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _text(call: ast.Call, constants: Mapping[str, str]) -> str | None:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return _value(arguments[0], constants) if arguments else None


def _value(node: ast.expr, constants: Mapping[str, str]) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            parts = [_value(part, constants) for part in values]
            return "".join(part for part in parts if part is not None) if None not in parts else None
        case ast.Name(id=name):
            return constants.get(name)
        case ast.Call(func=ast.Attribute(attr="dedent" | "cleandoc"), args=[inner]):
            return _value(inner, constants)
        case ast.Call(func=ast.Name(id="dedent" | "cleandoc"), args=[inner]):
            return _value(inner, constants)
        case _:
            return None


def _docstring_blocks(function: TestFunction) -> Iterator[tuple[int, str]]:
    raw = ast.get_docstring(function, clean=False)
    if raw is None or SECTION not in raw:
        return
    statement = function.body[0]
    lines = raw.splitlines()
    for number, line in enumerate(lines):
        if line.strip() == SECTION:
            # The first line stands behind the quotes, so its own indentation says nothing.
            indent = _depth(line) if number else statement.col_offset
            yield statement.lineno + number, _section(lines[number + 1 :], indent)


def _section(lines: list[str], indent: int) -> str:
    """Return the lines of a section: those indented deeper than its header, else all up to the next header."""
    filled = next((line for line in lines if line.strip()), "")
    is_deeper = _depth(filled) > indent
    taken: list[str] = []
    for line in lines:
        ends = _depth(line) <= indent if is_deeper else _HEADER.match(line.strip()) is not None
        if line.strip() and ends:
            break
        taken.append(line)
    return textwrap.dedent("\n".join(taken)).strip("\n")


def _depth(line: str) -> int:
    """Count the cells before the first character. Tabs are expanded only here: tabs in a command are part of it."""
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())
