"""Recordings in a report: each as a script, since a page that was opened from disk can load nothing else.

selftestRecording("NAME", [{header of asciicast v2}, [seconds, "o", "output"], …])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from selftest_core.frozen import dataclass
from selftest_recorder.cast.events import EXIT, INPUT, MARKER, RecordingError
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.onhost.markers import clean_label

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 16 * 1024 * 1024
"""Bytes of a script; of a longer recording only the beginning is in the report."""
_MOST_MARKERS = 500
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """A recording as it was written. `markers`: seconds and labels. `problem`: what is missing, empty for nothing."""

    seconds: float | None = None
    cols: int = 0
    rows: int = 0
    markers: tuple[tuple[float, str], ...] = ()
    problem: str = ""
    is_written: bool = False


def write_recording(source: Path, target: Path, name: str) -> RecordingFacts:
    """Write a recording as a script, in one pass. Raises OSError if the script cannot be written."""
    try:
        recording = read_cast(source)
    except (RecordingError, OSError) as error:
        says = f"{error.title}: {error.detail}" if isinstance(error, RecordingError) else str(error)
        return RecordingFacts(problem=says)
    header = recording.header
    markers: list[tuple[float, str]] = []
    seconds, problem = 0.0, ""
    draft = target.with_name(f".{target.name}.draft")
    try:
        with draft.open("wb") as file:
            # JSON is an expression of JavaScript.
            head = {"version": 2, "width": header.cols, "height": header.rows}
            size = file.write(b"selftestRecording(%b, [\n%b" % (_encode(name), _encode(head)))
            try:
                for event in recording.events():
                    seconds = event.time
                    if event.code in (INPUT, EXIT):
                        continue
                    if event.code == MARKER and len(markers) < _MOST_MARKERS:
                        markers.append((event.time, clean_label(event.data)))
                    size += file.write(b",\n" + _encode((round(event.time, 6), event.code, event.data)))
                    if size > LARGEST:
                        problem = f"the recording is longer: only its first {seconds:.0f} s are on this page"
                        break
            except RecordingError as error:
                problem = f"{error.title}: {error.detail}"
            file.write(b"\n]);\n")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    if not problem and recording.problems:
        first = recording.problems[0]
        problem = f"damaged: {len(recording.problems)} lines were skipped or repaired; line {first.line}: {first.says}"
    return RecordingFacts(seconds, header.cols, header.rows, tuple(markers), problem, is_written=True)
