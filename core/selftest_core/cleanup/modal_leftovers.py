"""Leftovers on Modal: sandboxes that live, and that no command of mngr lists.

Ending one that is somebody's would destroy work, so each is offered only after a second sighting (`modal.sightings`),
in the environment and app of this user's mngr, while mngr answers without an error, and a few for each sweep. Before
they end all of this is checked again, with the workspace of the sightings, and a journal in the state folder says what
is about to be ended.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal

from selftest_core.cleanup.selection import ALL, Selection
from selftest_core.errors import SelftestError, ToolMissingError
from selftest_core.fleet.watch.fleet_cache import fleet_folder
from selftest_core.frozen import dataclass
from selftest_core.journal import Journal
from selftest_core.modal.hidden import account_to_watch, look
from selftest_core.modal.modal_probe import ask
from selftest_core.tools.mngr import find_mngr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.modal.account import ModalAccount
    from selftest_core.modal.sightings import Sighting
    from selftest_core.tools.mngr import MngrProgram

type Kind = Literal["sandboxes"]

MOST = 20
"""Sandboxes that one sweep ends."""
_ENDING = 60.0
"""Seconds for ending them all: nobody waits at a screen."""
_JOURNAL = "modal-sweeps.jsonl"


@dataclass(frozen=True, slots=True)
class ModalLeftover:
    """The sandboxes that may be ended now. `names`: their ids. `path`: the folder of the sightings and the journal."""

    path: Path
    says: str
    names: tuple[str, ...]
    place: tuple[str, str, str]
    kind: Kind = "sandboxes"


async def modal_leftovers(
    environ: Mapping[str, str], selection: Selection = ALL
) -> tuple[tuple[ModalLeftover, ...], tuple[str, ...]]:
    """Find hidden sandboxes, in a sweep without limits, and messages about those that are kept or were not checked."""
    if not selection.includes_demos:
        return (), ()
    try:
        program = find_mngr(environ)
        account = account_to_watch(program, environ)
        if account is None:
            return (), ()
        found = await look(program, environ, account, fleet_folder(environ))
    except ToolMissingError:
        return (), ()  # without mngr there are none; who needs it says so
    except (SelftestError, OSError) as error:
        return (), (f"the sandboxes on Modal were not checked: {' '.join(str(error).split())}",)
    ready = [one for one in found.hidden if not one.kept_reason()][:MOST]
    waiting = [one for one in found.hidden if one.kept_reason()]
    kept = tuple(f"{one.sandbox} on Modal, which mngr does not see, is kept: {one.kept_reason()}" for one in waiting)
    if not ready:
        return (), kept
    more = sum(not one.kept_reason() for one in found.hidden) - len(ready)
    place = (found.answer.workspace, account.environment, account.app)
    count = "1 live sandbox" if len(ready) == 1 else f"{len(ready)} live sandboxes"
    later = f" ({more} more in the next sweep)" if more else ""
    says = f"Modal, workspace {place[0]}: {count} that mngr does not see{later}"
    return (ModalLeftover(fleet_folder(environ), says, tuple(one.sandbox for one in ready), place),), kept


async def remove_modal(leftover: ModalLeftover, environ: Mapping[str, str]) -> tuple[str, ...]:
    """End the sandboxes that still may be ended; return messages about the others."""
    try:
        program = find_mngr(environ)
        account = account_to_watch(program, environ)
        if account is None or (account.environment, account.app) != leftover.place[1:]:
            return ("mngr's account of Modal has changed: kept",)
        found = await look(program, environ, account, leftover.path)
        if found.answer.workspace != leftover.place[0]:
            return (f"Modal's workspace is {found.answer.workspace} now, not {leftover.place[0]}: kept",)
        ready = [one for one in found.hidden if one.sandbox in leftover.names and not one.kept_reason()]
        problems = await _end(program, environ, account, ready, leftover)
    except (SelftestError, OSError) as error:
        return (" ".join(str(error).split("\n")),)
    ending, alive = {one.sandbox for one in ready}, {one.id for one in found.answer.sandboxes}
    reasons = {one.sandbox: one.kept_reason() for one in found.hidden}
    kept = [one for one in leftover.names if one in alive and one not in ending]
    return (
        *(f"{one}: {reasons.get(one, 'mngr sees it now')}: kept" for one in kept),
        *(f"{one}: {text}" for one, text in problems.items()),
    )


async def _end(
    program: MngrProgram,
    environ: Mapping[str, str],
    account: ModalAccount,
    ready: Sequence[Sighting],
    leftover: ModalLeftover,
) -> Mapping[str, str]:
    """End sandboxes, each written down before and after; return why it failed, by sandbox."""
    names = [one.sandbox for one in ready]
    if not names:
        return {}
    with Journal(leftover.path / _JOURNAL) as journal:
        said = [{"sandbox": one.sandbox, "host": one.host_id, "first_seen": one.first} for one in ready]
        journal.append("ending", time.time(), place=list(leftover.place), sandboxes=said)
        answer = await asyncio.to_thread(
            ask, program, environ, account, terminate=names, workspace=leftover.place[0], seconds=_ENDING
        )
        problems = dict(answer.problems or {})
        journal.append("ended", time.time(), sandboxes=[one for one in names if one not in problems], problems=problems)
    return problems
