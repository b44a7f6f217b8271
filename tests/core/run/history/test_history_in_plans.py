"""The next plan of a real repository after earlier runs: who rests, what is new or gone, a base that was rewritten."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.run.shop import FILES, TESTS, commit, make_shop
from run_scenes import FIXED, Story
from selftest_core.config import load_config
from selftest_core.run.events import Event
from selftest_core.run.history.resting import EverythingRestsError
from selftest_core.run.history.scheduled_log import scheduled_log
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.offer import offer_parts
from selftest_core.run.plan.plan import plan_from_json, plan_json
from selftest_core.run.plan.preparation import Prepared, RunOptions, prepare
from selftest_core.run.store import folder_of, make_own_folder
from selftest_core.schema.model import instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worlds import World

pytestmark = pytest.mark.real
GREEN = {**FIXED, "changes": {}, "escalations": [], "tests_passing_before": True}


@pytest.fixture
def shop(world: World) -> World:
    folder = make_shop(world)
    (folder / "tests" / "test_broken.py").unlink()
    commit(world, "Nothing broken")
    return world


def prepared(shop: World, settings: Mapping[str, str] | None = None, **wanted: Any) -> Prepared:
    config = load_config(shop.repository, shop.environment, {"rest_after": "2", "rest_for": "2", **(settings or {})})
    return asyncio.run(prepare(RunOptions(**wanted), config, shop.environment, shop.repository, lambda _: None))


def a_night(made: Prepared, days: int, changes: Mapping[str, Any] | None = None) -> None:
    """Let the agents of a prepared run end so many days ago, all without a change and green; `changes`: other
    outcomes by test."""
    at = made.plan.created_at - 86_400.0 * days
    plan = plan_from_json(
        {**plan_json(made.plan), "created_at": at, "run": f"202611{20 - days:02}-0200-{days % 9:04x}"}
    )
    folder = folder_of(plan)
    make_own_folder(Path(plan.repository))
    told = Story(plan, folder)
    for number, test in enumerate(plan.tests):
        told.launch(number, 1)
        outcome = (changes or {}).get(test.node_id, GREEN)
        told.end(number, 2, End.SUCCEEDED if outcome["changes"] else End.UNCHANGED, outcome=outcome)
    told.note(Event.LEFT, 9, why="done")
    told.write()


def resting(made: Prepared) -> dict[str, int]:
    assert made.plan.suite is not None
    return {one.node_id: one.until for one in made.plan.suite.resting}


def test_tests_rest_after_green_nights_until_something_that_affects_them_changes(shop: World) -> None:
    untold = {**GREEN, "tests_passing_after": None}
    first = prepared(shop)
    for days in (3, 2):
        a_night(first, days, {TESTS[0]: FIXED, TESTS[1]: untold})

    made = prepared(shop)

    assert resting(made) == dict.fromkeys(TESTS[2:], 2), "one was changed, and of one nobody said that it passes"
    assert [test.node_id for test in made.plan.tests] == list(TESTS[:2])
    said = {part.word: "\n".join(part.lines) for part in offer_parts(made.offer)}
    assert "2 tests rest and get no agent (--no-rest)" in said["resting"]
    assert "green and unchanged in its last 2 runs" in said["resting"]
    a_night(made, 1)
    assert resting(prepared(shop)) == dict.fromkeys(TESTS[2:], 1)
    assert resting(prepared(shop, is_resting=False)) == {}

    (shop.repository / "tests" / "test_tax.py").write_text(FILES["tests/test_tax.py"] + "\n# changed\n")
    commit(shop, "Change a test")
    assert list(resting(prepared(shop))) == [TESTS[2]]
    (shop.repository / "shop" / "cart.py").write_text("def total(): return 2\n")
    commit(shop, "Change what the other imports")
    assert resting(prepared(shop)) == {}


def test_a_changed_block_of_the_tutorial_ends_the_rest_of_those_that_cite_it(shop: World) -> None:
    first = prepared(shop)
    for days in (3, 2):
        a_night(first, days)
    tutorial = shop.repository / "tutorial.sh"
    tutorial.write_text(tutorial.read_text().replace("shop tax 256", "shop tax 512"))
    commit(shop, "Change a block")
    assert list(resting(prepared(shop))) == list(TESTS[:3])


def test_where_everything_rests_it_says_so_and_the_nights_count(shop: World) -> None:
    first = prepared(shop)
    for days in (3, 2):
        a_night(first, days)
    with pytest.raises(EverythingRestsError) as raised:
        prepared(shop)
    assert "All 4 tests rest" in raised.value.title
    assert "in 2 runs" in raised.value.detail
    assert "--no-rest" in raised.value.hint
    with scheduled_log(shop.repository) as log:
        log.write({"at": "2026-11-20T02:00:00.000Z", "rested": "no list"})
        for hour in (2, 3):
            at = instant(first.plan.created_at - 3_600.0 * hour)
            log.write({"at": at, "skipped": "all rest", "rested": list(TESTS)})
    assert resting(prepared(shop)) == {}


def test_new_tests_and_those_that_are_gone_are_told_with_who_deleted_them(shop: World) -> None:
    a_night(prepared(shop), 2)
    a_night(prepared(shop, tests=("tests/test_tax.py",)), 1)
    cart = shop.repository / "tests" / "test_cart.py"
    cart.write_text(cart.read_text().replace("def test_empty(): ...\n", "def test_full(): ...\n"))
    by = "Drop a test\n\nSelftest-Run: 20261118-0200-0002\nSelftest-Agent: st-7f-cart (claude)\n"
    oid = commit(shop, by)

    made = prepared(shop)

    suite = made.plan.suite
    assert suite is not None
    assert suite.since == "20261118-0200-0002", "the run of one file is not compared with"
    assert suite.grown == ("tests/test_cart.py::test_full",)
    (gone,) = suite.deleted
    assert (gone.node_id, gone.commit, gone.subject) == (TESTS[2], oid, "Drop a test")
    assert gone.agent == "st-7f-cart (claude)"
    said = {part.word: "\n".join(part.lines) for part in offer_parts(made.offer)}
    assert "1 test new and 1 gone since run 20261118-0200-0002" in said["growth"]
    assert f"{TESTS[2]}, deleted by st-7f-cart (claude) in {oid[:12]} (Drop a test)" in said["growth"]
    assert plan_from_json(json.loads(json.dumps(plan_json(made.plan)))) == made.plan


def test_a_file_that_cannot_be_collected_or_skips_itself_deletes_no_test(shop: World) -> None:
    a_night(prepared(shop), 2)
    (shop.repository / "tests" / "test_tax.py").write_text("import nothing_is_called_so\n")
    commit(shop, "Break a file")
    broken = prepared(shop)
    assert broken.plan.suite is not None
    assert (broken.plan.suite.grown, broken.plan.suite.deleted) == ((), ())
    (shop.repository / "tests" / "test_tax.py").write_text(
        "import pytest\npytest.importorskip('nothing_is_called_so')\n"
    )
    commit(shop, "Let a file skip itself")
    skipping = prepared(shop)
    assert skipping.plan.suite is not None
    assert (skipping.plan.suite.deleted, skipping.plan.suite.unknown) == ((), ("tests/test_tax.py",))


def test_a_base_that_was_rewritten_is_told_and_an_older_or_newer_one_is_not(shop: World) -> None:
    a_night(prepared(shop), 1)
    assert not [one for one in prepared(shop, base="HEAD~1").plan.warnings if "rewritten" in one]
    (shop.repository / "more").write_text("1")
    commit(shop, "Go on")
    assert not [one for one in prepared(shop).plan.warnings if "rewritten" in one]

    shop.run(["git", "reset", "-q", "--hard", "HEAD~2"])
    (shop.repository / "tests" / "test_broken.py").unlink()
    commit(shop, "Another history")
    (told,) = [one for one in prepared(shop).plan.warnings if "rewritten (force-pushed)" in one]
    assert "does not contain" in told
    assert "20261119-0200-0001" in told
    shop.run(["git", "reflog", "expire", "--expire=now", "--all"])
    shop.run(["git", "gc", "-q", "--prune=now"])
    gone = prepared(shop, {"rest_after": "1"})
    assert [one for one in gone.plan.warnings if "is not in this repository" in one]
    assert resting(gone) == {}, "nobody knows what has changed since"


def test_a_run_of_the_future_is_told_and_not_compared_with(shop: World) -> None:
    a_night(prepared(shop), -3)
    made = prepared(shop)
    assert made.plan.suite is not None
    assert made.plan.suite.since == ""
    assert [one for one in made.plan.warnings if "20261123-0200-" in one and "dated in the future" in one]
