"""Meter of the agents of this machine: their usage, from the files of their programs and of mngr's plugins.

A look is a `stat` or two for an agent with unchanged files. Appended lines are read and added, in bounded pieces, for
`BUDGET` seconds at most in one look, so that a fleet of old agents is read over several looks. It never raises for one
agent: files that cannot be read count as missing. For one thread, which is not the screen's.
"""

# ruff: noqa: PTH116 -- hundreds of stat calls a look: a Path for each would double its cost
from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from selftest_core.conversation.appended_lines import BEGINNING, Place, read_appended
from selftest_core.conversation.claude_transcript import parse_session, session_files
from selftest_core.conversation.common_transcript import parse_lines, transcript_of
from selftest_core.tools.mngr_files import host_dir_of
from selftest_core.usage.claude_costs import REPORTS_FILE, TOTALS_FILE, program_totals, with_reports
from selftest_core.usage.prices import Prices
from selftest_core.usage.tokens import Answer, Usage, usage_of, with_answers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.conversation.common_transcript import Step
    from selftest_core.usage.prices import ModelPrice
    from selftest_core.usage.tokens import PriceOf, ReportedCost

BUDGET = 0.1
"""CPU seconds after which a look leaves the rest to the next one."""

_SEARCH_EVERY = 5
"""New files (a transcript, sessions) are searched at every fifth look."""
_FORGET_AFTER = 60
"""Looks without a change after which the answers of an agent are dropped; a change reads them again."""
_MOST_ANSWERS = 50_000
"""Answers of one agent that are counted: later ones are not read."""
_NO_STAMP = (0, 0, 0)

type Stamp = tuple[int, int, int]


class AgentMeter:
    """Meter of one agent. `folder`: agents/ID, or a copy of it.

    `usage` is the last result. `has_more`: there is more to read, and the result does not have it yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._transcript: str | None = None
        self._sessions: tuple[str, ...] = ()
        self._stamps: tuple[Stamp, ...] = ()
        self._places: dict[str, Place] = {}
        self._answers: dict[str, dict[str, Answer]] = {}
        self._reported: ReportedCost | None = None
        self._looks = 0
        self._unchanged = 0
        self.usage: Usage | None = None
        self.has_more = False

    def look(self, price_of: PriceOf, *, search: bool = False) -> Usage | None:
        """Read new lines, and return the usage in total; the same object while nothing changes.

        `search`: search for new files now, not only at every fifth look.
        """
        if search or self._looks % _SEARCH_EVERY == 0:
            self._transcript = self._transcript or transcript_of(self._folder)
            self._sessions = session_files(self._folder)
        self._looks += 1
        if self._transcript is None:
            return None
        files = (self._transcript, *self._sessions)
        stamps = tuple(_stamp(f"{self._folder}/{file}") for file in (TOTALS_FILE, REPORTS_FILE, *files))
        if stamps == self._stamps and not self.has_more:
            self._unchanged += 1
            if self._unchanged == _FORGET_AFTER:
                self._answers.clear()
                self._places.clear()
                self._reported = None
            return self.usage
        self._unchanged = 0
        self._stamps = stamps
        self.has_more = False
        for file in (REPORTS_FILE, *files):
            self._read(file)
        if not self.has_more:
            answers = {key: answer for each in self._answers.values() for key, answer in each.items()}
            usage = usage_of(answers, price_of, program_totals(self._folder), self._reported)
            self.usage = self.usage if usage == self.usage else usage
        return self.usage

    def _read(self, file: str) -> None:
        if file != REPORTS_FILE and sum(map(len, self._answers.values())) >= _MOST_ANSWERS:
            return
        try:
            lines = read_appended(self._folder, file, self._places.get(file, BEGINNING))
        except (OSError, ValueError):
            return
        self._places[file] = lines.place
        self.has_more = self.has_more or lines.has_more
        if file == REPORTS_FILE:
            self._reported = with_reports(None if lines.is_anew else self._reported, lines.lines)
            return
        steps: Iterable[Step]
        if file == self._transcript:
            # Most bytes are results of tools, in lines without tokens.
            steps = parse_lines(line for line in lines.lines if b'"metrics"' in line)[0]
        else:
            steps = parse_session(lines.lines)
        self._answers[file] = with_answers({} if lines.is_anew else self._answers.get(file, {}), steps)


class Meters:
    """Meter of all agents of this machine. `prices`: the user's own."""

    def __init__(self, environ: Mapping[str, str], prices: Iterable[ModelPrice] = ()) -> None:
        self._agents_dir = host_dir_of(environ) / "agents"
        self._prices = Prices(prices)
        self._meters: dict[str, AgentMeter] = {}
        self._usages: dict[str, Usage] = {}
        self._next = 0

    def look(self, budget: float = BUDGET) -> Mapping[str, Usage]:
        """Return the usage of every agent, by its id; the same object while nothing changes.

        After `budget` CPU seconds the rest keeps its last results until the next look.
        """
        try:
            with os.scandir(self._agents_dir) as entries:
                ids = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        except OSError:
            ids = []
        self._meters = {each: self._meters.get(each) or AgentMeter(self._agents_dir / each) for each in ids}
        began = time.thread_time()
        for number in range(len(ids)):
            meter = self._meters[ids[(self._next + number) % len(ids)]]
            meter.look(self._prices.of)
            while meter.has_more and time.thread_time() - began <= budget:
                meter.look(self._prices.of)
            if time.thread_time() - began > budget:
                self._next = (self._next + number + 1) % len(ids)
                break
        usages = {each: meter.usage for each, meter in self._meters.items() if meter.usage is not None}
        if usages != self._usages:
            self._usages = usages
        return self._usages


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError):
        return _NO_STAMP
    return (status.st_ino, status.st_size, status.st_mtime_ns)
