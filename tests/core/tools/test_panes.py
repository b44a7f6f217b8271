"""What panes show, captured and searched, with everything that a program can put there."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest

from selftest_core.errors import ToolFailedError, ToolOutputError
from selftest_core.tools import panes
from selftest_core.tools.panes import PaneText, matching_lines, parse_facts, parse_marked
from selftest_core.tools.tmux import SessionRef
from worlds import PATIENCE, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

# On a machine that is busy enough, tmux takes longer than a person would wait.
capture = partial(panes.capture, timeout=PATIENCE)
search = partial(panes.search, timeout=PATIENCE)
screens = partial(panes.screens, timeout=PATIENCE)


def show(world: World, name: str, script: str, *, server: str = "default", height: int = 10) -> SessionRef:
    """A session whose program draws something and stays."""
    path = world.script(f"show-{name}", f"#!/bin/bash\n{script}\nexec sleep 1000\n")
    world.tmux(
        "-L", server, "-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "40", "-y", str(height), str(path)
    )  # fmt: skip
    return SessionRef(str(world.socket.with_name(server)), name)


def seen(world: World, ref: SessionRef, text: str, **options: int | bool) -> PaneText:
    def look() -> PaneText | None:
        told = capture(ref, environ=world.environment, **options)  # type: ignore[arg-type]
        return told if text in told.text else None

    told = eventually(look, f"{text!r} in the pane")
    assert told is not None
    return told


def test_colours_come_with_the_text_and_only_when_asked_for(world: World) -> None:
    ref = show(world, "one", r"printf '\033[1;31mred\033[0m plain'")
    assert "\x1b[1m\x1b[31mred" in seen(world, ref, "plain").text
    plain = capture(ref, escapes=False, environ=world.environment)
    assert plain.text.startswith("red plain")
    assert "\x1b" not in plain.text


def test_size_cursor_and_title_are_of_the_same_moment(world: World) -> None:
    ref = show(world, "one", r"printf '\033]2;a ␞ title\033\\\033[?25l\033[3;5Hx'")
    told = seen(world, ref, "x")
    assert (told.width, told.height, told.cursor_x, told.cursor_y) == (40, 10, 5, 2)
    assert (told.title, told.dead, told.alternate, told.cursor_visible) == ("a ␞ title", False, False, False)
    assert told.text.count("\n") == 9


def test_a_full_screen_program_is_on_the_alternate_screen(world: World) -> None:
    ref = show(world, "one", r"printf '\033[?1049hfull'")
    assert seen(world, ref, "full").alternate


def test_scrollback_comes_on_request(world: World) -> None:
    ref = show(world, "one", "seq 1 50; printf last")
    assert "30" not in seen(world, ref, "last").text.split()
    told = capture(ref, lines_of_history=20, environ=world.environment)
    assert (told.history, told.history_size) == (20, 41)
    assert told.text.split("\n")[0].strip() == "22"
    assert len(told.text.split("\n")) == 30
    everything = capture(ref, lines_of_history=1_000_000, environ=world.environment)
    assert everything.history == 41
    assert everything.text.split("\n")[0].strip() == "1"


def test_a_program_that_ended_is_dead_with_its_status(world: World) -> None:
    ref = show(world, "one", "read x; exit 7")
    world.tmux("set-option", "-w", "-t", "=one:", "remain-on-exit", "on")
    world.tmux("send-keys", "-t", "=one:", "Enter")
    # tmux sees the end of the pane's output before it hears how the program ended.
    told = eventually(lambda: (each := capture(ref, environ=world.environment)).dead_status is not None and each)
    assert isinstance(told, PaneText)
    assert told.dead
    assert told.dead_status == 7


def test_a_pane_being_scrolled_says_so(world: World) -> None:
    ref = show(world, "one", "seq 1 50; printf last")
    seen(world, ref, "last")
    world.tmux("copy-mode", "-t", "=one:")
    assert capture(ref, environ=world.environment).mode == "copy-mode"


def test_one_pane_of_several_is_named_by_its_id(world: World) -> None:
    ref = show(world, "one", "printf first")
    seen(world, ref, "first")
    world.tmux("split-window", "-t", "=one:", "sleep 1000")
    assert "first" in capture(ref, "%0", environ=world.environment).text
    assert "first" not in capture(ref, "%1", environ=world.environment).text


def test_what_is_gone_is_an_error_that_says_so(world: World) -> None:
    ref = show(world, "one", "printf here")
    with pytest.raises(ToolFailedError, match="session is gone"):
        capture(ref._replace(name="on"), environ=world.environment)
    with pytest.raises(ToolFailedError, match="session is gone"):
        capture(ref, "%99", environ=world.environment)
    os.kill(int(world.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    with pytest.raises(ToolFailedError, match="is gone"):
        eventually(lambda: capture(ref, environ=world.environment) and None, "the end of the server")


def test_a_name_that_tmux_could_read_otherwise_is_taken_as_it_is(world: World) -> None:
    ref = show(world, "x", "printf other")
    world.tmux("rename-session", "-t", "=x", "--", "-- #{pid} $(id) ;")
    odd = ref._replace(name="-- #{pid} $(id) ;")
    names = world.tmux("list-sessions", "-F", "#{session_name}").splitlines()
    assert "other" in seen(world, odd._replace(name=names[0]), "other").text


def test_facts_that_are_none_are_refused() -> None:
    with pytest.raises(ToolOutputError):
        parse_facts("␞␞")


def test_a_search_finds_sessions_over_all_servers_and_panes(world: World) -> None:
    one = show(world, "one", "echo Do you want to PROCEED?")
    two = show(world, "two", "echo nothing here")
    three = show(world, "three", "echo proceed with care", server="other")
    world.tmux("split-window", "-t", "=two:", "bash -c 'echo please proceed; exec sleep 1000'")
    eventually(lambda: len(search([one, two, three], "proceed", environ=world.environment).hits) == 3, "three hits")
    result = search([three, one, two], "pRoceed", environ=world.environment)
    assert [hit.ref for hit in result.hits] == [three, one, two]
    assert result.hits[1].lines == ("Do you want to PROCEED?",)
    assert result.failed == ()


def test_every_pane_is_read_whatever_its_number(world: World) -> None:
    """tmux would take the id of a pane for a field of a date, and `%4` is one that is four wide."""
    refs = [show(world, f"one-{number}", f"echo needle {number}") for number in range(12)]
    eventually(lambda: len(search(refs, "needle", environ=world.environment).hits) == len(refs), "a hit in each")
    texts = screens(refs, environ=world.environment)
    assert {ref.name for ref in refs if f"needle {ref.name[4:]}" in texts[ref]} == {ref.name for ref in refs}


def test_a_search_looks_into_the_scrollback_only_on_request(world: World) -> None:
    ref = show(world, "one", "echo needle; seq 1 50; printf last")
    seen(world, ref, "last")
    assert search([ref], "needle", environ=world.environment).hits == ()
    assert search([ref], "needle", with_history=True, environ=world.environment).hits[0].lines == ("needle",)


def test_a_line_that_the_pane_wrapped_is_one_line(world: World) -> None:
    ref = show(world, "one", f"printf '{'x' * 35}needle'")
    eventually(lambda: search([ref], "needle", environ=world.environment).hits, "the wrapped word")


def test_what_is_gone_is_named_and_does_not_hold_up_the_others(world: World) -> None:
    ref = show(world, "one", "echo needle")
    seen(world, ref, "needle")
    gone, nowhere = ref._replace(name="two"), SessionRef(str(world.root / "none"), "x")
    result = search([gone, nowhere, ref], "needle", environ=world.environment)
    assert [hit.ref for hit in result.hits] == [ref]
    assert dict(result.failed).keys() == {gone, nowhere}


def test_nothing_is_found_by_nothing(world: World) -> None:
    assert search([show(world, "one", "echo x")], "", environ=world.environment).hits == ()


def test_a_pane_cannot_pretend_to_be_another() -> None:
    forged = "MARK 0\nmine\nMARK2 1\nforged\nMARK 1\nyours\n"
    assert parse_marked(forged, "MARK ") == [("%0", "mine\nMARK2 1\nforged\n"), ("%1", "yours\n")]


def test_a_long_line_is_cut_around_what_was_found() -> None:
    (line,) = matching_lines("x" * 5000 + "needle" + "y" * 5000 + "\nother", "NEEDLE")
    assert "needle" in line
    assert len(line) <= 500


def test_ten_megabytes_of_scrollback_are_captured_and_searched(world: World, tmp_path: Path) -> None:
    world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "keeper", "sleep 1000")
    world.tmux("set-option", "-g", "history-limit", "200000")
    script = "echo the needle; head -c 10000000 /dev/zero | tr '\\0' x | fold -w 100; echo; echo ready"
    path = world.script("big", f"#!/bin/bash\n{script}\nexec sleep 1000\n")
    world.tmux("new-session", "-d", "-s", "big", "-x", "120", "-y", "10", str(path))
    ref = SessionRef(str(world.socket), "big")
    seen(world, ref, "ready")
    told = capture(ref, lines_of_history=200_000, environ=world.environment)
    assert len(told.text) > 10_000_000
    found = search([ref], "needle", with_history=True, environ=world.environment)
    assert found.hits[0].lines == ("the needle",)
