"""The fleet as a table for people: `selftest-tui list`. Pure: a view in, lines out.

What needs a person comes first. The lines fit the width that is given, 80 columns and less too: the name and the
reason give way, the state never. All text of agents is made harmless by `present`. Colour repeats what the symbol
says, so the table reads the same without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.attention import cost_of_waiting
from selftest_core.fleet.view import Category
from selftest_tui.shared.present import (
    SESSION_SYMBOL,
    WORDS,
    ago,
    clean,
    fit,
    fit_right,
    host_name,
    idle_for,
    plural,
    reason,
    running_for,
    symbol,
    test_or_branch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Problem, Row

LEAST_WIDTH = 40
_COLOURS = {
    Category.NEEDS_YOU: "35;1",
    Category.FAILED: "31",
    Category.WORKING: "32",
    Category.WAITING: "36",
    Category.DONE: "34",
    Category.STOPPED: "2",
    Category.UNKNOWN: "33",
}
_ORDER = {category: place for place, category in enumerate(Category)}


def fleet_lines(view: FleetView, now: float, width: int, *, colour: bool) -> list[str]:
    """The counts, a table of the agents, then the other tmux sessions; `width` in cells."""
    width = max(width, LEAST_WIDTH)
    if not view.rows and not view.sessions:
        return [fit("No agents. `selftest-tui demo` shows some; `mngr create` makes one.", width).rstrip()]
    lines = [fit(_counts(view), width).rstrip()]
    if view.rows:
        lines += [
            "",
            *_agents(
                sorted(view.rows, key=lambda row: (_ORDER[row.category], cost_of_waiting(row))),
                now,
                width,
                colour=colour,
            ),
        ]
    if view.sessions:
        lines += ["", f"{plural(len(view.sessions), 'other tmux session')}"]
        lines += [_session(session, now, width) for session in view.sessions]
    return lines


def problem_lines(problems: Sequence[Problem]) -> list[str]:
    """What is wrong, with its hint below: for stderr, where lines may be long."""
    lines = []
    for problem in problems:
        lines.append(f"! {clean(problem.title)}")
        # Long details (a provider's traceback) are for `--json` and the screen.
        lines += [f"  {clean(part)}" for part in problem.detail.splitlines()[:3] if part.strip()]
        lines += [f"  → {clean(part)}" for part in problem.hint.splitlines() if part.strip()]
    return lines


def _counts(view: FleetView) -> str:
    counted = [f"{count} {WORDS[category]}" for category, count in view.counts.items() if count]
    without_tmux = next((problem.title for problem in view.problems if problem.key == "tmux"), "")
    if without_tmux and view.counts[Category.UNKNOWN]:
        counted[-1] += f", as {clean(without_tmux)}"
    return f"{plural(len(view.rows), 'agent')}: {', '.join(counted)}" if view.rows else "No agents."


def _agents(rows: Sequence[Row], now: float, width: int, *, colour: bool) -> list[str]:
    wanted: dict[str, Callable[[Row], str]] = {
        "NAME": lambda row: row.agent.name,
        "WHERE": lambda row: host_name(row.agent),
        "RUNS": lambda row: running_for(row, now),
        "IDLE": lambda row: idle_for(row, now),
        "TEST OR BRANCH": lambda row: test_or_branch(row.agent),
        "WHY": lambda row: reason(row, now),
    }
    texts = {title: [clean(text(row)) for row in rows] for title, text in wanted.items()}
    widths = _widths({title: column for title, column in texts.items() if any(column)}, width - _STATE_WIDTH)
    header = " ".join([fit("  STATE", _STATE_WIDTH), *(_cell(title, title, cells) for title, cells in widths.items())])
    lines = [header.rstrip()]
    for number, row in enumerate(rows):
        state = fit(f"{symbol(row)} {row.agent.state.value.lower().replace('_', ' ')}", _STATE_WIDTH)
        if colour:
            state = f"\x1b[{'2' if row.stale_since is not None else _COLOURS[row.category]}m{state}\x1b[0m"
        cells = (_cell(title, texts[title][number], cells) for title, cells in widths.items())
        lines.append(" ".join([state, *cells]).rstrip())
    return lines


_STATE_WIDTH = 10
_LEAST = {"NAME": 12, "WHERE": 5, "RUNS": 6, "IDLE": 6, "TEST OR BRANCH": 14, "WHY": 10}
_MOST = {"NAME": 50, "WHERE": 24, "RUNS": 6, "IDLE": 6, "TEST OR BRANCH": 60, "WHY": 200}
# What goes first where the lines are short.
_LEAST_NEEDED = ("TEST OR BRANCH", "RUNS", "WHERE", "IDLE", "WHY")


def _widths(columns: dict[str, list[str]], width: int) -> dict[str, int]:
    """The width of each column that fits; each takes one more cell, for the space before it."""
    from rich.cells import cell_len

    asked = {title: min(max(map(cell_len, (title, *texts))), _MOST[title]) for title, texts in columns.items()}
    least = {title: min(_LEAST[title], cells) for title, cells in asked.items()}
    for title in _LEAST_NEEDED:
        if sum(cells + 1 for cells in least.values()) > width:
            least.pop(title, None)
    given = dict(least)
    spare = width - sum(cells + 1 for cells in given.values())
    for title in ("NAME", "WHERE", "RUNS", "IDLE", "WHY", "TEST OR BRANCH"):
        if title in given and spare > 0:
            more = min(asked[title] - given[title], spare)
            given[title] += more
            spare -= more
    return given


def _cell(title: str, text: str, cells: int) -> str:
    return fit_right(text, cells) if title in ("RUNS", "IDLE") else fit(text, cells)


def _session(session: TmuxSession, now: float, width: int) -> str:
    attached = ", attached" if session.attached else ""
    quiet = ago(now - session.activity_at)
    says = f"{session.command or 'nothing'}, {plural(session.windows, 'window')}{attached}, quiet for {quiet}"
    return fit(f"{SESSION_SYMBOL} {clean(session.ref.name)}  {says}  ({session.ref.socket})", width).rstrip()
