"""One line on stderr while something takes longer than a second, gone again when it is over.

Only on a terminal: a log file has no use for it.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

PATIENCE = 1.0
"""Seconds before anything is said."""
_CLEAR = "\r\x1b[K"


class Progress:
    """Says `text` while the block takes long."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._say, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _say(self) -> None:
        seconds = PATIENCE
        has_said = False
        while not self._over.wait(1.0):
            sys.stderr.write(f"{_CLEAR}{self._text} … {seconds:.0f} s")
            sys.stderr.flush()
            has_said = True
            seconds += 1
        if has_said:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
