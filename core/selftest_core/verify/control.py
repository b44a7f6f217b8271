"""Controls: test files in which each test must fail, so that a test which stays green there is known to prove nothing.
Beside them, edits of test files that leave every other test as it was.

The expected value of an `==` becomes any of several other values of its type, near ones and far ones; where a function
has none, its assertions are negated; a test without assertions, whose helpers have none either, gets one that fails; an
example of a docstring gets another output. Values and names are drawn by a seed that no code of a tree can know.
Nothing else changes, and a control is laid and run as any other tree. A test that passes all the same has assertions
that never run, compares with something that is equal to too much, or is reported as passed whatever it does.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import io
import random
import re
import tempfile
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.git.command import Git
from selftest_core.review.changes.kinds import Kind, kind_of_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from selftest_core.git.object_store import ObjectStore

LARGEST = 4_000_000
"""Bytes of a test file that is turned."""
_DEEPEST = 200
"""Brackets within brackets in a file that is turned: Python itself takes no more."""
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
_EXAMPLE = re.compile(r"(?m)^([ \t]*)>>> .*\n(?:\1\.\.\. ?.*\n)*\1(?!>>>|\.\.\.)(\S.*)$")
_HELPER = """

def {name}(left, right, side):
    def known(value):
        kind = type(value)
        module = __import__("sys").modules.get(kind.__module__)
        return kind.__module__.partition(".")[0] in ("_pytest", "numpy", "pandas") and (
            getattr(module, kind.__name__, None) is kind
        )
    def others(value, is_far):
        kind = type(value)
        if kind is bool:
            return [not value]
        if kind in (int, float) and value - value == 0:
            found = [value * 31 + step for step in {far}] + ([] if is_far else [value + step for step in {near}])
        elif kind in (str, bytes):
            word = {word} if kind is str else {word}.encode()
            found = [value + word] + ([] if is_far else [word + value, value[1:], value[:-1], value.swapcase()])
        elif kind in (list, tuple):
            found = [value + kind([object()])] + ([] if is_far else [value[1:], value[:-1], value[::-1]])
        elif kind in (set, frozenset):
            found = [value | {{object()}}] + ([] if is_far else [kind(list(value)[1:])])
        elif kind is dict:
            found = [{{**value, object(): None}}] + ([] if is_far else [dict(list(value.items())[1:])])
        else:
            return [object()]
        return [one for one in found if one != value]
    plain = (bool, int, float, str, bytes, list, tuple, set, frozenset, dict)
    if side in ("value", "far"):
        return others(right, side == "far")[0]
    if side == "exception":
        return type({word}.strip(), (Exception,), {{}})
    if side == "left" or (side == "either" and type(right) not in plain and type(left) in plain):
        return any([one == right for one in others(left, known(right))])
    return any([left == one for one in others(right, known(left))])
"""

type _Function = ast.FunctionDef | ast.AsyncFunctionDef


def turned(source: bytes, seed: bytes = b"", helpers: Collection[str] = frozenset()) -> bytes | None:
    """Return a test file in which each test must fail; None where that cannot be made of it.

    `helpers`: functions of other files that a test without assertions may have them in.
    """
    try:
        text, encoding = _decoded(source)
        return _encoded(_Turning(text, seed).tests(helpers), encoding)
    except _UNFIT:
        return None


_UNFIT = (SyntaxError, ValueError, LookupError, RecursionError, MemoryError)


def _decoded(source: bytes) -> tuple[str, str]:
    """Return the text of a Python file, and its encoding. Raises one of `_UNFIT`."""
    if len(source) > LARGEST or _is_deep(source):
        raise ValueError("it is too large, or too deep")
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding).replace("\r\n", "\n"), encoding


def _encoded(text: str, encoding: str) -> bytes:
    ast.parse(text)
    return text.encode(encoding)


def turned_examples(source: bytes, seed: bytes = b"") -> bytes | None:
    """Return a file whose examples, `>>>` and the output, must fail; None where that cannot be made of it."""
    word = f"other-{hashlib.sha256(seed + source).hexdigest()[:8]}"
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return _EXAMPLE.sub(lambda found: found[0][: found.start(2) - found.start()] + word, text).encode()


def _is_deep(source: bytes) -> bool:
    depth = 0
    for found in re.finditer(rb"[\[\](){}]", source):
        depth += 1 if found[0] in b"[({" else -1
        if depth > _DEEPEST:
            return True
    return False


class _Turning:
    """The edits of one file: spans of bytes and what replaces them."""

    def __init__(self, text: str, seed: bytes) -> None:
        self._text_of_file = text if text.endswith("\n") else f"{text}\n"
        self._source = text.encode() if text.endswith("\n") else text.encode() + b"\n"
        self._lines = [0]
        for line in self._source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._edits: dict[tuple[int, int], bytes] = {}
        digest = hashlib.sha256(seed + self._source).hexdigest()
        # A name and values that nobody can write into the file that they are made for.
        chance = random.Random(digest)
        self._name = f"_{digest[:12]}"
        self._helper = _HELPER.format(
            name=self._name,
            near=chance.sample((-3, -2, -1, 1, 2, 3), 6),
            far=[chance.randrange(10**4, 10**6) for _ in range(2)],
            word=repr(f" {digest[12:18]}"),
        )
        self._tree = ast.parse(self._text_of_file)
        self._functions: dict[str, list[_Function]] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.setdefault(node.name, []).append(node)

    def tests(self, helpers: Collection[str]) -> str:
        """Return the text with all assertions turned round. Raises ValueError."""
        asserting = {name for name, found in self._functions.items() if [one for one in found if self._turn(one)]}
        for test in _tests(self._tree.body):
            reached = _reached(test, self._functions)
            if asserting.isdisjoint(reached) and reached.isdisjoint(helpers):
                self._fail(test)
        return self._made()

    def wanted_helpers(self) -> set[str]:
        """Return the names that tests without an assertion of this file reach."""
        asserting = {name for name, found in self._functions.items() if [one for one in found if self._turn(one)]}
        reached = [_reached(test, self._functions) for test in _tests(self._tree.body)]
        return {name for names in reached if asserting.isdisjoint(names) for name in names}

    def some(self, names: Collection[str]) -> tuple[str, set[str]]:
        """Return the text with the assertions of functions with these names turned, and which have some."""
        found = {name: self._functions[name] for name in names if name in self._functions}
        asserting = {name for name, functions in found.items() if [one for one in functions if self._turn(one)]}
        return self._made(), asserting

    def _made(self) -> str:
        parts, at = [], 0
        for (start, end), text in sorted(self._edits.items()):
            if start < at:
                raise ValueError("one assertion lies in another")
            parts += [self._source[at:start], text]
            at = end
        return b"".join((*parts, self._source[at:])).decode() + self._helper

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
            is_first = _is_literal(call.args[0]) and not _is_literal(call.args[1])
            self._value(call.args[0 if is_first else 1], "far" if calls[call] == "assertAlmostEqual" else "value")
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

    def _value(self, node: ast.expr, side: str) -> None:
        self._replace(node, self._name.encode() + b"(None, (" + self._text(node) + f"), '{side}')".encode())

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
    """Return the names that a test, and the functions of the file that it calls or takes as fixtures, refer to."""
    found, seen, left = {test.name}, {test.name}, [test]
    while left:
        function = left.pop()
        names = {argument.arg for argument in function.args.args}
        names |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
        found |= names
        for name in names & functions.keys() - seen:
            seen.add(name)
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
                or any(name.lower().startswith(_HOOKS) for name in _bound(node))
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


def turn_tree(
    store: ObjectStore, tree: str, tests: Collection[str], seed: bytes = b""
) -> tuple[str, Mapping[str, bool]]:
    """Turn the files of these tests in a tree; returns the tree, and each Python file: whether it could be turned.

    Raises ToolError.
    """
    plain = {test.partition("::")[0] for test in tests if not is_example(test)}
    examples = {test.partition("::")[0] for test in tests if is_example(test)}
    listed = store.git.ask("ls-tree", "-r", "-z", tree).split("\0")
    entries = [line.partition("\t") for line in listed if line]
    blobs = {path: words.split()[2] for words, _, path in entries if words.startswith("100")}
    bodies = {path: store.read(blobs[path])[1] for path in plain | examples if path in blobs}
    wanted: set[str] = set()
    for path in plain & bodies.keys():
        with contextlib.suppress(*_UNFIT):
            wanted |= _Turning(_decoded(bodies[path])[0], seed).wanted_helpers()
    changed: dict[str, bytes] = {}
    asserting: set[str] = set()
    for path in blobs if wanted else ():
        if path not in bodies and _is_helper(path):
            with contextlib.suppress(*_UNFIT):
                text, encoding = _decoded(store.read(blobs[path])[1])
                made, found = _Turning(text, seed).some(wanted)
                if found:
                    changed[path] = _encoded(made, encoding)
                    asserting |= found
    turnable: dict[str, bool] = {}
    for path, body in bodies.items():
        if not path.endswith(".py") and path not in examples:
            continue  # of a plugin: nobody knows what an assertion is there
        now = turned(body, seed, asserting) if path in plain else body
        now = turned_examples(now, seed) if path in examples and now is not None else now
        turnable[path] = now is not None
        changed |= {} if now is None else {path: now}
    lines = [f"100644 {store.write(b'blob', body)}\t{path}" for path, body in sorted(changed.items())]
    return (with_entries(store.git, tree, lines) if lines else tree), turnable


def _is_helper(path: str) -> bool:
    return path.endswith(".py") and kind_of_path(path) is Kind.TEST and not path.endswith("conftest.py")


def is_example(test: str) -> bool:
    """True for the id of examples in a docstring or a text: they are named by their module or their file."""
    path, _, name = test.partition("::")
    parts = path.removesuffix(".py").split("/")
    modules = {".".join(parts[place:]) for place in range(len(parts))}
    word = name.partition("[")[0]
    # `test_total.py::test_total` is a test: of a module's own docstring it would be the name, too.
    is_module = word in modules and not word.startswith("test")
    return word == path.rpartition("/")[2] or is_module or any(word.startswith(f"{one}.") for one in modules)


def with_entries(git: Git, tree: str, lines: Sequence[str]) -> str:
    """Return `tree` with these entries of an index: mode, id, a tab and the path. Raises ToolError."""
    with tempfile.TemporaryDirectory(dir=git.git_dir, prefix="index-") as folder:
        own = Git(git.git_dir, {})
        own.environment = {**git.environment, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        own.ask("read-tree", tree)
        own.ask("update-index", "-z", "--index-info", text="".join(f"{line}\0" for line in lines))
        return own.ask("write-tree").strip()
