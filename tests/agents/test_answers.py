"""A blocked agent of the real Claude Code, whose run has ended, is answered: it goes on with its conversation.

What the run says of its tokens is compared with what the scripted model's log says it sent to that one conversation.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agents.real_agents import note, real_agents
from agents.test_runs import FILES, KINDS, MENDED, counted
from core.run.shop import commit
from selftest_core.demo.scripted_model.testers import Stage
from selftest_core.run.overview import own_folders
from selftest_core.run.spending import used_by
from worlds import BIN, PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]

BLOCKED = {
    "escalations": [{"kind": "BLOCKER", "title": "Is the last price free?", "detail_markdown": "It is left out."}]
}
STORY: list[list[Any]] = [
    ["say", "I own the sum."],
    [
        "ask",
        "Is the last price free?",
        ["Count it", "It is free"],
        [
            [
                ["edit", "cart.py", "sum(prices) - 1", "sum(prices)"],
                ["commit", "FIX_IMPL", "Count the last price", "As a person decided."],
                ["test"],
                ["report", "The last price is counted, as was decided.", {}],
            ],
            [["report", "Left as it is.", {}]],
            [["report", "Blocked: somebody must say what the last price is.", BLOCKED]],
        ],
    ],
]


def test_a_blocked_agent_goes_on_with_its_conversation_after_its_run_has_ended() -> None:
    with real_agents(Stage({MENDED: STORY})) as real:
        world = real.world
        for name, text in FILES.items():
            path = world.repository / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        world.run(["git", "config", "user.name", "t"])
        world.run(["git", "config", "user.email", "t@example.org"])
        commit(world, "A shop")
        pytest_command = f"pytest_command={BIN / 'python'} -m pytest -p no:cacheprovider"
        ours: list[str | Path] = [BIN / "selftest-tui"]
        begin = [*ours, "run", "--batch", "--agent", "claude", "--no-smoke", "--set", pytest_command, MENDED]
        world.run(begin, check=False, timeout=PATIENCE * 5)
        (folder,) = own_folders(world.environment, world.repository)
        (row,) = folder.read().rows.values()
        assert (str(row.end), row.attempt, row.commits) == ("blocked", 1, 0)
        assert row.member is not None
        first = row.member
        real.ids[MENDED] = first.agent_id
        (agent,) = world.listing()["agents"]
        assert agent["state"] == "STOPPED"

        answer = [*ours, "answer", "--batch", "--set", pytest_command, "Count it, please.", MENDED]
        done = world.run(answer, check=False, timeout=PATIENCE * 5)

        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout.splitlines()[-1])
        assert summary["outcomes"]["succeeded"] == 1
        (row,) = folder.read().rows.values()
        assert (str(row.end), row.attempt, row.commits, row.verified) == ("succeeded", 2, 1, "passed"), done.stderr
        assert row.member is not None
        assert (row.member.agent_id, row.member.name) == (first.agent_id, first.name), "the same agent"
        (item,) = summary["line"]["items"]
        assert item["kind"] == "implementation"
        # Its conversation went on: the first task and the answer are in it.
        words = (folder.attempt(row.member) / "conversation.txt").read_text()
        assert "I own the sum." in words
        assert "A person answered: read .selftest/answer.md" in words
        assert "Count it, please." in words
        assert "Is the last price free?" in (folder.attempt(first) / "outcome.json").read_text()
        assert "As a person decided." in (folder.attempt(row.member) / "outcome.json").read_text()
        # No token is counted twice.
        used = used_by(row)
        assert used is not None
        sent = counted(real.lines(MENDED))
        assert {name: getattr(used, name) for name in KINDS} == sent
        assert {name: summary["usage"][name] for name in KINDS} == sent
        assert len({line["conversation"] for line in real.lines(MENDED)}) == 1
        note("tokens of an answered agent", sum(sent.values()), "")
        assert [one["state"] for one in world.listing()["agents"]] == ["STOPPED"]
