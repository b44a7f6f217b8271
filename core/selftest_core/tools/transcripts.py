"""The last messages between a person and an agent, as `mngr transcript` keeps them for those agents that have any.

mngr has transcripts of agents such as claude and codex; a command agent has none, which is no error. What an agent
wrote is passed on as it came: whoever shows it makes it safe.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from selftest_core.errors import ToolOutputError
from selftest_core.listed_text import whole_text
from selftest_core.listing import failure
from selftest_core.tools.mngr import transcript_arguments

if TYPE_CHECKING:
    from selftest_core.tools.mngr import Mngr
    from selftest_core.view import Row

TIMEOUT = 60.0
_WITHOUT = frozenset({"command", "headless_command"})
_HAS_NONE = "does not produce a common transcript"


async def last_messages(mngr: Mngr, row: Row, limit: int) -> tuple[str, ...]:
    """Its last `limit` messages, oldest first, each `WHO: TEXT`; none for a type of agent that keeps no transcript.

    Raises ToolError.
    """
    if row.agent.type in _WITHOUT or limit < 1:
        return ()
    done = await mngr.call(transcript_arguments(row.agent.address, limit), timeout=TIMEOUT)
    if not done.ok:
        if _HAS_NONE in done.stderr:
            return ()
        raise failure("mngr transcript", stderr=done.stderr, exit_status=done.exit_status)
    return parse_transcript(done.stdout)[-limit:]


def parse_transcript(text: str) -> tuple[str, ...]:
    """The messages of `mngr transcript --format json`: a list of events, of which `step` carries `source` and
    `message`. Raises ToolOutputError."""
    try:
        events = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError) as error:
        raise ToolOutputError("mngr transcript was cut short", str(error)) from error
    if not isinstance(events, list):
        raise ToolOutputError("mngr transcript answered something else than a transcript", text.strip()[:200])
    said = (_said(event) for event in events if isinstance(event, dict) and event.get("type") == "step")
    return tuple(message for message in said if message)


def _said(event: dict[str, Any]) -> str:
    words = _words(event.get("message")) or _calls(event.get("tool_calls"))
    return f"{whole_text(str(event.get('source', 'unknown')))}: {words}" if words else ""


def _words(content: object) -> str:
    """The text of a message, which is a string or a list of parts."""
    if isinstance(content, str):
        return whole_text(content).strip()
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return whole_text("\n".join(each for each in texts if isinstance(each, str))).strip()


def _calls(calls: object) -> str:
    """What a step without words did: the tools that it called."""
    if not isinstance(calls, list):
        return ""
    names = [str(call.get("function_name", "a tool")) for call in calls if isinstance(call, dict)]
    return whole_text(f"calls {', '.join(names)}") if names else ""
