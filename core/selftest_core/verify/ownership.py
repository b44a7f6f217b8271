"""The tests that each change of a review owns: its agents' tests, tests that it adds or edits, tests that it affects.

Text of tests is compared by syntax tree, so that a comment or a moved line edits nothing.
"""

from __future__ import annotations

import ast
import functools
import stat
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.collect.hostile_text import UnreadableError, read_python
from selftest_core.frozen import dataclass
from selftest_core.review.changes.collect_changes import files_that_decide
from selftest_core.review.changes.kinds import Kind, kind_of_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Owned:
    """The tests of one change by node id. `claimed`: True or False as its agents said, None where they did not.

    `own`: its agents' tests, and those that it adds or edits. `affected`: others that its change may break. `gone`:
    tests that it removes, by node ids without parameters, with the new id of one that it renames, or "".
    """

    own: tuple[str, ...]
    affected: tuple[str, ...]
    claimed: Mapping[str, bool | None]
    gone: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Edits:
    """Edited tests of one file: all of them, or the functions and classes with these names."""

    path: str
    is_all: bool
    names: frozenset[str]


def files_with_tests(changes: Iterable[Change], evidence: Mapping[str, Evidence], root: Path) -> dict[str, None]:
    """List the test files in the tree at `root` that hold tests of these changes, in a stable order."""
    from selftest_core.collect.affected import AffectedFiles  # with much behind it that a review's screen waits for

    changes = list(changes)
    claimed = [test.partition("::")[0] for one in evidence.values() for test, _ in one.tests]
    edited = [change.path for one in changes for change in one.paths if change.after and is_test_file(change.path)]
    every = [path for path in python_files(root) if is_test_file(path)]
    touched = {change.path: "changed" for one in changes for change in one.paths}
    return dict.fromkeys(
        path for path in (*claimed, *edited, *AffectedFiles(root, every).by(touched)) if _is_file_of(root, path)
    )


def find_owned(
    store: ObjectStore,
    changes: Sequence[Change],
    evidence: Mapping[str, Evidence],
    collected: Sequence[str],
    root: Path,
    others: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, Owned]:
    """Return the tests of each change, by its oid. `collected`: the node ids in the tree that is laid at `root`.

    `others`: by oid, agents that said the same in other words. Their tests must pass too; their claims are about their
    own words.
    """
    from selftest_core.collect.affected import AffectedFiles

    by_file: dict[str, list[str]] = {}
    for test in collected:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    files = AffectedFiles(root, [path for path in by_file if _is_file_of(root, path)])
    # The candidate's blob of a file is often the next change's one before.
    read = functools.cache(lambda oid: _definitions(_text(store, oid)))
    found: dict[str, Owned] = {}
    for change in changes:
        claimed: dict[str, bool | None] = {}
        for agent in change.agents:
            if agent in evidence:
                claimed.update(evidence[agent].tests)
        gone = _gone(read, change)
        # Its agents spoke of the test by the name that it had before.
        claimed = {_renamed(test, gone): is_green for test, is_green in claimed.items()}
        own = dict.fromkeys(claimed)
        for agent in others.get(change.oid, ()):
            if agent in evidence:
                own.update(dict.fromkeys(_renamed(test, gone) for test, _ in evidence[agent].tests))
        for edits in _edits(read, change):
            own.update(dict.fromkeys(test for test in by_file.get(edits.path, ()) if _is_edited(test, edits)))
        # Examples in docstrings stand in the product itself.
        own.update(
            dict.fromkeys(test for one in change.paths for test in _examples(by_file.get(one.path, ()), one.path))
        )
        touched = {one.path: "changed" for one in change.paths if kind_of_path(one.path) is not Kind.DOCS}
        affected = [
            test for path in files.by(touched) if path not in touched for test in by_file[path] if test not in own
        ]
        found[change.oid] = Owned(tuple(own), tuple(affected), claimed, gone)
    return found


def _examples(tests: Iterable[str], path: str) -> Iterable[str]:
    return () if is_test_file(path) else tests


def changes_judge(store: ObjectStore, change: Change) -> tuple[str, ...]:
    """Return the files by which this change could change how its own tests are judged."""
    return files_that_decide(store, change.paths)


def is_test_file(path: str) -> bool:
    """True for a Python file in which pytest looks for tests by default."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def python_files(root: Path) -> list[str]:
    """List the Python files of a laid tree, relative, sorted; follows no links."""
    paths = (folder / name for folder, _, names in root.walk() for name in names if name.endswith(".py"))
    return sorted(path.relative_to(root).as_posix() for path in paths if stat.S_ISREG(path.lstat().st_mode))


def _is_file_of(root: Path, path: str) -> bool:
    """True for a regular file of a laid tree, by a path that an agent or its code may have named."""
    parts = path.split("/")
    if not all(parts) or ".." in parts:
        return False
    folders = [root.joinpath(*parts[:count]) for count in range(1, len(parts))]
    try:
        return not any(one.is_symlink() for one in folders) and stat.S_ISREG((root / path).lstat().st_mode)
    except (OSError, ValueError):
        return False


type _Read = Callable[[str], dict[str, str] | None]
"""Gives what `_definitions` finds in a blob."""


def _is_edited(test: str, edits: _Edits) -> bool:
    if edits.is_all:
        return True
    names = test.partition("::")[2].partition("[")[0].split("::")
    # Each name above it is looked up: a branch may have tens of thousands of tests, and edit all of them.
    return any("::".join(names[:count]) in edits.names for count in range(1, len(names) + 1))


def _edits(read: _Read, change: Change) -> list[_Edits]:
    found = []
    for one in change.paths:
        if one.after is None or not is_test_file(one.path):
            continue
        before = {} if one.before is None else read(one.before.oid)
        after = read(one.after.oid)
        if before is None or after is None:
            found.append(_Edits(one.path, is_all=True, names=frozenset()))
            continue
        changed = frozenset(name for name, text in after.items() if before.get(name) != text)
        # What is outside of tests, a helper or an import, reaches all of them; in a new file there is nothing else.
        is_all = "" in changed or "" in before.keys() - after.keys()
        found.append(_Edits(one.path, is_all, changed - {""}))
    return found


def _gone(read: _Read, change: Change) -> dict[str, str]:
    """Map each test that a change removes to the one that it adds with the same body, or to ""."""
    removed: dict[str, str] = {}
    added: dict[str, str] = {}
    for one in change.paths:
        if is_test_file(one.path):
            before, after = ({} if side is None else read(side.oid) for side in (one.before, one.after))
            if before is not None and after is not None:
                removed |= _bodies(one.path, before, after)
                added |= _bodies(one.path, after, before)
    names = {body: name for name, body in added.items()}
    return {name: names.get(body, "") for name, body in removed.items()}


def _bodies(path: str, definitions: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Map the tests that `other` does not have, as node ids, to their syntax without the name."""
    found = {}
    for name, text in definitions.items():
        function = name.rpartition("::")[2]
        if name not in other and function.startswith("test"):
            found[f"{path}::{name}"] = text.replace(f"name={function!r}", "name=''", 1)
    return found


def _renamed(test: str, gone: Mapping[str, str]) -> str:
    name, bracket, parameters = test.partition("[")
    return gone[name] + bracket + parameters if gone.get(name) else test


def _definitions(text: str) -> dict[str, str] | None:
    """Map each test function and class, `Class::function`, to its syntax; "" to all else. None for no Python."""
    try:
        return _definitions_of(read_python(text))
    except UnreadableError:
        return None


def _definitions_of(module: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    rest: list[str] = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            found[node.name] = ast.dump(node)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found |= _members(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            rest.append(ast.dump(node))
    found[""] = "\n".join(rest)
    return found


def _members(node: ast.ClassDef) -> dict[str, str]:
    """Map the tests of a class to their syntax, and the class to all else in it."""
    found: dict[str, str] = {}
    rest = [ast.dump(one) for one in (*node.bases, *node.keywords, *node.decorator_list)]
    for one in node.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test"):
            found[f"{node.name}::{one.name}"] = ast.dump(one)
        elif isinstance(one, ast.ClassDef) and one.name.startswith("Test"):
            found |= {f"{node.name}::{name}": text for name, text in _members(one).items()}
        else:
            rest.append(ast.dump(one))
    found[node.name] = "\n".join(rest)
    return found


def _text(store: ObjectStore, oid: str) -> str:
    try:
        return store.read(oid)[1].decode("utf-8", "replace")
    except KeyError:
        return ""
