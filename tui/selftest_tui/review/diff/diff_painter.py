"""Painter of a diff's rows as strips of styled cells: titles, line numbers, differing words, syntax colours.

It keeps only the styles. The text of lines was made safe to show when the diff was read.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_core.git import source_colours
from selftest_core.git.patches import LineKind
from selftest_tui.review.diff.diff_layout import FileHead, HunkHead, Sides, Unified, Words
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from selftest_core.git.patches import DiffLine
    from selftest_core.git.source_colours import Colours
    from selftest_tui.review.diff.diff_layout import DiffRow, Place

PARTS = (
    "base", "file", "hunk", "hunk-here", "muted", "removed", "added", "removed-word", "added-word", "nothing",
    *source_colours.PARTS,
)  # fmt: skip
"""The names of the styles that a painter needs."""
BACKGROUNDS = frozenset(("base", "file", "hunk", "hunk-here", "removed", "added", "nothing"))
OPEN, FOLDED, SELECTED = "▾", "▸", "●"
NO_NEWLINE = "  (no newline at the end)"
_SIGNS = {LineKind.CONTEXT: " ", LineKind.REMOVED: "-", LineKind.ADDED: "+"}


class DiffPainter:
    """Paints rows `width` cells wide. `styles` has every name of PARTS; all but the backgrounds are partial."""

    def __init__(self, styles: Mapping[str, Style], width: int) -> None:
        self._styles = styles
        self.width = width

    def blank(self) -> Strip:
        """Paint an empty row."""
        return Strip.blank(self.width, self._styles["base"])

    def words(self, text: str, *, is_headline: bool) -> Strip:
        """Paint a row of the text that replaces a diff."""
        style = self._styles["base"] + (Style(bold=True) if is_headline else self._styles["muted"])
        return Strip([Segment(present.fit(f" {text}", self.width), style)], self.width)

    def row(
        self, row: DiffRow, *, digits: int, pan: int, here: Place | None, selected: Collection[Place],
        colours: Mapping[int, Colours],
    ) -> Strip:  # fmt: skip
        """Paint one row. `digits`: of the longest line number; `pan`: cells cut at the left.

        `here`: the hunk under the cursor; `selected`: those that are selected for a split. `colours`: by the identity
        of a line's object.
        """
        width = self.width
        match row:
            case FileHead():
                return self._file_head(row, width)
            case HunkHead():
                return self._hunk_head(row, width, is_here=row.place == here, is_selected=row.place in selected)
            case Words():
                text = present.fit(f"   {row.text}", width)
                return Strip([Segment(text, self._styles["base"] + self._styles["muted"])], width)
            case Unified(_, line, _):
                numbers = f"{_number(line.old, digits)} {_number(line.new, digits)} "
                return self._line(line, numbers, width, pan, colours)
            case Sides(_, left, right, _):
                half = (width - 1) // 2
                middle = Strip([Segment("│", self._styles["nothing"])], 1)
                made = [
                    Strip.blank(cells, self._styles["nothing"])
                    if line is None
                    else self._line(line, f"{_number(number, digits)} ", cells, pan, colours)
                    for line, number, cells in (
                        (left, None if left is None else left.old, half),
                        (right, None if right is None else right.new, width - 1 - half),
                    )
                ]
                return Strip.join([made[0], middle, made[1]])

    def _file_head(self, head: FileHead, width: int) -> Strip:
        file = head.file
        counts = f" +{file.added} -{file.removed} " if file.hunks else " "
        status = f" {file.status.value}" if file.status.value != "modified" else ""
        sign = FOLDED if head.is_folded else OPEN
        path = present.fit_end(file.path, max(1, min(len(file.path) + 8, width - len(counts) - len(status) - 3)))
        text = present.fit(f" {sign} {path.rstrip()}{status}", max(1, width - len(counts))) + counts
        return Strip([Segment(text, self._styles["file"])]).adjust_cell_length(width, self._styles["file"])

    def _hunk_head(self, head: HunkHead, width: int, *, is_here: bool, is_selected: bool) -> Strip:
        hunk = head.hunk
        where = f"-{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count}"
        sign = FOLDED if head.is_folded else OPEN
        folded = f"  {present.plural(len(hunk.lines), 'line')}" if head.is_folded else ""
        mark = f"{SELECTED} " if is_selected else ""
        text = present.fit(f"{'▌' if is_here else ' '}{sign} {mark}@@ {where} @@ {hunk.heading}{folded}", width)
        return Strip([Segment(text, self._styles["hunk-here" if is_here else "hunk"])], width)

    def _line(self, line: DiffLine, numbers: str, width: int, pan: int, colours: Mapping[int, Colours]) -> Strip:
        kind = line.kind
        base = self._styles["base"]
        if kind is not LineKind.CONTEXT:
            base += self._styles[kind.value]
        head = [Segment(numbers, base + self._styles["muted"]), Segment(f"{_SIGNS[kind]} ", base + Style(bold=True))]
        room = max(0, width - len(numbers) - 2)
        body = Strip(self._text(line, base, colours.get(id(line), ())))
        if not line.has_newline:
            body = Strip([*body, Segment(NO_NEWLINE, base + self._styles["muted"])])
        if pan or body.cell_length > room:
            is_cut = body.cell_length > pan + room
            body = body.crop(pan, pan + room - is_cut)
            if is_cut:
                body = Strip([*body, Segment(present.ELLIPSIS, base + self._styles["muted"])])
        return Strip([*head, *body]).adjust_cell_length(width, base)

    def _text(self, line: DiffLine, base: Style, colours: Colours) -> list[Segment]:
        """Return the text with syntax colours, and with differing words marked over them."""
        text = line.text
        words = line.spans
        if not words and not colours:
            return [Segment(text, base)]
        edges = {0, len(text)}
        for start, end in words:
            edges |= {start, end}
        for start, end, _ in colours:
            edges |= {start, end}
        points = sorted(edge for edge in edges if edge <= len(text))
        word_style = self._styles[f"{line.kind.value}-word"] if words else Style()
        segments = []
        word_at, colour_at = 0, 0
        for start, end in pairwise(points):
            while word_at < len(words) and words[word_at][1] <= start:
                word_at += 1
            while colour_at < len(colours) and colours[colour_at][1] <= start:
                colour_at += 1
            style = base
            if word_at < len(words) and words[word_at][0] <= start:
                style += word_style
            if colour_at < len(colours) and colours[colour_at][0] <= start:
                style += self._styles[colours[colour_at][2]]
            segments.append(Segment(text[start:end], style))
        return segments


def _number(number: int | None, digits: int) -> str:
    return " " * (digits + 1) if number is None else f"{number:>{digits + 1}}"
