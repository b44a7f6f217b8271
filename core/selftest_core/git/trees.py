"""Trees of git in memory: looked up, edited path by path, hashed, and stored when their objects are needed.

A branch of 300 commits has a thousand trees. Only folders that changed are built anew, and they are only hashed until
somebody needs the objects: hashing a folder costs microseconds, storing it a hundred times that.

Paths are tuples of bytes, folder by folder; an entry is a mode as trees have it (`100644`, `40000`) and an id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from selftest_core.git.objects import TREE_MODE, object_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

type Parts = tuple[bytes, ...]
type Entry = tuple[bytes, str]
"""Mode and id."""
type _Raw = bytes
"""An entry as bytes of a tree object: mode, space, name, NUL and 20 bytes. A folder is the join of these."""

_UNKNOWN = "0" * 40


class TreeStore(Protocol):
    """Reads and writes objects."""

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and body of an object."""
        ...

    def write(self, kind: bytes, body: bytes) -> str:
        """Store an object and return its id."""
        ...


class TreeReader:
    """Parsed trees by their ids. The returned mappings must not be changed."""

    _MOST = 4096

    def __init__(self, store: TreeStore) -> None:
        self.store = store
        self._known: dict[str, dict[bytes, _Raw]] = {}

    def entries(self, oid: str) -> dict[bytes, _Raw]:
        """The entries of one folder by name, in git's order."""
        known = self._known.get(oid)
        if known is None:
            kind, body = self.store.read(oid)
            if kind != b"tree":
                raise ValueError(f"{oid} is a {kind.decode()}, not a tree")
            known = _split(body)
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[oid] = known
        return known

    def find(self, root: str, parts: Parts) -> Entry | None:
        """Find the entry of a path, a folder or a file; None if there is nothing."""
        entry: Entry = (TREE_MODE, root)
        for name in parts:
            if entry[0] != TREE_MODE:
                return None
            below = self.entries(entry[1]).get(name)
            if below is None:
                return None
            entry = _entry(below)
        return entry

    def changes(self, before: str, after: str) -> Iterator[tuple[Parts, Entry | None]]:
        """Yield the files in which two trees differ: path, and its entry afterwards (None if it is deleted)."""
        if before != after:
            yield from self._changes(before, after, ())

    def _changes(self, before: str | None, after: str | None, at: Parts) -> Iterator[tuple[Parts, Entry | None]]:
        old: Mapping[bytes, _Raw] = {} if before is None else self.entries(before)
        new: Mapping[bytes, _Raw] = {} if after is None else self.entries(after)
        for name in dict.fromkeys((*old, *new)):
            raw_before, raw_after = old.get(name), new.get(name)
            if raw_before == raw_after:
                continue
            was = None if raw_before is None else _entry(raw_before)
            now = None if raw_after is None else _entry(raw_after)
            path = (*at, name)
            old_folder = was[1] if was is not None and was[0] == TREE_MODE else None
            new_folder = now[1] if now is not None and now[0] == TREE_MODE else None
            if old_folder is not None or new_folder is not None:
                yield from self._changes(old_folder, new_folder, path)
            if was is not None and old_folder is None and (now is None or new_folder is not None):
                yield path, None
            if now is not None and new_folder is None:
                yield path, now


class _Folder:
    """One folder: its entries in git's order unless `is_sorted` is off."""

    __slots__ = ("children", "entries", "is_sorted", "is_stored", "oid")

    def __init__(self, oid: str | None, entries: dict[bytes, _Raw]) -> None:
        # None if it changed since it was hashed.
        self.oid = oid
        self.entries = entries
        self.children: dict[bytes, _Folder] = {}
        self.is_sorted = True
        self.is_stored = True


class LiveTree:
    """A tree that can be edited. Folders are read when a path in them is looked up."""

    def __init__(self, reader: TreeReader, root: str) -> None:
        self._reader = reader
        self._root = _Folder(root, dict(reader.entries(root)))

    def find(self, parts: Parts) -> Entry | None:
        """Find the entry of a path; None if there is nothing, or where a file takes the place of its folder.

        The id of a folder may be out of date.
        """
        folder = self._root
        for name in parts[:-1]:
            below = self._below(folder, name)
            if below is None:
                return None
            folder = below
        raw = folder.entries.get(parts[-1])
        return None if raw is None else _entry(raw)

    def put(self, parts: Parts, entry: Entry | None) -> None:
        """Set the file of a path, or delete it (None). Folders are made and removed with their files."""
        if entry is None:
            self._remove(self._root, parts, 0)
            return
        folder = self._root
        folder.oid = None
        for name in parts[:-1]:
            below = self._below(folder, name)
            if below is None:
                below = folder.children[name] = _Folder(None, {})
                folder.entries[name] = _raw(name, TREE_MODE, _UNKNOWN)
                folder.is_sorted = False
            folder = below
            folder.oid = None
        name = parts[-1]
        folder.children.pop(name, None)
        before = folder.entries.get(name)
        if before is None or _is_folder(before):
            folder.is_sorted = False
        folder.entries[name] = _raw(name, *entry)

    def seal(self) -> str:
        """Hash the folders that changed, and return the id of the whole tree."""
        return self._seal(self._root)

    def flush(self, write: Callable[[bytes, bytes], str] | None = None) -> str:
        """Store the folders that are not stored yet, and return the id of the whole tree. `write` stores an object."""
        oid = self.seal()
        self._flush(self._root, write or self._reader.store.write)
        return oid

    def _below(self, folder: _Folder, name: bytes) -> _Folder | None:
        child = folder.children.get(name)
        if child is not None:
            return child
        raw = folder.entries.get(name)
        if raw is None or not _is_folder(raw):
            return None
        oid = _entry(raw)[1]
        child = _Folder(oid, dict(self._reader.entries(oid)))
        folder.children[name] = child
        return child

    def _remove(self, folder: _Folder, parts: Parts, depth: int) -> None:
        name = parts[depth]
        if depth == len(parts) - 1:
            if folder.entries.pop(name, None) is not None:
                folder.children.pop(name, None)
                folder.oid = None
            return
        below = self._below(folder, name)
        if below is None:
            return
        self._remove(below, parts, depth + 1)
        if below.oid is None:
            folder.oid = None
        if not below.entries:
            folder.children.pop(name, None)
            folder.entries.pop(name, None)

    def _seal(self, folder: _Folder) -> str:
        if folder.oid is not None:
            return folder.oid
        entries = folder.entries
        for name, child in folder.children.items():
            if child.oid is None:
                entries[name] = _raw(name, TREE_MODE, self._seal(child))
        if not folder.is_sorted:
            entries = folder.entries = dict(sorted(entries.items(), key=_order))
            folder.is_sorted = True
        folder.is_stored = False
        folder.oid = object_id(b"tree", b"".join(entries.values()))
        return folder.oid

    def _flush(self, folder: _Folder, write: Callable[[bytes, bytes], str]) -> None:
        if folder.is_stored:
            return
        for child in folder.children.values():
            self._flush(child, write)
        write(b"tree", b"".join(folder.entries.values()))
        folder.is_stored = True


def _split(body: bytes) -> dict[bytes, _Raw]:
    entries: dict[bytes, _Raw] = {}
    start = 0
    while start < len(body):
        end = body.index(b"\0", start)
        name = body[body.index(b" ", start, end) + 1 : end]
        entries[name] = body[start : end + 21]
        start = end + 21
    return entries


def _raw(name: bytes, mode: bytes, oid: str) -> _Raw:
    return b"%b %b\0%b" % (mode, name, bytes.fromhex(oid))


def _entry(raw: _Raw) -> Entry:
    return raw[: raw.index(b" ")], raw[-20:].hex()


def _is_folder(raw: _Raw) -> bool:
    return raw.startswith(b"40000 ")


def _order(item: tuple[bytes, _Raw]) -> bytes:
    """The sort key of git: a folder sorts as if its name ended in a slash."""
    name, raw = item
    return name + b"/" if _is_folder(raw) else name


def parts_of(path: str) -> Parts:
    """Split a path of git (bytes that are not UTF-8 as surrogates) into its folders and name."""
    return tuple(path.encode("utf-8", "surrogateescape").split(b"/"))


def path_of(parts: Iterable[bytes]) -> str:
    """Join folders and name to a path of git."""
    return b"/".join(parts).decode("utf-8", "surrogateescape")
