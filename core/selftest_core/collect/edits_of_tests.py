"""Edits of test files that can only add: new tests, new assertions, new names. All others are told.

There are more ways to take the effect from a test than can be listed: a branch that never runs, a name that means
something else, a class that is collected no more. So what is known to be harmless is listed, and the rest asks.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BEYOND = "it is changed beyond its assertions"

type _Function = ast.FunctionDef | ast.AsyncFunctionDef
type _Told = tuple[int, str]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SPECIAL = frozenset(
    {
        "__test__", "pytestmark", "pytest_plugins", "load_tests", "setup", "teardown", "setup_module",
        "teardown_module", "setup_function", "teardown_function", "setup_method", "teardown_method", "setup_class",
        "teardown_class", "setUp", "tearDown", "setUpClass", "tearDownClass", "setUpModule", "tearDownModule", "pytest",
    }
)  # fmt: skip
"""Names that mean something to pytest or unittest."""
_PURE = frozenset(
    {
        "abs", "all", "any", "bool", "bytes", "dict", "enumerate", "float", "frozenset", "int", "isinstance", "len",
        "list", "max", "min", "range", "repr", "round", "set", "sorted", "str", "sum", "tuple", "zip", "Path",
        "Decimal", "Fraction", "date", "datetime", "timedelta", "compile", "namedtuple", "getLogger", "param",
        "dedent", "approx", "raises",
    }
)  # fmt: skip
_SAFE_FIXTURES = frozenset({"tmp_path", "tmp_path_factory", "capsys", "capfd", "caplog"})
_BUILTINS = frozenset(dir(builtins))


def unexplained(
    before: ast.Module, after: ast.Module, is_tighter: Callable[[ast.AST, ast.AST], bool]
) -> Iterator[_Told]:
    """Yield line and reason of what a test file does otherwise than before, beyond what only adds."""
    yield from _Edits(before, is_tighter).block("", before.body, after.body)


def outside_effects(module: ast.Module) -> Iterator[_Told]:
    """Yield what a new test file does beside having tests: when it is imported, and to modules that others test."""
    edits = _Edits(ast.Module([], []), lambda old, new: False)
    yield from edits.block("", [], module.body, is_new_file=True)


class _Edits:
    """One file: the names that it used before, so that nothing takes their place."""

    def __init__(self, before: ast.Module, is_tighter: Callable[[ast.AST, ast.AST], bool]) -> None:
        self._used = _names(before) | _BUILTINS
        self._imported = {one for node in ast.walk(before) for one in _imports(node)}
        self._is_tighter = is_tighter

    def block(
        self, where: str, old: Sequence[ast.stmt], new: Sequence[ast.stmt], *, is_new_file: bool = False
    ) -> Iterator[_Told]:
        """Compare the statements of a module or a class."""
        left = Counter(ast.dump(one) for one in old)
        named = {one.name: one for one in old if isinstance(one, (*_FUNCTIONS, ast.ClassDef))}
        foreign = {bound for one in new for _, _, bound in _imports(one)}
        seen: set[str] = set()
        for one in new:
            name = one.name if isinstance(one, (*_FUNCTIONS, ast.ClassDef)) else ""
            is_again = bool(name) and name in seen
            seen.add(name)
            text = ast.dump(one)
            if left[text]:
                left[text] -= 1
            elif is_again:
                yield one.lineno, f"{where}{name} is defined again"
            elif isinstance(one, ast.ClassDef) and isinstance(was := named.get(name), ast.ClassDef):
                if _dumps([*was.bases, *was.keywords, *was.decorator_list]) != _dumps(
                    [*one.bases, *one.keywords, *one.decorator_list]
                ):
                    yield one.lineno, f"{where}{name} is another class"
                yield from self.block(f"{where}{name}::", was.body, one.body)
            elif isinstance(one, _FUNCTIONS) and isinstance(was := named.get(name), _FUNCTIONS):
                if not name.startswith("test"):
                    yield one.lineno, f"{where}{name} is changed"
                elif not self._is_same_test(was, one):
                    yield one.lineno, f"{where}{name}: {BEYOND}"
            elif reason := self._reason(one, is_method=bool(where), is_new_file=is_new_file):
                yield one.lineno, f"{where}{reason}"
            elif name:
                yield from ((line, f"{where}{what}") for line, what in _effects(one, foreign))

    def _reason(self, one: ast.stmt, *, is_method: bool, is_new_file: bool) -> str:
        """Return why a new statement of a module or class does more than add; empty where it only adds."""
        if is_new_file and isinstance(one, ast.If | ast.Try) and not _is_main(one):
            inner = [*one.body, *one.orelse, *getattr(one, "finalbody", ())]
            inner += [part for handler in getattr(one, "handlers", ()) for part in handler.body]
            return next(filter(None, (self._reason(part, is_method=False, is_new_file=True) for part in inner)), "")
        match one:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return "assertions are not rewritten" if "PYTEST_DONT_REWRITE" in ast.dump(one) else ""
            case ast.Import() | ast.ImportFrom():
                taken = [name for made in _imports(one) if made not in self._imported for name in made[2:]]
                return next(
                    (
                        f"{name} is another one"
                        for name in taken
                        if self._is_taken(name) or name in _SPECIAL - {"pytest"}
                    ),
                    "",
                )
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                is_hook = name.startswith("__") or (
                    not is_new_file and (name in _SPECIAL or name.startswith("pytest_"))
                )
                if is_hook or (not is_method and self._is_taken(name)):
                    return f"{name} may change other tests"
                return (
                    ""
                    if all(_is_plain_mark(mark, is_new_file) for mark in one.decorator_list)
                    else f"{name} has a decorator that may reach others"
                )
            case ast.Assign(targets=targets, value=value):
                return self._of_assignment(targets, value, is_new_file)
            case ast.AnnAssign(target=target, value=value):
                return self._of_assignment([target], value, is_new_file) if value is not None else ""
            case ast.If() if _is_main(one):
                return ""
            case ast.Expr(value=ast.Name() | ast.Attribute()):
                return ""
            case _:
                return "a statement runs when tests are collected"

    def _of_assignment(self, targets: Iterable[ast.expr], value: ast.expr, is_new_file: bool) -> str:
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if not isinstance(one, ast.Name):
                    return "something outside of the tests is changed for all of them"
                if one.id == "pytestmark" and is_new_file:
                    continue
                if self._is_taken(one.id) or one.id in _SPECIAL or one.id.startswith(("pytest_", "collect_ignore")):
                    return f"{one.id} is set"
        is_harmless = not _is_odd(value) if is_new_file else self._is_pure(value, frozenset())
        return "" if is_harmless else "a call runs when tests are collected"

    def _is_taken(self, name: str) -> bool:
        return name == "*" or name in self._used

    def _is_pure(self, value: ast.AST, known: frozenset[str] | set[str]) -> bool:
        """True where an expression calls only what is harmless, or what was called before."""
        return not _is_odd(value) and all(
            _called(one)[0] in known or _called(one)[1] in _PURE for one in ast.walk(value) if isinstance(one, ast.Call)
        )

    def _is_same_test(self, old: _Function, new: _Function) -> bool:
        added = {one.arg for one in _arguments(new)} - {one.arg for one in _arguments(old)}
        kept = [one for one in new.args.args if one.arg not in added]
        args = ast.arguments(new.args.posonlyargs, kept, new.args.vararg, new.args.kwonlyargs, new.args.kw_defaults,
                             new.args.kwarg, new.args.defaults)  # fmt: skip
        marks = Counter(_dumps(old.decorator_list))
        marks.subtract(_dumps(new.decorator_list))
        words = {_words(one) for one in old.decorator_list}
        new_marks = [one for one in new.decorator_list if marks[ast.dump(one)] < 0 and _words(one) not in words]
        return (
            type(old) is type(new)
            and added <= _SAFE_FIXTURES - self._used
            and ast.dump(args) == ast.dump(old.args)
            and all(_words(one)[:2] == ("pytest", "mark") and _words(one)[-1] not in _RUNS_OTHERS for one in new_marks)
            and self._is_same_body(old.body, new.body, _names(old) | added)
        )

    def _is_same_body(self, old: Sequence[ast.stmt], new: Sequence[ast.stmt], known: set[str]) -> bool:
        """True where each statement is still there, in its order, and what is between them only adds."""
        place, made = 0, set[str]()
        for one in new:
            was = old[place] if place < len(old) else None
            if was is not None and (ast.dump(was) == ast.dump(one) or self._replaces(was, one, known | made)):
                place += 1
            elif self._adds(one, known, made):
                made |= {
                    name.id for name in ast.walk(one) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                }
            else:
                return False
        return place == len(old)

    def _replaces(self, old: ast.stmt, new: ast.stmt, known: set[str]) -> bool:
        if type(old) is not type(new):
            return False
        if isinstance(old, ast.Assert):
            return self._is_tighter(old, new)
        if isinstance(old, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor | ast.If | ast.While):
            return _header(old) == _header(new) and all(
                self._is_same_body(was, now, known) for was, now in zip(_bodies(old), _bodies(new), strict=True)
            )
        if isinstance(old, ast.Assign | ast.Expr):
            targets = [_dumps(one.targets) if isinstance(one, ast.Assign) else [] for one in (old, new)]
            calls = [sorted(_called(one) for one in ast.walk(side) if isinstance(one, ast.Call)) for side in (old, new)]
            return targets[0] == targets[1] and bool(calls[0]) and calls[0] == calls[1] and not _is_odd(new)
        return False

    def _adds(self, one: ast.stmt, known: set[str], made: set[str]) -> bool:
        match one:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return True
            case ast.Assert():
                return self._is_pure(one, known | made | self._used - _BUILTINS)
            case ast.Assign(targets=targets, value=value):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                return (
                    len(names) == len(targets)
                    and (known | self._used).isdisjoint(names)
                    and self._is_pure(value, known | made | self._used - _BUILTINS)
                )
            case _:
                return False


_RUNS_OTHERS = frozenset({"skip", "skipif", "xfail", "usefixtures", "parametrize", "filterwarnings"})
"""Marks that decide whether and with what a test runs."""
_ODD = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Lambda)
_PATCHING = frozenset(
    {
        "setattr", "delattr", "setitem", "exec", "eval", "patch", "globals", "vars", "__import__", "skip", "exit",
        "importorskip", "import_module",
    }
)  # fmt: skip


def _is_main(one: ast.stmt) -> bool:
    """True for what runs only where the file is started as a program."""
    return isinstance(one, ast.If) and not one.orelse and ast.unparse(one.test) == "__name__ == '__main__'"


def _is_odd(value: ast.AST) -> bool:
    return any(
        isinstance(one, _ODD) or (isinstance(one, ast.Call) and _called(one)[1] in _PATCHING) for one in ast.walk(value)
    )


def _effects(one: ast.stmt, foreign: set[str]) -> Iterator[_Told]:
    """Yield where a new function or class sets what belongs to an imported module."""
    for node in ast.walk(one):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                target: ast.AST = node
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[ast.expr() as target, *_]):
                pass
            case _:
                continue
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and target.id in foreign:
            yield node.lineno, f"{target.id} is changed for all tests"


def _is_plain_mark(mark: ast.expr, is_new_file: bool) -> bool:
    """True for a decorator by its name, but for a fixture that others get unasked or by another name."""
    asked = mark.keywords if isinstance(mark, ast.Call) else []
    is_reaching = any(
        one.arg is None or (one.arg == "autouse" and ast.dump(one.value) != "Constant(value=False)") for one in asked
    )
    is_renamed = _words(mark)[-1:] == ("fixture",) and any(one.arg == "name" for one in asked)
    return bool(_words(mark)) and (is_new_file or not (is_reaching or is_renamed)) and not _is_odd(mark)


def _words(node: ast.AST) -> tuple[str, ...]:
    """Return the parts of a dotted name, called or not; empty for another expression."""
    node = node.func if isinstance(node, ast.Call) else node
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()


def _called(call: ast.Call) -> tuple[str, str]:
    """Return the first and the last part of the name that is called."""
    words = _words(call)
    if words:
        return words[0], words[-1]
    return next((one.id for one in ast.walk(call.func) if isinstance(one, ast.Name)), ""), getattr(
        call.func, "attr", ""
    )


def _imports(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield module, name and the name that is bound."""
    if isinstance(node, ast.Import):
        yield from (("", one.name, one.asname or one.name.partition(".")[0]) for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        yield from ((module, one.name, one.asname or one.name) for one in node.names)


def _arguments(function: _Function) -> Iterator[ast.arg]:
    args = function.args
    return itertools.chain(args.posonlyargs, args.args, args.kwonlyargs, filter(None, (args.vararg, args.kwarg)))


def _header(node: ast.stmt) -> list[str]:
    """Return a compound statement without the statements in it."""
    fields = [value for name, value in ast.iter_fields(node) if name not in ("body", "orelse")]
    return [text for value in fields for text in (_dumps(value) if isinstance(value, list) else [_dump(value)])]


def _dump(value: object) -> str:
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)


def _bodies(node: ast.stmt) -> list[list[ast.stmt]]:
    return [getattr(node, name, []) for name in ("body", "orelse")]


def _dumps(nodes: Iterable[ast.AST]) -> list[str]:
    return [ast.dump(one) for one in nodes]


def _names(tree: ast.AST) -> set[str]:
    """Return all names that a tree reads, binds or takes as arguments."""
    found: set[str] = set()
    for one in ast.walk(tree):
        match one:
            case ast.Name(id=name) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias():
                found.add(one.asname or one.name.partition(".")[0])
            case _:
                pass
    return found
