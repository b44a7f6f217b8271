"""The keys of the fleet's screen, and the reasons why a key is disabled. Pure.

A reason is a sentence: why the key is disabled and, where possible, what to do. None: the key works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agents import State
from selftest_core.frozen import dataclass
from selftest_tui.shared import present
from selftest_tui.shared.keys import SCROLLBACK, SPLIT, Key, KeyTable, Topic, Where, shown

if TYPE_CHECKING:
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import Row


@dataclass(frozen=True, slots=True)
class Situation:
    """The state that disabled keys depend on. `targets`: the marked agents, else the one under the cursor."""

    row: Row | None = None
    session: TmuxSession | None = None
    on_group: bool = False
    targets: tuple[Row, ...] = ()
    agents: int = 0
    shown: int = 0
    needing: int = 0
    problems: int = 0
    marked: int = 0
    to_clear: bool = False
    is_searchable: bool = False
    pane_is_open: bool = True
    is_filtered: bool = False
    hidden: int = 0
    views: int = 0


def mark_disabled_reason(now: Situation) -> str | None:
    """There must be an agent or a session."""
    if now.shown or now.session is not None:
        return None
    if now.hidden and not now.is_filtered:
        return f"All agents are of runs that ended more than a day ago: {shown('fleet.hide_old', '^e')} shows them."
    if now.agents:
        return f"No agent is shown: {shown('fleet.back', 'esc')} clears the filter."
    return "There is no agent yet."


def agent_disabled_reason(now: Situation) -> str | None:
    """The cursor must be on an agent."""
    if now.row is not None:
        return None
    if now.session is not None:
        return (
            "This is a tmux session of your own, no agent: only attach "
            f"({shown('fleet.attach', '⏎')}) and preview ({shown('fleet.preview', 'p')}) work on it."
        )
    return mark_disabled_reason(now) or "The cursor is on a group: move to an agent."


def targets_disabled_reason(now: Situation) -> str | None:
    """At least one agent must be marked or under the cursor."""
    return None if now.targets else agent_disabled_reason(now)


def attach_disabled_reason(now: Situation) -> str | None:
    """There must be a session; a group opens and closes."""
    if now.session is not None or now.on_group:
        return None
    if now.row is None:
        return agent_disabled_reason(now)
    if now.row.agent.host.is_local and now.row.session is None:
        name, state = present.clean(now.row.agent.name), present.WORDS[now.row.category]
        return f"{name} has no tmux session to attach to (it is {state}): {shown('fleet.start', 'S')} starts it."
    return None


def type_disabled_reason(now: Situation) -> str | None:
    """There must be a local tmux session."""
    if now.session is not None or (now.row is not None and now.row.session is not None):
        return None
    if now.row is None:
        return agent_disabled_reason(now)
    if not now.row.agent.host.is_local:
        return (
            "It runs on another machine, whose tmux is out of reach: attach "
            f"({shown('fleet.attach', '⏎')}) or send a message ({shown('fleet.message', 'm')})."
        )
    return (
        f"{present.clean(now.row.agent.name)} has no tmux session to type into: {shown('fleet.start', 'S')} starts it."
    )


def type_many_disabled_reason(now: Situation) -> str | None:
    """One of the agents must have a local tmux session."""
    if not now.targets:
        return agent_disabled_reason(now)
    if not any(row.session is not None for row in now.targets):
        return "None of these agents has a tmux session on this machine."
    return None


def stop_disabled_reason(now: Situation) -> str | None:
    """An agent must be running."""
    if now.targets and all(row.agent.state is State.STOPPED for row in now.targets):
        return f"Already stopped: {_named(now.targets)}."
    return targets_disabled_reason(now)


def start_disabled_reason(now: Situation) -> str | None:
    """An agent must not be running."""
    running = (State.RUNNING, State.WAITING, State.RUNNING_UNKNOWN_AGENT_TYPE)
    if now.targets and all(row.agent.state in running and row.session is not None for row in now.targets):
        return f"Already running: {_named(now.targets)}."
    return targets_disabled_reason(now)


def copy_disabled_reason(now: Situation) -> str | None:
    """There must be a branch to copy."""
    if now.row is not None and not now.row.agent.branch:
        return f"{present.clean(now.row.agent.name)} works on no branch of its own."
    return agent_disabled_reason(now)


def shell_disabled_reason(now: Situation) -> str | None:
    """The work folder must be known."""
    if now.row is not None and not now.row.agent.work_dir:
        return f"The work folder of {present.clean(now.row.agent.name)} is not known."
    return agent_disabled_reason(now)


def next_needing_disabled_reason(now: Situation) -> str | None:
    """An agent must need the user."""
    if now.needing:
        return None
    return "No agent that is shown needs you." if now.is_filtered else "No agent needs you."


def views_disabled_reason(now: Situation) -> str | None:
    """There must be a view in the settings."""
    return None if now.views else 'No view is saved. In the settings: [views], and a line such as mine = "is:waiting".'


def search_disabled_reason(now: Situation) -> str | None:
    """There must be a terminal or a conversation."""
    return None if now.is_searchable else "There is no tmux session and no conversation on this machine."


def clear_disabled_reason(now: Situation) -> str | None:
    """There must be a filter, a mark or a zoomed pane."""
    return None if now.to_clear else "Nothing to clear: no filter, no marks."


def _named(rows: tuple[Row, ...]) -> str:
    return present.clean(rows[0].agent.name) if len(rows) == 1 else f"all {len(rows)} agents"


MOVE = (
    Key(("tab",), "tab", "next_needing", "next ◆", "to the next agent that needs you",
        Topic.MOVE, line=5, disabled_reason=next_needing_disabled_reason),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous ◆",
        "to the previous agent that needs you", Topic.MOVE, disabled_reason=next_needing_disabled_reason),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only agents that match: words, is:STATE, label:NAME, /REGEX/; ! inverts", Topic.FIND, line=3),
    Key(("ctrl+v",), "^v", "views", "views", "show one of the views of the settings: filters with a name", Topic.FIND,
        disabled_reason=views_disabled_reason, opens=True),
    Key(("tilde",), "~", "search_text", "text in panes",
        "search all terminals (^r: their scrollback too) and conversations; agents with matches become the marked ones",
        Topic.FIND, line=7, disabled_reason=search_disabled_reason),
    Key(("a",), "a", "only_needing", "only ◆", "show only agents that need you, or all again", Topic.FIND, line=6),
    Key(("ctrl+e",), "^e", "hide_old", "hide old runs",
        "hide agents of runs that ended more than a day ago, or show them; remembered", Topic.FIND),
    Key(("g",), "g", "group", "group", "group by attention, state, host, project, run or a label",
        Topic.FIND, line=11, opens=True),
    Key(("o",), "o", "sort", "sort",
        "sort by urgency, name, times or a column; again: reversed (mouse: its title)",
        Topic.FIND, line=12, opens=True),
)  # fmt: skip

MARK = (
    Key(("space",), "space", "mark", "mark", "mark this agent, or unmark it; on a group: all of it",
        Topic.MARK, Where.TABLE, line=8, disabled_reason=mark_disabled_reason),
    Key(("V",), "V", "mark_range", "mark a range", "start a range, move, and V again ends it (mouse: shift+click)",
        Topic.MARK, Where.TABLE, disabled_reason=mark_disabled_reason),
    Key(("ctrl+a",), "^a", "mark_all", "mark all shown", "mark all agents that are shown",
        Topic.MARK, Where.TABLE, disabled_reason=mark_disabled_reason),
    Key(("escape",), "esc", "back", "clear", "close a zoomed pane, then clear the range, the filter, the marks",
        Topic.MARK, disabled_reason=clear_disabled_reason),
)  # fmt: skip

ACT = (
    Key(("enter",), "⏎", "attach", "attach",
        "attach to its terminal (on a group: open or close it); detach brings you back here",
        Topic.ACT, Where.TABLE, line=1, disabled_reason=attach_disabled_reason),
    Key(("i",), "i", "type", "type", "type into its terminal from here",
        Topic.ACT, line=2, disabled_reason=type_disabled_reason),
    Key(("I",), "I", "type_many", "type into many", "type the same into all marked agents; lists them first",
        Topic.ACT, disabled_reason=type_many_disabled_reason, opens=True),
    Key(("m",), "m", "message", "message", "send a message to one or many agents; one of a run that has ended goes on",
        Topic.ACT, line=4, disabled_reason=targets_disabled_reason, opens=True),
    Key(("s",), "s", "stop", "stop", "stop agents; asks first",
        Topic.ACT, line=13, disabled_reason=stop_disabled_reason, opens=True),
    Key(("S",), "S", "start", "start", "start stopped agents, or ended ones again; asks first",
        Topic.ACT, disabled_reason=start_disabled_reason, opens=True),
    Key(("D",), "D", "destroy", "destroy", "destroy agents and their work; lists them first, the default is No",
        Topic.ACT, disabled_reason=targets_disabled_reason, opens=True),
    Key(("exclamation_mark",), "!", "shell", "shell", "open a shell in its work folder",
        Topic.ACT, disabled_reason=shell_disabled_reason),
    Key(("c",), "c", "copy", "copy branch", "copy the name of its branch",
        Topic.ACT, disabled_reason=copy_disabled_reason),
)  # fmt: skip

LOOK = (
    Key(("p", "1"), "p 1", "preview", "preview", "its terminal, live", Topic.LOOK),
    Key(("d", "2"), "d 2", "details", "details", "all that is known about it", Topic.LOOK),
    Key(("3",), "3", "explain", "explain", "why it has this state: each source with its time",
        Topic.LOOK, line=9, disabled_reason=agent_disabled_reason),
    Key(("M", "4"), "M 4", "messages", "messages", "its last messages and tool calls",
        Topic.LOOK, disabled_reason=agent_disabled_reason),
)  # fmt: skip

GO = (
    Key(("w",), "w", "run", "run", "the run that this agent belongs to, else the newest run of this repository",
        Topic.GO, line=14),
    Key(("v",), "v", "review", "review", "review the commits of the marked agents, or of the one under the cursor",
        Topic.GO, line=10, disabled_reason=targets_disabled_reason),
    Key(("r",), "r", "replay", "replay", "play the recording of its terminal, from its end back", Topic.GO,
        line=11, disabled_reason=agent_disabled_reason),
    Key(("t",), "t", "tutorial", "tutorial", "the tutorial's blocks, their tests and results", Topic.GO, line=15),
    Key((), "^p", "key_guard", "key guard", "key guard, in the palette: mngr's Ctrl-Q and Ctrl-T ask first in agents' "
        "terminals, or act at once again", Topic.PROGRAM),
    Key(("R",), "R", "refresh", "refresh", "ask mngr and tmux again, now", Topic.PROGRAM),
)  # fmt: skip

TYPING = (
    SCROLLBACK,
    Key(("ctrl+right_square_bracket",), "^]", "leave_typing", "leave", "stop typing into an agent; all other keys go "
        "to it, esc and ^c too", Topic.PROMPT, Where.TYPING),
)  # fmt: skip


FLEET = KeyTable("Fleet", MOVE + FIND + MARK + ACT + LOOK + GO + TYPING, SPLIT)
