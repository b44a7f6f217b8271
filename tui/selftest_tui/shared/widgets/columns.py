"""The columns of all tables: which ones fit, how wide each is, and the text of a line in each. Pure.

Names come first: the first column gets the room that its longest text needs before any other column grows. Widths
depend on the width of the table and on the longest texts seen so far, which only grow, so a table never jumps back and
forth while its lines change. Columns that hold changing sentences are not measured: one of them takes what is left, and
has no room until a line has a text for it where it may be dropped.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from selftest_core.frozen import dataclass
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

ROOMY = 84
"""Cells of a table from which columns are two apart rather than one."""
RISING, FALLING = "▲", "▼"
STEP = 2
"""Measured widths are multiples of this, so that columns move less often."""


class Choice(StrEnum):
    """The user's choice for one column; without one, the width of the table decides."""

    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Column[L]:
    """One column. `text` gives the text of a line at a time (seconds since the epoch).

    `least`: cells that it has at least, unless its texts need fewer. `good`: cells that it gets before optional columns
    join, at most what its texts need. `most`: never wider than this. `joins`: 0 for a column that is always there;
    optional columns join in this order where there is room; one that `waits` does not before `Layout.let_join`.
    `drops`: 0 for never; others are dropped in this order where the name would get less than `good`. `fills`: takes
    what is left over.

    A text that is too long loses its end, or its beginning with `cuts_left`; numbers are aligned on the right. Below
    `short_below` cells the whole column shows `short`, so that all its lines show the same kind of thing. With
    `grows_first` it reaches these cells before the name grows, where the name is left with three quarters of its
    `good`. Lines are sorted by `amount`, the largest first, where there is one, else by their texts.
    """

    name: str
    title: str
    least: int
    text: Callable[[L, float], str]
    good: int = 0
    most: int = 60
    joins: int = 0
    waits: bool = False
    drops: int = 0
    fills: bool = False
    short: Callable[[L, float], str] | None = None
    short_below: int = 0
    grows_first: bool = False
    is_number: bool = False
    cuts_left: bool = False
    is_timed: bool = False
    amount: Callable[[L, float], float | None] | None = None

    @property
    def is_measured(self) -> bool:
        """True if its width depends on its texts."""
        return not (self.is_number or self.is_timed or self.fills)

    @property
    def needs_a_text(self) -> bool:
        """True if it is left out until a line has a text for it."""
        return bool(self.drops) and (self.is_measured or self.fills)

    def cell(self, line: L, now: float, width: int) -> str:
        """The text of `line`, in exactly `width` cells, harmless."""
        short = self.short if width < self.short_below else None
        text = (short or self.text)(line, now)
        if self.is_number:
            return present.fit_right(text, width)
        return present.fit_end(text, width) if self.cuts_left else present.fit(text, width)

    def heading(self, width: int, sort: Sort | None = None) -> str:
        """Return its title, aligned like its cells, with a sign where lines are sorted by it."""
        title = self.title
        if sort is not None and sort.column == self.name:
            is_falling = (self.amount is not None) != sort.is_reversed
            title = present.fit(title, width - 1).rstrip() + (FALLING if is_falling else RISING)
        return present.fit_right(title, width) if self.is_number else present.fit(title, width)


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of lines by one column, by its name."""

    column: str
    is_reversed: bool = False


def clicked_again(sort: Sort | None, column: str) -> Sort | None:
    """The order after a click on a heading: by this column, then reversed, then as without a column."""
    if sort is None or sort.column != column:
        return Sort(column)
    return None if sort.is_reversed else replace(sort, is_reversed=True)


def chosen_again(sort: Sort | None, column: str) -> Sort:
    """The order after a column was chosen from a list: by this column, and reversed with every other time."""
    return Sort(column, is_reversed=sort is not None and sort == Sort(column))


@dataclass(frozen=True, slots=True)
class Placed[L]:
    """A column at its place: `x` cells from the left edge of the table, `width` cells wide, `gap` cells after it."""

    column: Column[L]
    x: int
    width: int
    gap: int


@dataclass(frozen=True, slots=True)
class Columns[L]:
    """The columns of one table in their order, the name first. `prefix`: cells before the first of them.

    `table`: its name in the preferences.
    """

    table: str
    prefix: int
    columns: tuple[Column[L], ...]

    def in_order[K, M](self, lines: Iterable[tuple[K, M]], sort: Sort, now: float) -> list[tuple[K, M]]:
        """Sort lines, each with its key: texts from A to Z, amounts from the largest; those without one stay last.

        Lines that are alike keep their order. A column that is not there changes nothing.
        """
        column: Column[Any] | None = next((one for one in self.columns if one.name == sort.column), None)
        if column is None:
            return list(lines)
        amount = column.amount
        known: list[tuple[Any, tuple[K, M]]] = []
        unknown: list[tuple[K, M]] = []
        for pair in lines:
            value = _by_value(column.text(pair[1], now)) if amount is None else amount(pair[1], now)
            if value is None or value == "":
                unknown.append(pair)
            else:
                known.append((value, pair))
        known.sort(key=lambda one: one[0], reverse=(amount is not None) != sort.is_reversed)
        return [pair for _, pair in known] + unknown

    def optional(self) -> tuple[Column[L], ...]:
        """The columns that the user may choose: all but the name."""
        return self.columns[1:]


def _by_value(text: str) -> str:
    """Make a text that sorts as people sort: without case, and numbers in it by their value."""
    return re.sub(r"\d+", lambda number: number[0].zfill(12), text.casefold())


class Layout[L]:
    """The columns of one table as they are shown: measures lines, and places the columns in a width."""

    def __init__(self, columns: Columns[L]) -> None:
        self.columns = columns
        self._choices: dict[str, Choice] = {}
        self._preferred: set[str] = set()
        self._needs: dict[str, int] = {}
        self._seen: dict[Hashable, L] = {}
        self._stamp = Needs()
        self.sort: Sort | None = None
        """The column that lines are sorted by; the table's owner sorts them."""

    @property
    def sorted_by(self) -> str:
        """The title of the column that lines are sorted by, such as `cost, reversed`; empty without one."""
        if self.sort is None:
            return ""
        title = next(one.title for one in self.columns.columns if one.name == self.sort.column)
        return f"{title}, reversed" if self.sort.is_reversed else title

    def in_order[M](self, lines: Iterable[M], now: float) -> list[M]:
        """Sort lines by the chosen column; without one they stay as they are."""
        if self.sort is None:
            return list(lines)
        return [line for _, line in self.columns.in_order(((None, line) for line in lines), self.sort, now)]

    def choose(self, choices: Mapping[str, Choice]) -> None:
        """Show these columns always and those never, as the user chose."""
        self._choices = dict(choices)
        self._renew()

    def measure(self, lines: Iterable[tuple[Hashable, L]], now: float) -> bool:
        """Look at lines, by key; True if a column needs more room than before. Seen objects cost a lookup."""
        seen, needs, grew = self._seen, self._needs, False
        measured = [column for column in self.columns.columns if column.is_measured or column.needs_a_text]
        for key, line in lines:
            if seen.get(key) is line:
                continue
            seen[key] = line
            for column in measured:
                cells = cell_len(present.clean(column.text(line, now)))
                if cells > needs.get(column.name, 0):
                    needs[column.name] = -(-cells // STEP) * STEP
                    grew = True
        if grew:
            self._renew()
        return grew

    def let_join(self, *names: str) -> bool:
        """Show waiting columns from now on if they fit; return False if they were allowed already."""
        new = [name for name in names if not self._needs.get(name)]
        self._needs.update(dict.fromkeys(new, 1))
        self._renew()
        return bool(new)

    def prefer(self, name: str) -> bool:
        """Show a column before all optional ones, unless the user hides it; return False if it is preferred already."""
        is_new = name not in self._preferred
        self._preferred.add(name)
        self._renew()
        return is_new

    def place(self, width: int) -> tuple[Placed[L], ...]:
        """The columns of a table `width` cells wide."""
        return place(self.columns, width, self._stamp)

    def headings(self, width: int) -> str:
        """The line of titles of a table `width` cells wide."""
        placed = self.place(width)
        return " " * self.columns.prefix + "".join(
            one.column.heading(one.width, self.sort) + " " * one.gap for one in placed
        )

    def column_at(self, x: int, width: int) -> Column[L] | None:
        """The column at this cell of a table `width` cells wide; None left of the first."""
        return next((one.column for one in self.place(width) if one.x <= x < one.x + one.width + one.gap), None)

    def _renew(self) -> None:
        choices = {**dict.fromkeys(sorted(self._preferred), Choice.ALWAYS), **self._choices}
        self._stamp = Needs(tuple(self._needs.items()) if self._seen else None, tuple(choices.items()))


@dataclass(frozen=True, slots=True)
class Needs:
    """Cells that the longest text of each column needs, and the user's choices. `cells` None: nothing measured."""

    cells: tuple[tuple[str, int], ...] | None = None
    choices: tuple[tuple[str, Choice], ...] = field(default=())


@lru_cache(maxsize=128)
def place(columns: Columns[Any], width: int, needs: Needs = Needs()) -> tuple[Placed[Any], ...]:  # noqa: B008 - frozen
    """The columns of a table `width` cells wide: together with the prefix and the gaps they fit into it."""
    known, choices = dict(needs.cells or ()), dict(needs.choices)
    gap = 2 if width >= ROOMY else 1
    room = width - columns.prefix

    def want(column: Column[Any]) -> int:
        if not column.is_measured:
            return max(column.least, column.good)
        if needs.cells is None:
            return max(column.least, min(column.good, column.most))
        return min(column.most, max(known.get(column.name, 0), cell_len(column.title)))

    def least(column: Column[Any]) -> int:
        return min(column.least, want(column))

    def total(some: Iterable[Column[Any]], cells: Callable[[Column[Any]], int]) -> int:
        return sum(cells(column) + gap for column in some)

    def is_empty(column: Column[Any]) -> bool:
        return needs.cells is not None and (column.is_measured or column.needs_a_text) and not known.get(column.name)

    def joins_by_itself(column: Column[Any]) -> bool:
        if column.name in choices:
            return False
        return bool(known.get(column.name)) if column.waits else not is_empty(column)

    asked_for = [one for one in columns.columns if choices.get(one.name) is Choice.ALWAYS]

    chosen = [one for one in columns.columns if not one.joins and choices.get(one.name) is not Choice.NEVER]
    chosen = [one for one in chosen if not (one.drops and is_empty(one))]
    chosen += [one for one in asked_for if one not in chosen]
    droppable = sorted((one for one in chosen if one.drops and one not in asked_for), key=lambda one: one.drops)
    name, is_tight = columns.columns[0], False

    def least_with_name(column: Column[Any]) -> int:
        return min(name.good, want(name)) if column is name else least(column)

    for column in droppable:
        if total(chosen, least_with_name) > room:
            chosen.remove(column)
            is_tight = True
    for column in reversed(asked_for):
        if column is not name and total(chosen, least) > room:
            chosen.remove(column)
    for column in sorted((one for one in columns.columns if one.joins), key=lambda one: one.joins):
        fits = not is_tight and total([*chosen, column], want) <= room
        if fits and column not in chosen and joins_by_itself(column):
            chosen.append(column)
    chosen.sort(key=columns.columns.index)
    widths = _share_out(chosen, room - gap * len(chosen), least, want)
    placed, x = [], columns.prefix
    for column in chosen:
        placed.append(Placed(column, x, widths[column.name], gap))
        x += widths[column.name] + gap
    return tuple(placed)


def _share_out(
    chosen: list[Column[Any]], room: int, least: Callable[[Column[Any]], int], want: Callable[[Column[Any]], int]
) -> dict[str, int]:
    """The widths: least for all; then the name as far as `good`; then all towards `good`; then what each wants."""
    widths = {column.name: least(column) for column in chosen}
    spare = room - sum(widths.values())

    def grow(column: Column[Any], cells: int) -> None:
        nonlocal spare
        more = max(0, min(spare, cells - widths[column.name]))
        widths[column.name] += more
        spare -= more

    first = chosen[0]
    if spare < 0:  # not even the name fits: it is cut
        widths[first.name] = max(1, widths[first.name] + spare)
        return widths
    for column in chosen:
        goal = min(want(column), column.short_below)
        left = widths[first.name] + spare - (goal - widths[column.name])
        if column.grows_first and left >= min(first.good, want(first)) * 3 // 4:
            grow(column, goal)
    grow(first, min(first.good, want(first)))
    goals = {column.name: max(0, min(column.good, want(column)) - widths[column.name]) for column in chosen}
    total = sum(goals.values())
    if total:
        given = min(spare, total)
        for column in chosen:
            grow(column, widths[column.name] + given * goals[column.name] // total)
    for column in chosen:
        grow(column, want(column))
    filling = next((column for column in chosen if column.fills), None)
    if filling is not None:
        grow(filling, widths[filling.name] + spare)
    return widths
