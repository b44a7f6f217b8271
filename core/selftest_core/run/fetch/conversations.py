"""The conversation of an agent, kept among the files of its attempt: masked before it is written, and read again.

    attempt-N/conversation.jsonl     mngr's common transcript unchanged: whole lines, the newest part of a long one
    attempt-N/conversation.txt       the same to read: who said what, tool calls, shortened results

Both come from mngr's own files, never from the files that the agent left: an agent's file with one of these names is
renamed. Where there is no conversation the second file has the reason in one line. Agents without a model have none.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.conversation.claude_transcript import last_error
from selftest_core.conversation.conversation import readable, steps_of
from selftest_core.conversation.transcript_files import Transcript
from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.paths import runs_registry
from selftest_core.run.store import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.config import Config
    from selftest_core.conversation.claude_transcript import ApiError

LINES = "conversation.jsonl"
TEXT = "conversation.txt"
FROM_AGENT = ".from-agent"
"""Suffix of an agent's own file that had one of our names."""
LONGEST_TEXT = 4 * 1024 * 1024
"""Characters of the readable form; of a longer one its newest part."""
WITHOUT = frozenset({"command", "headless_command"})
"""Agent types without a conversation."""
LONGEST_END = 64 * 1024
"""Bytes of the end of a conversation that are shown."""

type Mask = Callable[[str, Path | None], str]
"""Mask secrets in a text. The path is mngr's file of the agent's variables. Called from several threads."""
type MaskMaker = Callable[[RunFolder, Config, Mapping[str, str]], Mask]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A masked conversation. `missing`: why there is none although the agent has one.

    `error`: the API error that it ended with.
    """

    lines: bytes = b""
    text: str = ""
    error: ApiError | None = None
    missing: str = ""


NO_CONVERSATION = Conversation()


def conversation_of(transcript: Transcript, mask: Callable[[str], str]) -> Conversation:
    """Mask a transcript and make it readable. Takes seconds for a large one: call it in a thread."""
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
    """Write the conversation into a staging folder. Raises OSError if our disk is full."""
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


def kept_conversation(environ: Mapping[str, str], run: str, agent_id: str) -> str:
    """Return the end of the agent's conversation that the run with this id kept; empty if it kept none."""
    folder = _folder_of(environ, run)
    if folder is None:
        return ""
    try:
        rows = folder.read().rows.values()
    except (SelftestError, OSError):
        return ""
    members = [row.member for row in rows] + [retry.member for row in rows for retry in row.retries]
    member = next((one for one in members if one is not None and one.agent_id == agent_id), None)
    return "" if member is None else conversation_end(folder.attempt(member))


def conversation_end(attempt: Path, most: int = LONGEST_END) -> str:
    """Return the end of the conversation of an attempt, from a whole line on; empty without one."""
    try:
        handle = os.open(attempt / TEXT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return ""
        begin = max(found.st_size - most, 0)
        data = os.pread(handle, most, begin)
    except OSError:
        return ""
    finally:
        os.close(handle)
    text = data.decode("utf-8", "replace")
    return text.partition("\n")[2] if begin else text


def _free(path: Path) -> Path:
    """Return the path, or the first free one with a number appended."""
    found, number = path, 1
    while found.exists() or found.is_symlink():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _masked(lines: bytes, mask: Callable[[str], str]) -> bytes:
    """Mask every text in the lines; a line without secrets stays byte for byte."""
    return b"".join(_masked_line(line, mask) + b"\n" for line in lines.split(b"\n") if line)


def _masked_line(line: bytes, mask: Callable[[str], str]) -> bytes:
    # JSON may spell a secret with escapes, so texts are masked and not bytes.
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


def _folder_of(environ: Mapping[str, str], run: str) -> RunFolder | None:
    if not run or "/" in run:
        return None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        entry = json.loads((runs_registry(environ) / f"{run}.json").read_text(encoding="utf-8"))
        return RunFolder(Path(entry["path"]))
    return None
