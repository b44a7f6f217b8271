"""The terminal lent to a client and taken back, inside a real tmux that shows what a person would see."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from worlds import BIN, ROOT, World, eventually

if TYPE_CHECKING:
    from pathlib import Path

# Stands where the supervisor would: sets the terminal as a person's shell does, lends it, and tells how it came back.
SUPERVISOR = """
import json, os, sys, termios
sys.path.insert(0, {core!r})
from selftest_core.actions.attach import plan_attach
from selftest_core.tools.tmux import SessionRef
from selftest_core.actions.terminal import hand_over
before = termios.tcgetattr(0)
out = open({out!r}, "a")
for turn in range(3):
    input("press enter to attach ")
    end = hand_over(plan_attach(SessionRef({socket!r}, "agent"), dict(os.environ)))
    after = termios.tcgetattr(0)
    size = os.get_terminal_size(0)
    told = dict(status=end.exit_status, says=end.text, same=after == before, size=list(size))
    print(json.dumps(told), file=out, flush=True)
    print("BACK", turn, flush=True)
"""

LENDER = """
import pathlib, select, sys, time
sys.path.insert(0, {core!r})
from selftest_core.actions.terminal import kept_terminal
with kept_terminal():
    print("lent", flush=True)
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.01)
print("something is left" if select.select([0], [], [], 0)[0] else "nothing is left", flush=True)
print(sys.stdin.readline(), end="", flush=True)
"""


class Terminal:
    """A person's terminal (a tmux of its own) with a supervisor in it, and a session to attach to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.out: Path = world.root / "told"
        self.out.touch()
        script = world.script(
            "supervisor",
            SUPERVISOR.format(core=str(ROOT / "core"), out=str(self.out), socket=str(world.socket)),
        )
        # Not by a first line: there a path with a space in it is cut.
        command = shlex.join([str(BIN / "python"), str(script)])
        world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "agent", "cat")
        world.tmux(
            "-L", "person", "-f", "/dev/null", "new-session", "-d", "-s", "person", "-x", "90", "-y", "20",
            # As a shell at a prompt would start it: in a process group of its own.
            f"set -m; env -u TMUX -u TMUX_PANE {command}; exec sleep 1000",
        )  # fmt: skip
        self.waits_for("press enter")

    def press(self, *keys: str) -> None:
        self.world.tmux("-L", "person", "send-keys", "-t", "=person:", *keys)

    def ask(self, what: str) -> str:
        return self.world.tmux("-L", "person", "display-message", "-p", "-t", "=person:", what).strip()

    def screen(self) -> str:
        return self.world.tmux("-L", "person", "capture-pane", "-p", "-t", "=person:")

    def waits_for(self, text: str) -> None:
        eventually(lambda: text in self.screen(), f"{text!r} on the screen")

    def attach(self) -> None:
        self.press("Enter")
        eventually(lambda: self.world.tmux("list-clients"), "a client of the agent's session")
        self.waits_for("[agent]")

    def is_back(self, turn: int = 0) -> dict[str, Any]:
        """How the terminal came back, after checking what every program that is next there relies on."""
        self.waits_for(f"BACK {turn}")
        modes = "#{alternate_on}#{mouse_any_flag}#{cursor_flag}#{keypad_cursor_flag}#{keypad_flag}#{wrap_flag}"
        eventually(lambda: self.ask(modes) == "001001", "every mode as it was")
        told: dict[str, Any] = json.loads(self.out.read_text().splitlines()[turn])
        assert told["same"]
        return told

    def client(self) -> int:
        return int(self.world.tmux("list-clients", "-F", "#{client_pid}"))


@pytest.fixture
def terminal(world: World) -> Terminal:
    return Terminal(world)


def test_one_types_into_the_agent_detaches_and_is_back(terminal: Terminal) -> None:
    terminal.attach()
    terminal.press("hello", "Enter")
    eventually(lambda: terminal.screen().count("hello") == 2, "cat's answer")
    terminal.press("C-b", "d")
    told = terminal.is_back()
    assert told["status"] == 0
    assert told["says"] == "Back from agent."
    terminal.attach()
    terminal.press("C-b", "d")
    terminal.is_back(1)


def test_the_session_dies_while_one_is_attached(terminal: Terminal) -> None:
    terminal.attach()
    terminal.world.tmux("set-option", "-g", "mouse", "on")
    terminal.world.tmux("kill-session", "-t", "=agent")
    assert "ended" in terminal.is_back()["says"]


def test_the_server_is_killed_while_one_is_attached(terminal: Terminal) -> None:
    terminal.attach()
    os.kill(int(terminal.world.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    assert terminal.is_back()["says"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_client_is_killed_and_the_terminal_is_put_in_order(terminal: Terminal, number: signal.Signals) -> None:
    terminal.world.tmux("set-option", "-g", "mouse", "on")
    terminal.attach()
    os.kill(terminal.client(), number)
    assert terminal.is_back()["says"]
    assert "agent" in terminal.world.tmux("list-sessions", "-F", "#{session_name}")


def test_keys_that_end_programs_reach_the_agent_and_not_us(terminal: Terminal) -> None:
    terminal.attach()
    terminal.press("C-z")
    terminal.press("C-c")
    terminal.is_back()
    assert "agent" not in terminal.world.tmux("list-sessions", check=False)


def test_a_client_that_suspends_itself_goes_on(terminal: Terminal) -> None:
    terminal.attach()
    terminal.press("C-b", "C-z")

    def comes_through() -> bool:
        # A client that has just been continued takes its terminal anew, and what is typed in between is lost.
        terminal.press("x")
        return "x" in terminal.world.tmux("capture-pane", "-p", "-t", "=agent:")

    eventually(comes_through, "what is typed reaches the agent again")
    terminal.press("C-b", "d")
    assert terminal.is_back()["status"] == 0


def test_a_resize_meanwhile_is_seen_afterwards(terminal: Terminal) -> None:
    terminal.attach()
    terminal.world.tmux("-L", "person", "resize-window", "-t", "=person:", "-x", "120", "-y", "31")
    eventually(lambda: terminal.world.tmux("list-clients", "-F", "#{client_width}").strip() == "120", "the new size")
    terminal.press("C-b", "d")
    assert terminal.is_back()["size"] == [120, 31]


def test_what_was_typed_too_late_is_not_ours(tmp_path: Path) -> None:
    """Bytes that are in the terminal when the client has gone: a line, and a reply that holds no newline."""
    go = tmp_path / "go"
    master, slave = pty.openpty()
    lent = subprocess.Popen([sys.executable, "-c", LENDER.format(core=str(ROOT / "core"), go=str(go))], stdin=slave,
                            stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert lent.stdout is not None
        assert lent.stdout.readline() == "lent\n"
        os.write(master, b"meant for the agent\n\x1b[?1;2c")
        # The kernel passes it on in its own time.
        eventually(lambda: select.select([slave], [], [], 0)[0], "a line in the terminal")
        go.touch()
        assert lent.stdout.readline() == "nothing is left\n"
        os.write(master, b"ours\n")
        assert lent.stdout.readline() == "ours\n"
    finally:
        lent.kill()
        lent.communicate()
        os.close(master)
        os.close(slave)


def test_a_session_that_is_gone_before_gives_the_terminal_back_at_once(terminal: Terminal) -> None:
    terminal.world.end_server()
    terminal.press("Enter")
    assert terminal.is_back()["status"] == 1
