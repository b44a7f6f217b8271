"""The place of each error: a toast for a failed action, the banner for a lasting problem, the middle of an empty table.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from selftest_core.fleet.view import Problem
from selftest_core.frozen import dataclass
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.errors import SelftestError
    from selftest_core.fleet.view import FleetView
    from selftest_tui.fleet.arrangement import Arranged, Arrangement

type Severity = Literal["information", "warning", "error"]

# The gravest first: without mngr nothing else matters, without tmux nothing can be attached to.
_GRAVEST = ("watch", "mngr", "tmux")
_DETAIL_LINES = 6


@dataclass(frozen=True, slots=True)
class Toast:
    """A message that disappears after `seconds`."""

    text: str
    title: str = ""
    severity: Severity = "information"
    seconds: float = 4.0


def said(text: str, title: str, severity: Severity) -> Toast:
    """Make a message of an action. Warnings last longer: the user may come back from an agent's terminal."""
    return Toast(text, title, severity, 4.0 if severity == "information" else 10.0)


def refusal(label: str, why: str) -> Toast:
    """The reason why a key is disabled."""
    return Toast(present.clean(why), present.clean(label), "warning", 6.0)


def act_failed(error: SelftestError) -> Toast:
    """A failed action: what failed, the last lines of the details, and what to do."""
    detail = [present.clean(line) for line in error.detail.splitlines() if line.strip()][-_DETAIL_LINES:]
    text = "\n".join([*detail, *([present.clean(error.hint)] if error.hint else [])])
    return Toast(text or "No details are known.", present.clean(error.title), "error", 12.0)


def lasting(key: str, error: SelftestError) -> Problem:
    """A lasting error, for the banner."""
    return Problem(key, error.title, error.detail, error.hint)


def in_order(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Sort the problems: the gravest first, then by arrival."""
    rank = {key: place for place, key in enumerate(_GRAVEST)}
    return tuple(sorted(problems, key=lambda problem: rank.get(problem.key, len(rank))))


def instead_of_rows(
    view: FleetView | None, arranged: Arranged, how: Arrangement, problems: Sequence[Problem]
) -> tuple[str, ...]:
    """The text of a table without a line; its first line is the headline."""
    if how.query and (view is None or view.rows or view.sessions):
        return (f"Nothing matches “{how.query}”", "", f"{shown('fleet.back', 'esc')} clears the filter")
    if how.only_me and arranged.agents:
        return (
            "Nothing needs you",
            "",
            f"{shown('fleet.only_needing', 'a')} shows all {present.plural(arranged.agents, 'agent')} again",
        )
    if arranged.hidden and arranged.hidden == arranged.agents:
        return (
            "All agents are of runs that ended more than a day ago",
            "",
            f"{shown('fleet.hide_old', '^e')} shows them",
        )
    grave = next((problem for problem in in_order(problems) if problem.key in _GRAVEST), None)
    if grave is not None:
        words = [grave.title, "", *grave.detail.splitlines()[:_DETAIL_LINES], *grave.hint.splitlines()]
        return (*words, "", "selftest-tui doctor         shows what else is missing")
    if view is None or not view.has_local_answer:
        return ("Looking for agents …",)
    return (
        "No agents yet",
        "",
        "mngr create NAME            start one in this repository",
        "selftest-tui demo           a small fleet to try things on",
        "selftest-tui doctor         is everything installed?",
        "",
        "What you start appears here by itself.",
    )
