"""Leftovers of reviews: folders of old reviews, and refs of reviews whose folder is gone.

A review that is open, or has decisions that were never published, is never removed. Each is checked again before it is
removed, with its log locked, so that nobody can open it meanwhile.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Literal

from selftest_core.cleanup.selection import ALL, REVIEW_ID, Selection
from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.journal import is_held, read
from selftest_core.paths import runs_folder
from selftest_core.review.publishing import own_ref
from selftest_core.review.repository import LOG, open_log
from selftest_core.review.review_log import ACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

type Kind = Literal["review", "refs"]

OLD = 30 * 24 * 3600.0
"""Seconds without activity after which a finished review is old."""
_DECIDED = ACTS | {"undone", "redone"}


@dataclass(frozen=True, slots=True)
class ReviewLeftover:
    """One leftover of a review. `names`: exactly what is removed; `refs`: those of them that are refs, with their ids.

    `path`: the review's folder, or the repository if that is gone.
    """

    kind: Kind
    review: str
    path: Path
    says: str
    names: tuple[str, ...]
    refs: tuple[tuple[str, str], ...]
    git_dir: Path


def review_leftovers(
    environ: Mapping[str, str], repository: Path | None, now: float, selection: Selection = ALL
) -> tuple[tuple[ReviewLeftover, ...], tuple[str, ...]]:
    """Find the leftovers of this repository's reviews, and messages about what could not be checked.

    `now`: seconds since the epoch.
    """
    if repository is None:
        return (), ()
    try:
        place = find_place(repository, environ)
        git = Git(place.git_dir, environ)
        refs = git.refs("refs/selftest/")
        # Work trees share the refs of a repository, and have folders of their own.
        tops = dict.fromkeys([repository, *git.worktrees()])
    except (SelftestError, OSError) as error:
        return (), (f"the reviews of {repository} were not checked: {' '.join(str(error).split())}",)
    found: list[ReviewLeftover] = []
    homes = {path.name: path for top in tops for path in runs_folder(top).glob("review-*")}
    for name, home in sorted(homes.items()):
        if (
            selection.includes(name)
            and home.is_relative_to(repository)
            and REVIEW_ID.fullmatch(name)
            and _is_over(home, now)
        ):
            own = _refs_of(refs, name)
            says = f"review {name}: its folder, and the refs that keep its commits (unused for 30 days)"
            names = (str(home), *(ref for ref, _ in own))
            found.append(ReviewLeftover("review", name, home, says, names, own, place.git_dir))
    for name in dict.fromkeys(_names_in(refs)):
        if name not in homes and selection.includes(name):
            own = _refs_of(refs, name)
            count = f"{len(own)} ref{'' if len(own) == 1 else 's'}"
            says = f"review {name}: {count} of it, whose folder is gone"
            names = tuple(ref for ref, _ in own)
            found.append(ReviewLeftover("refs", name, repository, says, names, own, place.git_dir))
    return tuple(found), ()


def remove_review(leftover: ReviewLeftover, environ: Mapping[str, str], now: float) -> tuple[str, ...]:
    """Remove a leftover; return messages about what failed."""
    try:
        if leftover.kind == "refs":
            _remove_refs(leftover, environ)
            return ()
        with open_log(leftover.path):
            # A process that waits for the lock finds that the review is gone.
            if not _is_done_with(leftover.path, now):
                return (f"{leftover.review} is in use again: kept",)
            _remove_refs(leftover, environ)
            shutil.rmtree(leftover.path)
    except (SelftestError, OSError) as error:
        return (" ".join(str(error).split("\n")),)
    return ()


def _is_over(home: Path, now: float) -> bool:
    return _is_done_with(home, now) and not is_held(home / LOG)


def _is_done_with(home: Path, now: float) -> bool:
    """Return whether a review is old, and all its decisions are published."""
    log = home / LOG
    try:
        if home.is_symlink() or now - log.stat().st_mtime <= OLD:
            return False
        reading = read(log.read_bytes())
    except OSError:
        return False
    if reading.is_damaged:
        return False
    events = [entry.event for entry in reading.entries]
    decided = max((at for at, event in enumerate(events) if event in _DECIDED), default=-1)
    published = max((at for at, event in enumerate(events) if event == "published"), default=-1)
    return decided < 0 or published > decided


def _names_in(refs: Mapping[str, str]) -> Iterator[str]:
    for ref in refs:
        name = ref.split("/")[2]
        if REVIEW_ID.fullmatch(name):
            yield name


def _refs_of(refs: Mapping[str, str], name: str) -> tuple[tuple[str, str], ...]:
    return tuple((ref, oid) for ref, oid in refs.items() if ref.startswith(own_ref(name, "")))


def _remove_refs(leftover: ReviewLeftover, environ: Mapping[str, str]) -> None:
    """Remove all refs or none, and only if they still have the ids that were shown."""
    if leftover.refs:
        commands = "".join(f"delete {ref} {oid}\n" for ref, oid in leftover.refs)
        git = Git(leftover.git_dir, environ)
        git.ask("update-ref", "--no-deref", "--stdin", text=f"start\n{commands}commit\n")
