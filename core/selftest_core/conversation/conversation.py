"""Readable text of a conversation: messages, tool calls with their commands, and shortened results.

Escape sequences and invisible characters are removed, so that the text can be printed to a terminal.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from typing import TYPE_CHECKING

from selftest_core.conversation.claude_transcript import later_steps
from selftest_core.conversation.common_transcript import parse_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from selftest_core.conversation.common_transcript import Step, ToolCall, ToolResult
    from selftest_core.conversation.transcript_files import Transcript

_LONGEST_LINE = 400
_FIRST_LINES = 12
_LAST_LINES = 8
_MESSAGE_LINES = 200
_MAIN_ARGUMENTS = (
    "command", "cmd", "file_path", "notebook_path", "path", "pattern", "query", "url", "prompt", "description", "_raw",
)  # fmt: skip
"""Names of the main argument of a call in Claude Code and Codex; the first one in the call is used."""
_WHO = {"user": "person", "agent": "agent", "system": "system", "tool": "result"}

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def steps_of(transcript: Transcript) -> tuple[Step, ...]:
    """Return all steps of a transcript, with those that are only in the lines of the agent's own program so far."""
    steps, _ = parse_lines(transcript.common.split(b"\n"))
    return (*steps, *later_steps(transcript.own.split(b"\n"), steps))


def readable(steps: Iterable[Step]) -> str:
    """Format a conversation; empty for one without messages."""
    return "\n".join(text for step in steps if (text := step_text(step)))


def step_text(step: Step) -> str:
    """Format one step with a head line (time and author) and a line end; empty for an empty step."""
    lines = list(_lines_of(step))
    if not lines:
        return ""
    who = "error" if step.is_error else _WHO[step.source]
    when = f"[{time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime(step.at))}] " if step.at is not None else ""
    head = f"{when}{'sub-agent, ' if step.is_subagent else ''}{who}:"
    return "\n".join((head, *lines, ""))


def command_of(call: ToolCall) -> str:
    """Return the main argument of a call, such as its command or file, unchanged; else all arguments."""
    for name in _MAIN_ARGUMENTS:
        value = call.arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            # Codex: ["bash", "-lc", "the command"]
            return value[-1] if len(value) == 3 and value[1] in ("-c", "-lc") else shlex.join(value)
    return _json(call.arguments) if call.arguments else ""


def message_text(step: Step) -> str:
    """Return the message of a step without its tool calls, harmless; of a long one the first and the last lines."""
    return "\n".join(_shortened(step.text, _FIRST_LINES, _LAST_LINES))


def call_text(call: ToolCall) -> str:
    """Return a tool call, harmless: its name, its main argument, and the text that it replaces or writes."""
    return "\n".join(line.removeprefix("  > ") for line in _call_lines(call))


def harmless(text: str) -> str:
    """Remove escape sequences and invisible characters; line ends and tabs are kept."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def _lines_of(step: Step) -> Iterator[str]:
    # Indented, so that no line of a message looks like a head line.
    yield from (f"  {line}" for line in _shortened(step.text, _MESSAGE_LINES, _LAST_LINES))
    for call in step.tool_calls:
        yield from _call_lines(call)
    for result in step.results:
        yield from _result_lines(result)


def _call_lines(call: ToolCall) -> Iterator[str]:
    command = list(_shortened(command_of(call), _FIRST_LINES, _LAST_LINES))
    name = _line(call.name) or "a tool"
    yield f"  > {name}: {command[0]}" if command else f"  > {name}"
    yield from (f"  >   {line}" for line in command[1:])
    for sign, argument in (("-", "old_string"), ("+", "new_string"), ("+", "content")):
        value = call.arguments.get(argument)
        if isinstance(value, str) and value:
            yield from (f"  >   {sign} {line}" for line in _shortened(value, _FIRST_LINES, _LAST_LINES))


def _result_lines(result: ToolResult) -> Iterator[str]:
    sign = "!" if result.is_error else "|"
    yield from (f"  {sign} {line}" for line in _shortened(result.text, _FIRST_LINES, _LAST_LINES))


def _shortened(text: str, first: int, last: int) -> Iterator[str]:
    """Return the first and the last lines, each shortened, and between them the number that is left out."""
    lines = text.strip("\r\n").split("\n")
    if not any(lines):
        return
    left_out = len(lines) - first - last
    if left_out <= 1:
        yield from map(_line, lines)
        return
    yield from map(_line, lines[:first])
    yield f"… {left_out:,} lines left out …"
    yield from map(_line, lines[-last:])


def _line(line: str) -> str:
    cut = harmless(line[: 4 * _LONGEST_LINE]).replace("\n", " ").rstrip()
    return cut if len(cut) <= _LONGEST_LINE and len(line) <= 4 * _LONGEST_LINE else f"{cut[:_LONGEST_LINE]} …"


def _json(arguments: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(arguments), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "(arguments that cannot be shown)"
