"""Recordings changed afterwards: masked, or given markers that were known elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from selftest_recorder.cast.events import Header, RecordingError
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.writer import add_markers, mask_file, write_cast
from selftest_recorder.onhost.masking import make_secrets

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = [
    (1.0, "o", "user"),
    (2.0, "i", "hun"),
    (2.5, "i", "ter2x"),
    (3.0, "o", "hunter"),
    (4.0, "o", "2 é"),
    (5.0, "x", "0"),
]


def content(path: Path) -> list[tuple[float, str, str]]:
    return [(event.time, event.code, event.data) for event in read_cast(path).events()]


@pytest.mark.parametrize("version", [2, 3])
def test_markers_come_in_at_their_times(tmp_path: Path, version: int) -> None:
    path = tmp_path / "some.cast"
    write_cast(path, Header(version, 80, 24, 1000.0, "t"), [(1.0, "o", "a"), (5.0, "o", "b")])
    add_markers(path, [(1007.0, "passed"), (1002.5, "launched"), (990.0, "before")])
    assert content(path) == [
        (0.0, "m", "before"), (1.0, "o", "a"), (2.5, "m", "launched"), (5.0, "o", "b"), (7.0, "m", "passed"),
    ]  # fmt: skip
    assert read_cast(path).header == Header(version, 80, 24, 1000.0, "t")
    assert [one.name for one in tmp_path.iterdir()] == ["some.cast"]


def test_what_another_program_wrote_is_masked_across_its_events(tmp_path: Path) -> None:
    path = tmp_path / "some.cast"
    write_cast(path, Header(2, 80, 24), EVENTS)
    mask_file(path, make_secrets(["hunter2"], []))
    assert "ter2" not in path.read_text()
    outputs = "".join(data for _, code, data in content(path) if code == "o")
    assert outputs == "userhun**** é"
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_to_mask_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "some.cast"
    path.write_text("no recording at all")
    mask_file(path, make_secrets([], []))
    with pytest.raises(RecordingError):
        mask_file(path, make_secrets(["secret"], []))
    with pytest.raises(RecordingError):
        add_markers(path, [])
    assert path.read_text() == "no recording at all"
    assert [one.name for one in tmp_path.iterdir()] == ["some.cast"]


def test_a_recording_without_a_beginning_takes_no_markers(tmp_path: Path) -> None:
    path = tmp_path / "some.cast"
    write_cast(path, Header(2, 80, 24), EVENTS)
    with pytest.raises(RecordingError, match="when it began"):
        add_markers(path, [(1.0, "passed")])
    assert content(path) == EVENTS
