"""Acts from the key to the result: exact targets, No by default, a result for each, only the failed again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Static

from cockpit import Driven, Seats, driven, live
from selftest_core.agent_types.condition import Condition, Kind
from selftest_core.agents import State
from selftest_tui.fleet.answers import Answer, Answers
from selftest_tui.shared.dialogs.composer import Composer, PromptArea
from selftest_tui.shared.dialogs.dialogs import Question, Results
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from textual.screen import Screen

READS = '#!/bin/sh\nstty -echo\nwhile read -r line; do echo "$line" >> {path}; echo "got $line"; done\n'


def reader(world: World, name: str) -> tuple[Path, Path]:
    """A program that appends each line it is given to a file; the file, and the program."""
    path = world.root / f"{name}.lines"
    path.touch()
    return path, world.script(name, READS.format(path=path))


def words(screen: Screen[object]) -> str:
    return "\n".join(str(shown.render()) for shown in screen.query(Static))


async def dialog(it: Driven, kind: type[Question | Results | Composer]) -> Screen[object]:
    def is_there() -> bool:
        top = it.app.screen
        return isinstance(top, kind) and top.is_mounted and top.focused is not None

    await it.until(is_there, kind.__name__)
    return it.app.screen


async def test_the_same_text_reaches_all_marked_and_no_other(world: World) -> None:
    seats = Seats(world)
    files = []
    for name in ("one", "two", "three"):
        path, program = reader(world, name)
        files.append(path)
        seats.seat(name, program)
    seats.stopped("still")
    async with driven(seats) as it:
        rows = {row.agent.name: row.key for row in it.app.fleet.view.rows}
        it.app.fleet.select_keys([rows["one"], rows["two"], rows["still"]])
        await it.press("I")
        shown = words(await dialog(it, Composer))
        assert rows["one"].agent_id in shown
        assert rows["two"].agent_id in shown
        assert rows["three"].agent_id not in shown
        assert "not possible: still" in shown
        await it.press("enter")
        shown = words(await dialog(it, Question))
        assert "(Enter alone)" in shown
        assert rows["one"].agent_id in shown
        await it.press("enter")
        await it.until(lambda: it.app.screen is it.app.fleet)
        assert [path.read_text() for path in files] == ["", "", ""], "Enter in the question is No"
        await it.press("I")
        composer = await dialog(it, Composer)
        assert "send to all 2" in str(composer.query_one("#dialog").border_subtitle)
        await it.press("y", "e", "s", "enter")
        shown_results = await dialog(it, Results)
        await it.until(lambda: "2 done, 0 failed, 0 to go." in words(shown_results))
        await it.until(lambda: [path.read_text() for path in files[:2]] == ["yes\n", "yes\n"], "the text in both")
        assert files[2].read_text() == ""


async def test_only_the_failed_are_tried_again(world: World) -> None:
    seats = Seats(world)
    path, program = reader(world, "lives")
    seats.seat("lives", program)
    seats.seat("dies", "cat")
    async with driven(seats) as it:
        it.app.fleet.select_keys([row.key for row in it.app.fleet.view.rows])
        world.tmux("kill-session", "-t", "=mngr-dies")
        await it.press("I")
        await dialog(it, Composer)
        await it.press("x", "enter")
        results = await dialog(it, Results)
        await it.until(lambda: "1 done, 1 failed, 0 to go." in words(results))
        await it.press("r")
        await it.until(lambda: "dies: " in it.toasts, "the second try of the failed one")
        await it.until(lambda: path.read_text() == "x\n", "what the first try sent")


async def test_a_draft_that_was_left_is_there_again(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("m")
        await dialog(it, Composer)
        await it.press("h", "o", "escape")
        await it.until(lambda: it.app.screen is it.app.fleet)
        await it.press("m")
        composer = await dialog(it, Composer)
        assert composer.query_one(PromptArea).text == "ho"


async def test_the_branch_is_copied_and_said(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("c")
        await it.until(lambda: "mngr/one" in it.toasts)
        assert it.app.clipboard == "mngr/one"


@pytest.mark.parametrize("key", ["s", "D"])
async def test_enter_in_the_question_does_nothing(world: World, key: str) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press(key)
        question = await dialog(it, Question)
        assert it.app.fleet.view.rows[0].agent.id in words(question)
        await it.press("enter")
        await it.until(lambda: it.app.screen is it.app.fleet)
        assert not it.pane.is_typing
        assert world.tmux("list-sessions", "-F", "#S").split() == ["mngr-one"]


@pytest.fixture(scope="module")
def agents() -> Iterator[World]:
    """A world with real agents that read lines."""
    with a_world() as made:
        made.load_mngr()
        for name in ("one", "two"):
            made.create(name, reader(made, name)[1])
        yield made


@pytest.mark.real
async def test_a_message_and_the_end_of_real_agents(agents: World) -> None:
    def state(it: Driven, name: str) -> object:
        rows = [row.agent.state for row in it.app.fleet.view.rows if row.agent.name == name]
        return rows[0] if rows else None

    async with live(agents) as it:
        await it.until(lambda: state(it, "one") is State.WAITING and state(it, "two") is State.WAITING, "two agents")
        await it.go_to("one")
        await it.press("m")
        await dialog(it, Composer)
        await it.press("h", "i", "enter")
        await it.until(lambda: (agents.root / "one.lines").read_text() == "hi\n", "the message")
        await it.until(lambda: "one: sent" in it.toasts)
        assert (agents.root / "two.lines").read_text() == ""
        it.app.fleet.select_keys([row.key for row in it.app.fleet.view.rows])
        await it.press("D")
        question = await dialog(it, Question)
        assert all(row.agent.id in words(question) for row in it.app.fleet.view.rows)
        await it.press("y")
        results = await dialog(it, Results)
        await it.until(lambda: "2 done, 0 failed, 0 to go." in words(results), "both destroyed")
        await it.press("escape")
        await it.until(lambda: not it.app.fleet.view.rows, "gone from the screen")
    assert agents.listing()["agents"] == []


async def test_a_message_to_an_open_dialog_says_what_it_would_do_and_asks(world: World) -> None:
    seats = Seats(world)
    path, program = reader(world, "asking")
    seats.seat("asking", program)
    seats.seat("quiet", reader(world, "quiet")[1])
    asks = Condition(Kind.PERMISSION, "Bash: rm -rf [b]build", source="Claude Code's sessions file")
    seats.agents[0] = replace(seats.agents[0], type="claude", state=State.WAITING, condition=asks)
    async with driven(seats) as it:
        rows = {row.agent.name: row.key for row in it.app.fleet.view.rows}
        await it.go_to("asking")
        await it.press("m")
        question = await dialog(it, Question)
        shown = words(question)
        assert "asking  asks for permission: Bash: rm -rf [b]build" in shown
        assert "Escape" in shown
        await it.press("enter")
        await it.until(lambda: it.app.screen is it.app.fleet, "No by default")
        await it.press("m")
        await dialog(it, Question)
        await it.press("y")
        composer = await dialog(it, Composer)
        assert composer.query_one("#dialog").border_title == "Message asking"
        await it.press("escape")
        it.app.fleet.select_keys(rows.values())
        await it.press("m")
        assert "quiet" not in words(await dialog(it, Question)), "only those with a dialog are named"
        await it.press("escape")
        await it.until(lambda: it.app.screen is it.app.fleet, "escape is No")
        it.app.fleet.select_keys([rows["quiet"]])
        await it.press("m")
        await dialog(it, Composer)
    assert path.read_text() == ""


async def test_the_key_guard_is_switched_and_remembered(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    world.tmux("bind-key", "-n", "C-q", "run-shell", "mngr destroy --session x -f")
    before = world.tmux("list-keys", "-T", "root", "C-q")
    async with driven(seats) as it:
        await it.go_to("one")
        it.app.fleet.action_press("key_guard")
        await it.until(lambda: "Key guard on" in it.toasts)
        assert "confirm-before" in world.tmux("list-keys", "-T", "root", "C-q")
        assert Answers.of(world.environment).of_server(str(world.socket)) is Answer.GUARD
        it.app.fleet.action_press("key_guard")
        await it.until(lambda: "Key guard off" in it.toasts)
        assert Answers.of(world.environment).of_server(str(world.socket)) is Answer.LEAVE
    assert world.tmux("list-keys", "-T", "root", "C-q") == before
