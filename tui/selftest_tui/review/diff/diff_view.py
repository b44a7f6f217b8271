"""Widget of a diff: files, hunks that fold, lines in one column or two, differing words, syntax colours.

It draws only the visible rows, so a diff of 20,000 lines opens at once. Rows and their differing words are computed
when they are drawn; syntax colours are computed in a thread, and lines are plain until then. It knows no keys: the
screen calls it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView

from selftest_core.git import source_colours
from selftest_core.git.patches import LineKind
from selftest_tui.review.diff.diff_layout import DiffLayout, FileHead, HunkHead, Sides, Unified, as_text
from selftest_tui.review.diff.diff_painter import BACKGROUNDS, PARTS, DiffPainter
from selftest_tui.shared.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.strip import Strip

    from selftest_core.git.diffs import FileDiff
    from selftest_core.git.patches import DiffLine, Hunk
    from selftest_core.git.source_colours import Colours
    from selftest_tui.review.diff.diff_layout import Place

SPLIT_FROM = 130
"""Width in cells from which old and new lines are shown side by side."""
CHUNK = 100
"""Lines that are coloured at a time."""
type _Chunk = tuple[Place, int]


class DiffView(ScrollView, can_focus=False):
    """Shows the files of a diff, or a text instead."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"diff-view--{part}" for part in PARTS}
    DEFAULT_CSS = """
    DiffView {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        &> .diff-view--base { background: $background; color: $foreground; }
        &> .diff-view--file { background: $panel; color: $foreground; text-style: bold; }
        &> .diff-view--hunk { background: $surface; color: $text-muted; }
        &> .diff-view--hunk-here { background: $primary 30%; color: $foreground; }
        &> .diff-view--nothing { background: $surface; color: $text-muted; }
        &> .diff-view--muted { color: $text-muted; }
        &> .diff-view--removed { background: $error 15%; color: $foreground; }
        &> .diff-view--added { background: $success 15%; color: $foreground; }
        &> .diff-view--removed-word { background: $error 45%; color: $foreground; text-style: bold; }
        &> .diff-view--added-word { background: $success 45%; color: $foreground; text-style: bold; }
        &> .diff-view--keyword { color: $text-primary; }
        &> .diff-view--string { color: $text-success; }
        &> .diff-view--comment { color: $text-muted; }
        &> .diff-view--number { color: $text-warning; }
        &> .diff-view--name { color: $text-accent; }
    }
    """

    def __init__(self, *, id: str | None = None, split_from: int = SPLIT_FROM) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._split_from = split_from
        self.layout_of_rows = DiffLayout(())
        self.placeholder: tuple[str, ...] = ()
        self.here: Place | None = None
        self.pan = 0
        self.selected: frozenset[Place] = frozenset()
        self._wants_split: bool | None = None
        self._painter: DiffPainter | None = None
        self._colours: dict[int, Colours] = {}
        self._asked: set[_Chunk] = set()
        self._worker = Worker("colours")
        self._tasks: set[asyncio.Task[None]] = set()
        self.painted = 0
        """Number of rows painted so far: only visible rows are painted."""

    # what is shown

    def show(self, files: Sequence[FileDiff]) -> None:
        """Show another diff, from its beginning."""
        self._colours.clear()
        self._asked.clear()
        self.placeholder = ()
        self.pan = 0
        self.selected = frozenset()
        self._arrange(DiffLayout(files, is_split=self.is_split))
        self.here = self.layout_of_rows.next_hunk(None, 1)
        self.scroll_to(y=0, animate=False, force=True)

    def show_words(self, lines: tuple[str, ...]) -> None:
        """Show a text instead of a diff."""
        if not self.layout_of_rows.files and lines == self.placeholder:
            return
        self.placeholder = lines
        self.here = None
        self._arrange(DiffLayout(()))

    def _arrange(self, layout: DiffLayout) -> None:
        self.layout_of_rows = layout
        self.virtual_size = Size(self.size.width, layout.height)
        self.refresh()

    @property
    def is_split(self) -> bool:
        """True if old and new lines are shown side by side."""
        return self.size.width >= self._split_from if self._wants_split is None else self._wants_split

    @property
    def is_coloured(self) -> bool:
        """True if no drawn line waits for its colours."""
        return self._worker.is_idle and not self._tasks

    @property
    def coloured_lines(self) -> int:
        """Number of lines that were coloured so far."""
        return len(self._colours)

    @property
    def hunk(self) -> tuple[FileDiff, Hunk] | None:
        """The hunk under the cursor and its file, None if there is none."""
        if self.here is None:
            return None
        file = self.layout_of_rows.files[self.here[0]]
        return file, file.hunks[self.here[1]]

    @property
    def selection(self) -> list[tuple[FileDiff, Hunk]]:
        """The selected hunks with their files; the one under the cursor where none is."""
        files, places = self.layout_of_rows.files, sorted(self.selected)
        return [(files[file], files[file].hunks[at]) for file, at in places] or ([self.hunk] if self.hunk else [])

    def select_hunk(self) -> bool:
        """Select the hunk under the cursor, or unselect it; returns whether it is selected now."""
        if self.here is not None:
            self.selected ^= {self.here}
            self.refresh()
        return self.here in self.selected

    @property
    def hunk_text(self) -> str:
        """The selected hunk as a patch, "" if there is none."""
        return "" if self.hunk is None else as_text(*self.hunk)

    @property
    def text(self) -> str:
        """The whole diff as a patch."""
        files = self.layout_of_rows.files
        return "\n".join(as_text(file, hunk, len(hunk.lines)) for file in files for hunk in file.hunks)

    def find(self, needle: str) -> list[int]:
        """Return the rows of the lines with this text, in any case; folded ones are not searched."""
        wanted, found = needle.casefold(), []
        for y in range(self.layout_of_rows.height if wanted else 0):
            row = self.layout_of_rows.row(y)
            lines = (row.line,) if isinstance(row, Unified) else (row.left, row.right) if isinstance(row, Sides) else ()
            if any(line is not None and wanted in line.text.casefold() for line in lines):
                found.append(y)
        return found

    def go_to_row(self, y: int) -> None:
        """Select the hunk of a row, and show the row below the middle of the first third."""
        self.here = self.layout_of_rows.hunk_at(y)
        self.scroll_to(y=max(0, y - max(1, self.size.height // 4)), animate=False, force=True)
        self.refresh()

    # what keys do

    def toggle_sides(self) -> None:
        """Switch between one column and two."""
        self._wants_split = not self.is_split
        self._again(self._top())

    def fold_hunk(self) -> None:
        """Fold or unfold the selected hunk."""
        if self.here is None:
            return
        here, now = self.here, self.layout_of_rows
        files = now.folded_files - {here[0]}
        self._fold(files, now.folded_hunks ^ {here})
        self._see(self.layout_of_rows.start_of(here))

    def fold_file(self) -> None:
        """Fold or unfold the file of the selected hunk."""
        now = self.layout_of_rows
        number = self.here[0] if self.here is not None else now.file_at(self.scroll_offset.y)
        if number is None:
            return
        self._fold(now.folded_files ^ {number}, now.folded_hunks)
        self._see(self.layout_of_rows.start_of_file(number))

    def _fold(self, files: frozenset[int], hunks: frozenset[Place]) -> None:
        self._arrange(
            DiffLayout(self.layout_of_rows.files, is_split=self.is_split, folded_files=files, folded_hunks=hunks)
        )

    def _again(self, top: tuple[int, Place | None]) -> None:
        """Lay out the same files again, and keep the scroll position."""
        now = self.layout_of_rows
        self._fold(now.folded_files, now.folded_hunks)
        number, place = top
        row = self.layout_of_rows.start_of(place) if place is not None else self.layout_of_rows.start_of_file(number)
        self.scroll_to(y=row, animate=False, force=True)

    def _top(self) -> tuple[int, Place | None]:
        y = self.scroll_offset.y
        now = self.layout_of_rows
        return now.file_at(y) or 0, now.hunk_at(y) if y else None

    def go_to_hunk(self, step: int) -> bool:
        """Select the next hunk (1) or the previous one (-1), and show it; return False at the end."""
        place = self.layout_of_rows.next_hunk(self.here, step)
        if place is None:
            return False
        self.here = place
        self._see(self.layout_of_rows.start_of(place))
        self.refresh()
        return True

    def go_to_file(self, step: int) -> bool:
        """Move to the next file (1) or the previous one (-1); return False at the end."""
        now = self.layout_of_rows
        number = self.here[0] if self.here is not None else now.file_at(self.scroll_offset.y) or 0
        wanted = number + step
        if not 0 <= wanted < len(now.files):
            return False
        has_hunk = bool(now.files[wanted].hunks) and wanted not in now.folded_files
        self.here = (wanted, 0) if has_hunk else self.here
        self.scroll_to(y=now.start_of_file(wanted), animate=False, force=True)
        self.refresh()
        return True

    def scroll_lines(self, lines: int) -> None:
        """Scroll down, or up if negative, and select the first hunk on the screen."""
        top = max(0, min(self.scroll_offset.y + lines, self.max_scroll_y))
        self.scroll_to(y=top, animate=False, force=True, immediate=True)
        if lines and self.layout_of_rows.hunks:
            self.here = self.layout_of_rows.hunk_at(top)
            self.refresh()

    def pan_by(self, cells: int) -> None:
        """Scroll right, or left if negative."""
        self.pan = max(0, min(self.pan + cells, 2_000))
        self.refresh()

    def _see(self, row: int) -> None:
        """Scroll until the row, and some rows below it, are visible."""
        top, height = self.scroll_offset.y, self.size.height
        if not top <= row < top + max(1, height * 2 // 3):
            self.scroll_to(y=max(0, row - 1), animate=False, force=True)
        self.refresh()

    # drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        painter = self._painter_now
        now = self.layout_of_rows
        if not now.files:
            inside = 0 <= y - 1 < len(self.placeholder)
            return painter.words(self.placeholder[y - 1], is_headline=y == 1) if inside else painter.blank()
        row = now.row(self.scroll_offset.y + y)
        if row is None:
            return painter.blank()
        self.painted += 1
        if isinstance(row, Unified | Sides):
            self._want_colours(row.place, row.index)
        return painter.row(
            row, digits=now.digits, pan=self.pan, here=self.here, selected=self.selected, colours=self._colours
        )

    @property
    def _painter_now(self) -> DiffPainter:
        width = self.scrollable_content_region.width
        if self._painter is None or self._painter.width != width:
            self._painter = DiffPainter({part: self._style(part) for part in PARTS}, width)
        return self._painter

    def _style(self, part: str) -> Style:
        """Return the whole style of a background; of other parts, only the attributes that fit any background."""
        whole = self.get_component_rich_style(f"diff-view--{part}")
        if part.endswith("-word"):
            return Style(bgcolor=whole.bgcolor, bold=True)
        return whole if part in BACKGROUNDS else Style(color=whole.color, bold=whole.bold or None)

    # colours

    def _want_colours(self, place: Place, index: int) -> None:
        """Request the colours of the lines around this one, once."""
        chunk = (place, index // CHUNK)
        if chunk in self._asked:
            return
        self._asked.add(chunk)
        file = self.layout_of_rows.files[place[0]]
        language = source_colours.language_of(file.path)
        if language:
            task = asyncio.create_task(self._colour(self.layout_of_rows.files, file.hunks[place[1]], chunk, language))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _colour(self, files: tuple[FileDiff, ...], hunk: Hunk, chunk: _Chunk, language: str) -> None:
        start = chunk[1] * CHUNK
        lines = hunk.lines[start : start + CHUNK]
        found = await self._worker.submit(lambda: _colours_of(language, lines))
        if files is self.layout_of_rows.files:
            self._colours.update(found)
            self.refresh()

    def on_unmount(self) -> None:
        """Stop the thread."""
        for task in self._tasks:
            task.cancel()
        self._worker.end(patience=0)

    # what Textual tells

    def notify_style_update(self) -> None:
        """Repaint with the new colours."""
        super().notify_style_update()
        self._painter = None
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Switch between one column and two if the width requires it."""
        if self.layout_of_rows.files and self.layout_of_rows.is_split is not self.is_split:
            self._again(self._top())
        else:
            self.virtual_size = Size(self.size.width, self.layout_of_rows.height)
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the title that was clicked; go to the hunk of a line, and select it by a double click."""
        row = self.layout_of_rows.row(self.scroll_offset.y + event.y)
        match row:
            case FileHead():
                now = self.layout_of_rows
                self._fold(now.folded_files ^ {row.number}, now.folded_hunks)
            case HunkHead():
                self.here = row.place
                self.fold_hunk()
            case Unified() | Sides():
                self.here = row.place
                if event.chain == 2:
                    self.select_hunk()
                self.refresh()
            case _:
                return


def _colours_of(language: str, lines: Sequence[DiffLine]) -> dict[int, Colours]:
    """Return the colours of each line by the identity of its object. Each side is lexed as a text of its own."""
    found: dict[int, Colours] = {}
    for without in (LineKind.ADDED, LineKind.REMOVED):
        side = [line for line in lines if line.kind is not without]
        colours = source_colours.coloured(language, [line.text for line in side])
        found.update({id(line): spans for line, spans in zip(side, colours, strict=True)})
    return found
