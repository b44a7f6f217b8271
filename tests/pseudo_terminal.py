"""A pseudo-terminal of our own with a program in it: what is printed stands there as it came, and it can be closed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
from typing import TYPE_CHECKING

from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worlds import World

_ESCAPES = re.compile(rb"\x1b\[[0-9;:?<>=]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b.")


class Terminal:
    """A pseudo-terminal with a program in it, which leads its session or is the child of the shell that does."""

    def __init__(self, world: World, command: str, more: Mapping[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
        self._shown = b""
        self._is_over = threading.Event()
        self.leader = subprocess.Popen(
            ["setsid", "--ctty", "sh", "-c", command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=world.make_repository(),
            env={**world.environment, **(more or {})},
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # A file that is being read from stays open however it is closed: so this looks first, and can be ended.
        with contextlib.suppress(OSError):
            while not self._is_over.is_set():
                if select.select([self._master], [], [], 0.05)[0]:
                    self._shown += os.read(self._master, 65536)

    @property
    def shown(self) -> bytes:
        """All that was ever printed."""
        return self._shown

    @property
    def text(self) -> str:
        """All that was ever printed, without its escapes."""
        return _ESCAPES.sub(b"", self._shown).decode("utf-8", "replace")

    def wait_for(self, wanted: str) -> None:
        try:
            eventually(lambda: wanted in self.text, f"{wanted!r} on the terminal")
        except AssertionError as error:
            raise AssertionError(f"{error}, which shows {self.text[-3000:]}") from error

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def hang_up(self) -> None:
        """Take the terminal away: nobody is at its other end any more."""
        self._is_over.set()
        self._reader.join()
        os.close(self._master)
