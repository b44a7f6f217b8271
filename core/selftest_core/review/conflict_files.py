"""The files of a conflict: three sides of each, and copies with diff3 markers for an editor, outside any checkout.

Copies have names of our own (names that agents chose are shown, never used), and symbolic links become files with the
target as text. An edited copy is refused while it has conflict markers.
"""

from __future__ import annotations

import re
from dataclasses import replace
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

_LABELS = ("the branch so far", "base", "this change")
_MARK = 7


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """One path in conflict. Contents are None where a side has no file there.

    `merged`: the merge with diff3 markers; None where a side was deleted or is not text: then one side is chosen, or
    its copy edited. `path` and `messages` (of git) are not yet safe to show.
    """

    conflict: Conflict
    base: bytes | None
    ours: bytes | None
    theirs: bytes | None
    merged: bytes | None
    marker: int = _MARK

    @property
    def path(self) -> str:
        """The path, bytes that are not UTF-8 as surrogates."""
        return self.conflict.path

    @property
    def messages(self) -> tuple[str, ...]:
        """git's messages about it."""
        return self.conflict.messages

    @property
    def is_text(self) -> bool:
        """True where all sides can be shown as lines."""
        return all(side is None or b"\0" not in side[:8000] for side in (self.base, self.ours, self.theirs))

    @property
    def mode(self) -> str:
        """The mode of the result: of the side that changed it, of the change where both did."""
        conflict = self.conflict
        sides = (conflict.base, conflict.ours, conflict.theirs)
        base, ours, theirs = (None if side is None else side.mode for side in sides)
        if theirs is None or (theirs == base and ours is not None):
            return ours or "100644"
        return theirs


def read_conflicts(engine: Engine, conflicts: Sequence[Conflict]) -> tuple[ConflictFile, ...]:
    """Read the sides of each conflict. Raises RefusedError for a conflict of paths, KeyError for a missing blob."""
    reason = unresolvable_reason(conflicts)
    if reason:
        raise RefusedError("This conflict cannot be resolved by editing", reason)
    return read_sides(engine, conflicts)


def read_sides(engine: Engine, conflicts: Sequence[Conflict]) -> tuple[ConflictFile, ...]:
    """Read the sides of conflicts within paths, such as those that were resolved. Raises KeyError."""
    return tuple(_read(engine, conflict) for conflict in conflicts)


def choose(files: Sequence[ConflictFile], side: Literal["base", "ours", "theirs"]) -> Resolution:
    """Resolve all conflicts with one side; a side without the file deletes it."""
    answers = []
    for file in files:
        taken: Side | None = getattr(file.conflict, side)
        content: bytes | None = getattr(file, side)
        answers.append(_answer(file, content, None if taken is None else taken.mode))
    return Resolution(tuple(answers))


def write_copies(files: Sequence[ConflictFile], folder: Path) -> tuple[Path, ...]:
    """Write a copy of each file into a folder of ours, to be edited, and return their paths.

    A copy has the merge with markers; where nothing can be merged, the side that exists.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, file in enumerate(files, 1):
        # The suffix is kept for the editor's highlighting.
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", PurePosixPath(file.path).name)[-60:].lstrip("._-") or "file"
        path = folder / f"{number:02}-{name}"
        content = file.merged if file.merged is not None else file.theirs if file.theirs is not None else file.ours
        path.write_bytes(content or b"")
        paths.append(path)
    return tuple(paths)


def read_copies(files: Sequence[ConflictFile], paths: Sequence[Path]) -> Resolution:
    """Read the edited copies as a resolution; a deleted copy deletes the file.

    Raises UsageError where a copy still has conflict markers, or is not a regular file.
    """
    answers = []
    for file, path in zip(files, paths, strict=True):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"{path.name} is not a regular file any more", "", "Write the resolved text into it.")
        content = path.read_bytes() if path.exists() else None
        if content is not None and file.merged is not None and _has_markers(content, file.marker):
            hint = "Edit it until no line begins with <<<<<<<, |||||||, or >>>>>>>."
            raise UsageError(f"{path.name} still has conflict markers", "", hint)
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
    # The text has lines like markers: ours are longer then.
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


def answer_with(file: ConflictFile, content: bytes | None, by: str) -> Answer:
    """Resolve one file with this content; None deletes it. `by`: as in `Answer`."""
    return replace(_answer(file, content, None if content is None else file.mode), by=by)


def _answer(file: ConflictFile, content: bytes | None, mode: str | None) -> Answer:
    conflict = file.conflict
    return Answer(conflict.path, conflict.base, conflict.ours, conflict.theirs, mode, content)
