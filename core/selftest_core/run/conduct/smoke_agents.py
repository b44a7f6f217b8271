"""Send the smoke agents of a run ahead, one on each place at the same time: where one fails, no other agent is made.

Each is made, gets its prompt, writes an outcome that holds its own word, is fetched from, and stopped. One that an
ended conductor left is stopped, and another one is made.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError
from selftest_core.run.conduct.context import evidence_of, short, words_of
from selftest_core.run.conduct.requests import handle_requests
from selftest_core.run.conduct.unexpected import is_fatal
from selftest_core.run.crew.crew import PRESENT, Heard, Life, Seen
from selftest_core.run.events import Event
from selftest_core.run.fetch.fetching import fetch, refuse_own_disk
from selftest_core.run.fold import Member
from selftest_core.run.plan.prompt import PROMPT_LINE
from selftest_core.run.smoke import nonce_of, smoke_of, still_to_prove
from selftest_core.usage.tokens import as_fields

if TYPE_CHECKING:
    from selftest_core.run.conduct.context import Context
    from selftest_core.run.smoke import Smoke

_UNSEEN = Seen(Life.UNSEEN)
_SCREEN_LINES = 12
_ENDED = {
    Life.EXITED: "its program ended",
    Life.STOPPED: "it was stopped by somebody else",
    Life.ABSENT: "it was destroyed by somebody else",
    Life.LOST: "its host is gone",
}
ASKED_TO_STOP = "it was stopped as asked"


class SmokeAgents:
    """The first step of a run."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> bool:
        """Prove every place that is not proven yet; False where one failed. Raises what ends a run."""
        context = self._context
        if context.run.is_over or context.run.is_halted:
            return True
        places = still_to_prove(context.plan, context.run.smoke)
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
            await self._clear_away(_member(before[-1]))
        smoke = smoke_of(context.plan, place, len(before) + 1)
        context.note(
            Event.SMOKING, place=place, type=smoke.agent_type, number=smoke.number, agent_id=smoke.agent_id,
            name=smoke.name,
        )  # fmt: skip
        began = context.clock.elapsed()
        try:
            says = await self._make(_member(smoke))
        except Exception as error:
            if is_fatal(error):
                raise
            refuse_own_disk(error, context.folder.path)
            says = evidence_of(error)
        seconds = round(context.clock.elapsed() - began, 3)
        usage = await context.usage_of(_member(smoke))
        used = {} if usage is None else {"usage": as_fields(usage)}
        context.note(
            Event.SMOKED, place=place, number=smoke.number, ok=not says, seconds=seconds, says=short(says), **used
        )  # fmt: skip
        return not says

    async def _make(self, member: Member) -> str:
        """Go through all steps; returns why it failed."""
        context, policy = self._context, self._context.policy
        try:
            async with asyncio.timeout(policy.create_deadline):
                seen = await context.crew.create(member)
        except Exception as error:
            if is_fatal(error):
                raise
            refuse_own_disk(error, context.folder.path)
            await self._clear_away(member)
            is_known = isinstance(error, ToolError | TimeoutError)
            too_late = f"it was not made within {policy.create_deadline:g} s"
            return words_of(error, too_late) if is_known else evidence_of(error)
        member = replace(member, host_id=seen.host_id, provider=seen.provider)
        try:
            says = await self._prompt(member) or await self._wait(member)
            if says and says != ASKED_TO_STOP:
                says = "\n".join(part for part in (says, await self._evidence(member)) if part)
        except Exception as error:
            if is_fatal(error):
                raise
            refuse_own_disk(error, context.folder.path)
            says = evidence_of(error)
        await self._stop(member)
        return says

    async def _prompt(self, member: Member) -> str:
        policy = self._context.policy
        try:
            async with asyncio.timeout(policy.prompt_deadline):
                await self._context.crew.say(member, PROMPT_LINE)
        except (ToolError, TimeoutError) as error:
            try:
                async with asyncio.timeout(policy.look_deadline):
                    heard = await self._context.crew.heard(member, PROMPT_LINE)
            except (ToolError, TimeoutError):
                heard = Heard.UNKNOWN
            if heard is not Heard.YES:
                return f"it did not get its prompt: {words_of(error, f'not within {policy.prompt_deadline:g} s')}"
        return ""

    async def _wait(self, member: Member) -> str:
        """Wait for the outcome; returns why none came."""
        context, policy = self._context, self._context.policy
        end = context.clock.elapsed() + policy.smoke_deadline
        idle_since: float | None = None
        failure = ""
        while context.clock.elapsed() < end:
            await context.clock.sleep(policy.poll)
            handle_requests(context)
            if context.run.is_halted:
                return ASKED_TO_STOP
            seen = await self._look(member)
            if seen.outcome:
                got = await fetch(member, context.crew, context.folder, context.bundles, policy, is_last=False)
                failure = got.failure or got.reason
                if got.outcome is not None:
                    is_right = nonce_of(member.agent_id) in got.outcome.summary
                    return "" if is_right else "its outcome is not the one that its prompt asked for"
            elif seen.life in _ENDED:
                return f"{_ENDED[seen.life]} without an outcome"
            elif seen.life is Life.ASKS:
                return "a dialog holds it up, or it asks something"
            elif seen.life is not Life.TURN_ENDED:
                idle_since = None
            elif idle_since is None:
                idle_since = context.clock.elapsed()
            elif context.clock.elapsed() - idle_since >= policy.smoke_idle:
                return "it ended its turn without an outcome"
        return f"it wrote no outcome within {policy.smoke_deadline:g} s{f': {failure}' if failure else ''}"

    async def _evidence(self, member: Member) -> str:
        """The last error of its conversation and the end of its screen."""
        context = self._context
        error = screen = ""
        try:
            async with asyncio.timeout(context.policy.screen_deadline):
                found = (await context.crew.conversation(member)).error
                error = found.text if found is not None else ""
                screen = (await context.crew.screens((member,))).get(member.agent_id, "")
        except (ToolError, TimeoutError):
            pass  # what is known says enough
        lines = [line.rstrip() for line in screen.splitlines() if line.strip()][-_SCREEN_LINES:]
        return "\n".join(part for part in (error, *(f"  | {line}" for line in lines)) if part)

    async def _look(self, member: Member) -> Seen:
        try:
            async with asyncio.timeout(self._context.policy.look_deadline):
                return (await self._context.crew.look((member,))).get(member.agent_id, _UNSEEN)
        except (ToolError, TimeoutError):
            return _UNSEEN
        except Exception as error:
            self._context.work.report(error, "looking at a smoke agent")
            return _UNSEEN

    async def _clear_away(self, member: Member) -> None:
        """Stop an agent whose making or work was cut off, once it is seen whether it is there."""
        context = self._context
        end = context.clock.elapsed() + context.policy.create_deadline
        while (seen := await self._look(member)).life is Life.UNSEEN and context.clock.elapsed() < end:
            await context.clock.sleep(context.policy.poll)
        if seen.life in PRESENT:
            await self._stop(replace(member, host_id=seen.host_id, provider=seen.provider))

    async def _stop(self, member: Member) -> None:
        try:
            async with asyncio.timeout(self._context.policy.stop_deadline):
                await self._context.crew.stop((member,))
        except (ToolError, TimeoutError):
            return  # `sweep` finds it
        except Exception as error:
            self._context.work.report(error, "stopping a smoke agent")


def _member(smoke: Smoke) -> Member:
    return Member(smoke.name, "", smoke.number, smoke.agent_id, smoke.name)
