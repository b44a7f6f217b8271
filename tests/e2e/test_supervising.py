"""A person at work: the real program in a real terminal, over a real agent of the real mngr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_recorder.e2e.session import open_session
from worlds import BIN, eventually

if TYPE_CHECKING:
    from worlds import World

# It says what it is told, and writes it down, where no screen can pretend it.
LISTENER = (
    '#!/bin/sh\necho listening\nwhile read -r line; do echo "$line" >> "$HOME/heard"; echo "heard <$line>"; done\n'
)


def test_attach_type_detach_and_be_back(world: World) -> None:
    # The screen would ask for all providers too, which are none here; that costs as much again.
    world.extra["SELFTEST_TUI_REMOTE"] = "false"
    agent_id = world.create("listener", world.script("listener", LISTENER))
    heard = world.home / "heard"
    with open_session(
        [BIN / "selftest-tui"], environment=world.environment, cwd=world.repository, columns=120, lines=30
    ) as terminal:
        # Its row, and beside it what its terminal shows.
        terminal.wait_for("○ listener")
        terminal.wait_for("listening")

        terminal.send_keys("Enter")
        terminal.wait_for("Make Ctrl-Q and Ctrl-T ask first?")
        terminal.send_keys("y")
        terminal.wait_for("[mngr-listener]")
        terminal.type_text("from inside")
        terminal.send_keys("Enter")
        terminal.wait_for("heard <from inside>")

        # mngr's key for "destroy" asks now, and No leaves the agent alone.
        terminal.send_keys("C-q")
        terminal.wait_for("(y/n)")
        terminal.send_keys("n")
        terminal.wait_until(lambda screen: "(y/n)" not in screen, "the question gone")

        terminal.resize(110, 26)
        eventually(lambda: world.tmux("list-clients", "-F", "#{client_width}").strip() == "110", "the client resized")

        terminal.send_keys("C-b", "d")
        terminal.wait_for("q quit")
        assert world.tmux("list-clients") == ""

        # Typed from the preview, without attaching.
        terminal.send_keys("i")
        terminal.wait_for("^]")
        terminal.type_text("from outside")
        terminal.send_keys("Enter")
        terminal.wait_for("heard <from outside>")
        terminal.send_keys("C-]")
        terminal.wait_for("q quit")

        # ctrl+q quits nothing here: the next key still finds the program.
        terminal.send_keys("C-q", "?")
        terminal.wait_for("Find and arrange")
        terminal.send_keys("Escape")
        terminal.wait_until(lambda screen: "Find and arrange" not in screen, "the help closed")
        terminal.send_keys("q")
        assert terminal.wait_for_end() == 0
    assert heard.read_text() == "from inside\nfrom outside\n"
    (agent,) = world.listing()["agents"]
    assert (agent["id"], agent["state"]) == (agent_id, "WAITING")
