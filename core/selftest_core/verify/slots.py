"""Folders in which trees are checked out and tested, one after the other: an index of their own, no `.git`, verified.

A slot lies in the user's cache folder, never in their repository: inside it pytest would find their configuration.
git moves a slot from one tree to the next by what differs, in a folder where nothing of a tree ever runs. The folder
where tests run is kept the same as that one by a walk of our own: no program of ours works in it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.tools.process import run
from selftest_core.verify.folders.hostile import opened, read_file, remove_tree
from selftest_core.verify.folders.mirror import Mirror

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.git.command import Git
    from selftest_core.tools.process import Completed

_TIMEOUT = 300.0
_LARGEST = 16 * 1024 * 1024
"""Bytes of a file that says which contents are absent."""


class Slot:
    """One folder for one tree at a time; for one thread at a time.

    `folder` holds `untouched/`, which git writes and everybody reads; `tree/`, the same, where tests run; `home/`,
    `exchange/`, `environment/`, and `packages/`, the package cache of one set-up. `made`: paths that a set-up made in
    the tree, which lie in `environment`; `made_for`: the digest and the tree that they were made for; `unshared`:
    digests for which the environment of one tree fits no other. `laid`: the tree, "" for none.
    """

    def __init__(self, folder: Path, git: Git) -> None:
        self.folder = folder
        self.untouched = folder / "untouched"
        self.tree_folder = folder / "tree"
        self.home = folder / "home"
        self.exchange = folder / "exchange"
        self.environment = folder / "environment"
        self.packages = folder / "packages"
        self.made: tuple[str, ...] = ()
        self.made_for = ("", "")
        self.unshared: set[str] = set()
        self._index = folder / "index"
        self.git = git
        self._laid = ""
        self._mirror = Mirror(self.untouched, self.tree_folder)

    @property
    def laid(self) -> str:
        """The tree that is laid out."""
        return self._laid

    def lay(self, tree: str) -> None:
        """Lay out a tree, and nothing else, in both folders. Raises RefusedError, ToolError where it cannot be."""
        if self._laid != tree:
            if self._index.with_name("index.lock").exists():
                self._remove()
            self.untouched.mkdir(parents=True, exist_ok=True)
            try:
                self._move_to(tree)
            except (RefusedError, ToolFailedError):
                # One that was killed may have left a broken index: begin anew, once.
                self._remove()
                self.untouched.mkdir(parents=True)
                self._move_to(tree)
            self._laid = tree
        self._bring_up()
        for folder in (self.home, self.exchange):
            remove_tree(folder)
            folder.mkdir(parents=True)

    def restore(self) -> None:
        """Undo what tests did to the tree, and empty the other folders."""
        if self._laid:
            self.lay(self._laid)

    def entries(self, tree: str) -> list[str]:
        """List the files of a tree: mode and id, a tab, and the path. Raises ToolFailedError."""
        listed = self.git.ask("ls-tree", "-r", "-z", "--format=%(objectmode) %(objectname)%x09%(path)", tree)
        return [line for line in listed.split("\0") if line]

    def untracked(self, most: int) -> list[str]:
        """List what is in the tree folder beyond the tree, whole folders as one; ends after `most`."""
        return self._mirror.surplus(most)

    def keep_made(self, paths: Sequence[str], made_for: tuple[str, str]) -> None:
        """Move what a set-up made out of the tree, and restore the tree."""
        for path in paths:
            parent, _, name = path.rpartition("/")
            (self.environment / parent).mkdir(parents=True, exist_ok=True)
            with opened(self.tree_folder, parent) as source, opened(self.environment, parent) as target:
                os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        self.made, self.made_for = tuple(paths), made_for
        self.restore()

    def forget_made(self) -> None:
        """Remove what a set-up made."""
        self.made, self.made_for = (), ("", "")
        remove_tree(self.environment)

    def absent(self) -> dict[str, str]:
        """Map each path whose content is not in the repository to the reason: submodules are empty, LFS files pointers.

        Found by .gitmodules and .gitattributes at the top of the tree.
        """
        found: dict[str, str] = {}
        with opened(self.untouched) as at:
            modules, attributes = (_read(name, at) for name in (".gitmodules", ".gitattributes"))
        if modules is not None:
            submodules = [one for one in self.entries(self._laid) if one.startswith("160000 ")]
            found |= {one.partition("\t")[2]: "a submodule" for one in submodules}
        if attributes is not None and b"filter=lfs" in attributes:
            entries = self._call("ls-files", "-z", ":(attr:filter=lfs)", is_literal=False).stdout.split("\0")
            found |= {one: "a file of Git LFS" for one in entries if one}
        return found

    def _bring_up(self) -> None:
        """Bring the folder where tests run to the state of the other; one that resists is thrown away, once."""
        try:
            self.tree_folder.mkdir(exist_ok=True)
            self._mirror.update()
        except OSError:
            try:
                remove_tree(self.tree_folder)
                self.tree_folder.mkdir()
                self._mirror.update()
            except OSError as error:
                raise ToolFailedError(f"The tree {self._laid[:12]} cannot be laid out", str(error)) from error

    def _move_to(self, tree: str) -> None:
        self._laid = ""
        self._check(self._call("read-tree", "--reset", "-u", tree), tree)
        # `-u` writes the index anew: without, git would compare the content of all files of the same instant as the
        # index, each time.
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
        argv = self.git.argv(f"--work-tree={self.untouched}", "-c", "core.bare=false", *arguments)
        return run(argv, timeout=_TIMEOUT, cwd=self.untouched, env=environment, undecodable="surrogateescape")

    def _check(self, done: Completed, tree: str, *, may_fail: bool = False) -> None:
        if not done.ok and not may_fail:
            title = f"The tree {tree[:12]} cannot be laid out"
            raise ToolFailedError(title, done.stderr_end, argv=done.argv, exit_status=done.exit_status)

    def _remove(self) -> None:
        self._laid = ""
        self.made, self.made_for = (), ("", "")
        remove_tree(self.folder)


def _read(name: str, at: int) -> bytes | None:
    """Read a file of a tree; None where it has none, as where it is a link."""
    try:
        return read_file(name, at, _LARGEST)
    except (OSError, ValueError):
        return None
