"""The keys of the fleet's screen, and the reasons why a key is disabled. Pure.

A reason is a whole sentence: what is in the way and, where there is one, the way out. None: the key works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agents import State
from selftest_core.frozen import dataclass
from selftest_tui.shared import present
from selftest_tui.shared.keys import APP, Key, KeyTable, Topic, Where, move

if TYPE_CHECKING:
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import Row


@dataclass(frozen=True, slots=True)
class Situation:
    """What the keys' reasons depend on. `targets`: the marked agents, else the one under the cursor."""

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


def mark_disabled_reason(now: Situation) -> str | None:
    """There must be something to act on."""
    if now.shown or now.session is not None:
        return None
    if now.agents:
        return "No agent is shown: escape clears the filter."
    return "There is no agent yet."


def agent_disabled_reason(now: Situation) -> str | None:
    """The cursor must be on an agent."""
    if now.row is not None:
        return None
    if now.session is not None:
        return "This is a tmux session of your own, no agent: only attach (⏎) and preview (p) work on it."
    return mark_disabled_reason(now) or "The cursor is on a group: move to an agent."


def targets_disabled_reason(now: Situation) -> str | None:
    """At least one agent must be marked or under the cursor."""
    return None if now.targets else agent_disabled_reason(now)


def attach_disabled_reason(now: Situation) -> str | None:
    """An agent with a session, or any session; a group opens and closes."""
    if now.session is not None or now.on_group:
        return None
    if now.row is None:
        return agent_disabled_reason(now)
    if now.row.agent.host.is_local and now.row.session is None:
        name, state = present.clean(now.row.agent.name), present.WORDS[now.row.category]
        return f"{name} has no tmux session to attach to (it is {state}): S starts it."
    return None


def type_disabled_reason(now: Situation) -> str | None:
    """What is typed goes to a local tmux session."""
    if now.session is not None or (now.row is not None and now.row.session is not None):
        return None
    if now.row is None:
        return agent_disabled_reason(now)
    if not now.row.agent.host.is_local:
        return "It runs on another machine, whose tmux is out of reach from here: attach (⏎) or send a message (m)."
    return f"{present.clean(now.row.agent.name)} has no tmux session to type into: S starts it."


def type_many_disabled_reason(now: Situation) -> str | None:
    """Several agents are typed into together; one is what `i` is for."""
    if not now.targets:
        return agent_disabled_reason(now)
    if not any(row.session is not None for row in now.targets):
        return "None of these agents has a tmux session that can be typed into from here."
    return None


def stop_disabled_reason(now: Situation) -> str | None:
    """Something must be running."""
    if now.targets and all(row.agent.state is State.STOPPED for row in now.targets):
        return f"Already stopped: {_named(now.targets)}."
    return targets_disabled_reason(now)


def start_disabled_reason(now: Situation) -> str | None:
    """Something must not be running."""
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
    """There must be a folder to open a shell in."""
    if now.row is not None and not now.row.agent.work_dir:
        return f"Where {present.clean(now.row.agent.name)} works is not known."
    return agent_disabled_reason(now)


def next_needing_disabled_reason(now: Situation) -> str | None:
    """Tab needs somewhere to go."""
    if now.needing:
        return None
    return "No agent that is shown needs you." if now.is_filtered else "No agent needs you."


def search_disabled_reason(now: Situation) -> str | None:
    """A search needs panes or conversations."""
    return None if now.is_searchable else "No tmux session and no conversation is in reach to be searched."


def clear_disabled_reason(now: Situation) -> str | None:
    """Escape peels off the filter, the marks, the range."""
    return None if now.to_clear else "Nothing to clear: no filter, no marks."


def problems_disabled_reason(now: Situation) -> str | None:
    """The list of problems and of what was said must not be empty."""
    return None if now.problems else "No problem is known: everything answers."


def scroll_disabled_reason(now: Situation) -> str | None:
    """The right pane must be on the screen."""
    return None if now.pane_is_open else "The right pane is closed: p opens it."


def _named(rows: tuple[Row, ...]) -> str:
    return present.clean(rows[0].agent.name) if len(rows) == 1 else f"all {len(rows)} agents"


MOVE = (
    move("down j", "↓ j", "down", "one line down"),
    move("up k", "↑ k", "up", "one line up"),
    move("pagedown ctrl+f", "PgDn ^f", "page_down", "one page down"),
    move("pageup ctrl+b", "PgUp ^b", "page_up", "one page up"),
    move("home", "Home", "first", "to the first line"),
    move("end G", "End G", "last", "to the last line"),
    move("left h", "← h", "close_group", "close this group"),
    move("right l", "→ l", "open_group", "open this group"),
    Key(("tab",), "tab", "next_needing", "next ◆", "to the next agent that needs you",
        Topic.MOVE, line=5, disabled_reason=next_needing_disabled_reason),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous ◆",
        "to the previous agent that needs you", Topic.MOVE, disabled_reason=next_needing_disabled_reason),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only agents whose name, test, branch, host or labels have these words, as you type", Topic.FIND, line=3),
    Key(("tilde",), "~", "search_text", "text in panes",
        "search all panes (^r: their scrollback too) and what agents said and did; the hits become the marked ones",
        Topic.FIND, line=7, disabled_reason=search_disabled_reason),
    Key(("a",), "a", "only_me", "only ◆", "show only what needs you, or all again", Topic.FIND, line=6),
    Key(("g",), "g", "group", "group", "group by attention, state, host, project, run or a label",
        Topic.FIND, line=11, opens=True),
    Key(("o",), "o", "sort", "sort", "sort by urgency, name, running time, idle time or newest",
        Topic.FIND, line=12, opens=True),
)  # fmt: skip

MARK = (
    Key(("space",), "space", "mark", "mark", "mark this agent, or unmark it; on a group: all of it",
        Topic.MARK, Where.TABLE, line=8, disabled_reason=mark_disabled_reason),
    Key(("V",), "V", "mark_range", "mark a range", "start a range, move, and V again ends it (mouse: shift+click)",
        Topic.MARK, Where.TABLE, disabled_reason=mark_disabled_reason),
    Key(("ctrl+a",), "^a", "mark_all", "mark all shown", "mark all agents that are shown",
        Topic.MARK, Where.TABLE, disabled_reason=mark_disabled_reason),
    Key(("escape",), "esc", "clear", "clear", "clear the range, then the filter, then the marks; close a zoomed pane",
        Topic.MARK, disabled_reason=clear_disabled_reason),
)  # fmt: skip

ACT = (
    Key(("enter",), "⏎", "attach", "attach",
        "attach to its terminal (on a group: open or close it); detach brings you back here",
        Topic.ACT, Where.TABLE, line=1, disabled_reason=attach_disabled_reason),
    Key(("i",), "i", "type", "type", "type into its terminal from here, in the preview",
        Topic.ACT, line=2, disabled_reason=type_disabled_reason),
    Key(("I",), "I", "type_many", "type into many", "type the same into all marked agents, targets shown first",
        Topic.ACT, disabled_reason=type_many_disabled_reason, opens=True),
    Key(("m",), "m", "message", "message", "send a message to one or many agents",
        Topic.ACT, line=4, disabled_reason=targets_disabled_reason, opens=True),
    Key(("s",), "s", "stop", "stop", "stop agents; asks first",
        Topic.ACT, line=13, disabled_reason=stop_disabled_reason, opens=True),
    Key(("S",), "S", "start", "start", "start stopped agents, or ended ones again; asks first",
        Topic.ACT, disabled_reason=start_disabled_reason, opens=True),
    Key(("D",), "D", "destroy", "destroy", "destroy agents and their work; names each one first and defaults to No",
        Topic.ACT, disabled_reason=targets_disabled_reason, opens=True),
    Key(("exclamation_mark",), "!", "shell", "shell", "open a shell in its work folder",
        Topic.ACT, disabled_reason=shell_disabled_reason),
    Key(("y",), "y", "copy_branch", "copy branch", "copy the name of its branch",
        Topic.ACT, disabled_reason=copy_disabled_reason),
)  # fmt: skip

LOOK = (
    Key(("p",), "p", "preview", "preview", "its terminal, live", Topic.LOOK),
    Key(("d",), "d", "details", "details", "all that is known about it", Topic.LOOK),
    Key(("x",), "x", "explain", "explain", "why it has this state: who said what, and when",
        Topic.LOOK, line=9, disabled_reason=agent_disabled_reason),
    Key(("M",), "M", "messages", "messages", "its last messages and tool calls",
        Topic.LOOK, disabled_reason=agent_disabled_reason),
    Key(("z",), "z", "zoom", "zoom", "the right pane over the whole screen, and back", Topic.LOOK, line=10),
    Key(("J", "shift+down"), "J", "scroll_down", "scroll down", "scroll the right pane down",
        Topic.LOOK, disabled_reason=scroll_disabled_reason),
    Key(("K", "shift+up"), "K", "scroll_up", "scroll up", "scroll the right pane up",
        Topic.LOOK, disabled_reason=scroll_disabled_reason),
)  # fmt: skip

PROGRAM = (
    Key(("w",), "w", "run", "run", "the run that this agent belongs to, else the newest run of this repository",
        Topic.PROGRAM, line=14),
    Key(("v",), "v", "review", "review", "review the commits of the marked agents, or of the one under the cursor",
        Topic.PROGRAM, line=10, disabled_reason=targets_disabled_reason),
    Key(("r",), "r", "replay", "replay", "play the recording of its terminal, from its end back", Topic.PROGRAM,
        line=11, disabled_reason=agent_disabled_reason),
    Key(("t",), "t", "tutorial", "tutorial", "the tutorial's blocks, their tests and how these ended",
        Topic.PROGRAM, line=15),
    Key(("R",), "R", "refresh", "refresh", "ask mngr and tmux again, now", Topic.PROGRAM),
    Key(("e",), "e", "problems", "problems", "what does not work right now, what mends it, and what was said last",
        Topic.PROGRAM, disabled_reason=problems_disabled_reason, opens=True),
    Key(("T",), "T", "theme", "theme", "choose the colours: light, dark and others", Topic.PROGRAM, opens=True),
)  # fmt: skip

PROMPT = (
    Key(("up",), "↑", "prompt_up", "up", "filter: the cursor one line up", Topic.PROMPT, Where.PROMPT),
    Key(("down",), "↓", "prompt_down", "down", "filter: the cursor one line down", Topic.PROMPT, Where.PROMPT),
    Key(("ctrl+r",), "^r", "prompt_history", "scrollback", "search: whether the scrollback is searched too",
        Topic.PROMPT, Where.PROMPT),
    Key(("escape",), "esc", "prompt_cancel", "cancel", "leave the prompt and clear the filter",
        Topic.PROMPT, Where.PROMPT),
    Key(("ctrl+right_square_bracket",), "^]", "leave_typing", "leave", "stop typing into an agent: all other keys, "
        "esc and ^c too, go to it", Topic.PROMPT, Where.TYPING),
)  # fmt: skip


FLEET = KeyTable("Fleet", MOVE + FIND + MARK + ACT + LOOK + PROMPT + PROGRAM + APP)
