"""Common transcript: the conversation that mngr's plugins write for every agent type, and its reader.

mngr's claude and codex plugins (and others) convert the conversation of an agent to one format, one JSON object a line,
in `agents/ID/events/<plugin>/common_transcript/events.jsonl`. A `step` line is a message of a user, of the agent (one
answer of the model, with its tool calls and token counts) or of the system; an `observation` line holds results of tool
calls. Schema: `imbue.mngr.agents.common_transcript_records` (ATIF v1.7) of mngr 0.3.0. Claude's file grows within five
seconds of a message; its last answer is held back until the turn ends.

Two things are not in this file, and Claude's own session files have them (`claude_transcript`): steps of sub-agents,
and the kind of an API error, of which only the text is here, as an answer of the model `<synthetic>` (`Step.is_error`).

Reading is lenient: a line that is no JSON object, or of an unknown type, is skipped and counted; an odd field is empty.
Texts are the agent's: show them, never obey them.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

from selftest_core.conversation.appended_lines import BEGINNING, Place, read_appended
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr_files import instant_of, replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["BEGINNING", "Place", "Reading", "Step", "Tokens", "ToolCall", "ToolResult"]

SYNTHETIC_MODEL = "<synthetic>"
"""The model name of messages by Claude Code itself instead of an answer: API errors, interruptions."""
_NO_RESPONSE = "No response requested."
"""Claude Code writes this, and no error, when it resumes a conversation."""
MOST_TOKENS = 10**12
"""A larger count is invalid."""
_LONGEST_MODEL = 200
"""Characters of a model's name; a longer one is invalid."""

type Source = Literal["user", "agent", "system", "tool"]

_SOURCES = frozenset({"user", "agent", "system"})
_NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of one answer of a model. The first three are what it read, and do not overlap.

    `input`: neither read from the cache nor written to it. `cached`: read from the cache. `cache_write`: written to it.
    """

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: `arguments` as the model gave them (JSON values)."""

    id: str
    name: str
    arguments: Mapping[str, object] = field(default_factory=lambda: _NO_ARGUMENTS)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of the tool call with the id `call_id`. `text` is not shortened."""

    call_id: str
    text: str
    is_error: bool = False
    tool_name: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the transcript. `source` "tool": results of tool calls alone. `at`: seconds since the epoch.

    `id` is unique in the file. `message_id` names the answer of the model; several steps may share it, and repeat its
    `tokens` then. `is_error`: the agent's program wrote this text in the place of an answer that failed; `error_kind`
    (such as `rate_limit`) and `error_status` (of HTTP) are known from Claude's own files alone.
    """

    id: str
    source: Source
    at: float | None = None
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    model: str = ""
    message_id: str = ""
    tokens: Tokens | None = None
    finish_reason: str = ""
    is_error: bool = False
    error_kind: str = ""
    error_status: int | None = None
    is_subagent: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The steps that were appended since a place. `skipped`: lines that could not be read.

    `is_anew`: these steps are from the beginning of another file; what was read before no longer counts.
    """

    steps: tuple[Step, ...]
    place: Place
    is_anew: bool = False
    skipped: int = 0
    has_more: bool = False


def transcript_of(agent_folder: Path) -> str | None:
    """Find an agent's transcript: its path below `agent_folder` (agents/ID); None if it has none."""
    try:
        with os.scandir(agent_folder / "events") as entries:
            plugins = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return None
    for plugin in plugins:
        relative = f"events/{plugin}/common_transcript/events.jsonl"
        with contextlib.suppress(OSError):  # without permission it counts as missing
            if plugin != "logs" and (agent_folder / relative).is_file():
                return relative
    return None


def read_transcript(agent_folder: Path, relative: str, place: Place = BEGINNING) -> Reading:
    """Read the steps that were appended since `place`. Raises OSError and ValueError as `read_appended` does."""
    lines = read_appended(agent_folder, relative, place)
    steps, skipped = parse_lines(lines.lines)
    return Reading(steps, lines.place, lines.is_anew, lines.skipped + skipped, lines.has_more)


def parse_lines(lines: Iterable[bytes]) -> tuple[tuple[Step, ...], int]:
    """Parse complete lines, and count those that cannot be read."""
    steps = []
    skipped = 0
    for line in lines:
        document = parse_object(line)
        kind = document.get("type") if document is not None else None
        if document is not None and kind == "step":
            steps.append(_step(document))
        elif document is not None and kind == "observation":
            steps.append(_observation(document))
        elif kind != "header":
            skipped += 1
    return tuple(steps), skipped


def parse_object(line: bytes) -> dict[str, object] | None:
    """Parse one line to an object whose texts can all be written as UTF-8; None if it is none."""
    try:
        document = json.loads(line.decode())  # from bytes it would accept lone surrogates
        if not isinstance(document, dict):
            return None
        return cast("dict[str, object]", _printable(document) if b"\\u" in line else document)
    except (ValueError, RecursionError):
        return None


def count(value: object) -> int:
    """Check a token count; 0 for an invalid one."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


def text_of(value: object) -> str:
    """Check a text; "" for anything else."""
    return value if isinstance(value, str) else ""


def model_of(value: object) -> str:
    """Check a model's name; "" for an invalid one."""
    name = text_of(value)
    return name if len(name) <= _LONGEST_MODEL else ""


def _step(document: Mapping[str, object]) -> Step:
    source = text_of(document.get("source"))
    extra = _object(document.get("extra"))
    model = model_of(document.get("model_name"))
    return Step(
        id=text_of(document.get("event_id")),
        source=cast("Source", source) if source in _SOURCES else "system",
        at=instant_of(document.get("timestamp")),
        text=text_of(document.get("message")),
        tool_calls=tuple(_call(each) for each in _objects(document.get("tool_calls"))),
        results=tuple(_result(each) for each in _objects(_object(document.get("observation")).get("results"))),
        model="" if model == SYNTHETIC_MODEL else model,
        message_id=text_of(extra.get("message_id")),
        tokens=_tokens(document.get("metrics")),
        finish_reason=text_of(extra.get("finish_reason")),
        is_error=model == SYNTHETIC_MODEL and document.get("message") != _NO_RESPONSE,
        is_subagent=extra.get("is_sidechain") is True,
    )


def _observation(document: Mapping[str, object]) -> Step:
    results = _objects(document.get("results"))
    return Step(
        id=text_of(document.get("event_id")),
        source="tool",
        at=instant_of(document.get("timestamp")),
        results=tuple(_result(each) for each in results),
        is_subagent=any(_object(each.get("extra")).get("is_sidechain") is True for each in results),
    )


def _call(document: Mapping[str, object]) -> ToolCall:
    return ToolCall(
        id=text_of(document.get("tool_call_id")),
        name=text_of(document.get("function_name")),
        arguments=MappingProxyType(dict(_object(document.get("arguments")))),
    )


def _result(document: Mapping[str, object]) -> ToolResult:
    extra = _object(document.get("extra"))
    return ToolResult(
        call_id=text_of(document.get("source_call_id")),
        text=text_of(document.get("content")),
        is_error=extra.get("is_error") is True,
        tool_name=text_of(extra.get("tool_name")),
    )


def _tokens(value: object) -> Tokens | None:
    """Read `metrics`, whose prompt_tokens include those read from the cache and written to it."""
    if not isinstance(value, dict):
        return None
    cached = count(value.get("cached_tokens"))
    cache_write = count(_object(value.get("extra")).get("cache_creation_input_tokens"))
    return Tokens(
        input=max(0, count(value.get("prompt_tokens")) - cached - cache_write),
        cached=cached,
        cache_write=cache_write,
        output=count(value.get("completion_tokens")),
    )


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else _NO_ARGUMENTS


def _objects(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _printable(value: object) -> object:
    """Replace lone surrogates: JSON can have them, terminals and files cannot."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if isinstance(value, dict):
        return {str(_printable(key)): _printable(each) for key, each in value.items()}
    return value
