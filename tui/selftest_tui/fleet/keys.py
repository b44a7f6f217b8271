"""The keys of the fleet's screen."""

from __future__ import annotations

from selftest_tui.fleet import situation
from selftest_tui.shared.keys import APP, Key, KeyTable, Topic, Where, move

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
        Topic.MOVE, line=5, why_not=situation.someone_needs_me),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous ◆",
        "to the previous agent that needs you", Topic.MOVE, why_not=situation.someone_needs_me),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only agents whose name, test, branch, host or labels have these words, as you type", Topic.FIND, line=3),
    Key(("tilde",), "~", "search_text", "text in panes",
        "search all panes (^r: their scrollback too) and what agents said and did; the hits become the marked ones",
        Topic.FIND, line=7, why_not=situation.panes_to_search),
    Key(("a",), "a", "only_me", "only ◆", "show only what needs you, or all again", Topic.FIND, line=6),
    Key(("g",), "g", "group", "group", "group by attention, state, host, project, run or a label",
        Topic.FIND, line=11, opens=True),
    Key(("o",), "o", "sort", "sort", "sort by urgency, name, running time, idle time or newest",
        Topic.FIND, line=12, opens=True),
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
        Topic.ACT, why_not=situation.can_type_many, opens=True),
    Key(("m",), "m", "message", "message", "send a message to one or many agents",
        Topic.ACT, line=4, why_not=situation.some_target, opens=True),
    Key(("s",), "s", "stop", "stop", "stop agents; asks first",
        Topic.ACT, line=13, why_not=situation.can_stop, opens=True),
    Key(("S",), "S", "start", "start", "start stopped agents, or ended ones again; asks first",
        Topic.ACT, why_not=situation.can_start, opens=True),
    Key(("D",), "D", "destroy", "destroy", "destroy agents and their work; names each one first and defaults to No",
        Topic.ACT, why_not=situation.some_target, opens=True),
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
    Key(("M",), "M", "messages", "messages", "its last messages and tool calls",
        Topic.LOOK, why_not=situation.agent_here),
    Key(("z",), "z", "zoom", "zoom", "the right pane over the whole screen, and back", Topic.LOOK, line=10),
    Key(("J", "shift+down"), "J", "scroll_down", "scroll down", "scroll the right pane down",
        Topic.LOOK, why_not=situation.pane_open),
    Key(("K", "shift+up"), "K", "scroll_up", "scroll up", "scroll the right pane up",
        Topic.LOOK, why_not=situation.pane_open),
)  # fmt: skip

PROGRAM = (
    Key(("w",), "w", "run", "run", "the run that this agent belongs to, else the newest run of this repository",
        Topic.PROGRAM, line=14),
    Key(("v",), "v", "review", "review", "review the commits of the marked agents, or of the one under the cursor",
        Topic.PROGRAM, line=10, why_not=situation.some_target),
    Key(("r",), "r", "replay", "replay", "play the recording of its terminal, from its end back", Topic.PROGRAM,
        line=11, why_not=situation.agent_here),
    Key(("t",), "t", "tutorial", "tutorial", "the tutorial's blocks, their tests and how these ended",
        Topic.PROGRAM, line=15),
    Key(("R",), "R", "refresh", "refresh", "ask mngr and tmux again, now", Topic.PROGRAM),
    Key(("e",), "e", "problems", "problems", "what does not work right now, what mends it, and what was said last",
        Topic.PROGRAM, why_not=situation.some_problem, opens=True),
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
