"""tmux's servers found, asked, and understood, with names that try to break the answer."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.errors import ToolFailedError, ToolMissingError, ToolOutputError
from selftest_core.tools.tmux import PANE_FORMAT, SEPARATOR, Tmux, own_server, parse_panes, quote, sockets_of

if TYPE_CHECKING:
    from worlds import World

HOSTILE = "a\tb\n\x1b[31mc" + SEPARATOR + "\x1fd\u202e é 漢 #{pid} %1 ' \" \\ ; $HOME"


def start(world: World, *arguments: str, name: str = "default") -> Tmux:
    world.tmux("-L", name, "-f", "/dev/null", "new-session", "-d", *arguments)
    return Tmux(str(world.socket.with_name(name)), world.environment)


def test_every_socket_of_the_user_is_found_and_mngrs_own_comes_first(world: World) -> None:
    start(world, name="zebra")
    start(world, name="ant")
    (world.socket.parent / "no-socket").write_text("a plain file")
    named = world.root / "far" / "away"
    found = sockets_of(world.environment, ("zebra", "word", str(named)))
    folder = world.socket.parent
    assert found == (
        str(folder / "default"),
        str(folder / "ant"),
        str(folder / "zebra"),
        str(folder / "word"),
        str(named),
    )


def test_the_server_that_we_run_in_is_one_of_them(world: World) -> None:
    inside = {**world.environment, "TMUX": "/elsewhere/a,b/socket,123,4", "TMUX_PANE": "%7"}
    assert own_server(inside) == ("/elsewhere/a,b/socket", "%7")
    assert "/elsewhere/a,b/socket" in sockets_of(inside)
    assert own_server(world.environment) is None


def test_a_folder_that_is_not_there_is_not_used_as_tmux_does_not_either(world: World) -> None:
    gone = {**world.environment, "TMUX_TMPDIR": str(world.root / "nowhere")}
    assert sockets_of(gone)[0] == str(Path("/tmp").resolve() / f"tmux-{os.getuid()}" / "default")


def test_a_pane_is_told_whole(world: World) -> None:
    tmux = start(world, "-s", "x y", "-n", "agent", "sleep 1000")
    world.tmux("set-option", "-t", "=x y:", "@mngr_agent_id", "agent-1")
    world.tmux("set-option", "-t", "=x y:", "@mngr_agent_pane", "%0")
    world.tmux("select-pane", "-t", "=x y:", "-T", "a title")
    (pane,) = tmux.panes()
    assert (pane.session, pane.window, pane.agent_id, pane.agent_pane) == ("x y", "agent", "agent-1", "%0")
    assert (pane.session_id, pane.pane_id, pane.title) == ("$0", "%0", "a title")
    assert pane.pid > 1
    assert not pane.is_dead
    assert pane.session_created > 1_700_000_000
    assert pane.session_windows == 1
    assert pane.session_attached == 0


def test_no_name_title_or_option_can_pretend_to_be_another_pane(world: World) -> None:
    tmux = start(world, "-s", "one", "-n", HOSTILE, "sleep 1000")
    start(world, "-s", "two", "sleep 1000")
    world.tmux("set-option", "-t", "=one:", "@mngr_agent_id", HOSTILE)
    world.tmux("set-option", "-t", "=one:", "@mngr_agent_pane", HOSTILE)
    world.tmux("select-pane", "-t", "=one:", "-T", HOSTILE.replace("\n", " "))
    panes = tmux.panes()
    assert [pane.session for pane in panes] == ["one", "two"]
    for value in (panes[0].window, panes[0].agent_id, panes[0].agent_pane):
        assert value.startswith("a")
        assert not set(value) & {"\n", "\t", "\x1b", "\x1f", SEPARATOR}
    assert "漢" in panes[0].agent_id


def test_a_program_with_a_hostile_name_is_one_pane(world: World) -> None:
    script = world.script("odd", "#!/bin/bash\nexec -a \"$(printf 'x\\ty\\nz\\033')\" sleep 1000\n")
    tmux = start(world, "-s", "one", str(script))
    start(world, "-s", "two", "sleep 1000")
    assert [pane.session for pane in tmux.panes()] == ["one", "two"]


@pytest.mark.parametrize("text", ["1␞2\n", SEPARATOR * 18 + "\n", "no such thing"])
def test_another_answer_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_panes(text)


def test_no_panes_are_no_error() -> None:
    assert parse_panes("") == ()


def test_the_format_needs_no_more_room_than_a_client_has() -> None:
    assert len(PANE_FORMAT.encode()) < 8000


@pytest.mark.parametrize("word", ["", "plain", "it's", HOSTILE, "a\\", "''", "x;", "~{}$a #(touch x)"])
def test_a_quoted_word_comes_through_as_it_is(world: World, word: str) -> None:
    tmux = start(world, "-s", "one", "sleep 1000")
    tmux.run("source-file", "-", text=f"set-buffer -b given -- {quote('>' + word)}\n")
    assert tmux.run("show-buffer", "-b", "given") == ">" + word


def test_a_server_that_is_gone_is_said_to_be(world: World) -> None:
    tmux = start(world, "-s", "one", "sleep 1000")
    world.end_server()
    with pytest.raises(ToolFailedError, match="is gone"):
        tmux.panes()


def test_a_socket_that_nobody_listens_on_is_a_server_that_is_gone(world: World) -> None:
    world.socket.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(world.socket))
    with pytest.raises(ToolFailedError, match="is gone"):
        Tmux(str(world.socket), world.environment).panes()


def test_a_session_that_is_not_there_is_said_to_be_gone(world: World) -> None:
    tmux = start(world, "-s", "one", "sleep 1000")
    with pytest.raises(ToolFailedError, match="session is gone"):
        tmux.run("list-windows", "-t", "=on")


def test_without_tmux_the_error_says_how_to_get_it(world: World) -> None:
    empty = world.root / "empty"
    empty.mkdir()
    with pytest.raises(ToolMissingError) as raised:
        Tmux(str(world.socket), {**world.environment, "PATH": str(empty)}).panes()
    assert "install" in raised.value.hint.lower()
