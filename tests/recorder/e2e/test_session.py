"""A program in a terminal of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_recorder.e2e.session import open_session
from worlds import eventually

if TYPE_CHECKING:
    from worlds import World

ASK = 'printf "name? "; read -r name; printf "\\033[31mhello %s\\033[0m\\n" "$name"; read -r end; exit 7\n'


def test_keys_reach_the_program_and_its_screen_comes_back(world: World) -> None:
    script = world.script("ask", f"#!/bin/sh\n{ASK}")
    with open_session([script], environment=world.environment, cwd=world.root, columns=60, lines=8) as session:
        session.wait_for("name?")
        session.type_text("Enter; 'x' C-c")
        session.send_keys("Enter")
        screen = session.wait_for(re.compile(r"^hello .*$", re.MULTILINE))
        assert screen.splitlines()[:2] == ["name? Enter; 'x' C-c", "hello Enter; 'x' C-c"]
        assert "\x1b[31mhello" in session.screen_with_colours()
        assert "\x1b" not in session.screen()
        assert session.exit_status is None
        session.send_keys("Enter")
        assert session.wait_for_end() == 7
        assert "hello" in session.screen()


def test_a_resize_is_told_to_the_program(world: World) -> None:
    script = world.script("size", "#!/bin/sh\ntrap 'stty size' WINCH\nstty size\nwhile :; do sleep 0.05; done\n")
    with open_session([script], environment=world.environment, cwd=world.root, columns=90, lines=20) as session:
        session.wait_for("20 90")
        assert session.size == (90, 20)
        session.resize(70, 15)
        session.wait_for("15 70")


def test_the_environment_is_the_one_given(world: World) -> None:
    environment = {**world.environment, "WORD": "a b'c"}
    with open_session(["env"], environment=environment, cwd=world.root, columns=200, lines=60) as session:
        assert session.wait_for_end() == 0
        shown = dict(line.split("=", 1) for line in session.screen().splitlines() if "=" in line)
    assert shown.pop("TERM") == "screen-256color"
    expected = {name: value for name, value in environment.items() if name != "TERM"}
    assert {name: shown[name] for name in expected} == expected
    assert "TMUX" not in shown


def test_a_program_that_ends_early_says_so_at_once(world: World) -> None:
    script = world.script("early", "#!/bin/sh\necho sorry\nexit 3\n")
    with (
        open_session([script], environment=world.environment, cwd=world.root) as session,
        pytest.raises(AssertionError, match=r"(?s)ended with 3 before 'welcome' came.*sorry"),
    ):
        session.wait_for("welcome")


def test_patience_ends_with_the_last_screen(world: World) -> None:
    with (
        open_session(["cat"], environment=world.environment, cwd=world.root) as session,
        pytest.raises(AssertionError, match=r"'never' did not come"),
    ):
        session.wait_for("never", patience=0)


def test_nothing_is_left_even_of_a_program_that_ignores_its_end(world: World) -> None:
    script = world.script("stubborn", "#!/bin/sh\ntrap '' HUP TERM INT\necho ready\nwhile :; do sleep 1; done\n")
    with open_session([script], environment=world.environment, cwd=world.root, grace=0) as session:
        session.wait_for("ready")
        pid, socket = session.pid, session.socket
        assert socket.exists()
    eventually(lambda: not _runs(pid), "the end of the program")
    assert not socket.parent.exists()


def test_a_killed_program_has_ended(world: World) -> None:
    with open_session(["cat"], environment=world.environment, cwd=world.root) as session:
        eventually(lambda: _name(session.pid) == "cat", "the start of the program")
        session.kill()
        session.wait_for_end()
        assert session.has_ended


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _runs(pid: int) -> bool:
    """True while it runs; one that has ended may wait for a slow init to look."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
