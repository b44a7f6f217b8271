"""Recording of one pane: its file, the FIFO of its output, and the end of both.

It begins with the screen of the pane. When the size of the pane changes or its pipe is lost, a new pipe and a new
screen follow; the rest of the old pipe is written first, so that nothing is recorded twice.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path
from typing import NamedTuple

from .markers import CommitFinder, MarkerFinder, clean_label
from .masking import NO_SECRETS, Masker, Masks, joined
from .panes import Pane, Screen, close_pipe, open_pipe, read_screen
from .writing import LineWriter, read_left, third_header

_CHUNK = 64 * 1024
_MOST_AT_ONCE = 16 * _CHUNK
_TO_DRAIN = 10.0
"""Seconds to wait for the end of an old pipe, whose program may not even have been started."""
_LOOKS_FOR_SECRETS = 120


class Order(NamedTuple):
    """An order to record: an agent by its id, or a session by its name, and the file.

    `since`: seconds since the epoch from which commits in `repository` become markers; 0: now.
    """

    name: str
    file: Path
    agent_id: str = ""
    session: str = ""
    title: str = ""
    repository: str = ""
    since: float = 0.0


class Recording:
    """A recording in progress. `limit`: bytes after which output is left out."""

    def __init__(self, order: Order, socket: str, fifos: Path, masks: Masks, limit: int) -> None:
        self.order = order
        self.socket = socket
        self.pane_id = ""
        self.server = ("", "")
        self.fd = -1
        self.heard = 0
        """Bytes that have come."""
        self.is_over = False
        self.is_cut = False
        self.is_kept_out = False
        self._fifos = fifos
        self._fifo: Path | None = None
        self._masks = masks
        self._limit = limit
        self._size = (0, 0)
        self._masker = Masker(NO_SECRETS)
        self._secrets = NO_SECRETS
        self._looks = 0
        self._finder = MarkerFinder()
        since = order.since or time.time()
        self._commits = CommitFinder(Path(order.repository), since) if order.repository else None
        self._writer: LineWriter | None = None
        self._began = 0.0
        self._told: list[str] = []
        self._early: list[tuple[float, str, bool]] = []
        self._opened = 0
        self._heard_at = 0.0

    @property
    def is_open(self) -> bool:
        """True once the file exists."""
        return self._writer is not None

    def begin(self, pane: Pane, now: float) -> None:
        """Start recording a pane, or continue after its size changed or its pipe was lost.

        Of a dead pane, which has no output any more, the screen is recorded. Raises TmuxError; OSError if the file
        cannot be written.
        """
        if pane.is_dead and self._writer is None:
            left = read_left(self.order.file)
            if left is not None and left.has_ended:
                self.is_over = True  # an earlier collector has finished it
                return
        screen, fd, fifo = (read_screen(self.socket, pane.pane_id), -1, None) if pane.is_dead else self._pipe(pane)
        self._drain(now)
        self._close_fifo()
        self.pane_id, self.server, self.fd, self._fifo = pane.pane_id, pane.server, fd, fifo
        size = (screen.cols, screen.rows)
        if self._writer is None:
            self._open(size, now)
        writer = self._writer
        assert writer is not None
        self._give(self._masker.close(), now)
        self._secrets = joined(self._secrets, self._masks.secrets(pane.pid))
        self._masker, self._finder = Masker(self._secrets), MarkerFinder()
        self._looks = _LOOKS_FOR_SECRETS
        writer.end_text()
        if size != self._size:
            writer.resize(self._at(now), *size)
        self._size = size
        if not self.is_cut:
            drawing = Masker(self._secrets)
            shown = screen.drawing.encode("utf-8", "replace")
            writer.output(self._at(now), drawing.feed(shown) + drawing.close())
        writer.flush()

    def _pipe(self, pane: Pane) -> tuple[Screen, int, Path]:
        """Return the screen of a pane, and a FIFO with its output from then on, open for reading."""
        self._opened += 1
        fifo = self._fifos / f"{pane.pane_id.lstrip('%')}-{os.getpid()}-{id(self):x}-{self._opened}"
        os.mkfifo(fifo, 0o600)
        # Open for reading first, without blocking: the writer would wait otherwise.
        fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return open_pipe(self.socket, pane.pane_id, str(fifo)), fd, fifo
        except BaseException:
            os.close(fd)
            fifo.unlink()
            raise

    def look_for_secrets(self, pane: Pane) -> None:
        """Read the secrets of the pane's program; repeated, since the program starts later than its pane."""
        if self._looks > 0:
            self._looks -= 1
            self._secrets = joined(self._secrets, self._masks.secrets(pane.pid))
            self._masker.learn(self._secrets)

    def needs_new_pipe(self, pane: Pane) -> bool:
        """Return True when the size of the pane changed, or its output does not arrive any more."""
        return (pane.cols, pane.rows) != self._size or self.fd < 0 or not pane.has_pipe

    def read(self, now: float) -> bool:
        """Read the output that arrived. Returns False at the end of the pipe."""
        taken = 0
        while taken < _MOST_AT_ONCE:
            try:
                data = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            taken += len(data)
            self.heard += len(data)
            self._heard_at = now
            labels = self._finder.feed(data)
            self._give(self._masker.feed(data), now)
            for label in labels:
                self.mark(label, now)
        return True

    def owns(self, pipe: str) -> bool:
        """Return True for a pipe of this recording, also one of an earlier collector."""
        return Path(pipe).parent == self._fifos

    def leave_pane(self) -> None:
        """Close the pipe of the pane, whose output is not wanted any more."""
        close_pipe(self.socket, self.pane_id)
        self._close_fifo()

    def close_pipe(self) -> None:
        """Close the pipe after its end, so that another can be opened."""
        self._close_fifo()

    def mark(self, label: str, at: float, *, ordered: bool = False) -> None:
        """Write a marker at a time since the epoch. An `ordered` marker is written only once.

        A marker after the end is written too. Raises OSError.
        """
        label = clean_label(label)
        if self._writer is None:
            self._early.append((at, label, ordered))
            return
        if ordered and self._writer.handle >= 0:
            # Commits from before this order come before its marker.
            self._mark_commits(at)
        if ordered and label in self._told:
            self._told.remove(label)
        elif self._writer.handle < 0:
            self._writer = self._writer.reopened(self.order.file)
            self._writer.marker(self._at(at), label)
            self._writer.close()
        else:
            self._writer.marker(self._at(at), label)

    def _mark_commits(self, at: float) -> None:
        for label in self._commits.new() if self._commits is not None else ():
            if label in self._told:
                self._told.remove(label)
            else:
                self.mark(label, at)

    def flush(self, now: float) -> None:
        """Write the gathered output; after a pause also the bytes that were held back for masking."""
        if self._writer is None:
            return
        self._mark_commits(now)
        if self._masker.holds and now - self._heard_at > 0.2:
            self._give(self._masker.settle(), now)
        self._writer.flush()

    def end(self, now: float, exit_status: int | None = None) -> None:
        """End the recording."""
        if self.is_over:
            return
        self.is_over = True
        if self.fd >= 0:
            has_end = close_pipe(self.socket, self.pane_id)
            with contextlib.suppress(OSError):
                self._drain(now, waits=has_end)
        self._close_fifo()
        if self._writer is not None:
            self._give(self._masker.close(), now)
            self._writer.end_text()
            self._mark_commits(now)
            if exit_status is not None:
                self._writer.exit(self._at(now), exit_status)
            self._writer.close()

    def link(self, place: Path) -> None:
        """Link the recording under another name, if its folder exists and the name is free."""
        with contextlib.suppress(OSError):
            os.link(self.order.file, place)

    def _open(self, size: tuple[int, int], now: float) -> None:
        left = read_left(self.order.file)
        if left is None:
            self._aside()
            handle = _new_file(self.order.file, third_header(*size, now, self.order.title, _terminal()))
            self._began, self._size = float(int(now)), size
            self._writer = LineWriter(handle, is_relative=True, size=os.fstat(handle).st_size)
        else:
            handle = os.open(self.order.file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.ftruncate(handle, left.end)
            self._began, self._size = left.timestamp, left.size
            self._told = [label for label in left.labels if not label.startswith("recording ")]
            self._writer = LineWriter(handle, is_relative=True, time=left.time, size=left.end)
            missed = max(now - left.timestamp - left.time, 0.0)
            self._writer.marker(self._at(now), f"recording resumed, {missed:.1f} s were missed")
            self.is_cut = left.end >= self._limit
        early, self._early = self._early, []
        for at, label, ordered in early:
            self.mark(label, at, ordered=ordered)

    def _aside(self) -> None:
        """Rename a file in the way that is not a recording of ours."""
        with contextlib.suppress(FileNotFoundError):
            self.order.file.replace(self.order.file.with_name(f"{self.order.file.name}.unreadable"))

    def _give(self, data: bytes, now: float) -> None:
        writer = self._writer
        if not data or writer is None or self.is_cut:
            return
        writer.output(self._at(now), data)
        if writer.size >= self._limit:
            self.is_cut = True
            writer.end_text()
            mebibytes = self._limit / 1024 / 1024
            writer.marker(self._at(now), f"recording cut: {mebibytes:g} MiB are kept at most")

    def _at(self, now: float) -> float:
        return max(now - self._began, 0.0)

    def _drain(self, now: float, *, waits: bool = True) -> None:
        """Read the rest of a pipe that its writer has closed; without `waits`: only what is there.

        A FIFO that its writer has not opened yet also reads as if at its end, but it is not ready then.
        """
        if self.fd < 0:
            return
        ready = select.poll()
        ready.register(self.fd, select.POLLIN)
        deadline = time.monotonic() + _TO_DRAIN
        while (left := deadline - time.monotonic()) > 0:
            if not ready.poll(left * 1000 if waits else 0) or not self.read(now):
                return

    def _close_fifo(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self._fifo is not None:
            with contextlib.suppress(OSError):
                self._fifo.unlink()
            self._fifo = None


def _new_file(path: Path, header: bytes) -> int:
    """Create a file that has its header from the first moment on, for its readers. Returns it open for appending."""
    draft = path.with_name(f".{path.name}.draft")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, header)
        try:
            os.link(draft, path)  # does not replace an existing file
        except FileExistsError:
            raise
        except OSError:
            draft.replace(path)  # a file system without links
        else:
            draft.unlink()
    except BaseException:
        os.close(handle)
        draft.unlink(missing_ok=True)
        raise
    return handle


def _terminal() -> dict[str, str]:
    return {"TERM": "tmux-256color"}
