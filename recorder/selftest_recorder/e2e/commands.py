"""Commands of tests: started in a session of their own, read by a thread as they print, and ended with their children.

A timeout kills the process group, and those of its children that have left it. A child that outlives its command and
holds its pipe delays nobody: a moment after the end of the command its output is complete.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from selftest_core.tools import process
from selftest_core.tools import process_groups as groups
from selftest_core.tools.process_table import process_reader
from selftest_recorder.e2e.noop import longest
from selftest_recorder.e2e.results import Result, masked, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_recorder.e2e.results import Piece, Stream
    from selftest_recorder.e2e.transcript import CommandTranscript

LIMIT = 8 * 1024 * 1024
"""Bytes of output that are kept in memory: half of them from the beginning, half from the end."""
_CHUNK = 64 * 1024
_LOOK_AGAIN = 0.05
"""Seconds between looks whether the command has ended, which is no event of a pipe."""
_PAUSE = 0.2
"""Seconds of silence after which an unfinished line is written, and the pipe of an ended command is given up."""
_LONGEST_REST = 2.0
"""Seconds after the end of a command for which children that keep printing are read."""


class TimedOut(AssertionError):  # noqa: N818 -- a failure of a test, not an error of ours
    """A command did not end in its time, or did not print in time what was waited for."""


class Command:
    """A command that was started. `end` it, use it as a context manager, or leave both to the end of the test."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        text: str,
        *,
        cwd: Path,
        environment: Mapping[str, str],
        transcript: CommandTranscript,
    ) -> None:
        self.text = text
        self._transcript = transcript
        self._kept = _Kept()
        self._changed = threading.Condition()
        self._result: Result | None = None
        self._began = time.monotonic()
        self._running = process.spawn(argv, cwd=cwd, env=environment, two_pipes=True)
        self._reader = threading.Thread(target=self._read, name=f"read {text[:40]}", daemon=True)
        self._reader.start()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its process group."""
        return self._running.pid

    @property
    def has_ended(self) -> bool:
        """True once it has ended and its output is complete."""
        return self._result is not None

    @property
    def so_far(self) -> Result:
        """Its output until now; the exit status is 0 while it runs."""
        with self._changed:
            return self._result or self._made(0)

    def wait_for(self, text: str, timeout: float = 60.0) -> Result:
        """Wait until a text is in its output or its errors, and return them until then.

        Raises TimedOut, and AssertionError if it ends without.
        """
        __tracebackhide__ = True
        timeout = longest(timeout)
        deadline = time.monotonic() + timeout
        wanted = text.encode()
        with self._changed:
            while not self._kept.has(wanted):
                if self._result is not None:
                    raise AssertionError(f"it ended without printing {masked(text)!r}\n{shown(self._result)}")
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() > deadline:
                    said = f"it did not print {masked(text)!r} within {timeout:g} s"
                    raise TimedOut(f"{said}\n{shown(self._made(0))}")
            return self._result or self._made(0)

    def wait(self, timeout: float) -> Result:
        """Wait for its end. Raises TimedOut, and kills it then, with everything that it started."""
        __tracebackhide__ = True
        deadline = time.monotonic() + timeout
        try:
            with self._changed:
                while self._result is None and (left := deadline - time.monotonic()) > 0:
                    self._changed.wait(left)
        except BaseException:
            self.end()
            raise
        if self._result is not None:
            return self._result
        self._transcript.note(f"timeout: killed after {timeout:g} s")
        ended = self.end(grace=0)
        raise TimedOut(f"it did not end within {timeout:g} s, and was killed\n{shown(ended)}")

    def end(self, grace: float = groups.GRACE) -> Result:
        """Terminate its process group, kill it after `grace` seconds, and return what it printed."""
        if self._running.poll() is None:
            with _escaped(self.pid):
                groups.end(self._running.process, grace)
        self._reader.join()
        assert self._result is not None, "the reader ends with a result"
        return self._result

    def _read(self) -> None:
        """Read both pipes until the command has ended and they are closed, or silent."""
        ended_at, heard_at, is_settled = 0.0, time.monotonic(), True
        with selectors.DefaultSelector() as selector:
            for stream, pipe in (("stdout", self._running.stdout), ("stderr", self._running.stderr)):
                assert pipe is not None, "spawn made two pipes"
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe.fileno(), selectors.EVENT_READ, stream)
            while selector.get_map():
                if not ended_at and self._running.poll() is not None:
                    ended_at = time.monotonic()
                ready = selector.select(_LOOK_AGAIN)
                now = time.monotonic()
                for key, _ in ready:
                    heard_at, is_settled = now, False
                    self._take(key.data, key.fd, selector)
                if now - heard_at > _PAUSE and not is_settled:
                    self._transcript.settle()
                    is_settled = True
                if ended_at and (now - max(heard_at, ended_at) > _PAUSE or now - ended_at > _LONGEST_REST):
                    break
        status = self._running.process.wait()
        for pipe in (self._running.stdout, self._running.stderr):
            if pipe is not None:
                pipe.close()
        self._transcript.close(status)
        with self._changed:
            self._result = self._made(status)
            self._changed.notify_all()

    def _take(self, stream: Stream, fd: int, selector: selectors.BaseSelector) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            selector.unregister(fd)
            return
        with self._changed:
            self._kept.add(stream, data)
            self._changed.notify_all()
        self._transcript.feed(stream, data)

    def _made(self, exit_status: int) -> Result:
        kept = self._kept
        return Result(self.text, exit_status, kept.pieces(), time.monotonic() - self._began, kept.left_out)


class _Kept:
    """The kept part of both outputs: the beginning and the end, in the order in which they came."""

    def __init__(self) -> None:
        self._head: list[Piece] = []
        self._tail: deque[Piece] = deque()
        self._head_size = self._tail_size = 0
        self.left_out = 0

    def add(self, stream: Stream, data: bytes) -> None:
        """Add the next bytes."""
        if self._head_size < LIMIT // 2:
            self._head.append((stream, data))
            self._head_size += len(data)
            return
        self._tail.append((stream, data))
        self._tail_size += len(data)
        while self._tail_size > LIMIT // 2:
            _, dropped = self._tail.popleft()
            self._tail_size -= len(dropped)
            self.left_out += len(dropped)

    def has(self, wanted: bytes) -> bool:
        """Return True if a text is in one of the outputs."""
        pieces = self.pieces()
        return any(wanted in b"".join(data for of, data in pieces if of == stream) for stream in ("stdout", "stderr"))

    def pieces(self) -> tuple[Piece, ...]:
        """Return what is kept, with a note where something is left out."""
        if not self.left_out:
            return (*self._head, *self._tail)
        note = f"\n[{self.left_out:,} bytes are left out]\n".encode()
        return (*self._head, ("stdout", note), *self._tail)


@contextlib.contextmanager
def _escaped(pid: int) -> Iterator[None]:
    """Kill the children of a command that have left its process group, once the block has ended the group."""
    handles: list[int] = []
    children = list(process_reader().read().descendants(pid))
    if sys.platform == "linux":
        # A handle holds a process: its number cannot be another one's by then.
        for child in children:
            with contextlib.suppress(OSError):
                handles.append(os.pidfd_open(child))
    try:
        yield
    finally:
        for handle in handles:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        if sys.platform != "linux":
            for child in children:
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
