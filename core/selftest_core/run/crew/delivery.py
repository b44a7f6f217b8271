"""Delivery of a message, checked in the agent's own transcript.

Claude Code writes a message into its session file the moment it takes it, and mngr relies on that too. So a message
that is not there was not taken: it was not typed, or stands in the input line. For types whose transcript comes late or
never, a missing message proves nothing. The transcript was written by an agent: it is only compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.conversation.appended_lines import BEGINNING, read_appended
from selftest_core.conversation.common_transcript import parse_object, read_transcript, text_of, transcript_of
from selftest_core.run.crew.crew import Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CLAUDE = "plugin/claude/anthropic"
_MOST_READINGS = 16
_MOST_SESSIONS = 50
_NOTHING_TYPED = re.compile(
    r"TUI to be ready|not running|is open in the agent's terminal|waiting on something in its terminal|not there", re.I
)


def may_have_arrived(error: str) -> bool:
    """True if mngr's error does not exclude that the message was typed: all but the known errors."""
    return not _NOTHING_TYPED.search(error)


def find_message(agent_folder: Path, text: str) -> Delivery:
    """Look for a user's message with this text; `agent_folder` is mngr's folder agents/ID of a local agent."""
    try:
        if (agent_folder / _CLAUDE).is_dir():
            return Delivery.YES if _is_in_sessions(agent_folder, text) else Delivery.NO
        transcript = transcript_of(agent_folder)
        if transcript is not None and _is_in_transcript(agent_folder, transcript, text):
            return Delivery.YES
    except (OSError, ValueError):
        return Delivery.UNKNOWN
    return Delivery.UNKNOWN


def _is_in_sessions(agent_folder: Path, text: str) -> bool:
    sessions = sorted((agent_folder / _CLAUDE / "projects").glob("*/*.jsonl"))[:_MOST_SESSIONS]
    for session in sessions:
        relative = str(session.relative_to(agent_folder))
        place = BEGINNING
        for _ in range(_MOST_READINGS):
            read = read_appended(agent_folder, relative, place)
            if any(text in _user_text(document) for line in read.lines if (document := parse_object(line)) is not None):
                return True
            place = read.place
            if not read.has_more:
                break
    return False


def _user_text(document: Mapping[str, object]) -> str:
    """Return the user's text in this line of Claude Code's: sent at once, or queued while it was busy."""
    kind = document.get("type")
    if kind == "queue-operation" and document.get("operation") == "enqueue":
        return text_of(document.get("content"))
    message = document.get("message")
    content = message.get("content") if kind == "user" and isinstance(message, dict) else None
    if isinstance(content, list):
        return " ".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return text_of(content)


def _is_in_transcript(agent_folder: Path, relative: str, text: str) -> bool:
    place = BEGINNING
    for _ in range(_MOST_READINGS):
        read = read_transcript(agent_folder, relative, place)
        if any(step.source == "user" and text in step.text for step in read.steps):
            return True
        place = read.place
        if not read.has_more:
            break
    return False
