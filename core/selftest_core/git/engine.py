"""The private engine repository: it borrows the person's objects, and nothing that is done in it can reach them.

A bare repository with an empty template (no hooks), its own configuration and `objects/info/alternates` pointing at
the person's objects. All of it is a cache: the line is a fold of plan and decisions, so the folder may be deleted at
any time and is made anew.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Self

from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.git.command import Git
from selftest_core.git.line_counts import LineCounter
from selftest_core.git.merge_tree import Merge, Merger
from selftest_core.git.objects import Commit, decode_commit, encode_commit, is_oid, object_id
from selftest_core.git.path_cache import PathCache, PlainGround
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.review.candidate_branch import Ground, Item, Line
    from selftest_core.review.dependencies import Simulations
    from selftest_core.tools.process import Running

_TIMEOUT = 60.0


class Engine:
    """Reads commits, merges trees and writes commits, in a repository of its own. For one thread at a time."""

    def __init__(self, git: Git, *, is_plain: bool = False) -> None:
        self.git = git
        self.merger = Merger(git, self.write, self.has_tree)
        self._reader: Running | None = None
        self._unread = bytearray()
        self._written: set[str] = set()
        self._seen: set[str] = set()
        self._tree_of: dict[str, str] = {}
        self._merges: dict[tuple[str, str, str], Merge] = {}
        self._united: dict[tuple[str, str, str], bytes | None] = {}
        self._cache = None if is_plain else PathCache(self)
        self._counter = LineCounter(self)
        self.is_partial = False
        self._whole: set[str] = set()
        self.simulations: Simulations = {}
        self.related: dict[tuple[str, ...], list[list[Item]]] = {}
        self.lines: dict[object, Line] = {}
        """Lines that were laid without storing them, by all that they follow from."""

    @classmethod
    def open(cls, folder: Path, source: Path, environ: Mapping[str, str], *, is_plain: bool = False) -> Self:
        """Open the engine repository at `folder`, made where it is missing, over the objects of git folder `source`.

        `is_plain`: every item is a merge of whole trees by git, nothing is remembered path by path.
        Raises RefusedError for a repository whose objects this engine cannot write (SHA-256).
        """
        user = Git(source, environ)
        if user.ask("rev-parse", "--show-object-format").strip() != "sha1":
            detail = "Objects are written here as SHA-1 only."
            raise RefusedError("This repository uses another object format than SHA-1", detail)
        if not (folder / "HEAD").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            argv = ["git", "init", "--quiet", "--bare", "--template=", str(folder)]
            done = run(argv, timeout=_TIMEOUT, cwd=folder, env=user.environment)
            if not done.ok:
                raise ToolFailedError("The engine repository cannot be made", done.stderr_end, argv=done.argv)
        alternates = folder / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        text = f"{_quoted(source / 'objects')}\n"
        if not alternates.is_file() or alternates.read_text() != text:
            alternates.write_text(text)
        # Where history was cut, git must know it here too, else it looks for parents that nobody has.
        shallow = source / "shallow"
        if shallow.is_file():
            (folder / "shallow").write_bytes(shallow.read_bytes())
        engine = cls(Git(folder, environ), is_plain=is_plain)
        engine.is_partial = user.run("config", "--get-regexp", r"^remote\..*\.promisor$").ok
        return engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of this engine; the folder stays."""
        self.merger.close()
        self._counter.close()
        self._end_reader()

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """The kind and body of an object. Raises KeyError where it is missing (a partial or shallow clone)."""
        if not is_oid(oid):
            raise ValueError(f"not a full object id: {oid!r}")
        if self._reader is None:
            self._reader = self.git.talk("cat-file", "--batch")
        reader = self._reader
        assert reader.stdin is not None
        assert reader.stdout is not None
        fd = reader.stdout.fileno()
        try:
            reader.stdin.write(oid.encode() + b"\n")
            reader.stdin.flush()
            words = self._line(fd).split()
            if words[-1] == b"missing":
                raise KeyError(oid)
            body = self._exactly(fd, int(words[2]) + 1)
        except (BrokenPipeError, EOFError, IndexError) as error:
            self._end_reader()
            raise ToolFailedError("git cat-file ended by itself", f"at object {oid}", argv=reader.argv) from error
        return words[1], body[:-1]

    def _line(self, fd: int) -> bytes:
        while (end := self._unread.find(b"\n")) < 0:
            self._fill(fd)
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line

    def _exactly(self, fd: int, count: int) -> bytes:
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

    def _end_reader(self) -> None:
        if self._reader is not None:
            self._reader.end()
            self._reader = None
            self._unread.clear()

    def commit(self, oid: str) -> Commit:
        """Read one commit. Raises KeyError where it is missing, ValueError where it is none."""
        kind, body = self.read(oid)
        if kind != b"commit":
            raise ValueError(f"{oid} is a {kind.decode()}, not a commit")
        return decode_commit(body)

    def tree_of(self, oid: str) -> str:
        """The tree of a commit. Raises KeyError where it is missing, ValueError where it is none."""
        tree = self._tree_of.get(oid)
        if tree is None:
            tree = self._tree_of[oid] = self.commit(oid).tree
        return tree

    def has_tree(self, oid: str) -> bool:
        """True for a tree that is there; what is below it may still be missing."""
        if oid not in self._seen and oid not in self._written:
            try:
                kind, _ = self.read(oid)
            except KeyError:
                return False
            if kind != b"tree":
                raise ValueError(f"{oid} is a {kind.decode()}, not a tree")
            self._seen.add(oid)
        return True

    def empty_tree(self) -> str:
        """The tree without files, which a first commit builds on."""
        return self.write(b"tree", b"")

    def write(self, kind: bytes, body: bytes) -> str:
        """Store an object, where it is not stored yet, and return its id."""
        oid = object_id(kind, body)
        if oid in self._written:
            return oid
        path = self.git.git_dir / "objects" / oid[:2] / oid[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            # Two threads with an engine each may write the same object.
            draft = path.with_name(f"tmp_obj_{os.getpid()}_{threading.get_ident()}_{oid[:12]}")
            try:
                draft.write_bytes(zlib.compress(b"%s %d\0" % (kind, len(body)) + body, 1))
                draft.chmod(0o444)
                draft.rename(path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    draft.unlink()
                raise
        self._written.add(oid)
        return oid

    def write_commit(self, commit: Commit) -> str:
        """Store a commit and return its id."""
        return self.write(b"commit", encode_commit(commit))

    def merge(self, base: str, ours: str, theirs: str) -> Merge:
        """Merge two trees over a third; the same question is asked of git only once."""
        key = (base, ours, theirs)
        known = self._merges.get(key)
        if known is None:
            known = self._merges[key] = self.merger.merge(base, ours, theirs)
            self._seen.add(known.tree)
        return known

    def stand_on(self, tree: str, items: Sequence[Item], *, stored: bool) -> Ground:
        """A ground for `line.lay`; a plain engine always stores what is laid.

        Raises RefusedError where the repository is a partial clone that left away folders of this tree.
        """
        self._require_whole(tree)
        if self._cache is None:
            return PlainGround(self, tree)
        return self._cache.stand_on(tree, items, stored=stored)

    def _require_whole(self, tree: str) -> None:
        """In a partial clone: no folder below this tree may be missing, since git would take it for an empty one."""
        if not self.is_partial or tree in self._whole:
            return
        listed = self.git.run("rev-list", "--objects", "--filter=blob:none", "--missing=print", "--no-walk", tree)
        missing = sum(line.startswith("?") for line in listed.stdout.splitlines())
        if missing or not listed.ok:
            hint = "Fetch the rest first: `git fetch --refetch --no-filter`."
            raise RefusedError("This is a partial clone without some of the folders", f"below {tree}", hint)
        self._whole.add(tree)

    def try_on(self, tree: str, items: Sequence[Item]) -> Ground:
        """The same for a line that nobody keeps."""
        return PlainGround(self, tree) if self._cache is None else self._cache.try_on(tree, items)

    def count_lines(self, before: str, after: str) -> tuple[int, int]:
        """Lines added and removed between two trees, the second perhaps only laid and never stored."""
        return self._counter.count(before, after, None if self._cache is None else self._cache.laid.get(after))

    def merge_file(self, base: bytes, ours: bytes, theirs: bytes, *options: str) -> bytes:
        """Merge three texts, with markers where they clash. Raises ToolFailedError for what is no text."""
        with tempfile.TemporaryDirectory(dir=self.git.git_dir, prefix="merge-") as folder:
            paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
            for path, text in zip(paths, (ours, base, theirs), strict=True):
                path.write_bytes(text)
            done = self.git.run("merge-file", "-p", "-q", *options, *map(str, paths))
        # Its status is the number of conflicts, 127 at most; an error is beyond.
        if not 0 <= done.exit_status <= 127:
            raise ToolFailedError("git merge-file failed", done.stderr_end, argv=done.argv, stderr=done.stderr)
        return done.stdout.encode("utf-8", "surrogateescape")

    def unite(self, base: str, ours: str, theirs: str) -> bytes | None:
        """The text of three blobs with the lines of both sides kept where they clash; None for what is no text."""
        key = (base, ours, theirs)
        if key not in self._united:
            texts = [self.read(oid)[1] for oid in key]
            is_text = not any(b"\0" in text[:8000] for text in texts)
            self._united[key] = self.merge_file(texts[0], texts[1], texts[2], "--union") if is_text else None
        return self._united[key]

    def commits(self, oids: Iterable[str]) -> dict[str, Commit]:
        """Read many commits."""
        return {oid: self.commit(oid) for oid in oids}


def _quoted(path: Path) -> str:
    """A line of `alternates`: git reads a line that begins with a quote as a C string."""
    text = str(path)
    if text.startswith(('"', "#")) or "\n" in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return text
