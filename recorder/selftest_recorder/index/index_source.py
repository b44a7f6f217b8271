"""Source of the index of a recording: built here, read from the cache, or built by a background process.

A short recording is indexed at once, here (`index.Indexer`). For a long one a process is started that writes the index
into a file (`index_file`), which is read while it grows and can be used as far as it goes. New parts of a growing
recording are indexed here. A process that dies, and a cache that cannot be written, cost only time.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolTimeoutError
from selftest_core.tools.process import spawn
from selftest_recorder.cast.events import Header, RecordingError
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.spans import Position
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.index.index import SPACING, Index, Indexer, Keyframe
from selftest_recorder.index.index_file import IndexReader, file_of, keep

if TYPE_CHECKING:
    from selftest_core.tools.process import Running
    from selftest_recorder.cast.reader import Recording

AT_ONCE = 1024 * 1024
"""Bytes of a recording that is indexed here, which takes some hundredths of a second."""
_STEPS_OF_A_POLL = 2


class IndexSource:
    """A source. `index` can always be used; `poll` extends it. `folder`: the cache, or None."""

    def __init__(self, recording: Recording, folder: Path | None, spacing: int | None = None) -> None:
        self._recording = recording
        self._spacing = spacing
        self._reader: IndexReader | None = None
        self._process: Running | None = None
        self._part: Path | None = None
        self._indexer: Indexer | None = None
        self.index = self._blank()
        if self._size > AT_ONCE and folder is not None:
            self._begin_with_file(folder)
        if self._size <= AT_ONCE:
            indexer = self._here()
            while indexer.step():
                pass
            self.index.is_complete = True

    @property
    def progress(self) -> float:
        """The indexed share of the file, from 0 to 1."""
        size = self._size
        return 1.0 if self.index.is_complete or not size else min(1.0, self.index.end.offset / size)

    def poll(self, patience: float = 0.0) -> bool:
        """Extend the index. Returns True if it grew. Waits up to `patience` seconds for the background process."""
        if self._process is not None:
            return self._take(patience)
        if self.index.is_complete and (not self._recording.can_grow or self._size <= self.index.end.offset):
            return False
        indexer, before = self._here(), self.index.end
        for _ in range(_STEPS_OF_A_POLL):
            if not indexer.step():
                self.index.is_complete = True
                break
        return self.index.end != before

    def close(self) -> None:
        """End the process, and close the file."""
        self._end_process()
        self.index.close()

    @property
    def _size(self) -> int:
        try:
            return self._recording.data_path.stat().st_size
        except OSError:
            return 0  # the file is gone: the index is all there is

    def _blank(self) -> Index:
        index = Index(end=Position(0.0, self._recording.begins, 1))
        index.add_keyframe(Keyframe(index.end))
        return index

    def _here(self) -> Indexer:
        if self._indexer is None:
            self._indexer = Indexer(self._recording, self.index, self._spacing or SPACING)
            self._indexer.catch_up()
        return self._indexer

    def _begin_with_file(self, folder: Path) -> None:
        target = file_of(self._recording, folder)
        try:
            reader = IndexReader(self._recording, target, self.index)
            reader.take()
        except (OSError, ValueError, KeyError, TypeError):
            self._start_over()
        if self.index.is_complete:
            return
        self._start_over()
        part = target.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}.part")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            part.touch(mode=0o600)
            self._reader = IndexReader(self._recording, part, self.index)
        except OSError:
            return  # the cache cannot be written: index here
        self._part = part
        argv = (sys.executable, "-m", "selftest_recorder.index.index_file", self._recording.data_path, part, target)
        self._process = spawn(argv, cwd=Path("/"))

    def _start_over(self) -> None:
        """Clear the index in place, since others hold it."""
        self.index.close()
        blank = self._blank()
        for name in Index.__slots__:
            setattr(self.index, name, getattr(blank, name))

    def _take(self, patience: float) -> bool:
        assert self._process is not None
        assert self._reader is not None
        has_ended = self._process.poll() is not None
        if not has_ended and patience:
            try:
                self._process.wait(patience)
                has_ended = True
            except ToolTimeoutError:
                pass
        try:
            is_more = self._reader.take()
        except (OSError, ValueError, KeyError, TypeError):
            # The recording was replaced meanwhile.
            self._end_process()
            self._start_over()
            return True
        if self.index.is_complete and self._part is not None:
            keep(self._part, file_of(self._recording, self._part.parent))
        if self.index.is_complete or has_ended:
            self._end_process()  # if it died before its end, the rest is indexed here
        return is_more

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
        if self._part is not None:
            self._part.unlink(missing_ok=True)
            self._part = None


def usable(recording: Recording, folder: Path) -> Recording:
    """Return the recording, or a converted copy of an asciicast v1, whose single JSON object has no places to seek to.

    Raises RecordingError if that cannot be written.
    """
    header = recording.header
    if header.version != 1:
        return recording
    try:
        status = recording.data_path.stat()
        name = f"{recording.data_path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
        target = folder / (hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".cast")
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = target.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}.part")
            events = ((one.time, one.code, one.data) for one in recording.events())
            write_cast(part, Header(3, header.cols, header.rows, title=header.title), events)
            part.replace(target)
    except OSError as error:
        title = f"{recording.path.name} cannot be rewritten in a later version"
        raise RecordingError(title, error.strerror or str(error)) from error
    again = read_cast(target)
    again.path = recording.path
    return again
