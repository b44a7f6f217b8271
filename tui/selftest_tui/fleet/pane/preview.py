"""The live screen of one pane, with its colours.

Each capture costs one tmux process, so only one pane is captured: often while its screen changes or the user types,
with backoff to once in two seconds while it does not change, never while the widget is hidden. While the user moves
through a list, captures wait until the cursor stops; until the new screen is there, the last one of that pane is shown.

The bottom left corner of the used lines is shown, since new output appears there; the user can scroll back into the
history. `selftest_tui.fleet.pane.typist` does the typing.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from selftest_core.errors import RefusedError, SelftestError
from selftest_core.frozen import dataclass
from selftest_tui.shared.present import clean
from selftest_tui.shared.widgets.screen_text import strips, with_cursor, wrapped

if TYPE_CHECKING:
    from textual import events
    from textual.timer import Timer

    from selftest_core.tools.panes import PaneText
    from selftest_core.tools.tmux import SessionRef

TYPED = 0.05
"""Seconds from a typed key to the next capture."""
BUSY = 0.2
"""Seconds between captures of a screen that changes."""
IDLE = 2.0
"""Seconds between captures of a screen that does not change."""
_SLOWER = 1.5
_SETTLED = 0.08
_KEPT = 32


class PaneRef(NamedTuple):
    """A pane to capture; `pane_id` None: the active pane of the session."""

    session: SessionRef
    pane_id: str | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """The visible part of a pane: its lines, top first, and its position in the whole.

    `back`: number of lines that it is scrolled back; `most_back`: the largest possible. `cursor`: (column, row in
    `lines`), None if it is outside.
    """

    lines: tuple[Strip, ...]
    back: int = 0
    most_back: int = 0
    history: int = 0
    cursor: tuple[int, int] | None = None
    width: int = 0
    title: str = ""
    is_dead: bool = False


def part_of(pane: PaneText, rows: int, back: int, history_then: int) -> Shown:
    """Return the `rows` lines of a captured pane that are `back` lines above the default position.

    The default is the whole screen if it fits, else the `rows` lines up to the last used one.

    A scrolled part stays in place while the pane prints more: `history_then` is the length of the history when `back`
    was chosen.
    """
    lines = pane.text.split("\n")
    top = max(0, len(lines) - pane.height)
    used = len(lines)
    while used > top + pane.cursor_y + 1 and not lines[used - 1].strip():
        used -= 1
    start = top if pane.height <= rows else max(top, used - rows)
    most_back = pane.history_size + start - top
    if back:
        back = max(0, min(back + max(0, pane.history_size - history_then), most_back))
    first = max(0, start - back)
    end = min(len(lines), first + rows)
    row = top + pane.cursor_y - first
    return Shown(
        lines=strips(lines, first, end),
        back=back,
        most_back=most_back,
        history=pane.history_size,
        cursor=(pane.cursor_x, row) if pane.cursor_visible and 0 <= row < end - first else None,
        width=pane.width,
        title=pane.title,
        is_dead=pane.dead,
    )


class Preview(Widget):
    """Shows one pane, or a text if there is none."""

    DEFAULT_CSS = "Preview { width: 1fr; height: 1fr; }"

    class Looked(Message):
        """A capture of a pane, scrolled back by `back` lines, has ended with its lines or with an error."""

        def __init__(
            self, pane: PaneRef, back: int, text: str, shown: Shown | None = None, error: SelftestError | None = None
        ) -> None:
            super().__init__()
            self.pane = pane
            self.back = back
            self.text = text
            self.shown = shown
            self.error = error

    def __init__(self) -> None:
        super().__init__(id="preview")
        self._pane: PaneRef | None = None
        self._shown: Shown | None = None
        self._last_text = ""
        self._parsed: tuple[tuple[PaneText, int, int, int], Shown] | None = None
        """Last capture with the part of it that was wanted, and the result."""
        self._words = ""
        self._kept: tuple[str, ...] = ()
        """The lines of a screen that was captured elsewhere."""
        self._known: OrderedDict[PaneRef, Shown] = OrderedDict()
        self._back = 0
        self._left = 0
        self._interval = BUSY
        self._is_looking = False
        self._is_asked_again = False
        self._timer: Timer | None = None
        self._moved_at = 0.0
        self._shows_cursor = False

    @property
    def pane(self) -> PaneRef | None:
        """The pane that is captured."""
        return self._pane

    @property
    def shown(self) -> Shown | None:
        """The part of the pane that is on the screen, None if a text is shown."""
        return self._shown

    @property
    def words(self) -> str:
        """The text that is shown instead of a pane."""
        return self._words

    def show(self, pane: PaneRef | None, words: str = "") -> None:
        """Capture this pane from now on; without one, show `words`."""
        if pane is None:
            self._stop_timer()
        if pane == self._pane and (pane is not None or words == self._words):
            return
        self._pane = pane
        self._kept = ()
        self._back = self._left = 0
        self._last_text = ""
        self._interval = BUSY
        self._words = words if pane is None else ""
        self._shown = None if pane is None else self._known.get(pane)
        now = time.monotonic()
        rested = now - self._moved_at > 3 * _SETTLED
        self._moved_at = now
        if pane is not None:
            self._look_in(0.0 if rested else _SETTLED)
        self.refresh()

    def show_text(self, text: str) -> None:
        """Show a screen that was captured elsewhere, once."""
        self.show(None, "")
        self._kept = tuple(text.rstrip().split("\n"))
        self._fit_kept()

    def _fit_kept(self) -> None:
        """Show the last lines that fit; a hidden widget has no height yet."""
        lines = list(self._kept)
        shown = strips(lines, max(0, len(lines) - max(1, self.size.height)))
        self._shown = Shown(shown, width=max((strip.cell_length for strip in shown), default=0))
        self.refresh()

    def show_cursor(self, is_shown: bool) -> None:
        """Draw the pane's cursor, and keep it visible."""
        self._shows_cursor = is_shown
        self._left = 0
        self.refresh()

    def hurry(self) -> None:
        """Capture soon: the pane was given input."""
        self._interval = BUSY
        self._back = 0
        if self._pane is not None:
            self._look_in(TYPED)

    def scroll_text(self, lines: int) -> None:
        """Scroll by lines; negative is back into the history."""
        if self._shown is None or self._pane is None:
            return
        back = max(0, min(self._shown.most_back, self._back - lines))
        if back != self._back:
            self._back = back
            self._look_in(0.0)

    @property
    def left(self) -> int:
        """Number of cells that are hidden on the left."""
        return self._left

    def pan(self, cells: int) -> None:
        """Move the visible part to the right, or to the left if negative."""
        widest = 0 if self._shown is None else max(0, self._shown.width - self.size.width)
        self._left = max(0, min(widest, self._left + cells))
        self.refresh()

    # Capturing

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _look_in(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.set_timer(max(seconds, 0.001), self._look)

    def _look(self) -> None:
        self._timer = None
        pane = self._pane
        if pane is None or not self.is_on_screen or not self.size:
            return  # on_show captures again
        if self._is_looking:
            self._is_asked_again = True
            return
        self._is_looking = True
        history_then = self._shown.history if self._shown is not None else 0
        look = partial(self._capture, pane, self.size.height, self._back, history_then)
        self.run_worker(look, thread=True, group="preview", description="look at a pane")

    def _capture(self, pane: PaneRef, rows: int, back: int, history_then: int) -> None:
        """Capture the pane with one tmux process, and cut the lines that fit; called in a thread."""
        from selftest_core.tools import panes  # imports all subprocess code: not needed for the first frame

        try:
            captured = panes.capture(pane.session, pane.pane_id, lines_of_history=back + 2 * rows if back else 0)
            if self._is_own(pane, captured.pane_id):
                raise RefusedError("This is the terminal that you are looking at.")
            wanted = (captured, rows, back, history_then)
            if self._parsed is None or self._parsed[0] != wanted:
                self._parsed = (wanted, part_of(*wanted))
            shown = self._parsed[1]
        except SelftestError as error:
            self.post_message(self.Looked(pane, back, "", error=error))
        except Exception as error:
            # Any terminal contents, a full disk or a full process table may only end this capture.
            said = SelftestError(f"This terminal cannot be shown: {error}", type(error).__name__, "It is tried again.")
            self.post_message(self.Looked(pane, back, "", error=said))
        else:
            self.post_message(self.Looked(pane, back, captured.text, shown))

    @staticmethod
    def _is_own(pane: PaneRef, pane_id: str) -> bool:
        """Return whether this program runs in the pane: its preview would show itself."""
        from selftest_core.tools.tmux import own_server

        own = own_server(os.environ)
        return (
            own is not None and own[1] == pane_id and os.path.realpath(own[0]) == os.path.realpath(pane.session.socket)
        )

    def on_preview_looked(self, event: Looked) -> None:
        event.stop()
        self._is_looking = False
        if event.pane != self._pane:
            self._look_in(0.0)
            return
        if event.shown is not None:
            if event.back == self._back:  # else it was scrolled meanwhile
                self._back = event.shown.back
            self._take(event.shown, event.text)
        elif event.error is not None:
            self._shown = None
            self._known.pop(event.pane, None)
            self._words = "\n".join(part for part in (event.error.title, event.error.hint) if part)
            self._interval = IDLE
            self.refresh()
        if self._is_asked_again:
            self._is_asked_again = False
            self._look_in(0.0)
        elif self._timer is None:
            self._look_in(self._interval)

    def _take(self, shown: Shown, text: str) -> None:
        is_changed = text != self._last_text
        self._interval = BUSY if is_changed else min(IDLE, self._interval * _SLOWER)
        self._last_text = text
        if self._pane is not None:
            self._known[self._pane] = shown
            self._known.move_to_end(self._pane)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        if shown != self._shown:
            self._shown = shown
            self._words = ""
            self.refresh()

    def on_show(self) -> None:
        self._resume()

    def on_resize(self) -> None:
        self._resume()

    def _resume(self) -> None:
        if self._pane is not None:
            self._look_in(0.0)
        elif self._kept:
            self._fit_kept()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_text(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_text(3)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        event.stop()
        self.pan(-8)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        event.stop()
        self.pan(8)

    # Drawing

    def render_line(self, y: int) -> Strip:
        style = self.visual_style.rich_style
        width = self.size.width
        shown = self._shown
        if shown is None:
            lines = self._wrapped_words(width)
            return Strip.blank(width, style) if y >= len(lines) else _line(lines[y], width, style)
        strip = shown.lines[y] if y < len(shown.lines) else Strip([])
        left = self._left
        if self._shows_cursor and shown.cursor is not None:
            column, row = shown.cursor
            left = max(0, column - width + 1) if column - left >= width or column < left else left
            if y == row:
                strip = with_cursor(strip, column, Style(reverse=True))
        return strip.crop_extend(left, left + width, None).apply_style(style)

    def _wrapped_words(self, width: int) -> list[str]:
        return wrapped(self._words, width)


def _line(text: str, width: int, style: Style) -> Strip:
    return Strip([Segment(clean(text), style)]).adjust_cell_length(width, style)
