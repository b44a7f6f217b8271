"""Watch of Modal: a problem for the banner while sandboxes live there that mngr does not see, and cost money."""

from __future__ import annotations

import time
from dataclasses import field
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import SelftestError
from selftest_core.fleet.view import Problem
from selftest_core.fleet.watch.fleet_cache import fleet_folder
from selftest_core.frozen import dataclass
from selftest_core.modal.account import MODAL
from selftest_core.tools.mngr import find_mngr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.fleet.view import Row
    from selftest_core.modal.sightings import Sighting

MODAL_KEY = "modal"
"""Key of the problem."""
MODAL_SECONDS = 600.0
"""Seconds between two looks, each of which may cost calls of mngr."""


@dataclass(frozen=True, slots=True)
class ModalWatched:
    """One look. `problem`: what a user must know; `metered`: USD by host, where Modal tells it."""

    problem: Problem | None = None
    metered: Mapping[str, float] = field(default_factory=dict)


async def watch_modal(environ: Mapping[str, str], rows: Sequence[Row]) -> ModalWatched:
    """Look once; without an account of Modal there is nothing to tell.

    `rows`: of the fleet; the hosts of those that mngr listed just now need no further call of it.
    """
    from selftest_core.modal.hidden import account_to_watch, look  # not needed by most fleets

    try:
        program = find_mngr(environ)
        account = account_to_watch(program, environ)
        if account is None:
            return ModalWatched()
        known = {
            row.agent.host.id
            for row in rows
            if row.agent.host.provider != LOCAL_PROVIDER and row.source == "mngr" and row.stale_since is None
        }
        found = await look(program, environ, account, fleet_folder(environ), known=known)
    except (SelftestError, OSError) as error:
        title, detail, hint = (
            (error.title, error.detail, error.hint) if isinstance(error, SelftestError) else (str(error), "", "")
        )
        return ModalWatched(Problem(MODAL_KEY, f"Sandboxes on Modal were not checked: {title}", detail, hint, MODAL))
    sure = tuple(one for one in found.hidden if not one.kept_reason())
    metered = {host: float(usd) for host, usd in (found.answer.costs or {}).items()}
    return ModalWatched(_problem(sure) if sure else None, metered)


def _problem(sure: tuple[Sighting, ...]) -> Problem:
    from selftest_core.modal.hidden import says

    count = "1 sandbox lives" if len(sure) == 1 else f"{len(sure)} sandboxes live"
    return Problem(
        MODAL_KEY,
        f"{count} on Modal, unseen by mngr, and costs money"
        if len(sure) == 1
        else f"{count} on Modal, unseen by mngr, and cost money",
        says(sure, time.time()),
        "`selftest-tui sweep` lists and ends them.",
        MODAL,
    )
