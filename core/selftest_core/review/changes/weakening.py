"""Changes that make a test easier to pass: found by comparing the syntax trees of a test file.

Found are: tests that are deleted, skipped or expected to fail; assertions that are removed or changed; cases taken out
of a parametrization; limits that are raised; fixtures that are changed or that now reach every test; hooks of a
conftest.py that choose tests or change results. It errs towards finding too much: a person looks at the lines, which
come along. Moving or renaming a test weakens nothing, nor does adding assertions.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.collect.edits_of_tests import outside_effects, unexplained
from selftest_core.collect.hostile_text import UnreadableError, read_python
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LONGEST = 300
"""Characters of a line."""
_MOST = 200
"""Places of one file: nobody reads more."""

type _Function = ast.FunctionDef | ast.AsyncFunctionDef

_SKIPS = frozenset({"skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "SkipTest"})
_PATCHING = frozenset({"setattr", "setitem", "patch", "object", "multiple", "delattr", "exec", "eval"})
"""Calls by which a test puts something in the place of something else."""
_EXPECTS = frozenset({"raises", "warns", "approx", "fail"})
_DECIDING = (
    "pytest_collection", "pytest_ignore_collect", "pytest_collect_", "pytest_pycollect_", "pytest_itemcollected",
    "pytest_generate_tests", "pytest_runtest", "pytest_pyfunc_call", "pytest_report_teststatus", "pytest_make_",
    "pytest_cmdline_", "pytest_load_initial_conftests", "pytest_sessionfinish", "pytest_fixture_",
)  # fmt: skip
"""Beginnings of names of hooks that can leave tests out, or turn red into green."""
_TIGHTER = {
    (ast.LtE, ast.Eq), (ast.GtE, ast.Eq), (ast.LtE, ast.Lt), (ast.GtE, ast.Gt), (ast.In, ast.Eq), (ast.NotEq, ast.Eq),
    (ast.Eq, ast.Is),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weakening:
    """One place. `line`: 1-based, in the file as it is afterwards, or before where it was deleted (`was_deleted`).

    `text`: that line of the file. `old_line`, `old_text`: the line that it replaces, 0 and empty where there is none.
    """

    path: str
    line: int
    what: str
    was_deleted: bool = False
    old_line: int = 0
    text: str = ""
    old_text: str = ""

    @property
    def place(self) -> str:
        """The path and the line, as `tests/test_it.py:3`."""
        return f"{self.path}:{self.line}" + (" before" if self.was_deleted else "")


def find_weakenings(files: Mapping[str, tuple[str | None, str | None]]) -> tuple[Weakening, ...]:
    """Compare Python test files: path to its text before and after, None where there is no such file.

    All files of one change go in at once, so that a test that moves from one to another is not taken for deleted.
    """
    parsed = {path: (_parse(before), _parse(after)) for path, (before, after) in files.items()}
    # A test that moves to where pytest does not look is gone.
    modules = [after for path, (_, after) in parsed.items() if isinstance(after, ast.Module) and _is_collected(path)]
    kept = Counter(
        _body(test) for module in modules for name, test in _tests(module).items() if _is_collected_class(name)
    )
    found: list[Weakening] = []
    for path, (before, after) in parsed.items():
        if isinstance(after, str):
            # What could not be read before either lost nothing, but nobody knows what it does now.
            if files[path][0] != files[path][1]:
                found.append(Weakening(path, 1, f"cannot be read: {after}"))
            continue
        if isinstance(before, str) and after is not None:
            found.append(Weakening(path, 1, f"could not be read before, so it is not compared: {before}"))
        if isinstance(before, ast.Module):
            module = after or ast.Module([], [])
            known = list(itertools.islice(_compare(path, before, module, kept), _MOST))
            # A place that is told with its reason is not told once more, nor is a test.
            told = {one.line for one in known if not one.was_deleted}
            named = {_subject(one.what) for one in known}
            found += known
            found += (
                Weakening(path, line, what)
                for line, what in itertools.islice(unexplained(before, module, _is_tighter), _MOST)
                if line not in told and _subject(what) not in named and not path.endswith("conftest.py")
            )
        elif after is not None:
            if path.endswith("conftest.py"):
                found += _reaching(path, after)
            else:
                found += (Weakening(path, *one) for one in itertools.islice(outside_effects(after), _MOST))
        if path.endswith("conftest.py") and after is not None:
            found += _compare_hooks(path, before if isinstance(before, ast.Module) else ast.Module([], []), after)
    return tuple(with_lines(one, *files[one.path]) for one in found)


_EXAMPLE = re.compile(
    r"^[ \t]*>>> (.*(?:\n[ \t]*\.\.\. ?.*)*)((?:\n[ \t]*(?!>>>|\.\.\.|\"\"\"|''')\S.*)*)", re.MULTILINE
)


def find_lost_examples(path: str, before: str, after: str | None) -> tuple[Weakening, ...]:
    """List the examples of docstrings and texts, `>>>` and its output, that are gone or expect something else."""
    left = Counter((found[1], " ".join(found[2].split())) for found in _EXAMPLE.finditer(after or ""))
    lost = []
    for found in _EXAMPLE.finditer(before):
        example = (found[1], " ".join(found[2].split()))
        if left[example]:
            left[example] -= 1
        else:
            line = before.count("\n", 0, found.start()) + 1
            lost.append(Weakening(path, line, "an example is changed or removed", was_deleted=True))
    return tuple(lost)


def with_lines(found: Weakening, before: str | None, after: str | None) -> Weakening:
    """Add the lines of the file."""
    new = _line_of(before if found.was_deleted else after, found.line)
    return replace(found, text=new, old_text=_line_of(before, found.old_line))


def _subject(what: str) -> str:
    return what.partition(": ")[0].partition(" ")[0]


def _line_of(text: str | None, number: int) -> str:
    # Split as Python's parser counts lines, which are not those of str.splitlines().
    lines = (text or "").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[number - 1].strip()[:_LONGEST] if 0 < number <= len(lines) else ""


def _compare(path: str, before: ast.Module, after: ast.Module, kept: Counter[str]) -> Iterator[Weakening]:
    old, new = _tests(before), _tests(after)
    for name, test in old.items():
        if name in new:
            yield from _compare_tests(path, name, test, new[name])
        elif kept[_body(test)]:
            kept[_body(test)] -= 1
        else:
            yield Weakening(path, test.lineno, f"{name} is deleted", was_deleted=True)
    yield from _compare_marks(path, "the module", _module_marks(before), _module_marks(after))
    yield from _compare_modules(path, before, after)
    yield from _compare_classes(path, before, after)
    old_fixtures, new_fixtures = _fixtures(before), _fixtures(after)
    for name, fixture in new_fixtures.items():
        if name in old_fixtures and ast.dump(old_fixtures[name]) != ast.dump(fixture):
            old_line = old_fixtures[name].lineno
            yield Weakening(path, fixture.lineno, f"the fixture {name} is changed", old_line=old_line)
        elif name not in old_fixtures and _is_autouse(fixture):
            yield Weakening(path, fixture.lineno, f"the fixture {name} reaches every test")
    yield from _compare_constants(path, before, after)


def _reaching(path: str, module: ast.Module) -> Iterator[Weakening]:
    for name, fixture in _fixtures(module).items():
        if _is_autouse(fixture):
            yield Weakening(path, fixture.lineno, f"the fixture {name} reaches every test")


def _compare_tests(path: str, name: str, before: _Function, after: _Function) -> Iterator[Weakening]:
    if ast.dump(before) == ast.dump(after):
        return
    yield from _compare_marks(path, name, before.decorator_list, after.decorator_list)
    for call in _added(_skipping_calls(before), _skipping_calls(after)):
        yield Weakening(path, call.lineno, f"{name} can skip itself")
    old, new = list(_assertions(before)), list(_assertions(after))
    removed, added = _added(new, old), _added(old, new)
    for number, one in enumerate(removed):
        if number >= len(added):
            yield Weakening(path, one.lineno, f"{name}: an assertion is removed", was_deleted=True)
        elif not _is_tighter(one, added[number]):
            yield Weakening(path, added[number].lineno, f"{name}: an assertion is changed", old_line=one.lineno)
    for line, what in _replacing(before, after):
        yield Weakening(path, line, f"{name}: {what}")
    for handler in _swallowing(after, before):
        yield Weakening(path, handler.lineno, f"{name}: a failure is caught")
    first = _early_return(after)
    if first is not None and _early_return(before) is None:
        yield Weakening(path, first.lineno, f"{name} can return before its assertions")


def _replacing(before: _Function, after: _Function) -> Iterator[tuple[int, str]]:
    """Find where an edited test puts something else in the place of what it tests."""
    given = {argument.arg for argument in before.args.args}
    used = {one.id for one in ast.walk(before) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    made = {one.id for one in ast.walk(before) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for one in ast.walk(after):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id in used - made - given:
            yield one.lineno, f"{one.id} is another one inside the test"
    for argument in after.args.args:
        if argument.arg in used - given:
            yield argument.lineno, f"{argument.arg} is another one inside the test"
    old = Counter(_name(one.func) for one in ast.walk(before) if isinstance(one, ast.Call))
    for one in ast.walk(after):
        if isinstance(one, ast.Call) and _name(one.func) in _PATCHING and not old[_name(one.func)]:
            yield one.lineno, f"{_name(one.func)} may replace what is tested"


def _compare_modules(path: str, before: ast.Module, after: ast.Module) -> Iterator[Weakening]:
    """Find new statements of a module that change what its tests are, or what they test."""
    old = Counter(ast.dump(one) for one in before.body)
    tests = {name.partition("::")[0] for name in _tests(before)}
    for node in after.body:
        if old[ast.dump(node)] or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        targets = [one for one in ast.walk(node) if isinstance(getattr(one, "ctx", None), ast.Store | ast.Del)]
        if any(isinstance(one, ast.Attribute | ast.Subscript) for one in targets):
            yield Weakening(path, node.lineno, "something outside of the tests is changed for all of them")
        elif any(isinstance(one, ast.Name) and one.id in tests for one in targets):
            yield Weakening(path, node.lineno, "a test is replaced")


def _compare_marks(path: str, name: str, before: Iterable[ast.expr], after: Iterable[ast.expr]) -> Iterator[Weakening]:
    old = list(before)
    for mark in _added(old, list(after)):
        words = _words(mark)
        if words & _SKIPS:
            yield Weakening(path, mark.lineno, f"{name} is skipped or expected to fail")
        elif "parametrize" in words and _is_empty(mark):
            yield Weakening(path, mark.lineno, f"{name} has no cases, so it is skipped")
        elif "parametrize" in words:
            same = next((one for one in old if "parametrize" in _words(one) and _first(one) == _first(mark)), None)
            if same is not None and _lost_cases(same, mark):
                what = f"{name}: cases are taken out or changed"
                yield Weakening(path, mark.lineno, what, old_line=same.lineno)
        else:
            same = next((one for one in old if _words(one) == words), None)
            if same is not None:
                yield Weakening(path, mark.lineno, f"{name}: a limit or mark is changed", old_line=same.lineno)


def _compare_classes(path: str, before: ast.Module, after: ast.Module) -> Iterator[Weakening]:
    old = {node.name: node for node in ast.walk(before) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(after):
        if isinstance(node, ast.ClassDef) and node.name in old:
            yield from _compare_marks(path, node.name, old[node.name].decorator_list, node.decorator_list)


def _compare_constants(path: str, before: ast.Module, after: ast.Module) -> Iterator[Weakening]:
    old = _constants(before)
    for name, node in _constants(after).items():
        if name in old and ast.dump(old[name]) != ast.dump(node):
            yield Weakening(path, node.lineno, f"{name} is changed", old_line=old[name].lineno)


def _compare_hooks(path: str, before: ast.Module, after: ast.Module) -> Iterator[Weakening]:
    """Find hooks that choose tests or change their results, and files that are left out."""
    old = _hooks(before)
    for name, node in _hooks(after).items():
        same = old.get(name)
        if same is None:
            yield Weakening(path, node.lineno, f"{name} may leave tests out or change their results")
        elif ast.dump(same) != ast.dump(node):
            yield Weakening(path, node.lineno, f"{name} is changed", old_line=same.lineno)


def _hooks(module: ast.Module) -> dict[str, ast.stmt]:
    """Map the hooks of pytest that decide what is run and reported, and the names of ignored files, to their places."""
    found: dict[str, ast.stmt] = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(_DECIDING):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            found |= dict.fromkeys((name for name in names if name.startswith("collect_ignore")), node)
    return found


def _parse(text: str | None) -> ast.Module | str | None:
    """Parse a file; the reason where it cannot be read, None where there is none."""
    if text is None:
        return None
    try:
        return read_python(text)
    except UnreadableError as error:
        return str(error)


def _is_collected(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test") or name.endswith("_test.py")


def _is_collected_class(name: str) -> bool:
    """True for a test outside of classes, or in classes that are collected by their names."""
    return all(one.startswith("Test") or one.endswith(("Test", "Tests", "TestCase")) for one in name.split("::")[:-1])


def _tests(module: ast.Module) -> dict[str, _Function]:
    """Map the test functions of a module by their names, `Class::name` in classes."""
    found: dict[str, _Function] = {}

    def look(body: Iterable[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                found[prefix + node.name] = node
            elif isinstance(node, ast.ClassDef):
                look(node.body, f"{prefix}{node.name}::")

    look(module.body, "")
    return found


def _fixtures(module: ast.Module) -> dict[str, _Function]:
    return {
        node.name: node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any("fixture" in _words(mark) for mark in node.decorator_list)
    }


def _is_autouse(fixture: _Function) -> bool:
    return any(
        keyword.arg == "autouse" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        for mark in fixture.decorator_list
        if isinstance(mark, ast.Call)
        for keyword in mark.keywords
    )


def _constants(module: ast.Module) -> dict[str, ast.Assign]:
    """Map the module's names in capitals to their assignments: limits and expected values."""
    return {
        target.id: node
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def _module_marks(module: ast.Module) -> list[ast.expr]:
    marks: list[ast.expr] = []
    for node in module.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        ):
            marks += node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _words(node.value) & _SKIPS:
            marks.append(node.value)
    return marks


def _assertions(test: _Function) -> Iterator[ast.stmt | ast.expr]:
    """The assertions of a test: statements, and calls such as `assertEqual`, `raises`, `fail`."""
    inside: set[int] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            inside.update(id(one) for one in ast.walk(node))
            yield node
        elif isinstance(node, ast.Call) and id(node) not in inside:
            name = _name(node.func)
            if name.startswith("assert") or name in _EXPECTS:
                yield node


def _skipping_calls(test: _Function) -> list[ast.Call]:
    body = ast.Module(test.body, [])
    return [node for node in ast.walk(body) if isinstance(node, ast.Call) and _name(node.func) in _SKIPS]


def _swallowing(after: _Function, before: _Function) -> Iterator[ast.ExceptHandler]:
    """Handlers that are new and around an assertion, and raise nothing."""
    old = {ast.dump(node) for node in ast.walk(before) if isinstance(node, ast.Try)}
    for node in ast.walk(after):
        if isinstance(node, ast.Try) and ast.dump(node) not in old:
            body = ast.Module(node.body, [])
            if any(isinstance(one, ast.Assert) for one in ast.walk(body)):
                yield from (
                    one for one in node.handlers if not any(isinstance(part, ast.Raise) for part in ast.walk(one))
                )


def _early_return(test: _Function) -> ast.Return | None:
    returns = [node for node in ast.walk(test) if isinstance(node, ast.Return)]
    last = max((node.lineno for node in _assertions(test)), default=0)
    return next((node for node in returns if node.lineno < last), None)


def _is_tighter(before: ast.AST, after: ast.AST) -> bool:
    """True for the same comparison with a stricter operator."""
    match before, after:
        case (
            ast.Assert(test=ast.Compare(left=left, ops=[op], comparators=[right])),
            ast.Assert(test=ast.Compare(left=new_left, ops=[new_op], comparators=[new_right])),
        ):
            is_same = ast.dump(left) == ast.dump(new_left) and ast.dump(right) == ast.dump(new_right)
            return is_same and (type(op), type(new_op)) in _TIGHTER
        case _:
            return False


def _added[T: ast.AST](before: Iterable[T], after: Iterable[T]) -> list[T]:
    """Return what is in `after` and not in `before`, counting equal ones."""
    counts = Counter(ast.dump(one) for one in before)
    found = []
    for one in after:
        text = ast.dump(one)
        if counts[text]:
            counts[text] -= 1
        else:
            found.append(one)
    return found


def _lost_cases(before: ast.expr, after: ast.expr) -> bool:
    old, new = _cases(before), _cases(after)
    return old is None or new is None or bool(_added(new, old))


def _cases(mark: ast.expr) -> list[ast.expr] | None:
    if isinstance(mark, ast.Call) and len(mark.args) > 1 and isinstance(mark.args[1], ast.List | ast.Tuple):
        return mark.args[1].elts
    return None


def _first(mark: ast.expr) -> str:
    return ast.dump(mark.args[0]) if isinstance(mark, ast.Call) and mark.args else ""


def _is_empty(mark: ast.expr) -> bool:
    """True for a parametrization by nothing."""
    values = mark.args[1:] if isinstance(mark, ast.Call) else []
    return any(isinstance(one, ast.List | ast.Tuple | ast.Set) and not one.elts for one in values)


def _words(node: ast.expr) -> frozenset[str]:
    """The names in a decorator or call, such as pytest, mark and skipif."""
    function = node.func if isinstance(node, ast.Call) else node
    return frozenset(
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(function)
        if isinstance(one, ast.Attribute | ast.Name)
    )


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _body(test: _Function) -> str:
    """A test without its name: marks, parameters and statements."""
    parts = (*test.decorator_list, test.args, *test.body)
    return "\n".join(ast.dump(part) for part in parts)
