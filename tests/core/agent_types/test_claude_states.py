"""What Claude Code's own files say of its state: captured ones of 2.1.330, then the reader over files that change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from selftest_core.agent_types.claude_files import ClaudeFiles, retrying
from selftest_core.agent_types.claude_status import is_of_live_process, parse_session
from selftest_core.agent_types.claude_turns import NO_TURN, LastTurn, asked_words, last_turn
from selftest_core.agent_types.condition import Condition, Kind, from_claude, reason
from worlds import ROOT

STATES = ROOT / "tests" / "fixtures" / "claude" / "2.1.330" / "states"

CAPTURED = {
    "streaming": (Kind.WORKING, ""),
    "permission": (Kind.PERMISSION, "asks for permission: Bash touch hello"),
    "permission_escaped": (Kind.INTERRUPTED, "its turn was interrupted"),
    "question": (Kind.QUESTION, "asks: How shall prices be rounded?"),
    "dialog": (Kind.DIALOG, "waits at a dialog"),
    "turn_ended": (Kind.TURN_ENDED, "its turn ended"),
    "interrupted": (Kind.INTERRUPTED, "its turn was interrupted"),
    "interrupted_at_once": (Kind.INTERRUPTED, "its turn was interrupted"),
    "key_refused": (Kind.ERROR, "API error: Invalid API key · Fix external API key (401)"),
    "no_credit": (Kind.ERROR, "API error: Credit balance is too low (400)"),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_files_say_what_a_person_needs(name: str) -> None:
    session = parse_session((STATES / f"{name}.session.json").read_bytes())
    turn = last_turn((STATES / f"{name}.jsonl").read_bytes(), is_whole=True)
    condition = from_claude(session, turn)
    assert condition is not None
    assert (condition.kind, reason(condition)) == CAPTURED[name]
    assert condition.since == json.loads((STATES / f"{name}.session.json").read_bytes())["statusUpdatedAt"] / 1000


def test_mngrs_marker_tells_compaction_from_work() -> None:
    session = parse_session((STATES / "compacting.session.json").read_bytes())
    condition = from_claude(session, NO_TURN, is_compacting=True)
    assert condition is not None
    assert condition.kind is Kind.COMPACTING
    assert reason(condition) == "compacting its conversation"


@pytest.mark.parametrize(
    ("screen", "says"),
    [
        ("✻ API error · retrying in 8s · attempt 2/10\n────\n> \n", "API error · attempt 2/10"),
        (
            "✻ 529 Overloaded · retrying in 25s · attempt 8/10\n  ⎿  If it persists\n> \n",
            "529 Overloaded · attempt 8/10",
        ),
        ("✻ Connection refused — (ECONNREFUSED) · retrying in 4s · attempt 4/10\n", "Connection refused"),
        ("● It says 529 Overloaded, so it is retrying in 25s at the latest\n", ""),
        ("  ⎿  API Error (529 overloaded) · Retrying in 5 seconds… (attempt 3/10)\n", "API Error (529 overloaded)"),
        ("● I write a function that retries: on an API error it is retrying in 3s\n", ""),
        ("API error · retrying in 8s · attempt 2/10\n" + "a line of a later answer\n" * 20, ""),
        ("", ""),
    ],
)
def test_a_request_that_is_sent_again_is_read_from_the_end_of_the_screen(screen: str, says: str) -> None:
    assert retrying(screen).startswith(says)
    assert bool(retrying(screen)) == bool(says)


@pytest.mark.parametrize(
    "text",
    [
        b"", b'{"pid":1', b"[]", b'{"pid":true,"sessionId":"12345678"}', b'{"pid":1}', b"[" * 100_000,
        b'{"pid":1,"sessionId":"../../etc/passwd"}',
    ],
)  # fmt: skip
def test_a_file_that_is_not_whole_or_not_a_session_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_session(text)


def test_words_that_are_not_known_say_nothing() -> None:
    session = parse_session(b'{"pid":1,"sessionId":"12345678","status":"dreaming"}')
    assert session.status == ""
    assert from_claude(session, NO_TURN) is None


def test_a_process_of_the_same_number_is_another_one_where_it_began_at_another_time() -> None:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split() if Path("/proc/self/stat").exists() else []
    if not fields:
        pytest.skip("there is no /proc")
    said = {"pid": os.getpid(), "sessionId": "12345678", "procStart": fields[19]}
    assert is_of_live_process(parse_session(json.dumps(said).encode()))
    assert not is_of_live_process(parse_session(json.dumps({**said, "procStart": "1"}).encode()))


def said(kind: str, content: object, **more: object) -> bytes:
    return json.dumps({"type": kind, "message": {"role": kind, "content": content}, **more}).encode() + b"\n"


def test_lines_that_nobody_said_are_passed_over() -> None:
    answer = said("assistant", [{"type": "text", "text": "Done."}], timestamp="2026-11-22T09:00:00Z")
    noise = (
        said("user", "<local-command-stdout>compacted</local-command-stdout>")
        + said("user", "a summary", isCompactSummary=True)
        + said("user", "a note", isMeta=True)
        + said("assistant", [{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}], isSidechain=True)
        + b'{"type":"system","subtype":"turn_duration"}\n{"torn'
    )
    turn = last_turn(answer + noise, is_whole=True)
    assert turn.is_there
    assert not turn.asked_tool
    assert turn.at == 1_795_338_000.0


def test_the_first_call_without_an_answer_is_the_one_that_waits() -> None:
    def call(number: int, command: str) -> dict[str, object]:
        return {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}

    lines = said("user", "do it") + said("assistant", [call(1, "ls")]) + said("assistant", [call(2, "rm -r build")])
    lines += said("assistant", [call(3, "make")]) + said("user", [{"type": "tool_result", "tool_use_id": "t1"}])
    assert last_turn(lines, is_whole=True).asked == "Bash rm -r build"


@pytest.mark.parametrize(
    "call",
    [{}, {"name": 3, "input": 4}, {"name": "AskUserQuestion", "input": {"questions": [1, {"question": 2}]}}],
)
def test_a_call_of_any_form_has_words(call: dict[str, object]) -> None:
    assert isinstance(asked_words(call), str)


def test_words_that_nothing_follows_were_interrupted() -> None:
    answer = said("assistant", [{"type": "text", "text": "Done."}])
    assert last_turn(answer + said("user", "and now?"), is_whole=True).is_interrupted
    assert not last_turn(said("user", "and now?") + answer, is_whole=True).is_interrupted


def test_a_cut_first_line_is_no_line() -> None:
    assert last_turn(said("user", "hello"), is_whole=False) == NO_TURN
    assert last_turn(b"", is_whole=True) == NO_TURN == LastTurn()


class Claude:
    """The files of one agent, written as Claude Code and mngr write them. Its process is this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "agents" / "agent-1"
        self.config = self.folder / "plugin" / "claude" / "anthropic"
        (self.config / "sessions").mkdir(parents=True)
        (self.folder / "env").write_text(f"A=1\nCLAUDE_CONFIG_DIR={self.config}\n")
        self.files = ClaudeFiles({"HOME": str(folder)})
        self.pid = os.getpid()
        self.path = self.config / "sessions" / f"{self.pid}.json"

    def session(self, status: str, waiting_for: str = "", *, cwd: str = "/w/one.two") -> None:
        said = {"pid": self.pid, "sessionId": "0a1b2c3d-0000", "cwd": cwd, "status": status, "statusUpdatedAt": 5_000}
        self.path.write_text(json.dumps({**said, "waitingFor": waiting_for} if waiting_for else said))

    def conversation(self, lines: bytes, folder: str = "-w-one-two") -> Path:
        path = self.config / "projects" / folder / "0a1b2c3d-0000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines)
        return path

    def condition(self) -> Condition | None:
        return self.files.condition(str(self.folder), self.pid)

    def kind(self) -> Kind | None:
        condition = self.condition()
        return condition.kind if condition is not None else None


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    return Claude(tmp_path)


def test_the_reader_follows_what_is_written(claude: Claude) -> None:
    assert claude.condition() is None
    claude.session("busy")
    assert claude.kind() is Kind.WORKING
    claude.session("idle")
    assert claude.kind() is Kind.READY
    path = claude.conversation(said("user", "work") + said("assistant", [{"type": "text", "text": "Done."}]))
    assert claude.kind() is Kind.TURN_ENDED
    path.write_bytes(path.read_bytes() + said("user", [{"type": "text", "text": "[Request interrupted by user]"}]))
    assert claude.kind() is Kind.INTERRUPTED
    assert claude.files.progress_at(str(claude.folder)) == pytest.approx(path.stat().st_mtime)


def test_half_a_file_leaves_what_was_known(claude: Claude) -> None:
    claude.session("waiting", "permission prompt")
    assert claude.kind() is Kind.PERMISSION
    claude.path.write_text('{"pid": 12')
    assert claude.kind() is Kind.PERMISSION
    claude.session("busy")
    assert claude.kind() is Kind.WORKING


def test_the_file_of_another_process_says_nothing(claude: Claude) -> None:
    claude.session("busy")
    assert claude.files.condition(str(claude.folder), claude.pid + 1) is None
    claude.path.write_text(claude.path.read_text().replace(str(claude.pid), "1"))
    assert claude.condition() is None


def test_links_are_not_followed(claude: Claude, tmp_path: Path) -> None:
    claude.session("idle")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "0a1b2c3d-0000.jsonl").write_bytes(said("user", "secret"))
    (claude.config / "projects").mkdir()
    (claude.config / "projects" / "-w-one-two").symlink_to(elsewhere)
    assert claude.kind() is Kind.READY
    claude.path.rename(tmp_path / "real.json")
    claude.path.symlink_to(tmp_path / "real.json")
    assert claude.condition() is None


def test_a_conversation_in_a_folder_of_another_name_is_found(claude: Claude) -> None:
    claude.session("idle", cwd="/w/" + "long" * 100)
    claude.conversation(said("user", "work") + said("assistant", "Done."), folder="-w-longlong-abc123")
    assert claude.kind() is Kind.TURN_ENDED


def test_only_a_bounded_part_of_a_long_conversation_is_read(claude: Claude) -> None:
    claude.session("waiting", "permission prompt")
    call = {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "/w/cart.py"}}
    noise = b'{"type":"api-request-blob","message":"' + b"x" * 300_000 + b'"}\n'
    claude.conversation(said("user", "go") * 100_000 + said("assistant", [call]) + noise)
    condition = claude.condition()
    assert condition is not None
    assert condition.text == "Write /w/cart.py"


def test_the_screen_tells_of_a_request_that_is_sent_again(claude: Claude) -> None:
    claude.session("busy")
    claude.files.note_screen(str(claude.folder), "✻ API error · retrying in 8s · attempt 2/10")
    assert claude.kind() is Kind.RETRYING
    claude.files.note_screen(str(claude.folder), "● The limit is over.")
    assert claude.kind() is Kind.WORKING
