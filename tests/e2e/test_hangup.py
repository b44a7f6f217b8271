"""The terminal is taken away, in every state that the program can be in: no process of ours is left."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.run.shop import commit
from pseudo_terminal import shell_in
from worlds import BIN, ROOT, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pseudo_terminal import Terminal
    from worlds import World

pytestmark = pytest.mark.real
PROGRAM = str(BIN / "selftest-tui")
PATIENT = 60.0
"""Far more than the two seconds that it may take: a process that hangs does so for ever."""

# A run that has ended, and one that a Pilot presses the keys of: states that no command line leads to directly.
ENDED_RUN = """
import os, pathlib, sys
sys.path.insert(0, {tests!r})
import run_scenes
from selftest_core.config import Config
from selftest_tui.app import app
made = run_scenes.over(pathlib.Path({root!r}) / str(os.getpid())).write()
raise SystemExit(app.run(Config(remote=False), dict(os.environ), run=made))
"""
EDITOR = "#!/bin/sh\necho edits\nexec sleep 1000\n"
PILOT = """
import os, pathlib, sys
from selftest_core.config import Config
from selftest_tui.app import app
from selftest_tui.app.hangup import ending_with_the_terminal
made = app._make(Config(remote=False), dict(os.environ), pathlib.Path.cwd())
async def press(pilot):
    await pilot.pause()
    print("piloted", file=sys.__stdout__, flush=True)
    await pilot.press("question_mark")
    made.exit()
    sys.__stdin__.buffer.raw.read(1)  # until the terminal is gone, in the midst of leaving
with ending_with_the_terminal():
    made.run(auto_pilot=press)
"""
CONTINUED = """
import os, pathlib, signal, sys, threading
from selftest_core.config import Config
from selftest_tui.app import app
made = app._make(Config(remote=False), dict(os.environ), pathlib.Path.cwd())
async def press(pilot):
    await pilot.pause()
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGCONT)
    readers = [one for one in threading.enumerate() if one.name == "textual-input"]
    print(f"readers: {len(readers)}.", file=sys.__stdout__, flush=True)
    made.exit()
made.run(auto_pilot=press)
"""


def plain(argv: str) -> str:
    """The program leads the session: it gets the signal."""
    return f"exec {argv}"


def deaf(argv: str) -> str:
    """It ignores the signal, as under nohup."""
    return f"trap '' HUP; exec {argv}"


def below(argv: str) -> str:
    """A shell leads the session, as under nsenter: the signals come from its end."""
    return f"{argv}; true"


@pytest.fixture(scope="module")
def busy() -> Iterator[World]:
    """A repository with a test, and a tmux session to attach to."""
    with a_world(SELFTEST_TUI_REMOTE="false", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1") as world:
        folder = world.make_repository()
        (folder / "tests").mkdir()
        (folder / "tests" / "test_cart.py").write_text("def test_cart(): ...\n")
        (folder / "tutorial.sh").write_text("# Put something into the cart.\ncart add\n")
        world.script("agent.sh", "#!/bin/sh\n")
        commit(world, "A shop")
        world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "elsewhere", "sleep 100000")
        world.load_mngr()
        yield world


def of_the_program(world: World) -> list[str]:
    """Our processes that live in this world, with what the kernel says of them."""
    found = []
    for pid in world.processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if any(b"selftest" in word for word in words) or b"-c" in words[1:2]:
                found.append(b" ".join(words).decode("utf-8", "replace")[:200])
    return found


def to_fleet(terminal: Terminal, world: World) -> None:
    terminal.wait_for("elsewhere")


def to_help(terminal: Terminal, world: World) -> None:
    to_fleet(terminal, world)
    terminal.press("?")
    terminal.wait_for("esc")


def to_attached(terminal: Terminal, world: World) -> None:
    to_fleet(terminal, world)
    terminal.press("\x1b[F\r")  # End, Enter
    eventually(lambda: clients(world), "attached")


def to_coming_back(terminal: Terminal, world: World) -> None:
    to_attached(terminal, world)
    world.tmux("detach-client", "-s", "elsewhere")  # and at once the terminal goes


def to_back_again(terminal: Terminal, world: World) -> None:
    to_coming_back(terminal, world)
    terminal.wait_for("Back from elsewhere")


def to_editor(terminal: Terminal, world: World) -> None:
    to_fleet(terminal, world)
    terminal.press("t")
    terminal.wait_for("Put something")
    terminal.press("E")
    terminal.wait_for("edits")


def to_leaving(terminal: Terminal, world: World) -> None:
    to_fleet(terminal, world)
    terminal.press("q")  # and at once the terminal goes


def to_started(terminal: Terminal, world: World) -> None:
    terminal.wait_for("Nothing has started yet")


def to_ended_run(terminal: Terminal, world: World) -> None:
    terminal.wait_for("✓ ended")


def to_piloted(terminal: Terminal, world: World) -> None:
    terminal.wait_for("piloted")


def clients(world: World) -> list[str]:
    return world.tmux("list-clients", "-F", "#{session_name}", check=False).split()


FLEET = PROGRAM
START = f"{PROGRAM} run --agent-command ../s/agent.sh"
STATES = {
    "fleet": (FLEET, to_fleet),
    "dialog": (FLEET, to_help),
    "attached": (FLEET, to_attached),
    "coming back": (FLEET, to_coming_back),
    "back again": (FLEET, to_back_again),
    "editor": (FLEET, to_editor),
    "leaving": (FLEET, to_leaving),
    "start": (START, to_started),
    "ended run": (ENDED_RUN, to_ended_run),
    "pilot": (PILOT, to_piloted),
}


def line_of(command: str, world: World) -> str:
    if command not in (ENDED_RUN, PILOT, CONTINUED):
        return command
    text = command.replace("{tests!r}", repr(str(ROOT / "tests"))).replace("{root!r}", repr(str(world.root)))
    path = world.root / "s" / f"state-{abs(hash(text))}.py"
    path.write_text(text)
    return shlex.join([sys.executable, str(path)])


@pytest.mark.parametrize("start", [plain, deaf, below])
@pytest.mark.parametrize("state", STATES)
def test_a_program_without_its_terminal_ends(busy: World, state: str, start: Callable[[str], str]) -> None:
    command, reach = STATES[state]
    terminal = shell_in(busy, start(line_of(command, busy)), EDITOR=str(busy.script("editor", EDITOR)))
    reach(terminal, busy)
    terminal.hang_up()
    eventually(lambda: not of_the_program(busy), f"no process of ours, but there is {of_the_program(busy)}", PATIENT)
    terminal.leader.wait()


def test_sigcont_starts_no_second_reader(busy: World) -> None:
    terminal = shell_in(busy, plain(line_of(CONTINUED, busy)))
    terminal.wait_for("readers: 1.")
    assert terminal.leader.wait(PATIENT) == 0
    terminal.hang_up()
