"""A run is made ready from a real repository and its own pytest; whatever cannot work is said before it begins."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from core.run.fingerprints import fingerprint
from core.run.shop import ANSWERS, TESTS, commit, make_shop
from selftest_core.config import load_config
from selftest_core.errors import ConfigError, RefusedError, SelftestError, ToolError, UsageError
from selftest_core.git.command import find_place
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.preparation import Prepared, RunOptions, begin, prepare
from standins import calls, mngr_that
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """A shop that no test changes."""
    with a_world() as world:
        make_shop(world)
        yield world


def prepared(
    world: World, *, cwd: Path | None = None, settings: dict[str, str] | None = None,
    environ: dict[str, str] | None = None, **wanted: Any,
) -> Prepared:  # fmt: skip
    place, environ = cwd or world.repository, environ or world.environment
    config = load_config(place, environ, settings)
    return asyncio.run(prepare(RunOptions(**wanted), config, environ, place, lambda _: None))


def refused(world: World, **wanted: Any) -> SelftestError:
    with pytest.raises(SelftestError) as raised:
        prepared(world, **wanted)
    return raised.value


def test_a_run_is_ready_with_all_that_was_collected(shop: World) -> None:
    before = fingerprint(find_place(shop.repository, shop.environment), shop.environment)
    asked = len(calls(shop))

    made = prepared(shop)

    plan = made.plan
    assert tuple(test.node_id for test in plan.tests) == (*TESTS, "tests/test_broken.py")
    assert [test.node_id for test in made.offer.tests] == list(TESTS)
    assert [one.path for one in made.uncollected] == ["tests/test_broken.py"]
    assert "nothing_is_called_so" in made.uncollected[0].message
    assert [test.blocks for test in plan.tests] == [
        ("shop add apple 3\nshop total",), ("shop add apple 3\nshop total",), (), ("shop tax 256",), (),
    ]  # fmt: skip
    assert plan.base == shop.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    assert plan.agent_command == (str(shop.repository / "agents" / "fix.sh"),)
    assert made.offer.estimates.tests == len(TESTS)
    assert not (shop.repository / ".selftest").exists(), "nothing is written before the yes"
    assert fingerprint(find_place(shop.repository, shop.environment), shop.environment) == before
    # A command agent on this machine needs no more of mngr than one listing.
    assert [call.split()[0] for call in calls(shop)[asked:]] == ["list"]


def test_names_are_taken_from_where_the_person_stands_and_arguments_reach_the_collection(shop: World) -> None:
    tests = shop.repository / "tests"

    one = prepared(shop, cwd=tests, tests=("test_tax.py::test_tax",))
    some = prepared(shop, cwd=tests, tests=("test_cart.py",), pytest_args=("-k", "empty"))

    assert [test.node_id for test in one.plan.tests] == ["tests/test_tax.py::test_tax"]
    assert [test.node_id for test in some.plan.tests] == ["tests/test_cart.py::test_empty"]
    assert some.plan.pytest_args == ("-k", "empty")
    assert some.offer.deselected == 2
    assert "outside of the repository" in refused(shop, tests=("/etc/passwd",)).title


def test_what_a_person_said_goes_over_the_settings(shop: World) -> None:
    (shop.root / "prompt.j2").write_text("Do {{ test }}, please.\n")
    settings = {
        "max_running": "3", "launch_rate": "0.5", "timeout": "900", "usd_per_agent": "2", "budget_usd": "50",
        "on_cluster": "pause", "env": "HOME", "create_args": "-t small", "prompt": str(shop.root / "prompt.j2"),
        "transfer": "worktree",
    }  # fmt: skip

    set_alone = prepared(shop, settings=settings, tests=("tests/test_tax.py",)).plan
    said = prepared(
        shop, settings=settings, tests=("tests/test_tax.py",), max_running=1, launch_rate=2.0, timeout=60.0,
        budget_usd=4.0, on_cluster="go", env_names=("HOME", "LANG"), transfer="mirror", agent_command="sleep 9",
    ).plan  # fmt: skip

    assert (set_alone.max_running, set_alone.launch_rate, set_alone.timeout) == (3, 0.5, 900.0)
    assert (set_alone.budget_usd, set_alone.usd_per_agent, set_alone.on_cluster) == (50.0, 2.0, "pause")
    assert (set_alone.env_names, set_alone.create_args, set_alone.transfer) == (("HOME",), ("-t", "small"), "worktree")
    assert set_alone.prompt_template == "Do {{ test }}, please.\n"
    assert (said.max_running, said.launch_rate, said.timeout, said.budget_usd) == (1, 2.0, 60.0, 4.0)
    assert (said.on_cluster, said.env_names, said.transfer) == ("go", ("HOME", "LANG"), "mirror")
    assert said.agent_command is not None
    assert said.agent_command[0].endswith("/sleep")
    assert said.agent_command[1:] == ("9",)


def test_a_number_of_agents_that_a_person_names_stays_unless_the_setting_was_set(shop: World) -> None:
    environ = {name: value for name, value in shop.environment.items() if name != "SELFTEST_TUI_ADAPT"}
    place = shop.home / "state" / "selftest-tui" / "at-once.json"
    place.parent.mkdir(parents=True)
    place.write_text('{"local": {"command": 7}}')
    wanted: dict[str, Any] = {"environ": environ, "tests": ("tests/test_tax.py",), "agent_command": "true"}
    told = prepared(shop, settings={"adapt": "true"}, max_running=9, **wanted).plan
    assert (told.adapt, told.start_running) == (True, 7)
    usual = prepared(shop, **wanted).plan
    assert (usual.max_running, usual.adapt, usual.start_running) == (20, True, 7)
    named = prepared(shop, max_running=9, **wanted).plan
    assert (named.max_running, named.adapt, named.start_running) == (9, False, 0)


def test_begun_it_has_a_clone_and_a_row_for_what_cannot_be_collected(world: World) -> None:
    repository = make_shop(world)
    (repository / "notes.txt").write_text("mine\n")
    before = fingerprint(find_place(repository, world.environment), world.environment)

    folder = begin(prepared(world), world.environment)

    run = folder.read()
    (broken,) = [row for row in run.rows.values() if row.phase is Phase.ENDED]
    assert (broken.planned.node_id, broken.end, broken.stage) == (
        "tests/test_broken.py", End.NOT_STARTED, "collection",
    )  # fmt: skip
    assert "nothing_is_called_so" in broken.text
    assert {row.phase for row in run.rows.values() if row is not broken} == {Phase.WAITING}
    assert run.plan.left_out == ("notes.txt",)
    assert (folder.clone / "tests" / "test_tax.py").is_file()
    assert not (folder.clone / "notes.txt").exists()
    assert fingerprint(find_place(repository, world.environment), world.environment) == before
    assert world.run(["git", "status", "--porcelain"]).stdout == "?? notes.txt\n"


def test_tests_are_those_of_the_base_not_of_a_dirty_tree(world: World) -> None:
    repository = make_shop(world)
    (repository / "tests" / "test_new.py").write_text("def test_new(): ...\n")
    (repository / "tests" / "test_tax.py").write_text("def test_renamed(): ...\n")

    made = prepared(world, tests=("tests/test_tax.py", "tests/test_cart.py"))

    assert [test.node_id for test in made.plan.tests] == [TESTS[3], *TESTS[:3]]
    assert set(made.plan.left_out) == {"tests/test_new.py", "tests/test_tax.py"}
    assert any("checkout of the base" in warning for warning in made.plan.warnings)
    error = refused(world, tests=("tests/test_new.py",))
    assert isinstance(error, UsageError)
    assert error.title == "tests/test_new.py is not in the base"
    assert "Commit it" in error.hint


def test_only_tests_that_a_change_concerns_are_picked_with_the_reason(world: World) -> None:
    repository = make_shop(world)
    (repository / "shop" / "cart.py").write_text("def total(): return 2\n")
    (repository / "shop" / "tax.py").write_text("")
    (repository / "pyproject.toml").write_text("[project.scripts]\nshop = 'shop.tax:main'\n")
    commit(world, "Two")
    (repository / ".coverage").write_bytes(b"no data")

    made = prepared(world, affected_by="HEAD~1")

    assert [test.node_id for test in made.offer.tests] == list(TESTS)
    assert made.picked[TESTS[2]] == ("it imports shop/cart.py, which changed",)
    assert made.picked[TESTS[3]] == ("it runs `shop tax`, which uses shop/tax.py, which is new",)
    assert any(".coverage cannot be read" in warning for warning in made.plan.warnings)
    assert made.offer.found == len(TESTS)
    nothing = refused(world, affected_by="HEAD")
    assert nothing.title == "No test is affected by changes since HEAD"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"base": "nope"}, "'nope' is not a commit of this repository"),
        ({"affected_by": "nope"}, "'nope' is not a commit of this repository"),
        ({"tests": ("tests/test_not_there.py",)}, "file or directory not found"),
        ({"tests": ("tests/test_tax.py",), "pytest_args": ("-k", "nothing_at_all")}, "No tests were collected"),
        ({"provider": "nowhere", "tests": ("tests/test_tax.py",)}, "mngr knows no provider 'nowhere'"),
        ({"agent_type": "strange", "tests": ("tests/test_tax.py",)}, "mngr knows no agent type 'strange'"),
        ({"agent_command": "./not-there.sh"}, "There is no script"),
        ({"agent_command": "no-program-is-called-so"}, "on PATH"),
        ({"agent_command": "README"}, "on PATH"),
        ({"agent_command": "./README"}, "cannot be executed"),
        ({"agent_command": "'"}, "cannot be read"),
        ({"agent_type": "claude", "agent_command": "true"}, "for command agents"),
        ({"env_names": ("NOT_SET_ANYWHERE",)}, "Not set here: NOT_SET_ANYWHERE"),
        ({"agent_command": "true", "budget_usd": 5.0}, "the cost of an agent"),
        ({"provider": "elsewhere", "transfer": "worktree"}, "Worktrees are for this machine only"),
        ({"provider": "elsewhere", "agent_command": "./not-there.sh"}, "is not in the base"),
        ({"tutorial": "tour.sh", "tests": ("tests/test_tax.py",)}, "There is no tutorial tour.sh"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_begins(shop: World, wanted: dict[str, Any], says: str) -> None:
    error = refused(shop, **wanted)

    assert says in str(error)
    assert isinstance(error, UsageError)
    assert not (shop.repository / ".selftest").exists()


def test_a_provider_that_does_not_answer_is_named(world: World) -> None:
    make_shop(world)
    mngr_that(world, ANSWERS.replace(
        "list) echo '{\"agents\": [], \"errors\": []}'",
        "list) echo '{\"agents\": [], \"errors\": [{\"exception_type\": \"X\", \"message\": \"no route to box\","
        " \"provider_name\": \"boxes\"}]}'; exit 1",
    ))  # fmt: skip

    error = refused(world, provider="boxes", agent_command="./agents/fix.sh", tests=("tests/test_tax.py",))

    assert isinstance(error, ToolError)
    assert error.title == "The provider boxes does not answer"
    assert "no route to box" in error.detail


def test_elsewhere_agents_run_what_is_in_their_copy(shop: World) -> None:
    made = prepared(shop, provider="boxes", agent_command="./agents/fix.sh --all", tests=("tests/test_tax.py",))
    plain = prepared(
        shop, provider="modal", agent_type="claude", settings={"pytest_command": ""}, tests=("tests/test_tax.py",)
    )

    assert made.plan.agent_command == ("./agents/fix.sh", "--all")
    assert plain.plan.pytest_command == ("python", "-m", "pytest")
    assert plain.plan.create_args == ("-b", "timeout=3900")
    assert any("pytest_command" in warning for warning in plain.plan.warnings)


def test_a_file_of_the_command_that_goes_along_is_offered_by_name(shop: World, tmp_path: Path) -> None:
    script = tmp_path / "own.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)

    def goes_along(provider: str) -> list[str]:
        made = prepared(shop, provider=provider, agent_command=f"{script} --all", tests=("tests/test_tax.py",))
        return [one.to for one in made.offer.estimates.leaves if str(script) in one.what]

    assert goes_along("boxes") == ["boxes, with each prompt"]
    assert goes_along("local") == []


def test_an_agent_that_is_the_shell_around_it_is_warned_about(shop: World) -> None:
    def warned(command: str) -> list[str]:
        made = prepared(shop, agent_command=command, tests=("tests/test_tax.py",))
        return [warning for warning in made.plan.warnings if "cannot detect their crash" in warning]

    assert len(warned("bash agents/fix.sh")) == 1  # the world's SHELL
    assert warned("sh agents/fix.sh") == []
    assert warned("./agents/fix.sh") == []


def test_a_template_that_cannot_be_used_is_refused(shop: World) -> None:
    template = shop.root / "bad.j2"
    for text, says in (("{{ tset }}", "'tset' is undefined"), (" \n", "is empty")):
        template.write_text(text)
        with pytest.raises(ConfigError, match=says):
            prepared(shop, settings={"prompt": str(template)}, tests=("tests/test_tax.py",))
    with pytest.raises(ConfigError, match="cannot be read"):
        prepared(shop, settings={"prompt": str(shop.root / "none.j2")}, tests=("tests/test_tax.py",))


def test_a_run_that_cannot_begin_leaves_nothing(world: World) -> None:
    make_shop(world)
    made = prepared(world, tests=("tests/test_tax.py",))
    objects = world.repository / ".git" / "objects"
    objects.rename(objects.with_name("gone"))
    objects.mkdir()

    with pytest.raises(SelftestError, match="clone"):
        begin(made, world.environment)

    assert list((world.repository / ".selftest" / "runs").iterdir()) == []
    objects.rmdir()
    objects.with_name("gone").rename(objects)
    begin(made, world.environment)
    with pytest.raises(RefusedError, match="exists already"):
        begin(made, world.environment)
    assert (world.repository / ".selftest" / "runs" / made.plan.run / "clone").is_dir()
