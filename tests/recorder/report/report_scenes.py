"""A small run with everything that a report links: branches in a real repository, recordings, conversations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import run_scenes
from core.review.repositories import Repository
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder

COMMITTED = 1_700_000_000
"""The date of all commits of `Repository`, in seconds since the epoch."""
RECORDED = COMMITTED - 40
"""When the recordings began."""
EVENTS = (
    (1.0, "o", "first the \x1b[31mred\x1b[0m line\r\n"),
    (3.0, "m", "pytest: 1 failed"),
    (4.0, "o", "now a long pause\r\n"),
    (40.0, "o", "then the edit\r\n"),
    (41.0, "m", "commit: [FIX_IMPL] Count"),
    (60.0, "o", "the last line\r\n"),
)
BASE = "def total(things):\n    return 0\n"
FIXED = "def total(things):\n    return sum(thing.price for thing in things)\n"


def small_run(place: Path) -> RunFolder:
    """Four tests: two whose agents made one change each, one that is blocked, and one that crashed."""
    repository = Repository.make(place / "shop")
    base = repository.commit("Start", {"shop/cart.py": BASE, "tests/test_cart.py": "def test_total(): ...\n"})
    told = run_scenes.story(place / "runs", 4, repository=str(repository.folder), base=base)
    told.note(Event.CONDUCTING, 0, pid=4321)
    for number in range(4):
        told.launch(number, 5.0 + number)
    for number, path in enumerate(("shop/cart.py", "shop/till.py")):
        name = told.plan.tests[number].agent_name
        repository.git("checkout", "-q", "-b", name, base)
        repository.commit("[FIX_IMPL] Count", {path: FIXED})
        repository.git("update-ref", f"refs/selftest/{told.plan.run}/agents/{name}", "HEAD")
        told.end(number, 300.0, End.SUCCEEDED, commits=1, outcome=run_scenes.FIXED)
        member = told.row(number).member
        assert member is not None
        home = told.folder.attempt(member)
        write_cast(home / "terminal.cast", Header(2, 60, 12, timestamp=RECORDED), EVENTS)
        (home / "conversation.txt").write_text("[2023-11-14 22:13:19Z] agent:\n  It returns nothing yet.\n")
        (home / "conversation.jsonl").write_text("".join(_edit(path)))
    told.fail(2, 310.0, End.BLOCKED, run_scenes.NO_TOKEN, "blocked")
    told.fail(3, 320.0, End.CRASH, "ConnectionRefusedError: [Errno 111]", "collection")
    told.note(Event.LEFT, 400, why="done")
    return told.write()


def _edit(path: str) -> list[str]:
    lines = FIXED.splitlines()
    arguments = {"file_path": f"/w/{path}", "old_string": "    return 0", "new_string": lines[1]}
    call = {"tool_call_id": "c", "function_name": "Edit", "arguments": arguments}
    said = {
        "type": "step", "event_id": "1", "timestamp": "2023-11-14T22:13:19Z", "source": "agent",
        "message": "It returns nothing yet.", "tool_calls": [call],
    }  # fmt: skip
    done = {
        "type": "observation", "event_id": "2", "timestamp": "2023-11-14T22:13:20Z",
        "results": [{"source_call_id": "c", "content": "done"}],
    }  # fmt: skip
    return [f"{json.dumps(one)}\n" for one in (said, done)]
