"""Conversations of a run's agents as mngr has them: read from files for local agents, fetched for others.

A local agent's state folder is read directly, bounded, and without following a link. A remote one is asked by one
`mngr exec`, and mngr's own `transcript` where that does not work.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.conversation.claude_transcript import last_error
from selftest_core.conversation.transcript_files import NO_TRANSCRIPT, Transcript, read_own_end, read_whole
from selftest_core.errors import ToolError
from selftest_core.run.crew.mngr_commands import exec_arguments, parse_exec, place_of, provider_of
from selftest_core.run.fetch.conversations import NO_CONVERSATION, WITHOUT, Conversation, conversation_of
from selftest_core.run.fetch.far_transcript import events_arguments, parse_transcript_answer, transcript_script
from selftest_core.tools.mngr_files import host_dir_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.run.fetch.conversations import Mask
    from selftest_core.run.fold import Member
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.tools.mngr import Mngr

_TIMEOUT = 50.0
_WRITTEN_WITHIN = 12.0
_LOOK_AGAIN = 0.25
"""Seconds. mngr's plugins for Claude Code and Codex write a transcript every five seconds: an agent may be done before
its first line is there.
"""
_LAST_WORDS = 256 * 1024
"""Bytes of the end of an agent's own lines in which its last answer is looked for."""


class MngrConversations:
    """Gets conversations. Without a `mask` none is got: what cannot be masked is not written down."""

    def __init__(self, plan: RunPlan, mngr: Mngr, mask: Mask | None) -> None:
        self._plan = plan
        self._mngr = mngr
        self._mask = mask
        self._agents = host_dir_of(mngr.environ) / "agents"

    async def of(self, member: Member) -> Conversation:
        """The conversation of this agent so far, masked. Raises nothing for what an agent or mngr did."""
        mask = self._mask
        if self._plan.agent_type in WITHOUT or mask is None:
            return NO_CONVERSATION
        is_local = self._is_local(member)
        state_folder = self._agents / member.agent_id
        variables = state_folder / "env" if is_local else None
        try:
            if is_local:
                transcript = await local_transcript(state_folder)
            else:
                transcript = await self._fetched(member)
            return await asyncio.to_thread(conversation_of, transcript, lambda text: mask(text, variables))
        except (ToolError, OSError) as error:
            return Conversation(missing=" ".join(str(error).split())[:300])
        except re.error as error:
            return Conversation(missing=f"`mask_patterns` holds something else than a pattern: {error}")

    async def turned_away(self, members: Iterable[Member]) -> dict[str, str]:
        """By agent id, of local agents whose last answer was an error of a service that takes no more: its words."""
        if self._plan.agent_type in WITHOUT:
            return {}
        folders = {one.agent_id: self._agents / one.agent_id for one in members if self._is_local(one)}
        return await asyncio.to_thread(_turned_away, folders, self._plan.agent_type)

    def _is_local(self, member: Member) -> bool:
        return (member.provider or provider_of(place_of(self._plan, member))) == LOCAL_PROVIDER

    async def _fetched(self, member: Member) -> Transcript:
        """The transcript of an agent of another host. Raises ToolError where nothing answers."""
        done = await self._mngr.call(exec_arguments((member,), transcript_script(), _TIMEOUT - 10.0), timeout=_TIMEOUT)
        answers = tuple(parse_exec(done.stdout).values())
        if answers and answers[0][0]:
            found = parse_transcript_answer(answers[0][1])
            if found.common:
                return found
        done = await self._mngr.call(events_arguments(member), timeout=_TIMEOUT)
        return Transcript(done.stdout.encode("utf-8", "replace")) if done.ok else NO_TRANSCRIPT


async def local_transcript(state_folder: Path) -> Transcript:
    """Read the transcript of an agent of this machine, and wait for one that is not written yet. Raises OSError.

    Only the plugins that write transcripts make a folder `plugin`: nothing is waited for without it.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _WRITTEN_WITHIN
    while True:
        found = await asyncio.to_thread(read_whole, state_folder)
        if found.common or loop.time() >= deadline or not (state_folder / "plugin").is_dir():
            return found
        await asyncio.sleep(_LOOK_AGAIN)


def _turned_away(folders: Mapping[str, Path], plugin: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for agent_id, folder in folders.items():
        try:
            error = last_error(read_own_end(folder, plugin, _LAST_WORDS).split(b"\n"))
        except OSError:
            continue  # its screen may tell
        if error is not None and error.is_turned_away:
            found[agent_id] = error.says
    return found
