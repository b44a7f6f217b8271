"""The blocks of tutorial.sh that start agents which write the missing tests, as they stand, on a small shop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.run.shop import ANSWERS, commit
from core.verify.desks import SETTINGS
from selftest_recorder.e2e.expect import expect
from standins import mngr_that
from worlds import BIN, World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd

pytestmark = pytest.mark.real
SHOP = '#!/bin/sh\ncase $2 in tea) echo 4.50;; pot) echo 6.00;; *) echo "no $2" >&2; exit 2;; esac\n'
TUTORIAL = "#!/bin/sh\nset -e\n\n# The price of tea.\n./shop price tea\n\n# And of a pot.\n./shop price pot\n"
CITING = """\
import subprocess


def run(line):
    return subprocess.run(line, shell=True, capture_output=True, text=True)


def test_pot():
    '''Tutorial block:

    # And of a pot.
    ./shop price pot
    '''
    assert run("./shop price pot").stdout == "6.00\\n"
"""
TEA = """

def test_tea{name}():
    '''Tutorial block:

    # The price of tea.
    ./shop price tea
    '''
    {body}
"""
WRITER = """#!/bin/sh
set -e
grep -q '"block": "# The price of tea' .selftest/task/task.json
cat >> tests/test_shop.py <<'END'
{tests}
END
git commit -qam "[CREATE_TEST] Test the price of tea"
printf '%s' '{{"changes": {{"CREATE_TEST": {{"status": "SUCCEEDED", "summary_markdown": "Two tests."}}}},
  "errored": false, "tests_passing_after": true, "summary_markdown": "Two tests."}}' > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""
GOOD = 'assert run("./shop price tea").stdout == "4.50\\n"'
WEAK = 'assert run("./shop price tea").returncode == 0'
REFUSES = 'done = run("./shop price air")\n    assert (done.returncode, done.stderr) == (2, "no air\\n")'


def write_shop(world: World, happy: str = GOOD) -> Path:
    """A shop with an uncited block, and an agent that writes its tests."""
    folder = world.make_repository()
    tests = TEA.format(name="", body=happy) + TEA.format(name="_and_air", body=REFUSES)
    programs = {"shop": SHOP, "writer.sh": WRITER.format(tests=tests)}
    (folder / "tests").mkdir(exist_ok=True)
    for name, text in {**programs, "tutorial.sh": TUTORIAL, "tests/test_shop.py": CITING}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755 if name in programs else 0o644)
    commit(world, "A shop")
    return folder


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """The shop on the real mngr, loaded once."""
    with a_world(**SETTINGS) as world:
        write_shop(world)
        world.load_mngr()
        yield world


@pytest.fixture
def small(world: World) -> World:
    """The shop on an mngr that answers at once, for plans: nothing is started."""
    write_shop(world)
    mngr_that(world, ANSWERS)
    world.extra.update(SETTINGS)
    return world


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of JSON of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


PLAN = """
    # The agents that would write the tests which the tutorial lacks: one for each block that no test cites, and for each test
    # whose citation is no block any more. Nothing starts.
    selftest-tui sync --dry-run --agent-command ./writer.sh
"""  # noqa: E501 -- the block's own lines
CHOSEN = """
    # Only for the block at line 4, from another commit, tutorial and folder. Agents and limits are given as for `run`.
    selftest-tui sync 4 --dry-run --json --base HEAD~1 --tutorial tour.sh --tests e2e --agent claude --no-smoke --on local \\
      --transfer worktree --env API_KEY --max-running 2 --launch-rate 0.5 --timeout 600 --budget-usd 5 --on-cluster pause \\
      --no-verify-on-arrival > plan.json
"""  # noqa: E501 -- the block's own lines
RUN = """
    # What they write is taken only if a happy and an unhappy test cite the block, no other test is weaker, and each of them
    # passes here, and fails when the command does nothing. Then it is reviewed like every run. 1: some block could not be covered.
    selftest-tui sync --batch --agent-command ./writer.sh --verify-on-arrival > sync.jsonl
"""  # noqa: E501 -- the block's own lines


def test_what_a_sync_would_be(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(PLAN)

    result = block.run(environment=small.environment, cwd=small.repository)

    shown = expect(result).to_succeed().stdout
    shown.to_contain("1 block, one agent", "tutorial.sh:4 ./shop price tea", "`selftest-tui sync` would do")
    expect(small.repository / ".selftest").to_be_missing()


@pytest.mark.unhappy
def test_a_sync_without_a_tutorial_in_the_base(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(PLAN)
    small.run(["git", "rm", "-q", "--cached", "tutorial.sh"])
    commit_without_adding(small)

    result = block.run(environment=small.environment, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no tutorial tutorial.sh at the base")


def commit_without_adding(world: World) -> None:
    """Commit what is in the index."""
    world.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "Forget it"])


def in_another_place(world: World) -> None:
    """Move the tutorial and its tests in one commit, and add another after it."""
    world.run(["git", "mv", "tutorial.sh", "tour.sh"])
    world.run(["git", "mv", "tests", "e2e"])
    commit(world, "Move")
    (world.repository / "later").touch()
    commit(world, "Later")


def test_a_sync_of_one_block_for_programs(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(CHOSEN)
    in_another_place(small)

    result = block.run(environment={**small.environment, "API_KEY": "a-secret"}, cwd=small.repository)

    expect(result).to_succeed()
    found = json.loads((small.repository / "plan.json").read_text())
    (gap,) = found["gaps"]
    assert (gap["line"], gap["stale"], gap["near"]) == (4, [], ["e2e/test_shop.py::test_pot"])
    plan = found["plan"]
    assert [test["test"] for test in plan["tests"]] == [gap["task"]] == ["tour.sh:4 ./shop price tea"]
    limits = (
        plan["max_running"],
        plan["launch_rate"],
        plan["timeout"],
        plan["on_cluster"],
        plan["money"]["budget_usd"],
    )
    assert limits == (2, 0.5, 600.0, "pause", 5.0)
    assert (plan["transfer"], plan["env_names"], plan["verify_on_arrival"]) == ("worktree", ["API_KEY"], "")


@pytest.mark.unhappy
def test_a_sync_of_a_block_that_is_cited(e2e: EndToEnd, small: World) -> None:
    block = e2e.write_tutorial_block(CHOSEN)
    path = small.repository / "tests" / "test_shop.py"
    path.write_text(CITING + TEA.format(name="", body=GOOD))
    commit(small, "Cite it")
    in_another_place(small)

    result = block.run(environment={**small.environment, "API_KEY": "a-secret"}, cwd=small.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("The block at line 4 is cited by e2e/test_shop.py::test_tea")


def test_a_sync(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(RUN)

    result = block.run(environment=shop.environment, cwd=shop.repository)

    expect(result).to_succeed().stderr.to_contain("[1/1] tutorial.sh:4 ./shop price tea succeeded")
    summary = lines_of(shop.repository / "sync.jsonl")[-1]
    (item,) = summary["line"]["items"]
    assert (summary["outcomes"]["succeeded"], item["kind"]) == (1, "test")
    assert summary["line"]["check"] == {"ok": True, "uncited": [], "stale": []}
    (shop.repository / "kept.json").write_text(json.dumps({"items": {item["source"]: "keep"}}))
    words = ["review", summary["run"], "--batch", "--decisions", "kept.json", "--publish", "synced", "--verify"]
    done = shop.run([BIN / "selftest-tui", *words])
    reviewed = json.loads(done.stdout.splitlines()[-1])
    assert reviewed["items"][0]["verified"] == "passed"
    assert (reviewed["published"], reviewed["check"]["ok"]) == ("refs/heads/synced", True)
    # The checkout is as it was: nothing but what the commands here wrote.
    assert shop.run(["git", "status", "--porcelain"]).stdout.split() == ["??", "kept.json", "??", "sync.jsonl"]


@pytest.mark.unhappy
def test_a_sync_whose_tests_pass_without_the_command(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(RUN)
    write_shop(shop, happy=WEAK)

    result = block.run(environment=shop.environment, cwd=shop.repository)

    reason = "tests/test_shop.py::test_tea passes without the command: it does nothing"
    expect(result).to_have_exit_code(1).stderr.to_contain(reason)
    summary = lines_of(shop.repository / "sync.jsonl")[-1]
    assert (summary["outcomes"]["failed"]["red"], summary["line"]) == (1, None)
    expect(result).stderr.to_contain("no review: There is nothing to review")
