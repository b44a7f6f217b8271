"""The terminal emulator in use: create one, and feed it the events of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_recorder.cast.events import OUTPUT, RESIZE, size_of

if TYPE_CHECKING:
    from selftest_recorder.cast.spans import Span
    from selftest_recorder.terminal.terminal import Terminal
_ONLY_OUTPUT = frozenset((OUTPUT,))


def open_terminal(columns: int, rows: int) -> Terminal:
    """Create a terminal of this size. Imports the emulator here, because that takes a sixth of a second."""
    from selftest_recorder.terminal.ghostty import GhosttyTerminal

    return GhosttyTerminal(columns, rows)


def feed_span(terminal: Terminal, span: Span, first: int = 0, last: int | None = None) -> None:
    """Apply the events `first` up to (not including) `last` of a span to a terminal."""
    codes = span.codes[first:last]
    data = span.data[first:last]
    if _ONLY_OUTPUT.issuperset(codes):
        if data:
            terminal.feed("".join(data).encode("utf-8", "replace"))
        return
    waiting: list[str] = []
    for code, one in zip(codes, data, strict=True):
        if code == OUTPUT:
            waiting.append(one)
        elif code == RESIZE and (size := size_of(one)) is not None:
            terminal.feed("".join(waiting).encode("utf-8", "replace"))
            waiting.clear()
            terminal.resize(*size)
    terminal.feed("".join(waiting).encode("utf-8", "replace"))
