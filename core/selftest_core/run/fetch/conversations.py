"""The conversation of an agent, kept beside what it gave back, and masked before it is written.

    attempt-N/conversation.jsonl     mngr's common transcript as it is: whole lines, the newest part where it is long
    attempt-N/conversation.txt       the same to read: who said what, tool calls, shortened results

Both come from mngr's own files about the agent, never from what the agent gave back: a file of the agent's with one of
these names is moved aside. A conversation that could not be had is said in one line in the second file, and fails
nothing. Agents without a model have none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from selftest_core.conversation.claude_transcript import last_error
from selftest_core.conversation.conversation import readable, steps_of
from selftest_core.conversation.transcript_files import Transcript
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.conversation.claude_transcript import ApiError
    from selftest_core.run.store import RunFolder

LINES = "conversation.jsonl"
TEXT = "conversation.txt"
FROM_AGENT = ".from-agent"
"""What the name of an agent's own file is followed by that had the name of one of ours."""
LONGEST_TEXT = 4 * 1024 * 1024
"""Characters of the readable form: its newest part where it is longer."""
WITHOUT = frozenset({"command", "headless_command"})
"""Types of agents that have no conversation."""

type Mask = Callable[[str, Path | None], str]
"""Masks what must not be written, in a whole text; the path is the file of variables that mngr gave to the agent."""
type MaskMaker = Callable[[RunFolder, Config, Mapping[str, str]], Mask]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that can be written down. `missing`: why there is none although its agent has one.

    `error`: the API error that it ended with.
    """

    lines: bytes = b""
    text: str = ""
    error: ApiError | None = None
    missing: str = ""


NO_CONVERSATION = Conversation()


def conversation_of(transcript: Transcript, mask: Callable[[str], str]) -> Conversation:
    """Mask a transcript and make it readable. Takes seconds for a large one: for threads."""
    common = _masked(transcript.common, mask)
    masked = Transcript(common, transcript.left_out, _masked(transcript.own, mask))
    text = readable(steps_of(masked))
    if not text:
        return Conversation(missing="mngr has no transcript of it")
    beginning = f"(The first {transcript.left_out:,} bytes are left out.)\n\n" if transcript.left_out else ""
    if len(text) > LONGEST_TEXT:
        text = text[-LONGEST_TEXT:].partition("\n\n")[2]
        beginning = "(The beginning is left out.)\n\n"
    return Conversation(common, beginning + text, last_error(masked.own.split(b"\n")))


def keep_conversation(folder: Path, conversation: Conversation) -> None:
    """Write it into a folder that is being made ready. Raises OSError where our disk takes nothing more."""
    for name in (LINES, TEXT):
        path = folder / name
        if path.exists() or path.is_symlink():
            path.rename(_free(path.with_name(name + FROM_AGENT)))
    if conversation.missing:
        (folder / TEXT).write_text(f"No conversation was kept: {conversation.missing}\n", encoding="utf-8")
    elif conversation.text:
        if conversation.lines:
            (folder / LINES).write_bytes(conversation.lines)
        (folder / TEXT).write_text(conversation.text, encoding="utf-8", errors="replace")


def _free(path: Path) -> Path:
    """The path, or the first of its name and a number where nothing is."""
    found, number = path, 1
    while found.exists() or found.is_symlink():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _masked(lines: bytes, mask: Callable[[str], str]) -> bytes:
    """The lines with every text in them masked; one in which nothing was masked stays as it is, byte for byte."""
    return b"".join(_masked_line(line, mask) + b"\n" for line in lines.split(b"\n") if line)


def _masked_line(line: bytes, mask: Callable[[str], str]) -> bytes:
    # In JSON a value may be spelled with escapes, and stand behind the letter of one: so texts are masked, not bytes.
    try:
        document = json.loads(line)
        masked = _masked_value(document, mask)
    except (ValueError, RecursionError):
        return mask(line.decode("utf-8", "replace")).encode("utf-8", "replace")
    return line if masked == document else json.dumps(masked).encode()


def _masked_value(value: object, mask: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked_value(each, mask) for each in value]
    if isinstance(value, dict):
        return {mask(key): _masked_value(each, mask) for key, each in value.items()}
    return value
