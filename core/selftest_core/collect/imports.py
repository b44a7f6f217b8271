"""Read the imports of Python files from their syntax trees. Nothing is imported or run.

Imports inside of functions count, those for type checkers alone do not. An import whose name is computed
(`import_module(f"shop.cli.{name}")`) is every module that the name may be. Imports of which a command needs one alone
are a choice: those in the cases of one `match`, in the branches of one `if`, and the modules that one dict names.
"""

from __future__ import annotations

import ast
import re
import stat
import sys
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.collect.hostile_text import UnreadableError, read_python
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_CALLS = frozenset({"import_module", "importorskip", "__import__"})
_LARGEST = 16 * 1024 * 1024
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")

_TOLD = (ast.Import, ast.ImportFrom, ast.Call, ast.Constant, ast.If, ast.Match, ast.Dict)
"""The nodes that matter; the others are many, and only lead to them."""

type Group = tuple[int, frozenset[str]]
"""A choice (its number in the file), and the words of the command line for which it is taken."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One import. `name`: dotted, empty for a relative one. `path`: of a relative one, without a suffix, else empty.

    `is_prefix`: the start of a computed name; all modules with this start may be meant. `is_text`: text that looks like
    the name of a module. `group`: None for an import that is no choice.
    """

    name: str = ""
    path: str = ""
    is_prefix: bool = False
    is_text: bool = False
    group: Group | None = None


def source_text(path: Path) -> str:
    """Read a file; "" if it cannot be read: pytest could not have collected its tests.

    A link to a device or a pipe is not followed: reading it might never end.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""


def parsed(source: str | bytes) -> ast.Module:
    """Parse Python; an empty module for what is none."""
    try:
        text = source if isinstance(source, str) else source.decode("utf-8", "replace")
        return read_python(text, deepest=sys.maxsize)  # imports are read without recursion
    except UnreadableError:
        return ast.Module([], [])


def read_imports(tree: ast.Module, path: str) -> frozenset[Imported]:
    """Read all imports of a file. `path`: its own, relative to the top of the work tree, with slashes."""
    found: set[Imported] = set()
    left: list[tuple[ast.AST, Group | None]] = [(tree, None)]
    while left:
        node, group = left.pop()
        if not isinstance(node, _TOLD):
            left.extend((child, group) for child in ast.iter_child_nodes(node))
            continue
        match node:
            case ast.Import(names=aliases):
                found.update(Imported(alias.name, group=group) for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                names = (module, *(f"{module}.{alias.name}" for alias in aliases))
                found.update(Imported(name, group=group) for name in names)
            case ast.ImportFrom(module=module, names=aliases, level=int(level)) if level:
                stems = _relative(path, level, module, [alias.name for alias in aliases])
                found.update(Imported(path=stem, group=group) for stem in stems)
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[named, *_]) if called in _CALLS:
                found.add(_called(named, path, group))
            case ast.Constant(str(text)) if _DOTTED.fullmatch(text.partition(":")[0]):
                found.add(Imported(text.partition(":")[0], is_text=True, group=group))
            case _:
                pass
        left.extend(_below(node, group))
    return frozenset(found)


def imported_module(statement: ast.ImportFrom, path: str) -> Imported:
    """Return the module from which a statement in the file `path` imports."""
    if not statement.level:
        return Imported(statement.module or "")
    return Imported(path=next(_relative(path, statement.level, statement.module, ()), ""))


def module_names(paths: Iterable[str], is_package: Callable[[PurePosixPath], bool]) -> dict[str, tuple[str, ...]]:
    """Map the dotted names by which Python files can be imported to their paths. `is_package`: for a folder.

    sys.path is unknown (src layouts, `pythonpath`, folders of tests), so each folder above the outermost package counts
    as an entry. Inside a package a file has no shorter name.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        if not path.endswith(".py"):
            continue
        whole = PurePosixPath(path)
        parts = whole.parts[:-1] if whole.name == "__init__.py" else (*whole.parts[:-1], whole.stem)
        folder = whole.parent
        outermost = len(folder.parts)
        while outermost and is_package(PurePosixPath(*folder.parts[:outermost])):
            outermost -= 1
        for start in range(outermost + 1):
            name = ".".join(parts[start:])
            # `import types` does not mean a script `types.py` of the project.
            if name and name not in sys.stdlib_module_names:
                found[name].append(path)
    return {name: tuple(paths) for name, paths in found.items()}


def _called(named: ast.expr, path: str, group: Group | None) -> Imported:
    """Return the import of a call such as `import_module(…)`; of a computed name, what it starts with."""
    match named:
        case ast.Constant(str(name)):
            start, is_prefix = name, False
        case ast.JoinedStr(values=[ast.Constant(str(start)), *_]) | ast.BinOp(left=ast.Constant(str(start))):
            start, is_prefix = re.split(r"[%{]", start)[0], True
        case ast.Call(func=ast.Attribute(value=ast.Constant(str(start)), attr="format")):
            start, is_prefix = start.partition("{")[0], True
        case _:
            start, is_prefix = "", True
    if start and not start.startswith("."):
        return Imported(start, is_prefix=is_prefix, group=group)
    # Relative to the package, or computed as a whole: a module of the same folder, or below.
    folder = "/".join(PurePosixPath(path).parts[:-1])
    rest = start.lstrip(".").replace(".", "/")
    return Imported(path=f"{folder}/{rest}" if folder else rest, is_prefix=is_prefix, group=group)


def _below(node: ast.AST, group: Group | None) -> Iterator[tuple[ast.AST, Group | None]]:
    """Yield the children of a node that can run, each with the choice that it belongs to."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            yield from ((child, group) for child in node.orelse)
        case ast.If() if words := _compared(node.test):
            # `elif` is an `if` in the `else`: the branches of one chain are one choice.
            number = id(node)
            branch: ast.If = node
            while words:
                yield branch.test, group
                yield from ((child, (number, words)) for child in branch.body)
                if len(branch.orelse) != 1 or not isinstance(branch.orelse[0], ast.If):
                    break
                branch = branch.orelse[0]
                words = _compared(branch.test)
            else:
                yield branch, group
                return
            yield from ((child, group) for child in branch.orelse)
        case ast.Match():
            yield node.subject, group
            for case in node.cases:
                words = frozenset(_constants(case.pattern))
                yield from ((child, (id(node), words) if words else group) for child in case.body)
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                is_choice = isinstance(key, ast.Constant) and isinstance(key.value, str)
                yield value, (id(node), frozenset(_constants(key))) if key is not None and is_choice else group
        case _:
            yield from ((child, group) for child in ast.iter_child_nodes(node))


def _compared(test: ast.expr) -> frozenset[str]:
    """Return the texts with which a condition compares something; none for any other condition."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.In()], comparators=[right]):
            return frozenset(_constants(right))
        case _:
            return frozenset()


def _constants(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


def _relative(path: str, level: int, module: str | None, names: Sequence[str]) -> Iterator[str]:
    folders = PurePosixPath(path).parts[:-1]
    if level > len(folders) + 1:
        return
    place = (*folders[: len(folders) + 1 - level], *(module.split(".") if module else ()))
    if place:
        yield "/".join(place)
    for name in names:
        yield "/".join((*place, name))
