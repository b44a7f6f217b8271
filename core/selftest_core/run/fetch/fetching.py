"""One fetch of an agent's results: copied into staging, checked, its branch taken, then renamed into place.

A fetch is done once: an attempt's folder that exists (the conductor was killed right after the rename) is only read.
What an incomplete fetch brought is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, ToolError, describe_error, describe_unexpected
from selftest_core.frozen import dataclass
from selftest_core.run.fetch.bundles import Taken, UnusableBundleError
from selftest_core.run.fetch.conversations import Conversation, keep_conversation
from selftest_core.run.fetch.received_files import SCREEN, receive

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.conversation.claude_transcript import ApiError
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.crew.crew import Crew
    from selftest_core.run.fetch.bundles import Bundles
    from selftest_core.run.fold import Member
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.store import RunFolder

_LONGEST_SCREEN = 64 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_LEAST_FREE = 1024 * 1024
NOTHING_TAKEN = Taken()


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch. `reason`: why a file that is there is no outcome. `failure`: why the fetch failed.

    `screen`: the agent's last screen, only if it is given up without an outcome. `error`: the API error that its
    conversation ended with.
    """

    outcome: Outcome | None = None
    taken: Taken = NOTHING_TAKEN
    reason: str = ""
    failure: str = ""
    screen: str = ""
    error: ApiError | None = None


class OwnDiskError(SelftestError):
    """This machine's disk is full: no fault of any agent, so the conductor leaves and the run can be resumed."""

    exit_status = 3


def refuse_own_disk(error: Exception, *places: Path | None) -> None:
    """Raise OwnDiskError if our own full disk caused this error, so that no agent is blamed."""
    is_own = isinstance(error, OSError) and error.errno in _FULL
    is_full = isinstance(error, ToolError) and any(_is_full(place) for place in places if place is not None)
    if is_own or is_full:
        hint = "Free some space, then `selftest-tui resume`: nothing is lost."
        raise OwnDiskError("The disk of this machine is full", describe_error(error), hint) from error


def _is_full(place: Path) -> bool:
    try:
        return shutil.disk_usage(place).free < _LEAST_FREE
    except OSError:
        return False


async def fetch(
    member: Member, crew: Crew, folder: RunFolder, bundles: Bundles, policy: Policy, *, is_last: bool
) -> Fetched:
    """Fetch what the agent left; keep it if it has a complete outcome, or where this `is_last`.

    Errors of the agent or of mngr become `failure`. Raises OwnDiskError.
    """
    staging: Path | None = None
    try:
        place = folder.attempt(member)
        if place.is_dir():
            return await _check(place, member, bundles)
        staging = folder.make_staging(member)
        async with asyncio.timeout(policy.pull_deadline):
            await crew.pull(member, staging)
        fetched = await _check(staging, member, bundles)
        if not fetched.failure and (is_last or (fetched.outcome is not None and not fetched.reason)):
            if fetched.outcome is None:
                fetched = await _with_screen(fetched, member, crew, staging, policy)
            conversation = await _conversation(member, crew, policy)
            keep_conversation(staging, conversation)
            folder.put_in_place(staging, member)
            fetched = replace(fetched, error=conversation.error)
        return fetched
    except TimeoutError:
        return Fetched(failure=f"it could not be fetched within {policy.pull_deadline:g} s")
    except Exception as error:
        refuse_own_disk(error, folder.path, staging)
        is_known = isinstance(error, ToolError | OSError | ValueError)
        return Fetched(failure=describe_error(error) if is_known else describe_unexpected(error))
    finally:
        if staging is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(staging, ignore_errors=True)


async def _check(folder: Path, member: Member, bundles: Bundles) -> Fetched:
    arrival = receive(folder)
    taken, reason, failure = NOTHING_TAKEN, arrival.reason, ""
    if arrival.bundle is not None:
        try:
            taken = await bundles.take(arrival.bundle, member)
        except UnusableBundleError as error:
            reason = reason or describe_error(error)
        except SelftestError as error:
            failure = describe_error(error)
    screen = folder / SCREEN
    text = screen.read_text(encoding="utf-8", errors="replace") if screen.is_file() else ""
    return Fetched(arrival.outcome, taken, reason, failure, text[-_LONGEST_SCREEN:])


async def _conversation(member: Member, crew: Crew, policy: Policy) -> Conversation:
    """Get the agent's conversation. Its failure never fails the fetch."""
    try:
        async with asyncio.timeout(policy.conversation_deadline):
            return await crew.conversation(member)
    except TimeoutError:
        return Conversation(missing=f"it could not be fetched within {policy.conversation_deadline:g} s")
    except ToolError as error:
        return Conversation(missing=describe_error(error))
    except Exception as error:
        refuse_own_disk(error)
        return Conversation(missing=describe_unexpected(error))


async def _with_screen(fetched: Fetched, member: Member, crew: Crew, staging: Path, policy: Policy) -> Fetched:
    try:
        async with asyncio.timeout(policy.screen_deadline):
            screen = (await crew.screens((member,))).get(member.agent_id, "")
    except (ToolError, TimeoutError):
        screen = ""
    if screen:
        (staging / SCREEN).write_text(screen[-_LONGEST_SCREEN:], encoding="utf-8", errors="replace")
    return Fetched(fetched.outcome, fetched.taken, fetched.reason, fetched.failure, screen[-_LONGEST_SCREEN:])
