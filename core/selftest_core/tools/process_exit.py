"""The end of processes that are not our children, told at once and without polling where the system can.

On Linux each process gets a pidfd, which an event loop waits on like a socket; on macOS and the BSDs one kqueue does
the same for all. Elsewhere, and for processes beyond the number of files that we may open, a slow poll looks. Many
ends in one turn of the loop make one call. It must not reap: the processes belong to others.
"""

from __future__ import annotations

import asyncio
import os
import resource
import select
import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_POLL_SECONDS = 2.0
_SETTLED_SECONDS = 0.2
"""An ended process stays in the process table until its parent has looked, and a shell needs another moment to take
the terminal back: so the end is told a second time, when that is over as a rule, and again, after twice as long each
time, while its parent on a busy machine has not looked."""
_LONGEST_SECONDS = 30.0
_SPARE_FILES = 64
"""Files that are left to the rest of the program."""


class _Waiter(Protocol):
    """Waits on processes; `add` says False where it cannot wait on this one."""

    def add(self, pid: int) -> bool:
        """Begin to wait for the end of a process. Raises ProcessLookupError where it has ended already."""
        ...

    def remove(self, pid: int) -> None:
        """Stop waiting."""
        ...

    def close(self) -> None:
        """Stop waiting for any."""
        ...


class ExitWatch:
    """Calls `on_exit` in the event loop when any watched process has ended, and again until it is gone for good.

    For one running loop, from its thread.
    """

    def __init__(self, on_exit: Callable[[], None]) -> None:
        self._on_exit = on_exit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: _Waiter | None = None
        self._waited: set[int] = set()
        self._polled: set[int] = set()
        self._ended: set[int] = set()
        self._unsettled: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._is_called = False

    @property
    def watched(self) -> frozenset[int]:
        """The processes whose end would be told."""
        return frozenset(self._waited | self._polled)

    @property
    def is_settling(self) -> bool:
        """True where an end will be told again."""
        return self._settling is not None

    def watch(self, pids: Iterable[int]) -> None:
        """Watch exactly these from now on. One that has ended already is told too, once."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._waiter = _waiter(self._loop, self._has_ended)
        wanted = {pid for pid in pids if pid > 0}
        for pid in self._waited - wanted:
            self._forget(pid)
        self._polled &= wanted
        # An end is told once; the number may come back as another process when it was dropped from the list before.
        self._ended &= wanted
        for pid in wanted - self._waited - self._polled - self._ended:
            self._begin(pid)
        self._poll_later()

    def close(self) -> None:
        """Watch nothing any more, and call nobody."""
        for timer in (self._timer, self._settling):
            if timer is not None:
                timer.cancel()
        self._timer = self._settling = None
        if self._waiter is not None:
            self._waiter.close()
        self._loop = self._waiter = None
        self._waited.clear()
        self._polled.clear()
        self._ended.clear()
        self._unsettled.clear()

    def _begin(self, pid: int) -> None:
        assert self._waiter is not None
        try:
            if self._waiter.add(pid):
                self._waited.add(pid)
            else:
                self._polled.add(pid)
        except ProcessLookupError:
            self._has_ended(pid)

    def _forget(self, pid: int) -> None:
        self._waited.discard(pid)
        if self._waiter is not None:
            self._waiter.remove(pid)

    def _has_ended(self, pid: int) -> None:
        self._forget(pid)
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
    """True where the process exists, another user's too; a zombie counts as existing."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _waiter(loop: asyncio.AbstractEventLoop, on_end: Callable[[int], None]) -> _Waiter:
    if sys.platform.startswith("linux") and hasattr(os, "pidfd_open"):
        return _PidfdWaiter(loop, on_end)
    if hasattr(select, "kqueue"):
        return _KqueueWaiter(loop, on_end)
    return PollWaiter()


class PollWaiter:
    """Waits on nothing, so that all are polled."""

    def add(self, pid: int) -> bool:
        """Never."""
        return False

    def remove(self, pid: int) -> None:
        """Nothing to stop."""

    def close(self) -> None:
        """Nothing to stop."""


class _PidfdWaiter:
    """One file per process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[int], None]) -> None:
        self._loop = loop
        self._on_end = on_end
        self._files: dict[int, int] = {}
        self._most = _files_allowed()

    def add(self, pid: int) -> bool:
        if len(self._files) >= self._most:
            return False
        try:
            file = os.pidfd_open(pid)
        except ProcessLookupError:
            raise
        except OSError:
            return False
        self._files[pid] = file
        self._loop.add_reader(file, self._on_end, pid)
        return True

    def remove(self, pid: int) -> None:
        file = self._files.pop(pid, None)
        if file is not None:
            self._loop.remove_reader(file)
            os.close(file)

    def close(self) -> None:
        for pid in tuple(self._files):
            self.remove(pid)


class _KqueueWaiter:
    """One queue for all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[int], None]) -> None:
        self._select: Any = select  # the names below exist on macOS and the BSDs alone
        self._loop = loop
        self._on_end = on_end
        self._queue: Any = self._select.kqueue()
        loop.add_reader(self._queue.fileno(), self._read)

    def add(self, pid: int) -> bool:
        try:
            self._queue.control([self._event(pid, self._select.KQ_EV_ADD | self._select.KQ_EV_ONESHOT)], 0, 0)
        except ProcessLookupError:
            raise
        except OSError:
            return False
        return True

    def remove(self, pid: int) -> None:
        try:
            self._queue.control([self._event(pid, self._select.KQ_EV_DELETE)], 0, 0)
        except OSError:
            return  # it was told, and with that it is gone

    def close(self) -> None:
        self._loop.remove_reader(self._queue.fileno())
        self._queue.close()

    def _event(self, pid: int, flags: int) -> Any:
        return self._select.kevent(
            pid, filter=self._select.KQ_FILTER_PROC, flags=flags, fflags=self._select.KQ_NOTE_EXIT
        )

    def _read(self) -> None:
        for event in self._queue.control(None, 64, 0):
            self._on_end(event.ident)


def _files_allowed() -> int:
    """How many files may be spent on this: what the system allows us, but for some to spare."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(0, soft - 4 * _SPARE_FILES)
