"""Replayed screens in forms that are safe to print: text, ANSI, SVG.

The emulator has executed all escape sequences, so only characters and pens are left. Characters that a terminal would
execute, or whose width differs between terminals, are replaced by visible ones in as many cells as in the recording,
so that nothing to the right moves. Pure. Palette colours stay numbers for the user's terminal; in a picture they are
those of xterm.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len, get_character_cell_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_recorder.terminal.terminal import Colour, Pen, Row

_ATTRIBUTES = (
    ("bold", "1"), ("dim", "2"), ("italic", "3"), ("blink", "5"), ("reverse", "7"), ("conceal", "8"), ("strike", "9"),
    ("overline", "53"),
)  # fmt: skip
_BASIC = bytes.fromhex(
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e57f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
_PAPER, _INK = "#121212", "#e0e0e0"
_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 8.4, 18, 10


# Control characters become pictures. Joiners, selectors and characters that change the direction of writing are
# dropped: one of them would shift everything to its right.
_NO_WIDTH = "\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
_SELECTORS = (*range(0xFE00, 0xFE10), *range(0xE0000, 0xE0FFF + 1))
_ON_SCREEN: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), "�"),
    0x2028: "�",
    0x2029: "�",
    **dict.fromkeys(map(ord, _NO_WIDTH), ""),
    **dict.fromkeys(_SELECTORS, ""),
    **dict.fromkeys(range(0xD800, 0xE000), "�"),
    # Some terminals merge two letters into a flag, or a skin tone with the hand before it; here they stay separate.
    **{0x1F1E6 + number: chr(ord("A") + number) for number in range(26)},
    **dict.fromkeys(range(0x1F3FB, 0x1F400), ""),
}


@lru_cache(8192)
def safe(text: str, cells: int) -> str:
    """Return the characters of one run in exactly `cells` cells, without characters that a terminal would execute."""
    if text.isascii() and text.isprintable():
        return text if len(text) == cells else text.ljust(cells)[:cells]
    shown = _drawn(text)
    if len(shown) == len(text) and cell_len(shown) == cells:
        return shown
    if not len(text) or cells % len(text) or cells // len(text) > 2 or _is_one_with_marks(text, cells):
        return _fitted(shown, cells)
    each = cells // len(text)
    return "".join(_fitted(_drawn(one), each) for one in text)


def _is_one_with_marks(text: str, cells: int) -> bool:
    return len(text) > 1 and cells <= 2 and any(get_character_cell_size(one) == 0 for one in text[1:])


def _fitted(text: str, cells: int) -> str:
    """Cut the text to the cells, and pad it with blanks."""
    if cell_len(text) > cells:
        text = text[:1] if cell_len(text[:1]) <= cells else "�"
    return text + " " * (cells - cell_len(text))


def text_lines(rows: Sequence[Row]) -> list[str]:
    """Convert rows to plain lines without trailing blanks."""
    return ["".join(safe(run.text, run.cells) for run in row).rstrip() for row in rows]


def ansi_lines(rows: Sequence[Row]) -> list[str]:
    """Convert rows to lines with colours and styles; each line resets its style at the end."""
    lines = []
    for row in rows:
        pieces = []
        for run in row:
            codes = _codes(run.pen)
            text = safe(run.text, run.cells)
            pieces.append(f"\x1b[{codes}m{text}\x1b[0m" if codes else text)
        lines.append("".join(pieces))
    return lines


@lru_cache(4096)
def _codes(pen: Pen) -> str:
    codes = [code for name, code in _ATTRIBUTES if getattr(pen, name)]
    if pen.underline:
        codes.append("4" if pen.underline == 1 else f"4:{pen.underline}")
    for colour, plain, bright, other in ((pen.foreground, 30, 90, 38), (pen.background, 40, 100, 48)):
        match colour:
            case None:
                pass
            case int(index):
                codes.append(
                    str(plain + index) if index < 8 else str(bright + index - 8) if index < 16 else f"{other};5;{index}"
                )
            case (red, green, blue):
                codes.append(f"{other};2;{red};{green};{blue}")
    return ";".join(codes)


def svg(rows: Sequence[Row], columns: int, title: str = "") -> str:
    """Draw the screen as an SVG picture that looks the same everywhere and loads nothing."""
    width = columns * _CELL_WIDTH + 2 * _MARGIN
    height = len(rows) * _CELL_HEIGHT + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}">',
        f"<title>{escape(_drawn(title))}</title>",
        f'<rect width="100%" height="100%" rx="6" fill="{_PAPER}"/>',
        '<g font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="14">',
    ]
    for y, row in enumerate(rows):
        lines += _svg_row(row, y)
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _svg_row(row: Row, y: int) -> list[str]:
    lines = []
    x, top = float(_MARGIN), _MARGIN + y * _CELL_HEIGHT
    for run in row:
        width = run.cells * _CELL_WIDTH
        ink, paper = _hex(run.pen.foreground, _INK), _hex(run.pen.background, _PAPER)
        if run.pen.reverse:
            ink, paper = paper, ink
        if paper != _PAPER:
            lines.append(f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_CELL_HEIGHT}" fill="{paper}"/>')
        text = safe(run.text, run.cells)
        if text.strip() and not run.pen.conceal:
            lines.append(
                f'<text x="{x:.1f}" y="{top + 13.5}" fill="{ink}" textLength="{width:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve"{_look(run.pen)}>{escape(text)}</text>'
            )
        x += width
    return lines


def _look(pen: Pen) -> str:
    decoration = " ".join(
        name
        for name, is_on in (("underline", pen.underline), ("line-through", pen.strike), ("overline", pen.overline))
        if is_on
    )
    return "".join(
        words
        for words, is_on in (
            (' font-weight="bold"', pen.bold),
            (' font-style="italic"', pen.italic),
            (' opacity="0.6"', pen.dim),
            (f' text-decoration="{decoration}"', decoration),
        )
        if is_on
    )


def _hex(colour: Colour, default: str) -> str:
    if colour is None:
        return default
    red, green, blue = rgb_of(colour, (0, 0, 0))
    return f"#{red:02x}{green:02x}{blue:02x}"


@lru_cache(1024)
def rgb_of(colour: Colour, default: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return red, green and blue of a colour; numbers of the palette are converted as in xterm."""
    match colour:
        case None:
            return default
        case int(index) if index < 16:
            red, green, blue = _BASIC[3 * index : 3 * index + 3]
            return red, green, blue
        case int(index) if index < 232:
            levels = [55 + 40 * level if level else 0 for level in _levels(index - 16)]
            return levels[0], levels[1], levels[2]
        case int(index):
            return (8 + 10 * (index - 232),) * 3
        case (red, green, blue):
            return red, green, blue


def _levels(index: int) -> tuple[int, int, int]:
    return index // 36, index // 6 % 6, index % 6


def _drawn(text: str) -> str:
    """Replace characters that a terminal would obey, or whose width terminals disagree on."""
    return text if text.isascii() and text.isprintable() else text.translate(_ON_SCREEN)
