"""Hits as lines of a table, under the run that they are of; the columns; and the texts of a hit. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_recorder.search.hits import Hit
from selftest_recorder.search.sources import Kind
from selftest_tui.shared import present
from selftest_tui.shared.widgets.columns import Column, Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class SearchGroup:
    """The title of a run with its hits."""

    key: str
    count: int
    is_folded: bool = False


type SearchLine = SearchGroup | Hit


@dataclass(frozen=True, slots=True)
class SearchLines:
    """The lines of the table."""

    lines: tuple[SearchLine, ...] = ()
    places: Mapping[str, int] = MappingProxyType({})
    group_of: Mapping[str, str] = MappingProxyType({})
    groups: Mapping[str, SearchGroup] = MappingProxyType({})


NO_LINES = SearchLines()


def key_of(line: SearchLine) -> str:
    """The identity of a line."""
    return f"group {line.key}" if isinstance(line, SearchGroup) else str(line.id)


def lay_out(
    hits: Iterable[Hit], folded: frozenset[str], in_order: Callable[[Iterable[Hit]], list[Hit]] = list
) -> SearchLines:
    """Lay hits out under their runs; runs stay in the order in which they come, `in_order` sorts the hits of each."""
    members: dict[str, list[Hit]] = {}
    for hit in hits:
        members.setdefault(hit.run, []).append(hit)
    groups = {run: SearchGroup(run, len(found), run in folded) for run, found in members.items()}
    lines: list[SearchLine] = []
    for run, group in groups.items():
        lines.append(group)
        if not group.is_folded:
            lines += in_order(members[run])
    places = {key_of(line): place for place, line in enumerate(lines)}
    group_of = {str(hit.id): run for run, found in members.items() for hit in found}
    return SearchLines(tuple(lines), places, group_of, groups)


def changed_places(before: SearchLines, after: SearchLines) -> Iterable[int]:
    """Return the places whose lines are others now."""
    places = range(max(len(before.lines), len(after.lines)))
    return (place for place in places if before.lines[place : place + 1] != after.lines[place : place + 1])


def place_of(hit: Hit) -> str:
    """Return the kind and the place of a hit in words, such as `terminal 2:14` or `diff shop.py:12`."""
    if hit.seconds is not None:
        return f"{hit.kind} {present.duration(hit.seconds)}"
    if hit.file:
        return f"{hit.kind} {hit.file.rpartition('/')[2]}:{hit.line or ''}".rstrip(":")
    if hit.commit:
        return f"{hit.kind} {hit.commit[:9]}"
    return f"{hit.kind} :{hit.line}" if hit.line else str(hit.kind)


def opens(hit: Hit) -> str:
    """Return what opening a hit shows."""
    match hit.kind:
        case Kind.TERMINAL:
            return "plays the recording at this time"
        case Kind.TRANSCRIPT | Kind.CONVERSATION:
            return "shows the text around this line over the whole screen"
        case Kind.OUTCOME:
            return "opens the run on this test"
        case Kind.DIFF | Kind.NOTE | Kind.DECISION:
            return "opens the review on this change"


def marked(hit_text: str, spans: Sequence[tuple[int, int]], width: int) -> list[tuple[str, bool]]:
    """Split a text into harmless pieces, each with whether it matches, so that the first match is within `width`."""
    begin = 0
    if spans and spans[0][1] > width > 8:
        begin = max(0, min(spans[0][0] - width // 4, len(hit_text) - width + 1))
    pieces = [("…", False)] if begin else []
    at = begin
    for first, last in spans:
        first, last = max(first, at), max(last, at)
        pieces += [(present.clean(hit_text[at:first]), False), (present.clean(hit_text[first:last]), True)]
        at = last
    pieces.append((present.clean(hit_text[at:]), False))
    return [piece for piece in pieces if piece[0]]


def _test(line: Hit, now: float) -> str:
    path, separator, name = line.test.partition("::")
    return (path.rpartition("/")[2] + separator + name) if line.test else line.agent


PLACE: Column[Hit] = Column("place", "place", 14, lambda hit, now: place_of(hit), good=20, most=36)
TEXT: Column[Hit] = Column("text", "line", 24, lambda hit, now: hit.text, good=40, fills=True)
TEST: Column[Hit] = Column("test", "test", 16, _test, good=30, most=60, drops=1, cuts_left=True)
AGENT: Column[Hit] = Column("agent", "agent", 12, lambda hit, now: hit.agent, good=24, joins=1)

COLUMNS: Columns[Hit] = Columns("search", 4, (PLACE, TEXT, TEST, AGENT))
"""All columns, in their order."""
