"""Search of the conversations of agents for a text: messages, commands, and results, also those not on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.conversation.conversation import command_of, harmless, steps_of
from selftest_core.conversation.transcript_files import read_whole
from selftest_core.frozen import dataclass
from selftest_core.tools.panes import matching_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from selftest_core.agents import AgentKey
    from selftest_core.conversation.common_transcript import Step

MOST_READ = 4 * 1024 * 1024
"""Bytes of the end of each conversation that are searched."""
_MOST_HITS = 200


@dataclass(frozen=True, slots=True)
class ConversationHit:
    """An agent with the text in its conversation, and the lines that have it, oldest first."""

    key: AgentKey
    lines: tuple[str, ...]


def search_conversations(folders: Mapping[AgentKey, Path], text: str) -> tuple[ConversationHit, ...]:
    """Find the agents (by their state folders) with `text` in their conversation, case ignored. Blocks: for threads.

    An agent whose transcript cannot be read is left out. An empty text finds nothing.
    """
    hits = []
    for key, folder in folders.items() if text else ():
        try:
            read = read_whole(folder, MOST_READ)
        except OSError:
            continue
        if _may_have(read.common + read.own, text):
            lines = [line for step in steps_of(read) for line in _matching(step, text)]
            if lines:
                hits.append(ConversationHit(key, tuple(lines[-_MOST_HITS:])))
    return tuple(hits)


def _may_have(data: bytes, text: str) -> bool:
    """False if no line can have the text, without parsing JSON, which can write other characters in several ways."""
    if not all(letter.isascii() and (letter.isalnum() or letter in " -_.,;:()[]{}=+*%!?@#") for letter in text):
        return True
    return text.lower().encode() in data.lower() or b"\\u00" in data


def _matching(step: Step, text: str) -> Iterator[str]:
    parts = (step.text, *(command_of(call) for call in step.tool_calls), *(result.text for result in step.results))
    for part in parts:
        yield from matching_lines(harmless(part), text)
