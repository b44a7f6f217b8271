"""The keys of the tutorial's screen, and the reasons why a key is disabled. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_tui.shared.keys import SPLIT, Key, KeyTable, Topic, Where
from selftest_tui.tutorial.view import BlockLine, NoteLine, Section, StaleLine, TestLine

if TYPE_CHECKING:
    from selftest_tui.tutorial.view import Line, Result


@dataclass(frozen=True, slots=True)
class TutorialSituation:
    """The state that reasons depend on. `opens`: open blocks and citations; `editor`: the editor's command, or "".

    `result`: of the test under the cursor, or the worst of the block's, in the last run.
    """

    line: Line | None = None
    opens: int = 0
    problems: int = 0
    pane_is_open: bool = True
    editor: str = ""
    result: Result | None = None


def open_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be a line."""
    return None if now.line is not None else "Nothing is shown here."


def next_open_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be an open block or citation."""
    return None if now.opens else "Every block is cited, and every citation is a block."


def copy_disabled_reason(now: TutorialSituation) -> str | None:
    """The cursor must be on a block or a test."""
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
    return None if now.editor else "No editor is known: set VISUAL or EDITOR."


def run_disabled_reason(now: TutorialSituation) -> str | None:
    """A test under the cursor must be in the last run."""
    match now.line:
        case BlockLine() | TestLine():
            return (
                None if now.result is not None else "It is in no run of this repository: `selftest-tui run` starts one."
            )
        case _:
            return open_disabled_reason(now) or "Move to a block or a test: its run, agent and commits are a key away."


def agent_disabled_reason(now: TutorialSituation) -> str | None:
    """It must have an agent."""
    why = run_disabled_reason(now)
    return why or (None if now.result is not None and now.result.agent_id else "Its agent was not launched yet.")


def review_disabled_reason(now: TutorialSituation) -> str | None:
    """Its agent must have committed."""
    why = run_disabled_reason(now)
    return why or (
        None if now.result is not None and now.result.tip else "Its agent committed nothing, as far as is known."
    )


MOVE = (
    Key(("tab",), "tab", "next_needing", "next open", "to the next block that no test cites, or stale citation",
        Topic.MOVE, line=2, disabled_reason=next_open_disabled_reason),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous open", "to the previous one", Topic.MOVE,
        disabled_reason=next_open_disabled_reason),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only blocks that match: words of text, heading or tests, is:STATE, /REGEX/; ! inverts", Topic.FIND,
        line=3),
    Key(("a",), "a", "only_needing", "only open", "show only what is open, or all again", Topic.FIND, line=4),
    Key(("o",), "o", "sort", "order", "open first, or all in the order of the file", Topic.FIND, line=5),
    Key(("escape",), "esc", "back", "back", "close a zoomed pane, then clear the filter, then back to the fleet",
        Topic.FIND, line=8),
)  # fmt: skip

LOOK = (
    Key(("enter",), "⏎", "open", "look", "the right pane over the whole screen, and back (on a heading: open or "
        "close it)", Topic.LOOK, Where.TABLE, line=1, disabled_reason=open_disabled_reason),
    Key(("E",), "E", "edit", "edit", "open the tutorial or the test at this line, in your editor (VISUAL or EDITOR)",
        Topic.LOOK, line=6, disabled_reason=edit_disabled_reason),
    Key(("c",), "c", "copy", "copy", "copy the block's text, or the test's id", Topic.LOOK, line=7,
        disabled_reason=copy_disabled_reason),
)  # fmt: skip

GO = (
    Key(("w",), "w", "run", "run", "its test in the last run (of a block: the worst one); esc comes back", Topic.GO,
        line=9, disabled_reason=run_disabled_reason),
    Key(("r",), "r", "replay", "replay", "play the recording of its agent: live while it works, else where it failed",
        Topic.GO, line=10, disabled_reason=agent_disabled_reason),
    Key(("v",), "v", "review", "review", "the commits of its agent, in the review of the last run", Topic.GO,
        line=11, disabled_reason=review_disabled_reason),
    Key(("f",), "f", "fleet", "fleet", "to the fleet, on its agent", Topic.GO),
    Key(("R",), "R", "refresh", "refresh", "read the tutorial, the tests and the run again, now", Topic.PROGRAM),
)  # fmt: skip

TUTORIAL = KeyTable("Tutorial", MOVE + FIND + LOOK + GO, SPLIT)
