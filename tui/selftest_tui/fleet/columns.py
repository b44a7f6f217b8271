"""The columns of the agents table. Pure.

Tokens and cost join once an agent is metered, the run once agents of two runs are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.observations import TmuxSession
from selftest_core.fleet.view import Row
from selftest_tui.shared import present
from selftest_tui.shared.widgets.columns import Column, Columns

if TYPE_CHECKING:
    from collections.abc import Callable

type Line = Row | TmuxSession
"""An agent, or a tmux session of no agent."""


def _text(
    of_row: Callable[[Row, float], str], of_session: Callable[[TmuxSession, float], str] = lambda session, now: ""
) -> Callable[[Line, float], str]:
    def text(line: Line, now: float) -> str:
        return of_session(line, now) if isinstance(line, TmuxSession) else of_row(line, now)

    return text


def _amount(
    of_row: Callable[[Row, float], float | None],
    of_session: Callable[[TmuxSession, float], float | None] = lambda session, now: None,
) -> Callable[[Line, float], float | None]:
    def amount(line: Line, now: float) -> float | None:
        return of_session(line, now) if isinstance(line, TmuxSession) else of_row(line, now)

    return amount


def _session_reason(session: TmuxSession, now: float) -> str:
    windows = present.plural(session.windows, "window")
    return f"attached · {windows}" if session.attached else windows


def _session_command(session: TmuxSession, now: float) -> str:
    return session.command or session.title


NAME: Column[Line] = Column("name", "agent", 16, lambda line, now: present.line_name(line), good=30, most=64)
DOING: Column[Line] = Column(
    "doing", "test / branch", 13, _text(lambda row, now: present.test_or_branch(row.agent), _session_command),
    good=28, most=64, drops=1, cuts_left=True,
    short=_text(lambda row, now: present.test_or_branch(row.agent).rpartition("::")[2], _session_command),
    short_below=21,
)  # fmt: skip
BRANCH: Column[Line] = Column(
    "branch", "branch", 16, _text(lambda row, now: (row.agent.branch or "") if row.agent.test else ""),
    good=28, joins=5, cuts_left=True,
)  # fmt: skip
TYPE: Column[Line] = Column(
    "type", "type", 6, _text(lambda row, now: row.agent.type, lambda session, now: "tmux"), good=10, most=16, joins=4
)
RUN: Column[Line] = Column(
    "run", "run", 10, _text(lambda row, now: row.agent.run or ""), good=18, most=18, joins=3, cuts_left=True
)
HOST: Column[Line] = Column(
    "host", "host", 8,
    _text(
        lambda row, now: present.host_name(row.agent), lambda session, now: session.ref.socket.rpartition("/")[2]
    ),
    good=12, most=30, drops=3,
    short=_text(
        lambda row, now: present.host_name(row.agent, with_provider=False),
        lambda session, now: session.ref.socket.rpartition("/")[2],
    ),
    short_below=14,
)  # fmt: skip
RUNNING: Column[Line] = Column(
    "running", "runs", 6,
    _text(present.running_for, lambda session, now: present.duration(now - session.created_at)),
    drops=2, is_number=True, is_timed=True,
    amount=_amount(present.seconds_running, lambda session, now: now - session.created_at),
)  # fmt: skip
IDLE: Column[Line] = Column(
    "idle", "idle", 6, _text(present.idle_for, lambda session, now: present.duration(now - session.activity_at)),
    drops=4, is_number=True, is_timed=True,
    amount=_amount(present.seconds_idle, lambda session, now: now - session.activity_at),
)  # fmt: skip
TOKENS: Column[Line] = Column(
    "tokens", "tokens", 6, _text(lambda row, now: present.tokens(row.usage.tokens) if row.usage else ""),
    joins=2, waits=True, is_number=True, amount=_amount(lambda row, now: row.usage.tokens if row.usage else None),
)  # fmt: skip
COST: Column[Line] = Column(
    "cost",
    "cost",
    8,
    _text(lambda row, now: present.cost(row.usage)),
    joins=1,
    waits=True,
    is_number=True,
    amount=_amount(lambda row, now: row.usage.usd if row.usage else None),
)
REASON: Column[Line] = Column(
    "reason", "why", 14, _text(present.reason, _session_reason), good=24, fills=True, is_timed=True
)
TITLE: Column[Line] = Column(
    "title", "terminal title", 14, _text(lambda row, now: row.title, lambda session, now: session.title),
    good=24, most=40, joins=7,
)  # fmt: skip
PROJECT: Column[Line] = Column(
    "project", "project", 7, _text(lambda row, now: row.agent.project or ""), good=12, most=24, joins=6
)
WORK_DIR: Column[Line] = Column(
    "work dir", "work dir", 16, _text(lambda row, now: row.agent.work_dir), good=30, joins=8, cuts_left=True
)

COLUMNS: Columns[Line] = Columns(
    "fleet", 4,
    (NAME, DOING, BRANCH, TYPE, RUN, HOST, RUNNING, IDLE, TOKENS, COST, REASON, TITLE, PROJECT, WORK_DIR),
)  # fmt: skip
"""All columns, in their order."""
