"""When to look again, and by which lane: pure decisions, so that no number hides in a loop.

A lane is one way to ask: `mngr list --provider local` ("local"), `mngr list` unfiltered ("all", which teaches
which other providers exist), and `mngr list --provider NAME` for each of those. One `mngr list` costs 5 CPU
seconds at 100 agents, so mngr as a whole may take a tenth of a core: after a list, none that is merely due starts
before ten times its CPU seconds have passed; a hundred times where the probe alone knows every agent's state and
nothing moves. What a person asked for starts at once. Never two at a time: the
caller runs what `next_list` names, and asks again when it has ended.

The probe is cheap and has a rhythm of its own: `probe_interval`.

Times are seconds of one clock that never goes back, costs are CPU seconds. No clock and no IO in here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.config import Config

LOCAL = "local"
ALL = "all"
PROBE = "probe"

MNGR_SHARE = 10.0
"""A list is followed by this many times its CPU seconds without one: at most about a tenth of a core."""
QUIET_SHARE = 100.0
"""The same where the probe knows the state of every agent and nothing moves: at most a hundredth of a core."""
PROBE_SHARE = 60.0
"""The same for the probe: at most a sixtieth of a core."""
LONGEST_PROBE_INTERVAL = 15.0
EAGER_SECONDS = 20.0
"""How long after a change or an act the lanes hurry."""
LONGEST_INTERVAL = 600.0
LEARNING_INTERVAL = 120.0
"""The unfiltered list, once each remote provider has a lane of its own, only finds new providers."""
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
class Lane:
    """One way to ask mngr, and how it went. `wanted`: a person or an act asked for it."""

    name: str
    ended_at: float | None = None
    failures: int = 0
    wanted: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """The list to run next: `at` is when it may start."""

    lane: str
    at: float


@dataclass(frozen=True, slots=True)
class Cadence:
    """What has been asked and what it cost.

    `spent`: the CPU seconds of the last list, which ended at `spent_at`. `is_quiet`: the probe knows the state of every
    agent, so that mngr has nothing to add until something changes.
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


def start(pace: Pace, remote_providers: Iterable[str] = (), *, only_local: bool = False) -> Cadence:
    """The first lanes. Where remote providers are known, the quick local list goes before the unfiltered one."""
    if only_local:
        return Cadence(pace, (Lane(LOCAL),))
    remote = tuple(Lane(name) for name in sorted(set(remote_providers) - {LOCAL, ALL}))
    first = (Lane(LOCAL), Lane(ALL)) if remote else (Lane(ALL), Lane(LOCAL))
    return Cadence(pace, (*first, *remote))


def asked(cadence: Cadence, lane: str | None = None) -> Cadence:
    """A person, or an act that has just been done, wants fresh answers: of one lane, or of all of them.

    All of them means the unfiltered list, which answers for every lane; where it may have to wait for remote
    providers, the local one, which is quick, goes before it. A provider without a lane is asked by the unfiltered list.
    """
    known = {each.name for each in cadence.lanes}
    if lane in known:
        names = {lane}
    elif ALL not in known or (lane is None and cadence.providers):
        names = {LOCAL, ALL}
    else:
        names = {ALL}
    return replace(
        cadence,
        lanes=tuple(replace(each, wanted=True, failures=0) if each.name in names else each for each in cadence.lanes),
    )


def changed(cadence: Cadence, now: float) -> Cadence:
    """Something moved: the lanes hurry for a while."""
    return replace(cadence, eager_until=now + EAGER_SECONDS)


def began(cadence: Cadence, lane: str) -> Cadence:
    """A list starts: what was wanted so far is being answered; what is asked from now on is a new wish."""
    return replace(
        cadence, lanes=tuple(replace(each, wanted=False) if each.name == lane else each for each in cadence.lanes)
    )


def failed(cadence: Cadence, lane: str, now: float, *, cost: float) -> Cadence:
    """A list gave no answer at all."""
    return replace(
        cadence,
        lanes=tuple(
            replace(each, ended_at=now, failures=each.failures + 1) if each.name == lane else each
            for each in cadence.lanes
        ),
        spent=max(cost, 0.0),
        spent_at=now,
    )


def answered(
    cadence: Cadence, lane: str, now: float, *, cost: float, providers: Iterable[str], failing: Iterable[str] = ()
) -> Cadence:
    """A list has answered, about these providers, of which the `failing` ones could not be asked.

    An unfiltered answer is an answer of every lane, and the remote providers that it names are all that there are.
    """
    bad = set(failing)

    def after(each: Lane) -> Lane:
        return replace(each, ended_at=now, failures=each.failures + 1 if each.name in bad else 0)

    if lane == ALL:
        remote = (set(providers) | bad) - {LOCAL, ALL}
        kept = [each for each in cadence.lanes if each.name in (LOCAL, ALL) or each.name in remote]
        lanes = [after(each) for each in (*kept, *(Lane(name) for name in sorted(remote - cadence.providers)))]
    else:
        lanes = [after(each) if each.name == lane else each for each in cadence.lanes]
    return replace(cadence, lanes=tuple(lanes), spent=max(cost, 0.0), spent_at=now)


def next_list(cadence: Cadence, now: float) -> Due:
    """The list to run next and when. Wanted lanes start at once, in their order; the others when most overdue."""
    for lane in cadence.lanes:
        if lane.wanted:
            return Due(lane.name, now)
    never = [lane for lane in cadence.lanes if lane.ended_at is None]
    if never:
        # The first answers of all lanes are not made to wait for the share of mngr: the person is waiting for them.
        return Due(never[0].name, now)
    due = {lane.name: (lane.ended_at or 0.0) + interval(cadence, lane, now) for lane in cadence.lanes}
    first = min(cadence.lanes, key=lambda lane: due[lane.name])
    return Due(first.name, max(due[first.name], _rests_until(cadence, now)))


def _rests_until(cadence: Cadence, now: float) -> float:
    """When mngr has had its share: a small one while it has nothing to add."""
    is_resting = cadence.is_quiet and now >= cadence.eager_until
    return cadence.spent_at + (QUIET_SHARE if is_resting else MNGR_SHARE) * cadence.spent


def quiet(cadence: Cadence, is_quiet: bool) -> Cadence:
    """Whether the probe knows the state of every agent."""
    return cadence if cadence.is_quiet == is_quiet else replace(cadence, is_quiet=is_quiet)


def interval(cadence: Cadence, lane: Lane, now: float) -> float:
    """Seconds from the end of a lane's list to its next, its share of mngr's time aside."""
    pace = cadence.pace
    if lane.name == LOCAL:
        floor = pace.local
    elif lane.name == ALL:
        floor = max(pace.all, LEARNING_INTERVAL) if cadence.providers else pace.all
    else:
        floor = pace.remote
    if lane.failures:
        return min(floor * 2.0 ** min(lane.failures, _BACKOFF_LIMIT), LONGEST_INTERVAL)
    return floor / 2 if now < cadence.eager_until and lane.name != ALL else floor


def deadline(cadence: Cadence, lane: str, local_agents: int) -> float:
    """Seconds that a list may take. A blackholed host alone takes 31; a thousand local agents take about 50."""
    base = cadence.pace.deadline / 2 if lane == LOCAL else cadence.pace.deadline
    return base + 0.2 * local_agents


def probe_interval(cadence: Cadence, now: float, cost: float, failures: int = 0) -> float:
    """Seconds from one look of the probe to its next when nothing triggers one before."""
    floor = cadence.pace.probe
    if failures:
        floor = max(floor, min(floor * 2.0 ** min(failures, _BACKOFF_LIMIT), LONGEST_PROBE_INTERVAL))
    elif now < cadence.eager_until:
        floor /= 4
    return max(floor, min(PROBE_SHARE * max(cost, 0.0), LONGEST_PROBE_INTERVAL))
