"""Sandboxes that live and that mngr does not see are told and ended, by the real mngr and `modal`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from grpclib.const import Status

from on_modal.control_plane import APP, TERMINATED
from selftest_core import journal
from selftest_core.fleet.watch.fleet_cache import fleet_folder
from selftest_core.modal import sightings
from selftest_core.modal.account import account_of
from selftest_core.run.conduct.launcher import NO_ROOM
from standins import mngr_that
from worlds import BIN

if TYPE_CHECKING:
    from pathlib import Path

    from on_modal.control_plane import ControlPlane
    from worlds import World

pytestmark = pytest.mark.modal

TAGGED, UNTAGGED = f"sb-{'a' * 30}", f"sb-{'b' * 30}"
HOST = f"host-{'1' * 32}"


@pytest.fixture
def leaking(world: World, plane: ControlPlane) -> World:
    """A world whose mngr has an app on Modal, with a tagged and an untagged sandbox that no host record names."""
    world.extra |= plane.environment(world.root)
    world.load_mngr()
    mngr(world, "list")
    account = account_of(world.environment)
    assert account is not None
    plane.apps[account.environment, account.app] = APP
    plane.add(TAGGED, HOST)
    plane.add(UNTAGGED)
    return world


def mngr(world: World, *arguments: str) -> dict[str, Any]:
    """Return mngr's own answer about Modal."""
    text = world.mngr(*arguments, "--format", "json", "--provider", "modal")
    return dict(json.loads(text))


def program(world: World, *arguments: str) -> Any:
    done = world.run([BIN / "selftest-tui", *arguments], check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def folder(world: World) -> Path:
    return fleet_folder(world.environment)


def let_pass(world: World, seconds: float) -> None:
    """Let the sightings of now be so many seconds older."""
    seen = sightings.load(folder(world))
    older = tuple(replace(one, first=one.first - seconds, last=one.last - seconds) for one in seen.hidden)
    sightings.save(folder(world), replace(seen, hidden=older))


def swept(world: World) -> tuple[dict[str, Any], ...]:
    return tuple(one for one in program(world, "sweep", "--json", "--yes")["leftovers"] if one["kind"] == "sandboxes")


def living(plane: ControlPlane) -> set[str]:
    return {identity for identity, one in plane.sandboxes.items() if not one.ended}


def test_a_hidden_sandbox_is_told_after_its_second_sighting_and_ended_by_sweep(
    leaking: World, plane: ControlPlane
) -> None:
    assert mngr(leaking, "list")["agents"] == []
    assert mngr(leaking, "list", "--hosts")["hosts"] == []

    assert swept(leaking) == ()  # the first sighting
    let_pass(leaking, sightings.APART)
    errors = {one["key"]: one for one in program(leaking, "list", "--json")["errors"]}
    assert "1 sandbox lives on Modal, unseen by mngr" in errors["modal"]["message"]
    assert TAGGED in errors["modal"]["message"]
    assert UNTAGGED not in errors["modal"]["message"]  # a new one has no tag either
    assert "sweep" in errors["modal"]["hint"]

    listed = program(leaking, "sweep", "--json")["leftovers"]  # without --yes nothing ends
    assert [one["names"] for one in listed if one["kind"] == "sandboxes"] == [[TAGGED]]
    assert living(plane) == {TAGGED, UNTAGGED}

    (ended,) = swept(leaking)
    assert (ended["removed"], ended["problems"]) == (True, [])
    assert plane.sandboxes[TAGGED].ended == TERMINATED
    assert living(plane) == {UNTAGGED}
    let_pass(leaking, sightings.UNTAGGED_AGE)
    assert [one["names"] for one in swept(leaking)] == [[UNTAGGED]]
    assert living(plane) == set()

    entries = journal.read((folder(leaking) / "modal-sweeps.jsonl").read_bytes()).entries
    assert [one.event for one in entries] == ["ending", "ended", "ending", "ended"]
    assert [one["sandbox"] for one in entries[0].fields["sandboxes"]] == [TAGGED]
    assert entries[0].fields["place"][0] == "ann"


def test_a_sandbox_of_a_host_that_mngr_sees_is_neither_told_nor_ended(leaking: World, plane: ControlPlane) -> None:
    leaking.make_repository()
    plane.fails["SandboxCreateV2"] = [(Status.RESOURCE_EXHAUSTED, "the workspace has 100 sandboxes")]
    create = ["create", "one@.modal", "--type", "command", "--no-connect", "--headless", "--", "sleep", "100"]
    done = leaking.run([BIN / "mngr", *create], check=False)
    assert NO_ROOM.search(done.stderr[-1500:])  # what a launch that failed keeps of it
    (host,) = mngr(leaking, "list", "--hosts")["hosts"]  # mngr wrote down that it failed
    assert host["state"] == "FAILED"
    seen = plane.add(f"sb-{'c' * 30}", host["id"])

    swept(leaking)
    let_pass(leaking, sightings.UNTAGGED_AGE)
    assert [one["names"] for one in swept(leaking)] == [[TAGGED, UNTAGGED]]
    assert living(plane) == {seen}


def test_sweep_ends_nothing_where_mngr_answers_with_something_else(leaking: World, plane: ControlPlane) -> None:
    swept(leaking)
    let_pass(leaking, sightings.UNTAGGED_AGE)
    mngr_that(leaking, "echo '{}'")

    done = leaking.run([BIN / "selftest-tui", "sweep", "--json", "--yes"], check=False)

    assert "were not checked: mngr list cannot be read" in done.stderr
    assert living(plane) == {TAGGED, UNTAGGED}


def test_sweep_ends_nothing_where_mngr_does_not_answer_or_another_workspace_does(
    leaking: World, plane: ControlPlane
) -> None:
    swept(leaking)
    let_pass(leaking, sightings.UNTAGGED_AGE)

    plane.fails["VolumeListFiles2"] = [(Status.PERMISSION_DENIED, "the volume is broken")] * 50
    done = leaking.run([BIN / "selftest-tui", "sweep", "--json", "--yes"], check=False)
    assert "were not checked: mngr does not see all hosts of modal" in done.stderr
    plane.fails.clear()

    plane.workspaces["ak-bob"] = "bob"
    leaking.extra |= {"MNGR__PROVIDERS__MODAL__TOKEN_ID": "ak-bob", "MNGR__PROVIDERS__MODAL__TOKEN_SECRET": "as-bob"}
    done = leaking.run([BIN / "selftest-tui", "sweep", "--json", "--yes"], check=False)
    assert "mngr and this shell use different workspaces of Modal" in done.stderr
    leaking.extra["MODAL_TOKEN_ID"] = "ak-bob"  # now both are another workspace: its sandboxes are seen first now
    assert swept(leaking) == ()
    assert living(plane) == {TAGGED, UNTAGGED}
    assert not plane.calls["SandboxTerminateV2"]
