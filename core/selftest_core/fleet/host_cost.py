"""Cost of a host on Modal until now, labelled as what it is: metered by Modal, or estimated from a setting. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from selftest_core.frozen import dataclass
from selftest_core.modal.account import MODAL

if TYPE_CHECKING:
    from selftest_core.agents import Host
    from selftest_core.fleet.view import ModalCosts

type CostLabel = Literal["metered", "estimated"]


@dataclass(frozen=True, slots=True)
class HostCost:
    """USD until now. `metered`: told by Modal, whole hours of the last days; `estimated`: its age times a setting."""

    usd: float
    label: CostLabel


def host_cost(host: Host, costs: ModalCosts, now: float) -> HostCost | None:
    """Return the cost of a host at `now`; None off Modal, and where neither Modal nor a setting tells it."""
    if host.provider != MODAL:
        return None
    metered = costs.metered.get(host.id)
    if metered is not None:
        return HostCost(metered, "metered")
    if costs.usd_per_hour <= 0 or host.boot_time is None or host.boot_time > now:
        return None
    return HostCost((now - host.boot_time) / 3600 * costs.usd_per_hour, "estimated")
