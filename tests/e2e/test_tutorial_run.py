"""The blocks of tutorial.sh that plan and start a run, as they stand, on a small shop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.run.shop import FILES, commit, make_shop
from fleet_parts import agent_id
from github import GitHub, pull_request
from run_scenes import FIXED, story
from selftest_core.review.pull_request import marker
from selftest_core.run.history.scheduled_log import scheduled_lines
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest
from selftest_recorder.cast.events import MARKER
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.e2e.expect import expect
from worlds import BIN, World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.e2e.end_to_end import EndToEnd

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


def write_agent(folder: Path, name: str = "agent.sh", text: str = AGENT) -> None:
    """Write an agent's program."""
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """A shop on the real mngr, loaded once, and an agent that mends it without a model."""
    with a_world(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1") as world:
        folder = world.make_repository()
        for name, text in FILES.items():
            if name != "selftest-tui.toml":
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
        write_agent(folder)
        commit(world, "A shop")
        world.load_mngr()
        yield world


@pytest.fixture
def small(world: World) -> World:
    """The shop on an mngr that answers at once, for plans: nothing is started."""
    write_agent(make_shop(world))
    commit(world, "An agent")
    return world


def last_line(path: Path) -> dict[str, Any]:
    """The last line of JSON of a file."""
    found: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    return found


def expect_nothing_started(world: World) -> None:
    """Expect no run and no agent."""
    expect(world.repository / ".selftest").to_be_missing()
    expect(list((world.host_dir / "agents").glob("*"))).to_be_empty()


# plans


PLAN = """
    # What would start, what it may take, what would leave this machine and to whom. Nothing starts.
    selftest-tui run --dry-run --agent-command ./agent.sh
"""
WITHOUT_SMOKE = """
    # One agent with a tiny prompt goes ahead of the others and tries everything out; this leaves it out.
    selftest-tui run --dry-run --json --agent claude --no-smoke > plan.json
"""
AFFECTED = """
    # Only what a change concerns, and what stands behind -- goes to pytest. As one line of JSON.
    selftest-tui run --dry-run --batch --affected-by HEAD~1 --agent-command ./agent.sh -- -k tax > plan.json
"""
ANOTHER_BASE = """
    # From another commit than HEAD, with a tutorial that has another name.
    selftest-tui run --dry-run --json --base HEAD~1 --tutorial tour.sh --agent-command ./agent.sh > plan.json
"""
LIMITS = """
    # Limits: launches per second, seconds for one agent, dollars for all of them; and a pause where many fail with one cause.
    selftest-tui run --dry-run --json --agent claude --launch-rate 0.5 --timeout 600 --budget-usd 5 --on-cluster pause > plan.json
"""  # noqa: E501 -- the block's own lines
ELSEWHERE = """
    # On another provider, or here in worktrees of this repository. --env names variables that agents get, never their values.
    selftest-tui run --dry-run --json --on local --transfer worktree --env API_KEY --agent-command ./agent.sh > plan.json
"""  # noqa: E501 -- the block's own lines
RESTING = """
    # Tests that their last three agents found green and left alone rest for the next five runs, unless something that affects
    # them changes. They are listed apart, with the reason; --no-rest gives them an agent all the same.
    selftest-tui run --dry-run --json --set rest_after=3 --set rest_for=5 --no-rest --agent-command ./agent.sh > plan.json
"""  # noqa: E501 -- the block's own lines
NOT_VERIFIED = """
    # Agents on this machine are verified anyway, those elsewhere only where it is set; this leaves it out.
    selftest-tui run --dry-run --json --agent-command ./agent.sh --no-verify-on-arrival > plan.json
"""


def test_what_a_run_would_be(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(PLAN)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed().stdout.to_contain("4 tests, one agent for each", "Nothing was started")
    expect_nothing_started(small)


@pytest.mark.unhappy
def test_what_a_run_would_be_outside_of_a_repository(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(PLAN)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("is not in a git repository", "`git init`")


def test_a_run_without_an_agent_that_goes_ahead(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(WITHOUT_SMOKE)
    usual = json.loads(small.run([BIN / "selftest-tui", "run", "--dry-run", "--json", "--agent", "claude"]).stdout)
    assert usual["smoke"] == [{"provider": "local", "type": "claude"}]

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed()
    expect(small.repository / "plan.json").to_have_json({"agent_type": "claude", "smoke": []})


@pytest.mark.unhappy
def test_a_run_without_a_test(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(WITHOUT_SMOKE)
    small.run(["git", "rm", "-q", "-r", "tests"])
    commit(small, "No tests")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("No tests")
    expect_nothing_started(small)


def test_what_a_run_would_be_for_programs(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(AFFECTED)
    (small.repository / "tests" / "test_tax.py").write_text(FILES["tests/test_tax.py"] + "\n# rounded\n")
    commit(small, "Change a test")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed()
    plan = last_line(small.repository / "plan.json")
    assert [test["test"] for test in plan["tests"]] == [TEST]
    assert "tests/test_tax.py" in plan["tests"][0]["reasons"][0]
    assert (plan["event"], plan["pytest_args"]) == ("summary", ["-k", "tax"])


@pytest.mark.unhappy
def test_what_a_run_would_be_since_a_commit_that_is_not_there(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(AFFECTED)
    small.run(["git", "checkout", "-q", "--orphan", "alone"])
    commit(small, "The only one")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("'HEAD~1' is not a commit")
    assert last_line(small.repository / "plan.json")["exit_status"] == 2


def test_a_run_from_another_commit_and_tutorial(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(ANOTHER_BASE)
    (small.repository / "tour.sh").write_text("shop tax 256\n")
    base = commit(small, "A tour")
    (small.repository / "tour.sh").unlink()
    (small.repository / "tests" / "test_new.py").write_text("def test_new(): ...\n")
    commit(small, "Go on")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed()
    plan = json.loads((small.repository / "plan.json").read_text())
    assert plan["base"] == base
    assert {test["test"].partition("::")[0]: test["blocks"] for test in plan["tests"]} == {
        "tests/test_cart.py": 0, "tests/test_tax.py": 1,
    }  # fmt: skip


@pytest.mark.unhappy
def test_a_run_from_a_commit_that_has_no_such_tutorial(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(ANOTHER_BASE)
    (small.repository / "tour.sh").write_text("shop tax 256\n")
    commit(small, "A tour, later than the base")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no tutorial tour.sh at the base")


def test_a_run_with_limits(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(LIMITS)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed()
    limits = {"launch_rate": 0.5, "timeout": 600.0, "on_cluster": "pause", "money": {"budget_usd": 5.0}}
    expect(small.repository / "plan.json").to_have_json(limits)


@pytest.mark.unhappy
def test_a_run_with_limits_beside_a_setting_that_is_wrong(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(LIMITS)

    result = block.run(environment={**small.environment, "SELFTEST_TUI_MAX_RUNNING": "0"}, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("SELFTEST_TUI_MAX_RUNNING", "max_running")


def test_a_run_in_worktrees_here(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(ELSEWHERE)
    environment = {**small.environment, "API_KEY": "a-secret-of-the-person", "SELFTEST_TUI_ON": "modal"}

    result = block.run(environment=environment, cwd=small.repository)

    expect(result).to_succeed()
    plan = small.repository / "plan.json"
    expect(plan).to_have_json({"provider": "local", "transfer": "worktree", "env_names": ["API_KEY"]})
    assert "a-secret-of-the-person" not in plan.read_text()


@pytest.mark.unhappy
def test_a_run_with_a_variable_that_is_not_set(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(ELSEWHERE)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("Not set here: API_KEY", "--env")


def test_a_run_in_which_nothing_rests(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(RESTING)
    ask: list[str | Path] = [
        BIN / "selftest-tui",
        "run",
        "--dry-run",
        "--json",
        "--set",
        "rest_after=3",
        "--set",
        "rest_for=5",
    ]
    plan = json.loads(small.run([*ask, "--agent-command", "./agent.sh"]).stdout)
    nodes = [test["test"] for test in plan["tests"]]
    for night in range(3):
        told = story(
            small.repository / ".selftest" / "runs", len(nodes), run=f"20261118-0{night}00-0000", base=plan["base"],
            repository=str(small.repository),
            tests=tuple(PlannedTest(name, f"st-{n}", agent_id(n + 1), ()) for n, name in enumerate(nodes)),
        )  # fmt: skip
        for number in range(1, len(nodes)):
            told.launch(number, 1)
            told.end(number, 2, End.UNCHANGED, outcome={**FIXED, "changes": {}, "escalations": []})
        told.write()
    rested = json.loads(small.run([*ask, "--agent-command", "./agent.sh"]).stdout)
    assert [one["test"] for one in rested["resting"]] == nodes[1:]
    assert [test["test"] for test in rested["tests"]] == nodes[:1]
    assert {one["until"] for one in rested["resting"]} == {5}

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed()
    found = json.loads((small.repository / "plan.json").read_text())
    assert ([test["test"] for test in found["tests"]], found["resting"]) == (nodes, [])


@pytest.mark.unhappy
def test_a_run_with_a_rest_that_never_ends(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(RESTING)
    (small.repository / "selftest-tui.toml").write_text("rest_for = 0\n")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("selftest-tui.toml:1", "rest_for")


def test_a_run_that_verifies_nothing(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(NOT_VERIFIED)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_succeed()
    expect(small.repository / "plan.json").to_have_json({"verify_on_arrival": ""})


@pytest.mark.unhappy
def test_a_run_whose_agent_is_not_there(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(NOT_VERIFIED)
    (small.repository / "agent.sh").unlink()

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no script", "--agent-command")


# runs


SCHEDULED = """
    # Every night, from cron or CI: no run starts while a pull request of an earlier one is open (gh is asked), or while
    # another scheduled run goes on. It is skipped then: a summary with `skipped`, and 0. docs/every-day.md has the recipes.
    selftest-tui run --batch --scheduled tests/test_tax.py --agent-command ./agent.sh > night.jsonl
"""  # noqa: E501 -- the block's own lines


def with_github(world: World, *pull_requests: dict[str, Any]) -> dict[str, str]:
    """The world's environment with a gh that lists these pull requests, of a remote that the repository gets."""
    github = GitHub.make(world.root / f"gh-{len(pull_requests)}")
    github.write(list(pull_requests))
    world.run(["git", "config", "remote.origin.url", "https://github.example/o/r"])
    return {**world.environment, "PATH": f"{github.folder}:{world.environment['PATH']}"}


def test_a_scheduled_run(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(SCHEDULED)
    others = pull_request(7, "Somebody else's")
    # One of a machine that was restarted, with an id after those of the other tests here.
    unfinished = story(shop.repository / ".selftest" / "runs", 1, run="20991118-0200-0000", role="tester")
    unfinished.launch(0, 1)
    folder = unfinished.write()

    result = block.run(environment=with_github(shop, others), cwd=shop.repository)

    shutil.rmtree(folder.path)
    expect(result).to_succeed().stderr.to_contain(f"[1/1] {TEST} succeeded")
    expect(result).stderr.to_contain("run 20991118-0200-0000 has not ended: `selftest-tui resume 20991118-0200-0000`")
    summary = last_line(shop.repository / "night.jsonl")
    assert (summary["skipped"], summary["outcomes"]["succeeded"]) == (None, 1)
    (line,) = scheduled_lines(shop.repository)
    assert line["run"] == summary["run"]


@pytest.mark.unhappy
def test_a_scheduled_run_while_a_pull_request_is_open(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(SCHEDULED)
    ours = pull_request(7, marker("20261121-0931-7f3a"))

    result = block.run(environment=with_github(small, ours), cwd=small.repository)

    expect(result).to_succeed().stderr.to_contain("skipped: pull request 7 of an earlier run is open")
    expect(small.repository / "night.jsonl").to_have_json({"run": None, "tests": 0})
    assert not (small.repository / ".selftest" / "runs").exists()
    expect(list((small.host_dir / "agents").glob("*"))).to_be_empty()


RUN = """
    # An agent for this one test, without a screen: lines of JSON, words on stderr, the summary last. Ends with 1 where
    # something is left for a person. Without --batch a screen shows the plan, asks, and watches.
    selftest-tui run --batch tests/test_tax.py --agent-command ./agent.sh > run.jsonl
"""
VERIFIED = """
    # A claim is verified when it arrives, in a sandbox here: this agent says that its test passes, and it does not.
    selftest-tui run --batch tests/test_tax.py --agent-command ./liar.sh --verify-on-arrival > liar.jsonl || test $? = 1
"""


def test_a_run(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(RUN)

    result = block.run(environment=shop.environment, cwd=shop.repository)

    summary = last_line(shop.repository / "run.jsonl")
    assert (summary["event"], summary["tests"], summary["outcomes"]["succeeded"]) == ("summary", 1, 1)
    expect(result).to_succeed().stderr.to_contain(f"[1/1] {TEST} succeeded")
    refs = shop.run(["git", "for-each-ref", "--format=%(refname) %(subject)"]).stdout.splitlines()
    (ours,) = [ref for ref in refs if ref.startswith(f"refs/selftest/{summary['run']}/") and "/candidate " not in ref]
    assert ours.endswith("[FIX_IMPL] Round the tax")
    assert not [ref for ref in refs if ref.startswith("refs/heads/mngr")]
    agents = [agent for agent in shop.listing()["agents"] if agent["labels"]["selftest_run"] == summary["run"]]
    assert [agent["state"] for agent in agents] == ["STOPPED"]
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


@pytest.mark.unhappy
def test_a_run_of_a_test_that_is_not_there(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(RUN)
    small.run(["git", "rm", "-q", "tests/test_tax.py"])
    commit(small, "No such test")

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("file or directory not found: tests/test_tax.py")
    assert last_line(small.repository / "run.jsonl")["event"] == "error"
    expect_nothing_started(small)


def test_a_claim_that_does_not_hold(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(VERIFIED)
    liar = AGENT.replace('echo "# rounded" >> shop/cart.py', "echo 'def test_tax(): assert 0' > tests/test_tax.py")
    write_agent(shop.repository, "liar.sh", liar)

    result = block.run(environment=shop.environment, cwd=shop.repository)

    expect(result).to_succeed().stderr.to_contain(f"{TEST} was claimed green, and fails on its agent's tree")
    summary = last_line(shop.repository / "liar.jsonl")
    assert (summary["outcomes"]["succeeded"], summary["outcomes"]["failed"]["red"]) == (0, 1)
    assert summary["verified"] == {"failed": 1}
    lines = [json.loads(line) for line in (shop.repository / "liar.jsonl").read_text().splitlines()]
    (verdict,) = [line for line in lines if line["event"] == "verified"]
    assert (verdict["test"], verdict["result"]) == (TEST, "failed")
    assert "assert 0" in verdict["text"]
    # No slot is left over, and the person's files are theirs.
    assert not list((shop.home / "cache").rglob("*-arrival"))
    assert (shop.repository / "tests" / "test_tax.py").read_text() == FILES["tests/test_tax.py"]


@pytest.mark.unhappy
def test_a_claim_is_not_verified_without_the_sandbox_that_is_required(
    e2e: EndToEnd, small: World, tmp_path: Path
) -> None:
    block = e2e.write_tutorial_block(VERIFIED)
    write_agent(small.repository, "liar.sh")
    write_agent(tmp_path, "bwrap", "#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    path = f"{tmp_path}:{small.environment['PATH']}"
    environment = {**small.environment, "PATH": path, "SELFTEST_TUI_VERIFY_ISOLATION": "require"}

    result = block.run(environment=environment, cwd=small.repository)

    expect(result).to_fail().stderr.to_contain("bubblewrap")
    assert last_line(small.repository / "liar.jsonl")["exit_status"] == 4
    expect_nothing_started(small)


def command(pid: int) -> str:
    """The command line of a process, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
