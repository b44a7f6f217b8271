"""Missing tests written by the real Claude Code on the scripted model: it reads the prompt, and passes the gate.

It proves the way from prompt to review, and says nothing about the judgement of a model.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.real_agents import real_agents
from e2e.test_tutorial_sync import GOOD, REFUSES, TEA, write_shop
from selftest_core.demo.scripted_model.testers import Stage
from worlds import BIN, PATIENCE

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]

WRITTEN = (
    "import subprocess\n\n\n"
    "def run(line):\n    return subprocess.run(line, shell=True, capture_output=True, text=True)\n"
    + TEA.format(name="", body=GOOD)
    + TEA.format(name="_and_air", body=REFUSES)
)
STORY: list[list[Any]] = [
    ["say", "I own the price of tea."],
    ["create", "tests/test_tea.py", WRITTEN],
    ["test", "tests/test_tea.py"],
    ["commit", "CREATE_TEST", "Test the price of tea", "A happy and an unhappy test cite the block."],
    ["report", "Two tests cite the block, and pass.", {}],
]


def test_claude_writes_the_tests_of_a_block() -> None:
    with real_agents(Stage({"writer": STORY})) as real:
        write_shop(real.world)
        done = real.world.run(
            [
                BIN / "selftest-tui", "sync", "--batch", "--agent", "claude", "--timeout", "300",
                "--set", f"pytest_command={BIN / 'python'} -m pytest -p no:cacheprovider",
            ],
            check=False,
            timeout=PATIENCE * 5,
        )  # fmt: skip
        summary = json.loads(done.stdout.splitlines()[-1])
        assert summary["outcomes"]["succeeded"] == 1, done.stderr
        assert summary["line"]["check"] == {"ok": True, "uncited": [], "stale": []}
        assert done.returncode == 0
