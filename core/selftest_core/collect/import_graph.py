"""The imports between the Python files of a work tree: the files that a program may use.

Cycles are no matter. If in doubt a file counts as imported. A package's `__init__.py` comes before its modules.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.collect.imports import module_names, parsed, read_imports, source_text
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable
    from pathlib import Path

    from selftest_core.collect.imports import Imported


@dataclass(frozen=True, slots=True)
class _Edges:
    """The files that a file imports: always, and for each choice by the words for which a branch is taken."""

    always: tuple[str, ...]
    choices: tuple[tuple[tuple[frozenset[str], tuple[str, ...]], ...], ...]


class ImportGraph:
    """The files of a work tree and their imports. Each file is read once, when it is first asked for.

    `files`: all paths of the work tree, relative to `root`.
    """

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self._root = root
        self.files = frozenset(files)
        self._packages = {str(PurePosixPath(path).parent) for path in self.files if path.endswith("/__init__.py")}
        self._names = module_names(sorted(self.files), lambda folder: str(folder) in self._packages)
        self._trees: dict[str, ast.Module] = {}
        self._edges: dict[str, _Edges] = {}

    def text(self, path: str) -> str:
        """Read a file; "" if it cannot be read."""
        return source_text(self._root / path)

    def tree(self, path: str) -> ast.Module:
        """Return the syntax tree of a file; an empty one for what is no Python."""
        if path not in self._trees:
            self._trees[path] = parsed(self.text(path))
        return self._trees[path]

    def paths_of(self, module: str) -> tuple[str, ...]:
        """Return the files that a dotted name may mean."""
        return self._names.get(module, ())

    def named_by(self, one: Imported, path: str) -> tuple[str, ...]:
        """Return the files that an import in the file `path` may mean."""
        if one.is_prefix and one.name:
            return tuple(to for name, paths in self._names.items() if name.startswith(one.name) for to in paths)
        if one.is_prefix:
            return tuple(sorted(to for to in self.files if to.endswith(".py") and to.startswith(one.path)))
        if one.path:
            return tuple(to for to in (f"{one.path}.py", f"{one.path}/__init__.py") if to in self.files)
        return self.paths_of(one.name)

    def reach(self, starts: Iterable[str], word: str | None) -> frozenset[str]:
        """Return the files that a program which starts in these files may import, and the files themselves.

        `word`: the command of the program (`list` of `shop list`), None if unknown: of a choice that names it, the
        other imports are left out.
        """
        found: set[str] = set()
        left = list(starts)
        while left:
            path = left.pop()
            if path in found or path not in self.files:
                continue
            found.add(path)
            edges = self._edges_of(path)
            left += edges.always
            for branches in edges.choices:
                taken = [paths for words, paths in branches if word in words]
                for paths in taken or [paths for _, paths in branches]:
                    left += paths
        return frozenset(found)

    def package_of(self, path: str) -> str:
        """Return the `__init__.py` of the innermost package around a file; empty if there is none."""
        folders = (str(folder) for folder in PurePosixPath(path).parents)
        return next((f"{folder}/__init__.py" for folder in folders if folder in self._packages), "")

    def _edges_of(self, path: str) -> _Edges:
        if path not in self._edges:
            # A module's packages are imported before it.
            folders = (str(folder) for folder in PurePosixPath(path).parents)
            always = {f"{folder}/__init__.py": None for folder in folders if folder in self._packages}
            choices: defaultdict[int, defaultdict[frozenset[str], list[str]]]
            choices = defaultdict(lambda: defaultdict(list))
            for one in read_imports(parsed(self.text(path)), path):
                paths = self.named_by(one, path)
                if one.group is None:
                    always.update(dict.fromkeys(paths))
                elif paths:
                    number, words = one.group
                    choices[number][words] += paths
            branches = tuple(tuple((words, tuple(to)) for words, to in one.items()) for one in choices.values())
            self._edges[path] = _Edges(tuple(always), branches)
        return self._edges[path]
