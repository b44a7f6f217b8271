"""Where the cursor and the scroll position belong after the lines of the table have changed. Pure.

What the person looks at stays where it is: the line under the cursor keeps its place on the screen while other lines
come and go above it, and a cursor whose line is gone goes to the nearest line that is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.view import Row
from selftest_tui.fleet.arrangement import Group, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.agents import AgentKey
    from selftest_tui.fleet.arrangement import Arranged, Line


def place_of_cursor(before: Arranged, after: Arranged, cursor: int) -> int:
    """Where the cursor belongs: its line, else its folded group, else the nearest line that is left, below first."""
    lines = before.lines
    if not lines or not after.lines:
        return 0
    cursor = min(cursor, len(lines) - 1)
    key = key_of(lines[cursor])
    if key in after.places:
        return after.places[key]
    if key in after.group_of:
        return after.places.get(after.group_of[key], 0)
    for line in (*lines[cursor + 1 :], *reversed(lines[:cursor])):
        place = after.places.get(key_of(line))
        if place is not None and not isinstance(line, Group):
            return place
    return min(cursor, len(after.lines) - 1)


def first_line(before: Arranged, after: Arranged, cursor_before: int, cursor: int, top: int, page: int) -> int:
    """The first line to show of `page` lines, `top` having been that so far.

    At the very top it stays the top, as long as the cursor is in sight: what newly needs a person appears there.
    """
    is_seen = top <= cursor_before < top + page
    if top == 0 and (not is_seen or cursor < page):
        wanted = 0
    elif is_seen:
        wanted = cursor - (cursor_before - top)
    else:
        place = after.places.get(key_of(before.lines[top])) if top < len(before.lines) else None
        wanted = top if place is None else place
    return max(0, min(wanted, len(after.lines) - page))


def next_needing(arranged: Arranged, cursor: int, step: int, *, is_on_agent: bool) -> AgentKey | None:
    """The next (1) or previous (-1) agent that needs a person, round the end; those of folded groups in their turn."""
    needing = arranged.needing

    def rank(number: int) -> tuple[int, int]:
        place = arranged.places.get(needing[number])
        return (place, 0) if place is not None else (arranged.places[arranged.group_of[needing[number]]], 1 + number)

    here = (cursor, 0 if is_on_agent else -1)
    if not needing:
        return None
    if step > 0:
        return next((key for number, key in enumerate(needing) if rank(number) > here), needing[0])
    return next((key for number, key in reversed([*enumerate(needing)]) if rank(number) < here), needing[-1])


def is_same(before: Line | None, now: Line | None) -> bool:
    """Nothing in the line changed. Unchanged rows are the same object; comparing a thousand by value would cost."""
    return before is now or (before == now and not isinstance(now, Row))


def changed_places(before: Arranged, after: Arranged) -> Iterator[int]:
    """The places whose line is another now, those that became empty among them."""
    for place, line in enumerate(after.lines):
        if place >= len(before.lines) or not is_same(before.lines[place], line):
            yield place
    yield from range(len(after.lines), len(before.lines))
