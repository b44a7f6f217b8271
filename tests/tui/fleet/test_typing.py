"""Typing into the preview: every key reaches the agent, in order, and none becomes a command."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import pytest
from textual import events

import run_scenes
from cockpit import Seats, driven
from selftest_core.actions.send_keys import Keystroke
from selftest_tui.fleet.pane.typist import keystroke
from selftest_tui.run.screen import RunScreen
from selftest_tui.shared.widgets.key_bar import KeyBar
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

RECORDS = """#!/bin/sh
stty raw -echo
: > {path}
printf ready
exec cat >> {path}
"""


def recorder(world: World, name: str) -> tuple[Path, Path]:
    """A program that writes every byte it is given into a file; the file, and the program."""
    path = world.root / f"{name}.typed"
    return path, world.script(name, RECORDS.format(path=path))


@pytest.mark.parametrize(
    ("key", "character", "expected"),
    [
        ("a", "a", Keystroke(text="a")),
        ("A", "A", Keystroke(text="A")),
        ("space", " ", Keystroke(text=" ")),
        ("plus", "+", Keystroke(text="+")),
        ("semicolon", ";", Keystroke(text=";")),
        ("é", "é", Keystroke(text="é")),
        ("enter", "\r", Keystroke(name="enter")),
        ("escape", "\x1b", Keystroke(name="escape")),
        ("tab", "\t", Keystroke(name="tab")),
        ("shift+tab", None, Keystroke(name="tab", shift=True)),
        ("ctrl+c", "\x03", Keystroke(text="c", ctrl=True)),
        ("ctrl+backslash", "\x1c", Keystroke(text="\\", ctrl=True)),
        ("ctrl+underscore", "\x1f", Keystroke(text="_", ctrl=True)),
        ("ctrl+circumflex_accent", "\x1e", Keystroke(text="^", ctrl=True)),
        ("alt+minus", None, Keystroke(text="-", alt=True)),
        ("ctrl+@", "\x00", Keystroke(text="@", ctrl=True)),
        ("alt+b", None, Keystroke(text="b", alt=True)),
        ("ctrl+left", None, Keystroke(name="left", ctrl=True)),
        ("shift+enter", None, Keystroke(name="enter", shift=True)),
        ("f5", None, Keystroke(name="f5")),
        ("super+a", None, None),
        ("<ignore>", None, None),
    ],
)
def test_each_key_of_the_keyboard_is_the_same_key_there(key: str, character: str | None, expected: Keystroke) -> None:
    assert keystroke(key, character) == expected


async def test_three_hundred_keys_arrive_exactly(world: World) -> None:
    path, program = recorder(world, "typed")
    other, program_of_other = recorder(world, "other")
    seats = Seats(world)
    seats.seat("one", program)
    seats.seat("two", program_of_other)
    typed = (string.ascii_letters + string.digits + "qqDDSs!~/;'\"\\#{}$`?<>|&*( )[]" * 10)[:300]
    async with driven(seats) as it:
        await it.go_to("one")
        await it.until(lambda: "ready" in it.preview)
        await it.press("i")
        await it.until(lambda: it.pane.is_typing and it.pane.has_class("-typing"))
        assert "TYPING · ctrl+] leaves" in str(it.pane.border_subtitle)
        for character in typed:  # as fast as they can be given
            it.app.simulate_key(character)
        await it.press("escape", "enter", "ctrl+c", "up")
        expected = typed.encode() + b"\x1b\r\x03\x1b[A"
        await it.until(lambda: len(path.read_bytes()) >= len(expected), "all keys")
        assert path.read_bytes() == expected
        assert it.pane.is_typing, "neither escape nor ctrl+c leaves"
        await it.press("ctrl+right_square_bracket")
        await it.until(lambda: not it.pane.is_typing and not it.pane.has_class("-typing"))
        await it.press("j")
        await it.until(lambda: "two" in str(it.pane.border_title))
        assert path.read_bytes() == expected, "keys are commands again"
        await it.until(lambda: "ready" in it.preview, "the other agent")
        assert other.read_bytes() == b""


async def test_a_paste_arrives_whole_between_the_keys_around_it(world: World) -> None:
    path, program = recorder(world, "pasted")
    seats = Seats(world)
    seats.seat("one", program)
    async with driven(seats) as it:
        await it.go_to("one")
        await it.until(lambda: "ready" in it.preview)
        await it.press("i", "a")
        it.app.post_message(events.Paste("two\nlines; #{x}\x1b[201~"))
        await it.press("b")
        expected = b"atwo\nlines; #{x}b"
        await it.until(lambda: len(path.read_bytes()) >= len(expected), "the paste")
        assert path.read_bytes().replace(b"\r", b"\n") == expected


async def test_what_is_typed_is_seen(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("i", "h", "e", "y", "enter")
        await it.until(lambda: it.preview.count("hey") == 2, "the line, and cat's answer")


async def test_typing_ends_with_a_word_when_the_pane_dies(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    seats.seat("two", "cat")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("i")
        await it.until(lambda: it.pane.is_typing)
        world.tmux("kill-session", "-t", "=mngr-one")
        await it.press("x")
        await it.until(lambda: not it.pane.is_typing)
        await it.until(lambda: "typing has ended" in it.toasts)


async def test_no_key_ever_reaches_another_agent(world: World) -> None:
    _, program = recorder(world, "a")
    other, program_b = recorder(world, "b")
    seats = Seats(world)
    seats.seat("one", program)
    seats.seat("two", program_b)
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("i", "x")
        await it.until(lambda: it.pane.is_typing)
        del seats.agents[0]
        it.watch.show(seats.view())
        await it.until(lambda: not it.pane.is_typing)
        await it.until(lambda: "two" in str(it.pane.border_title))
        eventually(other.exists)
        assert other.read_bytes() == b""


async def test_there_must_be_something_to_type_into(world: World) -> None:
    seats = Seats(world)
    seats.stopped("still")
    async with driven(seats) as it:
        await it.go_to("still")
        await it.press("i")
        await it.until(lambda: it.toasts)
        assert not it.pane.is_typing


async def test_any_session_can_be_typed_into(world: World) -> None:
    seats = Seats(world)
    path, program = recorder(world, "other")
    ref = seats.other("other", program)
    async with driven(seats) as it:
        assert it.app.fleet.table.go_to_key(ref)
        await it.until(lambda: "ready" in it.preview)
        await it.press("i", "o", "k")
        await it.until(lambda: path.read_bytes() == b"ok")


async def test_on_the_run_s_screen_too_every_key_reaches_the_agent(world: World) -> None:
    path, program = recorder(world, "tester")
    seats = Seats(world)
    seats.seat("tester", program)
    told = run_scenes.story(world.root / "runs", 2)
    told.launch(0, 10.0)
    folder = told.write()
    async with driven(seats) as it:
        it.app.show_run(folder)
        await it.until(lambda: isinstance(it.app.screen, RunScreen) and it.app.screen.run_now, "the run")
        screen = it.app.screen
        assert isinstance(screen, RunScreen)
        assert screen.table.go_to_key(told.plan.tests[1].agent_name)
        await it.press("i")
        assert "it has no agent yet" in screen.said[-1].text
        assert screen.table.go_to_key(told.plan.tests[0].agent_name)
        await it.press("i")
        await it.until(lambda: screen.is_typing and screen.pane.has_class("-typing"), "typing")
        assert screen.pane.tab == "terminal"
        assert "TYPING" in screen.query_one(KeyBar).render().plain
        await it.press("q", "P", "E", "escape", "ctrl+c", "enter")
        expected = b"qPE\x1b\x03\r"
        await it.until(lambda: path.read_bytes() == expected, "all keys")
        assert screen.is_typing
        await it.press("ctrl+right_square_bracket")
        await it.until(lambda: not screen.is_typing and not screen.pane.has_class("-typing"), "the end of typing")
        assert screen.focused is screen.table
        await it.press("i", "x")
        await it.until(lambda: path.read_bytes() == expected + b"x", "a key again")
        assert screen.table.go_to_key(told.plan.tests[1].agent_name)
        await it.until(lambda: not screen.is_typing, "typing ends with its pane")
        assert path.read_bytes() == expected + b"x"
