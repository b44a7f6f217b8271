"""Recordings written: what was written is read again, whatever the bytes, and a kill leaves whole lines."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selftest_recorder.cast.events import Header
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.writer import CastWriter, encode_header, write_cast
from selftest_recorder.onhost.writing import Left, LineWriter, read_left

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = st.lists(
    st.tuples(
        st.floats(0, 1e6),
        st.sampled_from("oim"),
        st.text(max_size=20) | st.text(alphabet="\x1b\x07[];😀é\u0301\ud83d\x00", min_size=1, max_size=9),
    ),
    max_size=20,
)


@settings(derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(version=st.sampled_from((2, 3)), events=EVENTS)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, version: int, events: list[tuple[float, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("casts") / "some.cast"
    header = Header(version, 100, 40, 1700000000.0, "a title", {"SHELL": "sh"}, 2.5, "vim")
    write_cast(path, header, events)
    recording = read_cast(path)
    assert recording.header == header
    read = list(recording.events())
    assert not recording.problems
    assert [event.code for event in read] == [code for _, code, _ in events]
    latest = 0.0
    for event, (time, _, data) in zip(read, events, strict=True):
        latest = max(latest, time)
        assert event.time == pytest.approx(latest, abs=1e-5)
        assert event.data == data.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@pytest.mark.parametrize("version", [2, 3])
def test_characters_that_were_cut_in_two_are_whole_and_bad_bytes_replaced(tmp_path: Path, version: int) -> None:
    path = tmp_path / "some.cast"
    with CastWriter(path, Header(version, 80, 24)) as writer:
        for place, byte in enumerate("é😀x".encode()):
            writer.output(place / 10, bytes([byte]))
        writer.output(2, b"\xffa\xf0\x9f")
        writer.resize(3, 100, 30)
        writer.exit(4, 7)
    events = list(read_cast(path).events())
    assert "".join(event.data for event in events if event.code == "o") == "é😀x\ufffda\ufffd"
    assert [event.data for event in events if event.code in "rxm"] == ["100x30", "7" if version == 3 else "exit 7"]


def test_what_a_killed_writer_left_can_be_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "some.cast"
    writer = CastWriter(path, Header(3, 80, 24, 1700000000.0))
    writer.text(1.5, "a")
    writer.resize(1.5, 90, 30)
    writer.marker(1.75, "test passed")
    writer.flush()
    writer.text(2.0, "never given to the system")
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'[0.5, "o", "torn')
    assert read_left(path) == Left(whole, 1.75, 1700000000.0, (90, 30), ["test passed"])
    os.truncate(path, whole)
    again = LineWriter(os.open(path, os.O_WRONLY | os.O_APPEND), is_relative=True, time=1.75, size=whole)
    again.text(4.0, "b")
    again.close()
    recording = read_cast(path)
    assert [(event.time, event.data) for event in recording.events() if event.code == "o"] == [(1.5, "a"), (4.0, "b")]
    assert not recording.problems


@pytest.mark.parametrize("content", [b"", b"hello", b'{"version": 2, "width": 3, "height": 4}\n', b'{"version": 3}\n'])
def test_what_is_no_recording_of_ours_is_not_gone_on_with(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.cast"
    assert read_left(path) is None
    path.write_bytes(content)
    assert read_left(path) is None


def test_no_recording_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "some.cast"
    write_cast(path, Header(3, 80, 24), [(1.0, "o", "a")])
    with pytest.raises(FileExistsError):
        CastWriter(path, Header(3, 80, 24))
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_headers_are_those_of_the_formats() -> None:
    header = Header(3, 80, 24, 1700000000.9, None, {}, None, None, "xterm-256color")
    wanted = {"version": 3, "term": {"cols": 80, "rows": 24, "type": "xterm-256color"}, "timestamp": 1700000000}
    assert json.loads(encode_header(header)) == wanted
    assert json.loads(encode_header(Header(2, 80, 24))) == {"version": 2, "width": 80, "height": 24}
    with pytest.raises(ValueError, match="version 1"):
        encode_header(Header(1, 80, 24))
