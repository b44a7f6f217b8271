"""The keys of a review's screen. Keep, revert, scroll and undo are where fingers that know lazygit look for them."""

from __future__ import annotations

from selftest_tui.review import situation as why
from selftest_tui.shared.keys import APP, Key, KeyTable, Topic, Where, move

_DECIDE = "Decide on the change under the cursor, or on all of its group when the cursor is on the title"
_LINE = "The line"
_DIFF = "The diff"

MOVE = (
    move("down j", "↓ j", "down", "one line down"),
    move("up k", "↑ k", "up", "one line up"),
    move("pagedown ctrl+f", "PgDn ^f", "page_down", "one page down"),
    move("pageup ctrl+b", "PgUp ^b", "page_up", "one page up"),
    move("home", "Home", "first", "to the first line"),
    move("end G", "End G", "last", "to the last line"),
    move("left h", "← h", "close_group", "close this group"),
    move("right l", "→ l", "open_group", "open this group"),
    Key(("tab",), "tab", "next_open", "next open", "to the next change that is undecided or held",
        Topic.MOVE, line=5, why_not=why.something_open),
    Key(("shift+tab",), "shift+tab", "previous_open", "previous open", "to the one before", Topic.MOVE,
        why_not=why.something_open),
)  # fmt: skip

DECIDE = (
    Key(("y",), "y", "keep", "keep", "keep it: it is published", _DECIDE, line=1, why_not=why.can_keep),
    Key(("d",), "d", "revert", "revert", "revert it: it is dropped from the line; says first what needs it, and what "
        "it would let in", _DECIDE, line=2, why_not=why.can_revert, opens=True),
    Key(("space",), "space", "undecide", "undecided", "undecided: it is laid, to be seen and tested, and never "
        "published", _DECIDE, Where.TABLE, line=3, why_not=why.can_unset),
    Key(("Y",), "Y", "keep_many", "keep many", "keep all of its agents, of its kind, all like it, or all that is "
        "shown; names them first", _DECIDE, why_not=why.some_target, opens=True),
    Key(("D",), "D", "revert_many", "revert many", "the same, to revert", _DECIDE, why_not=why.some_target, opens=True),
    Key(("U",), "U", "undecide_many", "many undecided", "the same, to make undecided", _DECIDE,
        why_not=why.some_target, opens=True),
    Key(("p",), "p", "pick", "pick", "keep this one of its alternatives, and revert the others", _DECIDE,
        why_not=why.can_pick),
    Key(("n",), "n", "note", "note", "write a note about it, which goes into the text of the pull request", _DECIDE,
        line=10, why_not=why.change_here, opens=True),
    Key(("z",), "z", "undo", "undo", "take the last decision back; every one can be, after a restart too", _DECIDE,
        line=4, why_not=why.can_undo),
    Key(("Z",), "Z", "redo", "redo", "do again what was taken back", _DECIDE, why_not=why.can_redo),
)  # fmt: skip

LINE = (
    Key(("ctrl+j",), "^j", "move_down", "move down", "move it one place down the line", _LINE, why_not=why.can_move),
    Key(("ctrl+k",), "^k", "move_up", "move up", "move it one place up the line", _LINE, why_not=why.can_move),
    Key(("c",), "c", "conflicts", "conflict", "what it is in conflict with: base, ours and theirs", _LINE, line=8,
        why_not=why.held_here),
    Key(("E",), "E", "resolve", "resolve", "resolve its conflicts in your editor (VISUAL or EDITOR), on copies; "
        "your checkout is not touched", _LINE, line=9, why_not=why.can_resolve),
    Key(("O",), "O", "relay", "re-lay", "lay the line on what its ground has become, or on its base again", _LINE,
        line=12, why_not=why.can_relay),
    Key(("P",), "P", "publish", "publish", "publish base plus what is kept as a branch; says first what that is",
        _LINE, line=6, why_not=why.can_publish),
    Key(("w",), "w", "pull_request", "PR text", "the text of the pull request; from there gh opens it", _LINE,
        line=13, why_not=why.can_publish, opens=True),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter", "show only changes that have these words; is:undecided is:held is:new "
        "is:void kind:test agent:NAME file:PATH narrow it too", Topic.FIND, line=7),
    Key(("F",), "F", "filter_by", "filter by", "the same, chosen from a list", Topic.FIND, why_not=why.some_target,
        opens=True),
    Key(("a",), "a", "only_open", "only open", "show only what is undecided or held, or all again", Topic.FIND,
        line=11),
)  # fmt: skip

DIFF = (
    Key(("J", "shift+down"), "J", "scroll_down", "scroll down", "scroll the right pane down", _DIFF,
        why_not=why.pane_open),
    Key(("K", "shift+up"), "K", "scroll_up", "scroll up", "scroll the right pane up", _DIFF, why_not=why.pane_open),
    Key(("full_stop",), ".", "next_hunk", "next hunk", "to the next hunk", _DIFF, why_not=why.hunk_here),
    Key(("comma",), ",", "previous_hunk", "previous hunk", "to the hunk before", _DIFF, why_not=why.hunk_here),
    Key(("greater_than_sign",), ">", "next_file", "next file", "to the next file", _DIFF, why_not=why.diff_here),
    Key(("less_than_sign",), "<", "previous_file", "previous file", "to the file before", _DIFF,
        why_not=why.diff_here),
    Key(("o",), "o", "fold_hunk", "fold hunk", "fold this hunk, or open it", _DIFF, why_not=why.hunk_here),
    Key(("minus",), "-", "fold_file", "fold file", "fold this file, or open it", _DIFF, why_not=why.diff_here),
    Key(("u",), "u", "sides", "one/two sides", "one column, or what was beside what is; else by the width", _DIFF,
        why_not=why.diff_here),
    Key(("shift+right",), "shift+→", "pan_right", "pan right", "show what stands further right", _DIFF,
        why_not=why.diff_here),
    Key(("shift+left",), "shift+←", "pan_left", "pan left", "back to the left", _DIFF, why_not=why.diff_here),
    Key(("m",), "m", "message", "message", "send the author the hunk and your note", _DIFF, line=14,
        why_not=why.can_message, opens=True),
)  # fmt: skip

LOOK = (
    Key(("enter",), "⏎", "open", "look", "the right pane over the whole screen, and back (on a group: open or close "
        "it)", Topic.LOOK, Where.TABLE),
    Key(("1",), "1", "show_diff", "diff", "what it changes", Topic.LOOK),
    Key(("2",), "2", "show_members", "members", "the commits that make this change, and whose they are", Topic.LOOK),
    Key(("3",), "3", "show_evidence", "evidence", "what its agents said, their tests, transcripts and recordings",
        Topic.LOOK),
    Key(("4",), "4", "show_needs", "needs", "what it needs, what needs it, and what it is in conflict with",
        Topic.LOOK),
    Key(("5",), "5", "show_alternatives", "alternatives", "other changes that are nearly the same", Topic.LOOK),
    Key(("right_square_bracket",), "]", "next_tab", "next tab", "to the next of these", Topic.LOOK),
    Key(("left_square_bracket",), "[", "previous_tab", "previous tab", "to the one before", Topic.LOOK),
    Key(("r",), "r", "replay", "replay", "play the recording of its agent", Topic.LOOK, why_not=why.can_replay),
)  # fmt: skip

PROMPT = (
    Key(("up",), "↑", "prompt_up", "up", "filter: the cursor one line up", Topic.PROMPT, Where.PROMPT),
    Key(("down",), "↓", "prompt_down", "down", "filter: the cursor one line down", Topic.PROMPT, Where.PROMPT),
    Key(("escape",), "esc", "prompt_cancel", "cancel", "leave the prompt; a filter is cleared", Topic.PROMPT,
        Where.PROMPT),
)  # fmt: skip

PROGRAM = (
    Key(("escape",), "esc", "back", "back", "close a zoomed pane, clear the filter; then back to where you came from",
        Topic.PROGRAM),
    Key(("f",), "f", "fleet", "fleet", "to the fleet; decisions are kept", Topic.PROGRAM, line=15),
    Key(("R",), "R", "refresh", "refresh", "look for arrivals and moved branches, now", Topic.PROGRAM),
    Key(("e",), "e", "problems", "problems", "what does not work right now, what was left out, and what was said "
        "last", Topic.PROGRAM, why_not=why.some_problem, opens=True),
    Key(("T",), "T", "theme", "theme", "choose the colours: light, dark and others", Topic.PROGRAM, opens=True),
)  # fmt: skip

REVIEW = KeyTable("Review", MOVE + DECIDE + LINE + FIND + DIFF + LOOK + PROMPT + PROGRAM + APP)
