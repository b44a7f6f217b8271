"""A terminal drawn small, so that all of it fits: half blocks in the colours of the cells that they represent.

Letters cannot be read; positions and movements can be seen. Pure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_tui.replay.frames import rgb_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_recorder.terminal.terminal import Row

_PAPER = (0.0, 0.0, 0.0)
_INK = 0.55
"""The share of a cell that a letter covers."""

type _Rgb = tuple[float, float, float]


def shrunk(rows: Sequence[Row], columns: int, width: int, height: int) -> list[Strip]:
    """Draw the rows in at most `width` cells and `height` lines, two blocks for each cell; proportions are kept."""
    factor = max(columns / max(width, 1), len(rows) / max(2 * height, 1), 1.0)
    wide, high = max(1, math.ceil(columns / factor)), max(1, math.ceil(len(rows) / factor))
    grid = [_shades(row, columns) for row in rows]
    small = [[_mean(grid, x, y, factor) for x in range(wide)] for y in range(high)]
    if high % 2:
        small.append([_PAPER] * wide)
    return [
        Strip(
            [
                Segment("▀", Style(color=_colour(upper), bgcolor=_colour(lower)))
                for upper, lower in zip(above, below, strict=True)
            ],
            wide,
        )
        for above, below in zip(small[::2], small[1::2], strict=True)
    ]


def _shades(row: Row, columns: int) -> list[_Rgb]:
    """Return the colour of each cell, mixed from its letter and its background."""
    shades: list[_Rgb] = []
    for run in row:
        ink, paper = rgb_of(run.pen.foreground, (220, 220, 220)), rgb_of(run.pen.background, (0, 0, 0))
        if run.pen.reverse:
            ink, paper = paper, ink
        each = max(1, run.cells // max(len(run.text), 1))
        for character in run.text[: run.cells // each]:
            share = 0.0 if character == " " or run.pen.conceal else _INK
            shade = tuple(one * share + other * (1 - share) for one, other in zip(ink, paper, strict=True))
            shades += [(shade[0], shade[1], shade[2])] * each
    return [*shades, *([_PAPER] * (columns - len(shades)))][:columns]


def _mean(grid: Sequence[Sequence[_Rgb]], x: int, y: int, factor: float) -> _Rgb:
    lines = grid[int(y * factor) : max(int((y + 1) * factor), int(y * factor) + 1)]
    cells = [one for line in lines for one in line[int(x * factor) : max(int((x + 1) * factor), int(x * factor) + 1)]]
    if not cells:
        return _PAPER
    red, green, blue = (sum(one) / len(cells) for one in zip(*cells, strict=True))
    return red, green, blue


def _colour(shade: _Rgb) -> Color:
    return Color.from_rgb(*(round(one) for one in shade))
