"""How many lines the branch would add and remove, told after every decision without storing what was laid.

git counts; it is asked about pairs of contents, each once ever, by one `diff-tree` that stays: so after a decision
only the files that it changed are counted. Binary files, submodules and links count nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError
from selftest_core.git.trees import TreeReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.git.engine import Engine
    from selftest_core.git.trees import Entry, Parts
    from selftest_core.tools.process import Running

_NAME = b"x"
_END = "end of an answer\n"
_FILES = (b"100644", b"100755")


class LineCounter:
    """Counts for one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._trees = TreeReader(engine)
        self._running: Running | None = None
        self._known: dict[tuple[str | None, str | None], tuple[int, int]] = {}
        self._before: dict[tuple[str, Parts], str | None] = {}

    def count(self, before: str, after: str, laid: Mapping[Parts, Entry | None] | None) -> tuple[int, int]:
        """Lines added and removed. `laid`: the files that may differ and what they have in `after`, None: look."""
        changed = dict(self._trees.changes(before, after)) if laid is None else laid
        pairs = []
        for parts, entry in changed.items():
            place = (before, parts)
            if place not in self._before:
                self._before[place] = _blob(self._trees.find(before, parts))
            pair = (self._before[place], _blob(entry))
            if pair[0] != pair[1]:
                pairs.append(pair)
        missing = list(dict.fromkeys(pair for pair in pairs if pair not in self._known))
        if missing:
            self._known.update(zip(missing, self._ask(missing), strict=True))
        counts = [self._known[pair] for pair in pairs]
        return sum(added for added, _ in counts), sum(removed for _, removed in counts)

    def close(self) -> None:
        """End the process; what was counted stays."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _ask(self, pairs: list[tuple[str | None, str | None]]) -> list[tuple[int, int]]:
        if self._running is None:
            self._running = self._engine.git.talk(
                "diff-tree", "--stdin", "-r", "--numstat", "--no-renames", "--no-textconv", "--no-ext-diff"
            )
        running = self._running
        assert running.stdin is not None
        assert running.stdout is not None
        found: list[tuple[int, int]] = []
        try:
            for start in range(0, len(pairs), _AT_ONCE):
                some = pairs[start : start + _AT_ONCE]
                asked = [f"{self._tree(old)} {self._tree(new)}\n" for old, new in some]
                # A line that is no id is printed as it is, and makes git send what it held back.
                running.stdin.write("".join(asked).encode() + _END.encode())
                running.stdin.flush()
                found += _read_counts(_until_end(running.stdout.fileno()), asked)
        except (BrokenPipeError, EOFError) as error:
            self.close()
            raise ToolFailedError("git diff-tree ended by itself", "while lines were counted") from error
        except BaseException:
            self.close()
            raise
        return found

    def _tree(self, blob: str | None) -> str:
        body = b"" if blob is None else b"100644 " + _NAME + b"\0" + bytes.fromhex(blob)
        return self._engine.write(b"tree", body)


_AT_ONCE = 100
"""Pairs asked in one go: few enough that neither side's pipe fills while the other writes."""


def _read_counts(text: str, asked: list[str]) -> list[tuple[int, int]]:
    """After each pair's own line, `added TAB removed TAB name`, or nothing for a pair that does not differ."""
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
    """The content that is counted, None where there is none."""
    return entry[1] if entry is not None and entry[0] in _FILES else None
