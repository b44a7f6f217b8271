"""How a run goes, in words: the symbol at its top, and what holds it up. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.view import Problem
from selftest_core.run.events import Phase
from selftest_tui.shared import present

if TYPE_CHECKING:
    from selftest_core.fleet.view import Row
    from selftest_core.run.fold import RunRow
    from selftest_tui.run.feed import RunNews


def no_terminal(row: RunRow, agent: Row | None) -> str:
    """Why no terminal can be shown."""
    if agent is not None and not agent.agent.host.is_local:
        return "Its agent runs on another machine: ⏎ attaches to it."
    if row.phase is Phase.WAITING:
        return "It has no agent yet."
    if agent is not None:
        return f"Its agent is {agent.category.value}, and nothing was kept of its terminal."
    return "Its agent is gone, and nothing was kept of its terminal." if row.end else "Its agent is not seen yet."


def state_of(news: RunNews, is_starting: bool) -> str:
    """How the run goes, in a symbol and a word."""
    run = news.run
    if is_starting:
        return "◌ being taken up"
    if news.is_live:
        if run.is_halted:
            return "■ stopping"
        if any(one.is_ok is None for one in run.smoke):
            return "● trying one agent first"
        return "✓ ending" if run.is_over else "‖ paused" if run.paused else "● running"
    return "✓ over" if run.is_over else "○ nobody conducts it"


def run_problems(news: RunNews | None, is_starting: bool) -> tuple[Problem, ...]:
    """What holds a run up, the gravest first."""
    if news is None or is_starting:
        return ()
    run, found = news.run, []
    failed = next((one for one in reversed(run.smoke) if one.is_ok is False), None)
    if run.left == "smoke" and failed is not None:
        hint = (
            "`selftest-tui doctor` looks for what is missing. Where a dialog was open, start the program once yourself "
            "and answer it. Then H resumes the run."
        )
        found.append(Problem("smoke", f"The smoke agent on {failed.place} failed", failed.says, hint))
    elif not news.is_live and not run.is_over:
        left = f"the last conductor left: {run.left}" if run.left else "its conductor ended without a word"
        title = "Nobody conducts this run" if run.conductors else "This run was never begun"
        found.append(Problem("conductor", title, left if run.conductors else "", "H resumes it."))
    if run.paused and not run.is_over:
        hint = (
            "H resumes launching, and lets this cluster pass." if run.paused_by == "cluster" else "H resumes launching."
        )
        found.append(Problem("paused", f"Launching rests: {run.paused}", f"by {run.paused_by}", hint))
    if run.slowed and not run.is_over:
        found.append(Problem("slowed", f"Launching goes slowly: {run.slowed}", "", "It goes on by itself."))
    stuck = [row for row in run.rows.values() if row.says]
    if stuck:
        names = "\n".join(f"{row.planned.node_id}: {row.says}" for row in stuck[:50])
        title = f"{present.plural(len(stuck), 'agent')} could not be stopped"
        found.append(Problem("stopping", title, names, "`selftest-tui sweep` ends what is left."))
    return tuple(found)


def run_way_back(run: str, news: RunNews | None) -> str:
    """What becomes of a run whose screen is left, and the command that comes back to it."""
    if news is not None and news.is_live:
        return f"The run {run} goes on. `selftest-tui runs {run}` comes back to it, `selftest-tui stop {run}` ends it."
    if news is not None and news.run is not None and not news.run.is_over:
        return f"Nobody conducts the run {run}. `selftest-tui resume {run}` goes on with it."
    return f"`selftest-tui runs {run}` comes back to the run, `selftest-tui review {run}` reviews it."
