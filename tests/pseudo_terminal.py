"""A program in a pseudo-terminal of our own: what it printed stands there as it came, and when; it can be hung up.

The terminal is a plain reader that never stops reading, so that what is measured is the program. What a person would
see of it is told by `selftest_recorder.e2e.session`, whose terminal is a tmux.
"""

from __future__ import annotations

import bisect
import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
from typing import TYPE_CHECKING

from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from worlds import World

_PATIENCE = 60.0
_ESCAPES = re.compile(rb"\x1b\[[0-9;:?<>=]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b.")


class NeverPaintedError(Exception):
    """The text did not come."""


class Terminal:
    """A terminal whose session is led by a program. As a context manager: the program ends with the block."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], rows: int = 50, columns: int = 180
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._data = bytearray()
        self._ends: list[int] = []
        self._times: list[float] = []
        self._news = threading.Condition()
        self._is_over = False
        self.began = time.perf_counter()
        self.leader = subprocess.Popen(
            ["setsid", "--ctty", *argv], stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=env
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, name="read the terminal", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The program's process."""
        return self.leader.pid

    @property
    def position(self) -> int:
        """Count the bytes that were printed so far."""
        with self._news:
            return len(self._data)

    @property
    def shown(self) -> bytes:
        """All that was ever printed."""
        with self._news:
            return bytes(self._data)

    @property
    def text(self) -> str:
        """All that was ever printed, without its escapes."""
        return _ESCAPES.sub(b"", self.shown).decode("utf-8", "replace")

    def pieces(self) -> list[tuple[float, str]]:
        """All that was ever printed, in pieces of whole characters, each with its time."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with self._news:
            starts = [0, *self._ends[:-1]]
            return [
                (at, decoder.decode(bytes(self._data[start:end])))
                for at, start, end in zip(self._times, starts, self._ends, strict=True)
            ]

    def raw_pieces(self, first: int = 0) -> list[tuple[float, bytes]]:
        """What was printed, from piece number `first` on, each with its time."""
        with self._news:
            starts = [0, *self._ends][first : len(self._ends)]
            return [
                (at, bytes(self._data[start:end]))
                for at, start, end in zip(self._times[first:], starts, self._ends[first:], strict=True)
            ]

    def press(self, keys: str) -> tuple[int, float]:
        """Type; returns the position and the time before."""
        before = self.position
        now = time.perf_counter()
        os.write(self._master, keys.encode())
        return before, now

    def wait_for(self, wanted: str) -> None:
        """Wait until a text was printed, in whatever styles."""
        try:
            eventually(lambda: wanted in self.text, f"{wanted!r} on the terminal")
        except AssertionError as error:
            raise AssertionError(f"{error}, which shows {self.text[-3000:]}") from error

    def painted(self, text: str, since: int = 0, patience: float = _PATIENCE) -> float:
        """When a text of one style had arrived in one piece, for the first time after the position `since`."""
        wanted = text.encode()
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

    def is_quiet(self, seconds: float) -> bool:
        """True when nothing was printed for so long."""
        with self._news:
            return time.perf_counter() - (self._times[-1] if self._times else self.began) >= seconds

    def quiet(self, seconds: float, patience: float = _PATIENCE) -> None:
        """Wait until nothing was printed for so long; gives up waiting after `patience`."""
        deadline = time.perf_counter() + patience
        while time.perf_counter() < deadline:
            with self._news:
                last = self._times[-1] if self._times else self.began
            left = last + seconds - time.perf_counter()
            if left <= 0:
                return
            time.sleep(left)

    def hang_up(self) -> None:
        """Take the terminal away: nobody is at its other end any more."""
        self._is_over = True
        self._reader.join()
        os.close(self._master)

    def end(self) -> None:
        """Ask the program to quit, then make it."""
        self.leader.terminate()
        try:
            self.leader.wait(10.0)
        except subprocess.TimeoutExpired:
            self.leader.kill()
            self.leader.wait(10.0)
        self.hang_up()

    def _read(self) -> None:
        # A file that is being read from stays open however it is closed: so this looks first, and can be ended.
        while not self._is_over:
            try:
                chunk = os.read(self._master, 1 << 16) if select.select([self._master], [], [], 0.05)[0] else None
            except OSError:
                chunk = b""
            if chunk is None:
                continue
            with self._news:
                if chunk:
                    self._data += chunk
                    self._ends.append(len(self._data))
                    self._times.append(time.perf_counter())
                else:
                    self._is_over = True
                self._news.notify_all()


def shell_in(world: World, line: str, **more: str) -> Terminal:
    """A shell's line in a terminal, in the world's repository."""
    env = {**world.environment, **more}
    return Terminal(["sh", "-c", line], cwd=world.make_repository(), env=env, rows=30, columns=110)
