"""Conversations of a run's agents: read from mngr's files for local agents, fetched by `mngr exec` for remote ones.

A local agent's state folder is read directly, with limits and without following links. A remote transcript is sent
compressed and in base64, and both sides limit its size, since the remote side is not trusted; where the script fails,
`mngr transcript` is asked.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.conversation.claude_transcript import last_error
from selftest_core.conversation.transcript_files import (
    LARGEST_OWN,
    NO_TRANSCRIPT,
    Transcript,
    read_own_end,
    read_whole,
    whole_lines,
)
from selftest_core.errors import ToolError
from selftest_core.run.crew.mngr_commands import exec_arguments, parse_exec
from selftest_core.run.fetch.conversations import NO_CONVERSATION, WITHOUT, Conversation, conversation_of
from selftest_core.run.providers import provider_for
from selftest_core.tools.mngr_files import host_dir_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.run.fetch.conversations import Mask
    from selftest_core.run.fold import Member
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.tools.mngr import Mngr

LARGEST_REMOTE = 4 * 1024 * 1024
"""Bytes that are fetched of a remote common transcript; of a longer one its newest part."""
_MOST_EVENTS = 2_000
"""Events that `mngr transcript` is asked for."""
_TIMEOUT = 50.0
_WRITTEN_WITHIN = 12.0
_LOOK_AGAIN = 0.25
"""Seconds. mngr's plugins write a transcript every five seconds, so an agent may be done before its first line."""
_LAST_WORDS = 256 * 1024
"""Bytes of the end of an agent's own lines in which its last answer is searched."""


class MngrConversations:
    """Gets conversations. Without a `mask` it gets none, since nothing unmasked is written."""

    def __init__(self, plan: RunPlan, mngr: Mngr, mask: Mask | None) -> None:
        self._plan = plan
        self._mngr = mngr
        self._mask = mask
        self._agents = host_dir_of(mngr.environ) / "agents"

    async def of(self, member: Member) -> Conversation:
        """Return the masked conversation of an agent so far. Errors of the agent or of mngr become `missing`."""
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
            return Conversation(missing=f"`mask_patterns` has an invalid pattern: {error}")

    async def limits(self, members: Iterable[Member]) -> dict[str, str]:
        """Return the error of each local agent whose last answer was a rate limit, by agent id."""
        if self._plan.agent_type in WITHOUT:
            return {}
        folders = {one.agent_id: self._agents / one.agent_id for one in members if self._is_local(one)}
        return await asyncio.to_thread(_find_limits, folders, self._plan.agent_type)

    def _is_local(self, member: Member) -> bool:
        return provider_for(self._plan, member) == LOCAL_PROVIDER

    async def _fetched(self, member: Member) -> Transcript:
        """Fetch the transcript of a remote agent. Raises ToolError if nothing answers."""
        done = await self._mngr.call(exec_arguments((member,), transcript_script(), _TIMEOUT - 10.0), timeout=_TIMEOUT)
        answers = tuple(parse_exec(done.stdout).values())
        if answers and answers[0][0]:
            found = parse_transcript_answer(answers[0][1])
            if found.common:
                return found
        done = await self._mngr.call(_events_arguments(member), timeout=_TIMEOUT)
        return Transcript(done.stdout.encode("utf-8", "replace")) if done.ok else NO_TRANSCRIPT


async def local_transcript(state_folder: Path) -> Transcript:
    """Read the transcript of a local agent; wait for one that is not written yet. Raises OSError.

    Only plugins that write transcripts make a folder `plugin`: without it there is no wait.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _WRITTEN_WITHIN
    while True:
        found = await asyncio.to_thread(read_whole, state_folder)
        if found.common or loop.time() >= deadline or not (state_folder / "plugin").is_dir():
            return found
        await asyncio.sleep(_LOOK_AGAIN)


def transcript_script(most: int = LARGEST_REMOTE, most_own: int = LARGEST_OWN) -> str:
    """Build a script that prints, for each of two files, a line `common SIZE` or `own SIZE` and a line with its end."""
    send = '{{ echo {name} $(wc -c < "$f"); tail -c {most} "$f" | gzip -c | base64 | tr -d \'\\n\'; echo; }}'
    is_plain = 'test -f "$f" && test ! -L "$f"'
    return (
        'cd "$MNGR_AGENT_STATE_DIR" && for f in events/*/common_transcript/events.jsonl; do '
        f"{is_plain} || continue; {send.format(name='common', most=most)}; "
        'f=${f#events/}; f="logs/${f%%/*}_transcript/events.jsonl"; '
        f"{is_plain} && {send.format(name='own', most=most_own)}; break; done; true"
    )


def parse_transcript_answer(text: str) -> Transcript:
    """Parse the output of `transcript_script`; damaged parts are left out."""
    found: dict[str, tuple[bytes, int]] = {}
    lines = text.splitlines()
    for head, body in pairwise(lines):
        name, _, size = head.partition(" ")
        if name in ("common", "own") and size.strip().isdecimal() and name not in found:
            found[name] = _unpacked(body, int(size[:18]))
    if "common" not in found:
        return NO_TRANSCRIPT
    common, left_out = found["common"]
    return Transcript(common, left_out, found.get("own", (b"", 0))[0])


def _events_arguments(member: Member) -> tuple[str, ...]:
    """Build `mngr transcript` for the last events, as lines of the file."""
    return ("transcript", member.address, "--tail", str(_MOST_EVENTS), "--format", "jsonl")


def _unpacked(letters: str, size: int) -> tuple[bytes, int]:
    try:
        packed = base64.b64decode(letters, validate=True)
        data = zlib.decompressobj(wbits=31).decompress(packed, LARGEST_REMOTE)
    except (binascii.Error, ValueError, zlib.error):
        return b"", 0
    is_cut = size > len(data)
    kept = whole_lines(data, is_cut=is_cut)
    return kept, max(size - len(data), 0) + (data.find(b"\n") + 1 if is_cut else 0)


def _find_limits(folders: Mapping[str, Path], plugin: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for agent_id, folder in folders.items():
        try:
            error = last_error(read_own_end(folder, plugin, _LAST_WORDS).split(b"\n"))
        except OSError:
            continue  # its screen may show the limit
        if error is not None and error.is_turned_away:
            found[agent_id] = error.line
    return found
