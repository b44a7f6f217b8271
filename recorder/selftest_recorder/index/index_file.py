"""Index file of a long recording: written by a process of its own, and read while it grows.

    python -m selftest_recorder.index.index_file RECORDING FILE

It is in the user's cache under a name made from the recording's path. It identifies the recording by size, time of
change, and checksums of its beginning and of the last bytes that were read. A recording that has grown keeps its index;
another file gets a new one. A damaged index is ignored.

Each record has its length and checksum, so that a reader takes complete records and continues later. The writer uses a
temporary name and renames at the end: two processes that index the same recording do no harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core import paths
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.spans import Position
from selftest_recorder.index.index import Activity, Index, Indexer, Keyframe, Marker, packed_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from selftest_recorder.cast.reader import Recording

FORMAT = 2
_EMULATOR = "ghostty 0.1.3"
_HEAD = struct.Struct("<cII")
_PLACE = struct.Struct("<dQQ")
_SAMPLE = 4096
_KEPT_FILES = 64
_MOST_WAITING = 8
"""Longest queue of records to write, with a state each."""
_MOST_RECORD = 64 * 1024 * 1024


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of indexes, without creating it."""
    return paths.cache_folder(environ) / "indexes"


def file_of(recording: Recording, folder: Path) -> Path:
    """Return the path of the index file of a recording."""
    name = hashlib.sha256(os.fsencode(recording.data_path.resolve())).hexdigest()[:32]
    return folder / f"{name}.index"


def _sum(path: Path, offset: int, size: int) -> str:
    with path.open("rb") as file:
        file.seek(max(offset, 0))
        return hashlib.sha256(file.read(size)).hexdigest()[:32]


def _identity(recording: Recording) -> dict[str, Any]:
    status = recording.data_path.stat()
    return {
        "format": FORMAT,
        "emulator": _EMULATOR,
        "size": status.st_size,
        "changed": status.st_mtime_ns,
        "head": _sum(recording.data_path, 0, min(_SAMPLE, status.st_size)),
    }


class IndexReader:
    """Reader of an index file, which adds its records to `index` as it grows.

    All methods raise ValueError if the file is of another recording or damaged, and OSError if it cannot be
    read; the index must not be used then.
    """

    def __init__(self, recording: Recording, path: Path, index: Index) -> None:
        self.index = index
        self._recording = recording
        self._place = 0
        self._waiting: list[Keyframe] = []
        """Keyframes for which what is known up to there has not been read yet."""
        self.index.store = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def take(self) -> bool:
        """Read new records. Returns True if there were any."""
        before = self._place
        while (record := self._next()) is not None:
            kind, payload, place = record
            if not self._place:
                self._check(kind, payload)
            elif kind == b"K":
                position = Position(*_PLACE.unpack(payload[: _PLACE.size]))
                size = len(payload) - _PLACE.size
                packed = (place + _PLACE.size, size) if size else None
                if size or not self.index.keyframes:  # readers know the blank one at the beginning
                    self._waiting.append(Keyframe(position, packed))
            elif kind == b"P":
                for keyframe in self._waiting:
                    self.index.add_keyframe(keyframe)
                self._waiting.clear()
                self._progress(json.loads(payload))
            self._place = place + len(payload)
        return self._place != before

    def _next(self) -> tuple[bytes, bytes, int] | None:
        head = os.pread(self.index.store, _HEAD.size, self._place)
        if len(head) < _HEAD.size:
            return None
        kind, size, check = _HEAD.unpack(head)
        if size > _MOST_RECORD:
            return None
        payload = os.pread(self.index.store, size, self._place + _HEAD.size)
        if len(payload) < size or zlib.crc32(payload) != check:
            return None
        return kind, payload, self._place + _HEAD.size

    def _check(self, kind: bytes, payload: bytes) -> None:
        if kind != b"H":
            raise ValueError("not an index")
        said, now = json.loads(payload), _identity(self._recording)
        for name in ("format", "emulator"):
            if said.get(name) != now[name]:
                raise ValueError("an index of another version")
        if (said["size"], said["changed"]) == (now["size"], now["changed"]):
            return
        if said["size"] > now["size"] or _sum(self._recording.data_path, 0, min(_SAMPLE, said["size"])) != said["head"]:
            raise ValueError("an index of another recording")

    def _progress(self, said: dict[str, Any]) -> None:
        index = self.index
        index.end = Position(*said["end"])
        index.events = said["events"]
        index.activity = Activity(said["width"], said["counts"])
        index.markers += [Marker(time, label) for time, label in said["markers"]]
        index.exit_status = said["exit"]
        if said["tail"] and said["tail"] != self._tail(index.end.offset):
            raise ValueError("an index of another recording")
        index.is_complete = said["complete"]

    def _tail(self, offset: int) -> str:
        return _sum(self._recording.data_path, offset - _SAMPLE, min(_SAMPLE, offset))


def build(recording: Recording, path: Path) -> None:
    """Write the index file of a recording, with its progress twice for each percent.

    The terminal takes most of the time, and works without the interpreter's lock: meanwhile one thread reads the next
    part, and another packs the last states and writes.
    """
    identity = _identity(recording)
    index = Index()
    indexer = Indexer(recording, index)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0) as out,  # noqa: PTH123
        ThreadPoolExecutor(1) as reader,
        ThreadPoolExecutor(1) as writer,
    ):
        waiting: deque[Future[None]] = deque()

        def write(kind: bytes, payload: bytes, state: bytes | None = None) -> None:
            waiting.append(writer.submit(_write, out, kind, payload, state))
            while len(waiting) > _MOST_WAITING or (waiting and waiting[0].done()):
                waiting.popleft().result()

        told = markers = 0

        def tell(*, complete: bool) -> None:
            nonlocal told, markers
            told = index.end.offset
            fresh, markers = index.markers[markers:], len(index.markers)
            said = {
                "end": index.end, "events": index.events, "width": index.activity.width, "exit": index.exit_status,
                "counts": _without_zeros(index.activity.counts), "markers": fresh, "complete": complete,
                "tail": _sum(recording.data_path, index.end.offset - _SAMPLE, min(_SAMPLE, index.end.offset))
                if complete else "",
            }  # fmt: skip
            write(b"P", json.dumps(said).encode())

        every = max(identity["size"] // 50, 1024 * 1024)
        write(b"H", json.dumps(identity).encode())
        write(b"K", _PLACE.pack(*index.end))
        tell(complete=False)
        size = indexer.spacing
        ahead = reader.submit(indexer.read, index.end, size)
        while (part := ahead.result()) is not None:
            ahead = reader.submit(indexer.read, part.end, size)
            state = indexer.take(part)
            size = indexer.retry if state is None else indexer.spacing
            if state is not None:
                write(b"K", _PLACE.pack(*part.end), state)
            if index.end.offset - told >= every:
                tell(complete=False)
        tell(complete=True)
        while waiting:
            waiting.popleft().result()


def _without_zeros(counts: list[int]) -> list[int]:
    last = len(counts)
    while last and not counts[last - 1]:
        last -= 1
    return counts[:last]


def _write(out: Any, kind: bytes, payload: bytes, state: bytes | None) -> None:
    """Write one record; `state` is packed and put behind the payload."""
    if state is not None:
        payload += packed_state(state)
    data = memoryview(_HEAD.pack(kind, len(payload), zlib.crc32(payload)) + payload)
    while data:
        data = data[out.write(data) :]


def keep(part: Path, target: Path) -> None:
    """Give a complete index its name. Both reader and writer do it, so that neither waits for the other."""
    with contextlib.suppress(OSError):
        part.replace(target)


def forget_old(folder: Path) -> None:
    """Delete the oldest files of the cache, among them parts of killed processes."""
    found = []
    for entry in folder.iterdir():
        if entry.suffix in (".index", ".part", ".cast"):
            with contextlib.suppress(FileNotFoundError):  # another process deletes too
                found.append((entry.stat().st_mtime, entry))
    for _, entry in sorted(found, reverse=True)[_KEPT_FILES:]:
        entry.unlink(missing_ok=True)


def main(recording_path: str, part: str, target: str) -> int:
    """Index a recording into `part`, then give it the name `target`."""
    recording = read_cast(Path(recording_path))
    try:
        build(recording, Path(part))
        keep(Path(part), Path(target))
    finally:
        Path(part).unlink(missing_ok=True)
    forget_old(Path(target).parent)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
