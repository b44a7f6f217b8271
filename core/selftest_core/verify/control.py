"""Controls: test files in which each test must fail, so that a test which stays green there is known to prove nothing.
Beside them, edits of test files that leave every other test as it was.

The expected value of an `==` becomes another value of its type; where a function has none, its assertions are negated;
a test without assertions gets one that fails. Nothing else changes, and a control is laid and run as any other tree:
no code of the tree can tell which of the two it runs in. A test that passes all the same has assertions that never run,
compares with something that is equal to everything, or is reported as passed whatever it does.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.git.command import Git

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from selftest_core.git.object_store import ObjectStore

LARGEST = 1_000_000
"""Bytes of a test file that is turned."""
_DEEPEST = 100
"""Brackets within brackets in a file that is turned."""
_NEGATED = {
    "assertTrue": "assertFalse", "assertIn": "assertNotIn", "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone", "assertIsInstance": "assertNotIsInstance", "assertRegex": "assertNotRegex",
    "assertGreater": "assertLessEqual", "assertLess": "assertGreaterEqual", "assertEqual": "assertNotEqual",
}  # fmt: skip
_OPPOSITE = {**_NEGATED, **{after: before for before, after in _NEGATED.items()}}
_EQUAL = frozenset(
    {
        "assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertSetEqual", "assertTupleEqual",
        "assertSequenceEqual", "assertCountEqual", "assertMultiLineEqual", "assertAlmostEqual",
    }
)  # fmt: skip
_RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# Far from what an off-by-one gives: a wrong product must not agree with the other value by chance.
_HELPER = """

def {name}(left, right, side):
    def other(value):
        kind = type(value)
        if kind is bool:
            return not value
        if kind in (int, float) and value - value == 0:
            return value * 31 + 104729
        if kind in (str, bytes):
            return value + (" (other)" if kind is str else b" (other)")
        if kind in (list, tuple):
            return value + kind([object()])
        if kind in (set, frozenset):
            return value | {{object()}}
        if kind is dict:
            return {{**value, object(): None}}
        return object()
    plain = (bool, int, float, str, bytes, list, tuple, set, frozenset, dict)
    if side == "value":
        return other(right)
    if side == "exception":
        return type("Other", (Exception,), {{}})
    if side == "left" or (side == "either" and type(right) not in plain and type(left) in plain):
        return other(left) == right
    return left == other(right)
"""

type _Function = ast.FunctionDef | ast.AsyncFunctionDef


def turned(source: bytes) -> bytes | None:
    """Return a test file in which each test must fail; None where that cannot be made of it."""
    coding = next((found[1] for line in source.splitlines()[:2] if (found := _CODING.match(line))), b"utf-8")
    if len(source) > LARGEST or _is_deep(source) or coding.lower().replace(b"_", b"-") not in (b"utf-8", b"utf8"):
        return None
    try:
        text = source.decode("utf-8-sig").replace("\r\n", "\n")
        made = _Turning(text).made().encode()
        ast.parse(made)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return made


def _is_deep(source: bytes) -> bool:
    depth = 0
    for found in re.finditer(rb"[\[\](){}]", source):
        depth += 1 if found[0] in b"[({" else -1
        if depth > _DEEPEST:
            return True
    return False


class _Turning:
    """The edits of one file: spans of bytes and what replaces them."""

    def __init__(self, text: str) -> None:
        self._source = text.encode() if text.endswith("\n") else text.encode() + b"\n"
        self._lines = [0]
        for line in self._source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._edits: dict[tuple[int, int], bytes] = {}
        # Its own name for each file: nobody can write it into the file that it is made of.
        self._name = f"_check_{hashlib.sha256(self._source).hexdigest()[:12]}"

    def made(self) -> str:
        """Return the turned text. Raises SyntaxError, ValueError, RecursionError, MemoryError."""
        tree = ast.parse(self._source)
        functions: dict[str, list[_Function]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.setdefault(node.name, []).append(node)
        asserting = {name for name, found in functions.items() if [one for one in found if self._turn(one)]}
        for test in _tests(tree.body):
            if asserting.isdisjoint(_reached(test, functions)):
                self._fail(test)
        parts, at = [], 0
        for (start, end), text in sorted(self._edits.items()):
            if start < at:
                raise ValueError("one assertion lies in another")
            parts += [self._source[at:start], text]
            at = end
        made = b"".join((*parts, self._source[at:]))
        return made.decode() + _HELPER.format(name=self._name)

    def _turn(self, function: _Function) -> bool:
        """Turn the assertions of a function; True where it has some."""
        asserts = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
        calls = {node: name for node in ast.walk(function) if isinstance(node, ast.Call) and (name := _method(node))}
        equal = [one for node in asserts for one in _equal(node.test)]
        equal_calls = [node for node, name in calls.items() if name in _EQUAL and len(node.args) > 1]
        raises = [node for node, name in calls.items() if name in _RAISES and node.args]
        others = [(node, name) for node, name in calls.items() if name in _OPPOSITE and node not in equal_calls]
        for compare in equal:
            self._compare(compare)
        for call in equal_calls:
            self._value(call.args[0] if _is_literal(call.args[0]) and not _is_literal(call.args[1]) else call.args[1])
        # Beside an `==` the others stay: what is equal to everything must not fail at another assertion.
        if not equal and not equal_calls:
            for node in asserts:
                # Something that is always true stays: such a test cannot fail.
                if not isinstance(node.test, ast.Constant | ast.Tuple):
                    self._replace(node.test, b"(not (" + self._text(node.test) + b"))")
            for call, name in others:
                end = self._at(call.func.end_lineno, call.func.end_col_offset)
                self._edits[end - len(name), end] = _OPPOSITE[name].encode()
            for call in raises:
                self._replace(call.args[0], f"{self._name}(None, None, 'exception')".encode())
        return bool(asserts or equal_calls or others or raises)

    def _compare(self, node: ast.Compare) -> None:
        left, right = node.left, node.comparators[0]
        literal = (_is_literal(left), _is_literal(right))
        side = b"left" if literal == (True, False) else b"right" if literal == (False, True) else b"either"
        words = (self._name.encode(), b"((", self._text(left), b"), (", self._text(right), b"), '", side, b"')")
        self._replace(node, b"".join(words))

    def _value(self, node: ast.expr) -> None:
        self._replace(node, self._name.encode() + b"(None, (" + self._text(node) + b"), 'value')")

    def _fail(self, test: _Function) -> None:
        """Let a test without assertions fail where it ends."""
        for node in _own(test):
            if isinstance(node, ast.Return):
                self._replace(node, b"raise AssertionError")
        first, last = test.body[0], test.body[-1]
        start = self._lines[first.lineno - 1]
        indent = self._source[start : start + first.col_offset]
        if indent.strip():  # on the line of its `def`
            end = self._at(last.end_lineno, last.end_col_offset)
            self._edits[end, end] = b"; raise AssertionError"
        elif not isinstance(last, ast.Return):
            end = self._lines[last.end_lineno or last.lineno]
            self._edits[end, end] = indent + b"raise AssertionError\n"

    def _replace(self, node: ast.expr | ast.stmt, text: bytes) -> None:
        span = self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)
        self._edits.setdefault(span, text)  # what is in a nested function belongs to each function around it

    def _text(self, node: ast.expr) -> bytes:
        start, end = self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)
        return self._source[start:end]

    def _at(self, line: int | None, column: int | None) -> int:
        assert line is not None
        assert column is not None  # the parser gives all nodes their ends
        return self._lines[line - 1] + column


def _tests(body: list[ast.stmt]) -> Iterator[_Function]:
    """Yield the functions of a module, and of classes in it, that pytest may take for tests."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _tests(node.body)


def _own(function: _Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions and classes in it."""
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            left += ast.iter_child_nodes(node)


def _reached(test: _Function, functions: dict[str, list[_Function]]) -> set[str]:
    """Return the names of the file's functions that a test calls or takes as fixtures, itself among them."""
    found, left = {test.name}, [test]
    while left:
        function = left.pop()
        names = {argument.arg for argument in function.args.args}
        names |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
        for name in names & functions.keys() - found:
            found.add(name)
            left += functions[name]
    return found


def _equal(test: ast.expr) -> Iterator[ast.Compare]:
    """Yield the comparisons by `==` that an assertion wants to be true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _equal(value)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        yield test


def _method(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) and node.func.id == "raises" else ""


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return all(_is_literal(one) for one in node.elts)
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.Dict)


_HOOKS = ("pytest_", "setup", "teardown", "tear_down", "load_tests")
"""Beginnings of names that pytest, or unittest, calls by itself."""


def is_plain_addition(before: bytes | None, after: bytes) -> bool:
    """True where an edit of a test file adds tests, and can change no other test while the file is imported.

    All statements of before stay, in their order. What is added are imports, literals, functions and classes, under
    names that were free and that nothing uses, without a decorator but pytest's marks. It errs towards False: the
    tests that the base has are then run as it has them.
    """
    try:
        old, new = (ast.parse(text) for text in (before or b"", after))
        if max(_depth(old), _depth(new)) > _DEEPEST:
            return False
        left = [ast.dump(node) for node in old.body]
        used = {node.id for node in ast.walk(old) if isinstance(node, ast.Name)} | set(dir(builtins))
        used |= {node.arg for node in ast.walk(old) if isinstance(node, ast.arg)}
        used |= {name for node in old.body for name in _bound(node)}
        for node in new.body:
            if left and ast.dump(node) == left[0]:
                del left[0]
            elif (
                not _is_plain(node)
                or not used.isdisjoint(_bound(node))
                or any(name.startswith(_HOOKS) for name in _bound(node))
            ):
                return False
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return not left


def _depth(tree: ast.AST) -> int:
    """Count the levels of a syntax tree, without recursion."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a plain statement of a module binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(one.asname or one.name).partition(".")[0] for one in names}
        case ast.Assign(targets=[ast.Name(id=name)]):
            return {name}
        case _:
            return set()


def _is_plain(node: ast.stmt) -> bool:
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return not any(one.name == "*" for one in names)
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            now = [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]
            now += [one.annotation for one in ast.walk(arguments) if isinstance(one, ast.arg) and one.annotation]
            now += [node.returns] if node.returns else []
            return all(map(_is_mark, node.decorator_list)) and not any(map(_runs, now))
        case ast.ClassDef(bases=bases, keywords=keywords, body=body):
            return (
                not keywords
                and not any(map(_runs, bases))
                and all(map(_is_mark, node.decorator_list))
                and all(map(_is_plain, body))
            )
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name not in ("pytestmark", "pytest_plugins") and _is_literal(value) and not _runs(value)
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
        case _:
            return False


def _is_mark(node: ast.expr) -> bool:
    """True for `pytest.mark.NAME`, with literals where it is called."""
    called = node.func if isinstance(node, ast.Call) else node
    words = [*node.args, *(one.value for one in node.keywords)] if isinstance(node, ast.Call) else []
    return ast.unparse(called).startswith("pytest.mark.") and not any(map(_runs, (called, *words)))


def _runs(node: ast.expr) -> bool:
    """True for an expression that calls something, or binds a name."""
    return any(
        isinstance(
            one, ast.Call | ast.NamedExpr | ast.Await | ast.ListComp | ast.SetComp | ast.DictComp | ast.JoinedStr
        )
        for one in ast.walk(node)
    )


def turn_tree(store: ObjectStore, tree: str, paths: Collection[str]) -> tuple[str, frozenset[str]]:
    """Turn these test files of a tree; returns the tree, and the files that were turned. Raises ToolError."""
    listed = store.git.ask("ls-tree", "-r", "-z", tree).split("\0")
    entries = [line.partition("\t") for line in listed if line]
    blobs = {path: words.split()[2] for words, _, path in entries if path in paths and words.startswith("100")}
    made = {path: turned(store.read(oid)[1]) for path, oid in blobs.items() if path.endswith(".py")}
    changed = {path: store.write(b"blob", body) for path, body in made.items() if body is not None}
    lines = [f"100644 {oid}\t{path}" for path, oid in sorted(changed.items())]
    return (with_entries(store.git, tree, lines) if changed else tree), frozenset(changed)


def with_entries(git: Git, tree: str, lines: Sequence[str]) -> str:
    """Return `tree` with these entries of an index: mode, id, a tab and the path. Raises ToolError."""
    with tempfile.TemporaryDirectory(dir=git.git_dir, prefix="index-") as folder:
        own = Git(git.git_dir, {})
        own.environment = {**git.environment, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        own.ask("read-tree", tree)
        own.ask("update-index", "-z", "--index-info", text="".join(f"{line}\0" for line in lines))
        return own.ask("write-tree").strip()
