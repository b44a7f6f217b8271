"""What earlier runs of ours left behind, and its removal.

For now: demos whose process was killed before it could clear up, and demos that were kept on purpose. A demo that
still runs is never touched, nor is anything that cannot be proved to be ours (`cleanup.demo_folders` says how).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.cleanup.demo_ending import end_world, processes_of
from selftest_core.cleanup.demo_folders import DemoFolder, demo_folders, forget, still_ours_to_remove
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that was left behind. `says` in words what it is; `is_kept`: on purpose."""

    folder: DemoFolder
    says: str

    @property
    def is_kept(self) -> bool:
        """True for what a person asked to keep."""
        return self.folder.is_kept


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of one leftover. `problems`, in words; empty when it is gone."""

    leftover: Leftover
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when nothing of it is left."""
        return not self.problems


def leftovers(environ: Mapping[str, str]) -> tuple[Leftover, ...]:
    """Everything that can be swept, by looking only."""
    found = []
    for folder in demo_folders(environ):
        if not folder.is_live:
            running = len(processes_of(folder.path))
            what = "a demo kept with --keep" if folder.is_kept else f"a demo whose process ({folder.pid}) was killed"
            processes = f"{running} process{'' if running == 1 else 'es'} still running"
            found.append(Leftover(folder, f"{folder.path}: {what}, {processes}"))
    return tuple(found)


def sweep(found: Sequence[Leftover], environ: Mapping[str, str]) -> tuple[Swept, ...]:
    """Remove these leftovers, each looked at once more before it is touched."""
    return tuple(_swept(one, environ) for one in found)


def sweep_dead_demos(environ: Mapping[str, str]) -> tuple[Swept, ...]:
    """Clear what killed demos left; those that were kept stay."""
    return sweep([one for one in leftovers(environ) if not one.is_kept], environ)


def _swept(leftover: Leftover, environ: Mapping[str, str]) -> Swept:
    if not leftover.folder.path.exists():
        return Swept(leftover)
    if not still_ours_to_remove(leftover.folder):
        return Swept(leftover, (f"{leftover.folder.path} changed meanwhile: left alone",))
    problems = end_world(leftover.folder.path)
    if not problems:
        forget(environ, leftover.folder.path)
    return Swept(leftover, problems)
