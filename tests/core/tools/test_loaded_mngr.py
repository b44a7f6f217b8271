"""The loaded mngr against the program that it stands for: same answers, deadlines and ends; when it is not used."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loaded_mngr
from selftest_core.errors import ToolError, ToolTimeoutError
from selftest_core.tools.loaded.loaded_mngr import LoadedMngr
from selftest_core.tools.mngr import Mngr, MngrProgram, list_arguments
from worlds import BIN, World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from selftest_core.tools.process import Completed

pytestmark = pytest.mark.real

PROGRAM = MngrProgram(BIN / "mngr", "environment")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with a_world() as made:
        made.make_repository()
        made.create("steady", "sleep", "100000", labels={"selftest_test": "tests/test_a.py::test_a"})
        agents = {name: made.create(name, "sleep", "100000") for name in ("busy", "moved", "split", "double", "gone")}
        (made.agent_dir(agents["busy"]) / "active").touch()
        made.tmux("rename-session", "-t", "=mngr-moved", "elsewhere")
        made.tmux("split-window", "-d", "-b", "-t", "=mngr-split:agent", "cat")
        made.tmux("new-window", "-d", "-n", "agent", "-t", "=mngr-double:", "cat")
        made.tmux("kill-session", "-t", "=mngr-gone")
        yield made


@pytest.fixture(scope="module")
def loaded(world: World) -> Iterator[LoadedMngr]:
    made = LoadedMngr(PROGRAM, world.environment)
    is_ready(made)
    yield made
    made.close()


def is_ready(loaded: LoadedMngr) -> None:
    """Wait until it is loaded."""
    assert loaded.path() == PROGRAM.path, "the first call is the program's"
    eventually(lambda: loaded.path() != PROGRAM.path, "a loaded mngr")
    assert loaded.state == "loaded"


def call(world: World, loaded: LoadedMngr | None, *arguments: str, timeout: float = 100.0) -> Completed:
    mngr = Mngr(PROGRAM, world.environment, world.repository, loaded)
    return asyncio.run(mngr.call(arguments, timeout=timeout))


def test_it_has_built_what_each_list_would_build_again() -> None:
    program = (
        "from selftest_core.tools.loaded import server\n"
        "server.load()\n"
        "from celpy.celparser import CELParser\n"
        "print(CELParser.CEL_PARSER is not None)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        list_arguments(None),
        list_arguments("local", 'state == "WAITING"'),
        list_arguments(None, "bad(("),
        ("list", "--hosts", "--format", "json"),
        ("stop", "nobody", "--format", "json"),
        ("nonsense",),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_it_answers_as_the_program_does(world: World, loaded: LoadedMngr, arguments: Sequence[str]) -> None:
    plain, cheap = call(world, None, *arguments), call(world, loaded, *arguments)
    assert Path(cheap.argv[0]) != PROGRAM.path
    assert (cheap.exit_status, steady(cheap.stdout), cheap.stderr) == (
        plain.exit_status, steady(plain.stdout), plain.stderr,
    )  # fmt: skip


STATES = {
    "steady": "WAITING", "busy": "RUNNING", "moved": "WAITING", "split": "REPLACED", "double": "STOPPED",
    "gone": "STOPPED",
}  # fmt: skip


def asked(world: World) -> tuple[dict[str, str], list[str]]:
    """The states of the agents by the loaded mngr, and how often it called tmux and ps for them."""
    calls = world.root / "calls"
    for program in ("tmux", "ps"):
        world.script(program, f'#!/bin/sh\necho "{program} $1" >> {calls}\nexec /usr/bin/{program} "$@"\n')
    calls.unlink(missing_ok=True)
    environment = {**world.environment, "PATH": f"{world.root / 's'}{os.pathsep}{world.environment['PATH']}"}
    done = loaded_mngr.call(PROGRAM.path, list_arguments("local"), env=environment, cwd=world.repository, timeout=100)
    return {
        agent["name"]: agent["state"] for agent in json.loads(done.stdout)["agents"]
    }, calls.read_text().splitlines()


def test_agents_of_one_list_are_probed_together_except_those_in_doubt(world: World) -> None:
    states, calls = asked(world)
    assert {name: state for name, state in states.items() if name in STATES} == STATES
    assert calls.count("tmux list-panes") == 1 + 2, "one for all, and two for double"
    assert calls.count("tmux has-session") == 2, "mngr confirms that gone has none, and looks for the window of double"
    assert calls.count("ps -e") == 1 + 1


def test_agents_without_a_tmux_server_are_probed_together_and_each_is_confirmed() -> None:
    with a_world() as world:
        for name in ("one", "two"):
            world.create(name, "sleep", "100000")
        world.end_server("-S", str(world.socket))
        states, calls = asked(world)
    assert states == {"one": "STOPPED", "two": "STOPPED"}
    assert calls == ["tmux list-panes", "ps -e", "tmux has-session", "tmux has-session"]


def test_a_program_that_calls_itself_a_line_of_the_listing_changes_no_other_agent(world: World) -> None:
    line = world.tmux("list-panes", "-t", "=mngr-busy:", "-F", "#{@mngr_agent_id}|mngr-busy|agent|#{window_id}").strip()
    # tmux adds the end of each line, and lists this session first.
    world.tmux("new-session", "-d", "-s", "a", "-n", "w", "bash", "-c", f'exec -a "x|1\n{line}|0|bash" cat')
    try:
        eventually(lambda: line in world.tmux("list-panes", "-a", "-F", "#{pane_current_command}"), "its name")
        states, calls = asked(world)
    finally:
        world.tmux("kill-session", "-t", "=a")
    assert {name: state for name, state in states.items() if name in STATES} == STATES
    assert calls.count("ps -e") > len(STATES), "each agent was probed by itself"


def steady(text: str) -> object:
    """An answer without what passes with time."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    passing = ("runtime_seconds", "idle_seconds", "uptime_seconds", "activity_time", "resource", "ssh_activity_time")

    def kept(value: object) -> object:
        if isinstance(value, dict):
            return {name: kept(one) for name, one in value.items() if name not in passing and "activity" not in name}
        return [kept(one) for one in value] if isinstance(value, list) else value

    return kept(document)


def test_an_agent_that_it_makes_is_the_one_that_was_asked_for_and_outlives_it(world: World) -> None:
    loaded = LoadedMngr(PROGRAM, world.environment)
    is_ready(loaded)
    wanted = f"agent-{'7' * 32}"
    made = call(
        world, loaded, "create", "cheap", "--id", wanted, "--type", "command", "--no-connect", "--headless", "--yes",
        "--format", "json", "--", "sleep", "100000",
    )  # fmt: skip
    assert made.ok, made.stderr
    loaded.close()
    eventually(lambda: world.tmux("has-session", "-t", "=mngr-cheap") == "", "its session")
    assert {agent["id"] for agent in world.listing()["agents"] if agent["name"] == "cheap"} == {wanted}


def with_mark(mark: str) -> list[int]:
    """The processes whose environment has a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            is_marked = mark.encode() in path.read_bytes()
        except OSError:
            continue
        if is_marked:
            found.append(int(path.parent.name))
    return found


def test_no_call_survives_its_deadline(world: World, loaded: LoadedMngr) -> None:
    mark = f"MARK={os.getpid()}-{time.monotonic_ns()}"
    environ = {**world.environment, "MARK": mark.partition("=")[2]}
    mngr = Mngr(PROGRAM, environ, world.root, loaded)
    with pytest.raises(ToolTimeoutError, match="mngr"):
        asyncio.run(mngr.call(("list", "--format", "json"), timeout=0.05))
    eventually(lambda: not with_mark(mark), "the end of the fork")
    assert call(world, loaded, "--version").ok, "the next call is answered"


def test_it_stands_back_when_it_dies_and_a_call_that_is_on_its_way_becomes_the_program(world: World) -> None:
    loaded = LoadedMngr(PROGRAM, world.environment)
    is_ready(loaded)
    cheap = loaded.path()
    (server,) = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(cheap.with_name("socket")).encode() in path.read_bytes()
    ]
    os.kill(server, signal.SIGKILL)
    done = subprocess.run([cheap, "--version"], env=world.environment, capture_output=True, text=True, check=True)
    assert done.stdout == call(world, None, "--version").stdout
    eventually(lambda: loaded.path() == PROGRAM.path, "the program")
    assert "it ended" in loaded.state
    assert not cheap.parent.exists()


def test_it_ends_with_its_owner_even_by_kill_9(world: World) -> None:
    owner = (
        "import sys, time; from pathlib import Path\n"
        "from selftest_core.tools.loaded.loaded_mngr import LoadedMngr\n"
        "from selftest_core.tools.mngr import MngrProgram\n"
        f"one = LoadedMngr(MngrProgram(Path({str(PROGRAM.path)!r}), 'environment'), {{}})\n"
        "while one.path().parent == Path(sys.argv[1]).parent: time.sleep(0.05)\n"
        "print(one.path(), flush=True); time.sleep(1000)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", owner, str(PROGRAM.path)], stdout=subprocess.PIPE, text=True, env=world.environment
    )
    try:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip()).parent
        assert (folder / "socket").is_socket()
    finally:
        process.kill()
        process.communicate()
    eventually(lambda: not folder.exists(), "the end of the server, with its folder")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#!/bin/sh\nexec true\n", "not the script of an installed mngr"),
        (f"#!{sys.executable}\nimport imbue\n", "not the script of an installed mngr"),
        ("#!{program}\nfrom imbue.mngr.main import cli\n", "not tried with mngr of an unknown version"),
    ],
)
def test_another_program_is_called_each_time(tmp_path: Path, text: str, says: str) -> None:
    program = tmp_path / "bin" / "mngr"
    program.parent.mkdir()
    program.write_text(text.replace("{program}", str(program)))
    program.chmod(0o755)
    loaded = LoadedMngr(MngrProgram(program, "PATH"), dict(os.environ))
    assert [loaded.path(), loaded.path(), loaded.path()] == [program] * 3
    assert says in loaded.state


def test_a_new_installation_is_called_at_once(world: World, tmp_path: Path) -> None:
    program = tmp_path / "mngr"
    shutil.copy(PROGRAM.path, program)
    loaded = LoadedMngr(MngrProgram(program, "PATH"), world.environment)
    loaded.path()
    program.write_text(f"{program.read_text()}\n# another one\n")
    assert loaded.path() == program
    assert "installed anew" in loaded.state


def test_a_program_that_is_gone_is_an_error_as_ever(world: World, tmp_path: Path) -> None:
    gone = MngrProgram(tmp_path / "mngr", "PATH")
    mngr = Mngr(gone, world.environment, world.root, LoadedMngr(gone, world.environment))
    with pytest.raises(ToolError):
        asyncio.run(mngr.call(("--version",), timeout=5))
