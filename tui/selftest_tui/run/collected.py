"""The collected files of a test: its outcome, its files, the end of its terminal and of its conversation.

Reading blocks: call it from a worker. Symbolic links are not followed, and only as much of a file is read as is shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.crew.recording import recording_of
from selftest_core.run.fetch.conversations import conversation_end
from selftest_core.run.outcome.outcome import Outcome
from selftest_core.run.outcome.outcome_file import LARGEST, parse_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.run.fold import RunRow
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.store import RunFolder

TRANSCRIPT = "transcript.txt"
MOST_FILES = 2_000
LONGEST_RECORDING = 32 * 1024 * 1024
"""Bytes of a recording up to which its last frame is read; `r` plays longer ones."""
_TAIL = 64 * 1024


@dataclass(frozen=True, slots=True)
class Collected:
    """The folder of an attempt. `outcome` is None if there is none, or where `trouble` tells why it cannot be read.

    `files`: paths below the folder with their bytes, in order; `is_cut`: there are more. `transcript`: its end;
    `conversation`: that of the conversation that the run kept. `screen`: the last frame of its recording, with colours.
    """

    folder: Path | None = None
    outcome: Outcome | None = None
    trouble: str = ""
    files: tuple[tuple[str, int], ...] = ()
    is_cut: bool = False
    transcript: str = ""
    conversation: str = ""
    screen: str = ""


def read_collected(folder: RunFolder, row: RunRow, environ: Mapping[str, str], *, has_terminal: bool) -> Collected:
    """Read what was collected from the newest agent of a test. `has_terminal`: the agent still has a terminal."""
    if row.member is None:
        return Collected()
    place = folder.attempt(row.member)
    transcript = _tail(place / TRANSCRIPT)
    recording = None if transcript or has_terminal else recording_of(folder, row.member)
    screen = "" if recording is None else last_screen(recording, environ)
    if not place.is_dir():
        return Collected(screen=screen)
    outcome, trouble = _outcome(place)
    files, is_cut = _files(place)
    return Collected(place, outcome, trouble, files, is_cut, transcript, conversation_end(place), screen)


def last_screen(recording: Path, environ: Mapping[str, str]) -> str:
    """Return the last frame of a recording with its colours; "" if it is blank, too long, or cannot be read."""
    from selftest_recorder.index.timeline import open_timeline
    from selftest_tui.replay import frames

    try:
        if recording.stat().st_size > LONGEST_RECORDING:
            return ""
        with open_timeline(recording, environ) as timeline:
            timeline.finish()
            timeline.seek(timeline.duration)
            update = timeline.read_update(whole=True)
    except (SelftestError, OSError):
        return ""  # `r` plays it and reports what is wrong with it
    rows = [update.rows.get(row, ()) for row in range(update.lines)]
    return "\n".join(frames.ansi_lines(rows)) if any(line.strip() for line in frames.text_lines(rows)) else ""


def _outcome(place: Path) -> tuple[Outcome | None, str]:
    try:
        with (place / OUTCOME).open("rb") as file:
            data = file.read(LARGEST + 1)
        return parse_outcome(data), ""
    except FileNotFoundError:
        return None, ""
    except SelftestError as error:
        return None, error.detail or error.title
    except OSError as error:
        return None, str(error)


def _files(place: Path) -> tuple[tuple[tuple[str, int], ...], bool]:
    found: list[tuple[str, int]] = []
    for top, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            if len(found) >= MOST_FILES:
                return tuple(found), True
            path = os.path.join(top, name)  # noqa: PTH118 - names of an agent's files may be no text
            try:
                size = os.lstat(path).st_size
            except OSError:
                continue
            found.append((os.path.relpath(path, place).encode(errors="replace").decode(errors="replace"), size))
    return tuple(found), False


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read(_TAIL).decode("utf-8", "replace")
    except OSError:
        return ""
