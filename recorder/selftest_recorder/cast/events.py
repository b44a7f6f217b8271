"""What a recording of a terminal consists of: its header, its events, and what was wrong with it.

Values alone, for all versions of asciicast; they are read by `cast` and written by `cast.writing`. They must not know
what a terminal makes of an output.
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
"""A terminal larger than any that somebody sits at: what claims more is taken as this, since a size costs memory."""
MAX_TIME = 10 * 366 * 24 * 3600.0
"""Seconds: ten years. A time behind that is no time of a recording."""
_SIZE = re.compile(r"\s*(\d{1,9})\s*[xX]\s*(\d{1,9})\s*\Z", re.ASCII)


class RecordingError(SelftestError):
    """A file that is no recording at all, or one of a kind that is not read."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first words of a recording. `version`: 1, 2 or 3; `cols` and `rows`: 1 to MAX_COLS and MAX_ROWS.

    `timestamp`: when its time 0 was, seconds since the epoch, or None. `idle_time_limit`: seconds, advice for the
    player alone. `title` and `command` are as somebody wrote them: not clean.
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
    """Something that was not as it should be: its line, from 1, and what was done about it."""

    line: int
    says: str


def size_of(data: str) -> tuple[int, int] | None:
    """The columns and rows of a resize's data, as they stand there, or None where it is no size."""
    found = _SIZE.match(data)
    return (int(found[1]), int(found[2])) if found else None


def possible_size(cols: int, rows: int) -> tuple[int, int]:
    """The nearest size that a terminal of ours can have."""
    return min(max(cols, 1), MAX_COLS), min(max(rows, 1), MAX_ROWS)
