"""`selftest-tui run` as people and programs meet it: the plan in words and as JSON, and what is refused."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import jsonschema
import pytest

from core.run.shop import TESTS, make_shop
from tui.cli.programs import PROGRAM, ours
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """A shop whose mngr answers at once; no test here changes it."""
    with a_world() as world:
        make_shop(world)
        yield world


@pytest.mark.parametrize("columns", [80, 120])
def test_the_plan_is_shown_in_words_and_nothing_begins(shop: World, columns: int) -> None:
    done = ours(shop, "run", "--dry-run", env={"COLUMNS": str(columns)}, check=True)

    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    words = [line.split()[0] for line in lines if line and not line.startswith((" ", "note"))]
    assert words == [
        "from", "tests", "agents", "verify", "limits", "time", "cost", "disk", "sent", "env", "broken", "Nothing",
    ]  # fmt: skip
    assert f"{len(TESTS)} tests" in done.stdout
    assert str(shop.repository / "agents" / "fix.sh") in done.stdout.replace("\n" + " " * 10, "")
    assert "nothing_is_called_so" in done.stdout
    assert not (shop.repository / ".selftest").exists()


def test_the_plan_is_one_document_for_programs(shop: World) -> None:
    schema = json.loads(ours(shop, "schema", check=True).stdout)

    printed = json.loads(ours(shop, "run", "--dry-run", "--json", "tests/test_tax.py", check=True).stdout)
    line = json.loads(ours(shop, "run", "--dry-run", "--batch", "tests/test_tax.py", check=True).stdout)

    for name, document in (("run --dry-run --json", printed), ("run --dry-run --batch", line)):
        jsonschema.validate(document, {**schema["documents"][name], "$defs": schema["$defs"]})
    assert [test["test"] for test in printed["tests"]] == [TESTS[3]]
    assert (line["event"], line["run"], line["tests"]) == ("summary", None, printed["tests"])


def test_bare_batch_is_a_run_of_everything_and_takes_pytests_arguments(shop: World) -> None:
    done = ours(shop, "--batch", "--", "-k", "nothing_at_all", "--ignore=tests/test_broken.py")

    assert done.returncode == 2
    assert "No tests were collected: the arguments leave out all" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "error"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "There is no terminal"),
        (["run", "--json"], "--json is for --dry-run"),
        (["run", "--dry-run", "--set", "max_runing=3"], "Did you mean max_running?"),
        (["run", "--dry-run", "--set", "on_cluster=stop"], "on_cluster must be one of ask, pause, go"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_collected(shop: World, arguments: list[str], says: str) -> None:
    done = ours(shop, *arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert "collecting" not in done.stderr
    assert done.stdout == ""


def test_outside_of_a_repository_it_says_so(shop: World, tmp_path: Path) -> None:
    done = shop.run([PROGRAM, "run", "--dry-run"], cwd=tmp_path, check=False)

    assert done.returncode == 2
    assert "is not in a git repository" in done.stderr


def test_without_a_commit_it_says_what_to_do(shop: World, tmp_path: Path) -> None:
    shop.run(["git", "init", "-q", tmp_path])

    done = shop.run([PROGRAM, "run", "--dry-run"], cwd=tmp_path, check=False)

    assert done.returncode == 2
    assert "has no commit yet" in done.stderr
    assert "git add -A && git commit" in done.stderr


@pytest.mark.real
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--agent", "strange"], "mngr knows no agent type 'strange'"),
        (["--on", "nowhere", "--agent-command", "./agents/fix.sh"], "mngr knows no provider 'nowhere'"),
    ],
)
def test_the_real_mngr_is_asked_what_it_knows(world: World, arguments: list[str], says: str) -> None:
    make_shop(world)
    world.extra["PATH"] = world.environment["PATH"].partition(os.pathsep)[2]

    done = ours(world, "run", "--batch", "tests/test_tax.py", *arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "error"
    assert not (world.repository / ".selftest").exists(), "told before anything began"
    assert world.listing()["agents"] == []


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("on_cluster", "status"), [("go", 1), ("ask", 3)])
def test_arguments_that_mngr_refuses_cost_rows_and_leave_no_agent(world: World, on_cluster: str, status: int) -> None:
    repository = world.make_repository()
    world.load_mngr()
    tests = 20 if on_cluster == "ask" else 6
    (repository / "test_all.py").write_text("".join(f"def test_{n}():\n    assert False\n" for n in range(tests)))
    world.run(["git", "add", "."])
    world.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "Test"])
    agent = world.script("agent.sh", "#!/bin/sh\nexec sleep 1000\n")

    arguments = ["--agent-command", str(agent), "--set", "create_args=--bogus-flag", "--on-cluster", on_cluster]
    done = world.run([PROGRAM, "run", "--batch", *arguments], check=False, timeout=800)

    assert done.returncode == status, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    launch = summary["outcomes"]["failed"]["launch"]
    assert launch == (tests if on_cluster == "go" else 5)
    assert summary["outcomes"]["not_started"] == tests - launch
    (cluster,) = summary["clusters"]
    assert "--bogus-flag" in cluster["signature"]
    assert (cluster["stage"], len(cluster["tests"])) == ("launch", launch)
    assert bool(summary["paused"]) == (on_cluster == "ask")
    assert world.listing()["agents"] == []


AGENT = """#!/bin/sh
cat > "$SELFTEST_OUT/draft.json" <<END
{"changes": {}, "errored": false, "tests_passing_after": true, "summary_markdown": "Nothing to do."}
END
mv "$SELFTEST_OUT/draft.json" "$SELFTEST_OUT/outcome.json"
exec sleep 1000
"""


@pytest.mark.real
@pytest.mark.timeout(900)
def test_the_second_run_of_a_day_ends_at_the_day_budget_and_goes_on_once_it_is_raised(world: World) -> None:
    repository = world.make_repository()
    world.load_mngr()
    (repository / "test_all.py").write_text("def test_1(): ...\ndef test_2(): ...\n")
    (repository / "selftest-tui.toml").write_text("usd_per_agent = 1\nbudget_day_usd = 3\n")
    world.run(["git", "add", "."])
    world.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "Test"])
    # It is noon there: no midnight passes meanwhile. The number at once adapts, by the real load too.
    world.extra.update(TZ=f"TST{time.gmtime().tm_hour - 12:+d}", SELFTEST_TUI_ADAPT="true")
    script = str(world.script("agent.sh", AGENT))
    command: list[str | Path] = [
        PROGRAM,
        "run",
        "--batch",
        "--agent-command",
        script,
        "--set",
        "verify_on_arrival=false",
    ]

    first = world.run(command, timeout=800)
    second = world.run(command, check=False, timeout=800)

    before = json.loads(first.stdout.splitlines()[-1])
    assert before["outcomes"]["unchanged"] == 2
    # The second begins with what the first came down to, on a busy machine.
    assert before["at_once"][0]["limit"] == 20
    assert second.returncode == 3, second.stderr
    summary = json.loads(second.stdout.splitlines()[-1])
    assert (summary["left"], summary["paused"]) == ("budget", "the day's budget of 3.00 USD is used up")
    assert (summary["outcomes"]["unchanged"], summary["outcomes"]["not_started"]) == (1, 1)
    plan = json.loads(world.run([*command[:2], "--dry-run", "--json", "--agent-command", script]).stdout)
    assert plan["adapt"] is True
    day = plan["money"]["day"]
    assert (day["spent_usd"], day["runs"], day["affordable"], day["used_up"]) == (3.0, 2, 0, True)

    resumed = world.run([PROGRAM, "resume", "--batch", "--set", "budget_day_usd=4"], timeout=800)
    assert json.loads(resumed.stdout.splitlines()[-1])["outcomes"]["unchanged"] == 2
