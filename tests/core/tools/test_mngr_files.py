"""mngr's files about its agents, in every state of disrepair."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.tools.mngr_files import AgentFiles, host_dir_of, parse_data, prefix_of

if TYPE_CHECKING:
    from pathlib import Path

NOW = 4_000_000_000.0
"""Long after every file of these tests was written."""


def data(name: str = "one", **more: Any) -> bytes:
    return json.dumps({"name": name, "type": "command", "command": "sleep 1", "work_dir": "/w", **more}).encode()


@pytest.fixture
def files(tmp_path: Path) -> AgentFiles:
    (tmp_path / "agents").mkdir()
    (tmp_path / "host_id").write_text("host-abc\n")
    return AgentFiles({"MNGR_HOST_DIR": str(tmp_path), "HOME": str(tmp_path)})


def make(files: AgentFiles, agent_id: str, content: bytes | None = None) -> Path:
    folder = files.agents_dir / agent_id
    (folder / "activity").mkdir(parents=True)
    (folder / "data.json").write_bytes(data(agent_id) if content is None else content)
    return folder


def test_everything_that_is_said_is_read(files: AgentFiles) -> None:
    folder = make(
        files,
        "agent-1",
        data(
            labels={"a": "b", "n": 3},
            create_time="2026-11-21T09:04:56.422826+00:00",
            created_branch_name="mngr/one",
        ),
    )
    (folder / "active").touch()
    (folder / "permissions_waiting").touch()
    (folder / "activity" / "start").touch()
    os.utime(folder / "activity" / "start", (1000.0, 1000.0))
    looked = files.look(NOW)
    assert looked.host_id == "host-abc"
    (agent,) = looked.agents
    assert (agent.data.id, agent.data.name, agent.data.type) == ("agent-1", "one", "command")
    assert (agent.data.command, agent.data.work_dir, agent.data.branch) == ("sleep 1", "/w", "mngr/one")
    assert agent.data.labels == {"a": "b", "n": "3"}
    assert agent.data.created_at == pytest.approx(1795251896.422826)
    assert (agent.is_active, agent.has_permission_marker, agent.started_at) == (True, True, 1000.0)


def test_a_marker_that_outlived_its_turn_counts_for_nothing(files: AgentFiles) -> None:
    (make(files, "agent-1") / "permissions_waiting").touch()
    (agent,) = files.look(NOW).agents
    assert not agent.has_permission_marker


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b'{"name": "on', "not complete JSON"),
        (b"\x00\xff\xfe", "not complete JSON"),
        (b"[" * 100_000, "not complete JSON"),
        (b"[]", "not an object"),
        (b"{}", "has no name"),
        (b'{"name": 7}', "has no name"),
        (b'{"name": "' + b"x" * 5_000_000 + b'"}', "bytes"),
    ],
)
def test_a_broken_file_is_that_agents_trouble_alone(files: AgentFiles, content: bytes, reason: str) -> None:
    make(files, "agent-1")
    make(files, "agent-2", content)
    make(files, "agent-3")
    looked = files.look(NOW)
    assert [agent.data.id for agent in looked.agents] == ["agent-1", "agent-3"]
    (unreadable,) = looked.unreadable
    assert unreadable.agent_id == "agent-2"
    assert reason in unreadable.message
    assert unreadable.path.endswith("/agents/agent-2/data.json")


def test_what_was_read_once_is_shown_while_the_file_is_broken(files: AgentFiles) -> None:
    path = make(files, "agent-1") / "data.json"
    assert files.look(NOW).agents[0].data.trouble == ""
    path.write_bytes(b'{"na')
    (agent,) = files.look(NOW).agents
    assert agent.data.name == "agent-1"
    assert "last good copy" in agent.data.trouble
    path.write_bytes(data("mended"))
    assert files.look(NOW).agents[0].data.name == "mended"


def test_a_file_is_read_again_when_it_changes_and_never_else(files: AgentFiles) -> None:
    path = make(files, "agent-1") / "data.json"
    first = files.look(NOW).agents[0].data
    assert files.look(NOW).agents[0].data is first
    path.write_bytes(data("second"))
    assert files.look(NOW).agents[0].data.name == "second"


def test_what_is_no_plain_file_is_not_opened(files: AgentFiles, tmp_path: Path) -> None:
    for agent_id in ("agent-1", "agent-2", "agent-3"):
        (make(files, agent_id) / "data.json").unlink()
    os.mkfifo(files.agents_dir / "agent-1" / "data.json")
    (files.agents_dir / "agent-2" / "data.json").symlink_to("/dev/zero")
    (files.agents_dir / "agent-3" / "data.json").mkdir()
    looked = files.look(NOW)
    assert looked.agents == ()
    assert [each.agent_id for each in looked.unreadable] == ["agent-1", "agent-2", "agent-3"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_we_may_not_read_says_so(files: AgentFiles) -> None:
    (make(files, "agent-1") / "data.json").chmod(0)
    assert "ermission" in files.look(NOW).unreadable[0].message


def test_a_folder_without_data_is_an_agent_being_made_and_later_a_trouble(files: AgentFiles) -> None:
    folder = make(files, "agent-1")
    (folder / "data.json").unlink()
    os.utime(folder, (NOW - 1, NOW - 1))
    assert files.look(NOW).unreadable == ()
    assert "no data.json" in files.look(NOW + 60).unreadable[0].message


def test_a_deleted_agent_is_gone_and_a_plain_file_is_none(files: AgentFiles) -> None:
    folder = make(files, "agent-1")
    (files.agents_dir / "agent-2").write_text("not a folder")
    (files.agents_dir / ".hidden").mkdir()
    assert len(files.look(NOW).agents) == 1
    shutil.rmtree(folder)
    looked = files.look(NOW)
    assert looked.agents == ()


def test_no_host_folder_holds_no_agents(tmp_path: Path) -> None:
    looked = AgentFiles({"MNGR_HOST_DIR": str(tmp_path / "nothing")}).look(NOW)
    assert (looked.agents, looked.unreadable, looked.problems, looked.host_id) == ((), (), (), "")


def test_an_agents_folder_that_is_none_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file")
    assert "cannot be read" in AgentFiles({"MNGR_HOST_DIR": str(tmp_path)}).look(NOW).problems[0]


def test_text_is_kept_as_it_came_but_for_what_no_terminal_can_take() -> None:
    read = parse_data("agent-1", b'{"name": "\\u001b[31m\\u202ex", "labels": {"k": "\\ud800"}, "type": 3}')
    assert read.name == "\x1b[31m\u202ex"
    assert read.labels == {"k": "?"}
    assert read.type == ""


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"0\n", 0), (b"3", 3), (b"-9\n", -9), (b"", None), (b"no", None), (b"1" * 40, None), (b"9" * 100, None)],
)
def test_an_exit_status_is_a_small_number_or_nothing(
    files: AgentFiles, tmp_path: Path, content: bytes, status: int | None
) -> None:
    out = tmp_path / "w" / ".selftest" / "out"
    out.mkdir(parents=True)
    assert files.exit_status(str(tmp_path / "w")) is None
    (out / "exit_status").write_bytes(content)
    assert files.exit_status(str(tmp_path / "w")) == status
    (out / "exit_status").unlink()
    assert files.exit_status(str(tmp_path / "w")) is None
    (out / "exit_status").symlink_to("/dev/zero")
    assert files.exit_status(str(tmp_path / "w")) is None


def test_the_host_folder_is_where_mngr_has_it(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert host_dir_of(home) == tmp_path / ".mngr"
    assert host_dir_of({**home, "MNGR_ROOT_NAME": "other"}) == tmp_path / ".other"
    assert host_dir_of({**home, "MNGR_HOST_DIR": "~/x"}) == tmp_path / "x"
    assert host_dir_of({**home, "MNGR_HOST_DIR": "/y", "MNGR_ROOT_NAME": "other"}).as_posix() == "/y"


def test_the_prefix_of_sessions_is_mngrs(tmp_path: Path) -> None:
    assert prefix_of({}, tmp_path) == "mngr-"
    assert prefix_of({"MNGR_ROOT_NAME": "other"}, tmp_path) == "other-"
    (tmp_path / "config.toml").write_text('profile = "p"\n')
    (tmp_path / "profiles" / "p").mkdir(parents=True)
    settings = tmp_path / "profiles" / "p" / "settings.toml"
    settings.write_text('prefix = "mine-"\n')
    assert prefix_of({}, tmp_path) == "mine-"
    assert prefix_of({"MNGR_PREFIX": "env-"}, tmp_path) == "env-"
    settings.write_text("prefix = [broken")
    assert prefix_of({}, tmp_path) == "mngr-"
