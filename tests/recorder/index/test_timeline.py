"""Seeking anywhere equals playing from the beginning; the index while it is made, kept, damaged, and growing."""

from __future__ import annotations

import gzip
import json
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.recordings import PIECES, made_up, played, record_programs, write_made_up
from selftest_recorder.cast.events import Header, RecordingError
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.writer import CastWriter, write_cast
from selftest_recorder.index import index_source
from selftest_recorder.index.index import SPACING, Index, Indexer
from selftest_recorder.index.index_file import IndexReader, build, cache_folder, file_of
from selftest_recorder.index.timeline import Timeline, open_timeline
from worlds import eventually

if TYPE_CHECKING:
    from worlds import World


def timeline_of(path: Path, spacing: int = 1500) -> Timeline:
    """Many keyframes, so that every seek crosses some."""
    return Timeline(read_cast(path), None, spacing)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("a folder")


@pytest.fixture(scope="module")
def long(folder: Path) -> Path:
    """Longer than what is indexed at once."""
    path = folder / "long.cast"
    events = ((number / 10, "o", f"\x1b[3{number % 8}mline {number}\x1b[0m {'x' * 200}\r\n") for number in range(6000))
    write_cast(path, Header(2, 100, 30), events)
    assert path.stat().st_size > index_source.AT_ONCE
    return path


# Seeking equals playing


@pytest.mark.parametrize(("version", "seed"), [(2, 1), (3, 2), (3, 3)])
def test_seeking_anywhere_equals_playing_from_the_beginning(tmp_path: Path, version: int, seed: int) -> None:
    path = write_made_up(tmp_path / "a.cast", 600, seed, version)
    chance = random.Random(seed)
    with timeline_of(path) as timeline:
        assert len(timeline.index.keyframes) > 5
        for _ in range(25):
            time = chance.uniform(-1, timeline.duration + 1)
            timeline.seek(time)
            assert timeline.read_update(whole=True) == played(path, time)


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from((0.0, 0.1, 5.0))), min_size=1, max_size=60),
    moves=st.lists(st.one_of(st.floats(0, 1), st.sampled_from(("on", "back"))), max_size=15),
    spacing=st.integers(50, 2000),
)
def test_any_walk_through_any_recording_equals_playing(
    folder: Path, pieces: list[tuple[str, float]], moves: list[float | str], spacing: int
) -> None:
    path = folder / "walked.cast"
    path.unlink(missing_ok=True)
    time, events = 0.0, []
    for number, (piece, wait) in enumerate(pieces):
        time = round(time + wait, 3)
        size = number % 9 == 8
        events.append(
            (time, "r" if size else "o", f"{20 + number}x8" if size else piece.format(n=number, d=number % 8))
        )
    write_cast(path, Header(3, 40, 10), events)
    with timeline_of(path, spacing) as timeline:
        for move in moves:
            if isinstance(move, float):
                timeline.seek(move * timeline.duration)
            else:
                there = timeline.next_event() if move == "on" else timeline.previous_event()
                if there is None:
                    continue
                timeline.seek(there)
            assert timeline.read_update(whole=True) == played(path, timeline.time)


def test_real_programs_are_replayed_as_tmux_showed_them(shared_world: World) -> None:
    """A shell, less, vim and htop, with wide and combining characters, recorded in a real terminal."""
    path = shared_world.root / "real.cast"
    seen = record_programs(shared_world, path)
    with timeline_of(path, 4000) as timeline:
        assert len(timeline.index.keyframes) > 2
        screens, moments = [], []
        timeline.seek(0.0)
        while (there := timeline.next_event()) is not None:
            timeline.seek(there)
            screens.append("\n".join(timeline.lines()).rstrip())
            moments.append((there, timeline.read_update(whole=True)))
        at = 0
        for wanted in seen:
            assert wanted in screens[at:], f"tmux showed, and the replay never does:\n{wanted}"
            at = screens.index(wanted, at)
        for there, update in random.Random(5).sample(moments, min(30, len(moments))):
            timeline.seek(there)
            assert timeline.read_update(whole=True) == update
            assert update == played(path, there)


def test_only_the_rows_that_a_move_changed_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    write_cast(path, Header(3, 40, 10), [(1.0, "o", "one\r\ntwo"), (2.0, "o", "\x1b[1;1HONE")])
    with timeline_of(path) as timeline:
        timeline.seek(1.5)
        timeline.read_update()
        timeline.seek(2.5)
        assert set(timeline.read_update().rows) == {0}


# Steps


def test_events_before_and_behind_a_moment_are_known_across_keyframes(tmp_path: Path) -> None:
    path = write_made_up(tmp_path / "a.cast", 300)
    times = sorted({event.time for event in read_cast(path).events()})
    with timeline_of(path, 500) as timeline:
        timeline.seek(0.0)
        forward = [timeline.time] if times[0] == 0 else []
        while (there := timeline.next_event()) is not None:
            timeline.seek(there)
            assert timeline.last_event() == there
            forward.append(there)
        assert forward == times
        backward = [timeline.time]
        while (there := timeline.previous_event()) is not None:
            timeline.seek(there)
            backward.append(there)
        assert backward[::-1] == times
        timeline.seek((times[3] + times[4]) / 2)
        assert (timeline.previous_event(), timeline.next_event()) == (times[3], times[4])


# The index


def test_markers_the_end_and_activity_are_in_the_index(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    with CastWriter(path, Header(3, 40, 10)) as writer:
        writer.text(1.0, "x" * 1000)
        writer.marker(2.0, "failed")
        writer.text(99.0, "y")
        writer.marker(100.0, "passed")
        writer.exit(100.0, 3)
    with timeline_of(path) as timeline:
        assert [tuple(marker) for marker in timeline.markers] == [(2.0, "failed"), (100.0, "passed")]
        assert (timeline.duration, timeline.events, timeline.has_ended) == (100.0, 5, True)
        levels = timeline.activity.levels(100.0, 10)
        assert levels[0] == 8
        assert levels[1:9] == [0] * 8
        assert 0 < levels[9] < 8


def test_the_index_of_a_long_recording_is_made_beside_and_used_meanwhile(long: Path, tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    with open_timeline(long, environ) as timeline:
        timeline.seek(0.05)
        assert timeline.lines()[0].startswith("line 0")
        assert not timeline.is_complete
        known = [0.0]

        def is_known() -> bool:
            timeline.poll()
            known.append(timeline.progress)
            return timeline.is_complete

        eventually(is_known, "the index")
        assert known == sorted(known)
        assert (timeline.duration, timeline.events, timeline.progress) == (599.9, 6000, 1.0)
        timeline.seek(300.0)
        assert timeline.read_update(whole=True) == played(long, 300.0)
    kept = list(cache_folder(environ).iterdir())
    assert [path.suffix for path in kept] == [".index"]
    with open_timeline(long, environ) as timeline:
        assert timeline.is_complete, "it is known from before"
        timeline.seek(400.0)
        assert timeline.read_update(whole=True) == played(long, 400.0)


def test_an_index_of_a_file_is_the_one_that_is_built_here(tmp_path: Path) -> None:
    """With sizes, markers and an end between the outputs, and parts without them."""
    path = tmp_path / "a.cast"
    with CastWriter(path, Header(3, 60, 12)) as writer:
        for time, code, data in made_up(20_000, seed=4):
            if code == "m":
                writer.marker(time, data)
            elif code == "r":
                writer.resize(time, *map(int, data.split("x")))
            else:
                writer.text(time, data)
        for number in range(9_000):
            writer.text(60_000.0 + number, f"line {number} {'x' * 80}\r\n")
        writer.exit(70_000.0, 3)
    kept = tmp_path / "a.index"
    build(read_cast(path), kept)
    index, here = Index(), Index()
    IndexReader(read_cast(path), kept, index).take()
    indexer = Indexer(read_cast(path), here)
    while indexer.step():
        pass
    assert len(index.keyframes) > 5
    assert [one.position for one in index.keyframes] == [one.position for one in here.keyframes]
    assert [index.state(number) for number in range(len(index.keyframes))] == [
        here.state(number) for number in range(len(here.keyframes))
    ]
    index.close()
    assert (index.end, index.events, index.exit_status) == (here.end, here.events, here.exit_status)
    assert index.exit_status == "3"
    assert index.markers == here.markers
    assert [one.label for one in here.markers] == [f"mark {number}" for number in range(49, 20_000, 50)]
    shown = [event for event in read_cast(path).events() if event.code == "o"]
    counted = [0] * len(here.activity.counts)
    for event in shown:
        counted[int(event.time / here.activity.width)] += len(event.data)
    assert index.activity.counts == here.activity.counts == counted


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="this system has no disk that is always full")
def test_an_index_that_cannot_be_written_is_an_error(long: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        build(read_cast(long), Path("/dev/full"))


def _other_format(data: bytes) -> bytes:
    return data.replace(b'"format": 1', b'"format": 0')


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], _other_format],
    ids=["cut off", "another version"],
)
def test_a_kept_index_that_is_not_whole_is_made_anew(long: Path, tmp_path: Path, damage: object) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    kept = file_of(read_cast(long), cache_folder(environ))
    build(read_cast(long), kept)
    whole = kept.read_bytes()
    assert callable(damage)
    kept.write_bytes(damage(whole))
    with open_timeline(long, environ) as timeline:
        timeline.finish()
        timeline.seek(123.0)
        assert timeline.read_update(whole=True) == played(long, 123.0)
    assert len(kept.read_bytes()) == len(whole)


@pytest.mark.parametrize("cells", [1, 120], ids=["small", "large"])
def test_keyframes_of_states_of_any_size_are_equally_far_apart(tmp_path: Path, cells: int) -> None:
    def row(number: int) -> str:
        colours = ((number + at, number * 7 + at * 3, at) for at in range(cells))
        drawn = (f"\x1b[38;2;{a % 256};{b % 256};{c};48;2;{c};{a % 241};{b % 251}mx" for a, b, c in colours)
        return f"\x1b[{number % 40 + 1};1H{''.join(drawn)}{'plain words ' * (0 if cells > 1 else 300)}"

    path = tmp_path / "a.cast"
    write_cast(path, Header(2, 120, 40), ((number / 9, "o", row(number)) for number in range(1000)))
    kept = tmp_path / "a.index"
    build(read_cast(path), kept)
    index = Index()
    IndexReader(read_cast(path), kept, index).take()
    places = [one.position.offset for one in index.keyframes]
    index.close()
    # The first are of a screen that is not full yet, and the last one ends with the file.
    parts = [(after - before) / SPACING for before, after in pairwise(places[3:-1])]
    assert len(parts) > 5
    assert all(0.9 <= part <= 1.0 for part in parts), parts


def test_an_index_of_another_recording_is_not_used(long: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.cast"
    path.write_bytes(long.read_bytes())
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    build(read_cast(path), file_of(read_cast(path), cache_folder(environ)))
    path.write_bytes(long.read_bytes().replace(b"line ", b"LINE "))
    with open_timeline(path, environ) as timeline:
        timeline.finish()
        timeline.seek(500.0)
        shown = "\n".join(timeline.lines())
        assert "LINE " in shown
        assert "line " not in shown


def test_a_recording_that_has_grown_keeps_its_index_as_far_as_it_goes(long: Path, tmp_path: Path) -> None:
    path = tmp_path / "grown.cast"
    path.write_bytes(long.read_bytes())
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    build(read_cast(path), file_of(read_cast(path), cache_folder(environ)))
    with path.open("ab") as file:
        file.write(b'[610.0, "o", "\\u001b[2J\\u001b[Hgrown"]\n')
    with open_timeline(path, environ) as timeline:
        assert timeline.duration == 599.9, "what was known is there at once"
        assert timeline.poll()
        assert timeline.duration == 610.0
        timeline.seek(610.0)
        assert timeline.lines()[0] == "grown"
        timeline.seek(200.0)
        assert timeline.read_update(whole=True) == played(path, 200.0)


def test_where_the_cache_cannot_be_written_it_works_all_the_same(long: Path, tmp_path: Path) -> None:
    (tmp_path / "selftest-tui").write_text("in the way")
    with open_timeline(long, {"XDG_CACHE_HOME": str(tmp_path)}) as timeline:
        timeline.finish()
        timeline.seek(599.9)
        assert timeline.read_update(whole=True) == played(long, 599.9)


def test_where_the_process_that_indexes_is_killed_the_rest_is_indexed_here(long: Path, tmp_path: Path) -> None:
    with open_timeline(long, {"XDG_CACHE_HOME": str(tmp_path)}) as timeline:
        process = timeline._source._process
        assert process is not None
        process.process.kill()
        timeline.finish()
        assert timeline.events == 6000
        timeline.seek(450.0)
        assert timeline.read_update(whole=True) == played(long, 450.0)
    assert list(cache_folder({"XDG_CACHE_HOME": str(tmp_path)}).glob("*.part")) == []


# Growing


def test_a_recording_that_is_being_written_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "live.cast"
    with CastWriter(path, Header(3, 40, 10)) as writer:
        writer.text(1.0, "one\r\n")
        writer.flush()
        with timeline_of(path, 500) as timeline:
            assert timeline.duration == 1.0
            for number in range(2, 200):
                writer.text(float(number), f"line {number}\r\n")
                if number % 7 == 0:
                    writer.flush()
                    assert timeline.poll()
                    assert timeline.duration == number
                    timeline.seek(timeline.duration)
                    assert timeline.read_update(whole=True) == played(path, number)
            timeline.seek(50.0)
            assert timeline.read_update(whole=True) == played(path, 50.0)
            assert not timeline.poll()
            writer.exit(300.0, 0)
            writer.flush()
            assert timeline.poll()
            assert timeline.has_ended


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "live.cast"
    write_cast(path, Header(2, 40, 10), [(1.0, "o", "one ")])
    with timeline_of(path) as timeline, path.open("ab", buffering=0) as file:
        file.write(b'[2.0, "o", "tw')
        assert not timeline.poll()
        assert timeline.recording.problems == []
        file.write(b'o"]\n[3.0')
        assert timeline.poll()
        timeline.seek(9.0)
        assert timeline.lines()[0] == "one two"


def test_a_recording_that_vanishes_leaves_what_is_known(tmp_path: Path) -> None:
    path = write_made_up(tmp_path / "a.cast", 100)
    with timeline_of(path) as timeline:
        path.unlink()
        assert not timeline.poll()
        assert timeline.progress == 1.0


# Bad input


@pytest.mark.parametrize("spacing", [100, 10_000])
def test_damaged_lines_are_read_as_a_reader_of_lines_reads_them(tmp_path: Path, spacing: int) -> None:
    path = tmp_path / "a.cast"
    whole = [json.dumps([time, code, data]).encode() for time, code, data in made_up(120, resizes=False)]
    odd = [
        b"", b"# a comment", b"nonsense", b'["x", "o", "text as time"]', b'[-5, "o", "back in time"]', b"[1]",
        b'[999.0, "o", "ahead"]', b'[1.0, "z", "a code of the future"]', b'[1.0, "o", "\xff\xfe"]', b'[1.0, "o", 5]',
        b'[1e99, "o", "never"]', b'[1.0, "r", "0x0"]', b'[1.0, "r", "99999x99999"]', b'[1.0, "r", "wide"]',
        b'[1.0, "o", "\\ud800 lone"]', b"\xef\xbb\xbf[1.0, \"o\", \"bom\"]", b'[1.0, "m", ""]\r',
    ]  # fmt: skip
    lines = [b'{"version": 2, "width": 60, "height": 12}']
    for number, line in enumerate(whole):
        lines.append(line)
        if number % 7 == 0:
            lines.append(odd[number // 7 % len(odd)])
    path.write_bytes(b"\n".join(lines) + b'\n[1200.0, "o", "cut o')
    with timeline_of(path, spacing) as timeline:
        expected = list(read_cast(path).events(growing=True))
        assert (timeline.events, timeline.duration) == (len(expected), expected[-1].time)
        for time in (0.0, 5.0, 500.0, 999.0, 5000.0):
            timeline.seek(time)
            assert timeline.read_update(whole=True) == played(path, timeline.time)
        assert timeline.recording.problems


def test_packed_recordings_and_those_of_the_first_version_are_played(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    plain = write_made_up(tmp_path / "a.cast", 200, resizes=False)
    first = tmp_path / "first.json"
    stdout, before = [], 0.0
    for event in read_cast(plain).events():
        if event.code == "o":
            stdout.append([event.time - before, event.data])
            before = event.time
    first.write_text(json.dumps({"version": 1, "width": 60, "height": 12, "stdout": stdout}))
    packed = tmp_path / "packed.cast.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    expected = played(plain, 20.0)
    with open_timeline(first, environ) as timeline:
        timeline.seek(20.0 + 1e-9)
        assert timeline.read_update(whole=True) == expected
        assert timeline.recording.path == first
    with Timeline(read_cast(packed, tmp_path / "unpacked"), None, 800) as timeline:
        timeline.seek(20.0)
        assert timeline.read_update(whole=True) == expected
        assert not timeline.poll()


@pytest.mark.parametrize("content", [b"", b"no recording\n", b'{"version": 9}\n', b'{"version": 2}\n'])
def test_what_is_no_recording_is_refused_and_an_empty_one_is_not(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.cast"
    path.write_bytes(content)
    if content == b'{"version": 2}\n':
        with open_timeline(path, {"HOME": str(tmp_path)}) as timeline:
            timeline.seek(5.0)
            assert (timeline.duration, timeline.time, timeline.next_event()) == (0.0, 0.0, None)
            assert timeline.lines() == [""] * 24
    else:
        with pytest.raises(RecordingError):
            open_timeline(path, {"HOME": str(tmp_path)})


def test_a_sequence_that_never_ends_costs_no_keyframe_and_is_played_right(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    events: list[tuple[float, str, str]] = [(0.1, "o", "before\x1b]0;")]
    events += [(1.0 + number / 10, "o", "t" * 1000) for number in range(200)]
    events += [(90.0, "o", "\x07 after")]
    write_cast(path, Header(2, 40, 10), events)
    with timeline_of(path, 20_000) as timeline:
        timeline.seek(15.0)
        assert timeline.lines()[0] == "before"
        timeline.seek(90.0)
        assert timeline.lines()[0] == "before after"
