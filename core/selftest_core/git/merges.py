"""Merges by git, without a checkout: of three trees (`git merge-tree`), and of three texts (`git merge-file`).

`merge-tree` takes commits and finds their merge base itself. It gets three synthetic commits (the base tree, and the
two sides as its only children), so it finds that base whatever the real history is: merges, roots, shallow clones and
grafts included. They are dated far in the future, since git walks history for a commit that is older than its parent.

One `merge-tree --stdin` answers all merges. git before 2.49 does not flush after each answer: it is run under
`stdbuf -o0`, and if that is missing each merge is a process of its own, four times slower with the same results.
"""

from __future__ import annotations

import os
import selectors
import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from selftest_core.errors import ToolFailedError, ToolTimeoutError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import Commit, is_oid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.tools.process import Running

_AUTHOR = b"selftest-tui <selftest-tui@localhost> 4102444800 +0000"
_OURS = "the branch so far"
_THEIRS = "this change"
_TIMEOUT = 120.0
_CHUNK = 65536
_MOST_MERGES = 60_000


@dataclass(frozen=True, slots=True)
class Side:
    """The content of a path on one side: the mode as git writes it, and the id of the blob (or submodule commit)."""

    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that could not be merged. A side that has nothing there is None (deleted, or never made).

    `path` keeps bytes that are not UTF-8 as surrogates. `messages` are git's words, not yet safe to show.
    """

    path: str
    base: Side | None
    ours: Side | None
    theirs: Side | None
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """The result: `tree` if it is clean; else `conflicts`, never empty, and a tree that must not be published."""

    tree: str
    is_clean: bool
    conflicts: tuple[Conflict, ...] = ()


class Merger:
    """Merges trees and texts of one object store. Each merge is run once; its result is kept."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._running: Running | None = None
        self._is_persistent = shutil.which("stdbuf", path=store.git.environment.get("PATH")) is not None
        self._roots: dict[str, str] = {}
        self._children: dict[tuple[str, str], str] = {}
        self._merges: dict[tuple[str, str, str], Merge] = {}
        self._unions: dict[tuple[str, str, str], bytes | None] = {}

    def merge(self, base: str, ours: str, theirs: str) -> Merge:
        """Merge two trees over a third (ids of trees). Raises ToolError if git cannot."""
        key = (base, ours, theirs)
        known = self._merges.get(key)
        if known is None:
            if len(self._merges) >= _MOST_MERGES:
                self._merges.clear()
            known = self._merges[key] = self._merge(base, ours, theirs)
            self._store.add_known_tree(known.tree)
        return known

    def merge_texts(self, base: bytes, ours: bytes, theirs: bytes, *options: str) -> bytes:
        """Merge three texts, with conflict markers. Raises ToolFailedError for content that is not text."""
        with tempfile.TemporaryDirectory(dir=self._store.git.git_dir, prefix="merge-") as folder:
            paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
            for path, text in zip(paths, (ours, base, theirs), strict=True):
                path.write_bytes(text)
            done = self._store.git.run("merge-file", "-p", "-q", *options, *map(str, paths))
        # The exit status is the number of conflicts, at most 127; errors are above.
        if not 0 <= done.exit_status <= 127:
            raise ToolFailedError("git merge-file failed", done.stderr_end, argv=done.argv, stderr=done.stderr)
        return done.stdout.encode("utf-8", "surrogateescape")

    def union(self, base: str, ours: str, theirs: str) -> bytes | None:
        """Merge three blobs, keeping the lines of both sides in a conflict; None for content that is not text."""
        key = (base, ours, theirs)
        if key not in self._unions:
            texts = [body for _, body in self._store.read_each(key)]
            is_text = not any(b"\0" in text[:8000] for text in texts)
            self._unions[key] = self.merge_texts(texts[0], texts[1], texts[2], "--union") if is_text else None
        return self._unions[key]

    def close(self) -> None:
        """End the persistent process."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _merge(self, base: str, ours: str, theirs: str) -> Merge:
        if theirs in (base, ours):
            return Merge(ours, True)
        if ours == base:
            return Merge(theirs, True)
        # git before 2.45 takes a missing tree for an empty one, and would delete every file of it.
        missing = [tree for tree in (base, ours, theirs) if not self._store.has_tree(tree)]
        if missing:
            raise ToolFailedError("A tree to merge is missing", f"It is {missing[0]}.", "Fetch what is missing.")
        left, right = self._child(base, ours), self._child(base, theirs)
        if not (is_oid(left) and is_oid(right)):
            raise ValueError("only full object ids may reach git")
        return self._merge_persistent(left, right) if self._is_persistent else self._merge_spawned(left, right)

    def _child(self, base: str, tree: str) -> str:
        known = self._children.get((base, tree))
        if known is None:
            root = self._roots.get(base)
            if root is None:
                root = self._roots[base] = self._commit(base, ())
            known = self._children[base, tree] = self._commit(tree, (root,))
        return known

    def _commit(self, tree: str, parents: tuple[str, ...]) -> str:
        return self._store.write_commit(Commit(tree, parents, _AUTHOR, _AUTHOR, b"merged\n"))

    def _merge_persistent(self, left: str, right: str) -> Merge:
        if self._running is None:
            self._running = self._store.git.talk("merge-tree", "--write-tree", "--stdin", unbuffered=True)
        running = self._running
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            running.stdin.write(f"{left} {right}\n".encode())
            running.stdin.flush()
            words = _PipeWords(running.stdout)
            status = words.next()
            if status not in (b"0", b"1"):
                raise ToolFailedError("git merge-tree failed", f"It answered {status!r}.", argv=running.argv)
            return _read_merge(words, {left: _OURS, right: _THEIRS}, is_clean=status == b"1")
        except (BrokenPipeError, EOFError) as error:
            self.close()
            detail = "It ended unexpectedly, as it does when an object is missing."
            raise ToolFailedError("git merge-tree failed", detail, argv=running.argv) from error
        except BaseException:
            # The rest of this answer is still in the pipe: the next merge must not read it.
            self.close()
            raise

    def _merge_spawned(self, left: str, right: str) -> Merge:
        done = self._store.git.run("merge-tree", "--write-tree", "-z", "--messages", left, right)
        if done.exit_status not in (0, 1):
            raise ToolFailedError("git merge-tree failed", done.stderr_end, argv=done.argv, stderr=done.stderr)
        data = done.stdout.encode("utf-8", "surrogateescape")
        return _read_merge(_TextWords(data), {left: _OURS, right: _THEIRS}, is_clean=done.exit_status == 0)


class _PipeWords:
    """NUL-terminated words from a pipe, with a deadline."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._fd = stream.fileno()
        self._buffer = bytearray()

    def next(self) -> bytes:
        while (end := self._buffer.find(b"\0")) < 0:
            with selectors.DefaultSelector() as selector:
                selector.register(self._fd, selectors.EVENT_READ)
                if not selector.select(_TIMEOUT):
                    raise ToolTimeoutError(f"git merge-tree did not answer within {_TIMEOUT:g} s")
            chunk = os.read(self._fd, _CHUNK)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        word = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return word


class _TextWords:
    """NUL-terminated words of a complete answer."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def next(self) -> bytes:
        word, _, self._rest = self._rest.partition(b"\0")
        return word


def _read_merge(words: _PipeWords | _TextWords, names: Mapping[str, str], *, is_clean: bool) -> Merge:
    """Parse: tree, then `mode oid stage TAB path` until an empty word, then messages until an empty word.

    `names` replace the ids of the synthetic commits in messages.
    """
    tree = words.next().decode("ascii")
    stages: dict[str, dict[str, Side]] = {}
    while entry := words.next():
        facts, _, raw_path = entry.partition(b"\t")
        mode, oid, stage = facts.decode("ascii").split(" ")
        path = raw_path.decode("utf-8", "surrogateescape")
        stages.setdefault(path, {})[stage] = Side(mode, oid)
    if is_clean:
        return Merge(tree, True)
    messages: dict[str, list[str]] = {}
    # Where submodules conflict, git 2.39 puts plain advice after the messages, and ends it as it ends an answer.
    while (count := words.next()).isdigit():
        paths = [words.next().decode("utf-8", "surrogateescape") for _ in range(int(count))]
        kind = words.next()
        message = words.next().decode("utf-8", "replace").strip()
        for oid, name in names.items():
            message = message.replace(oid, name)
        if not kind.startswith(b"Auto-merging"):
            for path in paths:
                messages.setdefault(path, []).append(message)
                # Some conflicts leave no stages (a submodule, a renamed folder): there is only the message.
                stages.setdefault(path, {})
    conflicts = tuple(
        Conflict(path, sides.get("1"), sides.get("2"), sides.get("3"), tuple(messages.get(path, ())))
        for path, sides in sorted(stages.items())
    )
    return Merge(tree, False, conflicts or (Conflict("", None, None, None, ("git names no path",)),))
