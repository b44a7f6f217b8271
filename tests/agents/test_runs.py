"""A run of five tests with the real Claude Code: mended, unchanged, limited, interrupted and crashed.

What the run says of outcomes, tokens and conversations is compared with what the scripted model's log says it sent.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from agents.real_agents import Real, real_agents
from run.shop import commit
from selftest_core.demo.scripted_model.testers import Stage
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
    """The run when it has ended: its lines, its folder, and the agents by test."""

    def __init__(self, real: Real, lines: list[dict[str, Any]]) -> None:
        self.real = real
        self.summary = lines[-1]
        self.lines = lines
        self.folder: Path = real.world.repository / ".selftest" / "runs" / self.summary["run"]
        self.agents = {line["test"]: line for line in lines if line["event"] == "ended" and line.get("test")}


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
    """Press Esc in the agent that dawdles, as a person would."""

    def dawdles() -> str:
        for line in out.read_text().splitlines():
            entry = json.loads(line)
            if entry.get("event") == "launching" and entry.get("test") == INTERRUPTED:
                real.ids["interrupted"] = entry["agent_id"]
                asked = [one for one in real.lines("interrupted") if one["event"] == "asked" and one["step"] == 1]
                return str(entry["name"]) if asked else ""
        return ""

    name = eventually(dawdles, f"the agent that dawdles\n{said.read_text()}", patience=PATIENCE * 4)
    real.press(name, "Escape")


def test_every_outcome_is_right(ran: Ran) -> None:
    outcomes = ran.summary["outcomes"]
    assert outcomes["succeeded"] == 1
    assert outcomes["unchanged"] == 3
    assert outcomes["failed"]["crash"] == 1
    assert ran.summary["tests"] == 5


def test_the_change_is_laid(ran: Ran) -> None:
    (item,) = ran.summary["line"]["items"]
    assert item["kind"] == "implementation"


def test_tokens_metered_are_tokens_sent(ran: Ran) -> None:
    raise AssertionError(json.dumps(ran.lines, indent=1))
