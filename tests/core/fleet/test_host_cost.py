"""The cost of a host on Modal says what it is: metered by Modal, estimated from a setting, or not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import scenes
from selftest_core.fleet.host_cost import HostCost, host_cost
from selftest_core.fleet.view import ModalCosts
from selftest_core.schema.fleet import list_document
from selftest_tui.fleet.pane.details import row_facts

if TYPE_CHECKING:
    from selftest_core.agents import Host

NOW = 1_000_000.0
HOST = replace(scenes.MODAL, boot_time=NOW - 1800)
METERED = {HOST.id: 0.25}


@pytest.mark.parametrize(
    ("host", "costs", "wanted"),
    [
        (HOST, ModalCosts(METERED, 2.0), HostCost(0.25, "metered")),
        (HOST, ModalCosts({}, 2.0), HostCost(1.0, "estimated")),
        (HOST, ModalCosts(), None),
        (replace(HOST, boot_time=None), ModalCosts({}, 2.0), None),
        (replace(HOST, boot_time=NOW + 60), ModalCosts({}, 2.0), None),  # a clock that jumped
        (replace(HOST, provider="boxes"), ModalCosts(METERED, 2.0), None),
    ],
)
def test_a_cost_is_metered_or_estimated_or_unknown(host: Host, costs: ModalCosts, wanted: HostCost | None) -> None:
    assert host_cost(host, costs, NOW) == wanted


def test_the_fleet_and_its_json_label_the_cost_of_agents_on_modal_alone() -> None:
    view = replace(scenes.few().view, modal_costs=ModalCosts({scenes.MODAL.id: 0.254}))
    told = {agent.provider: agent.host_cost for agent in list_document(view).agents}
    assert told["modal"] is not None
    assert (told["modal"].usd, told["modal"].label) == (0.254, "metered")
    assert told["local"] is None
    (row,) = [row for row in view.rows if row.agent.host == scenes.MODAL][:1]
    assert dict(row_facts(row, view, view.at))["host cost"] == "0.25 USD  (metered)"
