"""Modal as the place of a run: the workspace, the sandboxes that live there now, free slots, and the month's cost.

Modal tells nobody how many sandboxes a workspace may have at once, so free slots need the setting `modal_sandboxes`.
"""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 -- a field of a value
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.modal.account import MODAL
from selftest_core.modal.hidden import account_to_watch
from selftest_core.modal.modal_probe import ask
from selftest_core.run.providers import providers_of

if TYPE_CHECKING:
    from selftest_core.tools.mngr import Mngr


@dataclass(frozen=True, slots=True)
class ModalPlace:
    """Answer of Modal before a run. `live`: sandboxes of this user's mngr; `most`: of the setting, 0 for unknown.

    `metered` and `billed`: USD of the workspace since `since` (a date), before and after credits; None where Modal does
    not tell. `problem`: why something of it is missing.
    """

    workspace: str = ""
    live: int = 0
    most: int = 0
    since: str = ""
    metered: Decimal | None = None
    billed: Decimal | None = None
    problem: str = ""

    @property
    def free(self) -> int | None:
        """Slots that no sandbox of this user's mngr has now, None if that is not known."""
        return max(0, self.most - self.live) if self.most and self.workspace else None


def look_at_modal(mngr: Mngr, provider: str, most: int) -> ModalPlace | None:
    """Ask Modal for a plan with these places, eight seconds at most; None where it runs nothing there."""
    if MODAL not in providers_of(provider):
        return None
    try:
        account = account_to_watch(mngr.program, mngr.environ)
        if account is None:
            return ModalPlace(problem="mngr's plugin for Modal or a token is missing")
        answer = ask(mngr.program, mngr.environ, account, look=True, spend=True)
    except SelftestError as error:
        return ModalPlace(problem=": ".join(part for part in (error.title, error.detail) if part))
    place = ModalPlace(answer.workspace, len(answer.sandboxes), most, problem=answer.spend_problem)
    if answer.spend is None:
        return place
    spend = answer.spend
    return ModalPlace(place.workspace, place.live, most, spend.since, spend.metered, spend.billed)


def modal_lines(place: ModalPlace, at_once: int) -> list[str]:
    """Describe the place in lines of a plan whose agents run `at_once`."""
    lines = []
    if place.workspace:
        count = "1 sandbox" if place.live == 1 else f"{place.live} sandboxes"
        slots = "how many more fit is not known (setting modal_sandboxes)"
        if place.free is not None:
            slots = f"{place.free} of {place.most} slots are free, if nothing else runs in the workspace"
        lines.append(f"workspace {place.workspace}: {count} of mngr's live now; {slots}")
        if place.free is not None and place.free < at_once:
            lines.append(f"fewer than the {at_once} agents at once: launches beyond them wait and are tried again")
    if place.metered is not None and place.billed is not None:
        lines.append(
            f"since {place.since}: {place.metered:.2f} USD metered, {place.billed:.2f} USD billed after credits"
        )
    if place.problem:
        lines.append(f"not all was told: {place.problem}")
    return lines
