"""Every block of tutorial.sh, run as it stands in a private world. Each test fails if its command does nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from selftest_core import __version__
from selftest_core.tutorial.check import check
from selftest_core.tutorial.tutorial import parse_blocks
from selftest_tui.cli.arguments import build_parser
from worlds import ROOT, World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.e2e.end_to_end import EndToEnd, TutorialBlock
    from selftest_recorder.e2e.results import Result

# A deadline for a hang, far beyond what a busy machine needs for a demo of one agent.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
NAME = "steady"


@pytest.fixture(scope="module")
def fleet() -> Iterator[World]:
    """One world with one real agent, which waits."""
    with a_world(SELFTEST_DEMO_SPEED="20", SELFTEST_TUI_LIST_DEADLINE="280") as world:
        # Demos of its own alone, also to sweep: the person's may be in the common folder.
        temporary = world.root / "d"
        temporary.mkdir()
        world.extra["TMPDIR"] = str(temporary)
        world.load_mngr()
        world.create(NAME, "sleep", "100000", labels={"selftest_test": "tests/test_cart.py::test_tax"})
        shown = ("list-panes", "-a", "-F", "#{pane_current_command}")
        eventually(lambda: world.tmux(*shown).strip() == "sleep", "its program, behind the shell that starts it")
        yield world


@pytest.fixture
def folder(fleet: World, tmp_path: Path) -> Path:
    """Where a block is run: a folder of the test's own, since blocks write files."""
    assert fleet.repository.is_dir()
    return tmp_path


def done(block: TutorialBlock, world: World, folder: Path) -> Result:
    """Run a block that must succeed."""
    completed = block.run(environment=world.environment, cwd=folder)
    assert completed.exit_status == 0, f"{completed.stdout}\n{completed.stderr}"
    return completed


def document(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file that a block wrote."""
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


def test_every_block_is_cited_and_every_citation_is_a_block() -> None:
    result = check(ROOT, ROOT / "tutorial.sh", ROOT / "tests")
    assert [block.text for block in result.coverage.uncited] == []
    assert [(stale.citation.test, stale.citation.text) for stale in result.coverage.stale] == []
    assert [warning.message for warning in result.tutorial.warnings] == []
    assert len(result.coverage.blocks) > 15


def test_every_command_that_exists_is_in_the_tour() -> None:
    tour = "\n".join(block.text for block in parse_blocks((ROOT / "tutorial.sh").read_text()).blocks)
    _, commands = build_parser()
    assert [name for name in commands if f"selftest-tui {name}" not in tour] == []


def test_version(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        selftest-tui --version
    """)
    assert done(block, fleet, folder).stdout == f"selftest-tui {__version__}\n"


def test_key_guard(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    def bound() -> list[str]:
        return [fleet.tmux("list-keys", "-T", "root", key) for key in ("C-q", "C-t")]

    before = bound()
    assert all("mngr" in binding for binding in before)
    block = e2e.write_tutorial_block("""
        # mngr binds them to destroy and to stop the agent, without a question. This makes both ask, on every server.
        selftest-tui key-guard --on
        selftest-tui key-guard --json > guarded.json
    """)
    assert "C-q asks first; C-t asks first" in done(block, fleet, folder).stdout
    assert all("confirm-before" in binding for binding in bound())
    servers = {server["socket"]: server["keys"] for server in document(folder, "guarded.json")["servers"]}
    assert servers[str(fleet.socket)] == {"C-q": "guarded", "C-t": "guarded"}
    block = e2e.write_tutorial_block("""
        # mngr's own bindings again.
        selftest-tui key-guard --off
    """)
    assert "C-q acts at once; C-t acts at once" in done(block, fleet, folder).stdout
    assert bound() == before


def test_help(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # What there is. Each command has a --help of its own, with examples.
        selftest-tui --help
        selftest-tui list --help
    """)
    shown = done(block, fleet, folder).stdout
    _, commands = build_parser()
    words = shown.split()
    assert [name for name in commands if name not in words] == []
    assert "usage: selftest-tui list" in shown
    assert "--no-wait" in shown
    assert shown.count("examples:") == 2


def test_doctor(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # What is missing or misconfigured, and the command that mends it.
        selftest-tui doctor
    """)
    lines = done(block, fleet, folder).stdout.splitlines()
    for tool in ("python", "mngr", "tmux", "git", "rsync"):
        assert [line for line in lines if line.startswith(f"✓ {tool} ")], lines
    assert any(str(fleet.host_dir) in line for line in lines)


def test_doctor_for_programs(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # The same for a program, to be kept or compared.
        selftest-tui doctor --json > doctor.json
    """)
    assert done(block, fleet, folder).stdout == ""
    answer = document(folder, "doctor.json")
    assert answer["ok"] is True
    assert {"mngr", "tmux", "git"} <= {item["name"] for item in answer["checks"]}


def test_screen(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # The agents of this machine and of every provider of mngr, live. `?` shows the keys, `q` leaves; the agents go on.
        selftest-tui
    """)  # noqa: E501 -- the block's own line
    with block.open(environment=fleet.environment, cwd=folder, columns=120) as session:
        session.wait_for(NAME)
        session.send_keys("?")
        session.wait_for("Find and arrange")
        session.send_keys("Escape")
        session.wait_until(lambda screen: "Find and arrange" not in screen, "the help closed")
        session.send_keys("q")
        assert session.wait_for_end() == 0
    assert fleet.tmux("has-session", "-t", f"=mngr-{NAME}") == ""


def test_list(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        selftest-tui list
    """)
    rows = [line.split() for line in done(block, fleet, folder).stdout.splitlines() if NAME in line]
    assert len(rows) == 1
    assert {"waiting", NAME, "local"} <= set(rows[0])


def test_list_for_programs(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # One JSON document. Providers that do not answer are listed under "errors", their agents as they were last known.
        selftest-tui list --json > fleet.json
    """)  # noqa: E501 -- the block's own line
    done(block, fleet, folder)
    (agent,) = document(folder, "fleet.json")["agents"]
    (truth,) = fleet.listing()["agents"]
    for key in ("id", "name", "type", "state", "labels", "work_dir"):
        assert agent[key] == truth[key], key
    assert agent["test"] == "tests/test_cart.py::test_tax"


def test_list_at_once(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # What can be seen at once, without asking mngr: the local agents, and the others as last known.
        selftest-tui list --json --no-wait > at-once.json
    """)
    done(block, fleet, folder)
    answer = document(folder, "at-once.json")
    assert [(agent["name"], agent["source"]) for agent in answer["agents"]] == [(NAME, "probe")]
    assert answer["expecting"] == ["remote"]


def test_list_as_a_line(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # One line of JSON, as every command gives it with --batch.
        selftest-tui list --batch
    """)
    (line,) = done(block, fleet, folder).stdout.splitlines()
    answer = json.loads(line)
    assert (answer["event"], answer["run"], [agent["name"] for agent in answer["agents"]]) == ("summary", None, [NAME])
    assert answer["at"].endswith("Z")


@pytest.fixture
def builds(fleet: World) -> Iterator[Path]:
    """A folder with a tmux server of its own at `builds`. Short, since a Unix socket's path has some hundred bytes."""
    folder = fleet.root / "b"
    folder.mkdir()
    fleet.run(["tmux", "-S", str(folder / "builds"), "new-session", "-d", "-s", "nightly"])
    try:
        assert sessions(fleet, folder) == []  # it is not found without being named
        yield folder
    finally:
        fleet.run(["tmux", "-S", str(folder / "builds"), "kill-server"])
        shutil.rmtree(folder)


def sessions(world: World, folder: Path, block: TutorialBlock | None = None) -> list[str]:
    """The tmux sessions that belong to no agent, as the block's `list` names them, or a plain one."""
    if block is None:
        world.run(["bash", "-c", "selftest-tui list --json --no-wait > fleet.json"], cwd=folder)
    else:
        done(block, world, folder)
    return [session["name"] for session in document(folder, "fleet.json")["sessions"]]


def test_setting_by_an_option(e2e: EndToEnd, fleet: World, builds: Path) -> None:
    block = e2e.write_tutorial_block("""
        selftest-tui list --json --no-wait --socket "$PWD/builds" > fleet.json
    """)
    assert sessions(fleet, builds, block) == ["nightly"]


def test_setting_for_once(e2e: EndToEnd, fleet: World, builds: Path) -> None:
    block = e2e.write_tutorial_block("""
        # Every setting has such a form; `selftest-tui --help` names them all.
        selftest-tui list --json --no-wait --set sockets="$PWD/builds" > fleet.json
    """)
    assert sessions(fleet, builds, block) == ["nightly"]


def test_setting_for_a_shell(e2e: EndToEnd, fleet: World, builds: Path) -> None:
    block = e2e.write_tutorial_block("""
        # For one shell.
        export SELFTEST_TUI_SOCKETS="$PWD/builds"
        selftest-tui list --json --no-wait > fleet.json
    """)
    assert sessions(fleet, builds, block) == ["nightly"]


def test_setting_for_a_folder(e2e: EndToEnd, fleet: World, builds: Path) -> None:
    block = e2e.write_tutorial_block("""
        # For everybody who works in this folder.
        echo "sockets = ['$PWD/builds']" > selftest-tui.toml
        selftest-tui list --json --no-wait > fleet.json
    """)
    assert sessions(fleet, builds, block) == ["nightly"]


def test_schema(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # JSON Schema of everything that --json and --batch print.
        selftest-tui schema > selftest-tui.schema.json
    """)
    done(block, fleet, folder)
    schema = document(folder, "selftest-tui.schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    fleet.run(["bash", "-c", "selftest-tui list --json --no-wait > fleet.json"], cwd=folder)
    of_list = {**schema["documents"]["list --json"], "$defs": schema["$defs"]}
    jsonschema.validate(document(folder, "fleet.json"), of_list)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"agents": 1}, of_list)


def test_demo(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    block = e2e.write_tutorial_block("""
        # Scripted agents in a world of their own, on the screen: no model, no key, no network. `q` ends all of it.
        selftest-tui demo
    """)
    with block.open(environment=fleet.environment, cwd=folder, columns=120) as session:
        screen = session.wait_for("test_card_is_checked")
        assert NAME not in screen
        session.send_keys("q")
        assert session.wait_for_end() == 0
    assert leftovers(fleet) == []


def test_a_kept_demo_is_found_and_swept(e2e: EndToEnd, fleet: World, folder: Path) -> None:
    keep = e2e.write_tutorial_block("""
        # Leave the demo's world, to look at it with tmux, mngr and git.
        selftest-tui demo --batch --agents 1 --keep > run.jsonl || test $? = 1
    """)
    look = e2e.write_tutorial_block("""
        # What such a demo, or one that was killed, left behind. Looking alone ends with 1 where there is something.
        selftest-tui sweep || test $? = 1
    """)
    remove = e2e.write_tutorial_block("""
        # Remove it without being asked.
        selftest-tui sweep --yes
    """)
    done(keep, fleet, folder)
    (kept,) = leftovers(fleet)
    assert kept["kept"] is True
    assert (Path(kept["path"]) / "acme-shop/.selftest/runs").is_dir()
    assert kept["path"] in done(look, fleet, folder).stdout
    assert Path(kept["path"]).is_dir()
    assert kept["path"] in done(remove, fleet, folder).stdout
    eventually(lambda: not Path(kept["path"]).exists(), "the end of the demo's folder")
    assert leftovers(fleet) == []


def leftovers(world: World) -> list[dict[str, Any]]:
    """What a sweep would remove."""
    answer = world.run(["selftest-tui", "sweep", "--batch"], check=False).stdout
    found: list[dict[str, Any]] = json.loads(answer)["leftovers"]
    return found
