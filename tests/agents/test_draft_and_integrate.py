"""A heading drafted and a conflict resolved by the real Claude Code on the scripted model.

It proves the way from prompt to published commit, and says nothing about the judgement of a model.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agents.real_agents import real_agents
from core.integrate.counters import BOTH, make_counter
from core.run.shop import FILES, commit
from selftest_core.demo.scripted_model.testers import Stage
from worlds import BIN, PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from agents.real_agents import Real

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]

OURS: list[str | Path] = [BIN / "selftest-tui"]
PYTEST = f"pytest_command={BIN / 'python'} -m pytest -p no:cacheprovider"
DRAFT: list[list[Any]] = [
    ["say", "I own the heading about adding."],
    ["read", ".selftest/task/section.sh"],
    ["bash", "printf '\\n# A loaf.\\nshop add bread 1\\n' >> tutorial.sh"],
    ["commit", "FIX_TUTORIAL", "Show a loaf", "Nothing showed that the amount comes last."],
    [
        "report",
        "One block is new.",
        {"escalations": [{"kind": "CONFUSING_INTERFACE", "title": "confusing because the price comes last"}]},
    ],
]
RESOLVE: list[list[Any]] = [
    ["say", "I read what both sides wanted."],
    ["read", ".selftest/task/task.json"],
    ["create", "shop/price.py", BOTH],
    ["test", "tests"],
    ["bash", 'mkdir -p "$SELFTEST_OUT/resolved/shop" && cp shop/price.py "$SELFTEST_OUT/resolved/shop/price.py"'],
    [
        "report",
        "Both parameters stay.",
        {"changes": {"RESOLVE_CONFLICT": {"status": "SUCCEEDED", "summary_markdown": "Both parameters."}}},
    ],
]


def said(real: Real, *arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    """Run our program without a screen: its status, its lines, and what it told."""
    done = real.world.run([*OURS, *arguments, "--set", PYTEST], check=False, timeout=PATIENCE * 5)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_claude_drafts_a_block_that_is_kept_and_published() -> None:
    with real_agents(Stage({"drafter": DRAFT})) as real:
        repository = real.world.repository
        (repository / "tutorial.sh").write_text(FILES["tutorial.sh"])
        commit(real.world, "A shop")

        status, lines, told = said(real, "draft", "--batch", "adding", "--agent", "claude", "--no-smoke")

        draft = lines[-1]["draft"]
        (block,) = [one for heading in draft["headings"] for one in heading["blocks"] if one["kind"] == "new"]
        assert (status, block["text"], block["decision"]) == (1, "# A loaf.\nshop add bread 1", "undecided"), told
        assert "confusing because the price comes last" in json.dumps(draft)
        (repository / "decisions.json").write_text(json.dumps({"blocks": {block["id"]: "keep"}}))

        publish = ("draft", "--batch", "--run", "--decisions", "decisions.json", "--onto", "tour")
        status, lines, told = said(real, *publish)

        assert status == 0, told
        assert "shop add bread 1" in real.world.run(["git", "show", "tour:tutorial.sh"]).stdout


def test_claude_resolves_a_conflict_and_both_tests_prove_it() -> None:
    with real_agents(Stage({"integrator": RESOLVE})) as real:
        shutil.rmtree(real.world.repository)
        made = make_counter(real.world.repository)

        status, lines, told = said(
            real, "review", "--batch", "--integrate", "--base", "main", "ada", "eve", "--set", "agent=claude",
            "--set", "smoke=false",
        )  # fmt: skip

        review = lines[-1]
        assert review["event"] == "summary", told
        (item,) = [one for one in review["items"] if one["integration"] is not None]
        assert (item["status"], item["integration"]["state"]) == ("laid", "resolved"), told
        assert made.git("show", f"{review['candidate']}:shop/price.py") + "\n" == BOTH
        assert status in (0, 1)
