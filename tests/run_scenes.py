"""Runs to look at: real run folders on the disk, with a journal written by the real encoder and outcomes in place.

As with fleets, tests, screenshots and README pictures all draw from here. Each scene tells a story on a clock that
stands still at `scenes.NOW`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import scenes
from fleet_parts import NOW, TOPICS, agent_id
from selftest_core.fleet.clusters import signature
from selftest_core.journal import Entry, encode
from selftest_core.run.events import Event
from selftest_core.run.fold import apply, begin
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest, RunPlan, plan_json
from selftest_core.run.store import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.fold import Run, RunRow

RUN = "20261121-0931-7f3a"
BEGAN = NOW - 1_500.0

REFUSED = """\
tests/test_{topic}.py:12: in setup
    session = connect("127.0.0.1", {port})
E   ConnectionRefusedError: [Errno 111] Connection refused: 127.0.0.1:{port}
"""
NO_TOKEN = "The test needs a Modal token, and this machine has none.\nMODAL_TOKEN_ID is not set."
RED = "E   AssertionError: assert 107.00 == 106.99\nE    +  where 107.00 = tax(100, 0.07)"

FIXED = {
    "errored": False,
    "tests_passing_before": False,
    "tests_passing_after": True,
    "summary_markdown": (
        "A redirect after a login **drops the query**, so `/cart?coupon=SPRING` loses the coupon.\n\n"
        "1. `Response(302, url)` became `Response(302, url + query(request))`.\n"
        "2. The test now asks for the whole address.\n\n"
        "```python\nreturn Response(302, url + query(self.request))\n```"
    ),
    "changes": {
        "FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "Keep the query on redirect."},
        "IMPROVE_TEST": {"status": "SUCCEEDED", "summary_markdown": "Assert the whole address, not its path."},
    },
    "escalations": [
        {
            "kind": "SHARED_PATTERN",
            "title": "Three other views build addresses by hand",
            "detail_markdown": "They drop the query as well.",
            "locations": [{"path": "src/shop/views.py", "line": 118}],
        }
    ],
    "test_runs": [{"run_name": "after the fix", "description_markdown": "6 passed in 0.41 s"}],
    "importance": {"level": "high", "reason": "customers lose their coupons"},
}


@dataclass
class Story:
    """A run being written: each method writes the lines that a conductor writes at that step, `at` seconds in."""

    plan: RunPlan
    folder: RunFolder
    entries: list[Entry] = field(default_factory=list)
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        self.run = begin(self.plan)
        self.folder.path.mkdir(parents=True)
        (self.folder.path / "wishes").mkdir()
        (self.folder.path / "plan.json").write_text(json.dumps(plan_json(self.plan)), encoding="utf-8")

    def note(self, event: Event, at: float, **fields: Any) -> None:
        """One line."""
        entry = Entry(len(self.entries) + 1, BEGAN + at, str(event), fields)
        self.entries.append(entry)
        self.run = apply(self.run, entry)

    def row(self, number: int) -> RunRow:
        """The test's row as it stands."""
        return self.run.rows[self.plan.tests[number].agent_name]

    def _of(self, event: Event, number: int, at: float, **fields: Any) -> None:
        row = self.row(number)
        attempt = row.attempt + (event is Event.LAUNCHING)
        self.note(event, at, agent=row.name, attempt=attempt, **fields)

    def launch(self, number: int, at: float, *, host: str = scenes.LOCAL.id, provider: str = "local") -> None:
        """Its agent is made."""
        member = self.row(number).next_member()
        self._of(Event.LAUNCHING, number, at, agent_id=member.agent_id, name=member.name)
        self._of(Event.LAUNCHED, number, at + 2, host_id=host, provider=provider)

    def making(self, number: int, at: float) -> None:
        """Its agent is being made."""
        member = self.row(number).next_member()
        self._of(Event.LAUNCHING, number, at, agent_id=member.agent_id, name=member.name)

    def end(
        self, number: int, at: float, end: End, text: str = "", *, stage: str = "", commits: int = 0,
        outcome: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Its end is known, its agent is stopped, and what came back stands in its place."""
        row = self.row(number)
        if outcome is not None and row.member is not None:
            place = self.folder.attempt(row.member)
            place.mkdir(parents=True)
            (place / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
            (place / "transcript.txt").write_text("$ pytest\n6 passed in 0.41 s\n", encoding="utf-8")
            (place / "branch.bundle").write_bytes(b"# v2 git bundle\n" + b"x" * 2_000)
        tip = f"{number:040x}" if commits else ""
        told = signature(text) if text else ""
        self._of(Event.ENDED, number, at, end=end, stage=stage, text=text, tip=tip, commits=commits, signature=told)
        if row.member is not None:
            self._of(Event.STOPPED, number, at + 3, says="")

    def fail(self, number: int, at: float, end: End, text: str, stage: str) -> None:
        """It ended as a failure, or blocked."""
        self.end(number, at, end, text, stage=stage)

    def asks(self, number: int, at: float, reason: str) -> None:
        """It needs a person."""
        self._of(Event.NOTICED, number, at, reason=reason)

    def limited(self, number: int, at: float, reason: str) -> None:
        """A service takes no more from it."""
        self._of(Event.LIMITED, number, at, reason=reason)

    def retry(self, number: int, at: float, reason: str, text: str) -> None:
        """This attempt is given up for another."""
        self._of(Event.RETRYING, number, at, reason=reason, text=text)

    def write(self) -> RunFolder:
        """Write the journal."""
        self.folder.journal.write_bytes(b"".join(encode(entry) for entry in self.entries))
        return self.folder


def a_plan(count: int, **changes: Any) -> RunPlan:
    """A plan of so many tests, named as the fleets of `scenes` are."""
    planned = []
    for index in range(count):
        topic, cases = TOPICS[index % len(TOPICS)]
        case = cases[(index // len(TOPICS)) % len(cases)]
        again = index // 48
        more = f"-{again + 1}" if again else ""
        node = f"tests/test_{topic}.py::test_{case.replace('-', '_')}" + (f"[{again}]" if again else "")
        planned.append(PlannedTest(node, f"st-7f-{topic}-{case}{more}", agent_id(index + 1), ("shop cart add tea",)))
    fields: dict[str, Any] = {
        "run": RUN, "repository": "/home/dev/api", "base": "5d41402abc4b2a76b9719d911017c592ae7f3c10",
        "provider": "local", "agent_type": "claude", "agent_command": None, "transfer": "mirror", "env_names": (),
        "max_running": 20, "launch_rate": 1.0, "timeout": 1_800.0, "budget_usd": 10.0, "usd_per_agent": 0.05,
        "create_args": (), "on_cluster": "ask", "pytest_command": ("pytest",), "pytest_args": (),
        "tests": tuple(planned), "left_out": (), "created_at": BEGAN,
    }  # fmt: skip
    return RunPlan(**{**fields, **changes})


def story(place: Path, count: int, **changes: Any) -> Story:
    """A story of so many tests in a folder below `place`."""
    plan = a_plan(count, **changes)
    return Story(plan, RunFolder(place / plan.run))


def halfway(place: Path, tests: int = 96) -> Story:
    """A run in its middle, with every kind of thing that a run has."""
    told = story(place, tests)
    told.note(Event.CONDUCTING, 0, pid=4321)
    launched = tests * 10 // 12
    for number in range(launched):
        told.launch(number, 5 + number * 1_200 / launched)
    unchanged, blocked, failed = tests // 8, max(3, tests // 20), max(6, tests // 16)
    ended = launched - max(4, tests // 6)
    number = 0
    for _ in range(blocked):
        told.fail(number, 420 + number * 4, End.BLOCKED, NO_TOKEN, "blocked")
        number += 1
    for at in range(failed):
        topic = TOPICS[number % len(TOPICS)][0]
        if at < failed - 3:
            told.fail(number, 500 + at * 9, End.CRASH, REFUSED.format(topic=topic, port=40_000 + at), "collection")
        elif at == failed - 3:
            told.fail(number, 700, End.TIMEOUT, "Compiling the index …\n> waiting for lock on ./cache", "work")
        elif at == failed - 2:
            told.fail(number, 810, End.UNREADABLE, "it is no JSON: Expecting value in line 1, column 1", "pull")
        else:
            told.fail(number, 900, End.RED, RED, "test")
        number += 1
    for _ in range(unchanged):
        outcome = {**FIXED, "changes": {}, "escalations": [], "summary_markdown": "The test says what the block says."}
        told.end(number, 600 + number * 3, End.UNCHANGED, outcome=outcome)
        number += 1
    while number < ended:
        told.end(number, 700 + number * 8, End.SUCCEEDED, commits=1 + number % 3, outcome=FIXED)
        number += 1
    told.asks(number, 1_400, "it asks something that only a person can answer")
    told.asks(number + 1, 1_430, "it asks something that only a person can answer")
    if tests > 24:
        told.limited(number + 2, 1_300, "429 Too Many Requests: rate limit reached, retry in 60 s")
        told.retry(number + 3, 1_310, "lost", "its host is gone")
        told.launch(number + 3, 1_320, host=scenes.MODAL.id, provider="modal")
    told.making(launched, 1_498)
    return told


def paused(place: Path) -> Story:
    """The ground is bad: launching rests for a cluster."""
    told = story(place, 24)
    told.note(Event.CONDUCTING, 0, pid=4321)
    for number in range(10):
        told.launch(number, 10.0 + number)
    for number in range(6):
        told.fail(number, 200.0 + number, End.CRASH, REFUSED.format(topic="login", port=40_000 + number), "collection")
    key = f"collection: {signature(REFUSED.format(topic='login', port=1))}"
    told.note(Event.PAUSED, 210, reason="6 of the last 6 failed alike", by="cluster", signature=key)
    return told


def over(place: Path) -> Story:
    """A run that ended well."""
    told = story(place, 12)
    told.note(Event.CONDUCTING, 0, pid=4321)
    for number in range(12):
        told.launch(number, 10.0 + number)
    for number in range(12):
        told.end(number, 300.0 + number * 7, End.SUCCEEDED, commits=1, outcome=FIXED)
    told.note(Event.LEFT, 400, why="done")
    return told


def abandoned(place: Path) -> Story:
    """A run whose conductor was killed."""
    told = story(place, 12)
    told.note(Event.CONDUCTING, 0, pid=4321)
    for number in range(6):
        told.launch(number, 10.0 + number)
    told.note(Event.LEFT, 400, why="interrupted")
    return told


def hostile(place: Path) -> Story:
    """Names, evidence and reports full of escapes, markup, bidi and length."""
    names = [name for name in scenes.HOSTILE_NAMES if name and "\x00" not in name and "\ud800" not in name]
    tests = tuple(
        PlannedTest(f"tests/test_{n}.py::{name}", f"agent-{n:02}", agent_id(n + 1), (name,))
        for n, name in enumerate(names)
    )
    told = story(place, 0, tests=tests, repository="/home/dev/[red]api\x1b[2J")
    told.note(Event.CONDUCTING, 0, pid=1)
    for number, name in enumerate(names):
        told.launch(number, float(number))
        outcome = {
            **FIXED,
            "summary_markdown": f"{name}\n\n# {name}\n\n[link](file:///etc/passwd) <script>x</script>\n\n"
            f"| a | b |\n| - | - |\n| {name} | x |\n\n![i](http://127.0.0.1/x.png)\n\n```\nunclosed {name}",
            "changes": {f"KIND {name}": {"status": name, "summary_markdown": name * 3}},
            "importance": {"level": name, "reason": name},
            "unknown field": name,
        }
        kinds = (End.SUCCEEDED, End.RED, End.BLOCKED)
        told.end(number, 100.0 + number, kinds[number % 3], name, stage=name, commits=1, outcome=outcome)
    return told
