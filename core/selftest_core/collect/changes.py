"""Find the paths that differ between a commit and the work tree. The user's index is neither used nor refreshed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolOutputError
from selftest_core.git.command import FILTERS, Git, without_filters

if TYPE_CHECKING:
    from collections.abc import Iterator


def changed_paths(root: Path, oid: str, git: Git) -> dict[str, str]:
    """Map each path that differs between a commit and the work tree to its change: "changed", "is new", …

    A renamed file has both of its names.
    """
    tree = git_of_work_tree(root, git)
    place = ("-C", str(root), f"--work-tree={root}")
    options = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--find-renames")
    with tempfile.TemporaryDirectory(prefix="selftest-index-") as folder:
        # `git diff` refreshes the index, which is the user's: it gets a copy. The copy keeps its time, by which git
        # detects files that changed while the index was written.
        index = Path(folder) / "index"
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(tree.git_dir / "index", index)
        tree.environment["GIT_INDEX_FILE"] = str(index)
        tree.environment = without_filters(tree.environment, tree.run(*FILTERS).stdout)
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


def git_of_work_tree(root: Path, git: Git) -> Git:
    """Return git with the index of this work tree: a linked one has its own index and HEAD."""
    link = root / ".git"
    if not link.is_file():
        return Git(git.git_dir, git.environment)
    word, _, path = link.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n").partition(": ")
    if word != "gitdir":
        raise ToolOutputError(f"{link} names no git folder", "It should say `gitdir: …`.")
    return Git((root / path).resolve(), git.environment)


def paths_of_work_tree(root: Path, git: Git) -> tuple[str, ...]:
    """List the files of a work tree: those of the index, and new ones that are not ignored."""
    place = ("-C", str(root), f"--work-tree={root}")
    listed = git_of_work_tree(root, git).ask(*place, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return tuple(dict.fromkeys(path for path in listed.split("\0") if path))
