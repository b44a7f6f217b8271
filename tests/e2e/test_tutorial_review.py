"""The blocks of tutorial.sh that review: on the screen, a run, agents that are there, and a pull request."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import run_scenes
from core.review.desks import make_desk
from core.run.far_hosts import far_hosts
from core.verify.desks import SETTINGS, make_shop
from selftest_core.run.outcome.ends import End
from standins import EMPTY, mngr_that
from worlds import World, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_recorder.e2e.end_to_end import EndToEnd, TutorialBlock
    from selftest_recorder.e2e.results import Result


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


def test_review_on_the_screen_and_again_without_one(e2e: EndToEnd, world: World, desk: Repository) -> None:
    screen = e2e.write_tutorial_block("""
        # Two branches on the screen, as one line: `y` keeps, `x` reverts, `z` undoes, `P` publishes; `q` leaves it as it is.
        selftest-tui review --base main ada bob
    """)  # noqa: E501 -- the block's own line
    again = e2e.write_tutorial_block("""
        # What was decided there, done again without a screen: on another machine, or in CI.
        selftest-tui review --batch --base main ada bob --decisions .selftest/runs/review-*/decisions.json --publish kept
    """)  # noqa: E501 -- the block's own line
    mngr_that(world, f"echo '{EMPTY}'")  # there is no agent here: a real one would only take its seconds
    with screen.open(environment=world.environment, cwd=desk.folder, columns=120) as session:
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
    assert desk.git("rev-parse", "kept") == found["tip"]
    assert desk.git("diff", "--name-only", "main", "kept").split() == [
        "src/a.py", "src/b.py", "tests/test_ada.py", "tests/test_bob.py",
    ]  # fmt: skip


def test_review_of_the_newest_run(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block("""
        # What the newest run of this repository brought back, as one line.
        selftest-tui review --batch > review.jsonl || test $? = 1
    """)
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


WORK = """#!/bin/sh
git config user.name "$1" && git config user.email "$1@example.org"
echo "$1" > "$1.py" && git add "$1.py" && git commit -q -m "[FIX_IMPL] Mend $1"
touch "$2"
exec sleep 100000
"""


@pytest.mark.real
def test_review_of_agents_wherever_they_work(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block("""
        # Agents that are there, whoever started them: their branches are fetched from wherever they work.
        selftest-tui review --batch --agents ada bob > review.jsonl || test $? = 1
    """)
    repository = world.make_repository()
    start = world.run(["git", "rev-parse", "main"]).stdout.strip()
    work = world.script("work", WORK)
    for name, transfer in (("ada", "git-mirror"), ("bob", "git-worktree")):
        more = ["--transfer", transfer, "--id", f"agent-{uuid.uuid4().hex}"]
        world.create(name, work, name, world.root / f"done-{name}", more=more)
    for name in ("ada", "bob"):
        eventually((world.root / f"done-{name}").exists, f"{name} has committed")
    # What main got since is no agent's work.
    (repository / "README").write_text("changed\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    world.run(["git", *identity, "commit", "-q", "-a", "-m", "Go on"])
    before = world.run(["git", "status", "--porcelain"]).stdout
    done(block, world, repository)
    found = summary((repository / "review.jsonl").read_text())
    assert (found["base"], found["left_out"]) == (start, [])
    items = {(*item["agents"], item["subject"], item["status"]) for item in found["items"]}
    assert items == {(name, f"[FIX_IMPL] Mend {name}", "laid") for name in ("ada", "bob")}
    files = world.run(["git", "diff", "--name-only", start, found["candidate"]]).stdout.split()
    assert files == ["ada.py", "bob.py"]
    refs = world.run(["git", "for-each-ref", "--format=%(refname)"]).stdout.split()
    assert {ref for ref in refs if not ref.startswith("refs/selftest/")} == {"refs/heads/main", "refs/heads/mngr/bob"}
    assert world.run(["git", "status", "--porcelain"]).stdout == f"{before}?? review.jsonl\n"


GH = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/gh-arguments"
cat > "$HOME/gh-text"
echo https://example.org/pull/7
"""


def test_review_with_a_pull_request(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block("""
        # Publish what is kept, and open a pull request of it with gh.
        selftest-tui review --batch main..ada --decisions decisions.json --publish fixes --pr
    """)
    world.extra["PATH"] = f"{world.script('gh', GH).parent}:{world.environment['PATH']}"
    remote = desk.folder.parent / "remote.git"
    desk.git("init", "-q", "--bare", str(remote))
    desk.git("remote", "add", "origin", str(remote))
    notes = {desk.git("rev-parse", "ada"): "as the block says"}
    (desk.folder / "decisions.json").write_text(json.dumps({"default": "keep", "notes": notes}))
    found = summary(done(block, world, desk.folder).stdout)
    assert found["pull_request"] == "https://example.org/pull/7"
    assert desk.git("--git-dir", str(remote), "rev-parse", "fixes") == found["tip"] == desk.git("rev-parse", "fixes")
    said = (world.home / "gh-arguments").read_text().splitlines()
    assert said[:2] == ["pr", "create"]
    assert {"--base=main", "--head=fixes"} <= set(said)
    assert "as the block says" in (world.home / "gh-text").read_text()


def test_verify_what_branches_claim(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    look = e2e.write_tutorial_block("""
        # Which claims hold? The tests of both branches, run again on what would come of them: in a sandbox, on no branch of
        # yours. 1 says that something is red, flaky or unknown; what was run once for a tree is not run again.
        selftest-tui verify --base main ada bob
    """)  # noqa: E501 -- the block's own line
    whole = e2e.write_tutorial_block("""
        # The whole test suite, on what is kept; as lines of JSON, one for each run of a test and each verdict.
        selftest-tui verify --batch --base main ada bob --decisions decisions.json --all > verified.jsonl
    """)
    repository = make_shop(tmp_path / "shop")
    refs = repository.git("show-ref")
    environment = {**world.environment, **SETTINGS}
    done = look.run(environment=environment, cwd=repository.folder)
    assert done.exit_status == 0, done.stderr
    assert [line.split()[1:3] for line in done.stdout.splitlines()[1:3]] == [["✓", "passed"], ["✓", "passed"]]
    decisions = {"default": "keep", "items": {repository.git("rev-parse", "bob"): "revert"}}
    (repository.folder / "decisions.json").write_text(json.dumps(decisions))
    done = whole.run(environment=environment, cwd=repository.folder)
    # The tests of the agents whose branches are not here are red, and of bob's, who is reverted.
    assert done.exit_status == 1, done.stderr
    lines = [json.loads(line) for line in (repository.folder / "verified.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "tested"] == ["verdict", "verdict", "summary"]
    assert [(item["agents"], item["verified"]) for item in lines[-1]["items"]] == [
        (["ada"], "passed"), (["bob"], "unknown"),
    ]  # fmt: skip
    assert lines[-1]["verification"]["suite"] == "whole"
    assert repository.git("show-ref") == refs


def test_verify_on_another_machine(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block("""
        # The same on another machine that mngr knows, or on modal: trees go there, results come back, and nothing stays there.
        selftest-tui verify --base main ada bob --on box.pool
    """)  # noqa: E501 -- the block's own line
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


def test_verify_with_another_runner_in_its_own_environment(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block("""
        # Another language: any runner that writes JUnit XML to {junit}, in an environment that a command of the project makes, in
        # the sandbox too, and anew only when a lock or a manifest changes.
        selftest-tui verify --base main ada --set setup_command="sh install.sh" --set verify_command="./check.sh {junit}"
    """)  # noqa: E501 -- the block's own line
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
    assert done.exit_status == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1].split()[1:3] == ["✓", "passed"]
    assert "the whole suite" in done.stderr
    assert not (repository.folder / "node_modules").exists()


def test_publish_only_what_passes(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block("""
        # Verified, and published only if the tests of exactly what is published pass. 4 says that they do not, and that no
        # branch was written; 1 that something else is undecided or red.
        selftest-tui review --batch --base main ada bob eve --decisions decisions.json --publish good --require-verified > review.jsonl
    """)  # noqa: E501 -- the block's own line
    repository = make_shop(tmp_path / "shop")
    environment = {**world.environment, **SETTINGS}
    refs, eve = repository.git("show-ref"), repository.git("rev-parse", "eve")
    decisions = repository.folder / "decisions.json"

    decisions.write_text('{"default": "keep"}')
    done = block.run(environment=environment, cwd=repository.folder)
    assert done.exit_status == 4, done.stderr
    assert "tests/test_common.py::test_rate is red" in done.stderr
    lines = [json.loads(line) for line in (repository.folder / "review.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "tested"] == [*["verdict"] * 3, "summary"]
    assert (lines[-1]["published"], lines[-1]["candidate"]) == (None, None)
    assert "is not verified" in lines[-1]["refused"]
    assert repository.git("show-ref") == refs

    # Undecided, eve's change is on the candidate, which is red, and not on what is published, which is green.
    decisions.write_text(json.dumps({"default": "keep", "items": {eve: "undecided"}}))
    done = block.run(environment=environment, cwd=repository.folder)
    assert done.exit_status == 1, done.stderr
    found = summary((repository.folder / "review.jsonl").read_text())
    assert (found["published"], found["refused"]) == ("refs/heads/good", "")
    assert (found["verification"]["verdict"], found["published_verification"]["verdict"]) == ("failed", "passed")
    assert found["published_verification"]["tree"] == repository.git("rev-parse", "good^{tree}")
    assert [(item["agents"], item["verified"]) for item in found["items"]] == [
        (["ada"], "passed"), (["bob"], "passed"), (["eve"], "failed"),
    ]  # fmt: skip
