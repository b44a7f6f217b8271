"""Searching a recording finds the moments at which a text comes onto the screen, as watching it would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_recorder.cast.events import Header
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.writer import CastWriter, write_cast
from selftest_recorder.index.search import Search
from selftest_recorder.index.timeline import Timeline

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def timeline_of(path: Path, spacing: int = 400) -> Timeline:
    return Timeline(read_cast(path), None, spacing)


def found(timeline: Timeline, needle: str) -> list[float]:
    search = Search(timeline.recording, timeline.index, needle)
    while search.step():
        pass
    return search.hits


def watched(timeline: Timeline, needle: str) -> list[float]:
    """The events after which the screen shows it more often than before, or which scrolled one of them away."""
    hits, before = [], [""]
    timeline.seek(0.0)
    time: float | None = 0.0
    while time is not None:
        timeline.seek(time)
        lines = timeline.lines()
        count = sum(line.casefold().count(needle.casefold()) for line in lines)
        was = sum(line.casefold().count(needle.casefold()) for line in before)
        if count > was or (count and before[1:-1] == lines[:-2]):
            hits.append(time)
        before = lines
        time = timeline.next_event()
    return hits


def test_each_time_that_a_text_is_printed_is_found_while_earlier_ones_are_visible(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    events = [(float(number), "o", "needle\r\n") for number in range(1, 7)]
    events += [(7.0, "o", "\x1b[Hneedle\r\nneedle"), (8.0, "o", "\x1b[4;1H"), (9.0, "o", "hay\r\nhay\r\nhay\r\n")]
    events += [(10.0, "o", "a needle in it\r\n"), (11.0, "o", "hay\r\n" * 6), (12.0, "o", "needle\r\n" + "hay\r\n" * 2)]
    write_cast(path, Header(2, 40, 4), events)
    for spacing in (60, 400, 100_000):
        with timeline_of(path, spacing) as timeline:
            assert found(timeline, "needle") == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0, 12.0]


def test_a_text_is_found_where_it_comes_and_where_it_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    events = [
        (1.0, "o", "nothing\r\n"), (2.0, "o", "an \x1b[31mERR"), (3.0, "o", "or\x1b[0m here\r\n"),
        (4.0, "o", "still\r\n"),
        (5.0, "o", "\x1b[2J\x1b[H"), (6.0, "o", "error: again"), (7.0, "o", "\r\x1b[K"), (8.0, "m", "error"),
        (9.0, "o", "\x1b[1;3Hror\x1b[1;1Her"), (10.0, "o", "\x1b]0;error\x07"),
    ]  # fmt: skip
    write_cast(path, Header(2, 40, 10), events)
    with timeline_of(path) as timeline:
        assert found(timeline, "error") == [3.0, 6.0]
        assert found(timeline, "ErRoR: a") == [6.0]
        assert found(timeline, "absent") == []
        assert found(timeline, "") == []


def test_what_a_program_draws_is_found_too(tmp_path: Path) -> None:
    """Put together from places, so that it was never printed in one piece; it still stands at the next keyframe."""
    path = tmp_path / "a.cast"
    events = [(0.5, "o", "x" * 30), (1.0, "o", "\x1b[2J\x1b[1;4Hlo"), (2.0, "o", "\x1b[1;1Hhel")]
    events += [(3.0 + number, "o", "\x1b[5;1Hfilling " * 10) for number in range(20)]
    write_cast(path, Header(2, 40, 10), events)
    with timeline_of(path) as timeline:
        assert len(timeline.index.keyframes) > 3
        assert found(timeline, "hello") == [2.0]


WORDS = st.sampled_from(
    ["needle", "nee", "dle", "hay ", "\r\n", "\x1b[2J\x1b[H", "\x1b[31m", "NEEDLE", "\x1b[1;1H", "\x1b[K"]
)


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(WORDS, max_size=50), spacing=st.integers(60, 800))
def test_every_hit_is_a_moment_at_which_it_came(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], spacing: int
) -> None:
    path = tmp_path_factory.mktemp("s") / "a.cast"
    write_cast(path, Header(2, 30, 5), [(float(number), "o", piece) for number, piece in enumerate(pieces, 1)])
    with timeline_of(path, spacing) as timeline:
        assert set(found(timeline, "needle")) <= set(watched(timeline, "needle"))


def test_a_search_goes_on_where_a_recording_grows(tmp_path: Path) -> None:
    path = tmp_path / "live.cast"
    with CastWriter(path, Header(3, 60, 10)) as writer:
        writer.text(1.0, "one needle\r\n")
        writer.flush()
        with timeline_of(path) as timeline:
            search = Search(timeline.recording, timeline.index, "needle")
            while search.step():
                pass
            assert search.hits == [1.0]
            for number in range(2, 60):
                writer.text(float(number), "\x1b[2J\x1b[Hneedle" if number % 10 == 5 else "\x1b[2J\x1b[Hhay and hay")
                writer.flush()
                timeline.poll()
                while search.step():
                    pass
            assert search.hits == [1.0, 5.0, 15.0, 25.0, 35.0, 45.0, 55.0]
