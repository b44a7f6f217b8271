"""One question to Modal ends within its deadline with a reason, whatever the control plane does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from grpclib.const import Status

from on_modal.control_plane import APP, PAGE
from selftest_core.errors import RefusedError, ToolError
from selftest_core.modal.account import ModalAccount
from selftest_core.modal.modal_probe import _read, ask
from selftest_core.tools.mngr import MngrProgram
from worlds import BIN

if TYPE_CHECKING:
    from pathlib import Path

    from on_modal.control_plane import ControlPlane

pytestmark = pytest.mark.modal
PROGRAM = MngrProgram(BIN / "mngr", "environment")
ACCOUNT = ModalAccount("modal", "mngr-u", "mngr-modal")


def environment(plane: ControlPlane, folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": "/usr/bin:/bin", **plane.environment(folder)}


def test_all_pages_are_read_with_their_tags_and_a_brief_outage_is_waited_out(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.apps["mngr-u", "mngr-modal"] = APP
    wanted = {plane.add(f"sb-{number:030}", f"host-{number}" if number % 3 else None) for number in range(2 * PAGE + 5)}
    plane.fails["SandboxListV2"] = [(Status.UNAVAILABLE, "try again")]
    answer = ask(PROGRAM, environment(plane, tmp_path), ACCOUNT, look=True)
    assert {one.id for one in answer.sandboxes} == wanted
    assert sum(not one.host_id for one in answer.sandboxes) == len(range(0, 2 * PAGE + 5, 3))
    assert plane.calls["SandboxListV2"] >= 4


@pytest.mark.parametrize(
    ("fault", "title"),
    [
        ((Status.UNAUTHENTICATED, "token expired"), "Modal refuses the token"),
        ((Status.RESOURCE_EXHAUSTED, "slow down"), "Modal limits the rate of requests"),
        (None, "Modal does not answer"),
    ],
    ids=["token", "limit", "silence"],
)
def test_a_fault_is_a_sentence(
    plane: ControlPlane, tmp_path: Path, fault: tuple[Status, str] | None, title: str
) -> None:
    plane.apps["mngr-u", "mngr-modal"] = APP
    if fault is None:
        plane.hangs.add("SandboxListV2")
    else:
        plane.fails["SandboxListV2"] = [fault] * 100
    with pytest.raises(ToolError) as raised:
        ask(PROGRAM, environment(plane, tmp_path), ACCOUNT, look=True)
    assert raised.value.title == title


def test_a_cost_that_is_no_number_costs_only_the_costs() -> None:
    answer = _read({"workspace": "ann", "costs": {"host-1": "None"}})
    assert (answer.workspace, answer.costs, answer.costs_problem) == (
        "ann", None, "Modal's client told a cost that is no number",
    )  # fmt: skip


def test_nothing_is_ended_in_another_workspace_or_for_a_profile_that_is_not_there(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.apps["mngr-u", "mngr-modal"] = APP
    sandbox = plane.add(f"sb-{'a' * 30}")
    environ = environment(plane, tmp_path)
    with pytest.raises(RefusedError, match="another one now"):
        ask(PROGRAM, environ, ACCOUNT, terminate=[sandbox], workspace="bob")
    with pytest.raises(ToolError, match="Modal"):
        ask(PROGRAM, environ, ModalAccount("modal", "mngr-u", "mngr-modal", profile="work"), terminate=[sandbox])
    assert not plane.sandboxes[sandbox].ended
    gone = f"sb-{'b' * 30}"
    answer = ask(PROGRAM, environ, ACCOUNT, terminate=[sandbox, gone], poll=[gone], workspace="ann")
    assert (answer.problems, answer.exits) == ({}, {})
    assert plane.sandboxes[sandbox].ended
