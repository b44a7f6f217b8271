"""Last turn of a Claude Code conversation: how it ended, or the tool call that waits for an answer.

It is read from a bounded part at the end of the session's transcript (`projects/<folder>/<session>.jsonl`). Lines of
sub-agents, hooks, settings and compaction are skipped. All text is the agent's, and not trusted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.tools.mngr_files import instant_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NOT_BY_A_PERSON = ("<command-", "<local-command-", "<bash-", "Caveat: ")
_MOST_LINES = 400


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The last turn. `is_there`: False for a conversation without messages.

    `is_interrupted`: the last message is a user's (the program notes an interruption as one). `asked_tool` and
    `asked`: the tool call without a result, and its action or question in one line. `error`: the API error that ended
    the turn. `at`: the time of the last line, seconds since the epoch.
    """

    is_there: bool = False
    is_interrupted: bool = False
    error: str = ""
    asked_tool: str = ""
    asked: str = ""
    at: float | None = None


NO_TURN = LastTurn()


def last_turn(tail: bytes, *, is_whole: bool) -> LastTurn:
    """Read the last turn from the end of a transcript. `is_whole`: `tail` begins at the beginning of a line."""
    answered: set[str] = set()
    asked: dict[str, Any] | None = None
    last: Mapping[str, Any] | None = None
    for record in _messages(tail, is_whole=is_whole):
        content = record["message"].get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        if record["type"] == "user" and not any(part.get("type") == "tool_result" for part in parts):
            last = last or record
            break
        last = last or record
        answered.update(str(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result")
        for part in parts:
            if part.get("type") == "tool_use" and str(part.get("id")) not in answered:
                asked = part
    if last is None:
        return NO_TURN
    at = instant_of(last.get("timestamp"))
    text = _words(last["message"].get("content"))
    if last["type"] == "user" and asked is None:
        # Claude Code notes an interruption, unless it came before its first word: then nothing follows the user's
        # message.
        return LastTurn(is_there=True, is_interrupted=True, at=at)
    if last.get("isApiErrorMessage") is True:
        return LastTurn(is_there=True, error=_error(text, last), at=at)
    if asked is None:
        return LastTurn(is_there=True, at=at)
    name = asked.get("name")
    return LastTurn(is_there=True, asked_tool=name if isinstance(name, str) else "", asked=asked_words(asked), at=at)


def asked_words(call: Mapping[str, Any]) -> str:
    """Describe a tool call's action or question, as a dialog shows it."""
    name, given = call.get("name"), call.get("input")
    name = name if isinstance(name, str) else "a tool"
    given = given if isinstance(given, dict) else {}
    if name == "AskUserQuestion":
        questions = given.get("questions")
        asked = (
            [each.get("question") for each in questions if isinstance(each, dict)]
            if isinstance(questions, list)
            else []
        )
        return " ".join(one for one in asked if isinstance(one, str))
    for key in ("command", "file_path", "path", "url", "query", "pattern", "prompt"):
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return f"{name} {value.strip()}"
    return name


def _messages(tail: bytes, *, is_whole: bool) -> Iterator[dict[str, Any]]:
    """Iterate over the messages of the user and the model, last first."""
    lines = tail.split(b"\n")
    for line in reversed((lines if is_whole else lines[1:])[-_MOST_LINES:]):
        if b'"message"' not in line:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut off at its beginning, or not written to its end yet
        if not isinstance(record, dict) or record.get("type") not in ("user", "assistant"):
            continue
        if record.get("isSidechain") is True or record.get("isMeta") is True or record.get("isCompactSummary") is True:
            continue
        message = record.get("message")
        if not isinstance(message, dict):
            continue
        if record["type"] == "user" and _words(message.get("content")).startswith(_NOT_BY_A_PERSON):
            continue
        yield record


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return " ".join(text for text in texts if isinstance(text, str))


def _error(text: str, record: Mapping[str, Any]) -> str:
    """Return the text of the error, with its status where the text lacks it."""
    status, name = record.get("apiErrorStatus"), record.get("error")
    words = text.strip() or (name.replace("_", " ") if isinstance(name, str) else "") or "API error"
    if not words.lower().startswith("api error"):
        words = f"API error: {words}"
    if isinstance(status, int) and str(status) not in words:
        words = f"{words} ({status})"
    return words
