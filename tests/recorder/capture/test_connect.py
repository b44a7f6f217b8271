"""mngr's connect command that records: on a terminal and without one, whole whatever ends the attach."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from recorder.onhost.collecting import Collecting, status_of
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.e2e.session import open_session
from worlds import BIN, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worlds import World

CONNECT = [sys.executable, "-P", "-m", "selftest_recorder.capture.connect"]


class Connecting(Collecting):
    """A folder for recordings, and sessions to connect to as mngr has us do it."""

    def environment(self, name: str, **more: str) -> dict[str, str]:
        """What mngr says of an agent, in the world's environment."""
        said = {"MNGR_AGENT_NAME": name, "MNGR_SESSION_NAME": f"mngr-{name}", "MNGR_HOST_IS_LOCAL": "true"}
        return {**self.world.environment, **said, "SELFTEST_RECORDINGS": str(self.home), **more}

    def connect(self, name: str, **more: str) -> subprocess.Popen[bytes]:
        """Connect without a terminal."""
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                CONNECT, env=self.environment(name, **more), cwd=self.home, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def made(self) -> list[Path]:
        """The recordings that there are."""
        return sorted(self.home.glob("*.cast"))

    def shown(self) -> str:
        """All output of the newest recording."""
        return "".join(outputs(path) for path in self.made()[-1:])

    def clients(self, name: str) -> list[str]:
        """The clients that are attached."""
        return self.world.tmux("list-clients", "-t", f"=mngr-{name}", check=False).splitlines()


def outputs(path: Path) -> str:
    """All output of a recording so far; none where asciinema has not written its header."""
    if b"\n" not in path.read_bytes():
        return ""
    return "".join(event.data for event in read_cast(path).events(growing=True) if event.code == "o")


@pytest.fixture
def home(world: World, tmp_path: Path) -> Iterator[Connecting]:
    """Sessions in a tmux server of the test's own, since one of the tests ends it."""
    made = Connecting(world, tmp_path)
    try:
        yield made
    finally:
        for process in made.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize("ending", ["detach", "kill of the agent", "kill of the server", "SIGTERM", "SIGHUP"])
def test_a_recording_is_whole_whatever_ends_the_attach(home: Connecting, ending: str) -> None:
    home.session("mngr-ada")
    process = home.connect("ada")
    eventually(lambda: home.clients("ada"), "an attached client")
    home.type("mngr-ada", "echo made it")
    eventually(lambda: home.shown().count("made it") > 1, "what was printed")
    match ending:
        case "detach":
            home.world.tmux("detach-client", "-s", "=mngr-ada")
        case "kill of the agent":
            home.world.tmux("kill-session", "-t", "=mngr-ada")
        case "kill of the server":
            home.world.tmux("kill-server")
        case _:
            process.send_signal(getattr(signal, ending))
    assert status_of(process) == 0
    (path,) = home.made()
    recording = read_cast(path)
    assert "".join(event.data for event in recording.events()).count("made it") > 1
    assert recording.problems == []
    assert path.read_bytes().endswith(b"\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (recording.header.cols, recording.header.rows, recording.header.title) == (80, 25, "ada")
    if ending.startswith("SIG"):
        assert home.world.tmux("has-session", "-t", "=mngr-ada") == ""


def test_two_attaches_have_a_recording_each_and_secrets_are_masked(home: Connecting) -> None:
    home.session("mngr-ada")
    processes = [home.connect("ada", TOKEN="hunter2-hunter2", SELFTEST_TUI_MASK_ENV="TOKEN") for _ in range(2)]
    eventually(lambda: len(home.clients("ada")) == 2, "two attached clients")
    home.type("mngr-ada", "echo is hunter2-hunter2 known")
    # What was typed, and what was printed.
    eventually(lambda: len(home.made()) == 2 and all(outputs(path).count("known") > 1 for path in home.made()))
    # One who only looks sizes nothing and types nothing.
    assert (
        home.world.tmux("display-message", "-p", "-t", "=mngr-ada:", "#{window_width}x#{window_height}").strip()
        == "80x24"
    )
    home.world.tmux("detach-client", "-s", "=mngr-ada")
    assert [status_of(process) for process in processes] == [0, 0]
    for path in home.made():
        assert b"hunter2-hunter2" not in path.read_bytes()
        assert b"is *************** known" in path.read_bytes()
    assert len(home.made()) == 2
    assert [path.name for path in home.home.iterdir() if path.suffix == ".masked"] == []


def test_a_person_on_a_terminal_gets_it_back_as_it_was(home: Connecting) -> None:
    home.session("mngr-ada")
    script = home.world.script("there", f"#!/bin/sh\n{shlex.join(CONNECT)}\necho status $?\nstty -a\nread -r end\n")
    environment = home.environment("ada", TMUX="/nowhere/else,1,0")
    with open_session([script], environment=environment, cwd=home.home, columns=90, lines=30) as session:
        session.wait_for(">")
        eventually(lambda: home.clients("ada"), "an attached client")
        session.type_text("echo from here")
        session.send_keys("Enter")
        eventually(lambda: "\nfrom here" in home.world.tmux("capture-pane", "-p", "-t", "=mngr-ada:"))
        session.send_keys("C-b", "d")
        screen = session.wait_for("icanon")
        assert "status 0" in screen
        assert " icanon" in screen
        assert " echo " in screen
        assert "-echo " not in screen
        session.send_keys("Enter")
    (path,) = home.made()
    recording = read_cast(path)
    assert "from here" in "".join(event.data for event in recording.events())
    assert (recording.header.cols, recording.header.rows) == (90, 30)


def test_what_cannot_be_connected_to_is_said(home: Connecting) -> None:
    process = home.connect("nobody")
    assert status_of(process) == 2
    assert "There is no tmux session mngr-nobody" in home.log()
    assert home.made() == []


@pytest.mark.real
def test_the_real_mngr_connects_by_it(home: Connecting) -> None:
    home.world.create("ada", "/bin/sh", "-c", "echo here I am; exec sleep 100000")
    argv: list[str | Path] = [BIN / "mngr", "connect", "ada", "--no-start", "--connect-command", shlex.join(CONNECT)]
    environment = {**home.world.environment, "SELFTEST_RECORDINGS": str(home.home)}
    with open_session(argv, environment=environment, cwd=home.home, columns=90, lines=30) as session:
        session.wait_for("here I am")
        home.world.tmux("detach-client", "-s", "=mngr-ada")
        assert session.wait_for_end() == 0
    (path,) = home.made()
    assert "here I am" in outputs(path)
