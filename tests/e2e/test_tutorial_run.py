"""The blocks of tutorial.sh that are about runs, as they stand, on a small shop and the real mngr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.run.shop import FILES, commit
from selftest_recorder.cast.events import MARKER
from selftest_recorder.cast.reader import read_cast
from worlds import BIN, World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.e2e.end_to_end import EndToEnd, TutorialBlock
    from selftest_recorder.e2e.results import Result

pytestmark = pytest.mark.real
TEST = "tests/test_tax.py::test_tax"
AGENT = """#!/bin/sh
set -e
grep -q "shop tax 256" "$SELFTEST_PROMPT_FILE"
echo "# rounded" >> shop/cart.py
git commit -qam "[FIX_IMPL] Round the tax"
printf '%s' '{"changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "Rounded."}}, "errored": false,
  "tests_passing_before": false, "tests_passing_after": true, "summary_markdown": "Rounded.", "test_runs": [],
  "escalations": []}' > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """A shop, and an agent that mends it without a model."""
    with a_world() as world:
        folder = world.make_repository()
        for name, text in {**FILES, "agent.sh": AGENT}.items():
            if name != "selftest-tui.toml":
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
        (folder / "agent.sh").chmod(0o755)
        commit(world, "A shop")
        yield world


def done(block: TutorialBlock, world: World) -> Result:
    """Run a block that must succeed in the shop."""
    completed = block.run(environment=world.environment, cwd=world.repository, timeout=400.0)
    assert completed.exit_status == 0, f"{completed.stdout}\n{completed.stderr}"
    return completed


def document(world: World, name: str) -> dict[str, Any]:
    """A JSON file that a block wrote; of lines, the last."""
    found: dict[str, Any] = json.loads((world.repository / name).read_text().strip().splitlines()[-1])
    return found


def test_what_a_run_would_be(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block("""
        # What would start, what it may take, what would leave this machine and to whom. Nothing starts.
        selftest-tui run --dry-run --agent-command ./agent.sh
    """)
    shown = done(block, shop).stdout
    assert "4 tests, one agent for each" in shown
    assert "Nothing was started" in shown
    assert not (shop.repository / ".selftest").exists()
    assert list((shop.host_dir / "agents").glob("*")) == []


def test_a_run_without_an_agent_that_goes_ahead(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block("""
        # One agent with a tiny prompt goes ahead of the others and tries everything out; this leaves it out.
        selftest-tui run --dry-run --json --agent claude --no-smoke > plan.json
    """)
    done(block, shop)
    plan = json.loads((shop.repository / "plan.json").read_text())
    assert (plan["agent_type"], plan["smoke"]) == ("claude", [])
    usual = json.loads(shop.run([BIN / "selftest-tui", "run", "--dry-run", "--json", "--agent", "claude"]).stdout)
    assert usual["smoke"] == [{"provider": "local", "type": "claude"}]


def test_what_a_run_would_be_for_programs(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block("""
        # Only what a change concerns, and what stands behind -- goes to pytest. As one line of JSON.
        selftest-tui run --dry-run --batch --affected-by HEAD~1 --agent-command ./agent.sh -- -k tax > plan.json
    """)
    done(block, shop)
    plan = document(shop, "plan.json")
    assert [test["test"] for test in plan["tests"]] == [TEST]
    assert "tests/test_tax.py is new" in plan["tests"][0]["reasons"]
    assert plan["pytest_args"] == ["-k", "tax"]


def test_a_run(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block("""
        # An agent for this one test, without a screen: lines of JSON, words on stderr, the summary last. Ends with 1 where
        # something is left for a person. Without --batch a screen shows the plan, asks, and watches.
        selftest-tui run --batch tests/test_tax.py --agent-command ./agent.sh > run.jsonl
    """)  # noqa: E501 -- the block's own line
    said = done(block, shop).stderr
    summary = document(shop, "run.jsonl")
    assert (summary["event"], summary["tests"], summary["outcomes"]["succeeded"]) == ("summary", 1, 1)
    assert f"[1/1] {TEST} succeeded" in said
    refs = shop.run(["git", "for-each-ref", "--format=%(refname) %(subject)"]).stdout.splitlines()
    (ours,) = [ref for ref in refs if ref.startswith(f"refs/selftest/{summary['run']}/") and "/candidate " not in ref]
    assert ours.endswith("[FIX_IMPL] Round the tax")
    assert not [ref for ref in refs if ref.startswith("refs/heads/mngr")]
    assert [agent["state"] for agent in shop.listing()["agents"]] == ["STOPPED"]
    # Its terminal was recorded, with what happened to it, and nothing of the recorder is left.
    folder = shop.repository / ".selftest" / "runs" / summary["run"]
    (path,) = folder.glob("agents/*/attempt-1/terminal.cast")
    recording = read_cast(path)
    labels = [event.data for event in recording.events() if event.code == MARKER]
    assert sorted(labels) == ["commit: [FIX_IMPL] Round the tax", "launched", "outcome", "passed"]
    assert labels[-2:] == ["outcome", "passed"]
    assert recording.problems == []
    assert (folder / "recordings" / "collector.log").read_text() == ""
    assert [path.name for path in (folder / "recordings" / ".pipes").iterdir()] == ["lock"]
    eventually(lambda: not any("selftest_recorder" in command(pid) for pid in shop.processes()), "the recorder's end")


def test_a_claim_that_does_not_hold(e2e: EndToEnd, shop: World) -> None:
    liar = AGENT.replace('echo "# rounded" >> shop/cart.py', "echo 'def test_tax(): assert 0' > tests/test_tax.py")
    (shop.repository / "liar.sh").write_text(liar)
    (shop.repository / "liar.sh").chmod(0o755)
    block = e2e.write_tutorial_block("""
        # A claim is verified when it arrives, in a sandbox here: this agent says that its test passes, and it does not.
        selftest-tui run --batch tests/test_tax.py --agent-command ./liar.sh --verify-on-arrival > liar.jsonl || test $? = 1
    """)  # noqa: E501 -- the block's own line
    said = done(block, shop).stderr
    summary = document(shop, "liar.jsonl")
    assert (summary["outcomes"]["succeeded"], summary["outcomes"]["failed"]["red"]) == (0, 1)
    assert summary["verified"] == {"failed": 1}
    assert f"{TEST} was claimed green, and fails on its agent's tree" in said
    lines = [json.loads(line) for line in (shop.repository / "liar.jsonl").read_text().splitlines()]
    (verdict,) = [line for line in lines if line["event"] == "verified"]
    assert (verdict["test"], verdict["result"]) == (TEST, "failed")
    assert "assert 0" in verdict["text"]
    # No slot is left over, and the person's files are theirs.
    assert not list((shop.home / "cache").rglob("*-arrival"))
    assert (shop.repository / "tests" / "test_tax.py").read_text() == FILES["tests/test_tax.py"]


def test_a_run_that_verifies_nothing(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block("""
        # Agents on this machine are verified anyway, those elsewhere only where it is set; this leaves it out.
        selftest-tui run --dry-run --json --agent-command ./agent.sh --no-verify-on-arrival > plan.json
    """)
    done(block, shop)
    plan = json.loads((shop.repository / "plan.json").read_text())
    assert plan["verify_on_arrival"] == ""


def command(pid: int) -> str:
    """The command line of a process, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
