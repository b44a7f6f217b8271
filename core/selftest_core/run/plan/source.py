"""The source of a run: the user's repository at one commit, read and never changed.

The base is resolved once, to a full id; later moves of branches do not matter. A dirty work tree is allowed, since
agents start from a commit; its changed paths are listed. What cannot work (no commit, a shallow history that mngr's
mirror cannot push) is refused here, before the first agent.

The work tree is read with the user's own git settings, like their `git status`, so ignored files are not listed.
Nothing is written, not even the index.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import FILTERS, TIMEOUT, Git, Place, find_place, guarded, without_filters
from selftest_core.tools.process import Completed, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.config import Transfer

_SUBMODULE = "160000"
_DISK_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the base. `checkout`: bytes of a work tree on disk. `history`: bytes of the packed objects that are
    reachable from the base, None if counting takes too long.
    """

    files: int
    checkout: int
    history: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """The user's repository at the base.

    `git_dir`: the folder with HEAD (a linked work tree has its own). `left_out`: changed or untracked paths, in git's
    order, with bytes that are not UTF-8 as surrogates. `warnings`: for the user, before the start.
    """

    place: Place
    git_dir: Path
    base: str
    head: str | None
    size: Size
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]


def look_at(folder: Path, base: str, environ: Mapping[str, str], transfer: Transfer = "mirror") -> Source:
    """Read the repository around `folder`; `base`: any name of a commit.

    Raises UsageError if there is no repository, no commit, no such commit or a history that cannot be pushed,
    RefusedError for a repository with SHA-256 ids.
    """
    place = find_place(folder, environ)
    git = Git(_own_git_dir(place, environ), environ)
    if git.ask("rev-parse", "--show-object-format").strip() != "sha1":
        raise RefusedError("This repository uses another object format than SHA-1", "Only SHA-1 is supported.")
    head = _resolved(git, "HEAD")
    if head is None and base == "HEAD":
        if git.refs():
            hint = "Name a branch with --base, or check one out."
            raise UsageError("The branch that is checked out has no commit yet", "Other branches have commits.", hint)
        hint = "Make the first one: `git add -A && git commit`."
        raise UsageError("This repository has no commit yet", "Agents start from a commit.", hint)
    oid = git.resolve(base)
    warnings: list[str] = []
    if git.ask("rev-parse", "--is-shallow-repository").strip() == "true":
        if transfer == "mirror":
            detail = "mngr mirrors by a push, and git refuses to push a shallow history."
            raise UsageError(
                "This is a shallow clone",
                detail,
                "Fetch the rest (`git fetch --unshallow`), or use --transfer worktree.",
            )
        warnings.append("this is a shallow clone: agents have only its commits")
    size, submodules = _contents(git, oid, with_history=transfer == "mirror")
    if submodules:
        names = ", ".join(submodules[:5]) + (f" and {len(submodules) - 5} more" if len(submodules) > 5 else "")
        warnings.append(f"submodules are empty folders in the agents' copies: {names}")
    if "filter=lfs" in git.run("cat-file", "blob", f"{oid}:.gitattributes").stdout:
        warnings.append("files of git LFS are pointers in the agents' copies")
    if head is not None and head != oid:
        warnings.append(f"the base is not the commit that is checked out ({head[:12]})")
    return Source(place, git.git_dir, oid, head, size, left_out(place, environ), tuple(warnings))


def left_out(place: Place, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the changed and untracked paths; untracked folders end with a slash. None in a bare repository."""
    if place.top == place.git_dir:
        return ()
    done = _as_the_person(
        place, environ, "status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames",
        "--ignore-submodules=dirty",
    )  # fmt: skip
    if not done.ok:
        raise UsageError("git cannot list the changes here", done.stderr_end, "Try `git status`.")
    return parse_status(done.stdout)


def parse_status(out: str) -> tuple[str, ...]:
    """Parse the paths of `git status --porcelain=v2 -z`, without ignored ones."""
    paths: list[str] = []
    words = iter(out.split("\0"))
    for word in words:
        kind = word[:1]
        if kind == "1":
            paths.append(word.split(" ", 8)[8])
        elif kind == "2":
            paths.append(word.split(" ", 9)[9])
            next(words, None)  # the old name of a renamed path
        elif kind == "u":
            paths.append(word.split(" ", 10)[10])
        elif kind == "?":
            paths.append(word[2:])
    return tuple(path for path in paths if path != ".selftest/")


def identity(place: Place, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the name and address that the user commits with here, or placeholders."""
    found = []
    for key, variable, instead in (
        ("user.name", "GIT_AUTHOR_NAME", "selftest agent"),
        ("user.email", "GIT_AUTHOR_EMAIL", "agent@selftest.invalid"),
    ):
        configured = _as_the_person(place, environ, "config", "--get", key).stdout.strip()
        found.append(environ.get(variable, "").strip() or configured or instead)
    return found[0], found[1]


def _resolved(git: Git, name: str) -> str | None:
    try:
        return git.resolve(name)
    except UsageError:
        return None


def _as_the_person(place: Place, environ: Mapping[str, str], *arguments: str) -> Completed:
    names = ("PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME")
    variables = guarded({**{name: environ[name] for name in names if name in environ}, "LC_ALL": "C"})

    def call(*words: str) -> Completed:
        return run(("git", *words), timeout=TIMEOUT, cwd=place.top, undecodable="surrogateescape", env=variables)

    if arguments[0] == "status":  # the one that may run filters
        variables = without_filters(variables, call(*FILTERS).stdout)
    return call(*arguments)


def _own_git_dir(place: Place, environ: Mapping[str, str]) -> Path:
    if place.top == place.git_dir:
        return place.git_dir
    done = _as_the_person(place, environ, "rev-parse", "--absolute-git-dir")
    return Path(done.stdout.removesuffix("\n")) if done.ok else place.git_dir


def _contents(git: Git, oid: str, *, with_history: bool) -> tuple[Size, tuple[str, ...]]:
    title, hint = "Files of the base are missing here (a partial clone?)", "Make a full clone, and start there."
    try:
        listed = git.ask("ls-tree", "-r", "-z", "--long", oid)
    except ToolError as error:
        raise UsageError(title, error.detail, hint) from error
    submodules: list[str] = []
    files = checkout = 0
    for entry in listed.split("\0"):
        about, _, path = entry.partition("\t")
        words = about.split()
        if len(words) != 4:
            continue
        if words[0] == _SUBMODULE:
            submodules.append(path)
        elif not words[3].isdecimal():
            raise UsageError(title, path, hint)
        else:
            files += 1
            checkout += -(-int(words[3]) // _DISK_BLOCK) * _DISK_BLOCK
    history = None
    if with_history:
        try:
            counted = git.run("rev-list", "--disk-usage", "--objects", "--use-bitmap-index", oid, timeout=20.0)
            history = int(counted.stdout) if counted.ok else None
        except (ToolError, ValueError):
            history = None
    return Size(files, checkout, history), tuple(submodules)
