"""The demo without a screen: the fleet's changes as lines of JSON, until every agent has ended.

Nobody answers here, so the agents wait a few seconds for a person and then go on by themselves. What is printed is
what the watch saw, through the same fold as on the screen, so it is as good a proof of the watch as of the demo.
"""

from __future__ import annotations

import queue
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from selftest_core.demo.scenarios import RUN
from selftest_core.demo.show import a_demo
from selftest_core.shapes import agent_item
from selftest_core.view import Category, FleetView
from selftest_core.watch import FleetWatch, WatchSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.demo.launch import Progress
    from selftest_core.demo.world import DemoWorld
    from selftest_core.view import Row

type WriteLine = Callable[[Mapping[str, Any]], None]

PATIENCE = 4.0
"""Seconds that an agent waits for somebody who is not there."""
_SETTLED = 3.0
"""Seconds after its making in which an agent that left no exit status may just not have been looked at again."""
_ENDED = frozenset({Category.DONE, Category.FAILED, Category.STOPPED})
STOPPED_EARLY = 3


def run_demo_batch(
    environ: Mapping[str, str], agents: int | None, keep: bool, write_line: WriteLine, say: Callable[[str], None]
) -> int:
    """Run a demo to its end; returns 1 when agents failed (one does by design), 0 when none did, 3 when stopped.

    `write_line` gets one JSON object each: `launched` and `not_launched` (an agent was made, or not), `agent` (it
    changed), and `summary` last. `say` gets a person's progress. The world has ended before the summary is written.
    """
    told = _Told(write_line, say)
    with_errors: list[BaseException] = []
    try:
        with a_demo(environ, agents, keep, say) as demo:
            told.began(demo)
            _watch(demo, told, with_errors)
    except KeyboardInterrupt:
        told.summary(is_stopped=True)
        return STOPPED_EARLY
    if with_errors:
        raise with_errors[0]
    told.summary(is_stopped=False)
    return 1 if told.has_failed else 0


def _watch(demo: DemoWorld, told: _Told, errors: list[BaseException]) -> None:
    """Launch and watch until all have ended, or the watch has."""
    heard: queue.SimpleQueue[FleetView | Progress | None] = queue.SimpleQueue()
    watch = FleetWatch(WatchSettings(demo.repository, remote=False), demo.environ, heard.put)

    def run() -> None:
        try:
            watch.run()
        except BaseException as error:
            errors.append(error)
        finally:
            heard.put(None)

    thread = threading.Thread(target=run, name="fleet watch", daemon=True)
    thread.start()
    try:
        demo.launch(heard.put, patience=PATIENCE)
        while not told.is_over:
            news = heard.get()
            if news is None:
                return
            if isinstance(news, FleetView):
                told.seen(news)
            else:
                told.launched(news)
    finally:
        watch.stop()
        thread.join()


class _Told:
    """What was said so far, so that only changes are said."""

    def __init__(self, write_line: WriteLine, say: Callable[[str], None]) -> None:
        self._write_line = write_line
        self._say = say
        self._rows: dict[str, Row] = {}
        self._documents: dict[str, dict[str, Any]] = {}
        self._seen_at = 0.0
        self._expected = 0
        self._made_at: dict[str, float] = {}
        self._not_launched: list[str] = []

    @property
    def is_over(self) -> bool:
        """True when every agent was made, or given up, and has ended."""
        ended = sum(self._has_ended(row) for row in self._rows.values())
        return len(self._made_at) + len(self._not_launched) == self._expected and ended >= len(self._made_at)

    @property
    def has_failed(self) -> bool:
        """True when an agent failed, or was never made."""
        return bool(self._not_launched) or any(row.category is Category.FAILED for row in self._rows.values())

    def began(self, demo: DemoWorld) -> None:
        self._expected = len(demo.roles)
        self._say(f"{self._expected} agents start in {demo.root}")

    def launched(self, progress: Progress) -> None:
        counts = {"made": progress.made, "not_made": progress.failed, "of": progress.total}
        if progress.error is None:
            self._made_at[progress.name] = time.time()
            self._line("launched", {"name": progress.name, **counts})
        else:
            self._not_launched.append(progress.name)
            error = {"title": progress.error.title, "detail": progress.error.detail, "hint": progress.error.hint}
            self._line("not_launched", {"name": progress.name, "error": error, **counts})
            for line in str(progress.error).splitlines():
                self._say(line)

    def seen(self, view: FleetView) -> None:
        self._seen_at = view.at
        for row in view.rows:
            if row.agent.name not in self._made_at and row.category in _ENDED and row.exit_status is None:
                continue  # mngr is still making it: its terminal or its program is not there yet
            before = self._rows.get(row.agent.id)
            self._rows[row.agent.id] = row
            self._documents[row.agent.id] = agent_item(row, row.stale_since or view.at).model_dump(mode="json")
            if before is None or _news(before) != _news(row):
                self._line("agent", self._documents[row.agent.id])
                self._say(f"{row.agent.name}: {row.category.value}{f' ({row.attention})' if row.attention else ''}")

    def summary(self, *, is_stopped: bool) -> None:
        rows = self._rows.values()
        counts = {category.value: sum(row.category is category for row in rows) for category in Category}
        self._line(
            "summary",
            {
                "agents": list(self._documents.values()),
                "counts": counts,
                "not_launched": self._not_launched,
                "stopped": is_stopped,
            },
        )

    def _has_ended(self, row: Row) -> bool:
        """True for good: while an agent is being made, its terminal is first absent, then a shell with no program."""
        if row.exit_status is not None:
            return True
        made_at = self._made_at.get(row.agent.name)
        return made_at is not None and row.category in _ENDED and self._seen_at > made_at + _SETTLED

    def _line(self, event: str, fields: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._write_line({"event": event, "at": now, "run": RUN, **fields})


def _news(row: Row) -> tuple[object, ...]:
    return (row.agent.name, row.agent.state, row.category, row.attention, row.exit_status)
