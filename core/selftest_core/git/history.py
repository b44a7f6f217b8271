"""Commits of a branch as the user's repository has them, read by GitPython for reports: who made what, when, and how.

An independent reader: what is reported as published was read back from the repository, not taken from our own values.
GitPython is imported here only, and lazily: its import takes longer than reading 300 commits. It gets full ids and a
git folder, never names or texts of agents, and runs nothing but `git cat-file --batch` and `git diff-tree`.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError
from selftest_core.frozen import dataclass
from selftest_core.git.command import environment
from selftest_core.git.diffs import OPTIONS, parse_diff
from selftest_core.git.objects import is_oid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from git import Repo

    from selftest_core.git.diffs import FileDiff

MOST_COMMITS = 10_000
_UNREADABLE = "The history of the branch cannot be read"


@dataclass(frozen=True, slots=True)
class HistoryCommit:
    """One commit. `authors`: the author, then everybody in `Co-authored-by`. Texts are not yet safe to show."""

    oid: str
    subject: str
    authors: tuple[str, ...]
    authored: datetime


def read_history(git_dir: Path, base: str, tip: str, environ: Mapping[str, str]) -> tuple[HistoryCommit, ...]:
    """Read the commits from `base` (not included) to `tip` along first parents, oldest first.

    Raises ToolFailedError if an object is missing or `tip` does not descend from `base`.
    """
    if not (is_oid(base) and is_oid(tip)):
        raise ValueError("only full object ids may reach git")
    from git import Commit

    found: list[HistoryCommit] = []
    with _opened(git_dir, environ) as repo:
        commit = Commit(repo, bytes.fromhex(tip))
        while commit.hexsha != base:
            if not commit.parents or len(found) >= MOST_COMMITS:
                raise ToolFailedError(_UNREADABLE, f"{tip} does not lead to {base}")
            authors = (commit.author, *commit.co_authors)
            names = tuple(dict.fromkeys(one.name or one.email or "" for one in authors))
            found.append(HistoryCommit(commit.hexsha, os.fsdecode(commit.summary), names, commit.authored_datetime))
            commit = commit.parents[0]
    return tuple(reversed(found))


def read_commit_diff(git_dir: Path, oid: str, environ: Mapping[str, str]) -> tuple[FileDiff, ...]:
    """Read the diff of a published commit against its first parent. Raises ToolFailedError if an object is missing."""
    if not is_oid(oid):
        raise ValueError("only full object ids may reach git")
    from git import Commit

    with _opened(git_dir, environ) as repo:
        commit = Commit(repo, bytes.fromhex(oid))
        if not commit.parents:
            raise ToolFailedError(_UNREADABLE, f"{oid} has no parent")
        trees = (commit.parents[0].tree.hexsha, commit.tree.hexsha)

        def ask(*words: str) -> str:
            out = repo.git.diff_tree(*OPTIONS, *words, *trees, stdout_as_string=False, strip_newline_in_stdout=False)
            return bytes(out).decode("utf-8", "replace")

        def sizes(oids: list[str]) -> dict[str, int]:
            return {one: repo.odb.info(bytes.fromhex(one)).size for one in oids}

        return parse_diff(ask("--raw", "-z"), lambda: ask("-p"), sizes)


@contextlib.contextmanager
def _opened(git_dir: Path, environ: Mapping[str, str]) -> Iterator[Repo]:
    """Open a repository in GitPython; its errors become ToolFailedError."""
    # GitPython runs `git version` when it is imported, and refuses to be imported if there is no git.
    from git import Repo
    from git.exc import BadObject, GitError

    try:
        with Repo(git_dir) as repo:
            # It passes on our own environment, so what would change the repository is overridden.
            repo.git.update_environment(
                **environment(environ), GIT_DIR=str(git_dir), GIT_OBJECT_DIRECTORY=str(git_dir / "objects"),
                GIT_ALTERNATE_OBJECT_DIRECTORIES="", GIT_CONFIG_PARAMETERS="",
            )  # fmt: skip
            yield repo
    except (GitError, BadObject, OSError, ValueError) as error:
        raise ToolFailedError(_UNREADABLE, str(error)) from error
