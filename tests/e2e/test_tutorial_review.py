"""The blocks of tutorial.sh that review: on the screen, a run, agents that are there, and a pull request."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import run_scenes
from core.review.desks import make_desk
from core.review.repositories import Repository
from core.run.far_hosts import far_hosts
from core.run.shop import commit
from core.verify.desks import SETTINGS, make_shop
from selftest_core.run.outcome.ends import End
from selftest_recorder.e2e.expect import expect
from standins import EMPTY, mngr_that
from worlds import World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.e2e.end_to_end import EndToEnd, TutorialBlock
    from selftest_recorder.e2e.results import Result


# A deadline for a hang, far beyond what a busy machine needs; by it this file, one of the longest, begins early.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
SETTLING = re.compile(r"^│ *\S … ", re.MULTILINE)
"""A row whose decision is taken, and whose line is still being laid."""


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / "a desk")


def done(block: TutorialBlock, world: World, folder: Path) -> Result:
    """Run a block that must succeed."""
    completed = block.run(environment=world.environment, cwd=folder)
    assert completed.exit_status == 0, f"{completed.stdout}\n{completed.stderr}"
    return completed


def summary(text: str) -> dict[str, Any]:
    """The last of the lines that a batch printed."""
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    assert found["event"] == "summary"
    return found


ON_THE_SCREEN = """
    # Two branches on the screen, as one line: `y` keeps, `x` reverts, `z` undoes, `P` publishes; `q` leaves it as it is.
    selftest-tui review --base main ada bob
"""  # noqa: E501 -- the block's own line


AGAIN = """
    # What was decided there, done again without a screen: on another machine, or in CI.
    selftest-tui review --batch --base main ada bob --decisions .selftest/runs/review-*/decisions.json --publish kept
"""


def test_review_on_the_screen_and_again_without_one(e2e: EndToEnd, world: World, desk: Repository) -> None:
    screen = e2e.write_tutorial_block(ON_THE_SCREEN)
    again = e2e.write_tutorial_block(AGAIN)
    mngr_that(world, f"echo '{EMPTY}'")  # there is no agent here: a real one would only take its seconds
    with screen.pty(environment=world.environment, cwd=desk.folder, columns=120) as session:
        session.wait_for("Mend b")
        (log,) = desk.folder.glob(".selftest/runs/review-*/review.jsonl")
        # The group of tests is kept with one key, then one fix after the other: the cursor goes on by itself.
        session.send_keys("Home")
        session.send_keys("y")
        eventually(lambda: log.read_text().count('"event":"decided"') == 1, "the tests are decided")
        session.send_keys("Tab")
        session.send_keys("y")
        eventually(lambda: log.read_text().count('"event":"decided"') == 2, "one fix is decided")
        session.send_keys("y")
        eventually(lambda: log.read_text().count('"event":"decided"') == 3, "both are decided")
        # The log has it before the line for it is laid, and an act that is under way holds up a plain q.
        session.wait_until(lambda screen: "4 of 4 decided" in screen and not SETTLING.search(screen), "the line")
        session.send_keys("q")
        assert session.wait_for_end() == 0
    decided = json.loads(log.with_name("decisions.json").read_text())["items"]
    assert decided == {desk.git("rev-parse", name): "keep" for name in ("ada", "ada~1", "bob", "bob~1")}
    found = summary(done(again, world, desk.folder).stdout)
    assert found["published"] == "refs/heads/kept"
    assert desk.git("rev-parse", "kept") == found["commits"][-1]["oid"]
    assert desk.git("diff", "--name-only", "main", "kept").split() == [
        "src/a.py", "src/b.py", "tests/test_ada.py", "tests/test_bob.py",
    ]  # fmt: skip


@pytest.mark.unhappy
def test_review_on_the_screen_without_a_terminal(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(ON_THE_SCREEN)

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("no terminal", "`selftest-tui review --batch")
    expect(desk.folder / ".selftest").to_be_missing()


@pytest.mark.unhappy
def test_review_by_decisions_that_nobody_made(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(AGAIN)

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("Cannot read the decisions")
    assert desk.git("branch", "--list", "kept") == ""


NEWEST = """
    # What the newest run of this repository brought back, as one line.
    selftest-tui review --batch > review.jsonl || test $? = 1
"""


def test_review_of_the_newest_run(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(NEWEST)
    base = desk.git("rev-parse", "main")
    story = run_scenes.story(desk.folder / ".selftest" / "runs", 1, repository=str(desk.folder), base=base)
    story.launch(0, 0.0)
    agent = story.plan.tests[0].agent_name
    desk.git("update-ref", f"refs/selftest/{story.plan.run}/agents/{agent}", "eve")
    story.end(0, 100.0, End.SUCCEEDED, "Done", commits=2, outcome=run_scenes.FIXED)
    story.write()
    done(block, world, desk.folder)
    found = summary((desk.folder / "review.jsonl").read_text())
    assert (found["run"], found["review"]) == (story.plan.run, story.plan.run)
    assert [(item["agents"], item["kind"]) for item in found["items"]] == [
        ([agent], "test"), ([agent], "implementation"),
    ]  # fmt: skip
    assert found["items"][1]["why"].startswith("high importance")


@pytest.mark.unhappy
def test_review_of_the_newest_run_where_there_is_none(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(NEWEST)

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_fail().stderr.to_contain("There is no run in this repository", "`selftest-tui run`")
    expect(desk.folder / "review.jsonl").to_have_json({"event": "error", "exit_status": 2})


WORK = """#!/bin/sh
git config user.name "$1" && git config user.email "$1@example.org"
echo "NAME = '$1'" > "$1.py" && git add "$1.py" && git commit -q -m "[FIX_IMPL] Mend $1"
touch "$2"
exec sleep 100000
"""


OF_AGENTS = """
    # Agents that are there, whoever started them: their branches are fetched from wherever they work.
    selftest-tui review --batch --agents ada bob > review.jsonl || test $? = 1
"""
VERIFY_AGENTS = """
    # As one JSON document, of agents that are there, onto a newer main.
    selftest-tui verify --json --agents ada bob --onto newer --jobs 1 > verified.json || test $? = 1
"""


@pytest.fixture(scope="module")
def working() -> Iterator[World]:
    """A repository with a test for each of two agents, which work elsewhere and have committed; and a newer main."""
    with a_world() as world:
        repository = world.make_repository()
        for name in ("ada", "bob"):
            path = repository / "tests" / f"test_{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"def test_{name}():\n    import {name}\n\n    assert {name}.NAME == '{name}'\n")
        commit(world, "Tests")
        world.load_mngr()
        work = world.script("work", WORK)
        for name, transfer in (("ada", "git-mirror"), ("bob", "git-worktree")):
            more = ["--transfer", transfer, "--id", f"agent-{uuid.uuid4().hex}"]
            world.create(name, work, name, world.root / f"done-{name}", more=more)
        for name in ("ada", "bob"):
            eventually((world.root / f"done-{name}").exists, f"{name} has committed")
        # What main got since is no agent's work.
        world.run(["git", "checkout", "-q", "-b", "newer"])
        (repository / "README").write_text("changed\n")
        commit(world, "Go on")
        world.run(["git", "checkout", "-q", "main"])
        (repository / "README").write_text("changed too\n")
        commit(world, "Go on otherwise")
        yield world


def refs_of_the_person(world: World) -> set[str]:
    """All refs but ours."""
    refs = world.run(["git", "for-each-ref", "--format=%(refname)"]).stdout.split()
    return {ref for ref in refs if not ref.startswith("refs/selftest/")}


@pytest.mark.real
def test_review_of_agents_wherever_they_work(e2e: EndToEnd, working: World) -> None:
    block = e2e.write_tutorial_block(OF_AGENTS)
    start = working.run(["git", "rev-parse", "main~1"]).stdout.strip()
    before = working.run(["git", "status", "--porcelain"]).stdout

    result = block.run(environment=working.environment, cwd=working.repository)

    expect(result).to_succeed()
    found = summary((working.repository / "review.jsonl").read_text())
    assert (found["base"], found["left_out"]) == (start, [])
    items = {(*item["agents"], item["subject"], item["status"]) for item in found["items"]}
    assert items == {(name, f"[FIX_IMPL] Mend {name}", "laid") for name in ("ada", "bob")}
    files = working.run(["git", "diff", "--name-only", start, found["candidate"]]).stdout.split()
    assert files == ["ada.py", "bob.py"]
    assert refs_of_the_person(working) == {"refs/heads/main", "refs/heads/mngr/bob", "refs/heads/newer"}
    assert working.run(["git", "status", "--porcelain"]).stdout == f"{before}?? review.jsonl\n"
    (working.repository / "review.jsonl").unlink()


@pytest.mark.unhappy
def test_review_of_agents_that_are_not_there(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(OF_AGENTS)
    mngr_that(world, f"echo '{EMPTY}'")

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_fail().stderr.to_contain("There is no agent ada", "`selftest-tui list`")
    expect(desk.folder / "review.jsonl").to_have_json({"event": "error", "exit_status": 2})


@pytest.mark.real
def test_verify_agents_onto_a_newer_main(e2e: EndToEnd, working: World) -> None:
    block = e2e.write_tutorial_block(VERIFY_AGENTS)
    newer = working.run(["git", "rev-parse", "newer"]).stdout.strip()

    result = block.run(environment={**working.environment, **SETTINGS}, cwd=working.repository)

    expect(result).to_succeed().stderr.to_contain("2 passed")
    found = json.loads((working.repository / "verified.json").read_text())
    assert found["base"] == newer
    assert {(*item["agents"], item["verified"]) for item in found["items"]} == {("ada", "passed"), ("bob", "passed")}
    (working.repository / "verified.json").unlink()


@pytest.mark.unhappy
def test_verify_agents_that_are_not_there(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY_AGENTS)
    mngr_that(world, f"echo '{EMPTY}'")

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_fail().stderr.to_contain("There is no agent ada")
    expect(desk.folder / "verified.json").to_have_text("")


REPORT_AGENTS = """
    # The report of agents that are there.
    selftest-tui report --batch --agents ada bob > report.jsonl
"""


@pytest.mark.real
def test_report_of_agents(e2e: EndToEnd, working: World) -> None:
    block = e2e.write_tutorial_block(REPORT_AGENTS)

    result = block.run(environment=working.environment, cwd=working.repository)

    expect(result).to_succeed()
    found = summary((working.repository / "report.jsonl").read_text())
    assert {change["subject"] for change in found["report"]["changes"]} == {
        "[FIX_IMPL] Mend ada",
        "[FIX_IMPL] Mend bob",
    }
    expect(Path(found["path"])).to_contain("Mend ada", "Mend bob")
    (working.repository / "report.jsonl").unlink()


@pytest.mark.unhappy
def test_report_of_agents_that_are_not_there(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(REPORT_AGENTS)
    mngr_that(world, f"echo '{EMPTY}'")

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no agent ada")
    expect(desk.folder / "report.jsonl").to_have_json({"event": "error"})


TRAILERS = """
    # Where does a published commit come from? Its trailers name the run, the agents, their tests, and the verdict.
    selftest-tui review --batch main..ada --decisions decisions.json --publish fixes > review.jsonl
    git log -1 --format='%(trailers:key=Selftest-Agent,key=Selftest-Verified)' fixes
"""

GH = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/gh-arguments"
cat > "$HOME/gh-text"
echo https://example.org/pull/7
"""


PULL_REQUEST = """
    # Publish what is kept, and open a pull request of it with gh.
    selftest-tui review --batch main..ada --decisions decisions.json --publish fixes --pr
"""


def test_review_with_a_pull_request(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(PULL_REQUEST)
    world.extra["PATH"] = f"{world.script('gh', GH).parent}:{world.environment['PATH']}"
    remote = desk.folder.parent / "remote.git"
    desk.git("init", "-q", "--bare", str(remote))
    desk.git("remote", "add", "origin", str(remote))
    notes = {desk.git("rev-parse", "ada"): "as the block says"}
    (desk.folder / "decisions.json").write_text(json.dumps({"default": "keep", "notes": notes}))
    found = summary(done(block, world, desk.folder).stdout)
    assert found["pull_request"] == "https://example.org/pull/7"
    published = found["commits"][-1]["oid"]
    assert desk.git("--git-dir", str(remote), "rev-parse", "fixes") == published == desk.git("rev-parse", "fixes")
    said = (world.home / "gh-arguments").read_text().splitlines()
    assert said[:2] == ["pr", "create"]
    assert {"--base=main", "--head=fixes"} <= set(said)
    assert "as the block says" in (world.home / "gh-text").read_text()


@pytest.mark.unhappy
def test_review_with_a_pull_request_that_gh_refuses(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(PULL_REQUEST)
    gh = world.script("gh", "#!/bin/sh\necho not logged in >&2\nexit 4\n")
    remote = desk.folder.parent / "remote.git"
    desk.git("init", "-q", "--bare", str(remote))
    desk.git("remote", "add", "origin", str(remote))
    (desk.folder / "decisions.json").write_text('{"default": "keep"}')
    environment = {**world.environment, "PATH": f"{gh.parent}:{world.environment['PATH']}"}

    result = block.run(environment=environment, cwd=desk.folder)

    expect(result).to_fail().stderr.to_contain("gh", "not logged in")


ONTO_VERIFIED = """
    # Onto a newer main, and with the whole test suite run again before the branch is written, in two processes.
    selftest-tui review --batch main..ada --onto newer --decisions decisions.json --publish checked --verify --all --jobs 2
"""  # noqa: E501 -- the block's own lines


@pytest.fixture
def small_shop(tmp_path: Path) -> Repository:
    """A repository whose only red test is the one that ada mends; main has got another test since, on `newer`."""
    made = Repository.make(tmp_path / "small shop")
    made.commit("Start", {"cart.py": "RATE = 0\n", "tests/test_cart.py": CART_TEST, "tests/test_sum.py": SUM_TEST})
    made.git("checkout", "-q", "-b", "ada")
    made.commit("[FIX_IMPL] Mend the cart", {"cart.py": "RATE = 1\n"}, "ada")
    made.git("checkout", "-q", "-b", "newer", "main")
    made.commit("Go on", {"tests/test_more.py": SUM_TEST})
    made.git("checkout", "-q", "main")
    (made.folder / "decisions.json").write_text('{"default": "keep"}')
    return made


CART_TEST = "def test_cart():\n    import cart\n\n    assert cart.RATE == 1\n"
SUM_TEST = "def test_sum():\n    assert 1 + 1 == 2\n"


def test_review_onto_a_newer_main_verified_before_it_is_published(
    e2e: EndToEnd, world: World, small_shop: Repository
) -> None:
    block = e2e.write_tutorial_block(ONTO_VERIFIED)

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=small_shop.folder)

    expect(result).to_succeed()
    found = summary(result.stdout)
    assert (found["base"], found["published"]) == (small_shop.git("rev-parse", "newer"), "refs/heads/checked")
    assert (found["verification"]["verdict"], found["verification"]["suite"]) == ("passed", "whole")
    assert {line["test"] for line in result.json_lines() if line["event"] == "tested"} == {
        "tests/test_cart.py::test_cart", "tests/test_more.py::test_sum", "tests/test_sum.py::test_sum",
    }  # fmt: skip
    assert small_shop.git("rev-parse", "checked~1") == small_shop.git("rev-parse", "newer")


@pytest.mark.unhappy
def test_review_onto_a_commit_that_is_not_there(e2e: EndToEnd, world: World, small_shop: Repository) -> None:
    block = e2e.write_tutorial_block(ONTO_VERIFIED)
    small_shop.git("branch", "-q", "-D", "newer")

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=small_shop.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("newer")
    assert small_shop.git("branch", "--list", "checked") == ""


VERIFY = """
    # Which claims hold? The tests of both branches, run again on what would come of them: in a sandbox, on no branch of
    # yours. 1 says that something is red, flaky or unknown; what was run once for a tree is not run again.
    selftest-tui verify --base main ada bob
"""


@pytest.mark.unhappy
def test_verify_a_change_in_conflict(e2e: EndToEnd, world: World, small_shop: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY)
    small_shop.git("checkout", "-q", "-b", "bob")
    small_shop.commit("[FIX_IMPL] Mend the cart otherwise", {"cart.py": "RATE = 1.0\n"}, "bob")
    small_shop.git("checkout", "-q", "main")

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=small_shop.folder)

    expect(result).to_have_exit_code(1).stdout.to_match("passed .*Mend the cart")
    expect(result.stderr).to_contain("1 passed, 1 unknown")


VERIFY_ALL = """
    # The whole test suite, on what is kept; as lines of JSON, one for each run of a test and each verdict.
    selftest-tui verify --batch --base main ada bob --decisions decisions.json --all > verified.jsonl
"""


PLAIN = """
    # Published without these trailers.
    selftest-tui review --batch main..ada --decisions decisions.json --publish plain --set publish_trailers=false
"""


def test_review_published_with_trailers(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(TRAILERS)
    (desk.folder / "decisions.json").write_text('{"default": "keep"}')

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_succeed()
    assert result.stdout.strip().splitlines() == ["Selftest-Agent: ada", "Selftest-Verified: no"]


@pytest.mark.unhappy
def test_a_branch_of_somebody_else_gets_no_trailers(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(TRAILERS)
    (desk.folder / "decisions.json").write_text('{"default": "keep"}')
    desk.git("branch", "fixes", "ada")

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(4).stderr.to_contain("fixes")
    assert desk.git("rev-parse", "fixes") == desk.git("rev-parse", "ada")


def test_review_published_without_trailers(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(PLAIN)
    (desk.folder / "decisions.json").write_text('{"default": "keep"}')

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_succeed()
    assert desk.git("rev-parse", "plain") == summary(result.stdout)["tip"], "the same commits as the candidate's"
    assert desk.git("log", "-1", "--format=%(trailers)", "plain") == ""


@pytest.mark.unhappy
def test_review_without_its_decisions_publishes_nothing(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(PLAIN)

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("decisions.json")
    assert desk.git("branch", "--list", "plain") == ""


def test_verify_what_branches_claim(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(VERIFY)
    repository = make_shop(tmp_path / "shop")
    refs = repository.git("show-ref")

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=repository.folder)

    expect(result).to_succeed()
    assert [line.split()[1:3] for line in result.stdout.splitlines()[1:3]] == [["✓", "passed"], ["✓", "passed"]]
    assert repository.git("show-ref") == refs


@pytest.mark.unhappy
def test_verify_a_claim_that_does_not_hold(e2e: EndToEnd, world: World, small_shop: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY)
    small_shop.git("checkout", "-q", "-b", "bob")
    lie = {"pay.py": "RATE = 2\n", "tests/test_pay.py": CART_TEST.replace("cart", "pay")}
    small_shop.commit("[FIX_IMPL] Mend the till", lie, "bob")
    small_shop.git("checkout", "-q", "main")

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=small_shop.folder)

    expect(result).to_have_exit_code(1).stdout.to_match("passed .*Mend the cart").to_match("failed .*Mend the till")


def test_verify_the_whole_suite_on_what_is_kept(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(VERIFY_ALL)
    repository = make_shop(tmp_path / "shop")
    refs = repository.git("show-ref")
    decisions = {"default": "keep", "items": {repository.git("rev-parse", "bob"): "revert"}}
    (repository.folder / "decisions.json").write_text(json.dumps(decisions))

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=repository.folder)

    # The tests of the agents whose branches are not here are red, and of bob's, who is reverted.
    expect(result).to_have_exit_code(1)
    lines = [json.loads(line) for line in (repository.folder / "verified.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "tested"] == ["verdict", "verdict", "summary"]
    assert [(item["agents"], item["verified"]) for item in lines[-1]["items"]] == [
        (["ada"], "passed"), (["bob"], "unknown"),
    ]  # fmt: skip
    assert lines[-1]["verification"]["suite"] == "whole"
    assert repository.git("show-ref") == refs


@pytest.mark.unhappy
def test_verify_by_decisions_that_cannot_be_read(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY_ALL)
    (desk.folder / "decisions.json").write_text('{"default": ')

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("decisions.json is not JSON")
    expect(desk.folder / "verified.jsonl").to_have_json({"event": "error", "exit_status": 2})


VERIFY_TEXTS = """
    # Changes that say the same are one row, and one of its texts is applied. This runs the tests on the other texts too; the
    # best verdict chooses, where nobody did, when the review is opened again.
    selftest-tui verify --json --texts --base main ada eve > texts.json || test $? = 1
"""  # noqa: E501 -- the block's own lines


def texts_of(block: TutorialBlock, world: World, shop: Repository, text: str) -> dict[str, dict[str, Any]]:
    """The items of a row by their agents, once its texts were verified; eve says the same as ada, in these words."""
    (shop.folder / "decisions.json").unlink(missing_ok=True)
    shop.git("checkout", "-q", "-b", "eve", "main")
    shop.commit("[FIX_IMPL] Mend the cart", {"cart.py": text}, "eve")
    shop.git("checkout", "-q", "main")
    refs = shop.git("show-ref")
    result = block.run(environment={**world.environment, **SETTINGS}, cwd=shop.folder)
    expect(result).to_succeed()
    assert shop.git("show-ref") == refs
    answer = json.loads((shop.folder / "texts.json").read_text())
    assert len({item["row"] for item in answer["items"]}) == 1, answer["items"]
    return {item["agents"][0]: item for item in answer["items"]}


def test_verify_the_texts_of_a_row(e2e: EndToEnd, world: World, small_shop: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY_TEXTS)

    items = texts_of(block, world, small_shop, "RATE = 1  # one\n")

    assert sorted(item["status"] for item in items.values()) == ["dropped", "laid"]
    assert {agent: item["verified"] for agent, item in items.items()} == {"ada": "passed", "eve": "passed"}


@pytest.mark.unhappy
def test_verify_a_text_with_another_verdict(e2e: EndToEnd, world: World, small_shop: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY_TEXTS)
    # Both say the same; a test that reads the words, which none should, tells them apart.
    words = "def test_cart():\n    import cart\n\n    assert 'RATE = 1  # one' in open(cart.__file__).read()\n"
    (small_shop.folder / "decisions.json").unlink()
    small_shop.commit("Judge the words", {"tests/test_cart.py": words})
    small_shop.git("checkout", "-q", "ada")
    small_shop.git("rebase", "-q", "main")
    items = texts_of(block, world, small_shop, "RATE = 1  # one\n")

    assert items["eve"]["verified"] == "passed"
    assert items["ada"]["verified"] in ("unknown", "failed"), "red, as it was before"
    again = e2e.run(
        "selftest-tui review --batch --base main ada eve",
        environment={**world.environment, **SETTINGS}, cwd=small_shop.folder,
    )  # fmt: skip
    chosen = [item["agents"] for item in summary(again.stdout)["items"] if item["chosen"]]
    assert chosen == [["eve"]], "the better verdict chooses"


VERIFY_FAR = """
    # The same on another machine that mngr knows, or on modal: trees go there, results come back, and nothing stays there.
    selftest-tui verify --base main ada bob --on box.pool
"""  # noqa: E501 -- the block's own line


def test_verify_on_another_machine(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(VERIFY_FAR)
    with far_hosts(world) as far:
        pool = far.add("pool")
        world.load_mngr()
        repository = make_shop(world.root / "shop")
        environment = {**world.environment, **SETTINGS}
        done = block.run(environment=environment, cwd=repository.folder)
        assert done.exit_status == 0, done.stderr
        assert [line.split()[1:3] for line in done.stdout.splitlines()[1:3]] == [["✓", "passed"], ["✓", "passed"]]
        assert "on box.pool" in done.stderr
        # The next one finds the results of that machine, and needs it no more.
        pool.end()
        again = block.run(environment=environment, cwd=repository.folder)
        assert (again.exit_status, again.stdout) == (0, done.stdout)


@pytest.mark.unhappy
def test_verify_on_a_machine_that_mngr_does_not_make(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY_FAR)
    mngr_that(world, f"echo '{EMPTY}'")

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=desk.folder)

    expect(result).to_have_exit_code(1).stdout.to_match("unknown .*Mend a")
    expect(result.stderr).to_contain("unknown", "on box.pool")


VERIFY_OTHERWISE = """
    # Another language: any runner that writes JUnit XML to {junit}, in an environment that a command of the project makes, in
    # the sandbox too, and anew only when a lock or a manifest changes.
    selftest-tui verify --base main ada --set setup_command="sh install.sh" --set verify_command="./check.sh {junit}"
"""  # noqa: E501 -- the block's own line


def test_verify_with_another_runner_in_its_own_environment(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(VERIFY_OTHERWISE)
    repository = make_shop(tmp_path / "shop")
    # Its only test holds where the change of ada and the environment are both there.
    check = (
        "#!/bin/sh\nends='<failure/>'\n"
        "if grep -q 'return 1' shop/ada.py && grep -q 7 node_modules/lib; then ends=; fi\n"
        "echo \"<testsuite name='shop'><testcase name='adds'>$ends</testcase></testsuite>\" > $1\ntest -z $ends\n"
    )
    repository.commit(
        "Another language",
        {
            "check.sh": check,
            "install.sh": "mkdir node_modules && cp version.lock node_modules/lib\n",
            "version.lock": "7\n",
        },
    )
    repository.git("update-index", "--chmod=+x", "check.sh")
    repository.git("commit", "-q", "-m", "Let it run")
    (repository.folder / "check.sh").chmod(0o755)
    repository.git("checkout", "-q", "ada")
    repository.git("rebase", "-q", "main")
    repository.git("checkout", "-q", "main")

    done = block.run(environment=world.environment, cwd=repository.folder)

    expect(done).to_succeed()
    assert done.stdout.splitlines()[1].split()[1:3] == ["✓", "passed"]
    assert "the whole suite" in done.stderr
    assert not (repository.folder / "node_modules").exists()


@pytest.mark.unhappy
def test_verify_where_the_environment_cannot_be_made(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(VERIFY_OTHERWISE)

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(1).stdout.to_match("unknown .*Mend a")
    expect(" ".join(result.stdout.split())).to_contain("the set-up of its environment failed: `sh install.sh`")


PUBLISH_VERIFIED = """
    # Verified, and published only if the tests of exactly what is published pass. 4 says that they do not, and that no
    # branch was written; 1 that something else is undecided or red.
    selftest-tui review --batch --base main ada bob eve --decisions decisions.json --publish good --require-verified > review.jsonl
"""  # noqa: E501 -- the block's own line


def test_publish_what_passes(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(PUBLISH_VERIFIED)
    repository = make_shop(tmp_path / "shop")
    # Undecided, eve's change is on the candidate, which is red, and not on what is published, which is green.
    decisions = {"default": "keep", "items": {repository.git("rev-parse", "eve"): "undecided"}}
    (repository.folder / "decisions.json").write_text(json.dumps(decisions))

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=repository.folder)

    expect(result).to_have_exit_code(1)
    found = summary((repository.folder / "review.jsonl").read_text())
    assert (found["published"], found["refused"]) == ("refs/heads/good", "")
    assert (found["verification"]["verdict"], found["published_verification"]["verdict"]) == ("failed", "passed")
    assert found["published_verification"]["tree"] == repository.git("rev-parse", "good^{tree}")
    assert [(item["agents"], item["verified"]) for item in found["items"]] == [
        (["ada"], "passed"), (["bob"], "passed"), (["eve"], "failed"),
    ]  # fmt: skip


@pytest.mark.unhappy
def test_publish_nothing_that_fails(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(PUBLISH_VERIFIED)
    repository = make_shop(tmp_path / "shop")
    (repository.folder / "decisions.json").write_text('{"default": "keep"}')
    refs = repository.git("show-ref")

    result = block.run(environment={**world.environment, **SETTINGS}, cwd=repository.folder)

    expect(result).to_have_exit_code(4).stderr.to_contain("tests/test_common.py::test_rate is red")
    lines = [json.loads(line) for line in (repository.folder / "review.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "tested"] == [*["verdict"] * 3, "summary"]
    assert (lines[-1]["published"], lines[-1]["candidate"]) == (None, None)
    assert "is not verified" in lines[-1]["refused"]
    assert repository.git("show-ref") == refs
