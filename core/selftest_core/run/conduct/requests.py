"""Requests of a user to the conductor: each is done, or declined with the reason in the journal.

A request that cannot be done yet (retry an agent that is being stopped) keeps its file, so it outlives this conductor.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, assert_never

from selftest_core.errors import describe_unexpected
from selftest_core.run.answer.handling import LATER, handle_answer
from selftest_core.run.conduct.context import shorten
from selftest_core.run.conduct.unexpected import is_fatal
from selftest_core.run.events import RUNNING, Event, Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RequestKind

if TYPE_CHECKING:
    from selftest_core.run.conduct.context import Context
    from selftest_core.run.fold import RunRow
    from selftest_core.run.store import RunRequest


def handle_requests(context: Context) -> None:
    """Handle the waiting requests. Raises JournalError."""
    for path, request in context.folder.requests():
        try:
            reason = _handle(context, request)
        except Exception as error:
            if is_fatal(error):
                raise
            reason = describe_unexpected(error)
        if reason == LATER:
            continue
        if reason:
            is_answer = request.kind is RequestKind.ANSWER
            text = {"text": shorten(request.text), "id": request.id[:80]} if is_answer else {}
            context.note(Event.DECLINED, wish=str(request.kind), test=request.test[:200], says=reason, **text)
        with suppress(OSError):
            path.unlink()


def _handle(context: Context, request: RunRequest) -> str:
    """Handle one; return the reason why it is declined, `LATER` where it must wait, empty if it is done."""
    run = context.run
    match request.kind:
        case RequestKind.PAUSE:
            if run.paused:
                return f"it is already paused: {run.paused}"
            context.note(Event.PAUSED, reason="on request", by="person", signature="")
        case RequestKind.GO:
            # Sent with every resume, so there may be nothing to resume.
            if run.paused or run.is_halted:
                context.note(Event.RESUMED)
        case RequestKind.STOP:
            if not run.is_halted:
                context.note(Event.HALTED)
        case RequestKind.STOP_ONE | RequestKind.SKIP | RequestKind.RETRY | RequestKind.ANSWER:
            row = run.rows.get(request.test)
            if row is None:
                return "there is no such test in this run"
            if request.kind is RequestKind.ANSWER:
                return handle_answer(context, row, request)
            return _retry(context, row) if request.kind is RequestKind.RETRY else _stop_one(context, row)
        case _:
            assert_never(request.kind)
    return ""


def _stop_one(context: Context, row: RunRow) -> str:
    """Skip a waiting test or stop a running one: both requests mean the same."""
    if row.phase is Phase.WAITING and row.name not in context.tasks.busy:
        end = End.STOPPED if row.retries else End.NOT_STARTED
        context.note_row(Event.ENDED, row, end=end, stage="launch", text="it was skipped on request", signature="")
        context.asked_to_stop.discard(row.name)
        return ""
    if row.phase is Phase.WAITING or row.phase in RUNNING:
        context.asked_to_stop.add(row.name)
        return LATER  # the request stays until the agent has stopped: this conductor may end before that
    if row.name in context.asked_to_stop:
        context.asked_to_stop.discard(row.name)
        return ""
    return "it has already ended"


def _retry(context: Context, row: RunRow) -> str:
    if row.phase is Phase.STOPPING or (row.phase is Phase.ENDED and context.run.is_halted and not context.run.is_over):
        return LATER
    if row.phase is not Phase.ENDED:
        return "it has not ended yet"
    if context.run.is_halted:
        context.note(Event.RESUMED)
    context.asked_to_stop.discard(row.name)
    context.note_row(Event.RETRYING, row, reason="asked", text="on request")
    return ""
