"""A run of five tests with the real Claude Code: mended, unchanged, limited, interrupted and crashed.

What the run says of outcomes, tokens and conversations is compared with what the scripted model's log says it sent.
"""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from agents.real_agents import Real, note, real_agents
from core.run.shop import commit
from selftest_core.demo.scripted_model.testers import Stage
from selftest_recorder.cast.events import MARKER
from selftest_recorder.cast.reader import read_cast
from worlds import BIN, PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.agents, pytest.mark.timeout(1200)]

FILES = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "cart.py": "def total(prices):\n    return sum(prices) - 1\n",
    "tests/test_cart.py": "from cart import total\n\ndef test_total(): assert total([1, 2]) == 3\n",
    "tests/test_same.py": "def test_same(): pass\n",
    "tests/test_limited.py": "def test_limited(): pass\n",
    "tests/test_interrupted.py": "def test_interrupted(): pass\n",
    "tests/test_crashed.py": "def test_crashed(): pass\n",
}
MENDED, SAME, LIMITED, INTERRUPTED, CRASHED = (
    f"tests/test_{name}.py::test_{test}"
    for name, test in (
        ("cart", "total"), ("same", "same"), ("limited", "limited"), ("interrupted", "interrupted"),
        ("crashed", "crashed"),
    )
)  # fmt: skip
KINDS = {"input": "input", "cached": "cache_read", "cache_write": "cache_creation", "output": "output"}
"""The counts of tokens: our names, and those of the model's log."""
STORIES: dict[str, list[list[Any]]] = {
    MENDED: [
        ["say", "I own the sum."],
        ["test"],
        ["edit", "cart.py", "sum(prices) - 1", "sum(prices)"],
        ["commit", "FIX_IMPL", "Count the last price", "It was one short."],
        ["test"],
        ["report", "The sum is right now.", {}],
    ],
    SAME: [["test"], ["report", "Nothing to change.", {}]],
    LIMITED: [["limit", 2, 2], ["test"], ["report", "Nothing to change, after a limit.", {}]],
    INTERRUPTED: [["dawdle", 300.0], ["say", "I think about it."], ["test"], ["report", "Nothing to change.", {}]],
    CRASHED: [["test"], ["crash", "ConnectionRefusedError: no sandbox"]],
}


class Ran:
    """The run when it has ended: its lines, its folder, and its agents' ids by test."""

    def __init__(self, real: Real, lines: list[dict[str, Any]]) -> None:
        self.real = real
        self.summary = lines[-1]
        self.lines = lines
        self.folder: Path = real.world.repository / ".selftest" / "runs" / self.summary["run"]
        self.agents = {line["test"]: line for line in lines if line["event"] == "launching" and line["test"] in STORIES}
        for test, line in self.agents.items():
            real.ids[test] = line["agent_id"]

    def sent(self, test: str) -> dict[str, int]:
        """The tokens that the model says it sent to a test's agent, without what its program asked for itself."""
        return counted(self.real.lines(test))

    def metered(self, test: str) -> dict[str, int]:
        """The tokens that the run says the agent used: its journal's last word."""
        (*_, last) = [line for line in self.lines if line["event"] == "metered" and line["test"] == test]
        return {name: last["usage"][name] for name in KINDS}

    def kept(self, test: str, name: str) -> Path:
        """A file that was kept of the test's agent."""
        (file,) = self.folder.glob(f"agents/{self.agents[test]['agent']}/attempt-1/{name}")
        return file


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    with real_agents(Stage(STORIES)) as real:
        for name, text in FILES.items():
            path = real.world.repository / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        real.world.run(["git", "config", "user.name", "t"])
        real.world.run(["git", "config", "user.email", "t@example.org"])
        commit(real.world, "A shop")
        out, said = real.world.root / "run.jsonl", real.world.root / "run.err"
        command: list[str | Path] = [
            BIN / "selftest-tui", "run", "--batch", "--agent", "claude", "--max-running", "3", "--timeout", "500",
            "--on-cluster", "go", "--set", f"pytest_command={BIN / 'python'} -m pytest -p no:cacheprovider",
        ]  # fmt: skip
        with out.open("w") as stdout, said.open("w") as stderr:
            process = subprocess.Popen(
                command, cwd=real.world.repository, env=real.world.environment, stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr,
            )  # fmt: skip
        try:
            interrupt(real, out, said)
            status = process.wait(PATIENCE * 5)
        finally:
            process.kill()
            process.wait()
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert status == 1, said.read_text()
        yield Ran(real, lines)


def interrupt(real: Real, out: Path, said: Path) -> None:
    """Press Esc in the agent that dawdles, as a person would, and tell it to go on once the run says what it needs."""

    def lines(event: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
        return [line for line in found if line["event"] == event and line["test"] == INTERRUPTED]

    def dawdles() -> str:
        for line in lines("launching"):
            real.ids[INTERRUPTED] = line["agent_id"]
            if any(one["event"] == "asked" and one["step"] == 1 for one in real.lines(INTERRUPTED)):
                return str(line["name"])
        return ""

    name = eventually(dawdles, "the agent that dawdles", patience=PATIENCE * 3)
    pressed = real.answer(name, " to interrupt", "Escape")

    def is_noticed() -> bool:
        return any("interrupted" in str(line["reason"]) for line in lines("noticed"))

    eventually(is_noticed, f"the need of the interrupted agent\n{said.read_text()}\n{real.screen(name)}")
    (noticed, *_) = [line for line in lines("noticed") if "interrupted" in str(line["reason"])]
    note("Esc in a run, noticed by its conductor", round(instant(noticed["at"]) - pressed, 2), "s")
    real.say(name, "Go on as .selftest/prompt.md says.")


def counted(lines: list[dict[str, Any]]) -> dict[str, int]:
    """The tokens in lines of the model's log; of an answer that was broken off, those that its beginning told."""
    by_message = {line["message"]: line["usage"] for line in lines if "usage" in line}
    return {name: sum(usage[kind] for usage in by_message.values()) for name, kind in KINDS.items()}


def instant(text: str) -> float:
    """Seconds since the epoch of an ISO 8601 time."""
    return datetime.fromisoformat(text).timestamp()


def test_every_outcome_is_right(ran: Ran) -> None:
    outcomes = ran.summary["outcomes"]
    assert outcomes["succeeded"] == 1
    assert outcomes["unchanged"] == 3
    assert outcomes["failed"]["crash"] == 1
    assert ran.summary["tests"] == 5


def test_a_smoke_agent_went_ahead(ran: Ran) -> None:
    (smoke,) = ran.summary["smoke"]
    assert (smoke["type"], smoke["outcome"]) == ("claude", "succeeded")
    events = [line["event"] for line in ran.lines]
    assert events.index("smoked") < events.index("launching")
    note("smoke agent", smoke["seconds"], "s")


def test_the_change_is_laid(ran: Ran) -> None:
    (item,) = ran.summary["line"]["items"]
    assert item["kind"] == "implementation"


@pytest.mark.parametrize("test", STORIES, ids=lambda test: test.partition("::")[2])
def test_tokens_metered_are_tokens_sent(ran: Ran, test: str) -> None:
    assert ran.metered(test) == ran.sent(test)
    assert ran.sent(test)["output"] > 0


def test_tokens_of_the_run_are_those_of_all_its_agents(ran: Ran) -> None:
    told = ran.summary["usage"]
    sent = counted([line for line in ran.real.lines() if not line["is_aside"]])
    assert {name: told[name] for name in KINDS} == sent
    # The smoke agent's are among them.
    assert len({line["conversation"] for line in ran.real.lines() if not line["is_aside"]}) == len(STORIES) + 1


@pytest.mark.parametrize("test", STORIES, ids=lambda test: test.partition("::")[2])
def test_conversations_are_kept(ran: Ran, test: str) -> None:
    words = ran.kept(test, "conversation.txt").read_text()
    assert "Read .selftest/prompt.md" in words
    assert "I will read my task." in words
    assert [json.loads(line) for line in ran.kept(test, "conversation.jsonl").read_text().splitlines()]


def test_a_crash_is_told_with_its_conversation(ran: Ran) -> None:
    assert "kill -9" in ran.kept(CRASHED, "conversation.txt").read_text()


def test_recordings_are_kept(ran: Ran) -> None:
    recording = ran.kept(MENDED, "terminal.cast")
    (outcome,) = [event for event in read_cast(recording).events() if event.data == "outcome" and event.code == MARKER]
    command: list[str | Path] = [
        BIN / "selftest-tui",
        "replay",
        recording,
        "--at",
        f"{outcome.time:.2f}",
        "--format",
        "text",
    ]
    assert "I own the sum." in ran.real.world.run(command).stdout
