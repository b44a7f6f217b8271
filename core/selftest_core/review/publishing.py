"""Publication: objects are copied into the user's repository, then all refs move in one transaction, or none.

Only two kinds of refs are written: our own under `refs/selftest/<review>/`, and the one branch that the user
publishes. That branch must be new, or still where this review last published it, and checked out nowhere; its commits
must be those that a build without any cache gives. Objects come before refs, checked by git's own
`index-pack --strict`, which refuses paths that no checkout may write.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import is_oid
from selftest_core.review.candidate_branch import build_line, store_line
from selftest_core.review.engine import Engine
from selftest_core.review.resolutions import NO_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from selftest_core.git.command import Git
    from selftest_core.git.object_store import ObjectStore
    from selftest_core.review.candidate_branch import Decision, Entry, Line
    from selftest_core.review.resolutions import Answers

_NOWHERE = "0" * 40
_OWN = "refs/selftest/"
_PUBLISHED = "published/"
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{")
"""Characters that git refuses in the name of a branch."""
_MISTAKEN = re.compile(r"@|[A-Z_]*HEAD|-.*|refs/.*")
"""Names that git takes for a branch, but that stand for something else wherever they are typed."""
_STALE = 60.0
"""Seconds after which a lock is stale; a transaction takes milliseconds."""


def own_ref(review: str, name: str) -> str:
    """The full name of a ref of ours. Everything below `refs/selftest/` belongs to this tool."""
    return f"{_OWN}{review}/{name}"


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of the user's repository as they were read. `folders`: where one is checked out, by full ref."""

    review: str
    refs: Mapping[str, str]
    folders: Mapping[str, str]

    def check(self, branch: str) -> str:
        """Return the full ref that this name would be published as.

        Raises UsageError for an invalid name, RefusedError where the branch is checked out, is not from this review, or
        moved since this review last published it.
        """
        ref = branch if branch.startswith("refs/heads/") else f"refs/heads/{branch}"
        name = ref.removeprefix("refs/heads/")
        if not is_branch_name(name) or _MISTAKEN.fullmatch(name):
            raise UsageError(f"{branch!r} is not a valid branch name", hint="See `git help check-ref-format`.")
        if ref in self.folders:
            hint = "Publish under another name, or check out another branch there."
            raise RefusedError(f"{branch} is checked out", f"in {self.folders[ref]}", hint)
        for other in self.refs:
            if other.startswith(f"{ref}/") or ref.startswith(f"{other}/"):
                hint = "Publish under another name: git keeps branches as files and folders."
                raise RefusedError(f"{branch} is taken by {other.removeprefix('refs/heads/')}", "", hint)
        existing, last = self.refs.get(ref), self.refs.get(own_ref(self.review, f"{_PUBLISHED}{name}"))
        if existing not in (None, last):
            what = "moved since it was published" if last is not None else "is not from this review"
            hint = f"Publish under another name, or delete it first: `git branch -D {branch}`."
            raise RefusedError(f"{branch} exists already and {what}", f"It is at {existing}.", hint)
        return ref

    def disabled_reason(self, branch: str) -> str:
        """The reason why this name cannot be published, empty where it can."""
        try:
            self.check(branch)
        except (RefusedError, UsageError) as error:
            return error.title
        return ""


def read_branches(user: Git, review: str) -> Branches:
    """Read the branches of the user's repository."""
    folders = {ref: str(folder) for ref, folder in user.checked_out().items()}
    return Branches(review, user.refs(), folders)


def published_branches(user: Git) -> frozenset[str]:
    """Return the names of the branches that reviews of this repository published."""
    refs = (ref.removeprefix(_OWN).partition("/")[2] for ref in user.refs(_OWN))
    return frozenset(name.removeprefix(_PUBLISHED) for name in refs if name.startswith(_PUBLISHED))


def is_branch_name(name: str) -> bool:
    """Return True for a name that git takes for a branch (`git help check-ref-format`)."""
    parts = name.split("/")
    return not (
        _FORBIDDEN.search(name)
        or name.endswith(".")
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    )


def keep_candidate(engine: Engine, user: Git, review: str, line: Line) -> str:
    """Write the line to `refs/selftest/<review>/candidate`, where it can be checked out; returns that ref."""
    ref = own_ref(review, "candidate")
    old = user.refs(ref).get(ref, _NOWHERE)
    if old != line.tip:
        store_line(engine, line, engine.store.tree_of(line.base))
        transfer(engine.store, user, line.tip, line.base)
        _update(user, [(ref, line.tip, old)], "candidate")
    return ref


def publish(engine: Engine, user: Git, review: str, branch: str, line: Line, *, is_stored: bool = False) -> str:
    """Publish the line as a branch and return its full ref. `is_stored`: its commits are in the engine already.

    Raises UsageError for an invalid name, RefusedError (exit 4) where the branch is checked out, is not from this
    review, or moved since this review last published it. Nothing is changed then.
    """
    read_branches(user, review).check(branch)
    if not is_stored:
        store_line(engine, line, engine.store.tree_of(line.base))
    return publish_commit(engine.store, user, review, branch, line.tip, line.base)


def publish_commit(store: ObjectStore, user: Git, review: str, branch: str, tip: str, base: str) -> str:
    """Publish a commit of the store, which descends from `base`, as a branch; raises as `publish` does."""
    branches = read_branches(user, review)
    ref = branches.check(branch)
    if not user.run("check-ref-format", ref).ok:
        raise UsageError(f"{branch!r} is not a valid branch name", hint="See `git help check-ref-format`.")
    mark = own_ref(review, f"{_PUBLISHED}{ref.removeprefix('refs/heads/')}")
    existing, last = branches.refs.get(ref, _NOWHERE), branches.refs.get(mark, _NOWHERE)
    transfer(store, user, tip, base)
    _update(user, [(ref, tip, existing), (mark, tip, last)], f"publish {review}")
    return ref


def check_by_rebuilding(
    line: Line,
    folder: Path,
    source: Path,
    environ: Mapping[str, str],
    entries: Sequence[Entry],
    decisions: Mapping[str, Decision],
    answers: Answers = NO_ANSWERS,
    prepare: Callable[[Engine], object] = lambda engine: None,
) -> None:
    """Build the line again by whole merges in a new engine. Raises RefusedError where the results differ.

    `prepare` makes in that engine what the entries are made of beside the commits of agents.
    """
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="verify-") as fresh,
        Engine.open(Path(fresh) / "engine.git", source, environ, is_plain=True) as engine,
    ):
        prepare(engine)
        base_tree = engine.store.tree_of(line.base)
        again = build_line(engine, line.base, base_tree, entries, decisions, answers=answers)
    if (again.tree, again.tip) != (line.tree, line.tip):
        detail = f"Its tree is {line.tree}; built again without caches it is {again.tree}."
        raise RefusedError("The branch cannot be verified, so it is not published", detail, "Please report this.")


def transfer(store: ObjectStore, user: Git, tip: str, base: str) -> None:
    """Copy the objects of `base..tip` into the user's repository, checked; a second time changes nothing."""
    if not (is_oid(tip) and is_oid(base)):
        raise ValueError("only full object ids may reach git")
    if tip == base or user.run("cat-file", "-e", f"{tip}^{{tree}}").ok:
        return
    packs = user.git_dir / "objects" / "pack"
    packs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.git.git_dir, prefix="pack-") as made:
        wanted = f"{tip}\n^{base}\n"
        name = store.git.ask("pack-objects", "--revs", "--quiet", f"{made}/pack", text=wanted).strip()
        if not is_oid(name):
            raise ToolFailedError("git pack-objects wrote no pack", name)
        draft = packs / f"tmp_selftest_{os.getpid()}_{name[:12]}.pack"
        index = draft.with_suffix(".idx")
        try:
            shutil.copyfile(Path(made) / f"pack-{name}.pack", draft)
            draft.chmod(0o444)
            user.ask("index-pack", "--strict", "-o", str(index), str(draft))
            # git finds packs by their index, so the index must come last.
            draft.rename(packs / f"pack-{name}.pack")
            index.rename(packs / f"pack-{name}.idx")
        finally:
            draft.unlink(missing_ok=True)
            index.unlink(missing_ok=True)


def _update(user: Git, updates: Sequence[tuple[str, str, str]], why: str) -> None:
    """Update all refs from their expected old ids to the new ones, or none. Raises RefusedError where one moved."""
    for ref, _, _ in updates:
        _clear_stale_lock(user, ref)
    lines = ["start\0", *(f"update {ref}\0{new}\0{old}\0" for ref, new, old in updates), "prepare\0", "commit\0"]
    done = user.run(
        "-c", "user.name=selftest-tui", "-c", "user.email=selftest-tui@localhost",
        "update-ref", "--create-reflog", "-m", f"selftest-tui: {why}", "--stdin", "-z",
        text="".join(lines),
    )  # fmt: skip
    if not done.ok:
        names = ", ".join(ref for ref, _, _ in updates)
        raise RefusedError(f"git could not update {names}", done.stderr_end, "Nothing was changed. Try again.")


def _clear_stale_lock(user: Git, ref: str) -> None:
    """Remove the lock of a git of ours that was killed within a transaction: only of our own refs, only an old one."""
    if not ref.startswith(_OWN):
        return
    lock = user.git_dir / f"{ref}.lock"
    with contextlib.suppress(FileNotFoundError):
        if time.time() - lock.stat().st_mtime > _STALE:
            lock.unlink()
