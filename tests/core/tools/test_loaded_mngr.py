"""The loaded mngr against the program that it stands for: same answers, deadlines and ends; when it is not used."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loaded_mngr
from selftest_core.errors import ToolError, ToolTimeoutError
from selftest_core.tools.loaded.loaded_mngr import LoadedMngr, make_folder, why_not
from selftest_core.tools.loaded.server import LENGTH, NOT_TAKEN
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


@pytest.mark.parametrize("settings", ["[plugins.claude_subagent_proxy]\nenabled = true\n", "no TOML"])
def test_a_plugin_that_only_the_settings_enable_is_enabled(
    world: World, loaded: LoadedMngr, tmp_path: Path, settings: str
) -> None:
    (tmp_path / "settings.toml").write_text(settings)
    environ = {**world.environment, "MNGR_PROJECT_CONFIG_DIR": str(tmp_path)}
    words = ("plugin", "list", "--format", "json")
    plain, cheap = (
        asyncio.run(Mngr(PROGRAM, environ, world.repository, one).call(words, timeout=100)) for one in (None, loaded)
    )
    assert (cheap.exit_status, cheap.stdout, cheap.stderr) == (plain.exit_status, plain.stdout, plain.stderr)


def test_no_call_survives_its_deadline(world: World, loaded: LoadedMngr) -> None:
    mngr = Mngr(PROGRAM, world.environment, world.root, loaded)
    with pytest.raises(ToolTimeoutError, match="mngr"):
        asyncio.run(mngr.call(("list", "--format", "json"), timeout=0.05))
    eventually(lambda: not children_of(server_of(loaded)), "the end of the fork")
    assert call(world, loaded, "--version").ok, "the next call is answered"


def server_of(loaded: LoadedMngr) -> int:
    """Its process. Its forks have its command line for a while."""
    address = str(loaded.path().with_name("socket")).encode()
    (server,) = [one for one in children_of(os.getpid()) if address in Path(f"/proc/{one}/cmdline").read_bytes()]
    return server


def children_of(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, fields = path.read_text().rpartition(")")
            if int(fields.split()[1]) == parent:
                found.append(int(name.split()[0]))
    return found


@contextlib.contextmanager
def hanging(world: World, loaded: LoadedMngr, folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A call that waits for git, and the process of its fork."""
    begun = folder / "begun"
    git = folder / "git"
    git.write_text(f"#!/bin/sh\n: > {begun}\nwhile [ -e {begun} ]; do sleep 0.1; done\n")
    git.chmod(0o755)
    environ = {**world.environment, "PATH": f"{folder}{os.pathsep}{world.environment['PATH']}"}
    words = [str(loaded.path()), "list", "--format", "json"]
    with subprocess.Popen(
        words, env=environ, cwd="/", text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as launcher:
        try:
            eventually(begun.exists, "a call of git")
            (fork,) = children_of(server_of(loaded))
            yield launcher, fork
        finally:
            begun.unlink()
            launcher.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_call_ends_with_its_caller(world: World, loaded: LoadedMngr, tmp_path: Path, number: int) -> None:
    with hanging(world, loaded, tmp_path) as (launcher, fork):
        launcher.send_signal(number)
        eventually(lambda: fork not in children_of(server_of(loaded)), "the end of the fork")
        assert launcher.wait(60) == -number


def test_a_caller_ends_as_its_call_was_killed(world: World, loaded: LoadedMngr, tmp_path: Path) -> None:
    with hanging(world, loaded, tmp_path) as (launcher, fork):
        os.kill(fork, signal.SIGKILL)
        assert launcher.wait(60) == -signal.SIGKILL


def test_calls_end_when_the_server_is_killed(world: World, tmp_path: Path) -> None:
    loaded = LoadedMngr(PROGRAM, world.environment)
    is_ready(loaded)
    with hanging(world, loaded, tmp_path) as (launcher, fork):
        os.kill(server_of(loaded), signal.SIGKILL)
        assert launcher.wait(60) == 1
        eventually(lambda: not Path(f"/proc/{fork}").exists(), "the end of the fork")
    loaded.close()


def test_a_request_that_is_cut_off_is_not_taken(loaded: LoadedMngr) -> None:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(loaded.path().with_name("socket")))
        socket.send_fds(caller, [(100).to_bytes(LENGTH, "big")], [0, 1, 2])
        caller.shutdown(socket.SHUT_WR)
        assert int.from_bytes(caller.recv(LENGTH), "big") == NOT_TAKEN


def test_a_call_that_is_not_taken_becomes_the_program() -> None:
    folder = make_folder(Path("/bin/echo"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        server.listen()
        words = [str(folder / "mngr"), "asked"]
        with subprocess.Popen(words, text=True, stdout=subprocess.PIPE) as launcher:
            caller, _ = server.accept()
            for file in socket.recv_fds(caller, 1 << 20, 3)[1]:
                os.close(file)
            caller.send(NOT_TAKEN.to_bytes(LENGTH, "big"))
            assert launcher.communicate()[0] == "asked\n"
            caller.close()
    shutil.rmtree(folder)


def test_it_stands_back_when_it_dies_and_a_call_that_is_on_its_way_becomes_the_program(world: World) -> None:
    loaded = LoadedMngr(PROGRAM, world.environment)
    is_ready(loaded)
    cheap = loaded.path()
    os.kill(server_of(loaded), signal.SIGKILL)
    eventually(lambda: loaded.path() == PROGRAM.path, "the program")
    assert "it ended" in loaded.state
    done = subprocess.run([cheap, "--version"], env=world.environment, capture_output=True, text=True, check=True)
    assert done.stdout == call(world, None, "--version").stdout
    loaded.close()
    assert not cheap.parent.exists()


def test_it_stands_back_where_its_folder_is_gone(world: World) -> None:
    loaded = LoadedMngr(PROGRAM, world.environment)
    is_ready(loaded)
    shutil.rmtree(loaded.path().parent)
    assert loaded.path() == PROGRAM.path
    assert "is gone, or no programs can be run there" in loaded.state
    loaded.close()


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


def test_a_plugin_that_is_installed_beside_it_is_used_at_once(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    program = tmp_path / "bin" / "mngr"
    program.write_text(f"#!{tmp_path}/bin/python\nfrom imbue.mngr.main import cli\n")
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    (packages / "imbue_mngr-0.3.0.dist-info").mkdir(parents=True)
    loaded = LoadedMngr(MngrProgram(program, "PATH"), {})
    loaded.path()
    assert loaded.state == "not loaded yet"
    (packages / "imbue_mngr_modal-0.3.0.dist-info").mkdir()
    assert loaded.path() == program
    assert "a package beside it, was installed anew" in loaded.state


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, ""),
        ({"LANG": "de_DE.UTF-8@euro", "PYTHONPATH": "", "PYTHONSTARTUP": "/x", "PYTHONUNBUFFERED": "1"}, ""),
        ({"PYTHONPATH": "/a:/b"}, ""),
        ({"PYTHONPATH": "/a:"}, "PYTHONPATH has relative folders"),
        ({"PYTHONWARNINGS": "error"}, "PYTHONWARNINGS is set"),
        ({"LC_ALL": "de_DE", "LANG": "C.UTF-8"}, "the locale is de_DE, not UTF-8"),
    ],
)
def test_what_only_a_starting_python_reads_is_left_to_the_program(environ: dict[str, str], says: str) -> None:
    assert why_not(PROGRAM, environ) == says


def test_a_program_that_is_gone_is_an_error_as_ever(world: World, tmp_path: Path) -> None:
    gone = MngrProgram(tmp_path / "mngr", "PATH")
    mngr = Mngr(gone, world.environment, world.root, LoadedMngr(gone, world.environment))
    with pytest.raises(ToolError):
        asyncio.run(mngr.call(("--version",), timeout=5))
