"""Requests of coding agents, parsed into one form for both APIs.

The last message of the user chooses a play, and the number of tool results since then is its step. Requests are not
trusted: a field of an unexpected shape counts as absent.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROMPT_FILE = ".selftest/prompt.md"
"""The file that a run's prompt names, relative to the agent's folder."""

_ADDED = re.compile(
    r"<(system-reminder|environment_context|user_instructions|permissions instructions|INSTRUCTIONS)>.*?</\1>", re.S
)
_FOLDER = re.compile(r"(?:[Ww]orking directory: |<cwd>)(/[^\s<]+)")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A parsed request. `key`: the agent's session. `folder`: its work dir, empty if the request has none.

    `said`: the last message of the user. `results`: of the tools since then. `tools`: names of the offered tools;
    without any, the request is an aside of the program (a title, a summary). `asked`: how many user messages named the
    prompt's file. `length`: number of messages.
    """

    key: str
    model: str
    folder: str
    said: str
    results: tuple[str, ...]
    tools: frozenset[str]
    asked: int
    length: int

    @property
    def is_aside(self) -> bool:
        """True if the agent's program asks for its own purposes."""
        return not self.tools


def read_messages(body: Mapping[str, Any], headers: Mapping[str, str]) -> Conversation:
    """Parse a request of the Messages API."""
    said, asked, around = "", 0, _text_of(body.get("system"))
    results: list[str] = []
    messages = _objects(body.get("messages"))
    for message in messages:
        content = message.get("content")
        if message.get("role") == "system":
            around += "\n" + _text_of(content)
        if message.get("role") != "user":
            continue
        text = _ADDED.sub("", _text_of(content)).strip()
        told = [part for part in _objects(content) if part.get("type") == "tool_result"]
        results += [_text_of(part.get("content")) for part in told]
        # A message that is typed during a turn comes together with a tool's result.
        if text and (not told or "PLAY " in text or PROMPT_FILE in text):
            said, results = text, []
            asked += PROMPT_FILE in text
        around += "\n" + _text_of(content)
    metadata = body.get("metadata")
    key = headers.get("x-claude-code-session-id") or (json.dumps(metadata) if metadata else "messages")
    return _conversation(body, key, around, said, results, asked, len(messages), _objects(body.get("tools")))


def read_responses(body: Mapping[str, Any], headers: Mapping[str, str]) -> Conversation:
    """Parse a request of the Responses API."""
    said, asked, around = "", 0, _text_of(body.get("instructions"))
    results: list[str] = []
    items = _objects(body.get("input"))
    tools = _objects(body.get("tools"))
    for item in items:
        kind = item.get("type", "message")
        if kind == "additional_tools":
            tools += [tool for group in _objects(item.get("tools")) for tool in (group, *_objects(group.get("tools")))]
        if kind == "message" and item.get("role") == "user":
            around += "\n" + _text_of(item.get("content"))
            text = _ADDED.sub("", _text_of(item.get("content"))).strip()
            if text:
                said, results = text, []
                asked += PROMPT_FILE in text
        elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
            output = item.get("output")
            results.append(output if isinstance(output, str) else json.dumps(output))
    key = headers.get("session_id") or headers.get("session-id") or str(body.get("prompt_cache_key") or "responses")
    if "thread_title" in headers.get("x-codex-turn-metadata", ""):  # Codex asks for a title, with all its tools
        tools = []
    return _conversation(body, key, around, said, results, asked, len(items), tools)


def _conversation(
    body: Mapping[str, Any],
    key: str,
    around: str,
    said: str,
    results: list[str],
    asked: int,
    length: int,
    tools: list[dict[str, Any]],
) -> Conversation:
    folder = _FOLDER.search(around)
    names = {tool.get("name") or tool.get("type") for tool in tools}
    return Conversation(
        key=key[:200],
        model=str(body.get("model") or "scripted")[:100],
        folder=folder[1] if folder else "",
        said=said,
        results=tuple(results),
        tools=frozenset(str(name) for name in names if name),
        asked=asked,
        length=length,
    )


def _text_of(content: object) -> str:
    """Return the text of a content: a string, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in _objects(content) if isinstance(part.get("text"), str))


def _objects(value: object) -> list[dict[str, Any]]:
    return list(_dicts(value))


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict):
                yield one
