"""What outlives a process: written whole, read with suspicion."""

from __future__ import annotations

import json
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import scenes
from selftest_core.fleet.fold import to_remember
from selftest_core.fleet.watch import fleet_cache

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.fleet.observations import RememberedAgent


@pytest.mark.parametrize("make", [scenes.few, scenes.hostile, scenes.provider_down, scenes.empty])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, make: object) -> None:
    agents = to_remember(make().fleet)  # type: ignore[operator]
    folder = tmp_path / "not there yet"
    fleet_cache.save(folder, agents)
    assert fleet_cache.load(folder).agents == agents
    assert fleet_cache.load(folder).problem == ""


def test_only_its_owner_may_read_it_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    fleet_cache.save(folder, to_remember(scenes.few().fleet))
    (path,) = folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_each_host_folder_has_its_own(tmp_path: Path) -> None:
    base = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    default = fleet_cache.fleet_folder(base)
    other = fleet_cache.fleet_folder({**base, "MNGR_HOST_DIR": str(tmp_path / "other")})
    assert default != other
    assert default.parent == other.parent == tmp_path / "state" / "selftest-tui"
    same = fleet_cache.fleet_folder({**base, "MNGR_HOST_DIR": str(tmp_path / "x" / ".." / "other")})
    assert same == other


@pytest.mark.parametrize("named", ["", "relative/state"])
def test_without_a_usable_state_home_it_is_the_default_one(tmp_path: Path, named: str) -> None:
    folder = fleet_cache.fleet_folder({"HOME": str(tmp_path), "XDG_STATE_HOME": named})
    assert folder.is_relative_to(tmp_path / ".local" / "state" / "selftest-tui")


def test_nothing_there_is_no_complaint(tmp_path: Path) -> None:
    assert fleet_cache.load(tmp_path) == fleet_cache.CachedFleet()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not complete JSON"),
        (b'{"format": 1, "agents": [', "not complete JSON"),
        (b"\xff\xfe\x00", "not complete JSON"),
        (b"[" * 100_000, "not complete JSON"),
        (b"[]", "not a file of selftest-tui"),
        (b'{"agents": {}}', "not a file of selftest-tui"),
        (b'{"format": 2, "agents": []}', "another version"),
        (b'{"agents": []}', "another version"),
        (b'{"format": 1, "agents": [null, 3, {}, {"as_of": 1, "agent": []}]}', "4 agents"),
        (b'{"format": 1, "agents": [{"as_of": NaN, "agent": {}}]}', "1 agents"),
    ],
)
def test_a_broken_or_foreign_file_is_told_of_and_not_used(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / fleet_cache.FILE_NAME).write_bytes(content)
    memory = fleet_cache.load(tmp_path)
    assert memory.agents == ()
    assert says in memory.problem
    assert str(tmp_path) in memory.problem
    assert fleet_cache.load(tmp_path).agents == ()
    fleet_cache.save(tmp_path, to_remember(scenes.few().fleet))
    assert fleet_cache.load(tmp_path).problem == ""


def test_one_unusable_agent_costs_no_other(tmp_path: Path) -> None:
    agents = to_remember(scenes.few().fleet)
    fleet_cache.save(tmp_path, agents)
    path = tmp_path / fleet_cache.FILE_NAME
    document = json.loads(path.read_text())
    document["agents"][0]["agent"]["name"] = 7
    document["agents"][1]["agent"]["state"] = "NO SUCH STATE"
    del document["agents"][2]["agent"]["host"]["id"]
    document["agents"][3]["agent"]["labels"] = {"a": 1}
    path.write_text(json.dumps(document))
    memory = fleet_cache.load(tmp_path)
    assert memory.agents == agents[4:]
    assert "4 agents" in memory.problem


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / fleet_cache.FILE_NAME).open("wb") as file:
        file.truncate(fleet_cache.MOST_BYTES + 1)
    assert "too large" in fleet_cache.load(tmp_path).problem


def test_a_folder_in_the_place_of_the_file_is_told_of(tmp_path: Path) -> None:
    (tmp_path / fleet_cache.FILE_NAME).mkdir()
    assert "cannot be read" in fleet_cache.load(tmp_path).problem
    with pytest.raises(OSError, match="directory"):
        fleet_cache.save(tmp_path, ())
    assert [path.name for path in tmp_path.iterdir()] == [fleet_cache.FILE_NAME]


def test_writers_beside_each_other_leave_one_or_the_other_whole(tmp_path: Path) -> None:
    few, many = to_remember(scenes.few().fleet), to_remember(scenes.hundred().fleet)

    def write(agents: tuple[RememberedAgent, ...]) -> bool:
        fleet_cache.save(tmp_path, agents)
        return fleet_cache.load(tmp_path).agents in (few, many)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, [few, many] * 10))
    assert [path.name for path in tmp_path.iterdir()] == [fleet_cache.FILE_NAME]


def test_it_is_light() -> None:
    import subprocess

    program = "import sys, selftest_core.fleet.watch.fleet_cache, selftest_core.fleet.fold; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert not {"pydantic", "textual", "rich", "asyncio", "subprocess"} & set(done.stdout.split())
