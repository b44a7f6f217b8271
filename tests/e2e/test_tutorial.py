"""The blocks of tutorial.sh about this machine, the fleet and the settings, run as they stand in a private world.

Each test fails if its command does nothing, which `make mutants` tries out.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from selftest_core import __version__
from selftest_recorder.e2e.expect import expect
from selftest_tui.cli.arguments import build_parser
from standins import mngr_that
from worlds import World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd

# A deadline for a hang, far beyond what a busy machine needs for one agent.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
NAME = "steady"
UNREADABLE_SETTINGS = "poll_probe = [\n"


@pytest.fixture(scope="module")
def fleet() -> Iterator[World]:
    """One world with one real agent, which waits."""
    with a_world(SELFTEST_TUI_LIST_DEADLINE="280") as world:
        world.load_mngr()
        world.create(NAME, "sleep", "100000", labels={"selftest_test": "tests/test_cart.py::test_tax"})
        shown = ("list-panes", "-a", "-F", "#{pane_current_command}")
        eventually(lambda: world.tmux(*shown).strip() == "sleep", "its program, behind the shell that starts it")
        yield world


@pytest.fixture
def without_mngr(fleet: World, tmp_path: Path) -> dict[str, str]:
    """The fleet's environment, with an mngr that fails."""
    program = tmp_path / "broken" / "mngr"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo "mngr 0.3.0"; else echo broken >&2; exit 9; fi\n')
    program.chmod(0o755)
    return {**fleet.environment, "PATH": f"{program.parent}:{fleet.environment['PATH']}"}


def document(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file that a block wrote."""
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


# the program


VERSION = """
    selftest-tui --version
"""
HELP = """
    # What there is. Each command has a --help of its own, with examples.
    selftest-tui --help
    selftest-tui list --help
"""


def test_version(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(VERSION)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_equal(f"selftest-tui {__version__}\n")


@pytest.mark.unhappy
def test_version_where_settings_cannot_be_read(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(VERSION)
    (tmp_path / "selftest-tui.toml").write_text(UNREADABLE_SETTINGS)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_equal(f"selftest-tui {__version__}\n")


def test_help(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(HELP)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain("usage: selftest-tui list", "--no-wait")
    expect(result.stdout.split()).to_contain(*build_parser()[1])
    assert result.stdout.count("examples:") == 2


@pytest.mark.unhappy
def test_help_in_a_narrow_terminal_where_settings_cannot_be_read(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(HELP)
    (tmp_path / "selftest-tui.toml").write_text(UNREADABLE_SETTINGS)

    result = block.run(environment={**plain.environment, "COLUMNS": "40"}, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain("usage: selftest-tui list", "--no-wait")
    assert result.stdout.count("examples:") == 2


DOCTOR = """
    # What is missing or misconfigured, and the command that mends it.
    selftest-tui doctor
"""
DOCTOR_AS_JSON = """
    # The same for a program, to be kept or compared.
    selftest-tui doctor --json > doctor.json
"""


def test_doctor(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(DOCTOR)

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain(str(fleet.host_dir))
    for tool in ("python", "mngr", "tmux", "git", "rsync"):
        expect(result.stdout).to_match(f"^✓ {tool} ")


@pytest.mark.unhappy
def test_doctor_names_what_is_broken_and_the_repair(
    e2e: EndToEnd, without_mngr: dict[str, str], tmp_path: Path
) -> None:
    block = e2e.write_tutorial_block(DOCTOR)

    result = block.run(environment=without_mngr, cwd=tmp_path)

    expect(result).to_have_exit_code(1).stdout.to_match("^✗ mngr").to_match("^✓ tmux ").to_match("^ +→ ")


def test_doctor_for_programs(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(DOCTOR_AS_JSON)

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_be_empty()
    answer = document(tmp_path, "doctor.json")
    assert answer["ok"] is True
    assert {"mngr", "tmux", "git"} <= {item["name"] for item in answer["checks"]}


@pytest.mark.unhappy
def test_doctor_for_programs_where_something_is_broken(
    e2e: EndToEnd, without_mngr: dict[str, str], tmp_path: Path
) -> None:
    block = e2e.write_tutorial_block(DOCTOR_AS_JSON)

    result = block.run(environment=without_mngr, cwd=tmp_path)

    expect(result).to_have_exit_code(1)
    answer = document(tmp_path, "doctor.json")
    assert answer["ok"] is False
    (broken, *_) = [item for item in answer["checks"] if item["status"] == "failed"]
    assert broken["name"].startswith("mngr")
    assert broken["hint"]


SCHEMA = """
    # JSON Schema of everything that --json and --batch print.
    selftest-tui schema > selftest-tui.schema.json
"""


def test_schema(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(SCHEMA)
    listed = e2e.run("selftest-tui list --json --no-wait", environment=plain.environment, cwd=tmp_path).json()

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed()
    schema = document(tmp_path, "selftest-tui.schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    of_list = {**schema["documents"]["list --json"], "$defs": schema["$defs"]}
    jsonschema.validate(listed, of_list)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"agents": 1}, of_list)


@pytest.mark.unhappy
def test_schema_on_a_full_disk(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(SCHEMA)
    (tmp_path / "selftest-tui.schema.json").symlink_to("/dev/full")

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("could not be written", "No space left on device")


# the fleet


SCREEN = """
    # The agents of this machine and of every provider of mngr, live. `?` shows the keys, `q` leaves; the agents go on.
    selftest-tui
"""
LIST = """
    selftest-tui list
"""
LIST_AS_JSON = """
    # One JSON document. Providers that do not answer are listed under "errors", their agents as they were last known.
    selftest-tui list --json > fleet.json
"""
LIST_AT_ONCE = """
    # What can be seen at once, without asking mngr: the local agents, and the others as last known.
    selftest-tui list --json --no-wait > at-once.json
"""
LIST_AS_A_LINE = """
    # One line of JSON, as every command gives it with --batch.
    selftest-tui list --batch
"""


def test_screen(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(SCREEN)

    with block.pty(environment=fleet.environment, cwd=tmp_path, columns=120) as session:
        session.wait_for(NAME)
        session.send_keys("?")
        session.wait_for("Find and arrange")
        session.send_keys("Escape")
        session.wait_until(lambda screen: "Find and arrange" not in screen, "the help closed")
        session.send_keys("q")
        status = session.wait_for_end()

    assert status == 0
    assert fleet.tmux("has-session", "-t", f"=mngr-{NAME}") == ""


@pytest.mark.unhappy
def test_screen_without_a_terminal(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(SCREEN)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("no terminal", "`selftest-tui list`")


def test_list(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST)

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed()
    (row,) = [line.split() for line in result.stdout.splitlines() if NAME in line]
    assert {"waiting", NAME, "local"} <= set(row)


@pytest.mark.unhappy
def test_list_where_mngr_fails(e2e: EndToEnd, without_mngr: dict[str, str], tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST)

    result = block.run(environment=without_mngr, cwd=tmp_path)

    expect(result).to_have_exit_code(1).stdout.to_contain(NAME)
    expect(result.stderr).to_contain("mngr list failed", "`selftest-tui doctor`")


def test_list_for_programs(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_AS_JSON)
    (truth,) = fleet.listing()["agents"]

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed()
    (agent,) = document(tmp_path, "fleet.json")["agents"]
    for key in ("id", "name", "type", "state", "labels", "work_dir"):
        assert agent[key] == truth[key], key
    assert agent["test"] == "tests/test_cart.py::test_tax"


@pytest.mark.unhappy
def test_list_for_programs_where_mngr_fails(e2e: EndToEnd, without_mngr: dict[str, str], tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_AS_JSON)

    result = block.run(environment=without_mngr, cwd=tmp_path)

    expect(result).to_have_exit_code(1)
    answer = document(tmp_path, "fleet.json")
    assert [agent["name"] for agent in answer["agents"]] == [NAME]
    assert "mngr list failed" in answer["errors"][0]["message"]


def test_list_at_once(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_AT_ONCE)

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed()
    answer = document(tmp_path, "at-once.json")
    assert [(agent["name"], agent["source"]) for agent in answer["agents"]] == [(NAME, "probe")]
    assert answer["expecting"] == ["remote"]


@pytest.mark.unhappy
def test_list_at_once_asks_no_mngr_that_hangs(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_AT_ONCE)
    mngr_that(world, "exec sleep 100000")

    result = block.run(environment=world.environment, cwd=tmp_path)

    expect(result).to_succeed()
    expect(tmp_path / "at-once.json").to_have_json({"agents": [], "errors": [], "expecting": ["remote"]})


def test_list_as_a_line(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_AS_A_LINE)

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed()
    (answer,) = result.json_lines()
    assert (answer["event"], answer["run"], [agent["name"] for agent in answer["agents"]]) == ("summary", None, [NAME])
    assert answer["at"].endswith("Z")


@pytest.mark.unhappy
def test_list_as_a_line_where_settings_cannot_be_read(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_AS_A_LINE)
    (tmp_path / "selftest-tui.toml").write_text(UNREADABLE_SETTINGS)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("is not valid TOML")
    (answer,) = result.json_lines()
    assert (answer["event"], answer["exit_status"]) == ("error", 2)


LIST_SOME = """
    # Some of them: in the language of `/` on the screens, and in mngr's own (CEL).
    selftest-tui list --json --filter 'is:waiting test:cart' > matching.json
    selftest-tui list --json --cel 'state == "WAITING" && labels.selftest_test.contains("cart")' > matching-cel.json
"""


def test_list_some(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_SOME)
    fleet.tmux("new-session", "-d", "-s", "cart", "sleep 100000")

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed()
    for name in ("matching.json", "matching-cel.json"):
        answer = document(tmp_path, name)
        assert ([agent["name"] for agent in answer["agents"]], answer["sessions"]) == ([NAME], []), name
    for flag, query in (("--filter", "is:working"), ("--filter", "!is:waiting"), ("--cel", 'state == "DONE"')):
        other = e2e.run(["selftest-tui", "list", flag, query], environment=fleet.environment, cwd=tmp_path)
        assert NAME not in other.stdout, query


@pytest.mark.unhappy
def test_list_some_where_mngr_fails(e2e: EndToEnd, without_mngr: dict[str, str], tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LIST_SOME)

    result = block.run(environment=without_mngr, cwd=tmp_path)

    expect(result).to_have_exit_code(1)
    answer = document(tmp_path, "matching.json")
    assert [agent["name"] for agent in answer["agents"]] == [NAME]
    assert "mngr list failed" in answer["errors"][0]["message"]
    for flag, query, says in (("--filter", "is:nothing", "no state here"), ("--cel", "bad((", "needs mngr")):
        arguments = ["selftest-tui", "list", "--no-wait", flag, query]
        wrong = e2e.run(arguments, environment=without_mngr, cwd=tmp_path)
        expect(wrong).to_have_exit_code(2).stderr.to_contain(says)


# keys that stop and destroy


GUARD = """
    # mngr binds them to destroy and to stop the agent, without a question. This makes both ask, on every server.
    selftest-tui key-guard --on
    selftest-tui key-guard --json > guarded.json
"""
UNGUARD = """
    # mngr's own bindings again.
    selftest-tui key-guard --off
"""


def bound(world: World) -> list[str]:
    """What the two keys do."""
    return [world.tmux("list-keys", "-T", "root", key) for key in ("C-q", "C-t")]


def test_key_guard_on(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(GUARD)
    assert all("mngr" in binding and "confirm-before" not in binding for binding in bound(fleet))

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain("C-q asks first; C-t asks first")
    assert all("confirm-before" in binding for binding in bound(fleet))
    servers = {server["socket"]: server["keys"] for server in document(tmp_path, "guarded.json")["servers"]}
    assert servers[str(fleet.socket)] == {"C-q": "guarded", "C-t": "guarded"}
    e2e.run("selftest-tui key-guard --off", environment=fleet.environment, cwd=tmp_path)


@pytest.mark.unhappy
def test_key_guard_on_where_no_server_runs(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(GUARD)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain("No tmux server of yours is running")
    expect(tmp_path / "guarded.json").to_have_json({"servers": []})


def test_key_guard_off(e2e: EndToEnd, fleet: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(UNGUARD)
    before = bound(fleet)
    e2e.run("selftest-tui key-guard --on", environment=fleet.environment, cwd=tmp_path)
    assert bound(fleet) != before

    result = block.run(environment=fleet.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain("C-q acts at once; C-t acts at once")
    assert bound(fleet) == before


@pytest.mark.unhappy
def test_key_guard_off_leaves_a_binding_of_the_user(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(UNGUARD)
    world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "mine")
    world.tmux("bind-key", "-n", "C-q", "display-message", "mine")
    before = world.tmux("list-keys", "-T", "root", "C-q")

    result = block.run(environment=world.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain(str(world.socket)).not_to_contain("acts at once")
    assert world.tmux("list-keys", "-T", "root", "C-q") == before


# settings


BY_AN_OPTION = """
    selftest-tui list --json --no-wait --socket "$PWD/builds" > fleet.json
"""
FOR_ONCE = """
    # Every setting has such a form; `selftest-tui --help` names them all.
    selftest-tui list --json --no-wait --set sockets="$PWD/builds" > fleet.json
"""
FOR_A_SHELL = """
    # For one shell.
    export SELFTEST_TUI_SOCKETS="$PWD/builds"
    selftest-tui list --json --no-wait > fleet.json
"""
FOR_A_FOLDER = """
    # For everybody who works in this folder.
    echo "sockets = ['$PWD/builds']" > selftest-tui.toml
    selftest-tui list --json --no-wait > fleet.json
"""


@pytest.fixture
def builds(world: World) -> Iterator[Path]:
    """A folder with a tmux server of its own at `builds`. Short, since a Unix socket's path has some hundred bytes."""
    folder = world.root / "b"
    folder.mkdir()
    world.run(["tmux", "-f", "/dev/null", "-S", str(folder / "builds"), "new-session", "-d", "-s", "nightly"])
    try:
        world.run(["bash", "-c", "selftest-tui list --json --no-wait > fleet.json"], cwd=folder)
        assert sessions(folder) == []  # it is not found without being named
        yield folder
    finally:
        world.run(["tmux", "-S", str(folder / "builds"), "kill-server"])
        shutil.rmtree(folder)


def sessions(folder: Path) -> list[str]:
    """The tmux sessions that belong to no agent, as the block's `list` named them."""
    return [session["name"] for session in document(folder, "fleet.json")["sessions"]]


def test_setting_by_an_option(e2e: EndToEnd, world: World, builds: Path) -> None:
    block = e2e.write_tutorial_block(BY_AN_OPTION)

    result = block.run(environment=world.environment, cwd=builds)

    expect(result).to_succeed()
    assert sessions(builds) == ["nightly"]


@pytest.mark.unhappy
def test_setting_by_an_option_that_leads_to_no_server(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(BY_AN_OPTION)
    world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "usual")
    (tmp_path / "builds").write_text("a file, where a socket should be")

    result = block.run(environment=world.environment, cwd=tmp_path)

    expect(result).to_succeed()
    assert sessions(tmp_path) == ["usual"]


def test_setting_for_once(e2e: EndToEnd, world: World, builds: Path) -> None:
    block = e2e.write_tutorial_block(FOR_ONCE)

    result = block.run(environment=world.environment, cwd=builds)

    expect(result).to_succeed()
    assert sessions(builds) == ["nightly"]


@pytest.mark.unhappy
def test_setting_for_once_beside_one_that_is_wrong(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(FOR_ONCE)

    result = block.run(environment={**world.environment, "SELFTEST_TUI_POLL_PROBE": "soon"}, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("SELFTEST_TUI_POLL_PROBE", "soon")


def test_setting_for_a_shell(e2e: EndToEnd, world: World, builds: Path) -> None:
    block = e2e.write_tutorial_block(FOR_A_SHELL)

    result = block.run(environment=world.environment, cwd=builds)

    expect(result).to_succeed()
    assert sessions(builds) == ["nightly"]


@pytest.mark.unhappy
def test_setting_for_a_shell_beside_a_misspelt_one(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(FOR_A_SHELL)
    (tmp_path / "selftest-tui.toml").write_text("socket = []\n")

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("there is no setting 'socket'", "Did you mean sockets?")


def test_setting_for_a_folder(e2e: EndToEnd, world: World, builds: Path) -> None:
    block = e2e.write_tutorial_block(FOR_A_FOLDER)

    result = block.run(environment=world.environment, cwd=builds)

    expect(result).to_succeed()
    assert sessions(builds) == ["nightly"]


@pytest.mark.unhappy
def test_setting_for_a_folder_whose_name_breaks_the_file(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(FOR_A_FOLDER)
    folder = tmp_path / "it's"
    folder.mkdir()

    result = block.run(environment=plain.environment, cwd=folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("selftest-tui.toml is not valid TOML", "line 1")
