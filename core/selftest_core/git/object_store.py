"""The private repository of a review: reads the objects of the user's repository, writes its own.

A bare repository with an empty template (no hooks), its own configuration, and `objects/info/alternates` pointing at
the user's objects, which are only ever read. All of it is a cache and may be deleted at any time.

Merges (`merges`, `path_cache`) and counts (`line_counts`) are built on top; this module must not import them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Self

from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.git.command import Git
from selftest_core.git.objects import Commit, decode_commit, encode_commit, encode_pack, is_oid, object_id
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.tools.process import Running

_TIMEOUT = 60.0
ASKED = 200
"""Objects that are asked for at once: their ids must fit into a pipe, or both sides would wait for each other."""
_LEAST_OF_A_PACK = 100
"""Objects that are stored as one pack; fewer get a file each, since git looks for an object in every pack."""


class ObjectStore:
    """Git objects by id, read by one persistent `git cat-file --batch`. For one thread at a time."""

    def __init__(self, git: Git, *, is_partial: bool = False) -> None:
        self.git = git
        self._objects = str(git.git_dir / "objects")
        self._is_partial = is_partial
        self._reader: Running | None = None
        self._unread = bytearray()
        self._known_trees: set[str] = set()
        self._written: set[str] = set()
        self._waiting: dict[str, tuple[bytes, bytes]] = {}
        self._tree_of: dict[str, str] = {}
        self._complete: set[str] = set()

    @classmethod
    def open(cls, folder: Path, source: Path, environ: Mapping[str, str]) -> Self:
        """Open the store at `folder` (made if it is missing) over the objects of git folder `source`.

        Raises RefusedError for a repository whose objects cannot be written here (SHA-256).
        """
        user = Git(source, environ)
        if user.ask("rev-parse", "--show-object-format").strip() != "sha1":
            detail = "Only SHA-1 objects can be written."
            raise RefusedError("This repository uses another object format than SHA-1", detail)
        if not (folder / "HEAD").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            argv = ["git", "init", "--quiet", "--bare", "--template=", str(folder)]
            done = run(argv, timeout=_TIMEOUT, cwd=folder, env=user.environment)
            if not done.ok:
                raise ToolFailedError("Cannot create the review's repository", done.stderr_end, argv=done.argv)
        alternates = folder / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        text = f"{_quoted(source / 'objects')}\n"
        if not alternates.is_file() or alternates.read_text() != text:
            alternates.write_text(text)
        # Without this file git would look for the parents that a shallow clone does not have.
        shallow = source / "shallow"
        if shallow.is_file():
            (folder / "shallow").write_bytes(shallow.read_bytes())
        is_partial = user.run("config", "--get-regexp", r"^remote\..*\.promisor$").ok
        return cls(Git(folder, environ), is_partial=is_partial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process that reads; the folder stays."""
        if self._reader is not None:
            self._reader.end()
            self._reader = None
            self._unread.clear()

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """The kind and body of an object. Raises KeyError if it is missing (a partial or shallow clone)."""
        return self.read_each([oid])[0]

    def read_each(self, oids: Sequence[str]) -> list[tuple[bytes, bytes]]:
        """The kind and body of each object. Raises KeyError for the first that is missing.

        Asks for many at once: to wait for git once for each object takes longer than to read it.
        """
        found = [one for start in range(0, len(oids), ASKED) for one in self._ask(oids[start : start + ASKED])]
        for oid, one in zip(oids, found, strict=True):
            if one is None:
                raise KeyError(oid)
        return [one for one in found if one is not None]

    def has(self, oid: str) -> bool:
        """True where an object is there."""
        return self._ask([oid])[0] is not None

    def _ask(self, oids: Sequence[str]) -> list[tuple[bytes, bytes] | None]:
        """Ask the process that reads; None for an object that is missing."""
        for oid in oids:
            if not is_oid(oid):
                raise ValueError(f"not a full object id: {oid!r}")
        if self._reader is None:
            self._reader = self.git.talk("cat-file", "--batch")
        reader = self._reader
        assert reader.stdin is not None
        assert reader.stdout is not None
        fd = reader.stdout.fileno()
        found: list[tuple[bytes, bytes] | None] = []
        try:
            reader.stdin.write("".join(f"{oid}\n" for oid in oids).encode())
            reader.stdin.flush()
            for _ in oids:
                header = self._read_line(fd).split()
                is_missing = header[-1] == b"missing"
                found.append(None if is_missing else (header[1], self._read_exactly(fd, int(header[2]) + 1)[:-1]))
        except (BrokenPipeError, EOFError, IndexError) as error:
            self.close()
            at = f"at object {oids[len(found)]}"
            raise ToolFailedError("git cat-file ended unexpectedly", at, argv=reader.argv) from error
        return found

    def commit(self, oid: str) -> Commit:
        """Read one commit. Raises KeyError if it is missing, ValueError for another kind of object."""
        return self.commits([oid])[0]

    def commits(self, oids: Sequence[str]) -> list[Commit]:
        """Read several commits, as `commit` does."""
        found = []
        for oid, (kind, body) in zip(oids, self.read_each(oids), strict=True):
            if kind != b"commit":
                raise ValueError(f"{oid} is a {kind.decode()}, not a commit")
            commit = decode_commit(body)
            self._tree_of[oid] = commit.tree
            found.append(commit)
        return found

    def tree_of(self, oid: str) -> str:
        """The tree of a commit. Raises KeyError if it is missing, ValueError for another kind of object."""
        tree = self._tree_of.get(oid)
        if tree is None:
            tree = self.commit(oid).tree
        return tree

    def has_tree(self, oid: str) -> bool:
        """True for a tree that is stored; folders and files below it may still be missing."""
        if oid not in self._known_trees and oid not in self._written:
            try:
                kind, _ = self.read(oid)
            except KeyError:
                return False
            if kind != b"tree":
                raise ValueError(f"{oid} is a {kind.decode()}, not a tree")
            self._known_trees.add(oid)
        return True

    def add_known_tree(self, oid: str) -> None:
        """Note a tree that git itself has just written here, so that `has_tree` need not read it."""
        self._known_trees.add(oid)

    def require_complete(self, tree: str) -> None:
        """Raise RefusedError if a partial clone lacks a folder below this tree: git would take it for empty."""
        if not self._is_partial or tree in self._complete:
            return
        listed = self.git.run("rev-list", "--objects", "--filter=blob:none", "--missing=print", "--no-walk", tree)
        missing = sum(line.startswith("?") for line in listed.stdout.splitlines())
        if missing or not listed.ok:
            hint = "Fetch the rest first: `git fetch --refetch --no-filter`."
            raise RefusedError("This is a partial clone without some of the folders", f"below {tree}", hint)
        self._complete.add(tree)

    def write(self, kind: bytes, body: bytes) -> str:
        """Store an object, if it is not stored yet, and return its id."""
        oid = object_id(kind, body)
        if oid in self._written:
            return oid
        # Texts, not paths: of the thousands of objects of a branch, making paths would take a quarter of the time.
        folder = f"{self._objects}/{oid[:2]}"
        path = f"{folder}/{oid[2:]}"
        if not os.path.exists(path):  # noqa: PTH110 - as said above
            # Two threads, each with a store on this folder, may write the same object.
            draft = f"{folder}/tmp_obj_{os.getpid()}_{threading.get_ident()}_{oid[:12]}"
            try:
                _write_file(folder, draft, zlib.compress(b"%s %d\0" % (kind, len(body)) + body, 1))
                os.rename(draft, path)  # noqa: PTH104 - as said above
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    Path(draft).unlink()
                raise
        self._written.add(oid)
        return oid

    def write_later(self, kind: bytes, body: bytes) -> str:
        """Store an object with the next `write_waiting`, and return its id. Nothing can read it before."""
        oid = object_id(kind, body)
        if oid not in self._written:
            self._waiting[oid] = kind, body
        return oid

    def write_waiting(self) -> None:
        """Store the objects that wait: many as one pack, which takes a fourth of the time that as many files take."""
        if len(self._waiting) < _LEAST_OF_A_PACK:
            for kind, body in self._waiting.values():
                self.write(kind, body)
        else:
            self._write_pack()
            self._written.update(self._waiting)
        self._waiting.clear()

    def _write_pack(self) -> None:
        packs = Path(self._objects, "pack")
        packs.mkdir(exist_ok=True)
        draft = packs / f"tmp_pack_{os.getpid()}_{threading.get_ident()}.pack"
        index = draft.with_suffix(".idx")
        try:
            draft.write_bytes(encode_pack(list(self._waiting.values())))
            draft.chmod(0o444)
            name = self.git.ask("index-pack", "-o", str(index), str(draft)).split()[-1]
            # git finds packs by their index, so the index must come last.
            draft.rename(packs / f"pack-{name}.pack")
            index.rename(packs / f"pack-{name}.idx")
        finally:
            draft.unlink(missing_ok=True)
            index.unlink(missing_ok=True)

    def write_commit(self, commit: Commit) -> str:
        """Store a commit and return its id."""
        return self.write(b"commit", encode_commit(commit))

    def empty_tree(self) -> str:
        """Store the tree without files and return its id."""
        return self.write(b"tree", b"")

    def _read_line(self, fd: int) -> bytes:
        while (end := self._unread.find(b"\n")) < 0:
            self._fill(fd)
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line

    def _read_exactly(self, fd: int, count: int) -> bytes:
        while len(self._unread) < count:
            self._fill(fd)
        body = bytes(self._unread[:count])
        del self._unread[:count]
        return body

    def _fill(self, fd: int) -> None:
        part = os.read(fd, 1 << 20)
        if not part:
            raise EOFError
        self._unread += part


def _write_file(folder: str, path: str, data: bytes) -> None:
    """Write a file that nobody may change. `folder`, its own, is created where it is missing, which most are not."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o444)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another thread was faster
            Path(folder).mkdir()
        file = os.open(path, flags, 0o444)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)


def _quoted(path: Path) -> str:
    """A line of `alternates`: git reads a line that begins with a quote as a C string."""
    text = str(path)
    if text.startswith(('"', "#")) or "\n" in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return text
