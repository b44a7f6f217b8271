"""The preview of a run on Modal and the doctor tell the workspace, its live sandboxes, free slots and the cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from grpclib.const import Status

from on_modal.control_plane import APP, TIMEOUT
from selftest_core.modal.account import account_of
from selftest_core.run.clock import WallClock
from selftest_core.run.crew.crew import Life, Seen
from selftest_core.run.crew.modal_hosts import ModalHosts
from selftest_core.tools.mngr import Mngr, find_mngr
from worlds import BIN

if TYPE_CHECKING:
    from pathlib import Path

    from on_modal.control_plane import ControlPlane
    from worlds import World

pytestmark = pytest.mark.modal
HOST = f"host-{'1' * 32}"


@pytest.fixture
def on_modal(world: World, plane: ControlPlane) -> World:
    """A world whose mngr has an app on Modal, where two sandboxes live."""
    world.extra |= plane.environment(world.root)
    world.load_mngr()
    world.mngr("list", "--provider", "modal")
    account = account_of(world.environment)
    assert account is not None
    plane.apps[account.environment, account.app] = APP
    plane.add(f"sb-{'a' * 30}", HOST)
    plane.add(f"sb-{'b' * 30}")
    return world


def test_the_preview_tells_free_slots_and_cost_and_the_doctor_the_workspace(
    on_modal: World, plane: ControlPlane
) -> None:
    repository = on_modal.make_repository()
    (repository / "test_one.py").write_text("def test_one():\n    pass\n")
    (repository / "agent.sh").write_text("#!/bin/sh\nexit 0\n")
    (repository / "agent.sh").chmod(0o755)
    on_modal.run(["git", "add", "."])
    on_modal.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "Test"])
    run: list[str | Path] = [BIN / "selftest-tui", "run", "--dry-run", "--on", "modal", "--agent-command", "./agent.sh"]

    told = json.loads(on_modal.run([*run, "--json", "--set", "modal_sandboxes=5"]).stdout)["modal"]
    assert (told["workspace"], told["live"], told["free"]) == ("ann", 2, 3)
    assert (told["metered_usd"], told["billed_usd"], told["problem"]) == (12.5, 2.5, "")
    plane.fails["WorkspaceBillingSummary"] = [(Status.PERMISSION_DENIED, "only managers may see the bill")]
    text = " ".join(on_modal.run(run).stdout.split())
    assert "workspace ann: 2 sandboxes of mngr's live now; how many more fit is not known" in text
    assert "only managers may see the bill" in text

    checks = json.loads(on_modal.run([BIN / "selftest-tui", "doctor", "--json"], check=False).stdout)["checks"]
    (modal,) = [one for one in checks if one["name"] == "modal"]
    assert modal["status"] == "warning"
    assert "workspace ann, 2 live sandboxes" in modal["says"]


async def test_a_lost_host_is_explained_by_how_its_sandbox_ended(on_modal: World, plane: ControlPlane) -> None:
    environ = on_modal.environment
    hosts = ModalHosts(Mngr(find_mngr(environ), environ, on_modal.root), WallClock())
    lost = {"agent-1": Seen(Life.LOST, host_id=HOST, provider="modal", detail="its host is CRASHED")}
    hosts.note()
    await hosts.settled()
    plane.sandboxes[f"sb-{'a' * 30}"].ended = TIMEOUT
    explained = await hosts.explained(lost, {"agent-1": HOST})
    assert explained["agent-1"].detail == "its host is CRASHED: its sandbox reached its timeout (exit status 124)"
    other = await hosts.explained({"agent-2": Seen(Life.WORKING), "agent-3": Seen(Life.LOST, host_id="host-9")}, {})
    assert [one.detail for one in other.values()] == ["", ""]
