"""The private clone that agents start from: the base and its history, and nothing else of the user's repository.

It is packed from the user's objects: no file protocol, none of their hooks, templates or settings, no hard links
through which an agent's worktree could reach their objects, and no alternates, so that their `git gc` during a run does
no harm. It has one branch, no tags and no remote: mngr's mirror pushes all branches and tags, and pushes nothing else.

mngr copies two things from here: the name for commits, and `.git/info/exclude`, which keeps `.selftest/` out of an
agent's `git add -A`.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, SelftestError, ToolFailedError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.run.plan.source import identity
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BRANCH = "selftest"
"""The one branch of the clone, at the base."""
_PATIENCE = 3600.0
"""Seconds for packing or checking out a very large repository."""
_EXCLUDED = "/.selftest/\n"
_LARGEST_EXCLUDE = 64 * 1024


class CloneError(SelftestError):
    """The private clone cannot be made."""


def make_clone(repository: Path, base: str, folder: Path, environ: Mapping[str, str]) -> Path:
    """Make the clone at `folder` with the base checked out, and return it; keep one that exists already.

    `base`: a full commit id. The folder is renamed into place when it is complete, so a crash leaves no partial clone.
    Raises CloneError, and RefusedError if `folder` is something else.
    """
    if folder.exists() or folder.is_symlink():
        if _stands_at(folder, base, environ):
            return folder
        raise RefusedError("The run's clone was changed", str(folder), "Start a new run.")
    place = find_place(repository, environ)
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _init(draft, environ)
        _take_objects(draft, place.git_dir, base, environ)
        _prepare(draft, place.git_dir, identity(place, environ), environ)
        draft.rename(folder)
    except (OSError, ToolFailedError) as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(draft)
        detail = error.detail if isinstance(error, ToolFailedError) else str(error)
        hint = "Free disk space or repair the repository (`git fsck`), and start again."
        raise CloneError("The private clone of the repository cannot be made", detail, hint) from error
    return folder


def write_base_files(repository: Path, base: str, folder: Path, environ: Mapping[str, str]) -> Path:
    """Check the base out into the new `folder`, to read its files, and return it. Raises CloneError.

    It uses the user's objects as alternates, so it only takes the space of the files; no agent may work in it.
    """
    place = find_place(repository, environ)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _init(folder, environ)
        if (place.git_dir / "shallow").is_file():
            shutil.copyfile(place.git_dir / "shallow", folder / ".git" / "shallow")
        info = folder / ".git" / "objects" / "info"
        info.mkdir(exist_ok=True)
        (info / "alternates").write_text(f"{_quoted(place.git_dir / 'objects')}\n", encoding="utf-8")
        git = Git(folder / ".git", environ)
        git.ask("update-ref", f"refs/heads/{BRANCH}", base)
        _write_out(git, folder)
    except (OSError, ToolFailedError) as error:
        detail = error.detail if isinstance(error, ToolFailedError) else str(error)
        hint = "Free disk space or repair the repository (`git fsck`), and start again."
        raise CloneError("The base cannot be checked out", detail, hint) from error
    return folder


def _stands_at(folder: Path, base: str, environ: Mapping[str, str]) -> bool:
    if not (folder / ".git" / "HEAD").is_file():
        return False
    try:
        return Git(folder / ".git", environ).resolve(f"refs/heads/{BRANCH}") == base
    except UsageError:
        return False


def _init(draft: Path, environ: Mapping[str, str]) -> None:
    argv = ["git", "init", "--quiet", "--template=", f"--initial-branch={BRANCH}", str(draft)]
    done = run(argv, timeout=_PATIENCE, cwd=draft.parent, env=Git(draft, environ).environment)
    if not done.ok:
        raise ToolFailedError("git init failed", done.stderr_end, argv=done.argv)


def _take_objects(draft: Path, source: Path, base: str, environ: Mapping[str, str]) -> None:
    """Pack the objects that are reachable from the base. Only these two calls use the user's objects as alternates."""
    git = Git(draft / ".git", environ)
    git.environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted(source / "objects")
    if (source / "shallow").is_file():
        shutil.copyfile(source / "shallow", draft / ".git" / "shallow")
    git.ask("update-ref", f"refs/heads/{BRANCH}", base)
    git.ask("repack", "-a", "-d", "-q", "-n", timeout=_PATIENCE)


def _prepare(draft: Path, source: Path, who: tuple[str, str], environ: Mapping[str, str]) -> None:
    git = Git(draft / ".git", environ)
    for key, value in (("user.name", who[0]), ("user.email", who[1]), ("gc.auto", "0"), ("maintenance.auto", "false")):
        git.ask("config", "--local", "--", key, value)
    info = draft / ".git" / "info"
    info.mkdir(exist_ok=True)
    theirs = source / "info" / "exclude"
    has_own = theirs.is_file() and theirs.stat().st_size <= _LARGEST_EXCLUDE
    own = theirs.read_bytes().rstrip(b"\n") + b"\n" if has_own else b""
    (info / "exclude").write_bytes(own + _EXCLUDED.encode())
    # Also proves that every object of the base was packed: there are no alternates now.
    _write_out(git, draft)


def _write_out(git: Git, folder: Path) -> None:
    reset = ("reset", "--hard", "--quiet", f"refs/heads/{BRANCH}", "--")
    done = git.run(f"--work-tree={folder}", *reset, timeout=_PATIENCE)
    if not done.ok:
        raise ToolFailedError("git cannot check out the files", done.stderr_end, argv=done.argv)


def _quoted(path: Path) -> str:
    """Quote a folder for a list separated by colons: as a C string, which may contain any name."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
