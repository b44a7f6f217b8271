"""Leftovers of verifications: slots and agents of ones that were killed, and package caches that nothing uses.

They lie in the user's cache folder, and belong to no repository. A verification that runs holds a lock, so what it uses
is never offered; this is checked again, with the lock held, while it is removed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

from selftest_core.cleanup.selection import ALL, REVIEW_ID, Selection
from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.paths import cache_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_core.verify.elsewhere.remote import noted_agents, remove_noted
from selftest_core.verify.folders.hostile import remove_tree
from selftest_core.verify.review_verifier import lock_slots

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

type Kind = Literal["slots", "packages"]

OLD = 30 * 24 * 3600.0
"""Seconds after the last set-up before a package cache is offered."""


@dataclass(frozen=True, slots=True)
class VerifyLeftover:
    """One leftover. `names`: exactly what is removed. `path`: its folder; `agents`: ids of agents on other machines."""

    kind: Kind
    path: Path
    says: str
    names: tuple[str, ...]
    agents: tuple[str, ...] = ()


def verify_leftovers(environ: Mapping[str, str], now: float, selection: Selection = ALL) -> tuple[VerifyLeftover, ...]:
    """Find the leftovers of verifications, in a sweep without limits. `now`: seconds since the epoch."""
    if not selection.includes_demos:
        return ()
    cache = cache_folder(environ)
    return (*_slots(cache / "verify"), *_packages(cache / "verify-packages", now))


def remove_verify(leftover: VerifyLeftover, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Remove a leftover; return messages about what failed."""
    try:
        if leftover.kind == "packages":
            remove_tree(leftover.path)
            return ()
        with lock_slots(leftover.path, leftover.path.name):
            if leftover.agents:
                problem = remove_noted(Mngr(find_mngr(environ), environ, leftover.path), leftover.path)
                if problem:
                    return (f"{', '.join(leftover.agents)}: {problem}",)
            remove_tree(leftover.path)
    except (SelftestError, OSError) as error:
        return (" ".join(str(error).split("\n")),)
    return ()


def _slots(folder: Path) -> Iterator[VerifyLeftover]:
    for path in sorted(folder.glob("review-*")) + sorted(folder.glob("[0-9]*")):
        name = path.name.rpartition("-")[0]
        if not path.is_dir() or path.is_symlink() or path.name.endswith("-arrival"):
            continue
        with contextlib.suppress(SelftestError), lock_slots(path, path.name):
            agents = noted_agents(path)
            more = f" and {len(agents)} of its agents on other machines" if agents else ""
            what = "review" if REVIEW_ID.fullmatch(name) else "run"
            says = f"verification of the {what} {name}, which was killed: its folders{more}"
            yield VerifyLeftover("slots", path, says, (str(path), *agents), agents)


def _packages(folder: Path, now: float) -> Iterator[VerifyLeftover]:
    for path in sorted(folder.glob("*")):
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink() and now - path.stat().st_mtime > OLD:
                says = "verification: a package cache that no set-up has used for 30 days"
                yield VerifyLeftover("packages", path, says, (str(path),))
