"""The keys of a run's screen and of the start screen, and the reasons why a key is disabled. Pure.

A reason is a sentence: why the key is disabled and, where possible, what to do. None: the key works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.cluster_view import unreachable_reason
from selftest_core.run.events import Phase
from selftest_tui.shared.keys import APP, SPLIT, Key, KeyTable, Topic, Where, shown

if TYPE_CHECKING:
    from selftest_core.fleet.view import Row
    from selftest_core.run.fold import RunRow


@dataclass(frozen=True, slots=True)
class RunSituation:
    """The state that reasons depend on. `targets`: the tests of the group under the cursor, or the one test.

    `row`: the test under the cursor; `agent`: its agent in the fleet, None if unknown. `has_ended`: a test has ended;
    `is_over`: every test has. `has_files`: files came back for the test. `can_answer`: an ended agent among the targets
    can go on.
    """

    row: RunRow | None = None
    agent: Row | None = None
    on_group: bool = False
    targets: tuple[RunRow, ...] = ()
    shown: int = 0
    needing: int = 0
    can_answer: bool = False
    problems: int = 0
    has_ended: bool = False
    is_live: bool = False
    is_over: bool = False
    is_halted: bool = False
    is_starting: bool = False
    has_files: bool = False
    pane_is_open: bool = True
    is_filtered: bool = False


def one_test_disabled_reason(now: RunSituation) -> str | None:
    """The cursor must be on a test."""
    if now.row is not None:
        return None
    return _none_shown(now) or "The cursor is on a group: move to a test."


def targets_disabled_reason(now: RunSituation) -> str | None:
    """There must be a test to act on."""
    return None if now.targets else _none_shown(now)


def _none_shown(now: RunSituation) -> str | None:
    if now.shown:
        return None
    return (
        f"No test is shown: {shown('run.back', 'esc')} shows all again."
        if now.is_filtered
        else "There is no test here."
    )


def attach_disabled_reason(now: RunSituation) -> str | None:
    """There must be an agent with a terminal; a group opens and closes."""
    if now.on_group:
        return None
    if now.row is None:
        return one_test_disabled_reason(now)
    if now.agent is not None and (now.agent.session is not None or not now.agent.agent.host.is_local):
        return None
    return f"There is no terminal to attach to: {unreachable_reason(now.row) or 'its agent is not in the fleet yet'}."


def type_disabled_reason(now: RunSituation) -> str | None:
    """There must be a local tmux session."""
    if now.row is None:
        return one_test_disabled_reason(now)
    if now.agent is not None and now.agent.session is not None:
        return None
    if now.agent is not None and not now.agent.agent.host.is_local:
        return (
            "It runs on another machine, whose tmux is out of reach: attach "
            f"({shown('run.attach', '⏎')}) or send a message ({shown('run.message', 'm')})."
        )
    return f"There is no terminal to type into: {unreachable_reason(now.row) or 'its agent is not in the fleet yet'}."


def message_disabled_reason(now: RunSituation) -> str | None:
    """At least one agent must be reachable."""
    if not now.targets:
        return targets_disabled_reason(now)
    reasons = [unreachable_reason(row) for row in now.targets]
    if now.can_answer or not all(reasons):
        return None
    if len(reasons) == 1:
        return f"It cannot be messaged: {reasons[0]}."
    return f"None of these {len(reasons)} can be messaged; the first: {reasons[0]}."


def pause_disabled_reason(now: RunSituation) -> str | None:
    """The run must not be over or stopping."""
    if now.is_starting:
        return "Its conductor is being started."
    if now.is_over and not now.is_live:
        return f"The run is over: {shown('run.retry', 'A')} tries tests again."
    if now.is_halted and now.is_live:
        return "The run is stopping: its agents are stopped first."
    return None


def retry_disabled_reason(now: RunSituation) -> str | None:
    """A test must have ended."""
    if not now.targets:
        return targets_disabled_reason(now)
    if not any(row.phase in (Phase.ENDED, Phase.STOPPING) for row in now.targets):
        return _nothing(now, "has not ended yet", "of these tests has ended yet")
    return None


def skip_disabled_reason(now: RunSituation) -> str | None:
    """A test must be waiting."""
    if not now.targets:
        return targets_disabled_reason(now)
    if not any(row.phase is Phase.WAITING for row in now.targets):
        return _nothing(
            now, f"no longer waits for an agent: {shown('run.stop', 's')} stops it", "of these tests waits for an agent"
        )
    return conductor_disabled_reason(now)


def stop_disabled_reason(now: RunSituation) -> str | None:
    """An agent must be at work."""
    if not now.targets:
        return targets_disabled_reason(now)
    if not any(row.phase in (Phase.LAUNCHING, Phase.WORKING, Phase.PULLING) for row in now.targets):
        return _nothing(now, "has no agent at work", "of these tests has an agent at work")
    return conductor_disabled_reason(now)


def _nothing(now: RunSituation, one: str, many: str) -> str:
    return f"It {one}." if len(now.targets) == 1 else f"None {many}."


def conductor_disabled_reason(now: RunSituation) -> str | None:
    """A conductor must run."""
    if now.is_live:
        return None
    return "The run is over." if now.is_over else f"No conductor runs: {shown('run.pause', 'H')} resumes it."


def end_disabled_reason(now: RunSituation) -> str | None:
    """The run must be live."""
    return "The run is stopping already." if now.is_live and now.is_halted else conductor_disabled_reason(now)


def next_needing_disabled_reason(now: RunSituation) -> str | None:
    """An agent must need the user."""
    return None if now.needing else "No agent of this run needs you."


def compare_disabled_reason(now: RunSituation) -> str | None:
    """A test must have ended."""
    return None if now.has_ended else "No test of this run has ended yet."


def shell_disabled_reason(now: RunSituation) -> str | None:
    """Files must have come back."""
    return one_test_disabled_reason(now) or (None if now.has_files else "Nothing has come back for this test yet.")


_CONDUCT = "The run"
_ACT = "Act on the test under the cursor, or on its whole group when the cursor is on the title"

MOVE = (
    Key(("tab",), "tab", "next_needing", "next ◆", "to the next test whose agent needs you",
        Topic.MOVE, line=7, disabled_reason=next_needing_disabled_reason),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous ◆",
        "to the previous test whose agent needs you", Topic.MOVE,
        disabled_reason=next_needing_disabled_reason),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only tests that match: words of name, agent, state or failure, is:STATE, /REGEX/; ! inverts",
        Topic.FIND, line=9),
    Key(("a",), "a", "only_needing", "only ✗◆", "show only what failed, is blocked or needs you, or all again",
        Topic.FIND, line=10),
    Key(("o",), "o", "sort", "sort", "sort the tests of each group by a column; the same again reverses "
        "(mouse: the column's title)", Topic.FIND, opens=True),
    Key(("escape",), "esc", "back", "back", "close a zoomed pane, then clear the filter, then back to the fleet",
        Topic.FIND),
)  # fmt: skip

CONDUCT = (
    Key(("H",), "H", "pause", "pause/resume", "pause launching, or resume it; start the conductor again where it ended",
        _CONDUCT, line=3, disabled_reason=pause_disabled_reason),
    Key(("Q",), "Q", "end_run", "end run", "stop all agents and launch no more; asks first; H can resume it later",
        _CONDUCT, line=12, disabled_reason=end_disabled_reason, opens=True),
)  # fmt: skip

ACT = (
    Key(("enter",), "⏎", "attach", "attach",
        "attach to its agent's terminal (on a group: open or close it); detach brings you back here",
        _ACT, Where.TABLE, line=1, disabled_reason=attach_disabled_reason),
    Key(("i",), "i", "type", "type", "type into its agent's terminal from here", _ACT, line=4,
        disabled_reason=type_disabled_reason),
    Key(("m",), "m", "message", "message", "send a message to its agent, or to all of a cluster; an ended "
        "agent goes on with it in a new attempt",
        _ACT, line=4, disabled_reason=message_disabled_reason, opens=True),
    Key(("A",), "A", "retry", "try again", "try it again with a new agent; on a group all that have ended, after "
        "asking", _ACT, line=5, disabled_reason=retry_disabled_reason, opens=True),
    Key(("minus",), "-", "skip", "skip", "launch no agent for it; on a group all that wait, after asking",
        _ACT, line=14, disabled_reason=skip_disabled_reason, opens=True),
    Key(("s",), "s", "stop", "stop", "stop its agent and fetch what it has by then; asks first",
        _ACT, line=11, disabled_reason=stop_disabled_reason, opens=True),
    Key(("exclamation_mark",), "!", "shell", "shell", "open a shell in the folder of the files that came back",
        _ACT, disabled_reason=shell_disabled_reason),
    Key(("c",), "c", "copy", "copy test", "copy the id of the test", _ACT,
        disabled_reason=one_test_disabled_reason),
)  # fmt: skip

LOOK = (
    Key(("1",), "1", "outcome", "outcome", "the report of its agent; of a cluster: its evidence", Topic.LOOK, line=2),
    Key(("p", "2"), "p 2", "preview", "terminal", "its agent's terminal, live; the kept screen once it has ended",
        Topic.LOOK, line=8),
    Key(("d", "3"), "d 3", "details", "details", "all that is known about it, earlier attempts too", Topic.LOOK),
    Key(("4",), "4", "artifacts", "artifacts", "the files that came back", Topic.LOOK),
)  # fmt: skip

GO = (
    Key(("f",), "f", "fleet", "fleet", "to the fleet, on this agent; the run continues", Topic.GO, line=6),
    Key(("v",), "v", "review", "review", "review what its agents committed; more may arrive meanwhile", Topic.GO,
        line=6),
    Key(("r",), "r", "replay", "replay", "play the recording of its agent: live while it works, else where it failed",
        Topic.GO, line=7, disabled_reason=one_test_disabled_reason),
    Key(("ctrl+o",), "^o", "report", "report", "write the report, a page for the browser, and open it there", Topic.GO),
    Key(("C",), "C", "compare", "compare", "compare it with the run before: newly red, newly flaky, mended, slower, "
        "dearer, new and gone tests; ⏎ there opens a test", Topic.GO, disabled_reason=compare_disabled_reason,
        opens=True),
    Key(("t",), "t", "tutorial", "tutorial", "the tutorial's blocks, their tests and results", Topic.GO, line=13),
)  # fmt: skip

RUN = KeyTable("Run", MOVE + FIND + CONDUCT + ACT + LOOK + GO, SPLIT)

_BEGIN = "Before a run begins"

START = KeyTable(
    "Start of a run",
    (
        Key(("y", "Y"), "y", "begin", "begin the run", "yes: begin exactly what is shown here",
            _BEGIN, line=1, disabled_reason=lambda now: now),
        Key(("n", "N", "escape"), "n esc", "refuse", "leave", "no: leave; nothing was started", _BEGIN, line=2),
        Key(("J", "down", "j"), "↓ j", "scroll_down", "scroll down", "one line down", _BEGIN),
        Key(("K", "up", "k"), "↑ k", "scroll_up", "scroll up", "one line up", _BEGIN),
        Key(("pagedown", "space"), "PgDn", "page_down", "page down", "one page down", _BEGIN),
        Key(("pageup",), "PgUp", "page_up", "page up", "one page up", _BEGIN),
    ),
    APP,
    "start",
)  # fmt: skip
