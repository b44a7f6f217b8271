"""Files that an agent gave back, made safe and parsed on arrival: nothing of them is trusted.

They lie in a staging folder that only we know. Links and devices are removed, their number and size are limited,
folders become readable, the outcome is parsed, and a list names what was removed. Only then the folder is renamed into
place, so an attempt's folder is always complete.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.crew.crew import BUNDLE, OUTCOME
from selftest_core.run.outcome.outcome_file import LARGEST, UnreadableOutcomeError, parse_outcome

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.outcome.outcome import Outcome

LARGEST_FILE = 64 * 1024 * 1024
"""Bytes of one file; a recording of hours is smaller."""
LARGEST_PULL = 256 * 1024 * 1024
"""Bytes of all files of one agent."""
MOST_FILES = 4000
DEEPEST = 24
SCREEN = "last-screen.txt"
"""The text of the agent's screen when it was given up."""
LEFT_OUT = "left-out.txt"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The received files. `outcome` None: there is none that can be read; `reason` says why, empty without a file.

    `bundle`: its branch, not checked yet. `left_out`: removed paths, with the reason.
    """

    outcome: Outcome | None
    reason: str = ""
    bundle: Path | None = None
    left_out: tuple[str, ...] = ()


def receive(staging: Path) -> Arrival:
    """Make the folder safe and read its outcome. Raises only for our own disk: OSError."""
    left_out = tuple(_make_safe(staging))
    if left_out:
        (staging / LEFT_OUT).write_text("".join(f"{line!r}\n" for line in left_out), encoding="utf-8")
    outcome, reason = _read_outcome(staging / OUTCOME)
    removed = next((line for line in left_out if line.startswith(f"{OUTCOME}: ")), "")
    bundle = staging / BUNDLE
    return Arrival(outcome, reason or removed, bundle if bundle.is_file() else None, left_out)


def _read_outcome(path: Path) -> tuple[Outcome | None, str]:
    if not path.is_file():
        return None, ""
    size = path.stat().st_size
    if size > LARGEST:
        return None, f"{OUTCOME} has {size:,} bytes, and {LARGEST:,} are read at most"
    try:
        return parse_outcome(path.read_bytes()), ""
    except UnreadableOutcomeError as error:
        return None, f"{OUTCOME}: {error.detail}"


def _make_safe(top: Path) -> list[str]:
    """Remove files that are not allowed; return their paths with the reason."""
    removed: list[str] = []
    files = 0
    total = 0
    waiting = [(top, 0)]
    while waiting:
        folder, depth = waiting.pop()
        folder.chmod(0o700)
        # The outcome and the branch first, so that a flood of other files cannot displace them.
        for path in sorted(folder.iterdir(), key=lambda one: (one.name not in (OUTCOME, BUNDLE), one.name)):
            name = str(path.relative_to(top))
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                if depth >= DEEPEST:
                    _remove_tree(path)
                    removed.append(f"{name}: more than {DEEPEST} folders deep")
                else:
                    waiting.append((path, depth + 1))
                continue
            files += 1
            total += found.st_size
            why = _removal_reason(found.st_mode, found.st_size, files, total)
            if why:
                path.unlink()
                files, total = files - 1, total - found.st_size
                removed.append(f"{name}: {why}")
            else:
                path.chmod(0o600)
    return removed


def _removal_reason(mode: int, size: int, files: int, total: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link"
    if not stat.S_ISREG(mode):
        return "no regular file"
    if size > LARGEST_FILE:
        return f"{size:,} bytes, and {LARGEST_FILE:,} are taken at most"
    if files > MOST_FILES:
        return f"more than {MOST_FILES:,} files"
    if total > LARGEST_PULL:
        return f"more than {LARGEST_PULL:,} bytes in all"
    return ""


def _remove_tree(folder: Path) -> None:
    """Remove a folder of any depth, without following links."""
    folders = [folder]
    for one in folders:
        one.chmod(0o700)
        for path in one.iterdir():
            if stat.S_ISDIR(path.lstat().st_mode):
                folders.append(path)
            else:
                path.unlink()
    for one in reversed(folders):
        one.rmdir()
