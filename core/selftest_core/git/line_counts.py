"""Counts of the lines that one tree adds to another and removes from it, without storing either tree.

git counts, file by file, in one persistent `diff-tree`. Each pair of contents is counted once ever, so after a decision
only the files that it changed are counted. Binary files, submodules and links count as nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError
from selftest_core.git.trees import TreeReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.git.trees import Entry, Parts
    from selftest_core.tools.process import Running

_NAME = b"x"
_END = "end of an answer\n"
_FILES = (b"100644", b"100755")


class LineCounter:
    """Counts lines of text between trees of one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._trees = TreeReader(store)
        self._running: Running | None = None
        self._known: dict[tuple[str | None, str | None], tuple[int, int]] = {}
        self._before: dict[tuple[str, Parts], str | None] = {}

    def count(self, before: str, after: str, edited: Mapping[Parts, Entry | None] | None = None) -> tuple[int, int]:
        """Count the lines added and removed.

        `edited`: the paths that may differ and what they hold in `after`, which need not be stored then; None compares
        the two trees.
        """
        changed = dict(self._trees.changes(before, after)) if edited is None else edited
        pairs = []
        for parts, entry in changed.items():
            key = (before, parts)
            if key not in self._before:
                self._before[key] = _blob(self._trees.find(before, parts))
            pair = (self._before[key], _blob(entry))
            if pair[0] != pair[1]:
                pairs.append(pair)
        missing = list(dict.fromkeys(pair for pair in pairs if pair not in self._known))
        if missing:
            self._known.update(zip(missing, self._count_pairs(missing), strict=True))
        counts = [self._known[pair] for pair in pairs]
        return sum(added for added, _ in counts), sum(removed for _, removed in counts)

    def close(self) -> None:
        """End the process; the counts stay."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _count_pairs(self, pairs: list[tuple[str | None, str | None]]) -> list[tuple[int, int]]:
        if self._running is None:
            self._running = self._store.git.talk(
                "diff-tree", "--stdin", "-r", "--numstat", "--no-renames", "--no-textconv", "--no-ext-diff"
            )
        running = self._running
        assert running.stdin is not None
        assert running.stdout is not None
        found: list[tuple[int, int]] = []
        try:
            for start in range(0, len(pairs), _BATCH):
                some = pairs[start : start + _BATCH]
                asked = [f"{self._tree(old)} {self._tree(new)}\n" for old, new in some]
                # A line that is not an id is printed as it is, and makes git flush what it buffered.
                running.stdin.write("".join(asked).encode() + _END.encode())
                running.stdin.flush()
                found += _read_counts(_until_end(running.stdout.fileno()), asked)
        except (BrokenPipeError, EOFError) as error:
            self.close()
            raise ToolFailedError("git diff-tree ended unexpectedly", "while lines were counted") from error
        except BaseException:
            self.close()
            raise
        return found

    def _tree(self, blob: str | None) -> str:
        body = b"" if blob is None else b"100644 " + _NAME + b"\0" + bytes.fromhex(blob)
        return self._store.write(b"tree", body)


_BATCH = 100
"""Pairs in one request: few enough that neither side's pipe fills while the other writes."""


def _read_counts(text: str, asked: list[str]) -> list[tuple[int, int]]:
    """Parse: after each pair's own line, `added TAB removed TAB name`; nothing for a pair that does not differ."""
    counts = dict.fromkeys(asked, (0, 0))
    current = ""
    for line in text.splitlines(keepends=True):
        if "\t" not in line:
            current = line
            continue
        added, removed, _ = line.split("\t")
        if added.isdecimal() and removed.isdecimal():
            counts[current] = (int(added), int(removed))
    return [counts[pair] for pair in asked]


def _until_end(fd: int) -> str:
    data = bytearray()
    end = _END.encode()
    while not data.endswith(end):
        part = os.read(fd, 1 << 16)
        if not part:
            raise EOFError
        data += part
    return data[: -len(end)].decode("ascii")


def _blob(entry: Entry | None) -> str | None:
    """The id of the content that is counted, None if there is none."""
    return entry[1] if entry is not None and entry[0] in _FILES else None
