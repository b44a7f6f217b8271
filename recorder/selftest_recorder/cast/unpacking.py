"""Cache of unpacked gzipped recordings, since seeking needs a plain file.

Names in the cache are made from path, size and time of change of the packed file. The cache is bounded: the oldest
entries are deleted. The size of an unpacked file is bounded too, since a few kilobytes can unpack to terabytes.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tempfile
import zlib
from pathlib import Path

from selftest_core.frozen import dataclass
from selftest_core.paths import cache_folder
from selftest_recorder.cast.events import RecordingError

LIMIT = 4 * 1024 * 1024 * 1024
"""Largest unpacked recording in bytes."""
_KEPT_BYTES = 2 * LIMIT
_CHUNK = 1024 * 1024
_SUFFIX = ".cast"
_SAYS = ".says"
"""Suffix of the file beside an incomplete entry with the reason."""


@dataclass(frozen=True, slots=True)
class Unpacking:
    """An unpacked file. `says`: why it ends early, "" for a complete one; `last_line`: the number of its lines then."""

    path: Path
    says: str = ""
    last_line: int = 0


def is_gzip(head: bytes) -> bool:
    """Return True for a file that begins like gzip, whatever its name is."""
    return head.startswith(b"\x1f\x8b")


def is_zstd(head: bytes) -> bool:
    """Return True for a file that begins like zstd, which is not supported."""
    return head.startswith(b"\x28\xb5\x2f\xfd")


def unpacked(path: Path, cache: Path | None = None, limit: int = LIMIT) -> Unpacking:
    """Unpack a file, or return it from the cache. Raises RecordingError if it cannot be read or written."""
    try:
        folder = cache or cache_folder(os.environ) / "recordings"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = path.stat()
        name = f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0{limit}"
        target = folder / (hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32] + _SUFFIX)
        if target.exists():
            os.utime(target)
            return _told(target)
        return _unpack(path, target, limit)
    except OSError as error:
        raise RecordingError(f"{path.name} cannot be unpacked", error.strerror or str(error)) from error


def _unpack(path: Path, target: Path, limit: int) -> Unpacking:
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".part")
    says, lines, size = "", 1, 0
    try:
        with os.fdopen(handle, "wb") as out, gzip.open(path, "rb") as packed:
            try:
                while chunk := packed.read1(_CHUNK):
                    size += len(chunk)
                    lines += chunk.count(b"\n")
                    out.write(chunk)
                    if size > limit:
                        says = f"it unpacks to more than {limit // 1024 // 1024} MiB; the rest was left out"
                        break
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                says = f"the packed file is cut off or damaged here ({error}); the rest was left out"
        if not size and says:
            raise RecordingError(f"{path.name} is no recording", f"It looks gzipped, and {says}.")
        if says:
            target.with_suffix(_SAYS).write_text(f"{lines} {says}", encoding="utf-8")
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _forget_old(target.parent, target)
    return Unpacking(target, says, lines)


def _told(target: Path) -> Unpacking:
    try:
        lines, _, says = target.with_suffix(_SAYS).read_text(encoding="utf-8").partition(" ")
    except FileNotFoundError:
        return Unpacking(target)
    return Unpacking(target, says, int(lines) if lines.isdigit() else 1)


def _forget_old(folder: Path, kept: Path) -> None:
    """Delete the entries of the cache that were not used for longest."""
    entries = []
    for entry in folder.iterdir():
        if entry.suffix == _SUFFIX and entry != kept:
            with contextlib.suppress(FileNotFoundError):  # another process deletes too
                status = entry.stat()
                entries.append((status.st_mtime, status.st_size, entry))
    size = kept.stat().st_size
    for _, its_size, entry in sorted(entries, reverse=True):
        size += its_size
        if size > _KEPT_BYTES:
            entry.unlink(missing_ok=True)
            entry.with_suffix(_SAYS).unlink(missing_ok=True)
