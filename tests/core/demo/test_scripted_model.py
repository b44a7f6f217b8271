"""The scripted model with requests of both APIs: plays, errors, limits of requests, and its log."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.demo.scripted_model.plays import PLAYS
from selftest_core.demo.scripted_model.server import LARGEST_BODY, ModelServer
from selftest_core.demo.scripted_model.testers import Stage
from simulated.model import running_model
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEST = "tests/test_cart.py::test_total"
PROMPT = f"# Your task: one test\n\n```\n{TEST}\n```\n\n```\npython -m pytest {TEST}\n```\n"
STORY: list[list[Any]] = [
    ["say", "I own it."],
    ["test"],
    ["edit", "cart.py", "old", "new"],
    ["commit", "FIX_IMPL", "Mend the total", "It was wrong."],
    ["test"],
    ["report", "Mended.", {"importance": {"level": "high", "reason": "Money."}}],
]


class Asker:
    """One agent's side of a conversation with the Messages API."""

    def __init__(self, model: ModelServer, folder: str = "/work") -> None:
        self._address = model.server_address
        self.system = f"Primary working directory: {folder}"
        self.tools = [{"name": name} for name in ("Bash", "Read", "Edit", "Write", "AskUserQuestion")]
        self.messages: list[dict[str, Any]] = []

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection(str(self._address[0]), int(self._address[1]), timeout=60)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"x-claude-code-session-id": "one", **headers})
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, said

    def ask(self, **more: Any) -> tuple[int, dict[str, str], str]:
        body = {"model": "m", "system": self.system, "messages": self.messages, "tools": self.tools, **more}
        return self.post("/v1/messages?beta=true", body)

    def say(self, text: str) -> dict[str, Any]:
        """Send a user message; return the whole answer."""
        self.messages.append({"role": "user", "content": text})
        return self._next()

    def hand(self, result: str) -> dict[str, Any]:
        """Send a tool's result; return the whole answer."""
        part = {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": result}]}
        self.messages.append({"role": "user", "content": [part]})
        return self._next()

    def _next(self) -> dict[str, Any]:
        status, _, said = self.ask()
        assert status == 200, said
        answer: dict[str, Any] = json.loads(said)
        self.messages.append({"role": "assistant", "content": answer["content"]})
        return answer


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def model(log: Path) -> Iterator[ModelServer]:
    with running_model(log, Stage({TEST: STORY})) as server:
        yield server


def calls(answer: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(part["name"], part["input"]) for part in answer["content"] if part["type"] == "tool_use"]


def words(answer: dict[str, Any]) -> str:
    return "".join(part["text"] for part in answer["content"] if part["type"] == "text")


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_play_is_chosen_by_the_last_words_and_goes_on_by_results(model: ModelServer) -> None:
    agent = Asker(model)
    assert words(agent.say("good morning")) == "Hello. I am a scripted model."
    asked = agent.say("PLAY bash ls -l\nthanks")
    assert calls(asked) == [("Bash", {"command": "ls -l", "description": "As asked"})]
    assert asked["stop_reason"] == "tool_use"
    told = agent.hand("cart.py")
    assert words(told) == "It said: cart.py"
    assert told["stop_reason"] == "end_turn"
    assert [name for name, _ in calls(agent.say("PLAY choose"))] == ["AskUserQuestion"]


def test_every_play_answers(model: ModelServer) -> None:
    for name in PLAYS:
        agent = Asker(model)
        agent.messages = [{"role": "user", "content": f"PLAY {name} 1 1"}]
        status, _, said = agent.post(
            "/v1/messages",
            {"model": "m", "messages": agent.messages, "tools": agent.tools},
            **{"x-claude-code-session-id": name},
        )
        refused = {"limit": 429, "busy": 529, "denied": 401, "poor": 400}
        assert status == refused.get(name, 200), (name, said)


def test_a_tester_reads_its_prompt_and_works_through_its_story(model: ModelServer) -> None:
    agent = Asker(model, "/copies/a")
    made = [calls(agent.say("Read .selftest/prompt.md and do what it says."))]
    numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(PROMPT.splitlines(), 1))
    for result in (
        numbered,
        "1 failed in 0.1s",
        "old",
        "edited",
        "[main 1234] committed",
        "1 passed in 0.1s",
        "ok",
        "ok",
    ):
        made.append(calls(agent.hand(result)))
    assert [name for ((name, _),) in made[:-1]] == ["Read", "Bash", "Read", "Edit", "Bash", "Bash", "Write", "Bash"]
    assert made[-1] == []
    assert made[0][0][1] == {"file_path": "/copies/a/.selftest/prompt.md"}
    assert made[1][0][1]["command"] == f"python -m pytest {TEST}"
    assert "[FIX_IMPL] Mend the total" in made[4][0][1]["command"]
    outcome = json.loads(made[6][0][1]["content"])
    assert (outcome["tests_passing_before"], outcome["tests_passing_after"]) == (False, True)
    assert outcome["changes"]["FIX_IMPL"]["status"] == "SUCCEEDED"
    assert outcome["importance"]["level"] == "high"


def test_a_story_is_found_by_its_role_and_writes_a_new_file_that_is_committed(log: Path) -> None:
    task = "# Your task: the tests of one block\n\n```\ntutorial.sh:9 shop\n```\n"
    prompt = f"{task}\n## How to run tests\n\n```\npy -q\n```\n"
    story: list[list[Any]] = [["create", "test_new.py", "x = 1\n"], ["test", "test_new.py"]]
    with running_model(log, Stage({"writer": story})) as model:
        agent = Asker(model, "/copies/a")
        agent.say("Read .selftest/prompt.md and do what it says.")
        ((name, given),) = calls(agent.hand(prompt))
        assert (name, given) == ("Write", {"file_path": "/copies/a/test_new.py", "content": "x = 1\n"})
        assert calls(agent.hand("ok"))[0][1]["command"] == "git add --intent-to-add -- test_new.py"
        assert calls(agent.hand("ok"))[0][1]["command"] == "py -q test_new.py"


def test_a_message_behind_a_report_answers_the_question_of_the_story(log: Path) -> None:
    asks = ["ask", "Cut or refuse?", ["Cut it", "Refuse it"], [[["say", "I cut."]], [["bash", "refuse"]], []]]
    with running_model(log, Stage({TEST: [asks]})) as model:
        agent = Asker(model)
        agent.say("Read .selftest/prompt.md and do what it says.")
        assert calls(agent.hand(PROMPT)) == []
        agent.say("Please: refuse it. And report anew.")
        assert calls(agent.hand(PROMPT))[0][1]["command"] == "refuse"
        assert words(agent.say("Thank you.")) == "Hello. I am a scripted model."


def test_a_forgetful_tester_reports_behind_a_reminder(log: Path) -> None:
    with running_model(log, Stage({TEST: [["forget"], ["report", "Nothing to do.", {}]]})) as model:
        agent = Asker(model)
        agent.say("Read .selftest/prompt.md and do what it says.")
        assert calls(agent.hand(PROMPT)) == []
        agent.say("You have not reported: see .selftest/prompt.md")
        assert [name for name, _ in calls(agent.hand(PROMPT))] == ["Write"]


def test_a_stream_says_what_a_whole_answer_says(model: ModelServer, log: Path) -> None:
    agent = Asker(model)
    agent.messages = [{"role": "user", "content": "PLAY bash ls"}]
    status, headers, said = agent.ask(stream=True)
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in said.splitlines() if line.startswith("data: ")]
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    text = "".join(event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta")
    given = "".join(event["delta"]["partial_json"] for event in events if "partial_json" in event.get("delta", {}))
    assert (text, json.loads(given)["command"]) == ("I run it.", "ls")
    told = next(event["usage"] for event in events if event["type"] == "message_delta")
    (noted,) = [line for line in lines(log) if line["event"] == "answered"]
    assert noted["usage"]["output"] == told["output_tokens"] > 0
    assert noted["usage"]["cache_read"] == told["cache_read_input_tokens"] > 0
    assert noted["message"] == events[0]["message"]["id"]


def test_responses_are_streamed_with_their_numbers(model: ModelServer, log: Path) -> None:
    agent = Asker(model)
    person = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "PLAY bash ls"}]}
    body = {"model": "c", "input": [person], "tools": [{"name": "exec_command"}], "prompt_cache_key": "two"}
    _, _, said = agent.post("/v1/responses", body)
    events = [json.loads(line.removeprefix("data: ")) for line in said.splitlines() if line.startswith("data: ")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    whole = events[-1]["response"]
    (call,) = [item for item in whole["output"] if item["type"] == "function_call"]
    assert json.loads(call["arguments"]) == {"cmd": "ls"}
    (noted,) = [line for line in lines(log) if line["event"] == "answered"]
    assert noted["conversation"] == "two"
    used = noted["usage"]
    assert whole["usage"]["input_tokens"] == used["input"] + used["cache_read"] + used["cache_creation"]


def test_a_limit_refuses_so_often_and_then_answers(model: ModelServer, log: Path) -> None:
    agent = Asker(model)
    agent.messages = [{"role": "user", "content": "PLAY limit 2 7"}]
    first = agent.ask()
    assert (first[0], first[1]["retry-after"], first[1]["x-should-retry"]) == (429, "7", "true")
    assert [agent.ask()[0] for _ in range(3)] == [429, 200, 200]
    assert [line["status"] for line in lines(log) if line["event"] == "refused"] == [429, 429]


def test_a_stream_that_is_cut_is_told_in_the_log(model: ModelServer, log: Path) -> None:
    agent = Asker(model)
    agent.messages = [{"role": "user", "content": "PLAY cut 1"}]
    assert "message_stop" not in agent.ask(stream=True)[2]
    assert "message_stop" in agent.ask(stream=True)[2]
    noted = lines(log)
    assert [line["event"] for line in noted] == ["asked", "begun", "broken", "asked", "begun", "answered"]
    assert noted[1]["usage"] == {**noted[5]["usage"], "output": 1}


@pytest.mark.parametrize("body", [b"", b"[]", b"no json", b"\xff"])
def test_a_request_that_is_none_is_refused(model: ModelServer, body: bytes) -> None:
    assert Asker(model).post("/v1/messages", body)[0] == 400


def test_a_giant_request_is_refused_unread(model: ModelServer) -> None:
    with socket.create_connection((str(model.server_address[0]), int(model.server_address[1])), timeout=30) as line:
        line.sendall(f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {LARGEST_BODY + 1}\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 400")


def test_it_listens_on_this_machine_alone(model: ModelServer) -> None:
    assert model.server_address[0] == "127.0.0.1"


def test_the_program_tells_its_address_and_ends_with_its_parent(tmp_path: Path) -> None:
    url, log = tmp_path / "url", tmp_path / "log"
    command = [sys.executable, "-m", "selftest_core.demo.scripted_model", "--log", str(log), "--url", str(url)]
    start = f"subprocess.Popen({[*command, '--with-parent']!r})"
    parent = f"import subprocess, sys; print({start}.pid, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        eventually(url.exists, "the address of the model")
        assert url.read_text().startswith("http://127.0.0.1:")
        os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(child), "the end of the model")


def is_alive(pid: int) -> bool:
    """True while a process runs; False for a zombie."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() not in ("", "Z")
