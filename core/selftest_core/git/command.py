"""git, run so that nothing of the person's can be executed or changed by what an agent committed.

Every guard in here stands for something that was provoked: a merge driver, a textconv filter or a hook of the
person's ran on an agent's files; a global setting signed, fetched or rewrote; a ref called `--output=x` became an
option. So the environment is built from nothing, the settings that execute things are off on each call, ids are
full hexadecimal, paths are separated by NUL, and refs are resolved once, behind `--end-of-options`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import OUTPUT_LIMIT, Completed, Running, run, spawn

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = 120.0
"""Seconds for one call; no call of ours reaches a network."""

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "merge.renames=true",
    "merge.directoryRenames=true",
    "merge.renameLimit=20000",
    "diff.renames=true",
    "uploadpack.packObjectsHook=",
)


def environment(environ: Mapping[str, str], *, objects: Path | None = None) -> dict[str, str]:
    """The whole environment of a git of ours: no GIT_* of the caller, no configuration but the repository's own.

    `objects`: where new objects go (GIT_OBJECT_DIRECTORY), None for the repository's own folder.
    """
    kept = {name: environ[name] for name in ("PATH", "TMPDIR") if name in environ}
    made = {
        **kept,
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_EDITOR": ":",
        "GIT_PAGER": "cat",
    }
    if objects is not None:
        made["GIT_OBJECT_DIRECTORY"] = str(objects)
    return made


class Git:
    """git on one repository, named by its git folder (absolute): nothing is searched for, nothing is asked."""

    def __init__(self, git_dir: Path, environ: Mapping[str, str]) -> None:
        self.git_dir = git_dir
        self.environment = environment(environ)

    def argv(self, *arguments: str) -> list[str]:
        """The whole command line of a call."""
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        return ["git", f"--git-dir={self.git_dir}", *settings, *arguments]

    def run(self, *arguments: str, text: str = "", timeout: float = TIMEOUT, limit: int = OUTPUT_LIMIT) -> Completed:
        """Run one call and return it whatever its exit status is. Bytes that are not UTF-8 are kept as surrogates.

        Raises ToolOutputError where it prints more than `limit` bytes.
        """
        argv = self.argv(*arguments)
        return run(
            argv, timeout=timeout, cwd=self.git_dir, env=self.environment, input=text, limit=limit,
            undecodable="surrogateescape",
        )  # fmt: skip

    def ask(self, *arguments: str, text: str = "", timeout: float = TIMEOUT, limit: int = OUTPUT_LIMIT) -> str:
        """What a call prints. Raises ToolFailedError with git's own words where it fails."""
        done = self.run(*arguments, text=text, timeout=timeout, limit=limit)
        if not done.ok:
            title = f"git {arguments[0]} failed in {self.git_dir}"
            raise ToolFailedError(
                title, done.stderr_end, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr
            )
        return done.stdout

    def talk(self, *arguments: str, unbuffered: bool = False) -> Running:
        """Start a call that answers line by line; `unbuffered` for one that does not flush by itself."""
        argv = self.argv(*arguments)
        return spawn(
            ["stdbuf", "-o0", *argv] if unbuffered else argv, cwd=self.git_dir, env=self.environment, dialogue=True
        )

    def resolve(self, name: str) -> str:
        """The full id of the commit that a person's word names. Raises UsageError where there is none."""
        done = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        oid = done.stdout.strip()
        if not done.ok or len(oid) != 40:
            hint = "Name a branch, a tag or a commit of this repository: `git log --oneline --all` lists them."
            raise UsageError(f"{name!r} is no commit here", done.stderr_end, hint)
        return oid

    def refs(self, prefix: str = "refs/") -> dict[str, str]:
        """Every ref under a prefix and the id that it holds."""
        out = self.ask("for-each-ref", "--format=%(objectname) %(refname)", prefix)
        pairs = (line.split(" ", 1) for line in out.splitlines())
        return {name: oid for oid, name in pairs}

    def head(self) -> str:
        """The full ref that HEAD names, in the main work tree; empty where it is detached or cannot be read."""
        try:
            said = (self.git_dir / "HEAD").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        return said.removeprefix("ref: ").strip() if said.startswith("ref: refs/") else ""

    def checked_out(self) -> dict[str, str]:
        """Which branch (full ref name) is checked out in which folder, over all worktrees."""
        found: dict[str, str] = {}
        for folder, words in self._worktrees():
            found |= {word.removeprefix("branch "): folder for word in words if word.startswith("branch ")}
        return found

    def worktrees(self) -> tuple[Path, ...]:
        """The folders of all worktrees, the main one first; one that was removed by hand may be among them."""
        return tuple(Path(folder) for folder, _ in self._worktrees())

    def _worktrees(self) -> list[tuple[str, list[str]]]:
        found: list[tuple[str, list[str]]] = []
        for word in self.ask("worktree", "list", "--porcelain", "-z").split("\0"):
            if word.startswith("worktree "):
                found.append((word.removeprefix("worktree "), []))
            elif found:
                found[-1][1].append(word)
        return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where a person stands: the common git folder, and the top of the work tree (the git folder where it is bare)."""

    git_dir: Path
    top: Path


def find_place(folder: Path, environ: Mapping[str, str]) -> Place:
    """The repository that `folder` is in, all paths absolute. Raises UsageError where it is in none.

    This one call searches, so it runs where the person stands, with their notion of which owners are safe.
    """
    kept = {name: environ[name] for name in ("PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME") if name in environ}
    argv = ("git", "rev-parse", "--path-format=absolute", "--git-common-dir", "--is-bare-repository")
    done = run(argv, timeout=TIMEOUT, cwd=folder, env={**kept, "LC_ALL": "C"})
    if not done.ok:
        hint = "Start it inside a repository, or make one: `git init`."
        raise UsageError(f"{folder} is in no git repository", done.stderr_end, hint)
    git_dir, is_bare, _ = done.stdout.rsplit("\n", 2)
    if is_bare == "true":
        return Place(Path(git_dir), Path(git_dir))
    top = run(
        ("git", "rev-parse", "--path-format=absolute", "--show-toplevel"),
        timeout=TIMEOUT, cwd=folder, env={**kept, "LC_ALL": "C"},
    )  # fmt: skip
    if not top.ok:
        raise UsageError(f"{folder} is inside a git folder", top.stderr_end, "Start it in the work tree.")
    return Place(Path(git_dir), Path(top.stdout.removesuffix("\n")))
