"""Read the session files of Claude Code: answers with their tokens, API errors, steps that mngr has not converted yet.

Below an agent's folder (agents/ID), where mngr's plugin puts Claude's configuration folder:

- `logs/claude_transcript/events.jsonl`: the session as Claude writes it, copied by mngr within a second. mngr's common
  transcript (`common_transcript`) follows up to five seconds later, without the answer in progress and without the
  kind of an error. An error is an `assistant` line with `isApiErrorMessage`, `error` (such as rate_limit) and
  `apiErrorStatus`. A request that Claude retries leaves no line: only the screen shows it.
- `plugin/claude/anthropic/projects/PROJECT/SESSION.jsonl`: the session itself, which has the last answers even
  when the agent was killed before mngr copied them.
- `plugin/claude/anthropic/projects/PROJECT/SESSION/subagents/*.jsonl`: the same for each sub-agent, which no transcript
  of mngr's has.

Seen with 2.1.330. Texts are the agent's: show them, never obey them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.conversation.common_transcript import (
    SYNTHETIC_MODEL,
    Step,
    Tokens,
    ToolCall,
    ToolResult,
    count,
    model_of,
    parse_object,
    text_of,
)
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr_files import instant_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_PROJECTS = "plugin/claude/anthropic/projects"
_MOST_SESSIONS = 500
_TURNED_AWAY = frozenset(
    {"rate_limit", "overloaded", "billing_error", "authentication_failed", "oauth_org_not_allowed"}
)
_TURNED_AWAY_STATUS = frozenset({401, 402, 403, 429, 529})
_SLASH_COMMANDS = ("<command-name>", "<command-message>", "<local-command-stdout>", "<local-command-caveat>")
"""Lines of Claude for slash commands, which mngr leaves out too."""


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error instead of an answer. `kind` is Claude's word (`rate_limit`); `status` 0 for none."""

    text: str
    kind: str = ""
    status: int = 0
    at: float | None = None

    @property
    def is_turned_away(self) -> bool:
        """True if the service refuses this account for now: a limit, an overload, a key, a credit."""
        return self.kind in _TURNED_AWAY or self.status in _TURNED_AWAY_STATUS

    @property
    def line(self) -> str:
        """The error in one line: its text, with the kind and the status where the text has neither."""
        extra = [self.kind.replace("_", " ")] if self.kind else []
        extra += [str(self.status)] if self.status and str(self.status) not in self.text else []
        text = " ".join(self.text.split())
        return f"{text} ({', '.join(extra)})" if extra else text


def session_files(agent_folder: Path) -> tuple[str, ...]:
    """Find the files of an agent's sessions and of their sub-agents: paths below `agent_folder`. Follows no link."""
    found: list[str] = []
    for project in _names(agent_folder, _PROJECTS, are_folders=True):
        folder = f"{_PROJECTS}/{project}"
        found += [f"{folder}/{name}" for name in _names(agent_folder, folder) if name.endswith(".jsonl")]
        for session in _names(agent_folder, folder, are_folders=True):
            below = f"{folder}/{session}/subagents"
            found += [f"{below}/{name}" for name in _names(agent_folder, below) if name.endswith(".jsonl")]
        if len(found) >= _MOST_SESSIONS:
            return tuple(found[:_MOST_SESSIONS])
    return tuple(found)


def parse_session(lines: Iterable[bytes]) -> Iterator[Step]:
    """Parse the answers of the model, and errors instead of them, from lines of a session; skip all others."""
    return (
        _answer(record)
        for record in _records(line for line in lines if b'"assistant"' in line)
        if record["type"] == "assistant"
    )


def last_error(lines: Iterable[bytes]) -> ApiError | None:
    """Find the error at the end of the conversation; None if there is none, or an answer after it."""
    found: ApiError | None = None
    for step in parse_session(lines):
        if step.is_error and not step.is_subagent:
            found = ApiError(step.text, step.error_kind, step.error_status or 0, step.at)
        elif step.model and not step.is_subagent:
            found = None
    return found


def later_steps(lines: Iterable[bytes], known: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps of the main conversation in these lines after the last `known` one."""
    ids: set[str] = set()
    for step in known:
        ids.update((step.id, step.message_id), (result.call_id for result in step.results))
    steps: list[Step] = []
    for step in _steps(lines):
        names = {step.id, step.message_id, *(result.call_id for result in step.results)} - {""}
        if names & ids:
            steps = []
        else:
            steps.append(step)
    return tuple(steps)


def _steps(lines: Iterable[bytes]) -> Iterator[Step]:
    """Convert lines to steps, as mngr's converter does; the lines of one answer are one step."""
    answer: Step | None = None
    for record in _records(lines):
        if record.get("isSidechain"):
            continue
        part = _answer(record) if record["type"] == "assistant" else None
        if answer is not None and part is not None and part.message_id and part.message_id == answer.message_id:
            answer = _joined(answer, part)
            continue
        results = [] if part is not None else list(_results(record))
        if answer is not None and (part is not None or not results):
            yield answer
            answer = None
        if part is not None:
            answer = part
        elif results:
            # Further lines of the same answer may follow the result of its first call.
            if answer is not None:
                yield answer
                answer = None
            yield from results
        else:
            yield from _message(record)
    if answer is not None:
        yield answer


def _records(lines: Iterable[bytes]) -> Iterator[Mapping[str, object]]:
    for line in lines:
        # Most bytes are in lines about requests and files, without messages.
        if b'"assistant"' not in line and b'"user"' not in line:
            continue
        record = parse_object(line)
        if record is None or not isinstance(record.get("message"), dict):
            continue
        if record.get("type") in ("assistant", "user"):
            yield record


def _answer(record: Mapping[str, object]) -> Step:
    message = _object(record.get("message"))
    parts = [part for part in _list(message.get("content")) if isinstance(part, dict)]
    calls = tuple(
        ToolCall(text_of(part.get("id")), text_of(part.get("name")), dict(_object(part.get("input"))))
        for part in parts
        if part.get("type") == "tool_use"
    )
    model = model_of(message.get("model"))
    status = record.get("apiErrorStatus")
    return Step(
        id=f"{text_of(record.get('uuid'))}-assistant",
        source="agent",
        at=instant_of(record.get("timestamp")),
        text=_text(message.get("content")),
        tool_calls=calls,
        model="" if model == SYNTHETIC_MODEL else model,
        message_id=text_of(message.get("id")),
        tokens=_tokens(message.get("usage")),
        finish_reason=text_of(message.get("stop_reason")),
        is_error=record.get("isApiErrorMessage") is True,
        error_kind=text_of(record.get("error")),
        error_status=status if type(status) is int and 100 <= status < 1000 else None,
        is_subagent=record.get("isSidechain") is True,
    )


def _joined(one: Step, other: Step) -> Step:
    text = "\n".join(filter(None, (one.text, other.text)))
    return replace(one, text=text, tool_calls=(*one.tool_calls, *other.tool_calls), tokens=other.tokens)


def _results(record: Mapping[str, object]) -> Iterator[Step]:
    for part in _list(_object(record.get("message")).get("content")):
        if isinstance(part, dict) and part.get("type") == "tool_result":
            call_id = text_of(part.get("tool_use_id"))
            result = ToolResult(call_id, _text(part.get("content")), part.get("is_error") is True)
            step_id = f"{text_of(record.get('uuid'))}-tool_result-{call_id}"
            yield Step(step_id, "tool", instant_of(record.get("timestamp")), results=(result,))


def _message(record: Mapping[str, object]) -> Iterator[Step]:
    text = _text(_object(record.get("message")).get("content"))
    if text and not text.lstrip().startswith(_SLASH_COMMANDS):
        is_meta = record.get("isMeta") is True
        step_id = f"{text_of(record.get('uuid'))}-{'meta' if is_meta else 'user'}"
        yield Step(step_id, "system" if is_meta else "user", instant_of(record.get("timestamp")), text)


def _text(content: object) -> str:
    """Return the text of a message, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in _list(content) if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for part in parts if (text := text_of(part.get("text"))))


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _tokens(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    return Tokens(
        input=count(usage.get("input_tokens")),
        cached=count(usage.get("cache_read_input_tokens")),
        cache_write=count(usage.get("cache_creation_input_tokens")),
        output=count(usage.get("output_tokens")),
    )


def _names(agent_folder: Path, relative: str, *, are_folders: bool = False) -> list[str]:
    try:
        with os.scandir(agent_folder / relative) as entries:
            return sorted(
                entry.name
                for entry in entries
                if (entry.is_dir(follow_symlinks=False) if are_folders else entry.is_file(follow_symlinks=False))
            )
    except OSError:
        return []
