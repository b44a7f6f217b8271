"""The demo with the real Claude Code: its block of the tutorial, as it stands."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agents.real_agents import PROGRAMS
from worlds import BIN, eventually

if TYPE_CHECKING:
    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]


def test_demo_with_claude(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block("""
        # The same with the real Claude Code, on a scripted model of this machine: no key, no network. It must be installed.
        selftest-tui demo --agent claude --batch > run.jsonl || test $? = 1
    """)  # noqa: E501 -- the block's own line
    node = shutil.which("node")
    world.extra["PATH"] = os.pathsep.join(
        [str(PROGRAMS), str(BIN), *([str(Path(node).parent)] if node else []), "/usr/local/bin:/usr/bin:/bin"]
    )
    temporary = world.root / "d"
    temporary.mkdir()
    done = block.run(environment={**world.environment, "TMPDIR": str(temporary)}, cwd=world.root, timeout=800.0)
    assert done.exit_status == 0, f"{done.stdout}\n{done.stderr}"
    lines = [json.loads(line) for line in (world.root / "run.jsonl").read_text().splitlines()]
    assert lines[-1]["event"] == "summary"
    outcomes = lines[-1]["outcomes"]
    assert (outcomes["succeeded"], outcomes["unchanged"], outcomes["blocked"]) == (3, 1, 0), done.stderr
    # The blocked one was answered, and went on with its conversation.
    (answered,) = [line for line in lines if line["event"] == "answered"]
    assert answered["continues"] is True
    assert [item["decision"] for item in lines[-1]["line"]["items"]] == ["keep"] * 4
    eventually(lambda: not list(temporary.glob("selftest-demo-*")), "the end of the demo's folder")
