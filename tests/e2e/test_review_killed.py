"""The review's screen is killed while it verifies: whoever opens it again loses nothing, and nothing is run twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest

from core.verify.desks import SANDBOX, SETTINGS, make_shop
from core.verify.killed import processes_of
from pseudo_terminal import Terminal
from standins import EMPTY, mngr_that
from worlds import a_world, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

pytestmark = pytest.mark.real

AGENTS = ("ada", "bob", "eve", "gus", "kim")


def review(world: World, folder: Path) -> Terminal:
    """The review of these agents in a terminal, with its cache in the world."""
    mngr_that(world, f"echo '{EMPTY}'")  # there is no agent here: a real one would only take its seconds
    argv = (sys.executable, "-m", "selftest_tui", "review", "--base", "main", *AGENTS)
    more = {**SETTINGS, "XDG_CACHE_HOME": str(world.root / "cache"), "SELFTEST_TUI_VERIFY_JOBS": "2"}
    return Terminal(argv, cwd=folder, env={**world.environment, **more}, rows=40, columns=150)


def kept(folder: Path) -> set[tuple[str, ...]]:
    """The runs that were kept so far: tree, test, number, result and when."""
    path = folder / ".selftest" / "verified.sqlite"
    if not path.is_file():
        return set()
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        rows = database.execute("SELECT tree, test, CAST(number AS TEXT), result, CAST(at AS TEXT) FROM run").fetchall()
    except sqlite3.OperationalError:  # it is being made
        return set()
    finally:
        database.close()
    return set(rows)


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_a_review_that_is_killed_while_it_verifies_goes_on() -> None:
    with a_world() as world:
        folder = make_shop(world.root / "shop").folder
        cache = world.root / "cache"
        with review(world, folder) as screen:
            screen.wait_for("0 of 5 decided")
            screen.press("v")
            screen.wait_for("Run the tests of this review?")
            screen.press("y")
            eventually(lambda: kept(folder), "a test was run")
            os.kill(screen.pid, signal.SIGKILL)
            screen.leader.wait()
        eventually(lambda: not processes_of(cache), "no test process is left")
        before = kept(folder)
        for path in folder.glob(".selftest/runs/*/verdicts.json"):
            path.unlink()  # where this process stalled, it had come to its end

        with review(world, folder) as screen:
            eventually(lambda: list(folder.glob(".selftest/runs/*/verdicts.json")), "it went on by itself, to its end")
            screen.wait_for("✓ 4 ✗ 1 ? 0")
            # Left by its key: at a hang-up a slow machine ends it before its slots are removed, and sweep offers them.
            screen.press("q")
            screen.leader.wait(timeout=60)
        after = kept(folder)
        assert before <= after, "nothing was lost"
        (path,) = folder.glob(".selftest/runs/*/verdicts.json")
        found = json.loads(path.read_text())
        ran = [row for row in after - before if row[3] != "missing"]
        assert found["executions"] == len(ran), "nothing was run twice"
        assert found["from_cache"] >= len([row for row in before if row[3] != "missing"])
        assert processes_of(cache) == []
        assert [one for one in (cache / "selftest-tui" / "verify").iterdir() if one.is_dir()] == [], "no slot is left"
