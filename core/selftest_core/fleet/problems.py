"""Problems for the banner, and the status of each source: failures, with what a user can do about them.

Keys and order are fixed while a problem lasts, so that a banner neither blinks nor jumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.fleet.view import LaneStatus, Problem
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.observations import ListFailed, ListingError, Probed, TmuxServer

ALL = "all"
"""The lane of the unfiltered list: every provider asked at once."""
PROBE = "probe"
MNGR = "mngr"
"""The key of the problem that mngr gave no answer at all."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The newest failure of a lane: asked at `start`, known at `at`. `is_whole`: mngr gave no answer at all."""

    lane: str
    start: float
    at: float
    title: str
    detail: str = ""
    hint: str = ""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class LostServer:
    """A tmux server that ended with several agents at once."""

    socket: str
    agents: frozenset[AgentKey]


def failure_of_list(failed: ListFailed) -> Failure:
    """Make the failure of a list without an answer."""
    return Failure(
        lane=failed.provider or ALL,
        start=failed.at - max(failed.seconds, 0.0),
        at=failed.at,
        title=failed.title,
        detail=failed.detail,
        hint=failed.hint or "Run `selftest-tui doctor`: it tries mngr and names the repair.",
        is_whole=True,
    )


def failure_of_errors(lane: str, errors: Iterable[ListingError], start: float, at: float) -> Failure:
    """Make one failure of all errors of one lane in an answer."""
    reported = list(errors)
    first = reported[0]
    details = list(dict.fromkeys(error.message for error in reported if error.message))
    if first.host_id is not None and first.provider is None:
        title = f"mngr cannot read the agents of a host of {lane}"
        hint = f"One broken agents/*/data.json hides them all; repair it on host {first.host_id}, or move it away."
    elif first.agent_id is not None and first.provider is None:
        title = f"mngr cannot read an agent of {lane}"
        hint = f"Look at agent {first.agent_id}: mngr list --provider {lane}"
    elif lane == ALL:
        title = "mngr list reported an error"
        hint = "Run `mngr list` to see all of it, or `selftest-tui doctor`."
    elif any(error.is_unreachable for error in reported):
        title = f"{lane} cannot be reached"
        hint = f"Try it alone: mngr list --provider {lane}"
    else:
        title = f"{lane} does not answer"
        hint = f"Try it alone: mngr list --provider {lane}"
    remedies = [error.hint for error in reported if error.hint]
    return Failure(lane, start, at, title, "\n".join(details), remedies[0] if remedies else hint)


def problems_of(
    failures: Mapping[str, Failure], probed: Probed | None, lost: tuple[LostServer, ...]
) -> tuple[Problem, ...]:
    """List every problem: mngr first, then those of the probe, the providers by name, and the tmux servers."""
    problems = [
        *_of_mngr(failures),
        *(_of_probe(probed) if probed is not None else ()),
        *_of_providers(failures),
        *_of_servers(probed),
        *(_of_lost(server) for server in lost),
    ]
    return tuple({problem.key: problem for problem in reversed(problems)}[key] for key in _keys(problems))


def _keys(problems: Iterable[Problem]) -> list[str]:
    return list(dict.fromkeys(problem.key for problem in problems))


def _of_mngr(failures: Mapping[str, Failure]) -> Iterable[Problem]:
    whole = [failures[lane] for lane in (ALL, LOCAL_PROVIDER) if lane in failures and failures[lane].is_whole]
    if whole:
        newest = max(whole, key=lambda failure: failure.at)
        yield Problem(MNGR, newest.title, newest.detail, newest.hint)
    if ALL in failures and not failures[ALL].is_whole:
        failure = failures[ALL]
        yield Problem("mngr:list", failure.title, failure.detail, failure.hint)


def _of_providers(failures: Mapping[str, Failure]) -> Iterable[Problem]:
    said = {failures[lane].title for lane in (ALL, LOCAL_PROVIDER) if lane in failures and failures[lane].is_whole}
    for lane in sorted(failures):
        failure = failures[lane]
        if lane == ALL or (failure.is_whole and (lane == LOCAL_PROVIDER or failure.title in said)):
            continue
        title = f"{lane}: {failure.title}" if failure.is_whole else failure.title
        yield Problem(f"provider:{lane}", title, failure.detail, failure.hint, provider=lane)


def _of_probe(probed: Probed) -> Iterable[Problem]:
    for text in probed.problems:
        title, _, hint = text.partition("\n")
        is_tmux = "tmux" in title.lower()
        yield Problem(
            key="tmux" if is_tmux else f"probe:{title}",
            title=title,
            hint=hint or ("Run `selftest-tui doctor`: it says how to install or repair tmux." if is_tmux else ""),
        )
    for unreadable in probed.unreadable:
        yield Problem(
            key=f"agent:{unreadable.agent_id}",
            title=f"The data of agent {unreadable.agent_id} cannot be read",
            detail=f"{unreadable.path}: {unreadable.message}",
            hint=f"mngr shows no agent of this machine until then: repair {unreadable.path} or move it away.",
            provider=LOCAL_PROVIDER,
        )


def _of_servers(probed: Probed | None) -> Iterable[Problem]:
    """List servers that do not answer; without tmux the probe has reported that itself."""
    if probed is not None:
        reported = {text.partition("\n")[0] for text in probed.problems}
        yield from (_of_server(one) for one in probed.servers if one.error and one.error not in reported)


def _of_server(server: TmuxServer) -> Problem:
    return Problem(
        key=f"server:{server.socket}",
        title=f"The tmux server at {server.socket} does not answer",
        detail=server.error,
        hint=f"Try it by hand: tmux -S {server.socket} list-sessions",
    )


def _of_lost(lost: LostServer) -> Problem:
    return Problem(
        key=f"server:{lost.socket}",
        title=f"The tmux server at {lost.socket} has ended, and {len(lost.agents)} agents with it",
        hint="Their work is kept. Start them again, or destroy them.",
    )


def lanes_of(lanes: Mapping[str, LaneStatus]) -> tuple[LaneStatus, ...]:
    """List the status of each source: the probe, this machine's list, the unfiltered list, then providers by name."""
    fixed = (PROBE, LOCAL_PROVIDER, ALL)
    others = sorted(lane for lane in lanes if lane not in fixed)
    return tuple(lanes.get(lane) or LaneStatus(lane) for lane in (*fixed, *others))
