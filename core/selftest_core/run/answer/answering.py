"""Answering as a person sees it: which tests can be answered, which ask the same, and the requests. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from selftest_core.agent_types.condition import ASKING
from selftest_core.run.events import Phase
from selftest_core.run.store import RequestKind, RunRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.run.fold import Run, RunRow


def answer_disabled_reason(run: Run, row: RunRow) -> str:
    """Return why the agent of this test cannot be answered now; empty if it can."""
    is_command = run.plan.agent_type == "command"
    match row.phase:
        case Phase.WAITING if row.answer is not None:
            return ""
        case Phase.WAITING:
            return "it has no agent yet"
        case Phase.LAUNCHING:
            return "" if row.answer is not None and not is_command else "its agent is being launched"
        case Phase.WORKING | Phase.PULLING if is_command:
            return "a command agent gets an answer when it has ended"
        case Phase.WORKING | Phase.PULLING | Phase.STOPPING:
            return ""
        case Phase.ENDED:
            return "" if row.launched_at is not None else "it had no agent that could have asked"


def question_of(row: RunRow) -> str:
    """Return what the agent asks now, or what it ended with; untrusted."""
    return row.text if row.end is not None else row.attention


def question_key(row: RunRow) -> tuple[str, str] | None:
    """Return a key that is equal for tests that one answer fits; None for one that asks nothing.

    Reports are compared by their signature. A dialog is compared word by word: the number in it may be what it asks.
    """
    if row.end is not None:
        return (row.stage, row.signature) if row.end.group.is_clustered else None
    if not row.attention:
        return None
    from selftest_core.fleet.clusters import signature

    return ("dialog", row.attention) if row.asks in ASKING else ("waiting", signature(row.attention))


def asking_alike(run: Run, row: RunRow) -> tuple[RunRow, ...]:
    """List the tests that ask the same as this one, itself first."""
    key = question_key(row)
    others = () if key is None else (one for one in run.rows.values() if one is not row and question_key(one) == key)
    return (row, *others)


def answer_requests(rows: Iterable[RunRow], text: str) -> tuple[RunRequest, ...]:
    """Make the requests that answer these tests, each with an id of its own."""
    return tuple(RunRequest(RequestKind.ANSWER, row.name, text, row.attempt, uuid4().hex) for row in rows)
