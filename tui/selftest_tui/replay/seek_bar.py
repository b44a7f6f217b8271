"""The seek bar under a recording: activity over time, markers, matches of a search, and the current position.

It has two lines: names and matches above, activity between two times below. Click or drag to seek. Each kind of mark
has its own character, so colour is never the only sign. It takes values; it does not know recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from selftest_core.frozen import dataclass
from selftest_tui.replay.playhead import clock_text
from selftest_tui.shared.present import clean, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from selftest_recorder.index.index import Activity, Marker

LEVELS = " ▁▂▃▄▅▆▇█"
MARK, HIT, HERE = "▾", "•", "┃"
_LONGEST_LABEL = 24

type Piece = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Places:
    """The contents of the bar. `known`: the known share of the recording's file."""

    time: float = 0.0
    duration: float = 0.0
    known: float = 1.0
    markers: tuple[Marker, ...] = ()
    hits: tuple[float, ...] = ()
    is_live: bool = False


class SeekBar(Widget):
    """Shows `Places` and the activity."""

    DEFAULT_CSS = """
    SeekBar { height: 2; width: 1fr; background: $panel; color: $foreground; }
    """

    class Sought(Message):
        """The bar was clicked, or dragged to `share` of the duration (0 to 1)."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    def __init__(self) -> None:
        super().__init__()
        self._places = Places()
        self._activity: Activity | None = None
        self._levels: tuple[object, list[int]] = (None, [])
        self._is_dragged = False
        self._shown = Content("")
        self._pieces: list[list[Piece]] = []

    def show(self, places: Places, activity: Activity | None) -> None:
        """Show other contents."""
        self._places, self._activity = places, activity
        self._repaint()

    @property
    def room(self) -> range:
        """The columns of the time axis."""
        width = cell_len(clock_text(self._places.duration)) + 2
        return range(width, max(width + 1, self.size.width - width))

    def render(self) -> Content:
        """Draw both lines."""
        return self._shown

    def on_resize(self) -> None:
        """Redraw for the new width."""
        self._repaint()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Seek there, and start dragging."""
        event.stop()
        self._is_dragged = True
        self.capture_mouse()
        self._seek(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Seek while dragging."""
        if self._is_dragged:
            event.stop()
            self._seek(event.x)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Stop dragging."""
        event.stop()
        self._is_dragged = False
        self.release_mouse()

    def _seek(self, x: int) -> None:
        room = self.room
        self.post_message(self.Sought(min(max((x - room.start) / max(len(room) - 1, 1), 0.0), 1.0)))

    def _repaint(self) -> None:
        if not self.size.width:
            return
        pieces = [self._names(), self._bar()]
        if pieces != self._pieces:
            self._pieces = pieces
            self._shown = Content("\n").join(Content.assemble(*line) for line in pieces)
            self.refresh()

    def _cell(self, time: float) -> int:
        """Return the cell of a time, counted from the start of the time axis."""
        share = time / self._places.duration if self._places.duration > 0 else 0.0
        return min(max(round(share * (len(self.room) - 1)), 0), len(self.room) - 1)

    def _names(self) -> list[Piece]:
        room = len(self.room)
        signs, styles = [" "] * room, [""] * room
        for time in self._places.hits:
            cell = self._cell(time)
            signs[cell], styles[cell] = HIT, "bold $text-warning"
        taken = -1
        cells = [self._cell(marker.time) for marker in self._places.markers]
        for number, (cell, marker) in enumerate(zip(cells, self._places.markers, strict=True)):
            signs[cell], styles[cell] = MARK, "bold $text-accent"
            following = next((one for one in cells[number + 1 :] if one > cell), room)
            label = clean(marker.label).strip()
            space = min(following - cell - 2, _LONGEST_LABEL)
            if label and cell > taken and space >= min(cell_len(label), 4):
                text = fit(label, min(cell_len(label), space))
                is_free = all(sign == " " for sign in signs[cell + 1 : cell + 1 + len(text)])
                if is_free and cell_len(text) == len(text):
                    signs[cell + 1 : cell + 1 + len(text)] = list(text)
                    styles[cell + 1 : cell + 1 + len(text)] = ["$text-accent"] * len(text)
                    taken = cell + len(text)
        return [(" " * self.room.start, ""), *_joined(signs, styles)]

    def _bar(self) -> list[Piece]:
        places, room = self._places, len(self.room)
        levels = self._activity_levels(room)
        here = self._cell(places.time)
        signs, styles = [], []
        for cell in range(room):
            signs.append(HERE if cell == here else LEVELS[levels[cell]] if levels[cell] else "·")
            style = "$primary" if cell < here else "$foreground-muted"
            styles.append("bold $text-accent" if cell == here else style)
        now = clock_text(places.time, like=places.duration)
        end = "live" if places.is_live else clock_text(places.duration)
        return [
            (fit(f" {now} ", self.room.start), "bold"),
            *_joined(signs, styles),
            (fit(f" {end}", max(0, self.size.width - self.room.stop)), ""),
        ]

    def _activity_levels(self, room: int) -> list[int]:
        if self._activity is None:
            return [0] * room
        key = (id(self._activity), self._places.duration, self._places.known, room)
        if self._levels[0] != key:
            self._levels = (key, self._activity.levels(self._places.duration, room, len(LEVELS) - 1))
        return self._levels[1]


def _joined(signs: Sequence[str], styles: Sequence[str]) -> list[Piece]:
    """Join neighbouring cells of one style."""
    pieces: list[Piece] = []
    for sign, style in zip(signs, styles, strict=True):
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + sign, style)
        else:
            pieces.append((sign, style))
    return pieces
