"""The lines of a recording are those that a person could have read, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recorder.recordings import write_made_up
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.index.timeline import Timeline
from selftest_recorder.search.terminal_lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def lines(path: Path, events: Iterable[tuple[float, str, str]], rows: int = 6) -> list[tuple[float, str]]:
    write_cast(path, Header(2, 30, rows), events)
    return list(lines_of(read_cast(path)))


def test_lines_that_rush_by_are_all_there_once(tmp_path: Path) -> None:
    rush = "".join(f"line {number}\r\n" for number in range(500))
    found = lines(tmp_path / "a.cast", [(1.0, "o", rush), (1.1, "o", rush), (1.2, "o", rush)])
    assert [text for _, text in found] == [f"line {number}" for number in range(500)]
    assert {time for time, _ in found} <= {1.0, 1.1}


def test_a_text_that_stood_for_a_second_is_there_with_a_time_that_shows_it(tmp_path: Path) -> None:
    stood = [
        (1.0, "o", "\x1b[2J\x1b[H"), (1.1, "o", "one "), (1.2, "o", "line"), (3.0, "o", "\x1b[2J\x1b[H"),
        (3.5, "o", "\x1b[3;3Hdra\x1b[3;6Hwn"), (4.6, "o", "\x1b[3;1H\x1b[K"), (5.0, "o", "\x1b[?1049hother"),
        (6.1, "o", "\x1b[?1049l"), (7.0, "r", "20x4"), (8.0, "o", "\r\nend"),
    ]  # fmt: skip
    path = tmp_path / "a.cast"
    found = {text: time for time, text in lines(path, stood)}
    assert set(found) == {"one line", "drawn", "other", "end"}
    with Timeline(read_cast(path), None) as timeline:
        for text, time in found.items():
            timeline.seek(time)
            assert any(text in line for line in timeline.lines())


def test_a_line_that_is_written_bit_by_bit_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    words = [(float(number), "o", word) for number, word in enumerate(["the", "words", "come", "one", "by", "one"])]
    assert [text for _, text in lines(tmp_path / "a.cast", [*words, (9.0, "o", "\r\n")])] == ["thewordscomeonebyone"]


def test_what_the_screen_shows_at_the_end_is_always_there(tmp_path: Path) -> None:
    for seed in range(10):
        path = write_made_up(tmp_path / f"{seed}.cast", 300, seed)
        with Timeline(read_cast(path), None) as timeline:
            timeline.seek(timeline.duration)
            shown = {line.strip() for line in timeline.lines() if len(line.strip()) > 1}
        assert shown <= {text for _, text in lines_of(read_cast(path))}
