"""mngr's C-q and C-t made to ask first, on real tmux servers, with a real client that presses them."""

from __future__ import annotations

import pytest

from selftest_core.actions.confirm_keys import Guard, as_block, bindings, guard, is_guarded, parse_bindings, unguard
from selftest_core.errors import ToolError
from selftest_recorder.e2e.session import open_session
from worlds import World, eventually

# As mngr 0.3.0 writes them into its tmux.conf for local agents.
MNGR_CONF = (
    """bind -n C-q run-shell 'SESSION=$(tmux display-message -p "#{session_name}"); """
    """tmux detach-client -E "mngr destroy --session $SESSION -f"'\n"""
    """bind -n C-t run-shell 'SESSION=$(tmux display-message -p "#{session_name}"); """
    """tmux detach-client -E "mngr stop --session $SESSION"'\n"""
)
WEIRD = [
    """run-shell "echo \\"mngr destroy\\" 'it''s' \\$HOME #{pid} ; echo \\\\; {x} %1" """,
    """run-shell 'mngr destroy' \\; display-message "a ; b" \\; display-message 'c \\; d'""",
    """if-shell -F "#{==:#{session_name},mngr-x}" { run-shell "mngr destroy" } { display-message "no" }""",
    """run-shell "mngr destroy\\nbind-key -T root C-t kill-server" """,
]


class Server:
    """A tmux server with mngr's bindings."""

    def __init__(self, world: World, conf: str = MNGR_CONF) -> None:
        self.world = world
        self.socket = str(world.socket)
        world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "mngr-one", "sleep 1000")
        self.source(conf)

    def source(self, text: str) -> None:
        path = self.world.root / "bindings.conf"
        path.write_text(text)
        self.world.tmux("source-file", str(path))

    def keys(self) -> dict[str, str]:
        return {binding.key: binding.command for binding in bindings(self.socket, self.world.environment)}

    def guard(self) -> tuple[str, ...]:
        return guard(self.socket, self.world.environment)

    def is_guarded(self) -> bool:
        return is_guarded(self.socket, self.world.environment)


@pytest.fixture
def server(world: World) -> Server:
    return Server(world)


def test_mngrs_keys_ask_first_and_keep_mngrs_own_command(server: Server) -> None:
    before = server.keys()
    assert not server.is_guarded()
    assert server.guard() == ("C-q", "C-t")
    assert server.is_guarded()
    after = server.keys()
    for key, command in before.items():
        assert after[key].startswith("confirm-before")
        assert command in after[key]
    assert "DESTROY" in after["C-q"]
    assert "Stop" in after["C-t"]


def test_guarding_again_changes_nothing(server: Server) -> None:
    server.guard()
    once = server.keys()
    assert server.guard() == ()
    assert server.keys() == once


def test_mngr_binding_its_keys_anew_is_noticed(server: Server) -> None:
    server.guard()
    server.source(MNGR_CONF)
    assert not server.is_guarded()
    assert server.guard() == ("C-q", "C-t")
    assert server.is_guarded()


def test_it_can_be_undone(server: Server) -> None:
    before = server.keys()
    server.guard()
    assert unguard(server.socket, server.world.environment) == ("C-q", "C-t")
    assert server.keys() == before
    assert unguard(server.socket, server.world.environment) == ()


@pytest.mark.parametrize("command", WEIRD, ids=range(len(WEIRD)))
def test_any_binding_survives_being_guarded_and_undone(world: World, command: str) -> None:
    server = Server(world, f"bind -n C-q {command}\n")
    before = server.keys()
    assert server.guard() == ("C-q",)
    assert server.is_guarded()
    unguard(server.socket, world.environment)
    assert server.keys() == before


def test_bindings_that_are_not_mngrs_are_left_alone(world: World) -> None:
    server = Server(world, "bind -n C-q display-message mine\nunbind -n C-t\n")
    assert server.is_guarded()
    assert server.guard() == ()
    assert server.keys() == {"C-q": "display-message mine"}


def test_a_server_without_the_keys_needs_no_guard(world: World) -> None:
    server = Server(world, "")
    assert server.is_guarded()
    assert server.guard() == ()


def test_a_server_that_is_gone_is_an_error(server: Server) -> None:
    server.world.end_server()
    with pytest.raises(ToolError, match="is gone"):
        server.guard()
    assert "no server" in server.world.run(["tmux", "list-sessions"], check=False).stderr


@pytest.mark.parametrize(("answer", "does"), [("n", False), ("y", True)])
def test_the_key_asks_the_person_who_presses_it(world: World, answer: str, does: bool) -> None:
    done = world.root / "done"
    # In mngr's place, something to see.
    server = Server(world, f"bind -n C-q run-shell 'echo mngr destroy \"#{{session_name}}\" > {done}'\n")
    server.guard()
    attach = ("tmux", "-S", server.socket, "attach", "-t", "=mngr-one")
    with open_session(attach, environment=world.environment, cwd=world.root) as person:
        person.wait_for("[mngr-one]")
        person.send_keys("C-q")
        person.wait_for("C-q: DESTROY the agent of mngr-one")
        assert not done.exists()
        person.send_keys(answer)
        person.wait_until(lambda screen: "DESTROY" not in screen, "the end of the question")
        if does:
            eventually(lambda: done.exists() and done.read_text() == "mngr destroy mngr-one\n", "mngr's own command")
        else:
            assert not done.exists()


def test_what_list_keys_prints_is_read_whole() -> None:
    text = (
        'bind-key    -T root   C-q        run-shell "a\nb"\n'
        "bind-key -r -T root   C-t        display-message x\n"
        "bind-key    -T prefix C-q        nothing\n"
        "garbage\n"
    )
    read = {binding.key: binding for binding in parse_bindings(text)}
    assert read["C-q"].command == 'run-shell "a\nb"'
    assert read["C-t"].guard is Guard.FREE
    assert parse_bindings("") == ()


def test_commands_are_parted_as_a_block_wants_it() -> None:
    assert as_block("a \\; b 'c \\; d' \"e \\; f\"") == "a ; b 'c \\; d' \"e \\; f\""
    assert as_block("run \\\\; x\\;") == "run \\\\; x\\;"
