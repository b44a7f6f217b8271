"""Driving the collector in a private world: sessions of its tmux, orders, and what the recordings then show."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from selftest_recorder.cast.events import MARKER, OUTPUT, RESIZE, size_of
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.terminal.emulator import open_terminal
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_recorder.cast.events import Event
    from worlds import World


class Collecting:
    """A folder with orders, and the collector that reads them."""

    def __init__(self, world: World, home: Path) -> None:
        self.world = world
        self.home = home
        self.processes: list[subprocess.Popen[bytes]] = []

    def file(self, name: str) -> Path:
        """Where the recording of that name is."""
        return self.home / f"{name}.cast"

    def order(self, do: str, name: str, **fields: Any) -> None:
        """Order something."""
        if do == "record":
            fields = {"file": str(self.file(name)), "session": name, **fields}
        with (self.home / "orders").open("ab") as file:
            file.write(json.dumps({"do": do, "name": name, **fields}).encode() + b"\n")

    def start(self, *more: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start a collector."""
        argv = [
            sys.executable, "-P", "-m", "selftest_recorder.onhost", "--socket", str(self.world.socket),
            "--orders", str(self.home / "orders"), "--fifos", str(self.home / "fifos"), *more,
        ]  # fmt: skip
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                argv, env={**self.world.environment, **environ}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    def log(self) -> str:
        """What the collectors said."""
        return (self.home / "log").read_text() if self.processes else ""

    def events(self, name: str) -> list[Event]:
        """The events so far; a recording is readable and undamaged at any moment."""
        if not self.file(name).exists():
            return []
        recording = read_cast(self.file(name))
        events = list(recording.events(growing=True))
        assert recording.problems == []
        return events

    def text(self, name: str) -> str:
        """All output so far."""
        return "".join(event.data for event in self.events(name) if event.code == OUTPUT)

    def labels(self, name: str) -> list[str]:
        """The markers so far."""
        return [event.data for event in self.events(name) if event.code == MARKER]

    def screen(self, name: str) -> list[str]:
        """What a terminal shows that was fed the whole recording."""
        events = self.events(name)
        header = read_cast(self.file(name)).header
        terminal = open_terminal(header.cols, header.rows)
        for event in events:
            if event.code == OUTPUT:
                terminal.feed(event.data.encode())
            elif event.code == RESIZE:
                size = size_of(event.data)
                assert size is not None
                terminal.resize(*size)
        return [line.rstrip() for line in terminal.lines()]

    def shows_what_tmux_shows(self, name: str) -> bool:
        """True where a replay ends with the screen that the pane has now."""
        if not self.file(name).exists():
            return False
        shown = self.world.tmux("capture-pane", "-p", "-N", "-t", f"={name}:").split("\n")[:-1]
        return self.screen(name) == [line.rstrip() for line in shown]

    def session(self, name: str, *command: str, columns: int = 80, lines: int = 24) -> None:
        """Start a session; without a command it is a shell that has no prompt to speak of."""
        size = ("-x", str(columns), "-y", str(lines))
        self.world.tmux("new-session", "-d", "-s", name, *size, *(command or ("env", "PS1=> ", "/bin/sh")))

    def type(self, name: str, text: str) -> None:
        """Type a line."""
        self.world.tmux("send-keys", "-t", f"={name}:", "-l", text)
        self.world.tmux("send-keys", "-t", f"={name}:", "Enter")

    def wait_until_recorded(self, *names: str) -> None:
        """Wait until the first screen of each is written."""
        for name in names:
            eventually(lambda name=name: self.text(name), f"the beginning of {name}")  # type: ignore[misc]


@contextlib.contextmanager
def collecting(world: World, home: Path) -> Iterator[Collecting]:
    """A collector's folder for a block; what was started ends with it."""
    home.mkdir(parents=True, exist_ok=True)
    made = Collecting(world, home)
    try:
        yield made
    finally:
        for process in made.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def status_of(process: subprocess.Popen[bytes]) -> int:
    """How a process ends; waits for that, and lets tmux look for ended programs meanwhile."""
    eventually(lambda: process.poll() is not None, "the end of a process")
    return process.returncode
