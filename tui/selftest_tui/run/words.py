"""Texts about a run for all screens: symbol, word and colour of each state, the run's state, its problems. Pure.

The symbol and the word carry the meaning; the colour repeats it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from selftest_core.fleet.view import Problem
from selftest_core.run.cluster_view import ClusterKind
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End, Group
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from selftest_core.fleet.view import Row
    from selftest_core.run.fold import Run, RunRow
    from selftest_tui.run.feed import RunNews

type How = End | Phase
"""The end of a test, or the phase that it is in."""


class Look(NamedTuple):
    """The look of a group of ends or of a phase. `style`: of text. `bar`: of its part of the bar, "" if it has none.

    `meaning`: for the help. `is_always`: show its count even if it is 0.
    """

    symbol: str
    word: str
    style: str
    meaning: str
    bar: str = ""
    is_always: bool = False


GROUPS: dict[Group, Look] = {
    Group.SUCCEEDED: Look(
        "✓", "succeeded", "$text-success", "succeeded, as its agent claims", "$success", is_always=True
    ),
    Group.UNCHANGED: Look("=", "unchanged", "$text-primary", "needs no change", "$primary", is_always=True),
    Group.BLOCKED: Look(
        "⊘", "blocked", "$text-warning", "blocked: its agent cannot continue without a person", "$warning",
        is_always=True,
    ),
    Group.FAILED: Look(
        "✗", "failed", "$text-error",
        "failed: not launched, crash, timeout, lost host, unreadable outcome, or the tests fail", "$error",
        is_always=True,
    ),
    Group.STOPPED: Look("■", "stopped", "$foreground-muted", "was stopped", "$foreground-muted"),
    Group.NOT_STARTED: Look("·", "not started", "$foreground-muted", "was not started", "$foreground-muted"),
}  # fmt: skip
"""The look of each group of ends, in the order of counts."""
_PHASES: dict[Phase, Look] = {
    Phase.WAITING: Look("…", "waiting", "$foreground-muted", "waits for an agent"),
    Phase.LAUNCHING: Look("◌", "launching", "$text-success", "its agent is being launched"),
    Phase.WORKING: Look("●", "working", "$text-success", "its agent works, or is being stopped"),
    Phase.PULLING: Look("↓", "collecting", "$text-success", "the results of its agent are being collected"),
    Phase.STOPPING: Look("●", "stopping", "$text-success", ""),
    Phase.ENDED: Look("✓", "ended", "$text-success", ""),
}


def look_of(how: How) -> Look:
    """Return the look of an end or a phase."""
    return GROUPS[how.group] if isinstance(how, End) else _PHASES[how]


SYMBOLS: dict[How, str] = {how: look_of(how).symbol for how in (*End, *Phase)}
WORDS: dict[How, str] = {**{end: end.label for end in End}, **{phase: _PHASES[phase].word for phase in Phase}}
STYLES: dict[How, str] = {how: look_of(how).style for how in (*End, *Phase)}

NEEDS_YOU = "◆"
CLUSTER_SIGNS: dict[ClusterKind, str] = {
    ClusterKind.ASKING: NEEDS_YOU,
    ClusterKind.LIMITED: "◔",
    ClusterKind.FAILED: GROUPS[Group.FAILED].symbol,
    ClusterKind.BLOCKED: GROUPS[Group.BLOCKED].symbol,
}
CLUSTER_STYLES: dict[ClusterKind, str] = {
    ClusterKind.ASKING: "$text-warning",
    ClusterKind.LIMITED: "$text-warning",
    ClusterKind.FAILED: GROUPS[Group.FAILED].style,
    ClusterKind.BLOCKED: GROUPS[Group.BLOCKED].style,
}

MEANINGS: tuple[tuple[str, str], ...] = (
    (NEEDS_YOU, "its agent needs you"),
    (CLUSTER_SIGNS[ClusterKind.LIMITED], "its agent is rate limited"),
    *((look.symbol, look.meaning) for look in (*_PHASES.values(), *GROUPS.values()) if look.meaning),
)
"""Every symbol of a run and its meaning, for the help."""


def symbol_and_word(how: How) -> str:
    """Return an end or phase as it is shown, as `✓ succeeded`."""
    return f"{SYMBOLS[how]} {WORDS[how]}"


_STAGES = {
    "collection": "at test collection",
    "launch": "at launch",
    "setup": "at setup",
    "work": "at work",
    "pull": "at collecting results",
    "verify": "when its claim was verified",
    "gate": "when its work was checked",
    "blocked": "",
    "waiting": "",
    "limited": "",
}
_LONGEST_STAGE = 20


def stage_words(stage: str) -> str:
    """Return when a test failed, as `at launch`; "" for stages that are no failures. `stage` is the journal's word."""
    return _STAGES.get(stage, f"at {present.clean(stage)[:_LONGEST_STAGE]}" if stage else "")


# the run


def no_terminal_reason(row: RunRow, agent: Row | None) -> str:
    """Return why no terminal can be shown."""
    if agent is not None and not agent.agent.host.is_local:
        return f"Its agent runs on another machine: {shown('run.attach', '⏎')} attaches to it."
    if row.phase is Phase.WAITING:
        return "It has no agent yet."
    if agent is not None:
        return f"Its agent is {agent.category.value}, and its terminal was not recorded."
    return "Its agent is gone, and its terminal was not recorded." if row.end else "Its agent is not listed yet."


def state_of(news: RunNews, is_starting: bool) -> str:
    """Return the run's state as a symbol and words."""
    run = news.run
    if is_starting:
        return "◌ resuming"
    if news.is_live:
        if run.is_halted:
            return "■ stopping"
        if any(one.is_ok is None for one in run.smoke):
            return "● trying one agent first"
        return "✓ ending" if run.is_over else "‖ paused" if run.paused else "● running"
    return "✓ ended" if run.is_over else "○ no conductor"


def run_problems(news: RunNews | None, is_starting: bool) -> tuple[Problem, ...]:
    """Return what keeps a run from going on, the gravest first."""
    if news is None or is_starting:
        return ()
    run, found = news.run, []
    failed = next((one for one in reversed(run.smoke) if one.is_ok is False), None)
    if run.left == "smoke" and failed is not None:
        hint = (
            "`selftest-tui doctor` looks for what is missing. Where a dialog was open, start the program once yourself "
            f"and answer it. Then {shown('run.pause', 'H')} resumes the run."
        )
        found.append(Problem("smoke", f"The smoke agent on {failed.place} failed", failed.says, hint))
    elif not news.is_live and not run.is_over:
        left = f"The last conductor ended: {run.left}." if run.left else "The last conductor ended without a reason."
        title = "This run has no conductor" if run.conductors else "This run was never started"
        found.append(
            Problem("conductor", title, left if run.conductors else "", f"{shown('run.pause', 'H')} resumes it.")
        )
    if run.paused and not run.is_over:
        paused = Problem("paused", f"Launching paused: {run.paused}", f"by {run.paused_by}", _way_out_of_pause(run))
        # The cause of a conductor's end comes before the end.
        found.insert(0 if run.left in ("budget", "paused") else len(found), paused)
    if run.slowed and not run.is_over:
        found.append(Problem("slowed", f"Launching slowed down: {run.slowed}", "", "It speeds up again by itself."))
    stuck = [row for row in run.rows.values() if row.says]
    if stuck:
        names = "\n".join(f"{row.planned.node_id}: {row.says}" for row in stuck[:50])
        title = f"{present.plural(len(stuck), 'agent')} could not be stopped"
        found.append(Problem("stopping", title, names, "`selftest-tui sweep` removes them."))
    return tuple(found)


def _way_out_of_pause(run: Run) -> str:
    """Return how launching goes on."""
    if run.paused_by == "budget":
        return (
            "Raise the budget in the settings; one of a day begins anew at midnight. Then "
            f"`selftest-tui resume {run.plan.run}` resumes the run."
        )
    accepts = ", and accepts this cause" if run.paused_by == "cluster" else ""
    return f"{shown('run.pause', 'H')} resumes launching{accepts}."


def run_way_back(run: str, news: RunNews | None) -> str:
    """Return what happens to a run after its screen closes, and the command that opens it again."""
    if news is not None and news.is_live:
        return f"The run {run} continues. `selftest-tui runs {run}` opens it again, `selftest-tui stop {run}` stops it."
    if news is not None and news.run is not None and not news.run.is_over:
        return f"The run {run} has no conductor. `selftest-tui resume {run}` resumes it."
    return f"`selftest-tui runs {run}` opens the run again, `selftest-tui review {run}` reviews it."
