"""Hidden sandboxes: a look at those that live on Modal and that mngr does not see.

mngr's answers are the truth about its hosts, so a look counts only where mngr answered without an error, for a provider
that it knows: for an unknown one its lists are empty, and no error.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import ToolFailedError, ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.modal import sightings
from selftest_core.modal.account import account_of, has_plugin
from selftest_core.modal.modal_probe import ask
from selftest_core.tools.mngr import Mngr, list_arguments, split_error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from selftest_core.modal.account import ModalAccount
    from selftest_core.modal.modal_probe import ModalAnswer
    from selftest_core.modal.sightings import Sighting
    from selftest_core.tools.mngr import MngrProgram

_LISTING = 120.0
"""Seconds for each of mngr's answers: it waits out a rate limit of Modal for a minute."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look. `answer`: of Modal; `hidden`: what mngr does not see, also what was seen for the first time."""

    answer: ModalAnswer
    hidden: tuple[Sighting, ...]


def account_to_watch(program: MngrProgram, environ: Mapping[str, str]) -> ModalAccount | None:
    """Return the account whose sandboxes are looked at; None without mngr's plugin or without credentials."""
    return account_of(environ) if has_plugin(program) else None


async def look(
    program: MngrProgram,
    environ: Mapping[str, str],
    account: ModalAccount,
    folder: Path,
    *,
    known: Collection[str] = (),
    spend: bool = False,
) -> Look:
    """Ask Modal, and mngr where a sandbox belongs to none of the `known` hosts, and note in `folder` what is hidden.

    Raises ToolError or RefusedError where one of them did not answer completely, and OSError: then nothing is noted.
    """
    answer = await asyncio.to_thread(ask, program, environ, account, look=True, spend=spend)
    hidden = [one for one in answer.sandboxes if one.host_id not in known]
    if hidden:
        hosts = await _hosts_of_mngr(Mngr(program, environ, Path("/")), account.provider)
        hidden = [one for one in hidden if one.host_id not in hosts]
    place = (answer.workspace, account.environment, account.app)
    noted = sightings.note_hosts(sightings.load(folder), place, answer.sandboxes)
    noted = sightings.note(noted, place, hidden, time.time())
    sightings.save(folder, noted)
    return Look(answer, noted.hidden)


async def _hosts_of_mngr(mngr: Mngr, provider: str) -> set[str]:
    """Return the ids of all hosts that mngr sees. Raises ToolError unless every answer is complete."""
    chosen = f"--provider={provider}"
    asked, listed, unknown = await asyncio.gather(
        mngr.call(list_arguments(provider), timeout=_LISTING),
        mngr.call(("list", "--hosts", "--format", "json", chosen), timeout=_LISTING),
        mngr.call(("gc", "--dry-run", "--provider", provider, "--format", "json"), timeout=_LISTING),
    )
    if "Unknown provider" in unknown.stderr:
        raise ToolFailedError(f"mngr knows no provider {provider!r}", split_error(unknown.stderr)[0])
    if not (asked.ok and listed.ok):
        said = "\n".join(split_error(one.stderr)[0] for one in (asked, listed) if not one.ok)
        raise ToolFailedError(f"mngr does not see all hosts of {provider}", said[:500])
    of_agents, errors = _read(asked.stdout, "agents", lambda agent: agent["host"]["id"])
    others, more_errors = _read(listed.stdout, "hosts", lambda host: host["id"])
    for message in (*errors, *more_errors):
        raise ToolFailedError(f"mngr does not see all hosts of {provider}", message[:500])
    return of_agents | others


def _read(text: str, name: str, host_of: Callable[[Any], Any]) -> tuple[set[str], list[str]]:
    """Return the ids of the hosts in one of mngr's lists, and its errors. Raises ToolOutputError for any other text."""
    try:
        document = json.loads(text)
        hosts = {str(host_of(one)) for one in document[name]}
        return hosts, [str(one.get("message", "")) for one in document.get("errors", ())]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ToolOutputError("mngr list cannot be read", text[:200]) from None


def says(hidden: tuple[Sighting, ...], now: float) -> str:
    """List sandboxes in lines, each with its host and for how long it has been seen."""
    return "\n".join(
        f"{one.sandbox}: {f'tagged for the host {one.host_id}' if one.host_id else 'without a tag of mngr'}, "
        f"seen for {max(0, round((now - one.first) / 60))} min"
        for one in hidden
    )
