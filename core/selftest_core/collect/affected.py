"""Select the tests that a change affects, with reasons.

A test is affected if its own file, a conftest.py of its folders, or a tutorial block that it cites differs from a base
commit, or if its file directly imports a changed module. Indirect imports do not count: they would soon be
everything. The base commit is compared with the work tree, uncommitted and new files included.

It reads files and asks git; it imports nothing of the project and changes nothing. If in doubt, it selects a test.
"""

from __future__ import annotations

import ast
import contextlib
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.errors import ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.tutorial.coverage import cover
from selftest_core.tutorial.tutorial import parse_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from selftest_core.collect.collection import CollectedTest, Collection
    from selftest_core.tutorial.citations import Citation
    from selftest_core.tutorial.tutorial import Block

_CALLS = frozenset({"import_module", "importorskip", "__import__"})
_LARGEST = 16 * 1024 * 1024


class Affected(NamedTuple):
    """A test and the reasons why it is affected."""

    test: CollectedTest
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Imports:
    """The imports of a file: dotted names, and for relative imports paths without a suffix."""

    names: frozenset[str]
    paths: frozenset[str]


def affected(
    root: Path,
    base: str,
    collection: Collection,
    citations: Sequence[Citation],
    git: Git,
    tutorial: str = "tutorial.sh",
) -> tuple[Affected, ...]:
    """Select the affected tests, in the order of the collection. `root`: the top of the work tree of the collection.

    `base`: any name of a commit; `citations`: of the current test files; `tutorial`: relative to `root`. Raises
    UsageError if `base` names no commit, and ToolError if git fails.
    """
    oid = _of_work_tree(root, git).resolve(base)
    changes = changed_paths(root, oid, git)
    cited = _cited(root, oid, citations, git, tutorial) if tutorial in changes else {}
    by_file = AffectedFiles(root, [test.file for test in collection.tests]).by(changes)
    picked: list[Affected] = []
    for test in collection.tests:
        reasons = (*by_file.get(test.file, ()), *cited.get(test.without_parameters, ()))
        if reasons:
            picked.append(Affected(test, reasons))
    return tuple(picked)


class AffectedFiles:
    """The test files of the tree at `root`: which of them a change affects. Each is parsed once, for any number."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self._root, self._files = root, tuple(dict.fromkeys(files))
        self._imports: dict[str, _Imports] = {}

    def by(self, changes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the files that `changes` (path to what became of it) affects, each with the reasons."""
        modules = _modules(self._root, changes)
        found = {path: tuple(self._reasons(path, changes, modules)) for path in self._files}
        return {path: reasons for path, reasons in found.items() if reasons}

    def _reasons(self, path: str, changes: Mapping[str, str], modules: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
        if path in changes:
            yield f"{path} {changes[path]}"
        for folder in reversed(PurePosixPath(path).parents):
            conftest = str(folder / "conftest.py")
            if conftest in changes and conftest != path:
                yield f"{conftest} {changes[conftest]}"
        if not modules or not path.endswith(".py"):
            return
        if path not in self._imports:
            self._imports[path] = _imports(source_text(self._root / path), path)
        imports = self._imports[path]
        found: dict[str, None] = {}
        for name in sorted(imports.names & modules.keys()):
            found.update(dict.fromkeys(modules[name]))
        for stem in sorted(imports.paths):
            found.update(dict.fromkeys(one for one in (f"{stem}.py", f"{stem}/__init__.py") if one in changes))
        for one in found:
            if one != path and PurePosixPath(one).name != "conftest.py":
                yield f"it imports {one}, which {changes[one]}"


def changed_paths(root: Path, oid: str, git: Git) -> dict[str, str]:
    """Map each path that differs between a commit and the work tree to its change: "changed", "is new", …

    A renamed file has both of its names.
    """
    tree = _of_work_tree(root, git)
    place = ("-C", str(root), f"--work-tree={root}")
    options = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--find-renames")
    with tempfile.TemporaryDirectory(prefix="selftest-index-") as folder:
        # `git diff` refreshes the index, which is the user's: it gets a copy. The copy keeps its time, by which git
        # detects files that changed while the index was written.
        index = Path(folder) / "index"
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(tree.git_dir / "index", index)
        tree.environment["GIT_INDEX_FILE"] = str(index)
        listed = tree.ask(*place, "diff", "--name-status", "-z", *options, oid, "--")
        others = tree.ask(*place, "ls-files", "--others", "--exclude-standard", "-z")
    changes = dict(_compared(listed))
    for path in others.split("\0"):
        if path:
            # `diff` reports a file that is not in the index as deleted, though it may exist.
            changes[path] = "changed" if changes.get(path) == "was deleted" else "is new and not committed"
    return changes


def _compared(listed: str) -> Iterator[tuple[str, str]]:
    words = iter(listed.split("\0"))
    for status in words:
        if not status:
            continue
        path = next(words)
        match status[0]:
            case "A":
                yield path, "is new"
            case "D":
                yield path, "was deleted"
            case "R" | "C":
                made = next(words)
                yield made, f"was {path}" if status[0] == "R" else f"was copied from {path}"
                if status[0] == "R":
                    yield path, f"is {made} now"
            case _:
                yield path, "changed"


def _of_work_tree(root: Path, git: Git) -> Git:
    """Return git with the index of this work tree: a linked one has its own index and HEAD."""
    link = root / ".git"
    if not link.is_file():
        return Git(git.git_dir, git.environment)
    word, _, path = link.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n").partition(": ")
    if word != "gitdir":
        raise ToolOutputError(f"{link} names no git folder", "It should say `gitdir: …`.")
    return Git((root / path).resolve(), git.environment)


def source_text(path: Path) -> str:
    """Read a file; "" if it cannot be read: pytest could not have collected its tests."""
    try:
        if path.stat().st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""


def _modules(root: Path, changes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Map the dotted names by which changed Python files can be imported to their paths.

    sys.path is unknown (src layouts, `pythonpath`, folders of tests), so each folder above the outermost package counts
    as an entry. Inside a package a file has no shorter name.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in changes:
        if not path.endswith(".py"):
            continue
        whole = PurePosixPath(path)
        parts = whole.parts[:-1] if whole.name == "__init__.py" else (*whole.parts[:-1], whole.stem)
        folder = whole.parent
        outermost = len(folder.parts)
        while outermost and _is_package(root, PurePosixPath(*folder.parts[:outermost]), changes):
            outermost -= 1
        for start in range(outermost + 1):
            name = ".".join(parts[start:])
            # `import types` does not mean a script `types.py` of the project.
            if name and name not in sys.stdlib_module_names:
                found[name].append(path)
    return {name: tuple(paths) for name, paths in found.items()}


def _is_package(root: Path, folder: PurePosixPath, changes: Mapping[str, str]) -> bool:
    marker = str(folder / "__init__.py")
    return (root / marker).is_file() or changes.get(marker, "") == "was deleted"


def _imports(source: str, path: str) -> _Imports:
    """Read all imports of a file, inside functions too."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return _Imports(frozenset(), frozenset())
    names: set[str] = set()
    paths: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names.update(alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                names.update((module, *(f"{module}.{alias.name}" for alias in aliases)))
            case ast.ImportFrom(module=module, names=aliases, level=int(level)) if level:
                paths.update(_relative(path, level, module, [alias.name for alias in aliases]))
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(str(name)), *_]):
                if called in _CALLS:
                    names.add(name)
            case _:
                continue
    return _Imports(frozenset(names), frozenset(paths))


def _relative(path: str, level: int, module: str | None, names: Sequence[str]) -> Iterator[str]:
    folders = PurePosixPath(path).parts[:-1]
    if level > len(folders) + 1:
        return
    place = (*folders[: len(folders) + 1 - level], *(module.split(".") if module else ()))
    if place:
        yield "/".join(place)
    for name in names:
        yield "/".join((*place, name))


def _cited(root: Path, oid: str, citations: Sequence[Citation], git: Git, tutorial: str) -> dict[str, tuple[str, ...]]:
    """Map each test function to the reasons from changed blocks that it cites."""
    shown = git.run("cat-file", "blob", f"{oid}:{tutorial}")
    before = parse_blocks(shown.stdout if shown.ok else "").blocks
    after = parse_blocks(source_text(root / tutorial)).blocks
    reasons: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for blocks, others, what in (
        (after, before, "it cites the block at {}:{}, which changed"),
        (before, after, "it cites the block that was at {}:{}, which changed"),
    ):
        known = {_lines(block) for block in others}
        # All blocks are passed: a citation without a match would cost a search for the nearest block.
        for cited in cover(blocks, citations).blocks:
            if _lines(cited.block) not in known:
                for test in cited.tests:
                    reasons[test][what.format(tutorial, cited.block.line)] = None
    return {test: tuple(found) for test, found in reasons.items()}


def _lines(block: Block) -> tuple[str, ...]:
    return tuple(line.strip() for line in block.text.splitlines() if line.strip())
