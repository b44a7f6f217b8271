"""Two versions of a Python file compared by syntax, so that the same change in other words gives the same result.

Only functions, methods, classes and the rest of the module whose lines changed are compared, each in a normal form:

    comments, docstrings, layout, `pass`            left out
    local names                                     numbered; without names that are used once, at once
    round(x, ndigits=2), [*x], 2 + x, x > y         round(x, 2), list(x), x + 2, y < x
    else after return, name = x; return name        no else; return x
    x.upper().strip()                               x.strip().upper()
    autouse, last yield, and return of an argument  left out of a fixture
    messages of errors, names of new fixtures       `Wording`, which may differ a little

A rewriting may only join spellings that do the same, or of which nobody would want to keep both.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING

from selftest_core.collect.hostile_text import UnreadableError, read_python
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

type _Function = ast.FunctionDef | ast.AsyncFunctionDef

_MARK = "·"
"""Stands for what is not compared; no name of Python."""
_PARAMETERS = {
    "round": ("number", "ndigits"),
    "sum": ("", "start"),
    "enumerate": ("iterable", "start"),
    "int": ("", "base"),
    "pow": ("base", "exp", "mod"),
    "open": ("file", "mode", "buffering", "encoding", "errors", "newline"),
}
"""Builtin functions whose arguments may be given by position or by name; an empty name: by position only."""
_ERRORS_WITH_MESSAGES = frozenset({
    "ArithmeticError", "AssertionError", "AttributeError", "Exception", "IndexError", "LookupError",
    "NotImplementedError", "RuntimeError", "TypeError", "ValueError", "ZeroDivisionError",
})  # fmt: skip
"""Errors whose only argument is a message to people, not data."""
_SEQUENCES = {ast.List: "list", ast.Tuple: "tuple", ast.Set: "set"}
_INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_MOST_INLINED = 16
"""Names of one function that are replaced: each costs a walk through it, and agents write functions of any size."""
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.FunctionDef, ast.AsyncFunctionDef)
_STRIPS, _CASES = frozenset({"strip", "lstrip", "rstrip"}), frozenset({"upper", "lower", "casefold"})
"""Methods of strings without arguments; it does not matter which kind comes first."""


@dataclass(frozen=True, slots=True)
class Wording:
    """A name or a message that may differ a little between changes that say the same. `kind`: name or message."""

    kind: str
    words: frozenset[str]

    def is_like(self, other: Wording) -> bool:
        """Names: the words of one are all in the other. Messages: they share a word."""
        if self.kind == "name":
            return self.words <= other.words or other.words <= self.words
        return self.words == other.words or not self.words.isdisjoint(other.words)


@dataclass(frozen=True, slots=True)
class Compared:
    """The parts of a file that changed, in their normal form, and their wording in the same order."""

    parts: tuple[object, ...]
    wording: tuple[Wording, ...]


@dataclass(frozen=True, slots=True)
class _Scope:
    """A function, a class without its methods, or the rest of a module. `lines`: its text with its comments."""

    nodes: tuple[ast.stmt, ...]
    lines: tuple[str, ...]
    name: str = ""


def compare_python(before: str | None, after: str | None) -> Compared | None:
    """Compare two versions of a file; None where one cannot be parsed, or only blank lines differ."""
    try:
        old, new = _scopes(before or ""), _scopes(after or "")
        return _compare(old, new)
    except UnreadableError:
        return None


def _compare(old: dict[str, _Scope], new: dict[str, _Scope]) -> Compared | None:
    changed = [key for key in {**old, **new} if _lines(old, key) != _lines(new, key)]
    added = [key for key in changed if key not in old]
    # A removed name may have been renamed, and then the new one is what the change is about.
    is_rename = any(key not in new for key in changed)
    free = {} if is_rename else {
        new[key].name: f"{_MARK}{number}" for number, key in enumerate(added) if _may_be_renamed(new[key])
    }  # fmt: skip
    wording: list[Wording] = []
    parts: list[object] = []
    for key in changed:
        words: list[Wording] = []
        name = new[key].name if key in added else ""
        if name in free:
            words.append(Wording("name", frozenset(word for word in name.lower().split("_") if word)))
        forms: list[object] = [
            _normal_form(scopes.get(key), free, found) for scopes, found in ((old, []), (new, words))
        ]
        if forms[0] == forms[1]:
            # The change is in what the form leaves out, such as a comment.
            forms = [list(_lines(scopes, key)) for scopes in (old, new)]
        place = free.get(name, key)
        parts.append((place, *forms))
        wording += words
    return Compared(tuple(parts), tuple(wording)) if parts else None


def _lines(scopes: dict[str, _Scope], key: str) -> tuple[str, ...]:
    return scopes[key].lines if key in scopes else ()


def _may_be_renamed(scope: _Scope) -> bool:
    """Return True for a fixture or a private function: nobody but its own change knows its name yet."""
    node = scope.nodes[0] if scope.nodes else None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith(("test", "__", "pytest_")):
        return False
    return _is_fixture(node) or node.name.startswith("_")


def _scopes(text: str) -> dict[str, _Scope]:
    """Split a module into its functions, methods, classes, imports and other statements, each by its place."""
    module = read_python(text)
    # Split as Python's parser counts lines, which are not those of str.splitlines().
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    owner = [""] * (len(lines) + 1)
    found: dict[str, list[ast.stmt]] = {"": []}
    names: dict[str, str] = {}
    times: Counter[str] = Counter()

    def take(body: Iterable[ast.stmt], outer: str) -> None:
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[outer].append(node)
                continue
            name = f"{outer}.{node.name}"
            times[name] += 1
            key = name if times[name] == 1 else f"{name}#{times[name]}"
            names[key] = node.name if not outer else ""
            first = min((one.lineno for one in node.decorator_list), default=node.lineno)
            while first > 1 and lines[first - 2].lstrip().startswith("#"):
                first -= 1
            owner[first : (node.end_lineno or node.lineno) + 1] = [key] * ((node.end_lineno or node.lineno) + 1 - first)
            if isinstance(node, ast.ClassDef):
                found[key] = []
                take(node.body, key)
                found[key] = [
                    ast.ClassDef(
                        node.name, node.bases, node.keywords, found[key], node.decorator_list, node.type_params
                    )
                ]
            else:
                found[key] = [node]

    take(module.body, "")
    texts: dict[str, list[str]] = {key: [] for key in found}
    for number, line in enumerate(lines, 1):
        if line.strip():
            texts[owner[number]].append(line.rstrip())
    return {key: _Scope(tuple(nodes), tuple(texts[key]), names.get(key, "")) for key, nodes in found.items()}


def _normal_form(scope: _Scope | None, free: Mapping[str, str], wording: list[Wording]) -> object:
    if scope is None:
        return None
    imports = sorted(one for node in scope.nodes for one in _imported(node))
    nodes = [node for node in scope.nodes if not isinstance(node, ast.Import | ast.ImportFrom)]
    return (imports, [ast.dump(node) for node in _Normal(free, wording).block(nodes)])


def _imported(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"import {one.name} as {one.asname or one.name}" for one in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
        start = "." * node.level + (node.module or "")
        yield from (f"from {start} import {one.name} as {one.asname or one.name}" for one in node.names)


class _Normal(ast.NodeTransformer):
    """Rewrites statements into the normal form. `free`: marks for names that may differ."""

    def __init__(self, free: Mapping[str, str], wording: list[Wording]) -> None:
        self._free = free
        self._wording = wording
        self._depth = 0

    def block(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Rewrite the statements of one block."""
        made: list[ast.stmt] = []
        for node in body:
            found = self.visit(node)
            if isinstance(found, ast.If) and found.orelse and isinstance(found.body[-1], _ENDS):
                made += [ast.If(found.test, found.body, []), *found.orelse]
            elif found is not None and not _does_nothing(found):
                made.append(found)
        return made

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Rewrite all below, blocks as blocks."""
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                setattr(node, name, self.block(value) or ([ast.Pass()] if name == "body" else []))
            elif isinstance(value, list):
                setattr(node, name, [self.visit(one) if isinstance(one, ast.AST) else one for one in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    # Functions and statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: _Function) -> ast.AST:
        is_fixture = _is_fixture(node)
        if is_fixture:
            node.decorator_list = [_fixture_without_form(one) for one in node.decorator_list]
            node.body[-1] = _returned(node.body)
        if is_fixture or node.name.startswith("test"):
            node.returns = None
            for arg in _args(node):
                arg.annotation = None
        if isinstance(node.returns, ast.Constant) and node.returns.value is None:
            node.returns = None
        node.name = self._free.get(node.name, node.name)
        shared = {name for one in ast.walk(node) if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        args = {arg.arg for arg in _args(node)}
        if not self._depth:
            _inline_names(node, shared | args)
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        if len(node.body) > 1 and isinstance(node.body[-1], ast.Return) and _is_none(node.body[-1].value):
            node.body.pop()
        if is_fixture and len(node.body) > 1 and _is_handed_on(node.body[-1], args):
            node.body.pop()
        if not self._depth:
            _number_names(node, shared | args)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if not self._depth or not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        return None if node.value is None else self.visit(ast.Assign([node.target], node.value))

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("list" | "tuple"), [ast.Name(again)], [])) if (
                name == again
            ):
                # Its items are gone through more than once: either will do.
                node.value = ast.Call(ast.Name(_MARK), [ast.Name(name)], [])
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        match node.exc:
            case ast.Name(name) if name in _ERRORS_WITH_MESSAGES:
                node.exc = ast.Call(node.exc, [], [])
                self._wording.append(Wording("message", frozenset()))
            case ast.Call(ast.Name(name), [message], []) if name in _ERRORS_WITH_MESSAGES and _is_message(message):
                self._wording.append(Wording("message", _words(message)))
                node.exc.args = []
            case ast.Call(ast.Name(name), [], []) if name in _ERRORS_WITH_MESSAGES:
                self._wording.append(Wording("message", frozenset()))
        return node

    # Expressions

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._free.get(node.arg, node.arg)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._free.get(node.id, node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name):
            for name in _PARAMETERS.get(node.func.id, ())[len(node.args) :]:
                given = [one for one in node.keywords if one.arg == name]
                if not given:
                    break
                node.args.append(given[0].value)
                node.keywords.remove(given[0])
        if all(one.arg is not None for one in node.keywords):
            node.keywords.sort(key=lambda one: one.arg or "")
        match node:
            case ast.Call(
                ast.Name("float"), [ast.BinOp(left, ast.Add() | ast.Sub() as sign, ast.Constant() as right)], []
            ):
                # float(x + 1) is float(x) + 1, wherever the brackets end.
                if _is_number(right):
                    return ast.BinOp(ast.Call(node.func, [left], []), sign, right)
            case ast.Call(ast.Attribute(ast.Call(ast.Attribute(text, case), [], []) as inner, strip), [], []):
                if strip in _STRIPS and case in _CASES:
                    stripped = ast.Call(ast.Attribute(text, strip, ast.Load()), [], [])
                    return ast.Call(ast.Attribute(stripped, case, ast.Load()), inner.args, [])
        return node

    def _unpacked(self, node: ast.List | ast.Tuple | ast.Set) -> ast.AST:
        self.generic_visit(node)
        match node.elts:
            case [ast.Starred(value)]:
                return ast.Call(ast.Name(_SEQUENCES[type(node)]), [value], [])
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        return self._unpacked(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        return self._unpacked(node)

    def visit_Set(self, node: ast.Set) -> ast.AST:
        return self._unpacked(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Mult) and _is_number(node.left) and not _is_number(node.right):
            node.left, node.right = node.right, node.left
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1:
            (op,), right = node.ops, node.comparators[0]
            if type(op) in _SWAPPED:
                return ast.Compare(right, [_SWAPPED[type(op)]()], [node.left])
            if isinstance(op, ast.Eq | ast.NotEq) and isinstance(node.left, ast.Constant):
                return ast.Compare(right, [op], [node.left])
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.UnaryOp(ast.Not(), ast.Compare(left, [op], right)) if type(op) in _INVERSE:
                return ast.Compare(left, [_INVERSE[type(op)]()], right)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        if all(isinstance(one, ast.Constant) for one in node.values):
            return ast.Constant("".join(str(one.value) for one in node.values if isinstance(one, ast.Constant)))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(node.value)  # without the letter before its quotes


def _args(node: _Function) -> list[ast.arg]:
    args = node.args
    more = [one for one in (args.vararg, args.kwarg) if one is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *more]


def _does_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _is_message(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _words(message: ast.expr) -> frozenset[str]:
    """The words of a message, cut to five letters: `negative` and `negatives` are one."""
    text = " ".join(
        one.value for one in ast.walk(message) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    )
    return frozenset(word[:5] for word in re.findall(r"[^\W\d_]{3,}", text.lower()))


def _is_fixture(node: _Function) -> bool:
    return any(_is_named_fixture(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list)


def _is_named_fixture(node: ast.expr) -> bool:
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "fixture"


def _fixture_without_form(decorator: ast.expr) -> ast.expr:
    """Leave `autouse` out: it says which tests get a fixture, not what the fixture does."""
    if not isinstance(decorator, ast.Call) or not _is_named_fixture(decorator.func):
        return decorator
    decorator.keywords = [one for one in decorator.keywords if one.arg != "autouse"]
    return decorator if decorator.args or decorator.keywords else decorator.func


def _returned(body: Sequence[ast.stmt]) -> ast.stmt:
    """Return the last statement of a fixture, `return` instead of `yield`: nothing comes after it."""
    last = body[-1]
    yields = sum(isinstance(one, ast.Yield | ast.YieldFrom) for node in body for one in ast.walk(node))
    if yields == 1 and isinstance(last, ast.Expr) and isinstance(last.value, ast.Yield):
        return ast.Return(last.value.value)
    return last


def _is_handed_on(last: ast.stmt, args: AbstractSet[str]) -> bool:
    """Return True for a fixture that ends with what another one gave it: that says nothing of its own."""
    return isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id in args


def _inline_names(function: _Function, shared: AbstractSet[str]) -> None:
    """Replace local names of constants, and names that the next statement uses once and nothing after it."""
    names = (one for one in ast.walk(function) if isinstance(one, ast.Name))
    stored = Counter(one.id for one in names if not isinstance(one.ctx, ast.Load))
    constants: dict[str, ast.expr] = {}
    for node in [*function.body]:
        match node:
            case ast.Assign([ast.Name(name)], ast.Constant() | ast.UnaryOp(ast.USub(), ast.Constant())):
                if stored[name] == 1 and name not in shared and len(function.body) > 1:
                    constants[name] = node.value
                    function.body.remove(node)
    if constants:
        _Inlined(constants).visit(function)
    for _ in range(_MOST_INLINED):
        if not _inline_one(function, shared):
            return


def _inline_one(function: _Function, shared: AbstractSet[str]) -> bool:
    """Replace the last such name; False where there is none."""
    names = [one for one in ast.walk(function) if isinstance(one, ast.Name)]
    stored = Counter(one.id for one in names if not isinstance(one.ctx, ast.Load))
    loaded = Counter(one.id for one in names if isinstance(one.ctx, ast.Load))
    for block in [one.body for one in ast.walk(function) if isinstance(one, ast.FunctionDef | ast.If | ast.For)]:
        for place in reversed(range(len(block) - 1)):
            match block[place], block[place + 1]:
                case ast.Assign([ast.Name(name)], value), following if name not in shared:
                    again = isinstance(following, ast.Assign) and _names_of(following.targets) == [name]
                    once = (stored[name], loaded[name]) == (1, 1)
                    used = _names_of(_evaluated_once(following)).count(name)
                    if used == 1 and (once or (again and _names_of([following]).count(name) == 2)):
                        _Inlined({name: value}).visit(following)
                        del block[place]
                        return True
    return False


def _evaluated_once(node: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement that are evaluated once, with it."""
    match node:
        case ast.Assign(_, ast.expr() as value) | ast.Return(ast.expr() as value) | ast.Expr(value) | ast.If(value):
            return [value]
        case ast.Raise(ast.expr() as error, None):
            return [error]
    return []


def _names_of(nodes: Iterable[ast.AST]) -> list[str]:
    """The names in these nodes, without what is evaluated later or many times."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Name):
            found.append(node.id)
        elif not isinstance(node, _LATER):
            found += _names_of(ast.iter_child_nodes(node))
    return found


class _Inlined(ast.NodeTransformer):
    """Replaces names where they are read."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _number_names(function: _Function, shared: AbstractSet[str]) -> None:
    """Replace local names by their numbers, in the order in which they are first assigned."""
    names = [one for one in ast.walk(function) if isinstance(one, ast.Name)]
    own = {one.id for one in names if isinstance(one.ctx, ast.Store)} - shared
    numbers: dict[str, int] = {}
    for one in _in_order(function):
        if one.id in own:
            numbers.setdefault(one.id, len(numbers))
    for one in names:
        if one.id in own:
            one.id = f"{_MARK}local{numbers[one.id]}"


def _in_order(node: ast.AST) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name):
        yield node
    for one in ast.iter_child_nodes(node):
        yield from _in_order(one)
