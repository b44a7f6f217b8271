"""The keys of a run's screen, and of the screen that asks before one begins."""

from __future__ import annotations

from selftest_tui.run import situation as run_situation
from selftest_tui.shared.keys import APP, Key, KeyTable, Topic, Where, move

_CONDUCT = "Conduct the run"
_ACT = "Act on the test under the cursor, or on all of its group when the cursor is on the title"

MOVE = (
    move("down j", "↓ j", "down", "one line down"),
    move("up k", "↑ k", "up", "one line up"),
    move("pagedown ctrl+f", "PgDn ^f", "page_down", "one page down"),
    move("pageup ctrl+b", "PgUp ^b", "page_up", "one page up"),
    move("home", "Home", "first", "to the first line"),
    move("end G", "End G", "last", "to the last line"),
    move("left h", "← h", "close_group", "close this group"),
    move("right l", "→ l", "open_group", "open this group"),
    Key(("tab",), "tab", "next_needing", "next ◆", "to the next test whose agent needs you",
        Topic.MOVE, line=7, why_not=run_situation.someone_needs_me),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous ◆",
        "to the previous test whose agent needs you", Topic.MOVE, why_not=run_situation.someone_needs_me),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only tests whose name, agent, state or failure has these words, as you type", Topic.FIND, line=9),
    Key(("a",), "a", "only_open", "only ✗◆", "show only what failed, is blocked or needs you, or all again",
        Topic.FIND, line=10),
    Key(("escape",), "esc", "clear", "back", "close a zoomed pane, clear the filter; then back to the fleet",
        Topic.FIND, why_not=run_situation.something_to_clear),
)  # fmt: skip

CONDUCT = (
    Key(("P",), "P", "pause", "pause/go", "pause launching; go on; take the run up again where nobody conducts it",
        _CONDUCT, line=3, why_not=run_situation.can_pause),
    Key(("E",), "E", "end_run", "end run", "stop all agents and launch no more; asks first, and P can go on later",
        _CONDUCT, line=12, why_not=run_situation.can_end, opens=True),
    Key(("f",), "f", "fleet", "fleet", "to the fleet, on this agent; the run goes on", _CONDUCT, line=6),
    Key(("v",), "v", "review", "review", "review what its agents committed; more may arrive meanwhile", _CONDUCT,
        line=6),
    Key(("r",), "r", "replay", "replay", "play the recording of its agent: live while it works, else where it failed",
        _CONDUCT, line=7, why_not=run_situation.test_here),
    Key(("t",), "t", "tutorial", "tutorial", "the tutorial's blocks with their tests", _CONDUCT, line=13),
)  # fmt: skip

ACT = (
    Key(("enter",), "⏎", "attach", "attach",
        "attach to its agent's terminal (on a group: open or close it); detach brings you back here",
        _ACT, Where.TABLE, line=1, why_not=run_situation.can_attach),
    Key(("i",), "i", "type", "type", "type into its agent's terminal from here", _ACT, line=4,
        why_not=run_situation.can_type),
    Key(("m",), "m", "message", "message", "send a message to its agent, or to all of a cluster",
        _ACT, line=4, why_not=run_situation.can_message, opens=True),
    Key(("R",), "R", "retry", "retry", "try it again with a new agent; on a group all that have ended, after asking",
        _ACT, line=5, why_not=run_situation.can_retry, opens=True),
    Key(("minus",), "-", "skip", "skip", "launch no agent for it; on a group all that wait, after asking",
        _ACT, line=14, why_not=run_situation.can_skip, opens=True),
    Key(("s",), "s", "stop_one", "stop", "stop its agent and take what it has by then; asks first",
        _ACT, line=11, why_not=run_situation.can_stop, opens=True),
    Key(("exclamation_mark",), "!", "shell", "shell", "open a shell in the folder of what came back",
        _ACT, why_not=run_situation.has_files),
    Key(("y",), "y", "copy_test", "copy test", "copy the id of the test", _ACT, why_not=run_situation.test_here),
)  # fmt: skip

LOOK = (
    Key(("o",), "o", "outcome", "outcome", "what its agent reported; of a cluster: its evidence", Topic.LOOK, line=2),
    Key(("p",), "p", "preview", "terminal", "its agent's terminal, live; once it ended, what was kept of it",
        Topic.LOOK, line=8),
    Key(("d",), "d", "details", "details", "all that is known about it, earlier attempts too", Topic.LOOK),
    Key(("A",), "A", "artifacts", "artifacts", "the files that came back", Topic.LOOK),
    Key(("z",), "z", "zoom", "zoom", "the right pane over the whole screen, and back", Topic.LOOK, line=15),
    Key(("J", "shift+down"), "J", "scroll_down", "scroll down", "scroll the right pane down",
        Topic.LOOK, why_not=run_situation.pane_open),
    Key(("K", "shift+up"), "K", "scroll_up", "scroll up", "scroll the right pane up",
        Topic.LOOK, why_not=run_situation.pane_open),
)  # fmt: skip

PROMPT = (
    Key(("up",), "↑", "prompt_up", "up", "filter: the cursor one line up", Topic.PROMPT, Where.PROMPT),
    Key(("down",), "↓", "prompt_down", "down", "filter: the cursor one line down", Topic.PROMPT, Where.PROMPT),
    Key(("escape",), "esc", "prompt_cancel", "cancel", "leave the prompt and clear the filter",
        Topic.PROMPT, Where.PROMPT),
)  # fmt: skip

PROGRAM = (
    Key(("e",), "e", "problems", "problems", "what does not work right now, and what was said last",
        Topic.PROGRAM, why_not=run_situation.some_problem, opens=True),
    Key(("T",), "T", "theme", "theme", "choose the colours: light, dark and others", Topic.PROGRAM, opens=True),
)  # fmt: skip

RUN = KeyTable("Run", MOVE + FIND + CONDUCT + ACT + LOOK + PROMPT + PROGRAM + APP)

_BEGIN = "Before a run begins"

START = KeyTable(
    "Start of a run",
    (
        Key(("y", "Y"), "y", "begin", "begin the run", "begin: what is shown here starts, and nothing else",
            _BEGIN, line=1, why_not=lambda now: now),
        Key(("n", "N", "escape"), "n esc", "refuse", "leave", "leave; nothing was started", _BEGIN, line=2),
        Key(("J", "down", "j"), "↓ j", "scroll_down", "scroll down", "one line down", _BEGIN),
        Key(("K", "up", "k"), "↑ k", "scroll_up", "scroll up", "one line up", _BEGIN),
        Key(("pagedown", "space"), "PgDn", "page_down", "page down", "one page down", _BEGIN),
        Key(("pageup",), "PgUp", "page_up", "page up", "one page up", _BEGIN),
        Key(("T",), "T", "theme", "theme", "choose the colours: light, dark and others", Topic.PROGRAM, opens=True),
        *APP,
    ),
)  # fmt: skip
