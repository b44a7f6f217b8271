"""The terminal emulator in use: create one, and feed it the events of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_recorder.cast.events import OUTPUT, RESIZE, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from selftest_recorder.cast.spans import Span
    from selftest_recorder.terminal.terminal import Terminal

type Piece = bytes | tuple[int, int]
"""Output of any number of events, or a new size in columns and rows."""


def open_terminal(columns: int, rows: int, *, keeps_above: bool = False) -> Terminal:
    """Create a terminal of this size. Imports the emulator here, because that takes a sixth of a second.

    `keeps_above`: it keeps lines above the screen for `Terminal.scrolled_lines`, and takes twice as long.
    """
    from selftest_recorder.terminal.ghostty import GhosttyTerminal

    return GhosttyTerminal(columns, rows, keeps_above=keeps_above)


def feed_span(terminal: Terminal, span: Span, first: int = 0, last: int | None = None) -> None:
    """Apply the events `first` up to (not including) `last` of a span to a terminal."""
    feed_pieces(terminal, pieces_of(span, first, last))


def feed_pieces(terminal: Terminal, pieces: Iterable[Piece]) -> None:
    """Feed output to a terminal, and change its size."""
    for piece in pieces:
        if isinstance(piece, bytes):
            terminal.feed(piece)
        else:
            terminal.resize(*piece)


def pieces_of(span: Span, first: int = 0, last: int | None = None) -> Iterator[Piece]:
    """Iterate over the output and the sizes of the events `first` up to (not including) `last` of a span."""
    data = span.data[first:last]
    if span.has_only_output:
        yield "".join(data).encode("utf-8", "replace")
        return
    waiting: list[str] = []
    for code, one in zip(span.codes[first:last], data, strict=True):
        if code == OUTPUT:
            waiting.append(one)
        elif code == RESIZE and (size := size_of(one)) is not None:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting.clear()
            yield size
    yield "".join(waiting).encode("utf-8", "replace")
