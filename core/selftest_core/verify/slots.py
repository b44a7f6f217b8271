"""Folders in which trees are checked out and tested, one after the other: an index of their own, no `.git`, verified.

A slot lies in the user's cache folder, never in their repository: inside it pytest would find their configuration.
git moves a slot from one tree to the next by what differs, which takes milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.git.command import Git
    from selftest_core.tools.process import Completed

_TIMEOUT = 300.0


class Slot:
    """One folder for one tree at a time; for one thread at a time.

    `folder` holds `tree/`, `home/`, `exchange/` and `environment/`. `made`: paths that a set-up made in the tree, which
    lie in `environment`; `made_for`: what they were made for. `laid`: the tree, "" for none.
    """

    def __init__(self, folder: Path, git: Git) -> None:
        self.folder = folder
        self.tree_folder = folder / "tree"
        self.home = folder / "home"
        self.exchange = folder / "exchange"
        self.environment = folder / "environment"
        self.made: tuple[str, ...] = ()
        self.made_for = ("", "")
        self._index = folder / "index"
        self.git = git
        self._laid = ""

    @property
    def laid(self) -> str:
        """The tree that is laid out."""
        return self._laid

    def lay(self, tree: str) -> None:
        """Lay out a tree, and nothing else, in `tree_folder`. Raises RefusedError where that cannot be."""
        if self._laid != tree or self._dirt():
            if self._index.with_name("index.lock").exists():
                self._remove()
            self.tree_folder.mkdir(parents=True, exist_ok=True)
            try:
                self._move_to(tree)
            except (RefusedError, ToolFailedError):
                # A test may have taken away our right to write there, or have broken the index: begin anew, once.
                self._remove()
                self.tree_folder.mkdir(parents=True)
                self._move_to(tree)
            self._laid = tree
        for folder in (self.home, self.exchange):
            remove_tree(folder)
            folder.mkdir(parents=True)

    def restore(self) -> None:
        """Undo what tests did to the tree, and empty the other folders."""
        if self._laid:
            self.lay(self._laid)

    def entries(self) -> list[str]:
        """List the files of the laid tree: mode, blob and stage, a tab, and the path."""
        return [line for line in self._call("ls-files", "-s", "-z").stdout.split("\0") if line]

    def untracked(self) -> list[str]:
        """List what is in the tree folder beyond the tree, whole folders as one; bytecode of Python is left out.

        By a walk of our own: git would look into a repository that a set-up has made in a submodule's folder, and run
        the filters which that names. Follows no links, and opens nothing.
        """
        files = {line.partition("\t")[2] for line in self.entries()}
        folders = {parent for path in files for parent in _parents(path)}
        found: list[str] = []
        left = [""]
        while left:
            folder = left.pop()
            with os.scandir(self.tree_folder / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if path in folders and entry.is_dir(follow_symlinks=False):
                        left.append(path)
                    elif path not in files and entry.name != "__pycache__":
                        found.append(path)
        return sorted(found)

    def keep_made(self, paths: Sequence[str], made_for: tuple[str, str]) -> None:
        """Move what a set-up made out of the tree, and restore the tree."""
        for path in paths:
            target = self.environment / path
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.tree_folder / path).rename(target)
        self.made, self.made_for = tuple(paths), made_for
        self.restore()

    def forget_made(self) -> None:
        """Remove what a set-up made, and where it was mounted."""
        for path in self.made:
            with contextlib.suppress(OSError):
                (self.tree_folder / path).rmdir()
        self.made, self.made_for = (), ("", "")
        remove_tree(self.environment)

    def absent(self) -> dict[str, str]:
        """Map each path whose content is not in the repository to the reason: submodules are empty, LFS files pointers.

        Found by .gitmodules and .gitattributes at the top of the tree.
        """
        found: dict[str, str] = {}
        if (self.tree_folder / ".gitmodules").is_file():
            found |= {one.partition("\t")[2]: "a submodule" for one in self.entries() if one.startswith("160000 ")}
        attributes = self.tree_folder / ".gitattributes"
        if attributes.is_file() and b"filter=lfs" in attributes.read_bytes():
            entries = self._call("ls-files", "-z", ":(attr:filter=lfs)", is_literal=False).stdout.split("\0")
            found |= {one: "a file of Git LFS" for one in entries if one}
        return found

    def _move_to(self, tree: str) -> None:
        self._laid = ""
        self._check(self._call("read-tree", "--reset", "-u", tree), tree)
        # Files that a test has changed, with the size and the times of before, are written anew. `-u` writes the index
        # anew, too: without, git would compare the content of all files of the same instant as the index, each time.
        self._check(self._call("checkout-index", "-q", "-u", "--all", "--force"), tree)
        self._check(self._call("clean", "-q", "-ffdx"), tree, may_fail=True)
        dirt = self._dirt()
        if dirt:
            raise RefusedError(f"The tree {tree[:12]} cannot be laid out as it is", dirt[:500])

    def _dirt(self) -> str:
        """List what differs from the tree that was laid, ignored files too."""
        done = self._call("status", "--porcelain", "--ignored", "--untracked-files=all", "--ignore-submodules=all")
        # The engine's HEAD is not what is laid here: only the second column, the work tree's, counts.
        lines = [line for line in done.stdout.splitlines() if line[1:2] != " "]
        return "\n".join(lines) if done.ok else done.stderr_end or "git status failed"

    def _call(self, *arguments: str, is_literal: bool = True) -> Completed:
        environment = {**self.git.environment, "GIT_INDEX_FILE": str(self._index)}
        environment |= {} if is_literal else {"GIT_LITERAL_PATHSPECS": "0"}
        argv = self.git.argv(f"--work-tree={self.tree_folder}", "-c", "core.bare=false", *arguments)
        return run(argv, timeout=_TIMEOUT, cwd=self.tree_folder, env=environment, undecodable="surrogateescape")

    def _check(self, done: Completed, tree: str, *, may_fail: bool = False) -> None:
        if not done.ok and not may_fail:
            title = f"The tree {tree[:12]} cannot be laid out"
            raise ToolFailedError(title, done.stderr_end, argv=done.argv, exit_status=done.exit_status)

    def _remove(self) -> None:
        self._laid = ""
        self.made, self.made_for = (), ("", "")
        remove_tree(self.folder)


def _parents(path: str) -> list[str]:
    """List the folders above a path, relative as it is."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours, also where a test took away the right to. Follows no links."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return
    if not folder.exists():
        return
    for parent, folders, _ in os.walk(folder):
        for name in (".", *folders):
            path = os.path.join(parent, name)  # noqa: PTH118 -- many of them
            if not os.path.islink(path):  # noqa: PTH114
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)  # noqa: PTH101
    shutil.rmtree(folder)
