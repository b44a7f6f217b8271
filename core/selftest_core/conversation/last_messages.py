"""Last messages between a user and an agent, with its tool calls, from the fastest source.

A local agent's transcript is read from its state folder in milliseconds, so that it can be followed while it grows. For
others mngr is asked, which takes a second. A command agent has no transcript, which is no error. The text has no escape
sequences, and is untrusted.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

from selftest_core.conversation.common_transcript import parse_lines, transcript_of
from selftest_core.conversation.conversation import step_text, steps_of
from selftest_core.conversation.transcript_files import own_lines_of, read_whole
from selftest_core.errors import ToolOutputError
from selftest_core.tools.mngr import answer_error, transcript_arguments
from selftest_core.tools.mngr_files import host_dir_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.agents import Agent
    from selftest_core.conversation.common_transcript import Step
    from selftest_core.tools.mngr import Mngr

TIMEOUT = 60.0
MOST_READ = 1024 * 1024
"""Bytes of the end of a local agent's transcript that are read."""
_WITHOUT = frozenset({"command", "headless_command"})
_HAS_NONE = "does not produce a common transcript"


def has_conversation(agent: Agent) -> bool:
    """False for types of agents that have no model to talk to."""
    return agent.type not in _WITHOUT


def state_folder(environ: Mapping[str, str], agent: Agent) -> Path | None:
    """Return mngr's folder of a local agent; None for one on another host."""
    return host_dir_of(environ) / "agents" / agent.id if agent.host.is_local else None


def stamp_of(folder: Path) -> tuple[tuple[int, int], ...]:
    """Return a stamp that changes when the transcript in this folder grows; empty without a transcript."""
    relative = transcript_of(folder)
    if relative is None:
        return ()
    found = []
    for path in (relative, own_lines_of(relative.split("/")[1])):
        try:
            status = os.lstat(folder / path)
        except OSError:
            continue
        found.append((status.st_size, status.st_mtime_ns))
    return tuple(found)


async def last_messages(mngr: Mngr, agent: Agent, limit: int) -> tuple[str, ...]:
    """Return an agent's last `limit` steps as texts, oldest first; none without a transcript.

    Raises ToolError.
    """
    if not has_conversation(agent) or limit < 1:
        return ()
    folder = state_folder(mngr.environ, agent)
    if folder is not None:
        found = await asyncio.to_thread(read_messages, folder, limit)
        if found:
            return found
    done = await mngr.call(transcript_arguments(agent.address, limit), timeout=TIMEOUT)
    if not done.ok:
        if _HAS_NONE in done.stderr:
            return ()
        raise answer_error("mngr transcript", stderr=done.stderr, exit_status=done.exit_status)
    return parse_transcript(done.stdout)[-limit:]


def read_messages(folder: Path, limit: int) -> tuple[str, ...]:
    """Read the last steps of the transcript in a state folder; none if it cannot be read."""
    try:
        steps = steps_of(read_whole(folder, MOST_READ))
    except OSError:
        return ()
    return _texts(steps)[-limit:]


def parse_transcript(text: str) -> tuple[str, ...]:
    """Parse `mngr transcript --format json`, a list of events, into texts of steps. Raises ToolOutputError."""
    try:
        events = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError) as error:
        raise ToolOutputError("mngr transcript was cut short", str(error)) from error
    if not isinstance(events, list):
        raise ToolOutputError("mngr transcript printed something else than a transcript", text.strip()[:200])
    steps, _ = parse_lines(json.dumps(_with_one_text(event)).encode() for event in events if isinstance(event, dict))
    return _texts(steps)


def _texts(steps: Iterable[Step]) -> tuple[str, ...]:
    return tuple(text.rstrip("\n") for step in steps if (text := step_text(step)))


def _with_one_text(event: dict[str, Any]) -> dict[str, Any]:
    """Join a message that is a list of parts into one text."""
    parts = event.get("message")
    if not isinstance(parts, list):
        return event
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return event | {"message": "\n".join(each for each in texts if isinstance(each, str))}
