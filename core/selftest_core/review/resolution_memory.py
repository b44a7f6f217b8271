"""Answers to conflicts, kept in the person's state folder: what was resolved once is offered in every later review.

One file per meeting of three contents, named by their digest and replaced whole, so that two reviews at once leave
one answer or the other. It holds what agents and people wrote, so only its owner may read it. It is a memory and
nothing depends on it: what is used of it is recorded by the review that uses it, so that a review can be repeated
without it. A file that cannot be read is as good as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.review.resolutions import (  # fmt: skip
    Answer,
    Resolution,
    resolution_from_json,
    resolution_json,
    why_unanswerable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.merge_tree import Conflict
    from selftest_core.review.resolutions import Meeting

LARGEST = 4 * 1024 * 1024
"""Bytes of an answer's file; a larger answer is not remembered."""


def resolution_folder(environ: Mapping[str, str]) -> Path:
    """Where this person's answers are. Nothing is made here."""
    named = environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    home = Path(named) if Path(named).is_absolute() else Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return home / "selftest-tui" / "resolutions"


class ResolutionMemory:
    """The answers in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A review asks about each held change after each act: what was read is kept as long as its file is the same.
        self._known: dict[Meeting, tuple[tuple[int, int, int], Answer | None]] = {}

    def recall(self, conflicts: Sequence[Conflict]) -> Resolution | None:
        """What was answered when exactly these met; None where one of them was never answered."""
        if why_unanswerable(conflicts):
            return None
        found = [self._look_up((one.base, one.ours, one.theirs)) for one in conflicts]
        answers = tuple(
            replace(answer, path=one.path) for answer, one in zip(found, conflicts, strict=True) if answer is not None
        )
        return Resolution(answers) if len(answers) == len(found) else None

    def remember(self, resolution: Resolution) -> None:
        """Keep these answers. Raises OSError where the folder cannot be written."""
        for answer in resolution.answers:
            text = json.dumps(resolution_json(Resolution((answer,))), ensure_ascii=False)
            if len(text) <= LARGEST:
                self._known.pop(answer.meeting, None)
                self._write(self._path(answer.meeting), text)

    def forget(self, resolution: Resolution) -> None:
        """Remember these answers no more."""
        for answer in resolution.answers:
            self._known.pop(answer.meeting, None)
            self._path(answer.meeting).unlink(missing_ok=True)

    def _look_up(self, meeting: Meeting) -> Answer | None:
        try:
            status = self._path(meeting).stat()
        except OSError:
            return None
        # Two answers of one size may be written within one tick of the clock, but never into one file.
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._known.get(meeting)
        if known is None or known[0] != stamp:
            known = self._known[meeting] = (stamp, self._read(meeting))
        return known[1]

    def _path(self, meeting: Meeting) -> Path:
        words = "\n".join("-" if side is None else f"{side.mode} {side.oid}" for side in meeting)
        return self._folder / f"{hashlib.sha256(words.encode()).hexdigest()[:40]}.json"

    def _read(self, meeting: Meeting) -> Answer | None:
        file = self._path(meeting)
        # Not ours, cut short or meddled with: the conflict is simply asked about again.
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if file.stat().st_size <= 2 * LARGEST:
                (answer,) = resolution_from_json(json.loads(file.read_text(encoding="utf-8"))).answers
                if answer.meeting == meeting:
                    return replace(answer, by="memory")
        return None

    def _write(self, path: Path, text: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
