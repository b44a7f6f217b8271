"""Values of a recording: its header, its events, and its problems.

For all versions of asciicast; `cast.reader` reads and `cast.writer` writes them. They do not interpret output.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

OUTPUT: Final = "o"
INPUT: Final = "i"
MARKER: Final = "m"
RESIZE: Final = "r"
EXIT: Final = "x"
CODES: Final = frozenset((OUTPUT, INPUT, MARKER, RESIZE, EXIT))

USUAL_COLS, USUAL_ROWS = 80, 24
MAX_COLS, MAX_ROWS = 1000, 500
"""Largest terminal: larger claims are limited to it, since a size costs memory."""
MAX_TIME = 10 * 366 * 24 * 3600.0
"""Latest valid time in seconds: ten years."""
_SIZE = re.compile(r"\s*(\d{1,9})\s*[xX]\s*(\d{1,9})\s*\Z", re.ASCII)


class RecordingError(SelftestError):
    """A file that is not a recording, or has an unknown format."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first words of a recording. `version`: 1, 2 or 3; `cols` and `rows`: 1 to MAX_COLS and MAX_ROWS.

    `timestamp`: its start in seconds since the epoch, or None. `idle_time_limit`: seconds, advice for players.
    `title` and `command` are not made harmless.
    """

    version: int
    cols: int
    rows: int
    timestamp: float | None = None
    title: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    idle_time_limit: float | None = None
    command: str | None = None
    term_type: str | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. `time`: seconds since the beginning, never less than the event's before.

    `code`: OUTPUT, INPUT, MARKER (data: its label), RESIZE (data: "COLSxROWS", a size that can be) or EXIT (data: the
    status). `data` has no lone surrogates, and all the escapes that the program wrote. `offset` is the place behind
    the event, and `line` its line, from 1: reading on with `events(offset, time, line)` gives what follows it.
    """

    time: float
    code: str
    data: str
    offset: int
    line: int


class Problem(NamedTuple):
    """A problem of a recording: its line, from 1, and the repair."""

    line: int
    says: str


def size_of(data: str) -> tuple[int, int] | None:
    """Parse the columns and rows of a resize; None for an invalid size."""
    found = _SIZE.match(data)
    return (int(found[1]), int(found[2])) if found else None


def possible_size(cols: int, rows: int) -> tuple[int, int]:
    """Return the nearest size that our terminal supports."""
    return min(max(cols, 1), MAX_COLS), min(max(rows, 1), MAX_ROWS)
