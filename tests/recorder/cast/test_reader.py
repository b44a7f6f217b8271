"""Recordings read: three versions, packed or plain, and every kind of damage that is met in the wild."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from selftest_recorder.cast.events import MAX_COLS, MAX_ROWS, Event, RecordingError
from selftest_recorder.cast.reader import read_cast

if TYPE_CHECKING:
    from pathlib import Path

V2 = '{"version": 2, "width": 80, "height": 24}'
V3 = '{"version": 3, "term": {"cols": 100, "rows": 30}}'


def write(folder: Path, *lines: str | bytes, end: bytes = b"\n") -> Path:
    path = folder / "some.cast"
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines) + end)
    return path


def shown(path: Path) -> list[tuple[float, str, str]]:
    return [(round(event.time, 6), event.code, event.data) for event in read_cast(path).events()]


def told(path: Path) -> list[tuple[int, str]]:
    recording = read_cast(path)
    list(recording.events())
    return [(problem.line, problem.says) for problem in recording.problems]


def test_the_second_version_has_absolute_times(tmp_path: Path) -> None:
    path = write(tmp_path, V2, '[0.5, "o", "a"]', '[1.5, "i", "k"]', '[2, "m", ""]', '[2.25, "r", "100x40"]')
    assert shown(path) == [(0.5, "o", "a"), (1.5, "i", "k"), (2.0, "m", ""), (2.25, "r", "100x40")]
    header = read_cast(path).header
    assert (header.version, header.cols, header.rows) == (2, 80, 24)
    assert told(path) == []


def test_the_third_version_adds_every_interval_also_of_codes_that_nobody_knows(tmp_path: Path) -> None:
    path = write(tmp_path, V3, "# said", '[0.5, "o", "a"]', "", '[1, "z", "new"]', '[0.25, "x", "0"]')
    assert shown(path) == [(0.5, "o", "a"), (1.75, "x", "0")]
    assert told(path) == []


def test_the_first_version_has_relative_times_in_one_object(tmp_path: Path) -> None:
    whole = {"version": 1, "width": 70, "height": 20, "title": "old", "stdout": [[0.5, "a"], [1.5, "bä"]]}
    path = write(tmp_path, json.dumps(whole, indent=1))
    recording = read_cast(path)
    assert (recording.header.cols, recording.header.rows, recording.header.title) == (70, 20, "old")
    events = list(recording.events())
    assert [(event.time, event.data) for event in events] == [(0.5, "a"), (2.0, "bä")]
    assert list(recording.events(events[0].offset, events[0].time, events[0].line)) == events[1:]
    assert not recording.problems
    assert not recording.can_grow


def test_a_first_version_that_was_cut_off_shows_what_it_has(tmp_path: Path) -> None:
    path = write(tmp_path, '{"version": 1, "width": 70, "height": 20,\n"stdout": [[0.5, "a"],\n[1.5, "b', end=b"")
    assert shown(path) == [(0.5, "o", "a")]
    assert told(path) == [(3, "the recording is cut off or damaged here; the rest was left out")]
    assert read_cast(path).header.cols == 70


def test_the_header_says_what_it_says_and_no_more(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "version": 3, "term": {"cols": 9, "rows": 8, "type": "xterm"}, "timestamp": 1700000000, "title": "t",
        "command": "vim", "idle_time_limit": 1.5, "env": {"SHELL": "sh", "TERM": None, "N": 3},
    }  # fmt: skip
    header = read_cast(write(tmp_path, json.dumps(fields))).header
    assert header.env == {"SHELL": "sh"}
    assert (header.timestamp, header.title, header.command) == (1700000000.0, "t", "vim")
    assert (header.idle_time_limit, header.term_type) == (1.5, "xterm")
    strange = {"version": 2, "width": "wide", "height": None, "timestamp": "now", "title": 3, "env": []}
    recording = read_cast(write(tmp_path, json.dumps(strange)))
    assert (recording.header.cols, recording.header.rows, recording.header.title) == (80, 24, None)
    assert recording.header.timestamp is None
    assert [problem.line for problem in recording.problems] == [1]


def test_one_can_read_on_behind_any_event(tmp_path: Path) -> None:
    lines = [V3, "# c", *(f'[0.125, "o", "ü{number}"]' for number in range(9)), "", '[1, "m", "end"]']
    recording = read_cast(write(tmp_path, *lines))
    events = list(recording.events())
    for place, event in enumerate(events):
        assert list(recording.events(event.offset, event.time, event.line)) == events[place + 1 :]
    assert [event.line for event in events] == [*range(3, 12), 13]


@pytest.mark.parametrize(
    ("line", "seen", "said"),
    [
        (b"lol!", None, "no event"),
        (b'{"version": 2}', None, "no event"),
        (b"\x00\x00\x00", None, "no event"),
        (b'[1.0, "o"]', None, "2 of them"),
        (b"[]", None, "0 of them"),
        (b'[1.0, "o", 5]', None, "no text"),
        (b'[1.0, 7, "a"]', None, "no text"),
        (b'[1.0, "o", "a", 4]', (1.0, "o", "a"), "left out"),
        (b'["1.0", "o", "a"]', (1.0, "o", "a"), "is a text"),
        (b'["soon", "o", "a"]', (0.5, "o", "a"), "cannot be"),
        (b'[null, "o", "a"]', (0.5, "o", "a"), "is none"),
        (b'[1e300, "o", "a"]', (0.5, "o", "a"), "cannot be"),
        (b'[1e999, "o", "a"]', (0.5, "o", "a"), "cannot be"),
        (b'[NaN, "o", "a"]', (0.5, "o", "a"), "cannot be"),
        (b'[-3, "o", "a"]', (0.5, "o", "a"), "goes back"),
        (b'[1.0, "o", "a\xff\xfeb"]', (1.0, "o", "a\ufffd\ufffdb"), "not UTF-8"),
        (b'[1.0, "r", "wide"]', None, "no size"),
        (b'[1.0, "r", "0x0"]', (1.0, "r", "1x1"), "taken as 1x1"),
        (b'[1.0, "r", "10000x10000"]', (1.0, "r", f"{MAX_COLS}x{MAX_ROWS}"), "taken as"),
        (b"[" * 100_000, None, "no event"),
    ],
)
def test_a_damaged_line_costs_that_line_at_most(
    tmp_path: Path, line: bytes, seen: tuple[float, str, str] | None, said: str
) -> None:
    path = write(tmp_path, V2, '[0.5, "o", "before"]', line, '[2.0, "o", "behind"]')
    expected = [(0.5, "o", "before"), *([seen] if seen else []), (2.0, "o", "behind")]
    assert shown(path) == expected
    [(number, says)] = told(path)
    assert number == 3
    assert said in says


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (rb'[1.0, "o", "\ud83d\ude00"]', "😀"),
        (rb'[1.0, "o", "a\ud83db"]', "a\ufffdb"),
        (b'[1.0, "o", "a\tb"]', "a\tb"),
        (b'  [1.0, "o", "a"]  \r', "a"),
    ],
)
def test_characters_of_all_kinds_can_be_encoded_again(tmp_path: Path, line: bytes, seen: str) -> None:
    [event] = read_cast(write(tmp_path, V2, line)).events()
    assert event.data == seen
    assert event.data.encode()


def test_times_that_go_back_stand_still(tmp_path: Path) -> None:
    second = write(tmp_path, V2, '[5, "o", "a"]', '[3, "o", "b"]', '[6, "o", "c"]')
    assert [time for time, _, _ in shown(second)] == [5, 5, 6]
    third = write(tmp_path, V3, '[5, "o", "a"]', '[-3, "o", "b"]', '[1, "o", "c"]')
    assert [time for time, _, _ in shown(third)] == [5, 5, 6]
    assert [line for line, _ in told(third)] == [3]


def test_a_cut_off_end_is_told_and_a_missing_last_newline_is_none(tmp_path: Path) -> None:
    cut = write(tmp_path, V2, '[1, "o", "a"]', '[2, "o", "b', end=b"")
    assert shown(cut) == [(1.0, "o", "a")]
    assert told(cut) == [(3, "the recording is cut off here")]
    whole = write(tmp_path, V2, '[1, "o", "a"]', end=b"")
    assert shown(whole) == [(1.0, "o", "a")]
    assert told(whole) == []


def test_a_recording_that_grows_is_followed_without_being_called_damaged(tmp_path: Path) -> None:
    path = write(tmp_path, V3, '[1, "o", "a"]', '[1, "o", "b', end=b"")
    recording = read_cast(path)
    [first] = recording.events(growing=True)
    assert not recording.problems
    with path.open("ab") as file:
        file.write(b'"]\n[1, "o", "c"]\n')
    following = list(recording.events(first.offset, first.time, first.line, growing=True))
    assert [(event.time, event.data, event.line) for event in following] == [(2.0, "b", 3), (3.0, "c", 4)]
    assert recording.can_grow


def test_marks_of_other_systems_are_no_damage(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf" + V2.encode() + b"\r", b'[1, "o", "a"]\r')
    assert shown(path) == [(1.0, "o", "a")]
    assert told(path) == []


@pytest.mark.parametrize("version", [V2, V3, '{"version": 1, "width": 5, "height": 6, "stdout": [[1, "a"]]}'])
def test_a_packed_recording_reads_like_a_plain_one(tmp_path: Path, version: str) -> None:
    plain = write(tmp_path, version, '[1, "o", "a"]')
    packed = tmp_path / "misnamed.cast"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for _ in range(2):  # the second time it is found unpacked
        recording = read_cast(packed, tmp_path / "cache")
        assert [event.data for event in recording.events()] == ["a"]
        assert not recording.problems
        assert not recording.can_grow
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_packed_recording_that_was_cut_off_shows_what_it_has_each_time(tmp_path: Path) -> None:
    lines = [V2, *(f'[{number}, "o", "{os.urandom(40).hex()}"]' for number in range(2000))]
    packed = tmp_path / "cut.cast.gz"
    packed.write_bytes(gzip.compress("\n".join(lines).encode())[:-60_000])
    for _ in range(2):
        recording = read_cast(packed, tmp_path / "cache")
        events = list(recording.events())
        assert 100 < len(events) < 2000
        assert any("the packed file is cut off" in problem.says for problem in recording.problems)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n", b"hello\n", b"\x7fELF" + bytes(100), b"[]\n", b"{}\n", b'{"version": 9}\n', b'{"version": true}\n',
        b'{"version": 1, "width": 3}\n', b'{"version": 2', b"\x28\xb5\x2f\xfd1234", b"\x1f\x8b\x08broken", b"{" * 99999,
    ],
)  # fmt: skip
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "none.cast"
    path.write_bytes(content)
    with pytest.raises(RecordingError) as refused:
        read_cast(path, tmp_path / "cache")
    assert "none.cast" in refused.value.title


def test_what_never_ends_is_not_begun(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path, tmp_path / "missing"):
        with pytest.raises(RecordingError):
            read_cast(path)


@pytest.mark.parametrize(("cols", "rows"), [(0, 0), (10_000, 10_000), (-4, 5), (10**30, 1)])
def test_sizes_that_cannot_be_are_replaced_and_told(tmp_path: Path, cols: int, rows: int) -> None:
    recording = read_cast(write(tmp_path, json.dumps({"version": 2, "width": cols, "height": rows})))
    assert 1 <= recording.header.cols <= MAX_COLS
    assert 1 <= recording.header.rows <= MAX_ROWS
    assert [problem.line for problem in recording.problems] == [1]


def test_problems_without_end_are_counted_rather_than_kept(tmp_path: Path) -> None:
    recording = read_cast(write(tmp_path, V2, *["lol"] * 3000, '[1, "o", "a"]'))
    assert [event.data for event in recording.events()] == ["a"]
    assert len(recording.problems) == 1000
    assert recording.unlisted_problems == 2000


def test_escapes_stay_what_they_were(tmp_path: Path) -> None:
    path = write(tmp_path, V2, r'[1, "o", "\u001b]52;c;aGk=\u0007\u001b[c"]')
    [event] = read_cast(path).events()
    assert event == Event(1.0, "o", "\x1b]52;c;aGk=\x07\x1b[c", path.stat().st_size, 2)
