"""The columns of a run's tests. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.run.events import RUNNING
from selftest_core.run.spending import used_by
from selftest_tui.run.lines import file_of, said_of
from selftest_tui.shared import present
from selftest_tui.shared.widgets.columns import Column, Columns

if TYPE_CHECKING:
    from selftest_core.run.fold import RunRow


def test_name(row: RunRow) -> str:
    """The test without the folders before its file; the task of another role as it is."""
    path, separator, name = row.planned.node_id.partition("::")
    return path.rpartition("/")[2] + separator + name if file_of(row) else row.planned.node_id


test_name.__test__ = False  # type: ignore[attr-defined]  # no test of ours, whatever a collector thinks of its name


def running_for(row: RunRow, now: float) -> str:
    """The time from its first launch to its end, or until now; empty before its first agent."""
    if row.launching_at is None:
        return ""
    if row.ended_at is not None:
        return present.duration(row.ended_at - row.launching_at)
    return present.duration(now - row.launching_at) if row.phase in RUNNING else ""


def seconds_running(row: RunRow, now: float) -> float | None:
    """The seconds that `running_for` shows; None where it shows nothing."""
    if row.launching_at is None or not running_for(row, now):
        return None
    return (row.ended_at if row.ended_at is not None else now) - row.launching_at


def _usd(row: RunRow, now: float) -> float | None:
    usage = used_by(row)
    return usage.usd if usage is not None else None


def _host(row: RunRow, now: float) -> str:
    return row.member.provider if row.member is not None else ""


def _attempt(row: RunRow, now: float) -> str:
    return str(row.attempt) if row.attempt > 1 else ""


def _agent(row: RunRow, now: float) -> str:
    return row.member.name if row.member is not None else row.name


TEST: Column[RunRow] = Column("test", "test", 22, lambda row, now: test_name(row), good=36, most=80, cuts_left=True)
SAYS: Column[RunRow] = Column("says", "status", 16, lambda row, now: said_of(row), good=44, fills=True)
ATTEMPT: Column[RunRow] = Column(
    "attempt", "try", 3, _attempt, drops=1, is_number=True, amount=lambda row, now: row.attempt
)
TIME: Column[RunRow] = Column("time", "time", 6, running_for, drops=2, is_number=True, amount=seconds_running)
COST: Column[RunRow] = Column(
    "cost", "cost", 8, lambda row, now: present.cost(used_by(row)), joins=1, waits=True, is_number=True, amount=_usd
)
COMMITS: Column[RunRow] = Column(
    "commits", "commits", 7, lambda row, now: str(row.commits or ""), joins=2, is_number=True,
    amount=lambda row, now: row.commits or None,
)  # fmt: skip
HOST: Column[RunRow] = Column("host", "host", 5, _host, good=14, most=20, joins=3)
AGENT: Column[RunRow] = Column("agent", "agent", 16, _agent, good=32, joins=4)
FILE: Column[RunRow] = Column("file", "file", 12, lambda row, now: file_of(row), good=28, joins=5, cuts_left=True)

COLUMNS: Columns[RunRow] = Columns("run", 4, (TEST, SAYS, ATTEMPT, TIME, COST, COMMITS, HOST, AGENT, FILE))
"""All columns, in their order. Cost joins once a test is metered."""
