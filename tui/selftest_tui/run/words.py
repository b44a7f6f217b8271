"""Looks of tests on every screen: a symbol, a word and a theme colour for each group of ends and each phase.

The symbol and the word carry the meaning; the colour repeats it.
"""

from __future__ import annotations

from typing import NamedTuple

from selftest_core.run.cluster_view import ClusterKind
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End, Group

type How = End | Phase
"""The end of a test, or the phase that it is in."""


class Look(NamedTuple):
    """How a group of ends or a phase looks. `style`: of text. `bar`: of its part of the bar, "" where it has none.

    `meaning`: for the help. `is_always`: its count is shown where it is 0 too.
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
        "failed: no launch, crash, timeout, lost host, unreadable outcome, or the test is still red", "$error",
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
    Phase.PULLING: Look("↓", "pulling", "$text-success", "its agent's results are being fetched"),
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


def words(how: How) -> str:
    """Return symbol and word: `✓ succeeded`."""
    return f"{SYMBOLS[how]} {WORDS[how]}"
