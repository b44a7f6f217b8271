"""Markers out of a conversation: what pytest said, commits, errors; none twice, at their own times."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from recorder.capture.test_run_recording import OneAgentRun
from selftest_core.conversation.common_transcript import Step, ToolCall, ToolResult, parse_lines
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_recorder.capture.conversation_markers import MOST, mark_conversation, markers_of
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.writer import write_cast
from worlds import ROOT, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

SAMPLES = ROOT / "tests" / "fixtures" / "claude" / "2.1.330" / "common_transcript"


def called(command: str, text: str, *, at: float = 10.0, is_error: bool = False, tool: str = "Bash") -> list[Step]:
    call = Step("1", "agent", at, tool_calls=(ToolCall("c", tool, {"command": command}),))
    return [call, Step("2", "tool", at + 2.0, results=(ToolResult("c", text, is_error),))]


def test_the_work_of_a_real_agent_is_marked() -> None:
    steps, _ = parse_lines((SAMPLES / "work.jsonl").read_bytes().splitlines())
    markers = markers_of(steps)
    assert [label for _, label in markers] == [
        "error: <tool_use_error>String to replace not found in file.",
        "pytest begins",
        "pytest: no tests ran",
        "error: On branch mngr/work",
    ]
    assert [at for at, _ in markers] == [step.at for step in (steps[4], steps[5], steps[6], steps[8])]


@pytest.mark.parametrize(
    ("command", "text", "is_error", "labels"),
    [
        (
            "python -m pytest -q x",
            "F.\n1 failed, 1 passed in 0.12s",
            True,
            ["pytest begins", "pytest: 1 failed, 1 passed"],
        ),
        (
            "cd a && pytest",
            "=== test session starts ===\n=== 3 passed in 1.20s ===",
            False,
            ["pytest begins", "pytest: 3 passed"],
        ),
        (
            "pytest",
            "Exit code 127\n/bin/sh: pytest: not found",
            True,
            ["pytest begins", "pytest: /bin/sh: pytest: not found"],
        ),
        ("pip install pytest-asyncio", "ok", False, []),
        (
            "git commit -qam x && git log",
            "[mngr/a 1a2b3c4] [FIX_IMPL] Count\n 1 file changed",
            False,
            ["commit: [FIX_IMPL] Count"],
        ),
        ("echo '[mngr/a 1a2b3c4] no'", "[mngr/a 1a2b3c4] no", False, []),
        ("grep x", "Exit code 1", True, []),
        ("ls /x", "Exit code 2\nls: cannot access '/x'\x1b[31m", True, ["error: ls: cannot access '/x'"]),
    ],
)
def test_a_call_is_marked_by_what_came_of_it(command: str, text: str, is_error: bool, labels: list[str]) -> None:
    markers = markers_of(called(command, text, is_error=is_error))
    assert [label for _, label in markers] == labels
    for tool in ("exec_command", "shell"):
        assert [label for _, label in markers_of(called(command, text, is_error=is_error, tool=tool))] == labels


def test_the_work_of_codex_is_marked() -> None:
    sample = ROOT / "tests" / "fixtures" / "codex" / "0.169" / "common_transcript" / "work.jsonl"
    steps, _ = parse_lines(sample.read_bytes().splitlines())
    labels = [label for _, label in markers_of(steps)]
    assert labels[:2] == ["pytest begins", "pytest: /bin/bash: line 1: python: command not found"]
    assert [label.startswith("error: fatal: Unable to create '/srv/shop/") for label in labels[2:]] == [True]


def test_an_error_of_the_service_is_marked() -> None:
    steps, _ = parse_lines((SAMPLES / "denied.jsonl").read_bytes().splitlines())
    assert [label for _, label in markers_of(steps)] == ["error: Invalid API key · Fix external API key"]


def test_a_talkative_agent_gets_its_newest_markers() -> None:
    steps = [step for number in range(MOST) for step in called("pytest", "1 passed in 1s", at=number * 10.0)]
    assert len(markers_of(steps)) == MOST
    assert markers_of(steps)[-1] == (MOST * 10.0 - 8.0, "pytest: 1 passed")


def test_what_the_recording_has_is_not_marked_twice_and_a_secret_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "some.cast"
    events = [(1.0, "o", "a"), (13.0, "m", "commit: One"), (100.0, "o", "b")]
    write_cast(path, Header(3, 80, 24, 1000.0, "t"), events)
    steps = [
        *called("git commit", "[x 1234567] One", at=1010.0), *called("git commit", "[x 1234568] One", at=1050.0),
        *called("pytest", "1 passed in 1s", at=1060.0), *called("ls", "no hunter2 here", at=1070.0, is_error=True),
        *called("pytest", "1 passed in 1s", at=1200.0),
    ]  # fmt: skip
    for _ in range(2):
        mark_conversation(path, steps, lambda text: text.replace("hunter2", "*******"))
        markers = [(event.time, event.data) for event in read_cast(path).events() if event.code == "m"]
        assert markers == [
            (13.0, "commit: One"), (52.0, "commit: One"), (60.0, "pytest begins"), (62.0, "pytest: 1 passed"),
            (72.0, "error: no ******* here"),
        ]  # fmt: skip


def test_a_command_of_any_length_is_no_burden() -> None:
    steps = called("git " * 200_000 + "; git -C a commit -m b", "[main 0123abc] b")
    assert [label for _, label in markers_of(steps)] == ["commit: b"]
    assert markers_of(called("git log; echo commit", "[main 0123abc] b")) == []


async def test_a_runs_recording_gets_them_when_its_agent_has_ended(world: World) -> None:
    run = OneAgentRun(world)
    launching = {"agent_id": run.member.agent_id, "name": run.member.name, "elapsed": 0.0, "boot": ""}
    launched = {"host_id": "h", "provider": "local", "adopted": False, "elapsed": 0.0, "boot": ""}
    ended = {"end": End.SUCCEEDED, "stage": "work", "text": "", "signature": "", "tip": "", "commits": 0}
    attempt = run.folder.attempt(run.member)

    def talk() -> None:
        run.wait_until_recorded("it")
        now = datetime.fromtimestamp(time.time(), UTC).isoformat()
        call = {"function_name": "Bash", "arguments": {"command": "pytest -q"}}
        step = {"type": "step", "source": "agent", "timestamp": now, "tool_calls": [call]}
        state_folder = world.host_dir / "agents" / run.member.agent_id
        transcript = state_folder / "events/claude/common_transcript/events.jsonl"
        transcript.parent.mkdir(parents=True)
        transcript.write_text(f"{json.dumps(step)}\n")
        run.type("mngr-agent-00", "echo later")
        eventually(lambda: run.text("it").count("later") > 1, "what came later")
        attempt.mkdir(parents=True)

    await run.conduct(
        (Event.LAUNCHING, launching), run.agent, (Event.LAUNCHED, launched), talk, (Event.PULLING, {"stamp": "1"}),
        (Event.ENDED, ended), lambda: world.tmux("kill-session", "-t", "=mngr-agent-00"), (Event.STOPPED, {"says": ""}),
        is_over=True,
    )  # fmt: skip
    labels = [event.data for event in read_cast(attempt / "terminal.cast").events() if event.code == "m"]
    assert labels.count("pytest begins") == 1
    assert [label for label in labels if label != "pytest begins"] == ["launched", "outcome", "passed"]
    assert (attempt / "terminal.cast").samefile(run.file("it"))
    assert (run.home / "collector.log").read_text() == ""
