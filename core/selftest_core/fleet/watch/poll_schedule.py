"""Poll schedule: the times of the next look and of the next `mngr list`, and the settings of a watch. Pure.

A lane is one way to ask: `mngr list --provider local` ("local"), `mngr list` unfiltered ("all", which finds other
providers), and `mngr list --provider NAME` for each of those. One `mngr list` costs 5 CPU seconds at 100 agents, so
mngr may take a tenth of a core: after a list, the next scheduled one waits ten times its CPU seconds, and a hundred
times while the probe knows every agent's state and nothing changes. A request of a user starts at once. There is
never more than one list: the caller runs the one that `next_list` names, and asks again when it has ended.

The probe is cheap and has its own interval: `probe_interval`.

Times are seconds of a monotonic clock, costs are CPU seconds.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from selftest_core.config import Config
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOCAL = "local"
ALL = "all"
PROBE = "probe"

MNGR_SHARE = 10.0
"""A list is followed by this many times its CPU seconds without one: at most about a tenth of a core."""
QUIET_SHARE = 100.0
"""The same while the probe knows the state of every agent and nothing changes: at most a hundredth of a core."""
PROBE_SHARE = 60.0
"""The same for the probe: at most a sixtieth of a core."""
LONGEST_PROBE_INTERVAL = 15.0
EAGER_SECONDS = 20.0
"""The time after a change or an action in which intervals are shorter."""
LONGEST_INTERVAL = 600.0
LEARNING_INTERVAL = 120.0
"""Interval of the unfiltered list once each remote provider has its own lane: it only finds new providers."""
_BACKOFF_LIMIT = 5


@dataclass(frozen=True, slots=True)
class Pace:
    """The shortest intervals, in seconds: the settings `poll_…` and `list_deadline`."""

    local: float
    all: float
    remote: float
    probe: float
    deadline: float


def pace_of(config: Config) -> Pace:
    """Read the intervals from the settings."""
    return Pace(
        local=config.poll_local,
        all=config.poll_all,
        remote=config.poll_remote,
        probe=config.poll_probe,
        deadline=config.list_deadline,
    )


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Settings of a watch. `sockets`: tmux sockets beside those in tmux's own folder; `cwd`: the folder in which mngr
    runs; `prices`, `load_mngr_once`, `modal_usd_per_hour`: the settings of those names."""

    cwd: Path
    pace: Pace = field(default_factory=lambda: pace_of(Config()))
    sockets: tuple[str, ...] = ()
    remote: bool = True
    prices: tuple[str, ...] = ()
    load_mngr_once: bool = False
    modal_usd_per_hour: float = 0.0


def watch_settings(config: Config, cwd: Path) -> WatchSettings:
    """Read the settings of a watch."""
    return WatchSettings(
        cwd, pace_of(config), config.sockets, config.remote, config.prices, config.load_mngr_once,
        config.modal_usd_per_hour,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lane:
    """One way to ask mngr, and its last result. `requested`: by a user or an action."""

    name: str
    ended_at: float | None = None
    failures: int = 0
    requested: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """The next list, and when it may start."""

    lane: str
    at: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """State of the polling.

    `spent`: the CPU seconds of the last list, which ended at `spent_at`. `eager_until`: intervals are shorter until
    then. `is_quiet`: the probe knows the state of every agent.
    """

    pace: Pace
    lanes: tuple[Lane, ...]
    spent: float = 0.0
    spent_at: float = 0.0
    eager_until: float = 0.0
    is_quiet: bool = False

    @property
    def providers(self) -> frozenset[str]:
        """The remote providers that have a lane."""
        return frozenset(lane.name for lane in self.lanes) - {LOCAL, ALL}


def first_schedule(pace: Pace, remote_providers: Iterable[str] = (), *, only_local: bool = False) -> Schedule:
    """Make the first schedule. With known remote providers the quick local list comes before the unfiltered one."""
    if only_local:
        return Schedule(pace, (Lane(LOCAL),))
    remote = tuple(Lane(name) for name in sorted(set(remote_providers) - {LOCAL, ALL}))
    first = (Lane(LOCAL), Lane(ALL)) if remote else (Lane(ALL), Lane(LOCAL))
    return Schedule(pace, (*first, *remote))


def request_list(schedule: Schedule, lane: str | None = None) -> Schedule:
    """Request fresh answers of one lane, or of all, for the user or after an action.

    For all lanes the unfiltered list is enough; if it may wait for remote providers, the quick local one goes before
    it. A provider without a lane is asked by the unfiltered list.
    """
    known = {each.name for each in schedule.lanes}
    if lane in known:
        names = {lane}
    elif ALL not in known or (lane is None and schedule.providers):
        names = {LOCAL, ALL}
    else:
        names = {ALL}
    return replace(
        schedule,
        lanes=tuple(
            replace(each, requested=True, failures=0) if each.name in names else each for each in schedule.lanes
        ),
    )


def note_change(schedule: Schedule, now: float) -> Schedule:
    """Shorten the intervals for a while: something changed."""
    return replace(schedule, eager_until=now + EAGER_SECONDS)


def note_start(schedule: Schedule, lane: str) -> Schedule:
    """Note the start of a list: it answers the requests so far."""
    return replace(
        schedule, lanes=tuple(replace(each, requested=False) if each.name == lane else each for each in schedule.lanes)
    )


def note_failure(schedule: Schedule, lane: str, now: float, *, cost: float) -> Schedule:
    """Note a list without an answer."""
    return replace(
        schedule,
        lanes=tuple(
            replace(each, ended_at=now, failures=each.failures + 1) if each.name == lane else each
            for each in schedule.lanes
        ),
        spent=max(cost, 0.0),
        spent_at=now,
    )


def note_answer(
    schedule: Schedule, lane: str, now: float, *, cost: float, providers: Iterable[str], failing: Iterable[str] = ()
) -> Schedule:
    """Note an answer about these providers; the `failing` ones could not be asked.

    An unfiltered answer is one of every lane, and has all remote providers that exist.
    """
    bad = set(failing)

    def after(each: Lane) -> Lane:
        return replace(each, ended_at=now, failures=each.failures + 1 if each.name in bad else 0)

    if lane == ALL:
        remote = (set(providers) | bad) - {LOCAL, ALL}
        kept = [each for each in schedule.lanes if each.name in (LOCAL, ALL) or each.name in remote]
        lanes = [after(each) for each in (*kept, *(Lane(name) for name in sorted(remote - schedule.providers)))]
    else:
        lanes = [after(each) if each.name == lane else each for each in schedule.lanes]
    return replace(schedule, lanes=tuple(lanes), spent=max(cost, 0.0), spent_at=now)


def next_list(schedule: Schedule, now: float) -> Due:
    """Choose the next list and its time: requested lanes at once, in their order; then the most overdue one."""
    for lane in schedule.lanes:
        if lane.requested:
            return Due(lane.name, now)
    never = [lane for lane in schedule.lanes if lane.ended_at is None]
    if never:
        # The first answers of all lanes do not wait for the share of mngr: a user waits for them.
        return Due(never[0].name, now)
    due = {lane.name: (lane.ended_at or 0.0) + interval(schedule, lane, now) for lane in schedule.lanes}
    first = min(schedule.lanes, key=lambda lane: due[lane.name])
    return Due(first.name, max(due[first.name], _rests_until(schedule, now)))


def _rests_until(schedule: Schedule, now: float) -> float:
    """The end of the pause after the last list; a longer one while mngr has nothing to add."""
    is_resting = schedule.is_quiet and now >= schedule.eager_until
    return schedule.spent_at + (QUIET_SHARE if is_resting else MNGR_SHARE) * schedule.spent


def note_quiet(schedule: Schedule, is_quiet: bool) -> Schedule:
    """Note whether the probe knows the state of every agent."""
    return schedule if schedule.is_quiet == is_quiet else replace(schedule, is_quiet=is_quiet)


def interval(schedule: Schedule, lane: Lane, now: float) -> float:
    """Seconds from the end of a lane's list to its next one, before the pause for mngr's share."""
    pace = schedule.pace
    if lane.name == LOCAL:
        floor = pace.local
    elif lane.name == ALL:
        floor = max(pace.all, LEARNING_INTERVAL) if schedule.providers else pace.all
    else:
        floor = pace.remote
    if lane.failures:
        return min(floor * 2.0 ** min(lane.failures, _BACKOFF_LIMIT), LONGEST_INTERVAL)
    return floor / 2 if now < schedule.eager_until and lane.name != ALL else floor


def deadline(schedule: Schedule, lane: str, local_agents: int) -> float:
    """Deadline of a list in seconds. One blackholed host takes 31; a thousand local agents take about 50."""
    base = schedule.pace.deadline / 2 if lane == LOCAL else schedule.pace.deadline
    return base + 0.2 * local_agents


def probe_interval(schedule: Schedule, now: float, cost: float, failures: int = 0) -> float:
    """Seconds from one look of the probe to the next, while nothing triggers one."""
    floor = schedule.pace.probe
    if failures:
        floor = max(floor, min(floor * 2.0 ** min(failures, _BACKOFF_LIMIT), LONGEST_PROBE_INTERVAL))
    elif now < schedule.eager_until:
        floor /= 4
    return max(floor, min(PROBE_SHARE * max(cost, 0.0), LONGEST_PROBE_INTERVAL))
