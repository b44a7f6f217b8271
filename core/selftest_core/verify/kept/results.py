"""Results of test runs, kept: nothing is run twice for one tree, across undo, restarts and crashes.

One SQLite file in the repository's `.selftest/`. A run is written when its test ends. `purge` takes out what must not
be kept as a result: timeouts, crashes, and all runs of a test that turned out flaky; its history stays.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Self

from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from pathlib import Path

FILE_NAME = "verified.sqlite"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    project TEXT NOT NULL, tree TEXT NOT NULL, test TEXT NOT NULL, number INTEGER NOT NULL,
    result TEXT NOT NULL, seconds REAL, output TEXT NOT NULL, reason TEXT NOT NULL, at REAL NOT NULL,
    assertions INTEGER, PRIMARY KEY (project, tree, test, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plan (
    project TEXT NOT NULL, key TEXT NOT NULL, plan TEXT NOT NULL, PRIMARY KEY (project, key)
);
CREATE TABLE IF NOT EXISTS flake (test TEXT NOT NULL, tree TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (test, tree));
"""


class Results:
    """Runs of one project: one command, one environment digest. For one thread at a time."""

    def __init__(self, database: sqlite3.Connection, project: str) -> None:
        self._database = database
        self._project = project

    @classmethod
    def open(cls, folder: Path, project: str) -> Self:
        """Open the results below `folder`, made where they are missing.

        `project`: a digest of what tests are run with.
        """
        import sqlite3  # 10 ms that other commands need not pay

        folder.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(folder / FILE_NAME, timeout=30, check_same_thread=False, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.executescript(_SCHEMA)
        if not any(row[1] == "assertions" for row in database.execute("PRAGMA table_info(run)")):
            database.execute("ALTER TABLE run ADD COLUMN assertions INTEGER")  # a file of an earlier version
        return cls(database, project)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def find(self, tree: str, test: str, number: int) -> Execution | None:
        """Return a run that was kept."""
        row = self._database.execute(
            "SELECT result, seconds, output, reason, assertions FROM run "
            "WHERE project=? AND tree=? AND test=? AND number=?",
            (self._project, tree, test, number),
        ).fetchone()
        return None if row is None else Execution(Result(row[0]), *row[1:])

    def keep(self, tree: str, test: str, number: int, run: Execution) -> None:
        """Keep a run; one that is there stays."""
        self._database.execute(
            "INSERT OR IGNORE INTO run (project, tree, test, number, result, seconds, output, reason, at, assertions) "
            "VALUES (?,?,?,?,?,?,?,?,?,?)",
            (
                self._project, tree, test, number, run.result.value, run.seconds, run.output, run.reason, time.time(),
                run.assertions,
            ),
        )  # fmt: skip

    def has_passed(self) -> bool:
        """True where some test has passed: then what tests run with is no reason why none can."""
        query = "SELECT 1 FROM run WHERE project=? AND result=? LIMIT 1"
        return self._database.execute(query, (self._project, Result.PASSED.value)).fetchone() is not None

    def secret(self) -> bytes:
        """Return what controls are drawn by: the same for this repository, and known to no code of a tree."""
        self._database.execute("INSERT OR IGNORE INTO plan VALUES ('', 'secret', ?)", (secrets.token_hex(16),))
        row = self._database.execute("SELECT plan FROM plan WHERE project='' AND key='secret'").fetchone()
        return str(row[0]).encode()

    def forget(self, tree: str, test: str, number: int) -> None:
        """Forget a run that turned out to prove nothing."""
        key = (self._project, tree, test, number)
        self._database.execute("DELETE FROM run WHERE project=? AND tree=? AND test=? AND number=?", key)

    def purge(self, flaky: Iterable[tuple[str, str]]) -> None:
        """Remove what is no result; `flaky`: pairs of test and tree."""
        kept = [result.value for result in Result if result.is_kept]
        marks = ",".join("?" * len(kept))
        self._database.execute(f"DELETE FROM run WHERE project=? AND result NOT IN ({marks})", (self._project, *kept))
        for test, tree in flaky:
            self._database.execute("INSERT OR IGNORE INTO flake VALUES (?,?,?)", (test, tree, time.time()))
            self._database.execute("DELETE FROM run WHERE project=? AND test=?", (self._project, test))

    def find_plan(self, key: str) -> str | None:
        """Return the text that was kept under a key: what a tree's collection gave."""
        query = "SELECT plan FROM plan WHERE project=? AND key=?"
        row = self._database.execute(query, (self._project, key)).fetchone()
        return None if row is None else str(row[0])

    def keep_plan(self, key: str, plan: str) -> None:
        """Keep a text under a key."""
        self._database.execute("INSERT OR REPLACE INTO plan VALUES (?,?,?)", (self._project, key, plan))

    def flakes(self) -> dict[str, int]:
        """Return how many trees each test was flaky on, in all projects of this repository."""
        return dict(self._database.execute("SELECT test, COUNT(*) FROM flake GROUP BY test"))
