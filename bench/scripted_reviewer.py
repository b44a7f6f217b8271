"""A reviewer who knows the truth, before the real program in a terminal: they read the screen and press keys.

They look at every row: `y` keeps it and goes on, `x` reverts it, `tab` goes to the next open one. Of changes that clash
they revert the one in conflict. `by_kind`: the tests are kept on their group's title, with one key for all of them.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import cpu_of_process
from pseudo_terminal import Terminal
from selftest_recorder.terminal.emulator import open_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from selftest_recorder.terminal.terminal import Row

LINES, COLUMNS = 50, 180
BRANCH = "reviewed"
"""The name that the program offers to publish under."""
_PATIENCE = 120.0
_LOOK_AGAIN, _REST = 0.005, 0.3
"""Seconds between two looks; and without output, after which the screen is taken to be complete."""
_PROGRESS = re.compile(r"(\d+) of (\d+) decided")
_TABLE = range(4, LINES - 2)
"""The lines of the screen that the table has, below its titles."""
_UNDECIDED, _HELD = "·", "↯"
_TAB, _ENTER, _UP = "\t", "\r", "\x1b[A"


@dataclass(frozen=True)
class Reviewing:
    """Cost of a review. `rows`: those at the start; `opening`: seconds until they were on the screen.

    `opening_cpu`: seconds of CPU of the program and of what it ran until then. `resident`: MiB of memory at most.
    """

    rows: int
    keys: int
    opening: float
    opening_cpu: float
    seconds: float
    resident: float


class ScriptedReviewer:
    """The program in a terminal, and its user. As a context manager: the program ends with the block."""

    def __init__(self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
        self._terminal = Terminal(argv, cwd=cwd, env=environ, rows=LINES, columns=COLUMNS)
        self._emulator = open_terminal(COLUMNS, LINES)
        self._read = 0
        self._keys = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.end()

    @property
    def screen(self) -> str:
        """The screen as it is now."""
        shown = self._terminal.shown
        self._emulator.feed(shown[self._read :])
        self._read = len(shown)
        return "\n".join(self._emulator.lines())

    def review(self, is_mistake: Callable[[str], bool], *, by_kind: bool = False) -> Reviewing:
        """Decide on every row by the truth, and publish. `is_mistake`: of a row as it is shown."""
        rows = self._until(self._progress, "an open review")[1]
        self._until(self._row, "a row under the cursor")
        opened, cpu = time.perf_counter(), sum(cpu_of_process(self._terminal.pid))
        may_keep_group = by_kind
        while (progress := self._until(self._progress, "the progress"))[0] < progress[1]:
            row = self._until(self._row, "a row under the cursor")
            if row[1] != _UNDECIDED and row[3] != _HELD:
                self._press(_TAB)
                self._leave(row)
            elif may_keep_group and not row[5:8].strip():
                may_keep_group = False
                self._press(_UP)
                self._decide("y", progress)
            elif is_mistake(row) or row[3] == _HELD:
                self._decide("x", progress, asks="Revert it")
            else:
                self._decide("y", progress)
        self._press("P")
        self._until(lambda: "publish as branch" in self.screen, "the question for a name")
        self._press(_ENTER)
        self._until(lambda: "Publish it all the same" in self.screen, "the list of what is published")
        self._press("y")
        self._until(lambda: f"published as {BRANCH}" in self.screen, "the branch")
        seconds = time.perf_counter() - opened
        opening = opened - self._terminal.began
        return Reviewing(rows, self._keys, opening, cpu, seconds, _peak(self._terminal.pid))

    def _decide(self, key: str, before: tuple[int, int], asks: str = "") -> None:
        """Press it, and wait until the screen shows the decision. `asks`: a question that may come; its `x` reverts."""
        row = self._row()
        self._press(key)

        def is_asked_or_done() -> bool:
            return (self._progress() or before)[0] > before[0] or (bool(asks) and asks in self.screen)

        self._until(is_asked_or_done, "another decision")
        if asks and asks in self.screen:
            self._press("x")
            self._until(lambda: (self._progress() or before)[0] > before[0], "another decision")
        # The table may come after the header. Two rows can look the same, so a screen at rest will do.
        self._until(lambda: self._row() != row or self._terminal.is_quiet(_REST), "the decided row")

    def _leave(self, row: str) -> None:
        """Wait until the cursor is on another row than this one."""
        self._until(lambda: self._row() not in (None, row), "the next open row")

    def _progress(self) -> tuple[int, int] | None:
        """Decided rows and all rows, as the header counts them."""
        found = _PROGRESS.search(self.screen)
        return None if found is None else (int(found[1]), int(found[2]))

    def _row(self) -> str | None:
        """The table's line under the cursor, without the frame: the one with a background of its own."""
        if self._progress() is None:
            return None
        lines = self._emulator.read_update(whole=True).rows
        table = {at: _cells(lines[at]) for at in _TABLE if at in lines}
        colours = Counter(background for _, background in table.values())
        own = [text for text, background in table.values() if colours[background] == 1]
        return own[0] if len(own) == 1 else None

    def _press(self, key: str) -> None:
        self._keys += 1
        self._terminal.press(key)

    def _until[T](self, look: Callable[[], T | None], what: str) -> T:
        """Look at the screen until there is something to see, and return it."""
        deadline = time.perf_counter() + _PATIENCE
        while not (found := look()):
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{what} did not come; the screen:\n{self.screen}")
            seen, again = self._read, time.perf_counter() + _REST
            while self._terminal.position == seen and time.perf_counter() < again:
                time.sleep(_LOOK_AGAIN)  # a reader of the terminal offers no event
        return found


def _cells(row: Row) -> tuple[str, object]:
    """The text of a line of the left pane, and the background of its first cell inside the frame."""
    text = "".join(run.text for run in row)[1:].partition("│")[0]
    inside = row[1].pen.background if len(row) > 1 else None
    return text, inside


def _peak(pid: int) -> float:
    """MiB of memory that a process has had at most (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
