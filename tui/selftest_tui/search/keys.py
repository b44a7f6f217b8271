"""The keys of the search screen, and the reasons why a key is disabled. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_tui.search.lines import SearchGroup
from selftest_tui.shared.keys import SPLIT, Key, KeyTable, Topic, Where, shown

if TYPE_CHECKING:
    from selftest_tui.search.lines import SearchLine


@dataclass(frozen=True, slots=True)
class SearchSituation:
    """The state that reasons depend on."""

    line: SearchLine | None = None
    problems: int = 0
    pane_is_open: bool = True


def open_disabled_reason(now: SearchSituation) -> str | None:
    """There must be a line."""
    return (
        None
        if now.line is not None
        else f"Nothing is found: {shown('search.search_all', 'F')} searches for something else."
    )


def hit_disabled_reason(now: SearchSituation) -> str | None:
    """The cursor must be on a hit."""
    return "Move to a hit." if isinstance(now.line, SearchGroup) else open_disabled_reason(now)


OWN = (
    Key(("slash",), "/", "filter", "words", "change what is searched: words, \"words that stand together\", paths, "
        "/REGEX/, run:NAME, kind:outcome (note, decision, diff, transcript, conversation, terminal)", Topic.FIND,
        line=2),
    Key(("o",), "o", "sort", "sort", "sort the hits of each run by a column; the same again reverses (mouse: the "
        "column's title)", Topic.FIND, opens=True),
    Key(("escape",), "esc", "back", "back", "close a zoomed pane, then back to where you came from", Topic.FIND,
        line=5),
    Key(("enter",), "⏎", "open", "open", "open the hit at its place: the run, the review, the recording or the text "
        "(on a run: open or close it)", Topic.LOOK, Where.TABLE, line=1, disabled_reason=open_disabled_reason),
    Key(("c",), "c", "copy", "copy", "copy a command for a shell that opens the hit", Topic.LOOK, line=3,
        disabled_reason=hit_disabled_reason),
    Key(("f",), "f", "fleet", "fleet", "to the fleet", Topic.GO),
    Key(("R",), "R", "refresh", "refresh", "look for what is new or has changed, and search it too", Topic.PROGRAM,
        line=6),
)  # fmt: skip

SEARCH = KeyTable("Search", OWN, SPLIT)
