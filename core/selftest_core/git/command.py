"""Calls of git that cannot execute or change anything of the user's because of what an agent committed.

Each guard answers an attack that worked in a test: the user's merge driver, textconv filter or hook ran on an agent's
files; a global setting signed, fetched or rewrote; a ref named `--output=x` became an option. So the environment is
built from nothing, its variables turn settings off that execute programs, ids are full hexadecimal, paths are separated
by NUL, and refs are resolved once, behind `--end-of-options`.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import is_oid
from selftest_core.tools.process import OUTPUT_LIMIT, Completed, Running, run, spawn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TIMEOUT = 120.0
"""Seconds for one call. No call reaches a network."""

GUARDS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "push.recurseSubmodules": "no",
    "uploadpack.packObjectsHook": "",
}
"""Settings with which git starts no program of a repository's choosing, also where the person's own ones count."""
_SETTINGS = {
    **GUARDS,
    "core.quotePath": "false",
    "merge.renames": "true",
    "merge.directoryRenames": "true",
    "merge.renameLimit": "20000",
    "diff.renames": "true",
}
GUARDED_GIT = shlex.join(("git", *(word for name, value in GUARDS.items() for word in ("-c", f"{name}={value}"))))
"""git for a shell on another host."""


def guarded(environ: Mapping[str, str], settings: Mapping[str, str] = GUARDS) -> dict[str, str]:
    """Return variables with which every git, also one that another program starts, has these settings over all others.

    Whatever starts git on this machine uses this, or `environment`.
    """
    made = {**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    count = environ.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    for number, (name, value) in enumerate(settings.items(), first):
        made |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return {**made, "GIT_CONFIG_COUNT": str(first + len(settings))}


FILTERS = ("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
"""The call of git that lists the filters for `without_filters`."""


def without_filters(environ: Mapping[str, str], listed: str) -> dict[str, str]:
    """Return variables with which git runs no filter that a file of attributes chooses. `listed`: what FILTERS gave."""
    drivers = dict.fromkeys(name.rpartition(".")[0] for name in listed.split("\0") if name)
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return guarded(environ, {f"{driver}.{key}": value for driver in drivers for key, value in off.items()})


def environment(environ: Mapping[str, str], *, objects: Path | None = None) -> dict[str, str]:
    """Build the environment of a git call: no GIT_* of the caller, no configuration but the repository's own.

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
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_EDITOR": ":",
        "GIT_PAGER": "cat",
    }
    if objects is not None:
        made["GIT_OBJECT_DIRECTORY"] = str(objects)
    return guarded(made, _SETTINGS)


class Git:
    """git on one repository, given by its git folder (absolute). It neither searches nor prompts."""

    def __init__(self, git_dir: Path, environ: Mapping[str, str]) -> None:
        self.git_dir = git_dir
        self.environment = environment(environ)

    def argv(self, *arguments: str) -> list[str]:
        """Build the command line of a call, which needs `environment`."""
        return ["git", f"--git-dir={self.git_dir}", *arguments]

    def run(self, *arguments: str, text: str = "", timeout: float = TIMEOUT, limit: int = OUTPUT_LIMIT) -> Completed:
        """Run a call and return its result, whatever the exit status. Bytes that are not UTF-8 become surrogates.

        Raises ToolOutputError if it prints more than `limit` bytes.
        """
        argv = self.argv(*arguments)
        return run(
            argv, timeout=timeout, cwd=self.git_dir, env=self.environment, input=text, limit=limit,
            undecodable="surrogateescape",
        )  # fmt: skip

    def ask(self, *arguments: str, text: str = "", timeout: float = TIMEOUT, limit: int = OUTPUT_LIMIT) -> str:
        """Run a call and return its stdout. Raises ToolFailedError with git's message if it fails."""
        done = self.run(*arguments, text=text, timeout=timeout, limit=limit)
        if not done.ok:
            title = f"git {arguments[0]} failed in {self.git_dir}"
            raise ToolFailedError(
                title, done.stderr_end, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr
            )
        return done.stdout

    def talk(self, *arguments: str, unbuffered: bool = False) -> Running:
        """Start a call that answers requests on stdin; `unbuffered` where it does not flush each answer."""
        argv = self.argv(*arguments)
        return spawn(
            ["stdbuf", "-o0", *argv] if unbuffered else argv, cwd=self.git_dir, env=self.environment, dialogue=True
        )

    def resolve(self, name: str) -> str:
        """Resolve a name that a user typed to the full id of a commit. Raises UsageError if there is none."""
        done = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        oid = done.stdout.strip()
        if not done.ok or len(oid) != 40:
            hint = "Name a branch, a tag or a commit of this repository: `git log --oneline --all` lists them."
            raise UsageError(f"{name!r} is not a commit of this repository", done.stderr_end, hint)
        return oid

    def resolve_each(self, names: Iterable[str]) -> dict[str, str]:
        """Resolve many names to full ids of commits, with one process. A name that is not of one commit is left out."""
        asked = [name for name in dict.fromkeys(names) if "\n" not in name]
        text = "".join(f"{name}^{{commit}}\n" for name in asked)
        out = self.ask("cat-file", "--batch-check=%(objectname) %(objecttype)", text=text) if asked else ""
        pairs = ((name, line.removesuffix(" commit")) for name, line in zip(asked, out.split("\n"), strict=False))
        return {name: oid for name, oid in pairs if is_oid(oid)}

    def refs(self, prefix: str = "refs/") -> dict[str, str]:
        """Read all refs under a prefix; returns their ids by full name."""
        out = self.ask("for-each-ref", "--format=%(objectname) %(refname)", prefix)
        pairs = (line.split(" ", 1) for line in out.splitlines())
        return {name: oid for oid, name in pairs}

    def head(self) -> str:
        """The full ref of HEAD in the main work tree, empty if it is detached or cannot be read."""
        try:
            text = (self.git_dir / "HEAD").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        return text.removeprefix("ref: ").strip() if text.startswith("ref: refs/") else ""

    def checked_out(self) -> dict[str, str]:
        """The folder in which each branch (full ref name) is checked out, over all worktrees."""
        found: dict[str, str] = {}
        for folder, words in self._worktrees():
            found |= {word.removeprefix("branch "): folder for word in words if word.startswith("branch ")}
        return found

    def worktrees(self) -> tuple[Path, ...]:
        """The folders of all worktrees, the main one first. A folder may have been deleted by hand."""
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
    """A repository: its common git folder, and the top of the work tree (the git folder if it is bare)."""

    git_dir: Path
    top: Path


def find_place(folder: Path, environ: Mapping[str, str]) -> Place:
    """Find the repository that contains `folder`, with absolute paths. Raises UsageError if there is none, RefusedError
    for one whose ids are not SHA-1.

    Only this call searches. It uses the user's settings, which say whose repositories are safe (`safe.directory`).
    """
    kept = {name: environ[name] for name in ("PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME") if name in environ}
    words = ("--path-format=absolute", "--git-common-dir", "--is-bare-repository", "--show-object-format")
    variables = guarded({**kept, "LC_ALL": "C"})
    done = run(("git", "rev-parse", *words), timeout=TIMEOUT, cwd=folder, env=variables)
    if not done.ok:
        hint = "Start it inside a repository, or make one: `git init`."
        raise UsageError(f"{folder} is not in a git repository", done.stderr_end, hint)
    git_dir, is_bare, objects, _ = done.stdout.rsplit("\n", 3)
    if objects != "sha1":
        raise RefusedError(f"This repository has {objects} objects: only repositories with SHA-1 can be reviewed")
    if is_bare == "true":
        return Place(Path(git_dir), Path(git_dir))
    top = run(
        ("git", "rev-parse", "--path-format=absolute", "--show-toplevel"),
        timeout=TIMEOUT, cwd=folder, env=variables,
    )  # fmt: skip
    if not top.ok:
        raise UsageError(f"{folder} is inside a git folder", top.stderr_end, "Start it in the work tree.")
    return Place(Path(git_dir), Path(top.stdout.removesuffix("\n")))
