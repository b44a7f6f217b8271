"""The one table of keys. Bindings, key line, command palette, help screen and README are all made from it.

A row says where a key works and why it would not, so that a key that refuses can say so. Rows are grouped and ordered
as help shows them. `action` is also the name of the method that does it (`do_<action>` of the fleet screen), and the
name under which tests press it: a test fails when a row is never pressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from selftest_tui import situation
from selftest_tui.situation import Reason, always


class Where(StrEnum):
    """Who has the key: the table (only while it has the focus), the fleet screen, the whole application,

    the prompt line, or the right pane while it is typed into (which has its own binding of it).
    """

    TABLE = "table"
    FLEET = "fleet"
    APP = "app"
    PROMPT = "prompt"
    TYPING = "typing"


class Topic(StrEnum):
    """The headings of the help screen, in its order."""

    MOVE = "Move"
    FIND = "Find and arrange"
    MARK = "Mark"
    ACT = "Act on the marked agents, or the one under the cursor"
    LOOK = "The right pane"
    PROMPT = "While typing"
    PROGRAM = "Program"


@dataclass(frozen=True, slots=True)
class Key:
    """One row. `keys` as Textual names them; `shows` as people write them; `label` for the key line, `help` in full.

    `line`: its place in the key line, lowest first and kept longest when space is short; 0 for none.
    """

    keys: tuple[str, ...]
    shows: str
    action: str
    label: str
    help: str
    topic: Topic
    where: Where = Where.FLEET
    line: int = 0
    why_not: Reason = always
    priority: bool = False


def _move(keys: str, shows: str, action: str, text: str) -> Key:
    return Key(tuple(keys.split()), shows, action, action.replace("_", " "), text, Topic.MOVE, Where.TABLE)


MOVE = (
    _move("down j", "↓ j", "down", "one line down"),
    _move("up k", "↑ k", "up", "one line up"),
    _move("pagedown ctrl+f", "PgDn ^f", "page_down", "one page down"),
    _move("pageup ctrl+b", "PgUp ^b", "page_up", "one page up"),
    _move("home", "Home", "first", "to the first line"),
    _move("end G", "End G", "last", "to the last line"),
    _move("left h", "← h", "close_group", "close this group"),
    _move("right l", "→ l", "open_group", "open this group"),
    Key(("tab",), "tab", "next_needing", "next ◆", "to the next agent that needs you",
        Topic.MOVE, line=5, why_not=situation.someone_needs_me),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous ◆",
        "to the previous agent that needs you", Topic.MOVE, why_not=situation.someone_needs_me),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only agents whose name, test, branch, host or labels have these words, as you type", Topic.FIND, line=3),
    Key(("tilde",), "~", "search_text", "text in panes",
        "search what all panes show now (^r: their scrollback too); the hits become the marked ones",
        Topic.FIND, line=7, why_not=situation.panes_to_search),
    Key(("a",), "a", "only_me", "only ◆", "show only what needs you, or all again", Topic.FIND, line=6),
    Key(("g",), "g", "group", "group", "group by attention, state, host, project, run or a label", Topic.FIND, line=11),
    Key(("o",), "o", "sort", "sort", "sort by urgency, name, running time, idle time or newest", Topic.FIND, line=12),
)  # fmt: skip

MARK = (
    Key(("space",), "space", "mark", "mark", "mark this agent, or unmark it; on a group: all of it",
        Topic.MARK, Where.TABLE, line=8, why_not=situation.agents_shown),
    Key(("V",), "V", "mark_range", "mark a range", "start a range, move, and V again ends it (mouse: shift+click)",
        Topic.MARK, Where.TABLE, why_not=situation.agents_shown),
    Key(("ctrl+a",), "^a", "mark_all", "mark all shown", "mark all agents that are shown",
        Topic.MARK, Where.TABLE, why_not=situation.agents_shown),
    Key(("escape",), "esc", "clear", "clear", "clear the range, then the filter, then the marks; close a zoomed pane",
        Topic.MARK, why_not=situation.something_to_clear),
)  # fmt: skip

ACT = (
    Key(("enter",), "⏎", "attach", "attach",
        "attach to its terminal (on a group: open or close it); detach brings you back here",
        Topic.ACT, Where.TABLE, line=1, why_not=situation.can_attach),
    Key(("i",), "i", "type", "type", "type into its terminal from here, in the preview",
        Topic.ACT, line=2, why_not=situation.can_type),
    Key(("I",), "I", "type_many", "type into many", "type the same into all marked agents, targets shown first",
        Topic.ACT, why_not=situation.can_type_many),
    Key(("m",), "m", "message", "message", "send a message to one or many agents",
        Topic.ACT, line=4, why_not=situation.some_target),
    Key(("s",), "s", "stop", "stop", "stop agents; asks first", Topic.ACT, line=13, why_not=situation.can_stop),
    Key(("S",), "S", "start", "start", "start stopped agents, or ended ones again; asks first",
        Topic.ACT, why_not=situation.can_start),
    Key(("D",), "D", "destroy", "destroy", "destroy agents and their work; names each one first and defaults to No",
        Topic.ACT, why_not=situation.some_target),
    Key(("exclamation_mark",), "!", "shell", "shell", "open a shell in its work folder",
        Topic.ACT, why_not=situation.has_work_dir),
    Key(("y",), "y", "copy_branch", "copy branch", "copy the name of its branch",
        Topic.ACT, why_not=situation.has_branch),
)  # fmt: skip

LOOK = (
    Key(("p",), "p", "preview", "preview", "its terminal, live", Topic.LOOK),
    Key(("d",), "d", "details", "details", "all that is known about it", Topic.LOOK),
    Key(("x",), "x", "explain", "explain", "why it has this state: who said what, and when",
        Topic.LOOK, line=9, why_not=situation.agent_here),
    Key(("M",), "M", "messages", "messages", "its last messages", Topic.LOOK, why_not=situation.agent_here),
    Key(("z",), "z", "zoom", "zoom", "the right pane over the whole screen, and back", Topic.LOOK, line=10),
    Key(("J", "shift+down"), "J", "scroll_down", "scroll down", "scroll the right pane down",
        Topic.LOOK, why_not=situation.pane_open),
    Key(("K", "shift+up"), "K", "scroll_up", "scroll up", "scroll the right pane up",
        Topic.LOOK, why_not=situation.pane_open),
)  # fmt: skip

PROGRAM = (
    Key(("R",), "R", "refresh", "refresh", "ask mngr and tmux again, now", Topic.PROGRAM),
    Key(("e",), "e", "problems", "problems", "what does not work right now, what mends it, and what was said last",
        Topic.PROGRAM, why_not=situation.some_problem),
    Key(("T",), "T", "theme", "theme", "choose the colours: light, dark and others", Topic.PROGRAM),
    Key(("question_mark",), "?", "help", "help", "this help", Topic.PROGRAM, Where.APP, line=1),
    Key(("ctrl+p",), "^p", "palette", "palette", "all actions by name", Topic.PROGRAM, Where.APP, line=2),
    Key(("q",), "q", "leave", "quit", "quit; the agents go on", Topic.PROGRAM, Where.APP, line=3),
    Key(("ctrl+c",), "^c", "interrupt", "quit", "close what lies on top; else quit", Topic.PROGRAM, Where.APP,
        priority=True),
    Key(("ctrl+q",), "^q", "no_quit", "nothing", "does nothing here, on purpose: inside an agent's terminal mngr's "
        "ctrl+q destroys the agent, so no finger should learn it", Topic.PROGRAM, Where.APP),
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

KEYS: tuple[Key, ...] = MOVE + FIND + MARK + ACT + LOOK + PROMPT + PROGRAM
BY_ACTION = {key.action: key for key in KEYS}


def of(where: Where) -> tuple[Key, ...]:
    """The keys that work there, in the table's order."""
    return tuple(key for key in KEYS if key.where is where)


def key_line() -> tuple[tuple[Key, ...], tuple[Key, ...]]:
    """What the bottom line offers, the most wanted first: acts (left), and the program's own (right)."""
    wanted = sorted((key for key in KEYS if key.line), key=lambda key: key.line)
    return (
        tuple(key for key in wanted if key.where is not Where.APP),
        tuple(key for key in wanted if key.where is Where.APP),
    )


def by_topic() -> tuple[tuple[Topic, tuple[Key, ...]], ...]:
    """The whole table under its headings."""
    return tuple((topic, tuple(key for key in KEYS if key.topic is topic)) for topic in Topic)


def readme_table() -> str:
    """The table as Markdown, for the README (a test compares)."""
    lines = ["| key | does |", "| --- | --- |"]
    for topic, keys in by_topic():
        lines.append(f"| | **{topic.value}** |")
        lines += [f"| `{key.shows}` | {key.help} |" for key in keys]
    return "\n".join(lines) + "\n"
