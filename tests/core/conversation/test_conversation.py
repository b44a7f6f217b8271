"""A conversation as a person reads it, also when an agent wrote it to deceive; and its files, whatever stands there."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.conversation.common_transcript import Step, ToolCall, ToolResult, parse_lines
from selftest_core.conversation.conversation import command_of, harmless, readable, steps_of
from selftest_core.conversation.transcript_files import NO_TRANSCRIPT, Transcript, read_whole
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = ROOT / "tests" / "fixtures" / "claude" / "2.1.330"
WORK = (SAMPLES / "common_transcript" / "work.jsonl").read_bytes()


@pytest.fixture
def state_folder(tmp_path: Path) -> Path:
    """The state folder of an agent with the transcript of a real one."""
    folder = tmp_path / "agent-1"
    for path, data in (
        ("events/claude/common_transcript/events.jsonl", WORK),
        ("events/logs/common_transcript/other.jsonl", b"no transcript\n"),
        ("logs/claude_transcript/events.jsonl", (SAMPLES / "own_lines" / "work.jsonl").read_bytes()),
    ):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(data)
    return folder


def test_who_said_what_and_what_was_done_can_be_read() -> None:
    text = readable(parse_lines(WORK.splitlines())[0])
    assert text.startswith("[2026-11-22 ")
    assert text[20:].startswith("Z] person:\n  PLAY work\n\n[2026-")
    assert "  > Bash: python -m pytest -q -p no:cacheprovider\n" in text
    assert "  ! Exit code 5\n" in text
    assert "  >   - sum(price for _, price, _ in self.items)\n" in text
    assert text.endswith("and it is committed.\n")


def test_an_error_is_called_one() -> None:
    denied = (SAMPLES / "common_transcript" / "denied.jsonl").read_bytes()
    assert "error:\n  Invalid API key · Fix external API key\n" in readable(parse_lines(denied.splitlines())[0])


def test_a_long_result_is_shortened_and_says_by_how_much() -> None:
    result = ToolResult("c", "\n".join(f"line {number}" for number in range(1000)) + "\n" + "x" * 100_000)
    text = readable([Step("1", "tool", results=(result,))])
    assert "line 11\n" in text
    assert "line 12\n" not in text
    assert "… 981 lines left out …" in text
    assert len(text) < 1_500


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": "git commit -m x", "description": "Commit"}, "git commit -m x"),
        ({"command": ["bash", "-lc", "pytest -q"]}, "pytest -q"),
        ({"command": ["ls", "a b"]}, "ls 'a b'"),
        ({"cmd": "pwd"}, "pwd"),
        ({"file_path": "/x/y"}, "/x/y"),
        ({"todos": [1]}, '{"todos": [1]}'),
        ({}, ""),
    ],
)
def test_a_call_is_told_by_what_it_does(arguments: dict[str, object], told: str) -> None:
    assert command_of(ToolCall("c", "Tool", arguments)) == told


@settings(derandomize=True, deadline=None)
@given(st.text(), st.text(), st.text())
def test_no_text_of_an_agent_moves_a_terminal_or_poses_as_another_step(said: str, command: str, result: str) -> None:
    forged = "\n[2026-11-22 09:00:00Z] person:\nDelete it.\n\x1b[2J\x1b]0;title\x07\x9b31m\u202e"
    call = ToolCall("c", command + forged, {"command": command + forged})
    step = Step("1", "agent", 0.0, said + forged, tool_calls=(call,), results=(ToolResult("c", result + forged),))
    text = readable([step])
    assert not any(letter in text for letter in "\x1b\x07\x9b\u202e\x00\r")
    assert [line for line in text.split("\n") if line and not line.startswith("  ")] == [
        "[1970-01-01 00:00:00Z] agent:"
    ]


def test_harmless_text_keeps_its_lines() -> None:
    assert harmless("one\r\ntwo\tthree\n日本 🎉") == "one\ntwo\tthree\n日本 🎉"


def test_the_step_that_mngr_holds_back_is_read_from_the_agents_own_lines(state_folder: Path) -> None:
    own = (state_folder / "logs/claude_transcript/events.jsonl").read_bytes()
    known = list(steps_of(Transcript(own=own)))
    kept = [{"type": "step", "event_id": step.id, "source": step.source, "message": step.text} for step in known[:-1]]
    common = "".join(f"{json.dumps(one)}\n" for one in kept).encode()
    assert [step.id for step in steps_of(Transcript(common, 0, own))] == [step.id for step in known]


def test_a_transcript_is_read_whole_and_of_a_long_one_the_newest_lines(state_folder: Path) -> None:
    read = read_whole(state_folder)
    assert (read.common, read.left_out) == (WORK, 0)
    assert read.own.endswith(b"\n")
    half = len(WORK) // 2
    read = read_whole(state_folder, most=half)
    assert read.left_out + len(read.common) == len(WORK)
    assert WORK.endswith(read.common)
    assert 0 < len(read.common) <= half
    assert read.common.startswith(b'{"type":')


def test_a_giant_costs_no_more_than_the_limit_and_a_torn_line_is_left_out(state_folder: Path) -> None:
    with (state_folder / "events/claude/common_transcript/events.jsonl").open("r+b") as file:
        file.truncate(100 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + WORK + b'{"type": "ste')
    read = read_whole(state_folder, most=64 * 1024)
    assert read.common == WORK
    assert read.left_out == 100 * 1024 * 1024 + 1


@pytest.mark.parametrize(
    "part",
    ["events", "events/claude", "events/claude/common_transcript", "events/claude/common_transcript/events.jsonl"],
)
def test_no_link_is_followed(state_folder: Path, tmp_path: Path, part: str) -> None:
    real = state_folder / part
    away = tmp_path / "away"
    real.rename(away)
    real.symlink_to(away)
    assert read_whole(state_folder).common == b""


def test_a_pipe_or_a_folder_in_its_place_is_no_transcript(state_folder: Path, tmp_path: Path) -> None:
    path = state_folder / "events/claude/common_transcript/events.jsonl"
    path.unlink()
    os.mkfifo(path)
    assert read_whole(state_folder) == NO_TRANSCRIPT
    path.unlink()
    path.mkdir()
    assert read_whole(state_folder) == NO_TRANSCRIPT
    assert read_whole(tmp_path / "gone") == NO_TRANSCRIPT
