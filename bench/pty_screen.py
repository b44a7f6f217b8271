"""A program in a real pseudo-terminal: what it wrote, and when each byte arrived.

The terminal is a plain reader that never stops reading, so that what is measured is the program. Text is looked for
in the raw output, where a name that is painted in one style is in one piece.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

PATIENCE = 60.0


class NeverPaintedError(Exception):
    """The text did not come."""


class PtyScreen:
    """A running program. A context manager: the program ends with the block."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], rows: int = 50, columns: int = 180
    ) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.began = time.perf_counter()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(master)
                os.login_tty(slave)
                os.chdir(cwd)
                os.execvpe(argv[0], list(argv), dict(env))
            finally:
                os._exit(127)
        os.close(slave)
        self._master = master
        self._data = bytearray()
        self._ends: list[int] = []
        self._times: list[float] = []
        self._news = threading.Condition()
        self._is_over = False
        threading.Thread(target=self._read, name="read the terminal", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def position(self) -> int:
        """How many bytes were written so far."""
        with self._news:
            return len(self._data)

    def press(self, keys: bytes) -> tuple[int, float]:
        """Type; returns the position and the time before."""
        before = self.position
        now = time.perf_counter()
        os.write(self._master, keys)
        return before, now

    def painted(self, text: str | bytes, since: int = 0, patience: float = PATIENCE) -> float:
        """When the text had arrived, for the first time after the position `since`."""
        wanted = text if isinstance(text, bytes) else text.encode()
        deadline = time.perf_counter() + patience
        searched = since
        with self._news:
            while True:
                found = self._data.find(wanted, searched)
                if found >= 0:
                    end = found + len(wanted)
                    return self._times[bisect.bisect_left(self._ends, end)]
                searched = max(since, len(self._data) - len(wanted))
                left = deadline - time.perf_counter()
                if left <= 0 or self._is_over:
                    raise NeverPaintedError(f"{text!r} was not painted; the last output: {bytes(self._data[-300:])!r}")
                self._news.wait(left)

    def quiet(self, seconds: float, patience: float = PATIENCE) -> None:
        """Wait until nothing was written for so long; gives up waiting after `patience`."""
        deadline = time.perf_counter() + patience
        while time.perf_counter() < deadline:
            with self._news:
                last = self._times[-1] if self._times else self.began
            left = last + seconds - time.perf_counter()
            if left <= 0:
                return
            time.sleep(left)

    def text(self) -> bytes:
        """All that was written."""
        with self._news:
            return bytes(self._data)

    def end(self) -> None:
        """Ask it to quit, then make it."""
        for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            deadline = time.perf_counter() + patience
            while time.perf_counter() < deadline:
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                        time.sleep(0.01)
                        continue
                with contextlib.suppress(OSError):
                    os.close(self._master)
                return

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._master, 1 << 16)
            except OSError:
                chunk = b""
            with self._news:
                if chunk:
                    self._data += chunk
                    self._ends.append(len(self._data))
                    self._times.append(time.perf_counter())
                else:
                    self._is_over = True
                self._news.notify_all()
            if not chunk:
                return
