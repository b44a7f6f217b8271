"""The table of keys of the tutorial's screen, and why one of them cannot do its work. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_tui.shared.keys import APP, Key, KeyTable, Topic, Where, move
from selftest_tui.tutorial.view import BlockLine, NoteLine, Section, StaleLine, TestLine

if TYPE_CHECKING:
    from selftest_tui.tutorial.view import Line


@dataclass(frozen=True, slots=True)
class TutorialSituation:
    """What the reasons depend on. `opens`: how many blocks and citations are open; `editor`: what edits, or ""."""

    line: Line | None = None
    opens: int = 0
    problems: int = 0
    pane_is_open: bool = True
    editor: str = ""
    has_run: bool = False


def open_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be something under the cursor."""
    return None if now.line is not None else "Nothing is shown here."


def next_open_disabled_reason(now: TutorialSituation) -> str | None:
    """Tab needs somewhere to go."""
    return None if now.opens else "Every block is cited, and every citation is a block."


def copy_disabled_reason(now: TutorialSituation) -> str | None:
    """A heading has nothing to copy."""
    match now.line:
        case BlockLine() | TestLine() | StaleLine():
            return None
        case Section() | NoteLine():
            return "Move to a block or a test: its text or its id is copied."
        case None:
            return open_disabled_reason(now)


def edit_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be a place to edit, and an editor."""
    if now.line is None or isinstance(now.line, Section):
        return open_disabled_reason(now) or "The cursor is on a heading: move to a block or a test."
    return None if now.editor else "Neither VISUAL nor EDITOR says what to edit with."


def problems_disabled_reason(now: TutorialSituation) -> str | None:
    """The list of problems and of what was said must not be empty."""
    return None if now.problems else "No problem is known, and nothing was said yet."


def scroll_disabled_reason(now: TutorialSituation) -> str | None:
    """The right pane must be on the screen."""
    return None if now.pane_is_open else "The right pane is closed: ⏎ opens it."


MOVE = (
    move("down j", "↓ j", "down", "one line down"),
    move("up k", "↑ k", "up", "one line up"),
    move("pagedown ctrl+f", "PgDn ^f", "page_down", "one page down"),
    move("pageup ctrl+b", "PgUp ^b", "page_up", "one page up"),
    move("home", "Home", "first", "to the first line"),
    move("end G", "End G", "last", "to the last line"),
    move("left h", "← h", "close_group", "close this section"),
    move("right l", "→ l", "open_group", "open this section"),
    Key(("tab",), "tab", "next_open", "next open", "to the next block that no test cites, or stale citation",
        Topic.MOVE, line=2, disabled_reason=next_open_disabled_reason),
    Key(("shift+tab",), "shift+tab", "previous_open", "previous open", "to the one before", Topic.MOVE,
        disabled_reason=next_open_disabled_reason),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only blocks that have these words in their text, heading or tests, as you type", Topic.FIND, line=3),
    Key(("a",), "a", "only_open", "only open", "show only what is open, or all again", Topic.FIND, line=4),
    Key(("o",), "o", "order", "order", "what is open first, or everything in the order of the file", Topic.FIND,
        line=5),
)  # fmt: skip

LOOK = (
    Key(("enter",), "⏎", "open", "look", "the right pane over the whole screen, and back (on a heading: open or "
        "close it)", Topic.LOOK, Where.TABLE, line=1, disabled_reason=open_disabled_reason),
    Key(("z",), "z", "zoom", "zoom", "the right pane over the whole screen, and back", Topic.LOOK),
    Key(("J", "shift+down"), "J", "scroll_down", "scroll down", "scroll the right pane down", Topic.LOOK,
        disabled_reason=scroll_disabled_reason),
    Key(("K", "shift+up"), "K", "scroll_up", "scroll up", "scroll the right pane up", Topic.LOOK,
        disabled_reason=scroll_disabled_reason),
)  # fmt: skip

ACT = (
    Key(("E",), "E", "edit", "edit", "open the tutorial or the test at this line, in your editor (VISUAL or EDITOR)",
        "Act", line=6, disabled_reason=edit_disabled_reason),
    Key(("y",), "y", "copy", "copy", "copy the block's text, or the test's id", "Act", line=7,
        disabled_reason=copy_disabled_reason),
)  # fmt: skip

PROMPT = (
    Key(("up",), "↑", "prompt_up", "up", "filter: the cursor one line up", Topic.PROMPT, Where.PROMPT),
    Key(("down",), "↓", "prompt_down", "down", "filter: the cursor one line down", Topic.PROMPT, Where.PROMPT),
    Key(("escape",), "esc", "prompt_cancel", "cancel", "leave the prompt and clear the filter",
        Topic.PROMPT, Where.PROMPT),
)  # fmt: skip

PROGRAM = (
    Key(("escape",), "esc", "back", "back", "close a zoomed pane, then clear the filter, then back to the fleet",
        Topic.PROGRAM, line=8),
    Key(("f",), "f", "fleet", "fleet", "back to the fleet", Topic.PROGRAM),
    Key(("R",), "R", "refresh", "refresh", "read the tutorial, the tests and the run again, now", Topic.PROGRAM),
    Key(("e",), "e", "problems", "problems", "what does not work right now, what mends it, and what was said last",
        Topic.PROGRAM, disabled_reason=problems_disabled_reason),
    Key(("T",), "T", "theme", "theme", "choose the colours: light, dark and others", Topic.PROGRAM),
)  # fmt: skip

TUTORIAL = KeyTable("Tutorial", MOVE + FIND + LOOK + ACT + PROMPT + PROGRAM + APP)
