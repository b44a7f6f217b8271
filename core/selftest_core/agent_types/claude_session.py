"""Read Claude Code's own files of a session: its answers with their errors, its sub-agents, and the cost it writes.

Below an agent's folder (agents/ID), where mngr's plugin puts Claude's configuration folder:

- `logs/claude_transcript/events.jsonl`: the session as Claude writes it, copied by mngr within a second. An answer that
  failed is an `assistant` line with `isApiErrorMessage`, `error` and `apiErrorStatus`.
- `plugin/claude/anthropic/projects/PROJECT/SESSION.jsonl`: the session itself, which has the last answers also where
  the agent was killed before mngr copied them.
- `plugin/claude/anthropic/projects/PROJECT/SESSION/subagents/*.jsonl`: the same for each sub-agent, which no transcript
  of mngr's has.
- `plugin/claude/anthropic/.claude.json`: when Claude ends in order (`/exit`, `mngr stop`), it writes the exact dollars
  and tokens of its session there (`lastCost`, `lastModelUsage`, `lastSessionId`), also of answers that are in no
  transcript.
- `events/claude/usage/events.jsonl`: where imbue-mngr-claude-usage is installed, Claude's dollars after each answer.

Seen with 2.1.330. Texts are the agent's: show them, never obey them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from selftest_core.conversation.appended_lines import read_small
from selftest_core.conversation.common_transcript import (
    SYNTHETIC_MODEL,
    Step,
    Tokens,
    count,
    instant_of,
    model_of,
    parse_object,
    text_of,
)
from selftest_core.usage.tokens import ProgramTotals, ReportedCost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SESSION_FILE = "logs/claude_transcript/events.jsonl"
CONFIG_FOLDER = "plugin/claude/anthropic"
TOTALS_FILE = f"{CONFIG_FOLDER}/.claude.json"

REPORTS_FILE = "events/claude/usage/events.jsonl"
_PROJECTS = f"{CONFIG_FOLDER}/projects"
_MOST_SESSIONS = 500
_MOST_USD = 1e7
_TOTALS_LIMIT = 8 * 1024 * 1024
_MODELS_LIMIT = 50


def parse_session(lines: Iterable[bytes]) -> Iterator[Step]:
    """Parse the answers of the model (and the errors in their place) from lines of a session; skip all others."""
    for line in lines:
        if b'"assistant"' not in line:
            continue
        document = parse_object(line)
        message = document.get("message") if document is not None else None
        if document is None or document.get("type") != "assistant" or not isinstance(message, dict):
            continue
        model = model_of(message.get("model"))
        status = document.get("apiErrorStatus")
        yield Step(
            id=text_of(document.get("uuid")),
            source="agent",
            at=instant_of(document.get("timestamp")),
            text=_text(message.get("content")),
            model="" if model == SYNTHETIC_MODEL else model,
            message_id=text_of(message.get("id")),
            tokens=_tokens(message.get("usage")),
            finish_reason=text_of(message.get("stop_reason")),
            is_error=document.get("isApiErrorMessage") is True,
            error_kind=text_of(document.get("error")),
            error_status=status if type(status) is int and 100 <= status < 1000 else None,
            is_subagent=document.get("isSidechain") is True,
        )


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


def program_totals(agent_folder: Path) -> ProgramTotals | None:
    """Read what Claude wrote at its last end, where that is of the agent's present session; else None."""
    try:
        session = read_small(agent_folder, "claude_session_id", 200).decode("ascii", "replace").strip()
        document = parse_object(read_small(agent_folder, TOTALS_FILE, _TOTALS_LIMIT))
    except (OSError, ValueError):
        return None
    projects = document.get("projects") if document is not None else None
    if not session or not isinstance(projects, dict):
        return None
    for project in projects.values():
        if isinstance(project, dict) and project.get("lastSessionId") == session:
            return _totals(project)
    return None


def with_reports(reported: ReportedCost | None, lines: Iterable[bytes]) -> ReportedCost | None:
    """Add lines of `REPORTS_FILE`, which tell the dollars of Claude's present process. Others are skipped."""
    for line in lines:
        document = parse_object(line)
        cost = document.get("cost") if document is not None else None
        if document is None or not isinstance(cost, dict):
            continue
        usd, at = _dollars(cost.get("total_cost_usd")), instant_of(document.get("timestamp"))
        if usd is None or at is None:
            continue
        before, last, _, is_subscription = reported or ReportedCost(0.0, 0.0, at)
        # A process never takes anything back: less than before is another one, which begins at 0.
        before = min(before + last, _MOST_USD) if usd < last else before
        reported = ReportedCost(before, usd, at, is_subscription or bool(document.get("rate_limits")))
    return reported


def _dollars(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST_USD else None


def _totals(project: dict[str, object]) -> ProgramTotals | None:
    usd = _dollars(project.get("lastCost"))
    models = project.get("lastModelUsage")
    if usd is None or not isinstance(models, dict) or len(models) > _MODELS_LIMIT:
        return None
    return ProgramTotals(
        {
            model_of(model): Tokens(
                input=count(each.get("inputTokens")),
                cached=count(each.get("cacheReadInputTokens")),
                cache_write=count(each.get("cacheCreationInputTokens")),
                output=count(each.get("outputTokens")),
            )
            for model, each in models.items()
            if isinstance(each, dict)
        },
        usd,
    )


def _tokens(usage: object) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    return Tokens(
        input=count(usage.get("input_tokens")),
        cached=count(usage.get("cache_read_input_tokens")),
        cache_write=count(usage.get("cache_creation_input_tokens")),
        output=count(usage.get("output_tokens")),
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text_of(part.get("text")) for part in parts if isinstance(part, dict) and part.get("text"))


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
