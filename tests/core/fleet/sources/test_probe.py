"""The probe: its rules on made-up panes, then its looks at real tmux servers with agents written by hand."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.agents import State
from selftest_core.fleet.sources.probe import Probe
from selftest_core.fleet.state_rules import expected_process, state_by_processes
from selftest_core.tools.tmux import Pane, SessionRef
from worlds import eventually

if TYPE_CHECKING:
    from selftest_core.fleet.observations import LocalAgent, Probed
    from worlds import World

LONG_AGO = "2020-01-01T00:00:00+00:00"


def pane(command: str, *, dead: bool = False) -> Pane:
    return Pane(
        session_id="$0", session_created=0, session_activity=0, session_attached=0, session_windows=1, window_index=0,
        window_is_active=True, window_activity=0, bell=False, pane_id="%0", is_active=True, is_dead=dead, pid=10,
        agent_pane="%0", session="mngr-x", window="agent", command=command, agent_id="agent-x", title="",
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What is seen, and the state that mngr would give."""

    state: State | None
    foreground: str
    below: tuple[str, ...] = ()
    type: str = "command"
    command: str = "/x/work --now"
    active: bool = False
    blocked: bool = False
    dead: bool = False


CASES = {
    "alive, as tmux shows it": Case(State.WAITING, "work"),
    "alive, as ps shows it": Case(State.WAITING, "python", ("work",)),
    "alive, further down": Case(State.WAITING, "sh", ("sh", "work")),
    "marked active": Case(State.RUNNING, "work", active=True),
    "a command agent knows no dialog": Case(State.RUNNING, "work", active=True, blocked=True),
    "ended, at the prompt": Case(State.DONE, "bash"),
    "ended, with something in the background": Case(State.DONE, "zsh", ("sleep",)),
    "the marker outlived it": Case(State.DONE, "bash", active=True),
    "dead pane": Case(State.DONE, "work", dead=True),
    "another program": Case(State.REPLACED, "vim", ("vim",)),
    "only shells left, with an odd title": Case(State.DONE, "2.1.73", ("sh",)),
    "started within brackets": Case(State.WAITING, "bash", ("work",), command="( /x/work --now ) &"),
    "no command at all": Case(State.DONE, "bash", command=""),
    "claude alive": Case(State.WAITING, "2.1.73", ("claude",), type="claude", command="sh -c 'export A; claude'"),
    "claude at work": Case(State.RUNNING, "claude", type="claude", active=True),
    "claude before a dialog": Case(State.WAITING, "claude", type="claude", active=True, blocked=True),
    "claude gone": Case(State.DONE, "bash", type="claude"),
    "claude gone, helpers left": Case(None, "bash", ("sleep",), type="claude"),
    "claude replaced": Case(None, "vim", ("vim",), type="claude"),
    "unknown type, its command alive": Case(None, "work", type="odd"),
    "unknown type, active": Case(None, "work", type="odd", active=True),
    "unknown type, something else runs": Case(None, "vim", ("vim",), type="odd"),
    "unknown type, only a shell left": Case(State.DONE, "bash", type="odd"),
    "unknown type, dead pane": Case(State.DONE, "work", type="odd", dead=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_rules_are_mngrs(case: Case) -> None:
    judged = state_by_processes(
        case.type,
        case.command,
        pane(case.foreground, dead=case.dead),
        "bash",
        tuple(enumerate(case.below, 11)),
        is_active=case.active,
        is_blocked=case.blocked,
    )
    assert judged.state is case.state
    assert judged.reason


def test_the_main_process_is_named_while_it_lives() -> None:
    judged = state_by_processes(
        "command", "work", pane("sh"), "bash", ((11, "sh"), (12, "work")), is_active=False, is_blocked=False
    )
    assert judged.pid == 12
    judged = state_by_processes("command", "work", pane("bash"), "bash", (), is_active=False, is_blocked=False)
    assert judged.pid is None


def test_the_process_of_an_agent_is_the_first_word_of_its_command() -> None:
    assert expected_process("command", "/usr/bin/python3 x.py") == "python3"
    assert expected_process("command", "") == ""
    assert expected_process("claude", "env A=1 bash wrapper") == "claude"


class Local:
    """Agents as mngr leaves them, without mngr: folders written by hand, sessions made by tmux."""

    def __init__(self, world: World) -> None:
        self.world = world
        (world.host_dir / "host_id").write_text("host-1")
        self.probe = Probe(world.environment)

    def file(self, agent_id: str, name: str, **more: Any) -> None:
        folder = self.world.agent_dir(agent_id)
        (folder / "activity").mkdir(parents=True, exist_ok=True)
        data = {"name": name, "type": "command", "command": "sleep 1000", "work_dir": "/w", "create_time": LONG_AGO}
        (folder / "data.json").write_text(json.dumps({**data, **more}))

    def session(
        self, name: str, *, stamp: str = "", server: str = "default", command: str = "sleep 1000"
    ) -> SessionRef:
        self.world.tmux("-L", server, "-f", "/dev/null", "new-session", "-d", "-s", name, "-n", "agent", command)
        if stamp:
            self.world.tmux("-L", server, "set-option", "-t", f"={name}:", "@mngr_agent_id", stamp)
        return SessionRef(str(self.world.socket.with_name(server)), name)

    def look(self) -> Probed:
        return self.probe.look(time.time())

    def agent(self) -> LocalAgent:
        (agent,) = self.look().agents
        return agent


@pytest.fixture
def local(world: World) -> Local:
    return Local(world)


def test_an_agent_is_seen_with_its_session(local: Local) -> None:
    local.file("agent-1", "one", labels={"project": "p"}, created_branch_name="mngr/one")
    ref = local.session("mngr-one", stamp="agent-1")
    eventually(lambda: local.agent().state is State.WAITING, "a waiting agent")
    probed = local.look()
    (agent,) = probed.agents
    assert (probed.host_id, probed.problems) == ("host-1", ())
    assert (agent.session, agent.pane_id, agent.branch, agent.labels) == (ref, "%0", "mngr/one", {"project": "p"})
    assert agent.pid in local.probe.pids
    (server,) = probed.servers
    assert server.is_default
    (session,) = server.sessions
    assert (session.ref, session.agent_id, session.windows, session.attached) == (ref, "agent-1", 1, 0)


def test_looks_at_an_unchanged_world_are_equal(local: Local) -> None:
    local.file("agent-1", "one")
    local.session("mngr-one", stamp="agent-1")
    eventually(lambda: local.agent().state is State.WAITING, "a waiting agent")
    eventually(lambda: local.look().agents == local.look().agents, "nothing that changes by itself")


def test_a_renamed_agent_is_found_by_its_stamp_and_an_older_one_by_its_name(local: Local) -> None:
    local.file("agent-1", "new")
    stamped = local.session("mngr-old", stamp="agent-1")
    assert local.agent().session == stamped
    local.world.tmux("set-option", "-u", "-t", "=mngr-old:", "@mngr_agent_id")
    assert local.agent().session is None
    assert local.agent().state is State.STOPPED
    named = local.session("mngr-new")
    assert local.agent().session == named


def test_a_session_with_anothers_stamp_is_not_taken_by_its_name(local: Local) -> None:
    local.file("agent-1", "one")
    local.session("mngr-one", stamp="agent-of-another-host-folder")
    assert local.agent().session is None


def test_an_agent_is_found_on_another_server_and_that_is_said(local: Local) -> None:
    local.file("agent-1", "one")
    ref = local.session("mngr-one", stamp="agent-1", server="elsewhere")
    agent = local.agent()
    assert agent.session == ref
    assert any("elsewhere" in line for line in agent.notes)
    assert any("mngr shows it as STOPPED" in line for line in agent.notes)


def test_of_two_sessions_that_of_mngrs_own_server_counts_and_the_other_is_named(local: Local) -> None:
    local.file("agent-1", "one")
    other = local.session("mngr-one", stamp="agent-1", server="another")
    own = local.session("mngr-one", stamp="agent-1")
    agent = local.agent()
    assert agent.session == own
    assert agent.other_sessions == (other,)


def test_a_server_far_from_the_folder_is_seen_when_it_is_named(local: Local) -> None:
    far = local.world.root / "far"
    local.world.tmux("-S", str(far), "-f", "/dev/null", "new-session", "-d", "-s", "guest", "sleep 1000")
    assert all(server.socket != str(far) for server in local.look().servers)
    named = Probe(local.world.environment, [str(far)])
    server = next(server for server in named.look(time.time()).servers if server.socket == str(far))
    assert [session.ref.name for session in server.sessions] == ["guest"]
    local.world.end_server("-S", str(far))


def test_a_socket_without_a_server_is_passed_over(local: Local) -> None:
    local.session("mngr-one")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(local.world.socket.with_name("dead")))
    probed = local.look()
    assert [server.socket for server in probed.servers] == [str(local.world.socket)]
    assert probed.problems == ()


def test_a_server_that_hangs_leaves_the_state_open_and_the_others_seen(local: Local) -> None:
    local.file("agent-1", "one")
    local.file("agent-2", "two")
    local.session("mngr-one", stamp="agent-1", server="hung")
    seen = local.session("mngr-two", stamp="agent-2")
    pid = int(local.world.tmux("-L", "hung", "display-message", "-p", "#{pid}"))
    os.kill(pid, signal.SIGSTOP)
    try:
        probed = local.look()
    finally:
        os.kill(pid, signal.SIGCONT)
    one, two = probed.agents
    assert one.state is None
    assert any("not every tmux server answered" in line for line in one.notes)
    assert two.session == seen
    hung = next(server for server in probed.servers if server.socket.endswith("hung"))
    assert "did not answer" in hung.error
    later = local.probe.look(time.time() + 60)
    assert next(agent for agent in later.agents if agent.id == "agent-1").session is not None


def test_a_server_that_dies_takes_its_sessions_and_nothing_else(local: Local) -> None:
    local.file("agent-1", "one")
    local.session("mngr-one", stamp="agent-1")
    assert local.agent().session is not None
    pid = int(local.world.tmux("display-message", "-p", "#{pid}"))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: local.agent().state is State.STOPPED, "the agent stopped with its server")
    assert local.look().problems == ()


def test_without_tmux_the_agents_are_seen_and_their_state_is_left_open(local: Local) -> None:
    local.file("agent-1", "one")
    empty = local.world.root / "empty"
    empty.mkdir()
    probed = Probe({**local.world.environment, "PATH": str(empty)}).look(time.time())
    assert [(agent.name, agent.state) for agent in probed.agents] == [("one", None)]
    assert "tmux is not installed" in probed.problems[0]
    assert len(probed.problems[0].splitlines()) == 2


def test_a_broken_agent_is_named_and_the_others_stand(local: Local) -> None:
    local.file("agent-1", "one")
    local.file("agent-2", "two")
    (local.world.agent_dir("agent-1") / "data.json").write_text('{"name": "o')
    probed = local.look()
    assert [agent.name for agent in probed.agents] == ["two"]
    assert [each.agent_id for each in probed.unreadable] == ["agent-1"]
    (local.world.agent_dir("agent-2") / "data.json").write_text("")
    (still,) = local.look().agents
    assert still.name == "two"
    assert "last good copy" in still.notes[0]


def test_a_dialog_that_waits_is_told(local: Local) -> None:
    local.file("agent-1", "one", type="claude", command="sleep 1000")
    local.session("mngr-one", stamp="agent-1")
    assert not local.agent().waits_for_permission
    for marker in ("active", "permissions_waiting"):
        (local.world.agent_dir("agent-1") / marker).touch()
    eventually(lambda: local.agent().waits_for_permission, "the dialog")


def test_an_exit_status_counts_when_the_agent_has_ended_and_the_folder_is_its_own(local: Local) -> None:
    out = local.world.root / "work" / ".selftest" / "out"
    out.mkdir(parents=True)
    (out / "exit_status").write_text("3\n")
    work = str(local.world.root / "work")
    local.file("agent-1", "one", work_dir=work)
    assert local.agent().exit_status == 3
    local.session("mngr-one", stamp="agent-1")
    eventually(lambda: local.agent().state is State.WAITING, "the agent alive again")
    assert local.agent().exit_status is None
    local.world.end_server()
    eventually(lambda: local.agent().exit_status == 3, "its end")
    local.file("agent-2", "two", work_dir=work)
    assert [agent.exit_status for agent in local.look().agents] == [None, None]


def test_an_agent_being_made_does_not_flash_as_stopped(local: Local) -> None:
    local.file("agent-1", "one")
    start = local.world.agent_dir("agent-1") / "activity" / "start"
    start.touch()
    began = start.stat().st_mtime
    assert [agent.state for agent in local.probe.look(began + 0.5).agents] == [None]
    assert [agent.state for agent in local.probe.look(began + 5).agents] == [State.STOPPED]


def test_a_bell_rings_and_a_title_is_told_as_it_is(local: Local) -> None:
    script = local.world.script("sleep", "#!/bin/sh\nprintf '\\007\\033]2;[red]ti<b>\\033\\\\'\nexec sleep 1000\n")
    local.file("agent-1", "one", command=str(script))
    local.session("mngr-one", stamp="agent-1", command=str(script))
    eventually(lambda: local.agent().bell, "the bell")
    eventually(lambda: local.agent().title == "[red]ti<b>", "the title")


def test_the_pane_that_the_agent_was_started_in_is_the_one_to_type_into(local: Local) -> None:
    local.file("agent-1", "one")
    local.session("mngr-one", stamp="agent-1")
    local.world.tmux("set-option", "-t", "=mngr-one:", "@mngr_agent_pane", "%0")
    local.world.tmux("split-window", "-b", "-t", "=mngr-one:", "sleep 1000")
    assert local.agent().pane_id == "%0"


def test_the_prefix_of_sessions_may_be_another(local: Local) -> None:
    local.file("agent-1", "one")
    ref = local.session("mine-one")
    probe = Probe({**local.world.environment, "MNGR_PREFIX": "mine-"})
    assert probe.look(time.time()).agents[0].session == ref


def test_the_folders_to_watch_are_those_where_something_can_happen(local: Local) -> None:
    world = local.world
    shutil.rmtree(world.host_dir)
    assert world.root in local.probe.watched_paths()
    local.file("agent-1", "one")
    local.file("agent-2", "two")
    local.session("mngr-one", stamp="agent-1")
    world.agent_dir("agent-3").mkdir()
    (world.agent_dir("agent-3").parent / "note").touch()
    local.look()
    folders = local.probe.watched_paths()
    assert {world.agent_dir("agent-1"), world.agent_dir("agent-2"), world.agent_dir("agent-2") / "activity"} <= {
        *folders
    }
    assert world.agent_dir("agent-1") / "activity" not in folders
    assert world.agent_dir("agent-3") in folders, "one that is being made appears at once when it is"
    assert {world.host_dir, world.host_dir / "agents", world.socket.parent} <= {*folders}
    assert all(folder.is_dir() for folder in folders)
