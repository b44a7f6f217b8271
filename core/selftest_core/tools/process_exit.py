"""Exit watch: an immediate call when a process that is not our child has ended.

On Linux each process has a pidfd, on which the event loop waits as on a socket. On other systems, and for processes
beyond the number of files that we may open, a poll looks twice a second. Many ends in one turn of the loop make one
call. It never reaps: the processes belong to others.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_POLL_SECONDS = 0.5
_SETTLED_SECONDS = 0.2
"""An ended process stays in the process table until its parent has reaped it, and a shell needs another moment to take
the terminal back: so there is a second call after this time, and more, each after twice the time, while the parent on a
busy machine has not reaped it."""
_LONGEST_SECONDS = 30.0
_SPARE_FILES = 256
"""Files that are left to the rest of the program."""


class ExitWatch:
    """Calls `on_exit` in the event loop when a watched process has ended, and again until its parent has reaped it.

    For one running loop, from its thread.
    """

    def __init__(self, on_exit: Callable[[], None]) -> None:
        self._on_exit = on_exit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._most_files = _files_allowed()
        self._files: dict[int, int] = {}
        self._polled: set[int] = set()
        self._ended: set[int] = set()
        self._unsettled: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._is_called = False

    @property
    def watched(self) -> frozenset[int]:
        """The processes that are watched and have not ended."""
        return frozenset(self._files.keys() | self._polled)

    @property
    def is_settling(self) -> bool:
        """True if there will be another call for an end."""
        return self._settling is not None

    def watch(self, pids: Iterable[int]) -> None:
        """Watch exactly these from now on. One that has ended already is reported too, once."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        wanted = {pid for pid in pids if pid > 0}
        for pid in self._files.keys() - wanted:
            self._close_file(pid)
        self._polled &= wanted
        # An end is reported once; a dropped number may come back as another process.
        self._ended &= wanted
        for pid in wanted - self.watched - self._ended:
            self._begin(pid)
        self._poll_later()

    def close(self) -> None:
        """Stop watching, without further calls."""
        for timer in (self._timer, self._settling):
            if timer is not None:
                timer.cancel()
        self._timer = self._settling = None
        for pid in tuple(self._files):
            self._close_file(pid)
        self._loop = None
        self._polled.clear()
        self._ended.clear()
        self._unsettled.clear()

    def _begin(self, pid: int) -> None:
        assert self._loop is not None
        if len(self._files) >= self._most_files or sys.platform != "linux":
            self._polled.add(pid)
            return
        try:
            file = os.pidfd_open(pid)
        except ProcessLookupError:
            self._has_ended(pid)
        except OSError:
            self._polled.add(pid)
        else:
            self._files[pid] = file
            self._loop.add_reader(file, self._has_ended, pid)

    def _close_file(self, pid: int) -> None:
        file = self._files.pop(pid, None)
        if file is not None and self._loop is not None:
            self._loop.remove_reader(file)
            os.close(file)

    def _has_ended(self, pid: int) -> None:
        self._close_file(pid)
        self._polled.discard(pid)
        self._ended.add(pid)
        if self._loop is None:
            return
        self._unsettled.add(pid)
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._call)
        if self._settling is not None:
            self._settling.cancel()
        self._settling = self._loop.call_later(_SETTLED_SECONDS, self._settle, _SETTLED_SECONDS)

    def _settle(self, waited: float) -> None:
        self._settling = None
        self._call()
        self._unsettled = {pid for pid in self._unsettled if is_alive(pid)}
        if self._unsettled and waited < _LONGEST_SECONDS and self._loop is not None:
            self._settling = self._loop.call_later(2 * waited, self._settle, 2 * waited)
        else:
            self._unsettled.clear()

    def _call(self) -> None:
        self._is_called = False
        if self._loop is not None:
            self._on_exit()

    def _poll_later(self) -> None:
        if self._polled and self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(_POLL_SECONDS, self._poll)

    def _poll(self) -> None:
        self._timer = None
        for pid in tuple(self._polled):
            if not is_alive(pid):
                self._has_ended(pid)
        self._poll_later()


def is_alive(pid: int) -> bool:
    """True if the process exists, another user's too; a zombie counts as existing."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _files_allowed() -> int:
    """The number of files for this: the limit of this process, without some for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(0, soft - _SPARE_FILES)
