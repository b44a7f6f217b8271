"""Plans for getting into a session: pure where they can be, on real tmux servers where they are run."""

from __future__ import annotations

import shlex

import pytest

from selftest_core.actions.attach import AttachPlan, plan_attach
from selftest_core.actions.terminal import hand_over
from selftest_core.agents import Agent, Host, Ssh, State
from selftest_core.errors import RefusedError, SelftestError, ToolFailedError
from selftest_core.fleet.observations import TmuxSession
from selftest_core.fleet.view import Category, Row
from selftest_core.tools.tmux import SessionRef
from worlds import World, eventually


def row(
    *, session: SessionRef | None = None, ssh: Ssh | None = None, provider: str = "local", name: str = "one"
) -> Row:
    host = Host(id="host-1", name="box", provider=provider, state="RUNNING", ssh=ssh)
    agent = Agent(id="agent-1", name=name, type="command", host=host, state=State.WAITING, state_word="WAITING")
    return Row(agent=agent, category=Category.WAITING, source="probe", session=session)


def start(world: World, name: str, *, server: str = "default", command: str = "sleep 1000") -> SessionRef:
    world.tmux("-L", server, "-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "80", "-y", "24", command)
    return SessionRef(str(world.socket.with_name(server)), name)


def inside(world: World, ref: SessionRef) -> dict[str, str]:
    """The environment of a program in this session."""
    asked = ("display-message", "-p", "-t", f"={ref.name}:", "#{pid},#{session_id} #{pane_id}")
    told = world.tmux("-S", ref.socket, *asked)
    server, pane = told.replace("$", "").split()
    return {**world.environment, "TMUX": f"{ref.socket},{server}", "TMUX_PANE": pane}


def test_outside_tmux_the_terminal_is_handed_over(world: World) -> None:
    ref = start(world, "mngr-one")
    plan = plan_attach(row(session=ref), world.environment)
    assert plan.kind == "hand over"
    assert plan.argv[1:] == ("-u", "-N", "-S", ref.socket, "attach-session", "-t", "=mngr-one")
    assert "TMUX" not in plan.env
    assert "C-b d" in plan.warning
    assert (plan.socket, plan.session) == (ref.socket, ref)


def test_the_key_that_detaches_is_the_servers_own(world: World) -> None:
    ref = start(world, "mngr-one")
    world.tmux("set-option", "-g", "prefix", "C-a")
    assert "C-a d" in plan_attach(ref, world.environment).warning


def test_one_learns_that_somebody_else_is_attached(world: World) -> None:
    ref = start(world, "other")
    session = TmuxSession(ref=ref, session_id="$0", created_at=0, activity_at=0, windows=1, attached=1)
    assert "Another client" in plan_attach(session, world.environment).warning


@pytest.mark.parametrize("server", ["default", "person"])
def test_inside_tmux_a_window_opens_and_the_supervisor_stays(world: World, server: str) -> None:
    agent = start(world, "mngr-one", command="echo I am the agent; sleep 1000")
    person = start(world, "mine", server=server)
    plan = plan_attach(row(session=agent), inside(world, person))
    assert plan.kind == "window"
    end = hand_over(plan)
    assert end.exit_status == 0

    def shown() -> str:
        return world.tmux("-L", server, "capture-pane", "-p", "-t", "=mine:", check=False)

    eventually(lambda: "I am the agent" in shown(), "the agent in the person's new window")
    assert world.tmux("-L", server, "list-windows", "-t", "=mine", "-F", "#{window_index}").split() == ["0", "1"]
    world.tmux("-L", server, "kill-window", "-t", "=mine:1")
    assert "mngr-one" in world.tmux("list-sessions", "-F", "#{session_name}")


def test_what_is_typed_at_the_first_attach_reaches_the_agent(world: World) -> None:
    agent = start(world, "mngr-one", command='read -r line; echo "heard <$line>"; sleep 1000')
    # As mngr sets it for the first agent, where the shell of the popup can wait for Enter.
    popup = "display-popup -E 'echo Welcome to your first agent!; read -r line' ; display-message kept"
    world.tmux("set-hook", "-t", "=mngr-one:", "client-attached[99]", popup)
    world.tmux("set-hook", "-t", "=mngr-one:", "client-attached[7]", "set-option -g @mine ran")
    person = start(world, "mine", server="person")
    hand_over(plan_attach(agent, inside(world, person)))
    eventually(lambda: world.tmux("show-options", "-gqv", "@mine"), "the other hook")
    world.tmux("-L", "person", "send-keys", "-t", "=mine:", "typed", "Enter")
    eventually(lambda: "heard <typed>" in world.tmux("capture-pane", "-p", "-t", "=mngr-one:"), "the text there")


def test_the_window_closes_when_the_agents_session_ends(world: World) -> None:
    agent, person = start(world, "mngr-one"), start(world, "mine", server="person")
    hand_over(plan_attach(agent, inside(world, person)))
    eventually(lambda: world.tmux("list-clients"), "a client")
    world.tmux("kill-session", "-t", "=mngr-one")
    eventually(lambda: world.tmux("-L", "person", "list-windows", "-t", "=mine").count("\n") == 1, "one window left")


def test_names_that_a_shell_or_tmux_could_read_otherwise(world: World) -> None:
    odd = "x #{pid} $(id) 'q' \" y;"
    start(world, odd.removesuffix(";"), command="echo the wrong one; sleep 1000")
    start(world, "plain", command="echo odd one; sleep 1000")
    # tmux takes a bare semicolon at the end of a word for the end of the command.
    world.tmux("rename-session", "-t", "=plain", "--", odd.replace(";", "\\;"))
    (name,) = (line for line in world.tmux("list-sessions", "-F", "#{session_name}").splitlines() if ";" in line)
    ref = SessionRef(str(world.socket), name)
    person = start(world, "mine", server="person")
    hand_over(plan_attach(ref, inside(world, person)))
    eventually(lambda: "odd one" in world.tmux("-L", "person", "capture-pane", "-p", "-t", "=mine:"), "that session")


def test_one_is_not_attached_to_oneself(world: World) -> None:
    own = start(world, "mine")
    with pytest.raises(RefusedError, match="already"):
        plan_attach(own, inside(world, own))


def test_a_window_that_cannot_open_is_an_error(world: World) -> None:
    agent, person = start(world, "mngr-one"), start(world, "mine", server="person")
    plan = plan_attach(agent, inside(world, person))
    world.end_server("-L", "person")
    with pytest.raises(ToolFailedError, match="is gone"):
        hand_over(plan)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (row(), "no tmux session"),
        (row(provider="modal"), "cannot be reached"),
        (row(provider="boxes", ssh=Ssh(command="  ")), "cannot be reached"),
    ],
)
def test_what_cannot_be_attached_is_refused_with_the_reason(world: World, what: Row, why: str) -> None:
    with pytest.raises(SelftestError, match=why) as raised:
        plan_attach(what, world.environment)
    assert raised.value.detail


def test_a_remote_agent_is_reached_by_its_hosts_command_which_a_shell_reads(world: World) -> None:
    command = "printf '<%s>' 'a b' \"c'd\""
    plan = plan_attach(row(provider="boxes", ssh=Ssh(command=command), name="it's"), world.environment)
    assert (plan.kind, plan.socket, plan.session) == ("hand over", None, None)
    assert plan.argv[:2] == ("/bin/sh", "-c")
    done = world.run(plan.argv).stdout
    assert done.startswith("<a b><c'd><-t><")
    over_there = shlex.split(done.removeprefix("<a b><c'd><-t><").removesuffix(">"))
    assert over_there[:3] == ["exec", "sh", "-c"]
    assert shlex.split(over_there[3])[-1] == "=mngr-it's"


def test_inside_tmux_a_remote_agent_opens_a_window_too(world: World) -> None:
    person = start(world, "mine", server="person")
    ssh = Ssh(command="sh -c 'echo reached \"$@\"; sleep 1000' -")
    plan = plan_attach(row(provider="boxes", ssh=ssh), inside(world, person))
    assert isinstance(plan, AttachPlan)
    hand_over(plan)
    eventually(lambda: "reached -t exec" in world.tmux("-L", "person", "capture-pane", "-p", "-t", "=mine:"), "it runs")
