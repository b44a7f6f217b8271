"""The columns of the agents table: which fit into a width, how wide each is, and what a line has in them. Pure.

Widths depend on the width of the table, never on what is in it, so that nothing moves when the fleet changes. The one
exception: tokens and cost have columns once an agent is metered, where there is room beside the others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from selftest_core.fleet.observations import TmuxSession
from selftest_core.frozen import dataclass
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.fleet.view import Row

ROOMY = 84
"""Cells from which columns are two apart rather than one."""
PREFIX = 4
"""Cells before the first column: mark, indent, symbol, space."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `least` cells at any width, `good` cells before others may join, `share` of what is then left.

    A text that is too long loses its end, or its beginning with `cuts_left`; numbers are aligned on the right. Below
    `short_below` cells the whole column says `short`, so that all its lines say the same kind of thing.
    """

    name: str
    title: str
    least: int
    good: int
    share: int
    text: Callable[[Row, float], str]
    of_session: Callable[[TmuxSession, float], str] = lambda session, now: ""
    short: Callable[[Row], str] | None = None
    short_below: int = 0
    is_number: bool = False
    cuts_left: bool = False
    is_timed: bool = False

    def cell(self, line: Row | TmuxSession, now: float, width: int) -> str:
        """What `line` has here, in exactly `width` cells, harmless."""
        if isinstance(line, TmuxSession):
            text = self.of_session(line, now)
        else:
            text = self.short(line) if self.short is not None and width < self.short_below else self.text(line, now)
        if self.is_number:
            return present.fit_right(text, width)
        return present.fit_end(text, width) if self.cuts_left else present.fit(text, width)

    def heading(self, width: int) -> str:
        """Its title, aligned as its cells are."""
        return present.fit_right(self.title, width) if self.is_number else present.fit(self.title, width)


def _session_doing(session: TmuxSession, now: float) -> str:
    return session.command or session.title


def _session_reason(session: TmuxSession, now: float) -> str:
    windows = present.plural(session.windows, "window")
    return f"attached · {windows}" if session.attached else windows


NAME = Column(
    "name", "agent", 19, 26, 3, lambda row, now: present.line_name(row), lambda session, now: present.line_name(session)
)
DOING = Column(
    "doing", "test / branch", 13, 28, 4, lambda row, now: present.test_or_branch(row.agent), _session_doing,
    lambda row: present.test_or_branch(row.agent).rpartition("::")[2], 21, cuts_left=True,
)  # fmt: skip
HOST = Column(
    "host", "host", 8, 18, 0, lambda row, now: present.host_name(row.agent),
    lambda session, now: session.ref.socket.rpartition("/")[2],
    lambda row: present.host_name(row.agent, with_provider=False), 14,
)  # fmt: skip
RUNNING = Column(
    "running", "runs", 6, 6, 0, present.running_for,
    lambda session, now: present.duration(now - session.created_at), is_number=True, is_timed=True,
)  # fmt: skip
IDLE = Column(
    "idle", "idle", 6, 6, 0, present.idle_for,
    lambda session, now: present.duration(now - session.activity_at), is_number=True, is_timed=True,
)  # fmt: skip
REASON = Column("reason", "why", 14, 28, 3, present.reason, _session_reason, is_timed=True)
DROPPED_FIRST = (DOING, RUNNING, HOST, IDLE)
"""What goes where even the least widths do not fit."""
ALWAYS = (NAME, DOING, HOST, RUNNING, IDLE, REASON)

TYPE = Column("type", "type", 8, 10, 0, lambda row, now: row.agent.type, lambda session, now: "tmux")
BRANCH = Column(
    "branch", "branch", 16, 28, 2, lambda row, now: (row.agent.branch or "") if row.agent.test else "", cuts_left=True
)
RUN = Column("run", "run", 10, 14, 0, lambda row, now: row.agent.run or "")
PROJECT = Column("project", "project", 8, 12, 0, lambda row, now: row.agent.project or "")
TITLE = Column(
    "title", "terminal title", 14, 24, 2, lambda row, now: row.title, lambda session, now: session.title
)  # fmt: skip
WORK_DIR = Column("work dir", "works in", 16, 30, 2, lambda row, now: row.agent.work_dir, cuts_left=True)
COST = Column("cost", "cost", 8, 8, 0, lambda row, now: present.cost(row.usage), is_number=True)
TOKENS = Column(
    "tokens", "tokens", 6, 6, 0, lambda row, now: present.tokens(row.usage.tokens) if row.usage else "", is_number=True
)
METERED = (COST, TOKENS)
"""What joins when there is room and an agent is metered, before all others."""
IN_WIDE = (TYPE, BRANCH, RUN, PROJECT, TITLE, WORK_DIR)
"""What joins when there is room, most wanted first."""

_ORDER = (
    "name", "doing", "branch", "type", "host", "running", "idle", "tokens", "cost", "reason", "title", "run", "project",
    "work dir",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placed:
    """A column at its place: `x` cells from the left edge of the table, `width` cells wide, `gap` cells after it."""

    column: Column
    x: int
    width: int
    gap: int


@lru_cache(maxsize=64)
def place(width: int, *, is_metered: bool = False) -> tuple[Placed, ...]:
    """The columns of a table `width` cells wide; together with the prefix and the gaps they fill it.

    `is_metered`: what some agent used is known.
    """
    chosen = list(ALWAYS)
    gap = 2 if width >= ROOMY else 1
    room = width - PREFIX
    for column in DROPPED_FIRST:
        if sum(one.least + gap for one in chosen) > room:
            chosen.remove(column)
    for column in (*(METERED if is_metered else ()), *IN_WIDE):
        if sum(one.good + gap for one in [*chosen, column]) <= room:
            chosen.append(column)
    chosen.sort(key=lambda column: _ORDER.index(column.name))
    widths = share_out(chosen, room - gap * len(chosen))
    placed, x = [], PREFIX
    for column, cells in zip(chosen, widths, strict=True):
        placed.append(Placed(column, x, cells, gap))
        x += cells + gap
    return tuple(placed)


class Sized(Protocol):
    """What a column says about its width."""

    @property
    def least(self) -> int: ...
    @property
    def good(self) -> int: ...
    @property
    def share(self) -> int: ...


def share_out(columns: Sequence[Sized], room: int) -> list[int]:
    """The widths: `least` for all, then towards `good` in proportion, then by `share`."""
    widths = [column.least for column in columns]
    spare = room - sum(widths)
    for goals in ([column.good - column.least for column in columns], None):
        weights = goals if goals is not None else [column.share for column in columns]
        total = sum(weights)
        if spare <= 0 or total == 0:
            continue
        given = min(spare, total) if goals is not None else spare
        parts = [given * weight // total for weight in weights]
        parts[weights.index(max(weights))] += given - sum(parts)
        widths = [width + part for width, part in zip(widths, parts, strict=True)]
        spare -= given
    return widths
