"""`run --batch --scheduled` as cron meets it: what skips a run, what ends it with 3, and that nothing is left then."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from core.run.fingerprints import fingerprint
from core.run.shop import TESTS, make_shop
from fleet_parts import agent_id
from github import GitHub, pull_request
from run_scenes import BEGAN, FIXED, story
from selftest_core.git.command import Place
from selftest_core.journal import Journal
from selftest_core.review.pull_request import marker
from selftest_core.run.history.scheduled_log import scheduled_lines, scheduled_log
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest
from tui.cli.programs import ours
from worlds import World, a_world

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """A shop with a remote, whose pull requests the stand-in for gh lists."""
    with a_world() as world:
        make_shop(world)
        world.run(["git", "remote", "add", "origin", "https://github.example/o/r"])
        yield world


@pytest.fixture
def github(shop: World, request: pytest.FixtureRequest) -> GitHub:
    made = GitHub.make(shop.root / f"gh-{request.node.name[:40]}")
    shop.extra["PATH"] = f"{made.folder}{os.pathsep}{shop.environment['PATH']}"
    return made


def scheduled(shop: World, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run it, and return its last line."""
    done = ours(shop, "run", "--batch", "--scheduled", *arguments)
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return done, line


def test_it_is_skipped_while_a_pull_request_is_open(shop: World, github: GitHub) -> None:
    github.write([pull_request(7, marker("20261121-0931-7f3a"))])
    place = Place(shop.repository / ".git", shop.repository)
    before = fingerprint(place, shop.environment)

    done, line = scheduled(shop)

    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    schema = json.loads(ours(shop, "schema", check=True).stdout)
    jsonschema.validate(line, {**schema["documents"]["run --batch, the summary"], "$defs": schema["$defs"]})
    assert line["skipped"] == "pull request 7 of an earlier run is open: https://github.example/o/r/pull/7"
    assert (line["event"], line["run"], line["tests"]) == ("summary", None, 0)
    assert f"skipped: {line['skipped']}" in done.stderr
    assert fingerprint(place, shop.environment) == before
    assert {path.name for path in (shop.repository / ".selftest").iterdir()} == {".gitignore", "scheduled.jsonl"}
    assert scheduled_lines(shop.repository)[-1]["skipped"] == line["skipped"]


def test_it_is_skipped_while_another_one_is_conducted(shop: World, github: GitHub) -> None:
    github.log_out()
    with scheduled_log(shop.repository) as other:
        assert other.has_lock
        done, line = scheduled(shop)
    assert done.returncode == 0
    assert line["skipped"] == "another scheduled run of this repository is conducted"


def test_it_ends_with_3_where_nobody_can_tell_and_goes_on_where_nobody_asks(shop: World, github: GitHub) -> None:
    github.log_out()
    done, line = scheduled(shop)
    assert (done.returncode, line["event"], line["exit_status"]) == (3, "error", 3)
    assert "unknown whether an earlier pull request is open" in done.stderr
    assert "skip_while_open = false" in done.stderr

    # It gets as far as the collection, where nothing is left to run.
    arguments = ("--set", "skip_while_open=false", "--", "-k", "nothing_at_all", "--ignore=tests/test_broken.py")
    done, line = scheduled(shop, *arguments)
    assert done.returncode == 2
    assert "No tests were collected" in line["title"]


def test_a_pull_request_that_was_closed_by_hand_does_not_count(shop: World, github: GitHub) -> None:
    github.write([pull_request(7, marker("20261121-0931-7f3a"), state="CLOSED")])
    done, line = scheduled(shop, "--", "-k", "nothing_at_all", "--ignore=tests/test_broken.py")
    assert done.returncode == 2
    assert "No tests were collected" in line["title"]


def test_a_run_that_has_not_ended_is_named_with_what_can_be_done(world: World) -> None:
    repository = make_shop(world)
    earlier = story(repository / ".selftest" / "runs", 1, run="20261118-0200-0000", repository=str(repository)).write()
    nothing = ("--set", "skip_while_open=false", "--", "-k", "nothing_at_all", "--ignore=tests/test_broken.py")

    done, _ = scheduled(world, *nothing)
    with Journal(earlier.journal):
        beside, _ = scheduled(world, *nothing)

    assert "run 20261118-0200-0000 has not ended: `selftest-tui resume 20261118-0200-0000`" in done.stderr
    assert "run 20261118-0200-0000 is being conducted, too" in beside.stderr
    assert "resume" not in beside.stderr


def test_it_is_skipped_where_the_budget_of_the_day_pays_for_no_agent(world: World) -> None:
    repository = make_shop(world)
    now = time.time()
    earlier = story(
        repository / ".selftest" / "runs", 1, run="20261118-0200-0000", repository=str(repository), created_at=now,
        usd_per_agent=1.0,
    )  # fmt: skip
    earlier.launch(0, now - BEGAN)
    earlier.end(0, now - BEGAN, End.UNCHANGED)
    earlier.write()
    limits = ("--set", "skip_while_open=false", "--set", "budget_day_usd=1.5", "--set", "usd_per_agent=1")

    done, line = scheduled(world, "tests/test_tax.py", *limits)

    assert done.returncode == 0
    assert line["skipped"] == "the day's budget of 1.50 USD is used up"
    assert [path.name for path in (repository / ".selftest" / "runs").iterdir()] == ["20261118-0200-0000"]


def test_it_is_skipped_where_every_test_rests_and_those_nights_count(world: World) -> None:
    repository = make_shop(world)
    earlier = story(
        repository / ".selftest" / "runs", 1, run="20261118-0200-0000", repository=str(repository),
        base=world.run(["git", "rev-parse", "HEAD"]).stdout.strip(),
        tests=(PlannedTest(TESTS[3], "st-1", agent_id(1), ()),),
    )  # fmt: skip
    earlier.launch(0, 1)
    earlier.end(0, 2, End.UNCHANGED, outcome={**FIXED, "changes": {}, "escalations": []})
    earlier.write()
    rest = ("--set", "skip_while_open=false", "--set", "rest_after=1", "--set", "rest_for=2", "tests/test_tax.py")
    says = [scheduled(world, *rest)[1] for _ in range(2)]

    assert [line["skipped"].partition(", or")[0] for line in says] == [
        "the only test rests. The first one works again in 2 runs",
        "the only test rests. The first one works again in 1 run",
    ]
    assert [line["resting"][0]["until"] for line in says] == [2, 1]
    assert [line["tests"] for line in says] == [0, 0]
    plan = json.loads(ours(world, "run", "--dry-run", "--json", *rest, check=True).stdout)
    assert [test["test"] for test in plan["tests"]] == [TESTS[3]], "its rest is over"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--scheduled"], "--scheduled needs --batch"), (["--batch", "--scheduled", "--dry-run"], "do not go together")],
)
def test_flags_that_do_not_go_together_are_told_with_the_way_out(shop: World, arguments: list[str], says: str) -> None:
    done = ours(shop, "run", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "→" in done.stderr
