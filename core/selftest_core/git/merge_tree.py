"""Three-tree merges by one persistent `git merge-tree`, the whole cost of putting a commit on the line.

`merge-tree` takes commits and finds their base itself. It is given three commits made up for the occasion (the base
tree, and the two sides as its only children), so it finds that base whatever the real history is: merges, roots,
shallow clones and grafts included. They are dated far in the future, since git walks history for a commit that is
older than its parent.

git before 2.49 does not flush after each merge: it is run under `stdbuf -o0`, and where that is missing each merge
is a process of its own, four times slower and with the same answers.
"""

from __future__ import annotations

import os
import selectors
import shutil
from typing import IO, TYPE_CHECKING

from selftest_core.errors import ToolFailedError, ToolTimeoutError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import Commit, encode_commit, is_oid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.git.command import Git
    from selftest_core.tools.process import Running

_NOBODY = b"selftest-tui <selftest-tui@localhost> 4102444800 +0000"
_OURS = "the line so far"
_THEIRS = "this change"
_PATIENCE = 120.0
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Side:
    """What one side has at a path: the mode as git writes it, and the id of the blob (or the submodule's commit)."""

    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that could not be merged. A side that has nothing there is None (deleted, or not yet made).

    `path` keeps bytes that are not UTF-8 as surrogates. `says` are git's own words, not yet safe to show.
    """

    path: str
    base: Side | None
    ours: Side | None
    theirs: Side | None
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """The answer: `tree` where it is clean; else `conflicts`, never empty, and a tree that nobody may publish."""

    tree: str
    is_clean: bool
    conflicts: tuple[Conflict, ...] = ()


class Merger:
    """Merges trees of one engine repository; `write` stores an object there and returns its id.

    `has` tells whether a tree is there: git before 2.45 takes one that is missing for an empty one, and would delete
    every file of it.
    """

    def __init__(self, git: Git, write: Callable[[bytes, bytes], str], has: Callable[[str], bool]) -> None:
        self._git = git
        self._write = write
        self._has = has
        self._running: Running | None = None
        self._can_talk = shutil.which("stdbuf", path=git.environment.get("PATH")) is not None
        self._roots: dict[str, str] = {}
        self._children: dict[tuple[str, str], str] = {}

    def merge(self, base: str, ours: str, theirs: str) -> Merge:
        """Merge two trees over a third (ids of trees). Raises ToolError where git cannot, never guesses."""
        if theirs in (base, ours):
            return Merge(ours, True)
        if ours == base:
            return Merge(theirs, True)
        missing = [tree for tree in (base, ours, theirs) if not self._has(tree)]
        if missing:
            raise ToolFailedError("A tree to merge is not there", f"It is {missing[0]}.", "Fetch what is missing.")
        left, right = self._child(base, ours), self._child(base, theirs)
        if not (is_oid(left) and is_oid(right)):
            raise ValueError("only full object ids may reach git")
        return self._talk(left, right) if self._can_talk else self._spawn(left, right)

    def close(self) -> None:
        """End the persistent process."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _child(self, base: str, tree: str) -> str:
        known = self._children.get((base, tree))
        if known is None:
            root = self._roots.get(base)
            if root is None:
                root = self._roots[base] = self._commit(base, ())
            known = self._children[base, tree] = self._commit(tree, (root,))
        return known

    def _commit(self, tree: str, parents: tuple[str, ...]) -> str:
        return self._write(b"commit", encode_commit(Commit(tree, parents, _NOBODY, _NOBODY, b"merged\n")))

    def _talk(self, left: str, right: str) -> Merge:
        if self._running is None:
            self._running = self._git.talk("merge-tree", "--write-tree", "--stdin", unbuffered=True)
        running = self._running
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            running.stdin.write(f"{left} {right}\n".encode())
            running.stdin.flush()
            words = _Words(running.stdout)
            status = words.next()
            if status not in (b"0", b"1"):
                raise ToolFailedError("git merge-tree failed", f"It answered {status!r}.", argv=running.argv)
            return _read_merge(words, {left: _OURS, right: _THEIRS}, is_clean=status == b"1")
        except (BrokenPipeError, EOFError) as error:
            self.close()
            detail = "It ended by itself, as it does at an object that is not there."
            raise ToolFailedError("git merge-tree failed", detail, argv=running.argv) from error
        except BaseException:
            # Half an answer is left in the pipe: whoever merges next must not read it as theirs.
            self.close()
            raise

    def _spawn(self, left: str, right: str) -> Merge:
        done = self._git.run("merge-tree", "--write-tree", "-z", "--messages", left, right)
        if done.exit_status not in (0, 1):
            raise ToolFailedError("git merge-tree failed", done.stderr_end, argv=done.argv, stderr=done.stderr)
        data = done.stdout.encode("utf-8", "surrogateescape")
        return _read_merge(_Said(data), {left: _OURS, right: _THEIRS}, is_clean=done.exit_status == 0)


class _Words:
    """NUL-terminated words from a pipe, with a deadline."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._fd = stream.fileno()
        self._buffer = bytearray()

    def next(self) -> bytes:
        while (end := self._buffer.find(b"\0")) < 0:
            with selectors.DefaultSelector() as selector:
                selector.register(self._fd, selectors.EVENT_READ)
                if not selector.select(_PATIENCE):
                    raise ToolTimeoutError(f"git merge-tree did not answer within {_PATIENCE:g} s")
            chunk = os.read(self._fd, _CHUNK)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        word = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return word


class _Said:
    """The same from an answer that is whole."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def next(self) -> bytes:
        word, _, self._rest = self._rest.partition(b"\0")
        return word


def _read_merge(words: _Words | _Said, names: Mapping[str, str], *, is_clean: bool) -> Merge:
    """tree, then `mode oid stage TAB path` until an empty word, then messages until an empty word.

    `names`: what the commits that were made up are called in messages.
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
    says: dict[str, list[str]] = {}
    # Where submodules clash, git 2.39 puts plain advice behind the messages, and ends it as it ends an answer.
    while (count := words.next()).isdigit():
        paths = [words.next().decode("utf-8", "surrogateescape") for _ in range(int(count))]
        kind = words.next()
        message = words.next().decode("utf-8", "replace").strip()
        for oid, name in names.items():
            message = message.replace(oid, name)
        if not kind.startswith(b"Auto-merging"):
            for path in paths:
                says.setdefault(path, []).append(message)
                # Some conflicts leave no stages (a submodule, a renamed folder): the message is all there is.
                stages.setdefault(path, {})
    conflicts = tuple(
        Conflict(path, sides.get("1"), sides.get("2"), sides.get("3"), tuple(says.get(path, ())))
        for path, sides in sorted(stages.items())
    )
    return Merge(tree, False, conflicts or (Conflict("", None, None, None, ("git names no path",)),))
