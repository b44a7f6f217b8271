"""The private engine repository: it borrows the person's objects, and nothing that is done in it can reach them.

A bare repository with an empty template (no hooks), its own configuration and `objects/info/alternates` pointing at
the person's objects. All of it is a cache: the line is a fold of plan and decisions, so the folder may be deleted at
any time and is made anew.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import TYPE_CHECKING, Self

from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.integration.merging import Merge, Merger
from selftest_core.integration.objects import Commit, decode_commit, encode_commit, is_oid, object_id
from selftest_core.tools.git import Git
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.tools.process import Running

_TIMEOUT = 60.0


class Engine:
    """Reads commits, merges trees and writes commits, in a repository of its own."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.merger = Merger(git, self.write)
        self._reader: Running | None = None
        self._written: set[str] = set()
        self._merges: dict[tuple[str, str, str], Merge] = {}

    @classmethod
    def open(cls, folder: Path, source: Path, environ: Mapping[str, str]) -> Self:
        """Open the engine repository at `folder`, made where it is missing, over the objects of git folder `source`.

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
        return cls(Git(folder, environ))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of this engine; the folder stays."""
        self.merger.close()
        if self._reader is not None:
            self._reader.end()
            self._reader = None

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """The kind and body of an object. Raises KeyError where it is missing (a partial or shallow clone)."""
        if not is_oid(oid):
            raise ValueError(f"not a full object id: {oid!r}")
        if self._reader is None:
            self._reader = self.git.talk("cat-file", "--batch")
        reader = self._reader
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            reader.stdin.write(oid.encode() + b"\n")
            reader.stdin.flush()
            head = _line(reader.stdout.fileno())
            words = head.split()
            if words[-1] == b"missing":
                raise KeyError(oid)
            body = _exactly(reader.stdout.fileno(), int(words[2]) + 1)
        except (BrokenPipeError, EOFError, IndexError) as error:
            reader.end()
            self._reader = None
            raise ToolFailedError("git cat-file ended by itself", f"at object {oid}", argv=reader.argv) from error
        return words[1], body[:-1]

    def commit(self, oid: str) -> Commit:
        """Read one commit. Raises KeyError where it is missing, ValueError where it is none."""
        kind, body = self.read(oid)
        if kind != b"commit":
            raise ValueError(f"{oid} is a {kind.decode()}, not a commit")
        return decode_commit(body)

    def tree_of(self, oid: str) -> str:
        """The tree of a commit."""
        return self.commit(oid).tree

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
            draft = path.with_name(f"tmp_obj_{os.getpid()}_{oid[:12]}")
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
        return known

    def commits(self, oids: Iterable[str]) -> dict[str, Commit]:
        """Read many commits."""
        return {oid: self.commit(oid) for oid in oids}


def _quoted(path: Path) -> str:
    """A line of `alternates`: git reads a line that begins with a quote as a C string."""
    text = str(path)
    if text.startswith(('"', "#")) or "\n" in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return text


def _line(fd: int) -> bytes:
    """One line, read byte by byte: it is short, and what follows it belongs to somebody else."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(fd, 1)
        if not byte:
            raise EOFError
        line += byte
    return bytes(line)


def _exactly(fd: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
