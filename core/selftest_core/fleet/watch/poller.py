"""Poller: the loop that asks the sources, folds their answers, and publishes views that look different to a user.

It has its own thread and event loop, so that a screen never waits for it. Two tasks run side by side: the probe, which
looks at once when a file changes or a process ends and else from time to time, and one `mngr list` at a time, when
`fleet.watch.poll_schedule` says so. The view comes from the fold; the poller adds the running lane and its own
problems.

It survives its sources: mngr that hangs, dies or is missing, a tmux server that ends, folders that do not exist yet.
Each is a problem in the view, and polling goes on. It decides nothing about agents, and acts on none.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER, State
from selftest_core.errors import SelftestError
from selftest_core.fleet import fold
from selftest_core.fleet.fleet_state import Fleet
from selftest_core.fleet.observations import ListFailed, Metered, Remembered
from selftest_core.fleet.rows import significant_states
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.fleet.sources.probe import Probe
from selftest_core.fleet.state_rules import is_known_without_mngr
from selftest_core.fleet.view import FleetView, LaneStatus, ModalCosts, Problem
from selftest_core.fleet.watch import fleet_cache, poll_schedule
from selftest_core.fleet.watch.file_watch import FileWatch
from selftest_core.fleet.watch.modal_watch import MODAL_KEY, MODAL_SECONDS, ModalWatched, watch_modal
from selftest_core.fleet.watch.poll_schedule import ALL, LOCAL, PROBE
from selftest_core.tools.loaded.loaded_mngr import LoadedMngr
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_core.tools.process_exit import ExitWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.fleet.observations import Listed, Observation, Probed
    from selftest_core.fleet.watch.poll_schedule import WatchSettings
    from selftest_core.usage.meter import Meters

FRESHNESS_SECONDS = 5.0
"""An unchanged view is published this often too: its evidence is newer."""
SAVE_SECONDS = 30.0
_OWN_WEIGHT = 5.0
_TMUX_SETTLES = 0.3
_METER_SECONDS = 2.0
"""Between two readings of usage. The programs write their files within five seconds."""
_METER_ONCE = 5.0
"""CPU seconds for reading usage in a command that ends."""
_REST_AFTER_LOOK = 3.0
"""A triggered look waits this many times the cost of the last one."""


class Sources:
    """The probe and mngr of one environment. A failure of mngr becomes a `ListFailed`."""

    def __init__(self, settings: WatchSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self.probe = Probe(self._environ, settings.sockets)
        self._mngr: Mngr | None = None
        self._loaded: LoadedMngr | None = None

    def close(self) -> None:
        """End the loaded mngr."""
        if self._loaded is not None:
            self._loaded.close()

    def mngr_cpu(self) -> float:
        """CPU seconds of all mngr that have ended: started by this process, or forked from the loaded one."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime + (0.0 if self._loaded is None else self._loaded.cpu_seconds())

    def look(self) -> tuple[Probed, float]:
        """Look with the probe, and estimate its cost in CPU seconds.

        Blocks for some milliseconds; a tmux server that hangs has its own deadline.
        """
        began, spent = time.monotonic(), time.thread_time()
        probed = self.probe.look(time.time())
        # Twice our own part: the other half is tmux. On a busy machine the elapsed time is no measure.
        return probed, min(time.monotonic() - began, 2 * (time.thread_time() - spent))

    async def ask(self, lane: str, deadline: float) -> Listed | ListFailed:
        """Run one `mngr list`; `lane` is "all" or a provider. Cancelling ends mngr."""
        provider = None if lane == ALL else lane
        began = time.monotonic()
        try:
            if self._mngr is None:
                # Searched again until it is found, and after a failure: it may have been installed since.
                program = find_mngr(self._environ)
                if self._settings.load_mngr_once and (self._loaded is None or self._loaded.program != program):
                    self.close()
                    self._loaded = LoadedMngr(program, self._environ)
                mngr = Mngr(program, self._environ, self._settings.cwd, self._loaded)
                await mngr.check()
                self._mngr = mngr
            return await list_agents(self._mngr, provider, deadline)
        except SelftestError as error:
            self._mngr = None
            failed = (error.title, error.detail, error.hint)
        except Exception as error:
            # A listing that we cannot read must not end the watch.
            failed = ("mngr list could not be read", f"{type(error).__name__}: {error}", "Please report this.")
        return ListFailed(time.time(), provider, *failed, seconds=time.monotonic() - began)


class Poller:
    """A watch from `run`, which blocks in a thread of its own, until `stop`. Used by `fleet_watch.FleetWatch`."""

    def __init__(
        self, settings: WatchSettings, environ: Mapping[str, str], publish: Callable[[FleetView], None]
    ) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self._publish_to = publish
        self._fleet = Fleet()
        self._schedule = poll_schedule.first_schedule(settings.pace, only_local=not settings.remote)
        self._problems: dict[str, Problem] = {}
        self._lane_running: str | None = None
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
        self._listed = asyncio.Event()
        self._metered_hosts: Mapping[str, float] = {}

    def run(self) -> None:
        """Watch until `stop`. Blocks; to be called once, in a thread that is not the screen's."""
        asyncio.run(self._watch())

    def stop(self) -> None:
        """Ask `run` to end; it does so within about a second, ending an mngr that is running. From any thread."""
        self._is_stopping = True
        self._in_loop(self._stopped.set)

    def refresh(self, lane: str | None = None) -> None:
        """Look and ask now: `lane` ("local", "all", a provider), or everything. From any thread."""

        def request() -> None:
            self._schedule = poll_schedule.note_change(
                poll_schedule.request_list(self._schedule, lane), time.monotonic()
            )
            self._look_now.set()
            self._list_now.set()

        self._in_loop(request)

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
        files = FileWatch(lambda: self._in_loop(self._look_now.set), self._file_problem)
        exits = ExitWatch(self._has_exited)
        jobs: list[asyncio.Task[object]] = []
        sources = Sources(self._settings, self._environ)
        try:
            await self._load_cache(blocking)
            jobs = [
                asyncio.create_task(self._look_forever(sources, blocking, files, exits), name="look"),
                asyncio.create_task(self._list_forever(sources, blocking), name="list"),
                asyncio.create_task(self._meter_forever(metering), name="meter"),
                asyncio.create_task(self._watch_modal_forever(), name="modal"),
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
            sources.close()
            if not self._is_saved:
                self._save()
            blocking.shutdown()
            metering.shutdown()

    def _has_exited(self) -> None:
        self._look_now.set()
        # tmux learns of the end at about the same time and may still show the pane: look again a little later.
        asyncio.get_running_loop().call_later(_TMUX_SETTLES, self._look_now.set)

    async def _load_cache(self, blocking: ThreadPoolExecutor) -> None:
        known, problem = await asyncio.get_running_loop().run_in_executor(blocking, _cached, self._environ)
        if problem:
            self._problems["memory"] = _cache_problem(problem)
        providers = {each.agent.host.provider for each in known.agents} - {LOCAL_PROVIDER}
        self._schedule = poll_schedule.first_schedule(
            self._settings.pace, providers, only_local=not self._settings.remote
        )
        self._fleet = fold.apply(self._fleet, known)

    def _save(self) -> None:
        """Save the known agents for the next process."""
        self._is_saved, self._saved_at = True, time.monotonic()
        try:
            fleet_cache.save(fleet_cache.fleet_folder(self._environ), fold.to_remember(self._fleet))
            self._problems.pop("state", None)
        except OSError as error:
            self._problems["state"] = Problem(
                "state",
                "The known agents cannot be saved for the next start",
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
                # An error of one look must not end the watch.
                failures += 1
                self._add_problem(_internal(PROBE, "The local agents cannot be read", error))
            else:
                failures = 0
                self._problems.pop(PROBE, None)
                spent = time.thread_time()
                files.watch(sources.probe.watched_paths())
                exits.watch(sources.probe.pids)
                self._learn(probed)
                costs.append(cost + time.thread_time() - spent)
            self._looked.set()
            ended = time.monotonic()
            # The lowest of the last costs: one slow look, such as the first, is no forecast.
            cost = min(costs)
            with contextlib.suppress(TimeoutError):
                # A trigger ends this wait; the pause below limits the looks while triggers come fast.
                pause = poll_schedule.probe_interval(self._schedule, time.monotonic(), cost, failures)
                await asyncio.wait_for(self._look_now.wait(), pause)
            await asyncio.sleep(max(0.0, ended + cost * _REST_AFTER_LOOK - time.monotonic()))

    async def _list_forever(self, sources: Sources, blocking: ThreadPoolExecutor) -> None:
        # After the first look: a user waits for it, and it counts the agents.
        await self._looked.wait()
        while True:
            self._list_now.clear()
            now = time.monotonic()
            due = poll_schedule.next_list(self._schedule, now)
            if due.at > now:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._list_now.wait(), due.at - now)
                continue
            self._schedule = poll_schedule.note_start(self._schedule, due.lane)
            self._lane_running = due.lane
            self._publish()
            spent, own = sources.mngr_cpu(), time.thread_time()
            agents = sum(row.agent.host.provider == LOCAL_PROVIDER for row in self._fleet.rows)
            answer = await sources.ask(due.lane, poll_schedule.deadline(self._schedule, due.lane, agents))
            self._lane_running = None
            cost = max(0.0, sources.mngr_cpu() - spent)
            self._learn(answer)
            # Our own work on the answer weighs more: while idle we may take less than mngr.
            if due.lane == ALL:
                self._listed.set()
            self._account(due.lane, answer, cost + _OWN_WEIGHT * (time.thread_time() - own))
            del answer  # else a second copy of every agent is kept until the next answer has been read
            if not self._is_saved and time.monotonic() - self._saved_at > SAVE_SECONDS:
                await asyncio.get_running_loop().run_in_executor(blocking, self._save)

    async def _meter_forever(self, metering: ThreadPoolExecutor) -> None:
        await self._looked.wait()
        meters = _meters(self._environ, self._settings)
        while True:
            try:
                usages = await asyncio.get_running_loop().run_in_executor(metering, meters.look)
            except Exception as error:
                self._add_problem(_internal("meter", "The usage of agents cannot be read", error))
            else:
                self._problems.pop("meter", None)
                if usages is not self._fleet.usages:
                    self._learn(Metered(time.time(), usages))
            await asyncio.sleep(_METER_SECONDS)

    async def _watch_modal_forever(self) -> None:
        """Look for sandboxes that mngr does not see, after each of its answers about all providers, but seldom."""
        while True:
            await self._listed.wait()
            try:
                found = await watch_modal(self._environ, self._fleet.rows)
            except Exception as error:  # it must not end the watch
                found = ModalWatched(_internal(MODAL_KEY, "The sandboxes on Modal were not checked", error))
            self._metered_hosts = found.metered
            self._problems.pop(MODAL_KEY, None)
            if found.problem is not None:
                self._problems[MODAL_KEY] = found.problem
            self._publish()
            await asyncio.sleep(MODAL_SECONDS)
            self._listed.clear()

    def _account(self, lane: str, answer: Listed | ListFailed, cost: float) -> None:
        now = time.monotonic()
        if isinstance(answer, ListFailed):
            self._schedule = poll_schedule.note_failure(self._schedule, lane, now, cost=cost)
            return
        failing = {error.provider for error in answer.errors if error.provider is not None}
        self._schedule = poll_schedule.note_answer(
            self._schedule,
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
        if before is not self._fleet.rows and significant_states(before) != significant_states(self._fleet.rows):
            self._schedule = poll_schedule.note_change(self._schedule, time.monotonic())
            self._list_now.set()
        self._schedule = poll_schedule.note_quiet(
            self._schedule, all(is_known_without_mngr(row.source, row.condition) for row in self._fleet.rows)
        )
        self._publish()

    def _publish(self) -> None:
        view = fold.view(self._fleet, time.time())
        view = replace(
            view,
            problems=view.problems + tuple(self._problems.values()),
            expecting=_expected(view, self._settings),
            lanes=_with_running(view.lanes, self._lane_running),
            modal_costs=ModalCosts(self._metered_hosts, self._settings.modal_usd_per_hour),
        )
        shown = _shown(view)
        now = time.monotonic()
        if shown != self._shown or now - self._published_at >= FRESHNESS_SECONDS:
            self._shown, self._published_at = shown, now
            self._publish_to(view)

    def _add_problem(self, problem: Problem) -> None:
        self._problems[problem.key] = problem
        self._publish()

    def _file_problem(self, error: str | None) -> None:
        """Note the error of the file watch, from its thread (None: it works again)."""

        def note() -> None:
            if error is not None:
                self._add_problem(
                    Problem(
                        "files",
                        "Changes are seen late: files cannot be watched",
                        error,
                        "Local agents are read every few seconds instead. On Linux, raise the limits\n"
                        "fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl.",
                    )
                )
            elif self._problems.pop("files", None) is not None:
                self._publish()

        self._in_loop(note)


def observe_once(
    environ: Mapping[str, str], settings: WatchSettings, timeout: float, *, wait: bool = True
) -> FleetView:
    """Observe the fleet for a command that ends. See `fleet_watch.observe_once`."""
    return asyncio.run(_observe_once(dict(environ), settings, timeout, wait=wait))


async def _observe_once(
    environ: dict[str, str],
    settings: WatchSettings,
    deadline: float,
    *,
    wait: bool,
) -> FleetView:
    sources = Sources(settings, environ)
    known, problem = _cached(environ)
    fleet = fold.apply(Fleet(), known)
    fleet = fold.apply(fleet, sources.look()[0])
    metering = asyncio.create_task(asyncio.to_thread(_meters(environ, settings).look, _METER_ONCE))
    if wait:
        answer = await sources.ask(ALL if settings.remote else LOCAL, deadline)
        fleet = fold.apply(fleet, answer)
        if isinstance(answer, ListFailed) or _contradicts(answer, fleet):
            # Minutes may have passed until the deadline; and an agent may have stopped since the look.
            fleet = fold.apply(fleet, sources.look()[0])
        if not isinstance(answer, ListFailed):
            with contextlib.suppress(OSError):  # the answer counts, not the cache for the next process
                fleet_cache.save(fleet_cache.fleet_folder(environ), fold.to_remember(fleet))
    fleet = fold.apply(fleet, Metered(time.time(), await metering))
    view = fold.view(fleet, time.time())
    on_modal = await watch_modal(environ, fleet.rows) if wait and settings.remote else ModalWatched()
    own = (_cache_problem(problem) if problem else None, on_modal.problem)
    problems = (*view.problems, *(one for one in own if one is not None))
    view = replace(view, modal_costs=ModalCosts(on_modal.metered, settings.modal_usd_per_hour))
    return replace(view, problems=problems, expecting=_expected(view, settings))


def _meters(environ: Mapping[str, str], settings: WatchSettings) -> Meters:
    from selftest_core.usage.meter import Meters  # imported after the first look
    from selftest_core.usage.prices import prices_of

    return Meters(environ, prices_of(settings.prices))


def _contradicts(answer: Listed, fleet: Fleet) -> bool:
    """True if mngr calls an agent stopped that has a session."""
    stopped = {agent.id for agent in answer.agents if agent.state is State.STOPPED}
    return any(row.agent.id in stopped and row.session is not None for row in fleet.rows)


def _cached(environ: Mapping[str, str]) -> tuple[Remembered, str]:
    cached = fleet_cache.load(fleet_cache.fleet_folder(environ))
    return Remembered(time.time(), cached.agents), cached.problem


def _expected(view: FleetView, settings: WatchSettings) -> frozenset[str]:
    """The providers whose first answer has not come, without those that are not asked."""
    return view.expecting if settings.remote else view.expecting & {LOCAL_PROVIDER}


def _cache_problem(problem: str) -> Problem:
    return Problem("memory", "The saved fleet cannot be read", problem, "The next answers are saved anew.")


def _with_running(lanes: tuple[LaneStatus, ...], running: str | None) -> tuple[LaneStatus, ...]:
    if running is None:
        return lanes
    return tuple(replace(lane, is_running=True) if lane.lane == running else lane for lane in lanes)


def _internal(key: str, title: str, error: Exception) -> Problem:
    detail = str(error) or type(error).__name__
    return Problem(key, title, detail, "It is retried automatically. If it stays, please report it.")


def _shown(view: FleetView) -> object:
    """Return all that is visible to a user, without the clocks that change all the time."""
    return (
        view.rows,
        [(session.ref, session.attached, session.windows, session.command, session.title) for session in view.sessions],
        [(server.socket, server.is_default, server.error) for server in view.servers],
        view.problems,
        [(lane.lane, lane.is_running, None if lane.lane == PROBE else lane) for lane in view.lanes],
        view.expecting,
        view.has_local_answer,
        view.modal_costs,
    )
