"""Costs that Claude Code itself writes, read from files below an agent's folder (agents/ID).

- `plugin/claude/anthropic/.claude.json`: at an orderly end (`/exit`, `mngr stop`), Claude writes the exact dollars and
  tokens of its session here (`lastCost`, `lastModelUsage`, `lastSessionId`), including answers that no transcript has.
- `events/claude/usage/events.jsonl`: where imbue-mngr-claude-usage is installed, Claude's dollars after each answer.

Seen with 2.1.330.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.conversation.appended_lines import read_small
from selftest_core.conversation.common_transcript import Tokens, count, model_of, parse_object
from selftest_core.tools.mngr_files import instant_of
from selftest_core.usage.tokens import ProgramTotals, ReportedCost

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TOTALS_FILE = "plugin/claude/anthropic/.claude.json"
REPORTS_FILE = "events/claude/usage/events.jsonl"
_MOST_USD = 1e7
_TOTALS_LIMIT = 8 * 1024 * 1024
_MODELS_LIMIT = 50


def program_totals(agent_folder: Path) -> ProgramTotals | None:
    """Read the totals that Claude wrote at its last end; None where they are of another session."""
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
    """Add lines of `REPORTS_FILE`, which have the dollars of Claude's current process. Others are skipped."""
    for line in lines:
        document = parse_object(line)
        cost = document.get("cost") if document is not None else None
        if document is None or not isinstance(cost, dict):
            continue
        usd, at = _dollars(cost.get("total_cost_usd")), instant_of(document.get("timestamp"))
        if usd is None or at is None:
            continue
        before, last, _, is_subscription = reported or ReportedCost(0.0, 0.0, at)
        # The dollars of a process never decrease: less than before means another process, which begins at 0.
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
