"""The fleet, watched: the loop that asks, folds what it hears, and publishes what a person would see differently.

It has a thread and an event loop of its own, so that a screen never waits for it. Two things go on beside each
other: the probe, which looks at once when a file changes or a process ends and else now and then, and one
`mngr list` at a time, when `fleet.watch.poll_schedule` says so. What is shown comes from the fold alone; this adds only
which lane is running and its own troubles.

It survives what it watches: mngr that hangs, dies or is not there, a tmux server that goes, folders that come
late. Each is a problem that is shown, and polling goes on. It decides nothing about agents, and acts on none.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER, State
from selftest_core.fleet import fleet as fold
from selftest_core.fleet.fleet_state import Fleet
from selftest_core.fleet.merge_state import is_known_without_mngr, states
from selftest_core.fleet.observations import ListFailed, Metered, Remembered
from selftest_core.fleet.view import FleetView, LaneStatus, Problem
from selftest_core.fleet.watch import fleet_cache as remembered
from selftest_core.fleet.watch import poll_schedule as pacing
from selftest_core.fleet.watch.file_watch import FileWatch
from selftest_core.fleet.watch.poll_schedule import ALL, LOCAL, PROBE
from selftest_core.fleet.watch.sources import Sources, cpu_of_children
from selftest_core.tools.process_exit import ExitWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.fleet.observations import Listed, Observation
    from selftest_core.fleet.watch.watch import WatchSettings
    from selftest_core.usage.meter import Meters

FRESHNESS_SECONDS = 5.0
"""A view in which nothing changed is published this often all the same: its evidence is newer."""
SAVE_SECONDS = 30.0
_OWN_WEIGHT = 5.0
_TMUX_SETTLES = 0.3
_METER_SECONDS = 2.0
"""Between two looks at what agents used. Their files tell it within five seconds."""
_METER_ONCE = 5.0
"""Seconds of processor time that a command which ends may take to read what agents used."""
_REST_AFTER_LOOK = 3.0
"""A look that something triggered starts no earlier than this many times the last one's cost after it."""


class Watching:
    """Watches from `run`, which blocks in a thread of its own, until `stop`; people reach it by `watch.FleetWatch`.

    `publish` is called in that thread, with a view in which a person would see something new, or which is fresh
    after `FRESHNESS_SECONDS`; what it raises ends `run`. `latest` is the newest view, published or not.
    """

    def __init__(
        self, settings: WatchSettings, environ: Mapping[str, str], publish: Callable[[FleetView], None]
    ) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self._publish_to = publish
        self._fleet = Fleet()
        self._cadence = pacing.start(settings.pace, only_local=not settings.remote)
        self._troubles: dict[str, Problem] = {}
        self._lane_running: str | None = None
        self._latest = FleetView(at=time.time())
        self._shown: object = None
        self._published_at = 0.0
        self._is_saved = True
        self._saved_at = 0.0
        self._gate = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._stopped = asyncio.Event()
        self._look_now = asyncio.Event()
        self._list_now = asyncio.Event()
        self._looked = asyncio.Event()

    @property
    def latest(self) -> FleetView:
        """The newest view: for `explain`, whose evidence changes without anything else."""
        return self._latest

    def run(self) -> None:
        """Watch until `stop`. Blocks; to be called once, in a thread that is not the screen's."""
        asyncio.run(self._watch())

    def stop(self) -> None:
        """Ask `run` to end; it does so within about a second, ending an mngr that is running. From any thread."""
        self._is_stopping = True
        self._in_loop(self._stopped.set)

    def refresh(self, lane: str | None = None) -> None:
        """Look and ask now: `lane` ("local", "all", a provider), or everything. From any thread."""

        def wish() -> None:
            self._cadence = pacing.changed(pacing.asked(self._cadence, lane), time.monotonic())
            self._look_now.set()
            self._list_now.set()

        self._in_loop(wish)

    def _in_loop(self, call: Callable[[], None]) -> None:
        with self._gate:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call)

    async def _watch(self) -> None:
        with self._gate:
            if self._is_stopping:
                return
            self._loop = asyncio.get_running_loop()
        # One thread for all that blocks: the looks, and the state folder.
        blocking = ThreadPoolExecutor(1, thread_name_prefix="fleet watch")
        metering = ThreadPoolExecutor(1, thread_name_prefix="fleet meter")
        files = FileWatch(lambda: self._in_loop(self._look_now.set), self._file_trouble)
        exits = ExitWatch(self._has_exited)
        jobs: list[asyncio.Task[object]] = []
        try:
            sources = Sources(self._settings, self._environ)
            await self._remember(blocking)
            jobs = [
                asyncio.create_task(self._look_forever(sources, blocking, files, exits), name="look"),
                asyncio.create_task(self._list_forever(sources, blocking), name="list"),
                asyncio.create_task(self._meter_forever(metering), name="meter"),
                asyncio.create_task(self._stopped.wait(), name="stop"),
            ]
            ended, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            for job in ended:
                job.result()
        finally:
            with self._gate:
                self._loop = None
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            exits.close()
            files.stop()
            if not self._is_saved:
                self._save()
            blocking.shutdown()
            metering.shutdown()

    def _has_exited(self) -> None:
        self._look_now.set()
        # tmux hears of an end about when we do, and may still show the pane: one more look when it surely has.
        asyncio.get_running_loop().call_later(_TMUX_SETTLES, self._look_now.set)

    async def _remember(self, blocking: ThreadPoolExecutor) -> None:
        known, says = await asyncio.get_running_loop().run_in_executor(blocking, _remembered, self._environ)
        if says:
            self._troubles["memory"] = _forgotten(says)
        providers = {each.agent.host.provider for each in known.agents} - {LOCAL_PROVIDER}
        self._cadence = pacing.start(self._settings.pace, providers, only_local=not self._settings.remote)
        self._fleet = fold.apply(self._fleet, known)

    def _save(self) -> None:
        """Write what is known for the next process: quietly less remembered where that is impossible."""
        self._is_saved, self._saved_at = True, time.monotonic()
        try:
            remembered.save(remembered.fleet_folder(self._environ), fold.to_remember(self._fleet))
            self._troubles.pop("state", None)
        except OSError as error:
            self._troubles["state"] = Problem(
                "state",
                "What is known cannot be saved for the next start",
                str(error),
                "Free some space, or set XDG_STATE_HOME to a folder that can be written.",
            )

    async def _look_forever(
        self, sources: Sources, blocking: ThreadPoolExecutor, files: FileWatch, exits: ExitWatch
    ) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        costs: deque[float] = deque((0.0,), maxlen=3)
        while True:
            self._look_now.clear()
            try:
                probed, cost = await loop.run_in_executor(blocking, sources.look)
            except Exception as error:
                # Whatever this machine shows us, the watch goes on.
                failures += 1
                self._trouble(_internal(PROBE, "The local agents could not be looked at", error))
            else:
                failures = 0
                self._troubles.pop(PROBE, None)
                spent = time.thread_time()
                files.watch(sources.probe.watched_paths())
                exits.watch(sources.probe.pids)
                self._learn(probed)
                costs.append(cost + time.thread_time() - spent)
            self._looked.set()
            ended = time.monotonic()
            # The cheapest of the last ones: a single slow look, as the first is, says little of the next.
            cost = min(costs)
            with contextlib.suppress(TimeoutError):
                # A trigger cuts this short; the rest below keeps a storm of triggers from being a storm of looks.
                pause = pacing.probe_interval(self._cadence, time.monotonic(), cost, failures)
                await asyncio.wait_for(self._look_now.wait(), pause)
            await asyncio.sleep(max(0.0, ended + cost * _REST_AFTER_LOOK - time.monotonic()))

    async def _list_forever(self, sources: Sources, blocking: ThreadPoolExecutor) -> None:
        # The first look goes before: it is what the person waits for, and it counts the agents.
        await self._looked.wait()
        while True:
            self._list_now.clear()
            now = time.monotonic()
            due = pacing.next_list(self._cadence, now)
            if due.at > now:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._list_now.wait(), due.at - now)
                continue
            self._cadence = pacing.began(self._cadence, due.lane)
            self._lane_running = due.lane
            self._publish()
            spent, own = cpu_of_children(), time.thread_time()
            agents = sum(row.agent.host.provider == LOCAL_PROVIDER for row in self._fleet.rows)
            answer = await sources.ask(due.lane, pacing.deadline(self._cadence, due.lane, agents))
            self._lane_running = None
            cost = max(0.0, cpu_of_children() - spent)
            self._learn(answer)
            # Reading the answer is our own work, and weighs more: when idle we may take less than mngr.
            self._account(due.lane, answer, cost + _OWN_WEIGHT * (time.thread_time() - own))
            if not self._is_saved and time.monotonic() - self._saved_at > SAVE_SECONDS:
                await asyncio.get_running_loop().run_in_executor(blocking, self._save)

    async def _meter_forever(self, metering: ThreadPoolExecutor) -> None:
        await self._looked.wait()
        meters = _meters(self._environ, self._settings)
        while True:
            try:
                usages = await asyncio.get_running_loop().run_in_executor(metering, meters.look)
            except Exception as error:
                self._trouble(_internal("meter", "What the agents used could not be read", error))
            else:
                self._troubles.pop("meter", None)
                if usages is not self._fleet.usages:
                    self._learn(Metered(time.time(), usages))
            await asyncio.sleep(_METER_SECONDS)

    def _account(self, lane: str, answer: Listed | ListFailed, cost: float) -> None:
        now = time.monotonic()
        if isinstance(answer, ListFailed):
            self._cadence = pacing.failed(self._cadence, lane, now, cost=cost)
            return
        failing = {error.provider for error in answer.errors if error.provider is not None}
        self._cadence = pacing.answered(
            self._cadence,
            lane,
            now,
            cost=cost,
            providers={agent.host.provider for agent in answer.agents},
            failing=failing,
        )
        self._is_saved = False

    def _learn(self, observation: Observation) -> None:
        before = self._fleet.rows
        self._fleet = fold.apply(self._fleet, observation)
        if before is not self._fleet.rows and states(before) != states(self._fleet.rows):
            self._cadence = pacing.changed(self._cadence, time.monotonic())
            self._list_now.set()
        self._cadence = pacing.quiet(self._cadence, is_known_without_mngr(self._fleet.rows))
        self._publish()

    def _publish(self) -> None:
        view = fold.view(self._fleet, time.time())
        self._latest = replace(
            view,
            problems=view.problems + tuple(self._troubles.values()),
            expecting=_expected(view, self._settings),
            lanes=_with_running(view.lanes, self._lane_running),
        )
        shown = _shown(self._latest)
        now = time.monotonic()
        if shown != self._shown or now - self._published_at >= FRESHNESS_SECONDS:
            self._shown, self._published_at = shown, now
            self._publish_to(self._latest)

    def _trouble(self, problem: Problem) -> None:
        self._troubles[problem.key] = problem
        self._publish()

    def _file_trouble(self, says: str | None) -> None:
        """From the thread of the file watch: it cannot watch (None: it can again)."""

        def note() -> None:
            if says is not None:
                self._trouble(
                    Problem(
                        "files",
                        "Changes are seen late: files cannot be watched",
                        says,
                        "Local agents are looked at every few seconds instead. On Linux, raise the limits\n"
                        "fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl.",
                    )
                )
            elif self._troubles.pop("files", None) is not None:
                self._publish()

        self._in_loop(note)


def observe_once(
    environ: Mapping[str, str], settings: WatchSettings, timeout: float, *, wait: bool = True
) -> FleetView:
    """The fleet as it is now, for a command that ends: one look, and one unfiltered list of `timeout` seconds at most.

    `wait` False asks no mngr: the local agents as the probe sees them, the others as last known. Blocks; Ctrl-C ends
    mngr too.
    """
    return asyncio.run(_observe_once(dict(environ), settings, timeout, wait=wait))


async def _observe_once(
    environ: dict[str, str],
    settings: WatchSettings,
    deadline: float,
    *,
    wait: bool,
) -> FleetView:
    sources = Sources(settings, environ)
    known, says = _remembered(environ)
    fleet = fold.apply(Fleet(), known)
    fleet = fold.apply(fleet, sources.look()[0])
    metering = asyncio.create_task(asyncio.to_thread(_meters(environ, settings).look, _METER_ONCE))
    if wait:
        answer = await sources.ask(ALL if settings.remote else LOCAL, deadline)
        fleet = fold.apply(fleet, answer)
        if isinstance(answer, ListFailed) or _contradicts(answer, fleet):
            # Minutes may have passed until the deadline; and an agent that mngr calls stopped may be so since the look.
            fleet = fold.apply(fleet, sources.look()[0])
        if not isinstance(answer, ListFailed):
            with contextlib.suppress(OSError):  # the answer counts, not that the next process may know it too
                remembered.save(remembered.fleet_folder(environ), fold.to_remember(fleet))
    fleet = fold.apply(fleet, Metered(time.time(), await metering))
    view = fold.view(fleet, time.time())
    problems = (*view.problems, _forgotten(says)) if says else view.problems
    return replace(view, problems=problems, expecting=_expected(view, settings))


def _meters(environ: Mapping[str, str], settings: WatchSettings) -> Meters:
    from selftest_core.usage.meter import Meters  # the first look does not wait for it
    from selftest_core.usage.prices import prices_of

    return Meters(environ, prices_of(settings.prices))


def _contradicts(answer: Listed, fleet: Fleet) -> bool:
    stopped = {agent.id for agent in answer.agents if agent.state is State.STOPPED}
    return any(row.agent.id in stopped and row.session is not None for row in fleet.rows)


def _remembered(environ: Mapping[str, str]) -> tuple[Remembered, str]:
    memory = remembered.recall(remembered.fleet_folder(environ))
    return Remembered(time.time(), memory.agents), memory.says


def _expected(view: FleetView, settings: WatchSettings) -> frozenset[str]:
    """Who is still to answer: not those who are not asked."""
    return view.expecting if settings.remote else view.expecting & {LOCAL_PROVIDER}


def _forgotten(says: str) -> Problem:
    return Problem("memory", "What was known of the fleet before is lost", says, "The next answers are saved anew.")


def _with_running(lanes: tuple[LaneStatus, ...], running: str | None) -> tuple[LaneStatus, ...]:
    if running is None:
        return lanes
    return tuple(replace(lane, is_running=True) if lane.lane == running else lane for lane in lanes)


def _internal(key: str, title: str, error: Exception) -> Problem:
    detail = str(error) or type(error).__name__
    return Problem(key, title, detail, "It is tried again by itself. If it stays, please report it.")


def _shown(view: FleetView) -> object:
    """What a person would see differently: all but the clocks of what happens all the time."""
    return (
        view.rows,
        [(session.ref, session.attached, session.windows, session.command, session.title) for session in view.sessions],
        [(server.socket, server.is_default, server.error) for server in view.servers],
        view.problems,
        [(lane.lane, lane.is_running, None if lane.lane == PROBE else lane) for lane in view.lanes],
        view.expecting,
        view.has_local_answer,
    )
