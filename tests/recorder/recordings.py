"""Recordings for tests: made up with everything that a terminal does, and one of real programs in a real terminal."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

from selftest_recorder.cast.events import OUTPUT, RESIZE, Header, size_of
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.e2e.session import open_session
from selftest_recorder.terminal.emulator import open_terminal
from selftest_recorder.terminal.terminal import text_of
from worlds import BIN, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_recorder.terminal.terminal import ScreenUpdate
    from worlds import World

PIECES = (
    "line {n} of what an agent prints\r\n", "\x1b[3{d}mcoloured {n}\x1b[0m\r\n", "\x1b[{d};{n}Hat a place",
    "\x1b[48;5;{n}m日本 {n}\x1b[K\x1b[0m\r\n", "\x1b[2J\x1b[H", "\x1b[38;2;1", ";2;3mcut {n}", "\x1b[?1049h\x1b[H",
    "\x1b[?1049l", "\x1b[2;{d}r", "\x1b[r", "\x1bM", "e\u0301{n} 👍", "\x1b]0;title {n}\x07", "\x1b[?25l", "\x1b[?25h",
)  # fmt: skip


def made_up(count: int, seed: int = 1, *, resizes: bool = True) -> Iterator[tuple[float, str, str]]:
    """Events: output of all kinds, some at the same time; markers; sizes."""
    chance = random.Random(seed)
    time = 0.0
    for number in range(count):
        time = round(time + chance.choice((0.0, 0.01, 0.2, 3.0)), 6)
        yield time, "o", chance.choice(PIECES).format(n=number % 200, d=number % 8)
        if number % 50 == 49:
            yield time, "m", f"mark {number}"
        if resizes and number % 70 == 69:
            yield time, "r", f"{30 + number % 40}x{6 + number % 10}"


def write_made_up(path: Path, count: int, seed: int = 1, version: int = 3, *, resizes: bool = True) -> Path:
    """A recording of 60x12 with them."""
    write_cast(path, Header(version, 60, 12), made_up(count, seed, resizes=resizes))
    return path


def played(path: Path, time: float) -> ScreenUpdate:
    """What a terminal shows that plays from the beginning up to `time`, event by event."""
    recording = read_cast(path)
    terminal = open_terminal(recording.header.cols, recording.header.rows)
    for event in recording.events(growing=True):
        if event.time > time:
            break
        if event.code == OUTPUT:
            terminal.feed(event.data.encode())
        elif event.code == RESIZE and (size := size_of(event.data)) is not None:
            terminal.resize(*size)
    return terminal.read_update(whole=True)


def last_lines(path: Path) -> list[str]:
    """What a terminal shows at the end of a recording, as far as that is written."""
    update = played(path, float("inf"))
    return [text_of(update.rows[row]) for row in range(update.lines)]


def drawn(screen: str) -> str:
    """A screen without trailing blanks."""
    return "\n".join(line.rstrip() for line in screen.splitlines()).rstrip()


def record_programs(world: World, path: Path) -> list[str]:
    """Record a shell, less, vim and htop, as far as they are installed; returns screens that tmux showed, in order."""
    text = world.root / "text"
    text.write_text("".join(f"{number} 日本語 e\u0301 wide and combining\n" for number in range(200)))
    argv: list[str | Path] = [BIN / "asciinema", "rec", "-q", "--cols", "90", "--rows", "24", "-c", "sh -i", path]
    seen: list[str] = []
    environment = {**world.environment, "PS1": "> ", "ASCIINEMA_CONFIG_HOME": str(world.home)}
    with open_session(argv, environment=environment, cwd=world.root, columns=90, lines=24) as session:

        def do(line: str, wanted: str, key: str | None = "Enter") -> None:
            session.type_text(line)
            if key is not None:
                session.send_keys(key)
            session.wait_for(wanted)
            seen.append(eventually(settled, f"{wanted!r}, recorded"))

        def settled() -> str:
            """The screen, once the recording ends with what tmux shows: what a program draws comes in pieces."""
            screen = drawn(session.screen())
            return screen if screen == drawn("\n".join(last_lines(path))) else ""

        session.wait_for(">")
        for number in range(3):
            do(f"head -n {30 + number} text; printf '\\033[3{number}mdone {number}\\033[0m\\n'", f"\ndone {number}\n>")
        if shutil.which("less"):
            do("less text", "\n22 日本語")
            do("G", "\n199 日本語", None)
            do("q", "less text\n>", None)
        if shutil.which("vim"):
            do("vim -u NONE -N text", "\n22 日本語")
            do("100Gddihello ", "hello 100", "Escape")
            do(":q!", "text\n>")
        if shutil.which("htop"):
            # Ten seconds between two pictures, and one process in them: it is to stand still while it is looked at.
            do("htop -d 100 -p $$", "F10Quit")
            do("q", "-p $$\n>", None)
        do("clear; echo the end", "the end\n>")
        session.type_text("exit")
        session.send_keys("Enter")
        assert session.wait_for_end() == 0
    return seen
