"""Markers of a recording: named times that a program prints, that pytest's output shows, or that commits make.

    printf '\\033]777;selftest;marker;%s\\a' 'the login works'        # ESC ] 777 ; selftest ; marker ; NAME BEL

Terminals ignore that sequence. Of pytest the first and the last lines are recognised. The output itself is not changed.
Commits are found in the log that git keeps of HEAD.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 120
"""Longest label in characters."""
_BEGIN = b"\x1b]777;selftest;marker;"
_MARKER = re.compile(rb"\x1b\]777;selftest;marker;([^\x07\x1b\x9c]{0,600})(?:\x07|\x1b\\)")
_LONGEST_BYTES = 700
_STYLE = re.compile(rb"\x1b\[[0-9;:]*m")
_PYTEST_BEGINS = re.compile(rb"={3,} test session starts ={3,}")
_TOOK = re.compile(rb" in [0-9]")
_PYTEST_ENDS = re.compile(
    rb"(?:={3,} |\A)((?:\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)(?:, )?)+)"
    rb" in [0-9.]+s(?: \([0-9:]+\))?(?: ={3,}|\s*\Z)"
)
_LONGEST_LOG = 1024 * 1024


def clean_label(text: str) -> str:
    """Return a label as one printable line."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:LONGEST]


class MarkerFinder:
    """Finder of markers in one stream."""

    def __init__(self) -> None:
        self._carried = b""
        self._line = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the labels of the markers that end in these bytes."""
        return [*self._printed(data), *self._of_pytest(data)]

    def _printed(self, data: bytes) -> list[str]:
        if not self._carried and b"\x1b" not in data:
            return []
        whole = self._carried + data
        if b"\x1b]777" not in whole:
            self._carried = _unfinished(whole[-len(_BEGIN) :])
            return []
        labels, end = [], 0
        for match in _MARKER.finditer(whole):
            labels.append(clean_label(match.group(1).decode("utf-8", "replace")))
            end = match.end()
        self._carried = _unfinished(whole[max(end, len(whole) - _LONGEST_BYTES) :])
        return labels

    def _of_pytest(self, data: bytes) -> list[str]:
        """Return the marker of a line of pytest's output; escape sequences may stand between its words."""
        whole = self._line + data
        end = whole.rfind(b"\n") + 1
        self._line = whole[end:] if len(whole) - end <= _LONGEST_BYTES else b"x" + whole[-_LONGEST_BYTES:]
        if b"===" not in whole and not _TOOK.search(whole):
            return []
        lines = whole[:end].split(b"\n")
        labels = []
        for line in lines:
            if b"===" not in line and not _TOOK.search(line):
                continue
            plain = _STYLE.sub(b"", line)
            ended = _PYTEST_ENDS.search(plain)
            if ended:
                labels.append(clean_label("pytest: " + ended.group(1).decode("ascii")))
            elif _PYTEST_BEGINS.search(plain):
                labels.append("pytest begins")
        return labels


class CommitFinder:
    """Finder of new commits in the log of a work tree's HEAD, which may not exist yet."""

    def __init__(self, repository: Path, since: float) -> None:
        """`since`: seconds since the epoch; earlier commits are not new."""
        self._repository = repository
        self._since = int(since)  # the log's times are whole seconds
        self._log: Path | None = None
        self._offset = -1

    def new(self) -> list[str]:
        """Return the labels of the commits since the last call."""
        try:
            if self._log is None:
                self._log = _head_log(self._repository)
            size = self._log.stat().st_size
            if self._offset < 0:
                self._offset = max(size - _LONGEST_LOG, 0)
            elif size < self._offset:
                self._offset = size
            if size == self._offset:
                return []
            with self._log.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_LONGEST_LOG)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        labels = []
        for line in whole.splitlines():
            about, _, says = line.partition(b"\t")
            what, _, subject = says.partition(b": ")
            if what.startswith(b"commit") and _time_of(about) >= self._since:
                labels.append(clean_label("commit: " + subject.decode("utf-8", "replace")))
        return labels


def _time_of(about: bytes) -> int:
    """Return the time of a line of the log: its second last word."""
    words = about.rsplit(b" ", 2)
    return int(words[1]) if len(words) == 3 and words[1].isdigit() else 0


def _head_log(repository: Path) -> Path:
    """Return the path of the log; of a linked worktree it is in the folder that `.git` names. Raises OSError."""
    place = repository / ".git"
    if place.is_file():
        text = place.read_bytes()[:4096].decode("utf-8", "surrogateescape")
        place = repository / text.partition("gitdir:")[2].strip()
    log = place / "logs" / "HEAD"
    log.stat()
    return log


def _unfinished(rest: bytes) -> bytes:
    """Return the last bytes, if they may be the beginning of a marker."""
    place = rest.rfind(_BEGIN)
    if place >= 0 and not re.search(rb"[\x07\x9c]|\x1b.", rest[place + len(_BEGIN) :], re.DOTALL):
        return rest[place:]
    place = rest.rfind(b"\x1b")
    if place >= 0 and _BEGIN.startswith(rest[place:]):
        return rest[place:]
    return b""
