"""Takes a person's wishes, one by one: each is done, or declined with the reason in the journal.

A wish that cannot be done yet (an agent that is being stopped, and is to be tried again) waits in its file, so that it
outlives this conductor.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, assert_never

from selftest_core.run.conduct.context import evidence_of
from selftest_core.run.conduct.unexpected import is_fatal
from selftest_core.run.events import RUNNING, End, Event, Phase
from selftest_core.run.store import WishKind

if TYPE_CHECKING:
    from selftest_core.run.conduct.context import Duty
    from selftest_core.run.fold import RunRow
    from selftest_core.run.store import Wish

_LATER = "later"


def take_wishes(duty: Duty) -> None:
    """Do what was wished for. Raises JournalError."""
    for path, wish in duty.folder.wishes():
        try:
            said = _take(duty, wish)
        except Exception as error:
            if is_fatal(error):
                raise
            said = evidence_of(error)
        if said == _LATER:
            continue
        if said:
            duty.note(Event.DECLINED, wish=str(wish.kind), test=wish.test[:200], says=said)
        with suppress(OSError):
            path.unlink()


def _take(duty: Duty, wish: Wish) -> str:
    """Why it is declined, `_LATER` where it has to wait, empty where it is done."""
    run = duty.run
    match wish.kind:
        case WishKind.PAUSE:
            if run.paused:
                return f"it is paused already: {run.paused}"
            duty.note(Event.PAUSED, reason="as asked", by="person", signature="")
        case WishKind.GO:
            # Said at each resume, so that it is no news where nothing rests.
            if run.paused or run.is_halted:
                duty.note(Event.RESUMED)
        case WishKind.STOP:
            if not run.is_halted:
                duty.note(Event.HALTED)
        case WishKind.STOP_ONE | WishKind.SKIP | WishKind.RETRY:
            row = run.rows.get(wish.test)
            if row is None:
                return "there is no such test in this run"
            return _retry(duty, row) if wish.kind is WishKind.RETRY else _stop_one(duty, row)
        case _:
            assert_never(wish.kind)
    return ""


def _stop_one(duty: Duty, row: RunRow) -> str:
    """One that waits is skipped, one that runs is stopped: a person means the same by both."""
    if row.phase is Phase.WAITING and row.name not in duty.work.busy:
        end = End.STOPPED if row.retries else End.NOT_STARTED
        duty.note_row(Event.ENDED, row, end=end, stage="launch", text="skipped as asked", signature="")
        duty.asked_to_stop.discard(row.name)
        return ""
    if row.phase is Phase.WAITING or row.phase in RUNNING:
        duty.asked_to_stop.add(row.name)
        return _LATER  # kept until it has stopped: this conductor may end before
    if row.name in duty.asked_to_stop:
        duty.asked_to_stop.discard(row.name)
        return ""
    return "it has ended already"


def _retry(duty: Duty, row: RunRow) -> str:
    if row.phase is Phase.STOPPING or (row.phase is Phase.ENDED and duty.run.is_halted and not duty.run.is_over):
        return _LATER
    if row.phase is not Phase.ENDED:
        return "it has not ended yet"
    if duty.run.is_halted:
        duty.note(Event.RESUMED)
    duty.asked_to_stop.discard(row.name)
    duty.note_row(Event.RETRYING, row, reason="asked", text="as asked")
    return ""
