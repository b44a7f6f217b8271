"""Recordings in a report: each as a script, since a page that was opened from disk can load nothing else.

selftestRecording("NAME", [{header of asciicast v2}, [seconds, "o", "output"], …])
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_recorder.cast.events import EXIT, INPUT, MARKER, RESIZE, RecordingError
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.onhost.markers import clean_label

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 16 * 1024 * 1024
"""Bytes of a script; of a longer recording only the beginning is in the report."""
_MOST_MARKERS = 500


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
        with draft.open("w", encoding="utf-8") as file:
            head = {"version": 2, "width": header.cols, "height": header.rows}
            file.write(f"selftestRecording({json.dumps(name)}, [\n{_line(head)}")
            try:
                for event in recording.events():
                    seconds = event.time
                    if event.code == INPUT:
                        continue
                    if event.code == MARKER and len(markers) < _MOST_MARKERS:
                        markers.append((event.time, clean_label(event.data)))
                    if event.code != EXIT and (event.code in (MARKER, RESIZE) or event.data):
                        file.write(f",\n{_line([round(event.time, 6), event.code, event.data])}")
                    if file.tell() > LARGEST:
                        problem = f"the recording is longer: only its first {seconds:.0f} s are on this page"
                        break
            except RecordingError as error:
                problem = f"{error.title}: {error.detail}"
            file.write("\n]);\n")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    if not problem and recording.problems:
        first = recording.problems[0]
        problem = f"damaged: {len(recording.problems)} lines were skipped or repaired; line {first.line}: {first.says}"
    return RecordingFacts(seconds, header.cols, header.rows, tuple(markers), problem, is_written=True)


def _line(value: object) -> str:
    # JSON is an expression of JavaScript. ASCII alone, since U+2028 and U+2029 end a line in old browsers, and no `<`,
    # so that nothing finds markup in it.
    return json.dumps(value).replace("<", "\\u003c")
