"""Resolutions of conflicts, identified by the three contents that meet, and the memory of earlier reviews.

The same base, branch and change contents give the same conflict wherever they meet, so a resolution holds in another
order, after a restart and in the next run (as `git rerere` does). It carries the resolved content, so that a decisions
file can be replayed where that content was never stored. Only conflicts within a path can be resolved: where paths
conflict (two renames of one file, a file in place of a folder), move the change or revert one of the two. Changelogs
are resolved automatically: both sides only add to a list, so both are kept.

The memory is a folder in the user's state folder: one file for each conflict, named by its digest and replaced whole,
readable by its owner only. Nothing depends on it: a review records what it uses. An unreadable file counts as missing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.git.merges import Side
from selftest_core.git.objects import is_oid, object_id
from selftest_core.paths import state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.merges import Conflict

type Meeting = tuple[Side | None, Side | None, Side | None]
"""The three contents in conflict: base, ours (the branch so far), theirs (the change); None where there is none."""
type Author = str
"""The author of an answer: `person` in this review, `memory` for a person in an earlier one, `union` for the rule for
changelogs, or the name of the agent that resolved it."""

_NO_AGENT = frozenset({"person", "memory", "union"})
_AUTHOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,49}")
_FILE_MODES = ("100644", "100755", "120000")
_WITHIN_A_PATH = frozenset({"content", "contents", "add/add", "modify/delete"})
_KIND = re.compile(r"CONFLICT \(([^)]*)\)")
_CHANGELOG = re.compile(r"(?i)(.*/)?(changelog|changes|news|history|release[-_]?notes)(\.(md|rst|txt|adoc))?")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result for one path where these three contents meet. `content` None deletes the file; `mode` is git's.

    `path` is where the conflict was first resolved; it is shown, and never compared.
    """

    path: str
    base: Side | None
    ours: Side | None
    theirs: Side | None
    mode: str | None
    content: bytes | None
    by: Author = "person"

    @property
    def agent(self) -> str:
        """The name of the agent that resolved it, empty where no agent did."""
        return "" if self.by in _NO_AGENT else self.by

    @property
    def meeting(self) -> Meeting:
        """The three contents that it resolves."""
        return self.base, self.ours, self.theirs

    @property
    def result(self) -> Side | None:
        """The content of the path afterwards, None where the file is deleted."""
        if self.content is None or self.mode is None:
            return None
        return Side(self.mode, object_id(b"blob", self.content))


@dataclass(frozen=True, slots=True)
class Resolution:
    """The answers to all conflicts of one change."""

    answers: tuple[Answer, ...]


type Answers = Mapping[Meeting, Answer]
NO_ANSWERS: Answers = MappingProxyType({})


def answers_of(resolutions: Iterable[Resolution]) -> Answers:
    """Index answers by the contents that they resolve; of two answers, the later counts."""
    return {answer.meeting: answer for resolution in resolutions for answer in resolution.answers}


def unresolvable_reason(conflicts: Sequence[Conflict]) -> str:
    """The reason why no answers can resolve these conflicts, empty where they can."""
    for conflict in conflicts:
        kinds = {found[1] for word in conflict.messages if (found := _KIND.search(word))}
        if not kinds or kinds - _WITHIN_A_PATH:
            what = ", ".join(sorted(kinds)) or "unknown"
            return f"The conflict is between paths ({what}): move the change, or revert one of the two."
        sides = [side for side in (conflict.base, conflict.ours, conflict.theirs) if side is not None]
        if len(sides) < 2 or any(side.mode not in _FILE_MODES for side in sides):
            return "It is not a regular file on both sides: move the change, or revert one of the two."
    return "" if conflicts else "There is no conflict."


def resolve_conflicts(
    conflicts: Sequence[Conflict], answers: Answers, union: Callable[[str, str, str], bytes | None]
) -> tuple[Answer, ...] | None:
    """Find an answer to every conflict; None where one has none.

    `union` merges three blobs (base, ours, theirs) by keeping the lines of both sides; None for no text.
    """
    if unresolvable_reason(conflicts):
        return None
    found: list[Answer] = []
    for conflict in conflicts:
        answer = answers.get((conflict.base, conflict.ours, conflict.theirs)) or _united(conflict, union)
        if answer is None:
            return None
        found.append(answer)
    return tuple(found)


def is_changelog(path: str) -> bool:
    """True for a list that everybody adds to: both additions are wanted, in either order."""
    return _CHANGELOG.fullmatch(path) is not None


def _united(conflict: Conflict, union: Callable[[str, str, str], bytes | None]) -> Answer | None:
    base, ours, theirs = conflict.base, conflict.ours, conflict.theirs
    if not is_changelog(conflict.path) or base is None or ours is None or theirs is None:
        return None
    if not base.mode == ours.mode == theirs.mode or base.mode == "120000":
        return None
    content = union(base.oid, ours.oid, theirs.oid)
    return None if content is None else Answer(conflict.path, base, ours, theirs, ours.mode, content, "union")


def resolution_json(resolution: Resolution) -> dict[str, Any]:
    """Convert a resolution to JSON, with content: as text where it is UTF-8, else in base64."""
    return {"answers": [_answer_json(answer) for answer in resolution.answers]}


def resolution_from_json(value: object) -> Resolution:
    """Parse untrusted JSON of `resolution_json`. Raises ValueError with the mistake."""
    answers = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(answers, list) or not answers:
        raise ValueError('a resolution is {"answers": […]}, with at least one')
    return Resolution(tuple(_answer_from_json(answer) for answer in answers))


def _answer_json(answer: Answer) -> dict[str, Any]:
    body: dict[str, Any] = {
        "path": answer.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "base": _side_json(answer.base),
        "ours": _side_json(answer.ours),
        "theirs": _side_json(answer.theirs),
        "mode": answer.mode,
        "by": answer.by,
    }
    if answer.content is None:
        return {**body, "text": None}
    try:
        return {**body, "text": answer.content.decode("utf-8")}
    except UnicodeDecodeError:
        return {**body, "base64": base64.b64encode(answer.content).decode("ascii")}


def _answer_from_json(value: object) -> Answer:
    known = {"path", "base", "ours", "theirs", "mode", "by", "text", "base64"}
    if not isinstance(value, dict) or set(value) - known or ("text" in value) == ("base64" in value):
        raise ValueError(f"an answer has the keys {', '.join(sorted(known))}, one of text and base64")
    mode, path, by = value.get("mode"), value.get("path"), value.get("by", "person")
    content: bytes | None = None
    if isinstance(value.get("text"), str):
        content = value["text"].encode("utf-8")
    elif isinstance(value.get("base64"), str):
        content = base64.b64decode(value["base64"], validate=True)
    elif "base64" in value or value["text"] is not None:
        raise ValueError("text is a string, or null where the file is deleted")
    if mode not in (None, *_FILE_MODES) or (mode is None) != (content is None):
        raise ValueError(f"the mode {mode!r} does not fit: {', '.join(_FILE_MODES)}, or null where the file is deleted")
    if not isinstance(path, str) or not isinstance(by, str) or not _AUTHOR.fullmatch(by):
        raise ValueError("path is a string, and by is person, memory, union or the name of an agent")
    sides = [_side_from_json(value.get(name)) for name in ("base", "ours", "theirs")]
    if sum(side is not None for side in sides) < 2:
        raise ValueError("at least two of base, ours and theirs are required")
    clean = path.encode("utf-8", "replace").decode("utf-8")
    return Answer(clean, sides[0], sides[1], sides[2], mode, content, by)


def _side_json(side: Side | None) -> str | None:
    return None if side is None else f"{side.mode} {side.oid}"


def _side_from_json(value: object) -> Side | None:
    if value is None:
        return None
    mode, _, oid = value.partition(" ") if isinstance(value, str) else ("", "", "")
    if mode not in _FILE_MODES or not is_oid(oid):
        raise ValueError(f"{value!r} is not a side: a mode and a full oid, or null")
    return Side(mode, oid)


LARGEST = 4 * 1024 * 1024
"""Bytes of an answer's file; a larger answer is not remembered."""


def resolution_folder(environ: Mapping[str, str]) -> Path:
    """The folder of this user's answers. It is not created."""
    return state_folder(environ) / "resolutions"


class ResolutionMemory:
    """Answers of earlier reviews, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A review looks up each change in conflict after each act: a file is read again only when it changed.
        self._known: dict[Meeting, tuple[tuple[int, int, int], Answer | None]] = {}

    def recall(self, conflicts: Sequence[Conflict]) -> Resolution | None:
        """Find the resolution of exactly these conflicts; None where one of them has no answer."""
        if unresolvable_reason(conflicts):
            return None
        found = [self._look_up((one.base, one.ours, one.theirs)) for one in conflicts]
        answers = tuple(
            replace(answer, path=one.path) for answer, one in zip(found, conflicts, strict=True) if answer is not None
        )
        return Resolution(answers) if len(answers) == len(found) else None

    def remember(self, resolution: Resolution) -> None:
        """Store these answers. Raises OSError where the folder cannot be written."""
        for answer in resolution.answers:
            text = json.dumps(resolution_json(Resolution((answer,))), ensure_ascii=False)
            if len(text) <= LARGEST:
                self._known.pop(answer.meeting, None)
                self._write(self._path(answer.meeting), text)

    def _look_up(self, meeting: Meeting) -> Answer | None:
        try:
            status = self._path(meeting).stat()
        except OSError:
            return None
        # Two answers of one size may be written within one tick of the clock, but not into the same inode.
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
        # A damaged or foreign file counts as missing.
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if file.stat().st_size <= 2 * LARGEST:
                (answer,) = resolution_from_json(json.loads(file.read_text(encoding="utf-8"))).answers
                if answer.meeting == meeting:
                    return answer if answer.agent else replace(answer, by="memory")
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
