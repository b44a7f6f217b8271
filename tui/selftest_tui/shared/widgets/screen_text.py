"""Text of a terminal as strips for the screen: colours and attributes kept, every other escape removed.

tmux has already interpreted the program's output; `capture-pane -e` returns text with SGR sequences, links (OSC 8) and
the two shift characters of line drawing. Only SGR and line drawing are rendered. Other escapes are dropped, and lone
control characters are shown as pictures: the result never has a character that a terminal would obey.

Characters whose width terminals disagree on (joiners, variation selectors, bidi controls) are dropped, since one of
them would shift the border of everything to its right.

Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells, get_character_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN = re.compile(
    r"\x1b\[(?P<params>[0-?]{0,256})[ -/]{0,8}(?P<final>[@-~])"
    r"|\x1b[\]P_^X][^\x07\x1b]{0,8192}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,8}[0-~]?"
    r"|(?P<shift>[\x0e\x0f])"
)
_WORD = re.compile(r"\s*\S+")
_PART_OF_WORD = re.compile(r"[^/\\:,;=&?@._-]*[/\\:,;=&?@._-]+|[^/\\:,;=&?@._-]+")
_RESET = re.compile(r"\x1b\[0?m")
_LINE_DRAWING = str.maketrans("`abcdefghijklmnopqrstuvwxyz{|}~", "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_NO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f" + _BIDI
_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), "�"),
    0x2028: "�",
    0x2029: "�",
}
_ON_SCREEN = {**_CONTROLS, **dict.fromkeys(map(ord, _NO_WIDTH))}


class Pen(NamedTuple):
    """Attributes of the next character. Colours are palette numbers, (red, green, blue), or None for the default."""

    foreground: int | tuple[int, int, int] | None = None
    background: int | tuple[int, int, int] | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    double_underline: bool = False
    reverse: bool = False
    conceal: bool = False
    strike: bool = False
    overline: bool = False
    line_drawing: bool = False


_PLAIN = Pen()
_ON: dict[int, str] = {
    1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 8: "conceal", 9: "strike",
    21: "double_underline", 53: "overline",
}  # fmt: skip
_OFF: dict[int, tuple[str, ...]] = {
    22: ("bold", "dim"), 23: ("italic",), 24: ("underline", "double_underline"), 27: ("reverse",),
    28: ("conceal",), 29: ("strike",), 55: ("overline",),
}  # fmt: skip


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def _colour(parts: list[int]) -> int | tuple[int, int, int] | None:
    """The colour that the arguments of 38 or 48 name, None if they name none."""
    match parts:
        case [5, index, *_] if index < 256:
            return index
        case [2, red, green, blue, *_] if max(red, green, blue) < 256:
            return (red, green, blue)
    return None


@lru_cache(4096)
def _after(pen: Pen, params: str) -> Pen:
    """The pen after `ESC [ params m`."""
    fields = params.split(";")
    at = 0
    while at < len(fields):
        group = [_number(part) for part in fields[at].split(":")]
        at += 1
        code, arguments = group[0], group[1:]
        if code in (38, 48, 58):
            if not arguments:  # the older spelling: the arguments are fields of their own
                length = {5: 2, 2: 4}.get(_number(fields[at]) if at < len(fields) else 0, 0)
                arguments = [_number(field) for field in fields[at : at + length]]
                at += length
            elif arguments[0] == 2 and len(arguments) > 4:  # 38:2:COLOURSPACE:r:g:b
                arguments = [2, *arguments[2:]]
            colour = _colour(arguments)
            if code == 38:
                pen = pen._replace(foreground=colour)
            elif code == 48:
                pen = pen._replace(background=colour)
        elif code == 0:
            pen = Pen(line_drawing=pen.line_drawing)
        elif code == 4 and arguments:
            pen = pen._replace(underline=arguments[0] != 0, double_underline=arguments[0] == 2)
        elif code in _ON:
            pen = pen._replace(**{_ON[code]: True})
        elif code in _OFF:
            pen = pen._replace(**dict.fromkeys(_OFF[code], False))
        elif 30 <= code <= 37 or 90 <= code <= 97:
            pen = pen._replace(foreground=code - 30 if code < 90 else code - 82)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            pen = pen._replace(background=code - 40 if code < 100 else code - 92)
        elif code == 39:
            pen = pen._replace(foreground=None)
        elif code == 49:
            pen = pen._replace(background=None)
    return pen


def _rich_colour(colour: int | tuple[int, int, int] | None) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


@lru_cache(4096)
def _style(pen: Pen) -> Style | None:
    if pen._replace(line_drawing=False) == _PLAIN:
        return None
    return Style(
        color=_rich_colour(pen.foreground),
        bgcolor=_rich_colour(pen.background),
        bold=pen.bold or None,
        dim=pen.dim or None,
        italic=pen.italic or None,
        underline=pen.underline or None,
        underline2=pen.double_underline or None,
        reverse=pen.reverse or None,
        conceal=pen.conceal or None,
        strike=pen.strike or None,
        overline=pen.overline or None,
    )


def _runs(line: str, pen: Pen) -> tuple[list[tuple[str, Pen]], Pen]:
    """The texts of a line, each with its pen; and the pen after the line."""
    runs: list[tuple[str, Pen]] = []
    start = 0
    for token in _TOKEN.finditer(line):
        if token.start() > start:
            runs.append((line[start : token.start()], pen))
        start = token.end()
        if token["shift"]:
            pen = pen._replace(line_drawing=token["shift"] == "\x0e")
        elif token["final"] == "m" and token["params"].strip("0123456789;:") == "":
            pen = _after(pen, token["params"])
    if start < len(line):
        runs.append((line[start:], pen))
    return runs, pen


def strips(lines: Sequence[str], first: int = 0, last: int | None = None) -> tuple[Strip, ...]:
    """The lines `first` up to (not with) `last` of a captured pane. Earlier lines only determine the pen.

    tmux carries attributes from one line into the next, so a line cannot be parsed alone.
    """
    pen = _PLAIN
    for line in lines[_last_reset(lines, first) : first]:
        pen = _runs(line, pen)[1]
    made: list[Strip] = []
    for line in lines[first:last]:
        runs, pen = _runs(line.expandtabs(8) if "\t" in line else line, pen)
        made.append(Strip([Segment(_drawn(run, drawn_with), _style(drawn_with)) for run, drawn_with in runs]))
    return tuple(made)


def _drawn(run: str, pen: Pen) -> str:
    return (run.translate(_LINE_DRAWING) if pen.line_drawing else run).translate(_ON_SCREEN)


def _last_reset(lines: Sequence[str], before: int) -> int:
    """The last line before line `before` that resets every attribute, else the first: parsing may begin there."""
    for at in range(min(before, len(lines)) - 1, -1, -1):
        if _RESET.search(lines[at]) and "\x0e" not in lines[at]:
            return at
    return 0


def with_cursor(strip: Strip, column: int, style: Style) -> Strip:
    """The line with the cell at `column`, the cursor, drawn in `style`."""
    made: list[Segment] = []
    at = 0
    for segment in strip.extend_cell_length(column + 1):
        for character in segment.text:
            width = get_character_cell_size(character)
            is_under = at <= column < at + width or (width == 0 and made and made[-1].style is style)
            wanted = style if is_under else segment.style
            if made and made[-1].style is wanted:
                made[-1] = Segment(made[-1].text + character, wanted)
            else:
                made.append(Segment(character, wanted))
            at += width
    return Strip(made)


def block(text: str, most: int = 20_000) -> str:
    """The last `most` characters of a text of several lines, made harmless."""
    cut = ("…" + text[-most:]) if len(text) > most else text
    return "\n".join(clean(line.expandtabs(4)) for line in cut.replace("\r\n", "\n").split("\n"))


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text in at most `width` cells each; at least one line. Made safe to show.

    Lines are broken between words; a word that is longer than a line, such as a path, behind one of its separators.
    """
    width = max(1, width)
    lines: list[str] = []
    for line in text.split("\n"):
        lines.extend(_wrapped_line(clean(line), width))
    return lines


def _wrapped_line(text: str, width: int) -> list[str]:
    lines = [""]
    for word in _WORD.findall(text):
        if cell_len(lines[-1] + word) <= width:
            lines[-1] += word
            continue
        bare = word.lstrip()
        if cell_len(bare) <= width:
            lines.append(bare)
            continue
        if lines[-1]:
            lines.append("")
        for part in _PART_OF_WORD.findall(bare):
            if cell_len(lines[-1] + part) > width:
                lines.extend(chop_cells(part, width))  # wide characters take two cells
            else:
                lines[-1] += part
    return [line for line in lines if line] or [""]
