"""How a test of a run is shown, in one place for every screen: a symbol, a word, a theme colour. Pure.

The symbol and the word carry the meaning; the colour repeats it.
"""

from __future__ import annotations

from selftest_core.run.cluster_view import ClusterKind
from selftest_core.run.events import FAILURES, End, Phase

type How = End | Phase
"""How a test ended, or the phase that it is in."""

SYMBOLS: dict[How, str] = {
    End.SUCCEEDED: "✓",
    End.UNCHANGED: "=",
    End.BLOCKED: "⊘",
    End.STOPPED: "■",
    End.NOT_STARTED: "·",
    **dict.fromkeys(FAILURES, "✗"),
    Phase.WAITING: "…",
    Phase.LAUNCHING: "◌",
    Phase.WORKING: "●",
    Phase.PULLING: "↓",
    Phase.STOPPING: "●",
    Phase.ENDED: "✓",
}
WORDS: dict[How, str] = {
    End.SUCCEEDED: "succeeded",
    End.UNCHANGED: "unchanged",
    End.BLOCKED: "blocked",
    End.STOPPED: "stopped",
    End.NOT_STARTED: "not started",
    End.LAUNCH: "no launch",
    End.CRASH: "crashed",
    End.TIMEOUT: "timed out",
    End.LOST: "host lost",
    End.UNREADABLE: "unreadable",
    End.RED: "red",
    Phase.WAITING: "waiting",
    Phase.LAUNCHING: "launching",
    Phase.WORKING: "working",
    Phase.PULLING: "pulling",
    Phase.STOPPING: "stopping",
    Phase.ENDED: "ended",
}
STYLES: dict[How, str] = {
    End.SUCCEEDED: "$text-success",
    End.UNCHANGED: "$text-primary",
    End.BLOCKED: "$text-warning",
    End.STOPPED: "$foreground-muted",
    End.NOT_STARTED: "$foreground-muted",
    **dict.fromkeys(FAILURES, "$text-error"),
    Phase.WAITING: "$foreground-muted",
    Phase.LAUNCHING: "$text-success",
    Phase.WORKING: "$text-success",
    Phase.PULLING: "$text-success",
    Phase.STOPPING: "$text-success",
    Phase.ENDED: "$text-success",
}

NEEDS_YOU = "◆"
CLUSTER_SIGNS: dict[ClusterKind, str] = {
    ClusterKind.ASKING: NEEDS_YOU,
    ClusterKind.LIMITED: "◔",
    ClusterKind.FAILED: "✗",
    ClusterKind.BLOCKED: "⊘",
}
CLUSTER_STYLES: dict[ClusterKind, str] = {
    ClusterKind.ASKING: "$text-warning",
    ClusterKind.LIMITED: "$text-warning",
    ClusterKind.FAILED: "$text-error",
    ClusterKind.BLOCKED: "$text-warning",
}

MEANINGS: tuple[tuple[str, str], ...] = (
    (NEEDS_YOU, "its agent needs you"),
    (CLUSTER_SIGNS[ClusterKind.LIMITED], "a service takes no more from its agent for now"),
    (SYMBOLS[End.RED], "failed: no launch, crash, timeout, lost host, unreadable outcome, or the test is still red"),
    (SYMBOLS[End.BLOCKED], "blocked: its agent says that it cannot go on without a person"),
    (SYMBOLS[Phase.WORKING], "its agent works, or is being stopped"),
    (SYMBOLS[Phase.LAUNCHING], "its agent is being made"),
    (SYMBOLS[Phase.PULLING], "what its agent left is being fetched"),
    (SYMBOLS[Phase.WAITING], "waits for an agent"),
    (SYMBOLS[End.SUCCEEDED], "succeeded, as its agent claims"),
    (SYMBOLS[End.UNCHANGED], "needs no change"),
    (SYMBOLS[End.STOPPED], "was stopped"),
    (SYMBOLS[End.NOT_STARTED], "was not started"),
)
"""Every symbol of a run and what it means, for the help."""


def words(how: How) -> str:
    """`✓ succeeded`."""
    return f"{SYMBOLS[how]} {WORDS[how]}"
