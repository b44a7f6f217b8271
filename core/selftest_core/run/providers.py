"""Providers: the places where the agents of a run work, and everything that differs between them.

`--on` names places: `local`, `modal`, any other provider of mngr, or one of its hosts (`box.pool`). A new provider of
mngr needs no code: `run/plan/preflight.py` asks mngr whether it is there, and agents are made, read and stopped through
mngr alike. Code that knows a place is only for what this machine can do faster or safer itself, and compares with
`LOCAL_PROVIDER`. Agents that are not made by mngr at all would be another `Crew`
(`run/crew/crew.py`), which `run/conduct/conductor_process.py` makes.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.run.smoke import smoke_of

if TYPE_CHECKING:
    from selftest_core.run.fold import Member
    from selftest_core.run.plan.plan import RunPlan

_REMOTE_COPIES = PurePosixPath("/tmp/selftest-copies")
"""Folder of the copies of the repository on other hosts."""


def places(provider: str) -> tuple[str, ...]:
    """Return the places of a plan's agents: providers or hosts (`modal`, `box.pool`), separated by commas."""
    return tuple(dict.fromkeys(filter(None, (place.strip() for place in provider.split(","))))) or (LOCAL_PROVIDER,)


def provider_of(place: str) -> str:
    """Return the provider of a place, which may name a host of it, as `box.pool`."""
    return place.rpartition(".")[2]


def providers_of(provider: str) -> tuple[str, ...]:
    """Return the providers of a plan's places, each once."""
    return tuple(dict.fromkeys(provider_of(place) for place in places(provider)))


def place_of(plan: RunPlan, member: Member) -> str:
    """Return the place of an attempt: tests and attempts rotate over the places, so a retry leaves a bad host."""
    if not member.node_id:
        proven = (one for one in plan.smoke if smoke_of(plan, one, member.attempt).agent_id == member.agent_id)
        return next(proven, LOCAL_PROVIDER)
    among = places(plan.provider)
    if len(among) == 1:
        return among[0]
    number = next((n for n, test in enumerate(plan.tests) if test.agent_name == member.test), 0)
    return among[(number + member.attempt - 1) % len(among)]


def provider_for(plan: RunPlan, member: Member) -> str:
    """Return the member's provider: where it was found, else where it is to be made."""
    return member.provider or provider_of(place_of(plan, member))


def work_dir(place: str, member: Member, host_dir: Path) -> PurePosixPath:
    """Return the path of the agent's copy of the repository on its host."""
    copies = PurePosixPath(host_dir) / "copies" if place == LOCAL_PROVIDER else _REMOTE_COPIES
    return copies / member.agent_id


def address_suffix(place: str) -> str:
    """Return what follows the agent's name in `mngr create`: nothing here, else `@HOST.PROVIDER` or `@.PROVIDER`."""
    if place == LOCAL_PROVIDER:
        return ""
    return f"@{place}" if "." in place else f"@.{place}"
