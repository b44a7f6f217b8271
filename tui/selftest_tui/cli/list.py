"""Command `list`: the fleet once, as a table or as JSON.

Agents that need the user come first. The table fits its width, also below 80 columns: names and reasons are shortened,
states never. All texts of agents are made harmless by `present`. Colour repeats the symbol, so the table reads the
same without it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.fleet.attention import cost_of_waiting
from selftest_core.fleet.problems import MNGR
from selftest_core.fleet.view import Category
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, Progress, print_lines, write_answer
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
    from collections.abc import Callable, Mapping, Sequence

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Problem, Row
    from selftest_tui.cli.command import AddCommand, Call
    from selftest_tui.fleet.arrangement import LineKey

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


def add_list(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """Ends with 0 even where a provider does not answer: its agents are shown as they were last known, marked as
        stale, and its error is printed. Ends with 1 where mngr itself gives no answer.""",
        """
        selftest-tui list
        selftest-tui list --no-wait        without asking mngr
        selftest-tui list --filter 'is:needs-you !provider:modal'
        selftest-tui list --cel 'labels.project == "api"'
        selftest-tui list --json | jq -r '.agents[] | [.name, .state] | @tsv'
        selftest-tui list --json --socket /tmp/other/tmux-1000/default
        """,
    )
    command.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    command.add_argument(
        "--no-wait", action="store_true", help="do not ask mngr: local agents as they are, others as last known"
    )
    command.add_argument(
        "--filter", metavar="QUERY", help="only agents and sessions that match, in the language of / on the screens"
    )
    command.add_argument(
        "--cel", metavar="EXPR", help="only agents that match this expression; mngr list --include reads it"
    )
    command.set_defaults(run=list_fleet)


def list_fleet(call: Call) -> int:
    """Observe the fleet once and print it. A failing provider is part of the answer, a failing mngr leaves it open."""
    from selftest_core.fleet.watch.fleet_watch import observe_once
    from selftest_core.fleet.watch.poll_schedule import watch_settings

    config, environ, arguments = call.config, call.environ, call.arguments
    if arguments.cel and arguments.no_wait:
        raise UsageError("--cel needs mngr, and --no-wait does not ask it", "", "Use --filter, which needs no mngr.")
    if arguments.filter:
        _refuse_query(arguments.filter)
    with Progress("asking mngr"):
        settings = watch_settings(config, call.cwd)
        with ThreadPoolExecutor(1) as pool:
            matching = pool.submit(_matching_agents, call) if arguments.cel else None
            view = observe_once(environ, settings, config.list_deadline, wait=not arguments.no_wait)
        if matching is not None:
            keys = matching.result()
            view = dataclasses.replace(view, rows=tuple(row for row in view.rows if row.key in keys), sessions=())
    if arguments.filter:
        view = _filtered(view, arguments.filter)
    if call.is_for_programs:
        from selftest_core.schema.fleet import list_document

        write_answer(list_document(view).model_dump(mode="json"), is_batch=call.arguments.batch)
        return SOMETHING_LEFT if _lacks_answer(view) else DONE
    if not view.rows and not view.sessions and (arguments.filter or arguments.cel):
        print_lines(["No agent matches."])
    else:
        width = shutil.get_terminal_size((80, 24)).columns
        print_lines(fleet_lines(view, time.time(), width, colour=_has_colour(environ)))
    for line in problem_lines(view.problems):
        sys.stderr.write(line + "\n")
    return SOMETHING_LEFT if _lacks_answer(view) else DONE


def _lacks_answer(view: FleetView) -> bool:
    return any(problem.key == MNGR for problem in view.problems)


def _matching_agents(call: Call) -> frozenset[AgentKey]:
    """Return the agents that match `--cel`, as mngr says. Raises ToolError for an expression that it refuses."""
    from selftest_core.fleet.sources.mngr_list import list_agents
    from selftest_core.tools.mngr import Mngr, find_mngr

    mngr = Mngr(find_mngr(call.environ), call.environ, call.cwd)
    listed = asyncio.run(list_agents(mngr, timeout=call.config.list_deadline, include=call.arguments.cel))
    return frozenset(agent.key for agent in listed.agents)


def _refuse_query(query: str) -> None:
    from selftest_tui.fleet.arrangement import FILTER
    from selftest_tui.shared.filter import help_lines, problem_of

    problem = problem_of(query, FILTER)
    if problem:
        fields = dict(help_lines(FILTER))["fields"]
        raise UsageError(f"--filter: {problem}", "", f"Fields: {fields}. `?` on the fleet screen shows every form.")


def _filtered(view: FleetView, query: str) -> FleetView:
    """Return the view with what the filter of the fleet screen finds."""
    from selftest_tui.fleet.arrangement import FILTER, facts_of, items_of
    from selftest_tui.shared.filter import Finder

    finder: Finder[LineKey, Row | TmuxSession] = Finder(facts_of, FILTER)
    found = finder.find(items_of(view), query)
    if found is None:
        return view
    rows = tuple(row for row in view.rows if row.key in found)
    return dataclasses.replace(view, rows=rows, sessions=tuple(one for one in view.sessions if one.ref in found))


def _has_colour(environ: Mapping[str, str]) -> bool:
    return not environ.get("NO_COLOR") and environ.get("TERM") not in (None, "", "dumb") and os.isatty(1)


# the table


def fleet_lines(view: FleetView, now: float, width: int, *, colour: bool) -> list[str]:
    """Return the counts, a table of the agents, then the other tmux sessions; `width` in cells."""
    width = max(width, LEAST_WIDTH)
    if not view.rows and not view.sessions and _lacks_answer(view):
        return [fit("No agents are known: mngr gave no answer.", width).rstrip()]
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
    """Return the problems with their hints, for stderr, where lines may be long."""
    lines = []
    for problem in problems:
        lines.append(f"! {clean(problem.title)}")
        # Long details, such as a provider's traceback, are in `--json` and on the screen.
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
_LEAST_NEEDED = ("TEST OR BRANCH", "RUNS", "WHERE", "IDLE", "WHY")
"""Columns that are left out if there is no room, the first of them first."""


def _widths(columns: dict[str, list[str]], width: int) -> dict[str, int]:
    """Return the width of each column that fits; each takes one more cell, for the space before it."""
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
