"""Handling of answers by the conductor: an agent that waits is told, one that has ended goes on in a new attempt.

The line `answered` is on the disk, with the id of its request, before anything is done. So an answer whose request is
found again after a kill is not taken twice, and one that was cut off is looked up in the agent's transcript first.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from selftest_core.errors import ToolError, ToolFailedError, UsageError, describe_error, describe_unexpected
from selftest_core.run.answer.answer import clean_answer
from selftest_core.run.conduct.context import LONGEST_TEXT, shorten
from selftest_core.run.crew.crew import OUTCOME, Delivery
from selftest_core.run.events import Event, Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.outcome.outcome_file import UnreadableOutcomeError, parse_outcome

if TYPE_CHECKING:
    from selftest_core.run.conduct.context import Context
    from selftest_core.run.fold import RunRow
    from selftest_core.run.store import RunRequest

LATER = "later"
"""Returned for a request that must wait."""
_UNSURE = "the conductor ended while it was being sent"


def handle_answer(context: Context, row: RunRow, request: RunRequest) -> str:
    """Take an answer; return the reason why it is declined, `LATER` where it must wait, empty if it is taken."""
    if request.id in row.answered:
        return ""  # taken by a conductor that was killed before it removed the request
    try:
        text = clean_answer(request.text)
    except UsageError as error:
        return str(error)
    if request.attempt not in (0, row.attempt) and row.answer is None:
        return f"it was tried again meanwhile: attempt {row.attempt} has not asked this"
    match row.phase:
        case Phase.WAITING if row.answer is None:
            return "it has no agent yet that could have asked"
        case Phase.WAITING:  # a second answer, before the attempt that gets both has begun
            _note(context, row, request.id, text)
            return ""
        case Phase.LAUNCHING | Phase.PULLING | Phase.STOPPING:
            return LATER
        case Phase.WORKING:
            return _answer_running(context, row, request.id, text)
        case Phase.ENDED:
            return _answer_ended(context, row, request.id, text)


def tell(context: Context, row: RunRow, *, is_again: bool = False) -> None:
    """Start to send the answer of a row whose agent runs. `is_again`: an ended conductor may have sent it."""
    context.tasks.start(_tell(context, row, is_again=is_again), "sending an answer", row.name)


def _answer_running(context: Context, row: RunRow, key: str, text: str) -> str:
    if context.plan.agent_type == "command":
        first = "another answer came first, and " if row.answer is not None else ""
        return f"{first}it works: a command agent gets an answer when it has ended"
    if row.name in context.tasks.busy or row.telling is not None:
        return LATER
    tell(context, _note(context, row, key, text))
    return ""


def _answer_ended(context: Context, row: RunRow, key: str, text: str) -> str:
    if row.member is None or row.launched_at is None:
        return "it had no agent that could have asked: try it again instead"
    if row.name in context.tasks.busy or (context.run.is_halted and not context.run.is_over):
        return LATER
    if context.run.is_halted:
        context.note(Event.RESUMED)
    context.asked_to_stop.discard(row.name)
    # A command agent has no conversation that could go on.
    goes_on = context.plan.agent_type != "command" and bool(row.member.host_id) and row.end is not End.LAUNCH
    _note(context, row, key, text, asked=_asked(context, row), **({"continues": True} if goes_on else {}))
    return ""


def _note(context: Context, row: RunRow, key: str, text: str, **fields: Any) -> RunRow:
    return context.note_row(Event.ANSWERED, row, id=key, text=text, **fields)


def _asked(context: Context, row: RunRow) -> str:
    """Return what the agent reported to a person, with all details; else the text with which it ended."""
    told = row.text
    if row.member is not None:
        with suppress(OSError, UnreadableOutcomeError):
            outcome = parse_outcome((context.folder.attempt(row.member) / OUTCOME).read_bytes())
            reports = ("\n".join(filter(None, (one.title, one.detail))) for one in outcome.escalations)
            told = "\n\n".join((*reports, outcome.summary)) or told
    return shorten(told[:LONGEST_TEXT])


async def _tell(context: Context, row: RunRow, *, is_again: bool) -> None:
    answer, member = row.telling, row.member
    assert answer is not None, "the caller has noted the answer"
    assert member is not None, "a running test has an agent"
    failure = ""
    if is_again:
        match await context.check_delivery(member, answer.text):
            case Delivery.YES:
                context.note_row(Event.TOLD, row, id=answer.id, says="")
                return
            case Delivery.PENDING:
                context.pause(row, context.policy.prompt_pause)
                return
            case Delivery.UNKNOWN:
                failure = f"{_UNSURE}: look at the agent before you send it again"
            case Delivery.NO:
                pass
    if not failure:
        failure = await _send(context, row, answer.text)
    context.note_row(Event.TOLD, row, id=answer.id, says=shorten(failure))
    if failure:
        context.note(
            Event.DECLINED, wish="answer", test=row.name, says=shorten(failure), text=answer.text, id=answer.id
        )


async def _send(context: Context, row: RunRow, text: str) -> str:
    """Send it; return why it did not arrive, or may not have."""
    assert row.member is not None, "a running test has an agent"
    too_late = f"no confirmation after {context.policy.prompt_deadline:g} s"
    try:
        async with asyncio.timeout(context.policy.prompt_deadline):
            await context.crew.send(row.member, text)
    except ToolFailedError as error:
        return describe_error(error)
    except (ToolError, TimeoutError) as error:
        return f"{describe_error(error, too_late)}; it may have arrived: look at the agent before you send it again"
    except Exception as error:
        return describe_unexpected(error)
    return ""
