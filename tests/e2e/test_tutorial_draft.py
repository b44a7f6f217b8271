"""The blocks of tutorial.sh that fill in a tutorial, as they stand, on a small shop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.run.fingerprints import fingerprint
from core.run.shop import FILES, commit, make_shop
from draft_scenes import a_drafted_run, outcome_of
from selftest_core.git.command import find_place
from selftest_recorder.e2e.expect import expect
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd

pytestmark = pytest.mark.real
NEW = "# A loaf.\nshop add bread 1"
AGENT = r"""#!/bin/bash
set -eu
test "$SELFTEST_ROLE" = drafter
grep -q "one heading of the tutorial" "$SELFTEST_PROMPT_FILE"
grep -q '"heading": "Adding"' .selftest/task/task.json
grep -q "shop tax 256" .selftest/task/section.sh
printf '\n# A loaf.\nshop add bread 1\n' >> tutorial.sh
git commit -qam "[FIX_TUTORIAL] Show bread"
printf '%s' '{"errored": false, "tests_passing_before": null, "tests_passing_after": null, "summary_markdown": "Bread.",
  "changes": {"FIX_TUTORIAL": {"status": "SUCCEEDED", "summary_markdown": "Bread."}}, "test_runs": [], "escalations":
  [{"kind": "CONFUSING_INTERFACE", "title": "confusing because the price comes last"}]}' > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""

PLAN = """
    # What would start. An agent may change nothing but the blocks beneath its heading.
    selftest-tui draft --dry-run --agent-command ./drafter.sh
"""
ONE = """
    # For one heading, of which a part is enough, from another commit and another file; with limits, as for a run.
    selftest-tui draft add --dry-run --json --base HEAD~1 --tutorial tour.sh --agent claude --no-smoke --timeout 600 --budget-usd 5 > plan.json
"""  # noqa: E501 -- the block's own lines
WHERE = """
    # Where and how many at once, as for a run too.
    selftest-tui draft --dry-run --json --on local --transfer worktree --env API_KEY --max-running 1 --launch-rate 0.5 --on-cluster pause --agent-command ./drafter.sh > plan.json
"""  # noqa: E501 -- the block's own lines
DRAFT = """
    # Without a screen: lines of JSON, the proposed blocks last. Nobody has decided about them, so it ends with 1.
    selftest-tui draft --batch adding --agent-command ./drafter.sh > draft.jsonl || test $? = 1
"""
DECIDE = """
    # Decide about the newest draft by a file, and publish what is kept: one commit on a branch that is checked out nowhere.
    selftest-tui draft --batch --run --decisions decisions.json --onto tour > decided.jsonl
"""  # noqa: E501 -- the block's own lines


def write_agent(folder: Path, text: str = AGENT) -> None:
    """Write a drafter's program."""
    (folder / "drafter.sh").write_text(text)
    (folder / "drafter.sh").chmod(0o755)


def last_line(path: Path) -> dict[str, Any]:
    """The last line of JSON of a file."""
    found: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """A shop on the real mngr, and an agent that drafts without a model."""
    with a_world() as world:
        folder = world.make_repository()
        (folder / "tutorial.sh").write_text(FILES["tutorial.sh"])
        write_agent(folder)
        commit(world, "A shop")
        world.load_mngr()
        yield world


@pytest.fixture
def small(world: World) -> World:
    """The shop on an mngr that answers at once: nothing is started."""
    write_agent(make_shop(world))
    (world.repository / "tour.sh").write_text("# Adding things\n\nshop add apple 3\n")
    commit(world, "An agent")
    (world.repository / "later.txt").write_text("")
    commit(world, "Later")
    return world


def test_what_a_draft_would_be(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(PLAN)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed().stdout.to_contain(
        "1 heading, one agent", "Adding", "what `selftest-tui draft` would do"
    )
    expect(small.repository / ".selftest").to_be_missing()


@pytest.mark.unhappy
def test_a_draft_of_a_tutorial_without_headings(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(PLAN)
    (small.repository / "tutorial.sh").write_text("shop total\n")
    commit(small, "No headings")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("tutorial.sh has no heading", "empty line above and below")


def test_a_draft_of_one_heading(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(ONE)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed()
    base = small.run(["git", "rev-parse", "HEAD~1"]).stdout.strip()
    expect(small.repository / "plan.json").to_have_json(
        {
            "role": "drafter", "base": base, "agent_type": "claude", "smoke": [], "timeout": 600.0,
            "tests": [{"test": "Adding things", "reasons": [], "blocks": 1}],
        }
    )  # fmt: skip
    assert json.loads((small.repository / "plan.json").read_text())["money"]["budget_usd"] == 5.0


@pytest.mark.unhappy
def test_a_draft_of_a_heading_that_is_not_there(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(ONE)
    small.run(["git", "mv", "tour.sh", "other.sh"])
    (small.repository / "tour.sh").write_text("# Paying\n\nshop pay\n")
    commit(small, "Another tour")
    commit_again(small)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("tour.sh has no heading 'add'", "Its headings: Paying")


def commit_again(world: World) -> None:
    """Make the last commit HEAD~1."""
    (world.repository / "again.txt").write_text("")
    commit(world, "Again")


def test_where_drafts_are_made(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(WHERE)

    result = block.run(environment={**small.environment, "API_KEY": "secret"}, cwd=small.repository)

    expect(result).to_succeed()
    expect(small.repository / "plan.json").to_have_json(
        {
            "provider": "local", "transfer": "worktree", "env_names": ["API_KEY"], "max_running": 1,
            "launch_rate": 0.5, "on_cluster": "pause", "agent_type": "command",
        }
    )  # fmt: skip
    assert "secret" not in (small.repository / "plan.json").read_text()


@pytest.mark.unhappy
def test_a_draft_without_a_variable_that_its_agents_need(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(WHERE)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("Not set here: API_KEY")


def test_agents_draft_and_nobody_has_decided(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(DRAFT)
    write_agent(shop.repository)
    place = find_place(shop.repository, shop.environment)
    before = fingerprint(place, shop.environment)

    result = block.run(environment=shop.environment, cwd=shop.repository)

    expect(result).to_succeed().stderr.to_contain("run", "of 1 heading started", "was checked, and can be used")
    summary = last_line(shop.repository / "draft.jsonl")
    assert (summary["role"], summary["tests"], summary["outcomes"]["succeeded"]) == ("drafter", 1, 1)
    draft = summary["draft"]
    (heading,) = draft["headings"]
    (proposed,) = heading["blocks"]
    assert (proposed["kind"], proposed["text"], proposed["decision"]) == ("new", NEW, "undecided")
    assert (draft["open"], draft["published"]) == (1, None)
    assert [(one["by"], one["text"]) for one in draft["findings"]] == [
        (heading["agent"], "confusing because the price comes last")
    ]
    # Nothing of the person's was touched: only our own refs and folder are new.
    after = fingerprint(place, shop.environment)
    assert after.keys() == before.keys()
    assert (shop.repository / "tutorial.sh").read_text() == FILES["tutorial.sh"]
    (agent,) = (shop.repository / ".selftest" / "runs").glob("*/tasks/*")
    assert sorted(path.name for path in agent.iterdir()) == ["section.sh", "task.json"]

    # The same draft is decided by a file, in a call of its own.
    (shop.repository / "all.json").write_text('{"default": "keep"}')
    words = ["selftest-tui", "draft", "--batch", "--run", summary["run"], "--decisions", "all.json", "--onto", "tour"]
    decided = json.loads(shop.run(words).stdout.splitlines()[-1])
    assert (decided["open"], decided["published"]) == (0, "refs/heads/tour")
    shown = shop.run(["git", "show", "tour:tutorial.sh"]).stdout
    assert shown == f"{FILES['tutorial.sh']}\n{NEW}\n"


@pytest.mark.unhappy
def test_an_agent_that_drafts_the_whole_file_anew(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(DRAFT)
    write_agent(shop.repository, AGENT.replace("printf '\\n# A loaf.\\nshop add bread 1\\n' >>", "echo ls >"))

    result = block.run(environment=shop.environment, cwd=shop.repository)

    expect(result).to_succeed().stderr.to_contain("was checked, and cannot be used: it changes")
    summary = last_line(shop.repository / "draft.jsonl")
    assert summary["outcomes"]["failed"]["red"] == 1
    (heading,) = summary["draft"]["headings"]
    assert (heading["state"], heading["blocks"]) == ("failed", [])
    assert "it changes what stands above the first heading" in heading["reason"]


@pytest.fixture
def drafted(world: World) -> World:
    """A shop with an ended draft: one block is new, one is edited."""
    folder = world.make_repository()
    (folder / "tutorial.sh").write_text(FILES["tutorial.sh"])
    commit(world, "A shop")
    text = FILES["tutorial.sh"].replace("shop tax 256", f"shop tax 256 --round\n\n{NEW}")
    a_drafted_run(world, {"Adding": text}, {"Adding": outcome_of()}, tutorial=FILES["tutorial.sh"])
    return world


def decide(world: World, **decisions: Any) -> None:
    """Write a decisions file."""
    (world.repository / "decisions.json").write_text(json.dumps(decisions))


def test_a_draft_is_decided_by_a_file(e2e: EndToEnd, drafted: World) -> None:
    block = e2e.write_tutorial_block(DECIDE)
    looked = drafted.run(["selftest-tui", "draft", "--batch", "--run"], check=False)
    assert looked.returncode == 1
    edited, new = json.loads(looked.stdout)["headings"][0]["blocks"]
    decide(
        drafted, blocks={edited["id"]: "drop"}, edits={new["id"]: "# Two.\nshop add bread 2"},
        findings={edited["id"]: "confusing because tax rounds by itself"},
    )  # fmt: skip

    result = block.run(environment=drafted.environment, cwd=drafted.repository)

    expect(result).to_succeed().stderr.to_contain("published refs/heads/tour", "1 block")
    decided = last_line(drafted.repository / "decided.jsonl")
    assert (decided["event"], decided["open"], decided["published"]) == ("summary", 0, "refs/heads/tour")
    assert [(one["by"], one["block"]) for one in decided["findings"]] == [("person", edited["id"])]
    shown = drafted.run(["git", "show", "tour:tutorial.sh"]).stdout
    assert shown == f"{FILES['tutorial.sh']}\n# Two.\nshop add bread 2\n"
    assert drafted.run(["git", "rev-parse", "tour"]).stdout.strip() == decided["commit"]


@pytest.mark.unhappy
def test_a_draft_is_not_published_over_a_branch_that_is_checked_out(e2e: EndToEnd, drafted: World) -> None:
    block = e2e.write_tutorial_block(DECIDE)
    decide(drafted, default="keep")
    drafted.run(["git", "switch", "-q", "-c", "tour"])
    before = drafted.run(["git", "rev-parse", "tour"]).stdout

    result = block.run(environment=drafted.environment, cwd=drafted.repository)

    expect(result).to_have_exit_code(4).stderr.to_contain("tour is checked out")
    assert last_line(drafted.repository / "decided.jsonl")["exit_status"] == 4
    assert drafted.run(["git", "rev-parse", "tour"]).stdout == before
