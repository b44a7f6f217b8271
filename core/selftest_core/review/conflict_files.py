"""A conflict for a person: its three sides, and copies with diff3 markers to edit, never in their checkout.

The copies stand in a folder that the caller names, under names of our own (what an agent called a file is shown, never
used), and symbolic links are files that hold their target. What comes back is refused while it has a marker of ours.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from selftest_core.errors import RefusedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.review.resolutions import Answer, Resolution, unresolvable_reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.git.merges import Conflict, Side
    from selftest_core.review.engine import Engine

_LABELS = ("the line so far", "base", "this change")
_MARK = 7


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """One path in conflict. Contents are None where a side has no file there.

    `merged`: what git merged with diff3 markers around what it could not; None where there is nothing to merge (a
    side is gone, or it is no text): then one side is chosen, or its copy edited. `path` and `messages` (of git) are
    not yet safe to show.
    """

    conflict: Conflict
    base: bytes | None
    ours: bytes | None
    theirs: bytes | None
    merged: bytes | None
    marker: int = _MARK

    @property
    def path(self) -> str:
        """Where it is, bytes that are not UTF-8 as surrogates."""
        return self.conflict.path

    @property
    def messages(self) -> tuple[str, ...]:
        """git's messages about it."""
        return self.conflict.messages

    @property
    def is_text(self) -> bool:
        """True where all of its sides can be shown as lines."""
        return all(side is None or b"\0" not in side[:8000] for side in (self.base, self.ours, self.theirs))

    @property
    def mode(self) -> str:
        """The mode that the result gets: the side's that changed it, the change's where both did."""
        conflict = self.conflict
        sides = (conflict.base, conflict.ours, conflict.theirs)
        base, ours, theirs = (None if side is None else side.mode for side in sides)
        if theirs is None or (theirs == base and ours is not None):
            return ours or "100644"
        return theirs


def read_conflicts(engine: Engine, conflicts: Sequence[Conflict]) -> tuple[ConflictFile, ...]:
    """The sides of each conflict. Raises RefusedError where the paths themselves clash, KeyError for a lost blob."""
    why = unresolvable_reason(conflicts)
    if why:
        raise RefusedError("This conflict cannot be resolved by editing", why)
    return tuple(_read(engine, conflict) for conflict in conflicts)


def choose(files: Sequence[ConflictFile], side: Literal["base", "ours", "theirs"]) -> Resolution:
    """The resolution that takes one side everywhere; a side without the file takes the file away."""
    answers = []
    for file in files:
        taken: Side | None = getattr(file.conflict, side)
        content: bytes | None = getattr(file, side)
        answers.append(_answer(file, content, None if taken is None else taken.mode))
    return Resolution(tuple(answers))


def write_copies(files: Sequence[ConflictFile], folder: Path) -> tuple[Path, ...]:
    """Put a copy of each file into a folder that is ours, to be edited, and return where they are.

    A copy holds what was merged with markers; where nothing can be merged, the side that is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, file in enumerate(files, 1):
        # The ending is kept for the editor's colours.
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", PurePosixPath(file.path).name)[-60:].lstrip("._-") or "file"
        path = folder / f"{number:02}-{name}"
        content = file.merged if file.merged is not None else file.theirs if file.theirs is not None else file.ours
        path.write_bytes(content or b"")
        paths.append(path)
    return tuple(paths)


def read_copies(files: Sequence[ConflictFile], paths: Sequence[Path]) -> Resolution:
    """What the person made of the copies; a copy that is gone takes the file away.

    Raises UsageError where a copy has a conflict marker left, or is not a plain file any more.
    """
    answers = []
    for file, path in zip(files, paths, strict=True):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"{path.name} is not a plain file any more", "", "Write the resolved text into it.")
        content = path.read_bytes() if path.exists() else None
        if content is not None and file.merged is not None and _has_markers(content, file.marker):
            hint = "Edit it until no line begins with <<<<<<<, |||||||, or >>>>>>>."
            raise UsageError(f"{path.name} has conflict markers left", "", hint)
        answers.append(_answer(file, content, None if content is None else file.mode))
    return Resolution(tuple(answers))


def _read(engine: Engine, conflict: Conflict) -> ConflictFile:
    sides = (conflict.base, conflict.ours, conflict.theirs)
    base, ours, theirs = (None if side is None else engine.store.read(side.oid)[1] for side in sides)
    made = ConflictFile(conflict, base, ours, theirs, None)
    is_link = any(side is not None and side.mode == "120000" for side in sides)
    if ours is None or theirs is None or is_link or not made.is_text:
        return made
    marker = _MARK
    # Text about conflicts has marks of its own: ours are longer then.
    while any(re.search(rb"(?m)^[<|>]{%d}" % marker, text or b"") for text in (base, ours, theirs)):
        marker += 4
    merged = engine.merger.merge_texts(base or b"", ours, theirs, "--diff3", f"--marker-size={marker}", *_labels())
    return ConflictFile(conflict, base, ours, theirs, merged, marker)


def _labels() -> list[str]:
    return [part for label in _LABELS for part in ("-L", label)]


def _has_markers(content: bytes, size: int) -> bool:
    marks = (b"<" * size + b" " + _LABELS[0].encode(), b"|" * size + b" " + _LABELS[1].encode(),
             b">" * size + b" " + _LABELS[2].encode())  # fmt: skip
    return any(line.startswith(marks) for line in content.split(b"\n"))


def _answer(file: ConflictFile, content: bytes | None, mode: str | None) -> Answer:
    conflict = file.conflict
    return Answer(conflict.path, conflict.base, conflict.ours, conflict.theirs, mode, content)
