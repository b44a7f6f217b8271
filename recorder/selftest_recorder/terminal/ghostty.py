"""Terminal emulator by libghostty, the only one for Python that draws the output of today's programs.

pyghostty is young: its own layer has no snapshots and reads one cell at a time, so this module reads rows and snapshots
through its raw layer, and the version is pinned. The layout of a cell is read directly for speed; the conformance suite
compares it with the library's own answers.

Everything by which output could have an effect outside of the screen is off: replies are not connected, and pictures
are not loaded, since that protocol names files to read and even to delete. No lines above the screen are kept, so that
they cannot change a result, and scrolling is fastest. The library is told so by a limit of 0 bytes: with one of 0 lines
it scrolls five to ten times as slowly. Style numbers are valid for one page of the library's memory only, so nothing is
cached from them beyond a row.
"""

from __future__ import annotations

import struct
import weakref
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pyghostty import Terminal as _Binding
from pyghostty._ffi import GhosttyError, check, ffi, lib

from selftest_recorder.terminal.terminal import PLAIN, Cursor, Pen, Run, ScreenUpdate, sane_size, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_recorder.terminal.terminal import Colour, Row

_KEPT_SEQUENCE = 64 * 1024
"""Bytes of an unfinished escape sequence that a snapshot can hold."""
_KEPT_CELLS = 200_000
"""Cells above the screen of a terminal that keeps them: enough pages of the library's memory to use them in turn."""
_MOST_MARKS = 16
"""Most characters of one cell: longer stacks of marks are cut."""
_MOST_PENS = 20_000
_MOST_PLAIN_ROWS = 4_000
_CHARACTER = 0x1FFFFF
_CONTENT = 0x3FFFFFF
_STYLE = struct.Struct("=i4x3B5xi4x3B5x16x8?i")
"""Tag and value of both colours, eight flags, the underline: GhosttyStyle from its first colour on."""


def _free_all(handles: list[tuple[Any, Any]]) -> None:
    for free, handle in handles:
        free(handle)


class GhosttyTerminal:
    """The `Terminal` of libghostty."""

    def __init__(self, columns: int, rows: int, *, keeps_above: bool = False) -> None:
        columns, rows = sane_size(columns, rows)
        self._reader = _Reader()
        self._rows: list[Row] = []
        self._changed: set[int] = set()
        self._size = (0, 0)
        self._is_new = True
        self._pending: tuple[int, int] | None = None
        self._keeps_above = keeps_above
        self._reads_texts = False
        self._adopt(_Binding(columns, rows, scrollback=0))

    def feed(self, data: bytes) -> None:
        """Process output."""
        if self._pending is not None and data:
            used = self._terminal.feed_until_ground(data)
            if used is None:
                return
            data = data[used:]
            (columns, rows), self._pending = self._pending, None
            self._resize_now(columns, rows)
        self._terminal.feed(data)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size."""
        size = sane_size(columns, rows)
        if self._is_between_sequences:
            self._resize_now(*size)
        else:
            self._pending = size

    def read_update(self, *, whole: bool = False) -> ScreenUpdate:
        """Return the changed rows."""
        self._read()
        whole = whole or self._is_new
        rows = range(len(self._rows)) if whole else sorted(self._changed)
        self._changed.clear()
        self._is_new = False
        column, line = self._terminal.cursor
        cursor = Cursor(column, line, bool(self._terminal.get("cursor_visible", "bool")))
        columns, lines = self._terminal.size
        return ScreenUpdate(columns, lines, {row: self._rows[row] for row in rows}, cursor, whole)

    def lines(self) -> list[str]:
        """Return the text of all rows."""
        self._read()
        return [text_of(row).rstrip(" ") for row in self._rows]

    def changed_lines(self) -> dict[int, str]:
        """Return the texts of the rows that changed."""
        if not self._reads_texts:
            self._reader.forget()
            self._reads_texts = True
        return self._reader.changed(self._terminal, self._terminal.size, self._reader.text)

    def scrolled_lines(self) -> list[str]:
        """Return the lines above the screen and on it, wrapped ones joined; those above are forgotten."""
        size, data = ffi.new("size_t*"), ffi.new("uint8_t**")
        options = ffi.new("GhosttyFormatterTerminalOptions*")
        options.size = ffi.sizeof("GhosttyFormatterTerminalOptions")
        options.emit, options.unwrap, options.trim = lib.GHOSTTY_FORMATTER_FORMAT_PLAIN, True, True
        formatter = ffi.new("GhosttyFormatter*")
        check(lib.ghostty_formatter_terminal_new(ffi.NULL, formatter, self._terminal._t[0], options[0]), "formatter")
        try:
            check(lib.ghostty_formatter_format_alloc(formatter[0], ffi.NULL, data, size), "text")
            text = bytes(ffi.buffer(data[0], size[0])).decode("utf-8", "replace")
            lib.ghostty_free(ffi.NULL, data[0], size[0])
        finally:
            lib.ghostty_formatter_free(formatter[0])
        if self._is_between_sequences:
            self._forget_history()
        return text.split("\n")

    def snapshot(self) -> bytes | None:
        """Return the state; None inside of a very long sequence, or of one that a resize waits for."""
        if self._pending is not None:
            return None
        size, data = ffi.new("size_t*"), ffi.new("uint8_t**")
        if lib.ghostty_snapshot_encode_alloc(self._terminal._t[0], ffi.NULL, data, size):
            return None
        try:
            taken: bytes = ffi.buffer(data[0], size[0])[:]
        finally:
            lib.ghostty_free(ffi.NULL, data[0], size[0])
        return taken

    def restore(self, snapshot: bytes) -> None:
        """Restore a state."""
        decoder, held = ffi.new("GhosttySnapshotDecoder*"), ffi.from_buffer(snapshot)
        try:
            data = ffi.cast("uint8_t*", held)
            check(lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, data, len(snapshot)), "")
            made = ffi.new("GhosttyTerminal*")
            try:
                # Otherwise the next snapshot could not hold a sequence that was cut here.
                _set_decoder(decoder[0], lib.GHOSTTY_SNAPSHOT_DECODER_OPT_RETAIN_CONTINUATION, ffi.new("bool*", True))
                check(lib.ghostty_snapshot_decoder_decode(decoder[0], made), "")
            finally:
                lib.ghostty_snapshot_decoder_free(decoder[0])
        except GhosttyError as error:
            raise ValueError("not a snapshot of this terminal") from error
        binding = _Binding.__new__(_Binding)
        binding._t = made
        binding._unknown_cb = binding._reply_cb = binding._cb_err = None
        binding._free = weakref.finalize(binding, lib.ghostty_terminal_free, made[0])
        self._pending = None
        self._adopt(binding)

    def _adopt(self, terminal: Any) -> None:
        before, self._terminal = getattr(self, "_terminal", None), terminal
        if before is not None:
            before.close()
        self._reader.forget()
        if self._keeps_above:
            self._set("SCROLLBACK_MAX_LINES", ffi.new("size_t*", _KEPT_CELLS // terminal.size[0]))
        else:
            self._set("SCROLLBACK_MAX_BYTES", ffi.new("size_t*", 0))
        self._set("RESIZE_PULL_SCROLLBACK", ffi.new("bool*", False))
        self._set("CONTINUATION_MAX_BYTES", ffi.new("size_t*", _KEPT_SEQUENCE))
        self._set("KITTY_IMAGE_STORAGE_LIMIT", ffi.new("uint64_t*", 0))  # 0 turns the protocol off

    def _set(self, option: str, value: Any) -> None:
        number = getattr(lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        check(lib.ghostty_terminal_set(self._terminal._t[0], number, value), option)

    def _read(self) -> None:
        """Update the rows. The library forgets changes once they are read, so there is one reader."""
        size: tuple[int, int] = self._terminal.size
        if self._reads_texts:
            self._reader.forget()
            self._reads_texts = False
        if size != self._size:
            self._size, self._is_new = size, True
            self._rows = [()] * size[1]
        for row, runs in self._reader.changed(self._terminal, size, self._reader.row).items():
            if self._rows[row] != runs:
                self._rows[row] = runs
                self._changed.add(row)

    @property
    def _is_between_sequences(self) -> bool:
        return bool(self._terminal.get("vt_ground", "bool"))

    def _forget_history(self) -> None:
        self._terminal.feed(b"\x1b[3J")

    def _resize_now(self, columns: int, rows: int) -> None:
        self._forget_history()
        self._terminal.resize(columns, rows)


def _set_decoder(decoder: Any, option: int, value: Any) -> None:
    check(lib.ghostty_snapshot_decoder_set(decoder, option, value), "decoder")


class _Reader:
    """Reader of the rows that changed; owns the library's objects for it."""

    def __init__(self) -> None:
        self._state = ffi.new("GhosttyRenderState*")
        self._rows = ffi.new("GhosttyRenderStateRowIterator*")
        self._cells = ffi.new("GhosttyRenderStateRowCells*")
        handles: list[tuple[Any, Any]] = []
        self._finalizer = weakref.finalize(self, _free_all, handles)
        check(lib.ghostty_render_state_new(ffi.NULL, self._state), "render state")
        handles.append((lib.ghostty_render_state_free, self._state[0]))
        check(lib.ghostty_render_state_row_iterator_new(ffi.NULL, self._rows), "rows")
        handles.append((lib.ghostty_render_state_row_iterator_free, self._rows[0]))
        check(lib.ghostty_render_state_row_cells_new(ffi.NULL, self._cells), "cells")
        handles.append((lib.ghostty_render_state_row_cells_free, self._cells[0]))
        self._view = ffi.new("GhosttyCellsView*")
        self._y = ffi.new("uint16_t*")
        self._style = ffi.new("GhosttyStyle*")
        self._style.size = ffi.sizeof("GhosttyStyle")
        self._style_bytes = ffi.buffer(self._style)
        self._length = ffi.new("uint32_t*")
        self._marks = ffi.new("uint32_t[256]")
        self._size: tuple[int, int] | None = None

    def forget(self) -> None:
        """Forget all rows before another terminal is read."""
        self._size = None

    def changed[T](self, terminal: Any, size: tuple[int, int], read: Callable[[Any], T]) -> dict[int, T]:
        """Return what `read` makes of the rows that changed since the last call; all for another terminal or size."""
        check(lib.ghostty_render_state_update(self._state[0], terminal._t[0]), "render state")
        check(
            lib.ghostty_render_state_get(self._state[0], lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, self._rows), "rows"
        )
        rows: dict[int, T] = {}
        iterator = self._rows[0]
        if size != self._size:
            self._size = size
            while len(rows) < size[1] and lib.ghostty_render_state_row_iterator_next(iterator):
                rows[len(rows)] = read(iterator)
        else:
            while lib.ghostty_render_state_row_iterator_next_dirty(iterator, self._y):
                rows[self._y[0]] = read(iterator)
        check(lib.ghostty_render_state_clean(self._state[0]), "render state")
        return rows

    def text(self, iterator: Any) -> str:
        """Return the characters of a row without its styles, which cost most of the time."""
        raw = self._cells_of(iterator)
        count = -(-len(raw) // 8)
        masks = _masks(count)
        number = int.from_bytes(raw, "little")
        if number & masks.difficult:
            return text_of(self.row(iterator)).rstrip(" ")
        characters = number >> 2 & (masks.ones ^ (number >> 1 & masks.ones)) * _CHARACTER
        text = characters.to_bytes(count * 8, "little").decode("utf-32-le")[::2]
        return text.replace("\0", " ").rstrip(" ")

    def _cells_of(self, iterator: Any) -> bytes:
        """Return the cells of a row up to its last one with anything in it."""
        view = self._view
        lib.ghostty_render_state_row_get(iterator, lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW, view)
        if not view.len:
            return b""
        raw: bytes = ffi.buffer(view.ptr, view.len * 8)[:].rstrip(b"\0")
        return raw

    def row(self, iterator: Any) -> Row:
        """Return the runs of a row."""
        raw = self._cells_of(iterator)
        if not raw:
            return ()
        known = _PLAIN_ROWS.get(raw)
        if known is not None:
            return known
        count = -(-len(raw) // 8)
        masks = _masks(count)
        number = int.from_bytes(raw, "little")
        if number & masks.difficult:
            cells = memoryview(raw.ljust(count * 8, b"\0")).cast("Q").tolist()
            return self._difficult(cells, iterator)
        row = self._runs(number, masks, iterator)
        if not number & masks.drawn:
            if len(_PLAIN_ROWS) >= _MOST_PLAIN_ROWS:
                _PLAIN_ROWS.clear()
            _PLAIN_ROWS[raw] = row
        return row

    def _runs(self, number: int, masks: _Masks, iterator: Any) -> Row:
        """Return the runs of a row of narrow characters, whose cells are the parts of one large number.

        Arithmetic on that number handles all cells at once, thirty times as fast as a loop.
        """
        filled = number >> 1 & masks.ones
        characters = number >> 2 & (masks.ones ^ filled) * _CHARACTER
        text = characters.to_bytes(masks.cells * 8, "little").decode("utf-32-le")[::2].replace("\0", " ")
        keys = number & (masks.styles | filled * _CONTENT)
        if not keys:
            return (Run(text, PLAIN, masks.cells),)
        runs: list[Run] = []
        at, is_at_cells = 0, False
        for key, group in groupby(memoryview(keys.to_bytes(masks.cells * 8, "little")).cast("Q").tolist()):
            end = at + len(list(group))
            if not key:
                pen = PLAIN
            elif key & 2:
                pen = Pen(background=_filling(key))
            else:
                is_at_cells = self._select(iterator, at, is_at_cells)
                pen = self._pen_here()
            runs.append(Run(text[at:end], pen, end - at))
            at = end
        return tuple(runs)

    def _difficult(self, cells: list[int], iterator: Any) -> Row:
        """Return the runs of a row with wide characters or marks: a run holds one kind of character."""
        runs: list[Run] = []
        texts: list[str] = []
        pen, current, width, is_at_cells = PLAIN, (0, 0), 0, False
        for x, cell in enumerate(cells):
            if cell >> 42 & 3 == 2:
                continue  # the right half of a wide character
            tag = cell & 3
            key = cell & (_CONTENT if tag & 2 else 0xFFFF << 26)
            each = 2 if cell >> 42 & 3 == 1 else 1
            if (key, each) != current or tag == 1:
                if width:
                    runs.append(Run("".join(texts), pen, width))
                    texts, width = [], 0
                if not key:
                    pen = PLAIN
                elif tag & 2:
                    pen = Pen(background=_filling(cell))
                elif key != current[0]:
                    is_at_cells = self._select(iterator, x, is_at_cells)
                    pen = self._pen_here()
                current = (key, 0 if tag == 1 else each)  # a character with marks is a run of its own
            width += each
            if tag == 1:
                is_at_cells = self._select(iterator, x, is_at_cells)
                texts.append(self._cluster(cell))
            else:
                texts.append(chr(cell >> 2 & _CHARACTER) if not tag and cell >> 2 & _CHARACTER else " ")
        if width:
            runs.append(Run("".join(texts), pen, width))
        return tuple(runs)

    def _select(self, iterator: Any, x: int, is_at_cells: bool) -> bool:
        if not is_at_cells:
            lib.ghostty_render_state_row_get(iterator, lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS, self._cells)
        lib.ghostty_render_state_row_cells_select(self._cells[0], x)
        return True

    def _pen_here(self) -> Pen:
        lib.ghostty_render_state_row_cells_get(
            self._cells[0], lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_STYLE, self._style
        )
        return _pen(self._style_bytes[8:68])

    def _cluster(self, cell: int) -> str:
        """Return a character with its marks."""
        get, cells = lib.ghostty_render_state_row_cells_get, self._cells[0]
        get(cells, lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_GRAPHEMES_LEN, self._length)
        if self._length[0] > len(self._marks):
            return chr(cell >> 2 & _CHARACTER)
        get(cells, lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_GRAPHEMES_BUF, self._marks)
        return "".join(map(chr, self._marks[0 : min(self._length[0], _MOST_MARKS)]))


class _Masks(NamedTuple):
    """The same bits of each of so many cells: the lowest; the style; what needs a loop; what is not plain text.

    A cell has, from its lowest bit: 2 its kind (0 a character, 1 one with marks, 2 and 3 only a background),
    24 the character or colour, 16 the number of its style, 2 its width (1 wide, 2 and 3 not drawn).
    """

    cells: int
    ones: int
    styles: int
    difficult: int
    drawn: int


@cache
def _masks(count: int) -> _Masks:
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")
    # Marks are 1 in what it holds, which a background of the second kind has too: that is loop work as well.
    return _Masks(count, ones, ones * (0xFFFF << 26), ones * (3 << 42 | 1), ones * (0xFFFF << 26 | 3))


_PLAIN_ROWS: dict[bytes, Row] = {}
_PENS: dict[bytes, Pen] = {}


def _filling(cell: int) -> Colour:
    """Return the colour of a cell that has only a background."""
    value = cell >> 2 & 0xFFFFFF
    return value & 0xFF if cell & 3 == 2 else (value & 0xFF, value >> 8 & 0xFF, value >> 16)


def _pen(style: bytes) -> Pen:
    known = _PENS.get(style)
    if known is not None:
        return known
    numbers = _STYLE.unpack(style)
    bold, italic, dim, blink, reverse, conceal, strike, overline, underline = numbers[8:]
    pen = Pen(
        _colour(*numbers[0:4]), _colour(*numbers[4:8]),
        bold, dim, italic, blink, reverse, conceal, strike, overline, underline,
    )  # fmt: skip
    if len(_PENS) >= _MOST_PENS:
        _PENS.clear()
    _PENS[style] = pen
    return pen


def _colour(tag: int, first: int, second: int, third: int) -> Colour:
    if tag == lib.GHOSTTY_STYLE_COLOR_PALETTE:
        return first
    return (first, second, third) if tag == lib.GHOSTTY_STYLE_COLOR_RGB else None
