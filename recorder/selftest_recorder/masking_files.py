"""A recording that another program wrote, masked afterwards: written anew beside itself, then put in its place.

Until then it stands on the disk as it was, readable by its owner alone; what records by itself masks before it writes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_recorder.cast import read_cast
from selftest_recorder.cast_shapes import INPUT, OUTPUT
from selftest_recorder.cast_writing import CastWriter
from selftest_recorder.onhost.masking import Masker

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_recorder.cast import Recording
    from selftest_recorder.onhost.masking import Secrets


def mask_file(path: Path, secrets: Secrets) -> None:
    """Mask the outputs of a recording; what is damaged in it is left out. Nothing to mask leaves the file alone.

    Raises RecordingError where it is no recording, OSError where it cannot be written.
    """
    if not secrets:
        return
    recording = read_cast(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.masked")
    try:
        with CastWriter(draft, replace(recording.header, version=max(recording.header.version, 2))) as writer:
            _write_masked(recording, writer, secrets)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _write_masked(recording: Recording, writer: CastWriter, secrets: Secrets) -> None:
    shown, typed = Masker(secrets), Masker(secrets)
    time = 0.0
    for event in recording.events():
        time = event.time
        if event.code == OUTPUT:
            writer.output(time, shown.feed(event.data.encode()))
        elif event.code == INPUT:
            writer.input(time, typed.feed(event.data.encode()).decode("utf-8", "replace"))
        else:
            writer.event(time, event.code, event.data)
    writer.output(time, shown.close())
    rest = typed.close().decode("utf-8", "replace")
    if rest:
        writer.input(time, rest)
