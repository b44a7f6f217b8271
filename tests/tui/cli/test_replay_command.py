"""`selftest-tui replay` without a screen: a moment of a recording, for people and for programs."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest

from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_tui.replay import frames
from selftest_tui.replay.playhead import Playhead, clock_text, time_of
from selftest_tui.replay.recordings import recording_of_agent

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

EVENTS = [
    (1.0, "o", "one\r\n\x1b[1;31mtwo\x1b[0m  \x1b[44m \x1b[0m"), (2.0, "m", "half\x1b[2J"),
    (4.0, "o", "\r\n日本 ✓\x1b]0;t\x07"),
    (10.0, "o", "\x1b[2J\x1b[Hend"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("a folder") / "build.cast"
    write_cast(path, Header(3, 20, 4), EVENTS)
    return path


def replayed(world: World, cast: Path, *words: str, status: int = 0) -> str:
    done = world.run(["selftest-tui", "replay", str(cast), *words], check=False, cwd=world.root)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.mark.parametrize(
    ("at", "lines"),
    [
        (["--at", "0:04"], ["one", "two", "日本 ✓", ""]),
        (["--at=-6"], ["one", "two", "日本 ✓", ""]),
        (["--at", "99999"], ["end", "", "", ""]),
    ],
)
def test_text_has_exactly_the_rows_of_that_moment(
    shared_world: World, cast: Path, at: list[str], lines: list[str]
) -> None:
    assert replayed(shared_world, cast, *at, "--format", "text") == "".join(f"{line}\n" for line in lines)


def test_ansi_keeps_colours_and_batch_is_one_line_of_json(shared_world: World, cast: Path) -> None:
    shown = replayed(shared_world, cast, "--at", "3", "--format", "ansi").split("\n")
    assert shown == ["one", "\x1b[1;31mtwo\x1b[0m  \x1b[44m \x1b[0m", "", "", ""]
    answer = json.loads(replayed(shared_world, cast, "--at", "3", "--batch"))
    assert (answer["event"], answer["seconds"], answer["duration"], answer["columns"]) == ("summary", 3.0, 10.0, 20)
    assert answer["lines"] == ["one", "two", "", ""]
    assert [one["at"] for one in answer["markers"]] == [2.0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--at", "soon", "--format", "text"], "'soon' is not a time"),
        (["--format", "gif"], "gif"),
        ([], "There is no terminal to show the screen on"),
    ],
)
def test_what_cannot_be_is_said(shared_world: World, cast: Path, words: list[str], says: str) -> None:
    assert says in replayed(shared_world, cast, *words, status=2)


def test_an_agent_of_no_run_has_no_recording(shared_world: World, tmp_path: Path) -> None:
    name = f"agent-{uuid.uuid4().hex}"
    assert recording_of_agent(name, shared_world.environment, tmp_path) is None
    done = shared_world.run(["selftest-tui", "replay", name, "--format", "text"], check=False, cwd=tmp_path)
    assert (done.returncode, f"There is no recording '{name}'" in done.stderr) == (2, True)
    damaged = tmp_path / "torn.cast"
    damaged.write_text('{"version": 2, "width": 9, "height": 2}\n[1, "o", "ok"]\nnonsense\n')
    done = shared_world.run(["selftest-tui", "replay", damaged, "--format", "text"], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("ok\n\n", "line 3: this is no event; skipped\n")


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("plain", 5, "plain"),
        ("日本", 4, "日本"),
        ("e\u0301", 1, "e\u0301"),
        ("\u26a0\ufe0f", 1, "\u26a0"),
        ("\U0001f469\u200d\U0001f4bb", 2, "\U0001f469"),
        ("\U0001f44d\U0001f3fd", 4, "\U0001f44d  "),
        ("\U0001f1e9\U0001f1ea", 4, "D E "),
        ("a\x1bb\x9bc", 5, "a␛b�c"),
        ("\u202eab", 3, " ab"),
    ],
)
def test_characters_are_drawn_in_the_cells_that_they_had(text: str, cells: int, shown: str) -> None:
    assert frames.safe(text, cells) == shown


def test_times_are_read_and_written_as_people_do() -> None:
    assert [time_of(text, 200.0) for text in ("134", "2:14", "1:02:14.5", "50%", "-30", "x", "", "1:2:3:4", "٣")] == [
        134.0, 134.0, 3734.5, 100.0, 170.0, None, None, None, None,
    ]  # fmt: skip
    assert [clock_text(5.9), clock_text(65, like=4000), clock_text(3734), clock_text(5, like=700)] == [
        "0:05", "0:01:05", "1:02:14", "00:05",
    ]  # fmt: skip


def test_idle_stretches_are_skipped_and_a_stall_does_not_jump() -> None:
    head = Playhead(time=10.0, is_playing=True, speed=2.0)
    assert head.after(0.1, 9.9, 60.0) == pytest.approx(10.2)
    assert head.after(0.1, 5.0, 60.0) == 60.0
    assert head.after(50.0, 9.9, None) == 10.5
    assert Playhead(time=10.0, skips_idle=False).after(0.1, 5.0, 60.0) == pytest.approx(10.1)
    assert (head.faster(1), head.faster(-9), head.faster(9)) == (4.0, 0.25, 16.0)


def test_the_end_in_percent_is_the_end() -> None:
    """A moment that comes out a little early would leave the last event out."""
    durations = [number / 1000 for number in range(1, 20_000, 7)]
    assert [time for time in durations if time_of("100%", time) != time] == []
