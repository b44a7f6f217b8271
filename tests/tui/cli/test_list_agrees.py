"""`selftest-tui list` beside `mngr list` on the same real agents."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tui.cli.programs import by_name, listed, ours
from worlds import eventually

if TYPE_CHECKING:
    from worlds import World

# A real mngr takes ten times as long on a busy machine.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

SAME = ("id", "name", "type", "state", "labels", "command", "work_dir", "pid")


@dataclass
class Zoo:
    """Agents in every state that a command agent can have, and one on a tmux server that is not the default."""

    world: World
    elsewhere: str
    truth: dict[str, dict[str, Any]]
    """What mngr says, without TMUX."""
    truth_elsewhere: dict[str, dict[str, Any]]
    """What mngr says inside the other server."""


@pytest.fixture(scope="module")
def zoo(shared_world: World) -> Zoo:
    world = shared_world
    world.load_mngr()
    work = world.script("work", "#!/bin/sh\nwhile :; do sleep 1000; done\n")
    end = world.script("end", "#!/bin/sh\nexit 3\n")
    world.create("waits", work, labels={"selftest_run": "r1", "selftest_test": "tests/test_a.py::one"})
    running = world.create("runs", work)
    (world.agent_dir(running) / "active").touch()
    world.create("done", end)
    world.create("stopped", work)
    world.tmux("kill-session", "-t", "=mngr-stopped")
    world.tmux("-L", "other", "new-session", "-d", "-s", "mine", "sleep 100000")
    elsewhere = str(world.tmux_dir / f"tmux-{os.getuid()}" / "other")
    world.extra["TMUX"] = f"{elsewhere},0,0"
    world.create("elsewhere", work)

    def truth(**states: str) -> dict[str, dict[str, Any]]:
        said = by_name(world.listing())
        return said if {name: said[name]["state"] for name in states} == states else {}

    truth_elsewhere = eventually(lambda: truth(elsewhere="WAITING"), "an agent on the other server")
    del world.extra["TMUX"]
    truth_here = eventually(lambda: truth(waits="WAITING", runs="RUNNING", done="DONE"), "every agent in its state")
    return Zoo(world, elsewhere, truth_here, truth_elsewhere)


def assert_same(said: dict[str, Any], truth: dict[str, Any]) -> None:
    assert {name: said[name] for name in SAME} == {name: truth[name] for name in SAME}
    assert said["host"]["id"] == truth["host"]["id"]
    assert said["provider"] == truth["host"]["provider_name"]
    assert said["branch"] == truth["initial_branch"]


@pytest.mark.parametrize("inside", [False, True], ids=["plain", "inside another tmux server"])
@pytest.mark.parametrize("wait", [True, False], ids=["asking mngr", "by the probe alone"])
def test_it_says_what_mngr_says(zoo: Zoo, inside: bool, wait: bool) -> None:
    env = {"TMUX": f"{zoo.elsewhere},0,0", "TMUX_PANE": "%0"} if inside else {}
    said = by_name(listed(zoo.world, *([] if wait else ["--no-wait"]), env=env))
    truth = zoo.truth

    assert said.keys() == truth.keys()
    states = {name: agent["state"] for name, agent in truth.items()}
    assert states == {
        "waits": "WAITING", "runs": "RUNNING", "done": "DONE", "stopped": "STOPPED", "elsewhere": "STOPPED",
    }  # fmt: skip
    for name in said.keys() - {"elsewhere"}:
        assert_same(said[name], truth[name])

    # mngr sees it only from its own server, and from there it says the same as we do from anywhere.
    assert_same(said["elsewhere"], zoo.truth_elsewhere["elsewhere"])
    assert said["elsewhere"]["state"] == "WAITING"
    assert said["elsewhere"]["socket"] == zoo.elsewhere


def test_the_document_has_what_scripts_rely_on(zoo: Zoo) -> None:
    document = listed(zoo.world, "--no-wait")

    agent = by_name(document)["waits"]
    assert (agent["run"], agent["test"]) == ("r1", "tests/test_a.py::one")
    assert (agent["attention"], agent["reason"], agent["stale"]) == (False, "", False)
    assert agent["session"] == "mngr-waits"
    assert agent["as_of"].endswith("Z")
    assert document["as_of"].endswith("Z")
    assert document["errors"] == []
    assert [session["name"] for session in document["sessions"]] == ["mine"]


def test_batch_prints_one_line_and_nothing_else(zoo: Zoo) -> None:
    for arguments in (("list", "--batch"), ("--batch", "list"), ("list", "--batch", "--json")):
        done = ours(zoo.world, *arguments, "--no-wait", check=True)
        (line,) = done.stdout.splitlines()
        said = json.loads(line)
        assert (said["event"], said["run"]) == ("summary", None)
        assert said["at"].endswith("Z")
        assert len(said["agents"]) == 5


def test_people_get_a_table_that_fits(zoo: Zoo) -> None:
    out = ours(zoo.world, "list", "--no-wait", env={"COLUMNS": "80"}, check=True).stdout

    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    for name, state in (("waits", "waiting"), ("runs", "running"), ("done", "done"), ("stopped", "stopped")):
        assert any(name in line and state in line for line in out.splitlines()), name
    assert "1 other tmux session" in out


def test_a_provider_that_is_down_is_an_error_beside_the_agents(zoo: Zoo) -> None:
    settings = zoo.world.root / "settings"
    settings.mkdir()
    # Port 1 of this machine: nobody listens there.
    (settings / "settings.toml").write_text(
        '[providers.boxes]\nbackend = "ssh"\n[providers.boxes.hosts.one]\naddress = "127.0.0.1"\nport = 1\n'
    )
    env = {"MNGR_PROJECT_CONFIG_DIR": str(settings)}
    theirs = zoo.world.run(["mngr", "list", "--format", "json"], env=env, check=False)
    assert theirs.returncode != 0

    document = listed(zoo.world, env=env)

    (error,) = document["errors"]
    assert error["provider"] == "boxes"
    assert error["message"]
    assert {name: agent["id"] for name, agent in by_name(document).items()} == {
        name: agent["id"] for name, agent in by_name(json.loads(theirs.stdout)).items()
    }
