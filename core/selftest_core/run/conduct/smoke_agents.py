"""Smoke agents at work: one on each place at the same time; where one fails, no other agent is launched.

Each is made, gets its prompt, writes an outcome with its nonce, is fetched from, and stopped. A smoke agent that an
earlier conductor left is stopped, and another one is made.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, describe_error, describe_unexpected
from selftest_core.run.conduct.context import shorten
from selftest_core.run.conduct.requests import handle_requests
from selftest_core.run.conduct.unexpected import is_fatal
from selftest_core.run.crew.crew import PRESENT, Delivery, Life
from selftest_core.run.events import Event
from selftest_core.run.fetch.fetching import fetch, refuse_own_disk
from selftest_core.run.fold import Member
from selftest_core.run.plan.prompt import PROMPT_LINE
from selftest_core.run.smoke import nonce_of, smoke_of, unproven_places
from selftest_core.usage.tokens import as_fields

if TYPE_CHECKING:
    from selftest_core.run.conduct.context import Context
    from selftest_core.run.smoke import Smoke

_SCREEN_LINES = 12
_ENDED = {
    Life.EXITED: "its program ended",
    Life.STOPPED: "it was stopped by someone else",
    Life.ABSENT: "it was destroyed by someone else",
    Life.LOST: "its host is gone",
}
ASKED_TO_STOP = "it was stopped on request"


class SmokeAgents:
    """Runs the smoke agents before the first launch."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> bool:
        """Prove every place that is not proven yet; False if one failed. Raises fatal errors."""
        context = self._context
        if context.run.is_over or context.run.is_halted:
            return True
        places = unproven_places(context.plan, context.run.smoke)
        tasks = [asyncio.ensure_future(self._prove(place)) for place in places]
        try:
            return all(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _prove(self, place: str) -> bool:
        context = self._context
        before = [one for one in context.run.smoke if one.place == place]
        if before and before[-1].is_ok is None:
            await self._clean_up(_member(before[-1]))
        smoke = smoke_of(context.plan, place, len(before) + 1)
        context.note(
            Event.SMOKING, place=place, type=smoke.agent_type, number=smoke.number, agent_id=smoke.agent_id,
            name=smoke.name,
        )  # fmt: skip
        began = context.clock.elapsed()
        try:
            failure = await self._try(_member(smoke))
        except Exception as error:
            failure = self._describe(error)
        seconds = round(context.clock.elapsed() - began, 3)
        usage = await context.usage_of(_member(smoke))
        used = {} if usage is None else {"usage": as_fields(usage)}
        context.note(
            Event.SMOKED, place=place, number=smoke.number, ok=not failure, seconds=seconds, says=shorten(failure),
            **used,
        )  # fmt: skip
        return not failure

    async def _try(self, member: Member) -> str:
        """Go through all steps with one agent; return why it failed, empty for success."""
        context, policy = self._context, self._context.policy
        try:
            async with asyncio.timeout(policy.create_deadline):
                seen = await context.crew.create(member)
        except Exception as error:
            failure = self._describe(error, f"it was not created within {policy.create_deadline:g} s")
            await self._clean_up(member)
            return failure
        member = replace(member, host_id=seen.host_id, provider=seen.provider)
        try:
            failure = await self._prompt(member) or await self._wait_for_outcome(member)
            if failure and failure != ASKED_TO_STOP:
                failure = "\n".join(part for part in (failure, await self._evidence(member)) if part)
        except Exception as error:
            failure = self._describe(error)
        await context.stop(member)  # `sweep` finds an agent that does not stop
        return failure

    def _describe(self, error: Exception, too_late: str = "") -> str:
        """Say what failed. Raises the error where it ends the run."""
        if is_fatal(error):
            raise error
        refuse_own_disk(error, self._context.folder.path)
        is_known = too_late and isinstance(error, ToolError | TimeoutError)
        return describe_error(error, too_late) if is_known else describe_unexpected(error)

    async def _prompt(self, member: Member) -> str:
        policy = self._context.policy
        try:
            async with asyncio.timeout(policy.prompt_deadline):
                await self._context.crew.send(member, PROMPT_LINE)
        except (ToolError, TimeoutError) as error:
            if await self._context.check_delivery(member, PROMPT_LINE) is not Delivery.YES:
                too_late = f"not within {policy.prompt_deadline:g} s"
                return f"it did not get its prompt: {describe_error(error, too_late)}"
        return ""

    async def _wait_for_outcome(self, member: Member) -> str:
        """Wait for the outcome; return why none came, empty for success."""
        context, policy = self._context, self._context.policy
        end = context.clock.elapsed() + policy.smoke_deadline
        idle_since: float | None = None
        failure = ""
        while context.clock.elapsed() < end:
            await context.clock.sleep(policy.poll)
            handle_requests(context)
            if context.run.is_halted:
                return ASKED_TO_STOP
            seen = await self._context.look_at(member)
            if seen.outcome:
                fetched = await fetch(member, context.crew, context.folder, context.bundles, policy, is_last=False)
                failure = fetched.failure or fetched.reason
                if fetched.outcome is not None:
                    is_right = nonce_of(member.agent_id) in fetched.outcome.summary
                    return "" if is_right else "its outcome is not the one that its prompt asked for"
            elif seen.life in _ENDED:
                return f"{_ENDED[seen.life]} without an outcome"
            elif seen.life is Life.ASKS:
                return "a dialog blocks it, or it asks a question"
            elif seen.life is not Life.TURN_ENDED:
                idle_since = None
            elif idle_since is None:
                idle_since = context.clock.elapsed()
            elif context.clock.elapsed() - idle_since >= policy.smoke_idle:
                return "it ended its turn without an outcome"
        return f"it wrote no outcome within {policy.smoke_deadline:g} s{f': {failure}' if failure else ''}"

    async def _evidence(self, member: Member) -> str:
        """Return the last error of its conversation and the end of its screen."""
        context = self._context
        error = screen = ""
        try:
            async with asyncio.timeout(context.policy.screen_deadline):
                found = (await context.crew.conversation(member)).error
                error = found.text if found is not None else ""
                screen = (await context.crew.screens((member,))).get(member.agent_id, "")
        except (ToolError, TimeoutError):
            pass  # the failure itself is known
        lines = [line.rstrip() for line in screen.splitlines() if line.strip()][-_SCREEN_LINES:]
        return "\n".join(part for part in (error, *(f"  | {line}" for line in lines)) if part)

    async def _clean_up(self, member: Member) -> None:
        """Stop an agent whose creation or work was cut off, once it is known whether it is there."""
        context = self._context
        end = context.clock.elapsed() + context.policy.create_deadline
        while (seen := await self._context.look_at(member)).life is Life.UNSEEN and context.clock.elapsed() < end:
            await context.clock.sleep(context.policy.poll)
        if seen.life in PRESENT:
            await context.stop(replace(member, host_id=seen.host_id, provider=seen.provider))


def _member(smoke: Smoke) -> Member:
    return Member(smoke.name, "", smoke.number, smoke.agent_id, smoke.name)
