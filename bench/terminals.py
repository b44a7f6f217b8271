"""The screen of a terminal, read from what was printed to it, and a bare Textual app to compare with."""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

from pseudo_terminal import Terminal
from selftest_recorder.terminal.emulator import open_terminal
from selftest_recorder.terminal.terminal import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from selftest_recorder.terminal.terminal import Row

LINES, COLUMNS = 50, 180
NAME = re.compile(r"st-7f-[a-z0-9-]+")
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    presses = 0
    def compose(self):
        yield Static("bare app is here")
    def on_key(self):
        self.presses += 1
        self.query_one(Static).update(f"pressed {self.presses} times")
Bare().run()
"""
_FRAME = 2
"""Rows above the table and below it, which have backgrounds of their own."""


class ScreenReader:
    """The screen of our program, row by row, as a terminal of `LINES` and `COLUMNS` shows it."""

    def __init__(self, screen: Terminal) -> None:
        self._screen = screen
        self._emulator = open_terminal(COLUMNS, LINES)
        self._read = 0
        self._rows: dict[int, Row] = {}
        self.lines = [""] * LINES
        """The text of each row."""
        self.cursor = ""
        """The agent under the table's cursor: the line with a background of its own."""

    def pieces(self) -> Iterator[tuple[float, bool]]:
        """Show piece by piece what was printed since the last time: its time, and whether the cursor moved with it."""
        new = self._screen.raw_pieces(self._read)
        self._read += len(new)
        for at, data in new:
            self._emulator.feed(data)
            for number, row in self._emulator.read_update().rows.items():
                self._rows[number] = row
                self.lines[number] = text_of(row)
            before, self.cursor = self.cursor, self._agent_under_cursor() or self.cursor
            yield at, bool(before) and before != self.cursor

    def catch_up(self) -> None:
        """Show all that was printed so far."""
        for _ in self.pieces():
            pass

    def cursor_moves(self) -> list[float]:
        """Return the times at which the cursor came to another agent, since the last reading."""
        return [at for at, has_moved in self.pieces() if has_moved]

    def _agent_under_cursor(self) -> str:
        """Return the name in the line whose first cells have a background of their own; empty while there is none."""
        table = [row for number, row in self._rows.items() if _FRAME <= number < LINES - _FRAME and len(row) > 1]
        counts = Counter(row[1].pen.background for row in table)
        own = [row for row in table if counts[row[1].pen.background] == 1]
        names = [match[0] for row in own if (match := NAME.search(text_of(row)))]
        return names[0] if len(names) == 1 else ""


class BareEcho:
    """A bare Textual app in a terminal of its own: what a key costs on this machine now. A context manager."""

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        self._terminal = Terminal((sys.executable, "-c", BARE), cwd=cwd, env=environ)
        self._terminal.painted("bare app is here")
        self._presses = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.end()

    def press(self) -> float:
        """Press a key; return the milliseconds until its text was painted."""
        self._presses += 1
        before, began = self._terminal.press("x")
        # Only what changed is painted: the number.
        return (self._terminal.painted(str(self._presses % 10), before) - began) * 1000
