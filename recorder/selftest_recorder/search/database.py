"""Index of the search: an SQLite database in the user's cache, one for each repository.

    source   what was indexed, with its stamp
    line     its lines; the number of a line holds that of its source: a source's lines are one range
    words    FTS5 over the text of the lines: words and the beginnings of words

Writers are builders, one at a time (`building`). Readers never wait for them (WAL). An index of another version, or a
damaged one, is thrown away: everything in it can be read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from selftest_core import paths
from selftest_core.errors import SelftestError
from selftest_recorder.search.sources import Kind, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from selftest_recorder.search.sources import Line

VERSION = 1
SHIFT = 24
"""Bits of a line's number that count the lines of its source."""
MOST_LINES = (1 << SHIFT) - 1
_PATIENCE = 10.0
_PART = 5_000
_DAMAGED = frozenset({
    "SQLITE_CORRUPT", "SQLITE_CORRUPT_VTAB", "SQLITE_CORRUPT_INDEX", "SQLITE_CORRUPT_SEQUENCE", "SQLITE_NOTADB",
    "SQLITE_FORMAT", "SQLITE_ERROR", "SQLITE_SCHEMA", "SQLITE_IOERR_SHORT_READ",
})  # fmt: skip
_TABLES = f"""
CREATE TABLE source(
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
    stamp TEXT NOT NULL, path TEXT NOT NULL, agent TEXT NOT NULL, test TEXT NOT NULL, at REAL NOT NULL,
    lines INTEGER NOT NULL, UNIQUE(run, kind, name));
CREATE TABLE line(id INTEGER PRIMARY KEY, place REAL NOT NULL, detail TEXT, text TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(text, content='line', content_rowid='id', tokenize='unicode61');
PRAGMA user_version = {VERSION};
"""


class DamagedIndexError(SelftestError):
    """The index cannot be used; a builder makes it anew."""


class Stored(NamedTuple):
    """A source in the index."""

    id: int
    run: str
    kind: Kind
    name: str
    path: str
    agent: str
    test: str
    at: float
    lines: int


def index_file(repository: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of a repository's index, without creating it."""
    name = hashlib.sha256(os.fsencode(repository.resolve())).hexdigest()[:32]
    return paths.cache_folder(environ) / "search" / f"{name}.sqlite"


def discard(path: Path) -> None:
    """Delete an index. Processes that still read it keep what they have open."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class Database:
    """An open index. All methods raise DamagedIndexError for one that must be made anew, SelftestError for the disk."""

    def __init__(self, path: Path, *, is_writer: bool = False) -> None:
        self.path = path
        with _errors(path):
            if is_writer:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            mode = "rw" if is_writer else "ro"
            uri = f"{path.resolve().as_uri()}?mode={mode}"
            self._open = sqlite3.connect(
                uri, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            with _errors(path):
                self._prepare(is_writer)
        except BaseException:
            self._open.close()
            raise

    def _prepare(self, is_writer: bool) -> None:
        (version,) = self._open.execute("PRAGMA user_version").fetchone()
        if is_writer:
            self._open.execute("PRAGMA journal_mode = WAL")
            self._open.execute("PRAGMA synchronous = NORMAL")
            self._open.execute("PRAGMA cache_size = -32768")
            if version == 0:
                self._open.executescript(f"BEGIN;{_TABLES}COMMIT;")
                version = VERSION
        if version != VERSION:
            raise DamagedIndexError("The index of the search is of another version", str(self.path))

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        self._open.close()

    def interrupt(self) -> None:
        """End a query that runs in another thread."""
        self._open.interrupt()

    # reading

    def sources(self) -> tuple[Stored, ...]:
        """All sources."""
        with _errors(self.path):
            rows = self._open.execute("SELECT id, run, kind, name, path, agent, test, at, lines FROM source").fetchall()
        return tuple(Stored(row[0], row[1], Kind(row[2]), *row[3:]) for row in rows)

    def stamps(self) -> dict[tuple[str, str, str], tuple[int, str]]:
        """The number and stamp of each source, by run, kind and name."""
        with _errors(self.path):
            rows = self._open.execute("SELECT run, kind, name, id, stamp FROM source").fetchall()
        return {(run, kind, name): (number, stamp) for run, kind, name, number, stamp in rows}

    def matching(self, expression: str, most: int) -> list[int]:
        """Return the numbers of at most so many lines that match an expression of FTS5, the last indexed first."""
        with _errors(self.path):
            rows = self._open.execute(
                "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?", (expression, most)
            )
            return [number for (number,) in rows]

    def lines(self, numbers: Iterable[int]) -> Iterator[tuple[int, float, str, str]]:
        """Read lines: number, place, detail and text, in the order of the numbers that were given."""
        for number in numbers:
            with _errors(self.path):
                row = self._open.execute(
                    "SELECT id, place, COALESCE(detail, ''), text FROM line WHERE id = ?", (number,)
                ).fetchone()
            if row is not None:  # else its source was indexed again meanwhile
                yield row

    def lines_of(self, source: int) -> Iterator[tuple[int, float, str, str]]:
        """Read all lines of a source, in parts, so that writers do not pile up changes behind a reader."""
        number, last = source << SHIFT, (source << SHIFT) + MOST_LINES
        while True:
            with _errors(self.path):
                rows = self._open.execute(
                    "SELECT id, place, COALESCE(detail, ''), text FROM line WHERE id BETWEEN ? AND ? ORDER BY id "
                    "LIMIT ?", (number, last, _PART),
                ).fetchall()  # fmt: skip
            yield from rows
            if len(rows) < _PART:
                return
            number = rows[-1][0] + 1

    def around(self, number: int, most: int) -> list[tuple[int, str]]:
        """Read a line and at most so many lines of its source before and behind it: numbers and texts."""
        source = number >> SHIFT
        first, last = max(number - most, source << SHIFT), min(number + most, (source << SHIFT) + MOST_LINES)
        with _errors(self.path):
            return self._open.execute(
                "SELECT id, text FROM line WHERE id BETWEEN ? AND ? ORDER BY id", (first, last)
            ).fetchall()

    # writing

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes or none."""
        with _errors(self.path):
            self._open.execute("BEGIN IMMEDIATE")
        try:
            yield
            with _errors(self.path):
                self._open.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._open.execute("ROLLBACK")
            raise

    def remove(self, source: int) -> None:
        """Remove a source and its lines."""
        first, last = source << SHIFT, (source << SHIFT) + MOST_LINES
        with _errors(self.path):
            self._open.execute(
                "INSERT INTO words(words, rowid, text) SELECT 'delete', id, text FROM line WHERE id BETWEEN ? AND ?",
                (first, last),
            )
            self._open.execute("DELETE FROM line WHERE id BETWEEN ? AND ?", (first, last))
            self._open.execute("DELETE FROM source WHERE id = ?", (source,))

    def add(self, source: Source, lines: Iterable[Line]) -> int:
        """Add a source with its lines; returns how many."""
        with _errors(self.path):
            cursor = self._open.execute(
                "INSERT INTO source(run, kind, name, stamp, path, agent, test, at, lines) VALUES (?,?,?,?,?,?,?,?,0)",
                (source.run, str(source.kind), source.name, source.stamp, _readable(source.path), source.agent,
                 source.test, source.at),
            )  # fmt: skip
        number = cursor.lastrowid
        assert number is not None
        count, part = 0, []
        for line in lines:
            if count >= MOST_LINES:
                break
            part.append(((number << SHIFT) + count, line.place, line.detail or None, line.text))
            count += 1
            if len(part) >= _PART:
                self._add_lines(part)
                part.clear()
        self._add_lines(part)
        with _errors(self.path):
            self._open.execute("UPDATE source SET lines = ? WHERE id = ?", (count, number))
        return count

    def _add_lines(self, part: list[tuple[int, float, str | None, str]]) -> None:
        with _errors(self.path):
            self._open.executemany("INSERT INTO line VALUES (?,?,?,?)", part)
            self._open.executemany(
                "INSERT INTO words(rowid, text) VALUES (?,?)", ((number, text) for number, _, _, text in part)
            )


def _readable(path: Path) -> str:
    """Return a path as text that SQLite can keep."""
    return str(path).encode("utf-8", "replace").decode()


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name in _DAMAGED or (isinstance(error, sqlite3.DatabaseError) and not name):
            raise DamagedIndexError("The index of the search is damaged", f"{path}: {error}") from error
        hint = "Free some space there." if name == "SQLITE_FULL" else "It can be deleted at any time: it is made anew."
        raise SelftestError("The index of the search cannot be used", f"{path}: {error}", hint) from error
    except OSError as error:
        raise SelftestError("The index of the search cannot be used", f"{path}: {error.strerror}", "") from error
