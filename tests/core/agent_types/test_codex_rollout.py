"""What Codex's rollout says of its turns: the turns of a captured one of 0.169, then the reader over a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agent_types.codex_rollout import CodexFiles, last_event
from selftest_core.agent_types.condition import Kind
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LINES = (ROOT / "tests" / "fixtures" / "codex" / "0.169" / "turns.jsonl").read_bytes().splitlines(keepends=True)


def test_each_turn_of_a_captured_rollout() -> None:
    kinds = []
    for end in range(1, len(LINES) + 1):
        condition = last_event(b"".join(LINES[:end]))
        assert condition is not None
        assert condition.since is not None
        kinds.append(condition.kind)
    turn = [Kind.WORKING, Kind.TURN_ENDED]
    assert kinds == [*turn, *turn, Kind.WORKING, Kind.INTERRUPTED, Kind.WORKING, Kind.ERROR]
    last = last_event(b"".join(LINES))
    assert last is not None
    assert last.text.startswith("API error: Your credit balance is too low")


def test_lines_of_any_form_are_passed_over() -> None:
    assert last_event(b"") is None
    assert last_event(b'{"type":"event_msg"}\n"event_msg"\n["event_msg"]\n{"type":"event_msg","payload":3}\n') is None
    torn = LINES[0] + b'{"type":"event_msg","payload":{"type":"task_com'
    found = last_event(torn)
    assert found is not None
    assert found.kind is Kind.WORKING


def test_only_a_rollout_below_the_agents_folder_is_read(tmp_path: Path) -> None:
    agent = tmp_path / "agent-1"
    sessions = agent / "plugin" / "codex" / "home" / "sessions" / "2026"
    sessions.mkdir(parents=True)
    rollout = sessions / "rollout.jsonl"
    rollout.write_bytes(LINES[0])
    pointer = agent / "codex_transcript_path"
    files = CodexFiles()
    assert files.condition(str(agent)) is None
    pointer.write_text(str(rollout))
    found = files.condition(str(agent))
    assert found is not None
    assert found.kind is Kind.WORKING
    assert files.folder(str(agent)) == str(sessions)
    rollout.write_bytes(b"".join(LINES[:2]))
    ended = files.condition(str(agent))
    assert ended is not None
    assert ended.kind is Kind.TURN_ENDED
    elsewhere = tmp_path / "rollout.jsonl"
    elsewhere.write_bytes(LINES[0])
    pointer.write_text(str(elsewhere))
    assert files.condition(str(agent)) is None
    rollout.unlink()
    rollout.symlink_to(elsewhere)
    pointer.write_text(str(rollout))
    assert files.condition(str(agent)) is None
