"""`~text`: what all panes show is searched, and the hits become the selection."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from cockpit import Driven, Seats, driven
from worlds import eventually

if TYPE_CHECKING:
    from worlds import World


def says(world: World, seats: Seats, name: str, text: str, lines: int = 0) -> None:
    """An agent whose pane shows a text, `lines` lines above its bottom."""
    script = f"#!/bin/sh\necho '{text}'\nseq {lines}\nexec sleep 1000\n"
    seats.seat(name, world.script(name, script if lines else script.replace("seq 0\n", "")))
    wanted = str(lines) if lines else text
    eventually(lambda: wanted in world.tmux("capture-pane", "-p", "-t", f"=mngr-{name}:"))


def marked(it: Driven) -> set[str]:
    return {row.agent.name for row in it.app.fleet.marked_rows()}


async def search(it: Driven, *keys: str) -> None:
    await it.press("tilde", *keys, "enter")


async def test_the_agents_that_show_it_become_the_selection(world: World) -> None:
    seats = Seats(world)
    says(world, seats, "one", "Connection[bold]Refused here")
    says(world, seats, "two", "all is well")
    says(world, seats, "three", "a connection[bold]refused again")
    seats.stopped("four")
    async with driven(seats) as it:
        await search(it, *"connection[bold]ref")
        await it.until(lambda: marked(it) == {"one", "three"}, "the hits are marked")
        await it.until(lambda: "2 agents marked" in it.toasts)
        assert "Connection[bold]Refused here" in it.toasts


async def test_nothing_found_is_said_and_marks_stay(world: World) -> None:
    seats = Seats(world)
    says(world, seats, "one", "all is well")
    async with driven(seats) as it:
        it.app.fleet.select_keys([it.app.fleet.view.rows[0].key])
        await search(it, *"nowhere")
        await it.until(lambda: "None of 1 shows it" in it.toasts)
        assert marked(it) == {"one"}


async def test_the_scrollback_is_searched_on_request(world: World) -> None:
    seats = Seats(world)
    says(world, seats, "one", "needle", lines=200)
    async with driven(seats) as it:
        await search(it, *"needle")
        await it.until(lambda: "None of 1 shows it" in it.toasts)
        await it.press("tilde", *"needle", "ctrl+r", "enter")
        await it.until(lambda: marked(it) == {"one"})


async def test_what_cannot_be_searched_is_said_and_the_rest_is_found(world: World) -> None:
    seats = Seats(world)
    says(world, seats, "one", "needle")
    says(world, seats, "dies", "needle")
    async with driven(seats) as it:
        world.tmux("kill-session", "-t", "=mngr-dies")
        await search(it, *"needle")
        await it.until(lambda: marked(it) == {"one"})
        await it.until(lambda: "1 could not be searched" in it.toasts)


async def test_what_agents_said_is_searched_too_and_told_apart(world: World) -> None:
    seats = Seats(world)
    says(world, seats, "one", "needle on the screen")
    says(world, seats, "two", "all is well")
    seats.agents[1] = replace(seats.agents[1], type="claude")
    transcript = world.host_dir / "agents" / seats.agents[1].id / "events/claude/common_transcript/events.jsonl"
    transcript.parent.mkdir(parents=True)
    call = {"function_name": "Bash", "arguments": {"command": "grep needle ."}}
    step = {"type": "step", "source": "agent", "message": "I look.", "tool_calls": [call]}
    transcript.write_text(f"{json.dumps(step)}\n")
    async with driven(seats) as it:
        await search(it, *"needle")
        await it.until(lambda: marked(it) == {"one", "two"}, "the hits are marked")
        await it.until(lambda: "1 line on screens, 1 in conversations" in it.toasts)
        assert "in conversations of two: grep needle ." in it.toasts


async def test_what_a_stopped_agent_said_is_found_where_there_is_no_terminal_at_all(world: World) -> None:
    seats = Seats(world)
    seats.stopped("one")
    seats.agents[0] = replace(seats.agents[0], type="claude")
    transcript = world.host_dir / "agents" / seats.agents[0].id / "events/claude/common_transcript/events.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text(json.dumps({"type": "step", "source": "agent", "message": "a needle"}) + "\n")
    async with driven(seats) as it:
        await search(it, *"needle")
        await it.until(lambda: marked(it) == {"one"}, "the hit is marked")
