"""Explain: whose word was taken, what all others said, and when."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import scenes
from cockpit import Seats, driven
from selftest_core.fleet.view import Evidence
from selftest_tui.fleet.pane.agent_messages import AgentMessages
from selftest_tui.fleet.pane.explain import Explain, explained

if TYPE_CHECKING:
    from worlds import World


def test_each_word_has_its_age_and_one_stands() -> None:
    row = scenes.few().row("st-7f-login-limit")
    evidence = (
        Evidence("probe", scenes.NOW - 2, "its process\nlives [bold]here[/]", stands=True),
        Evidence("mngr", scenes.NOW - 240, "STOPPED"),
    )
    lines = explained(row, evidence, scenes.NOW, 60).plain.splitlines()
    assert lines[0].startswith("◆ needs you, reported by local check")
    assert "It needs you: " in lines[1]
    (stands,) = [line for line in lines if line.startswith("▶ local check")]
    assert "2 s ago" in stands
    assert stands.endswith("its process")
    assert any(line.strip() == "lives [bold]here[/]" for line in lines)
    (other,) = [line for line in lines if line.startswith("  mngr")]
    assert "4 min ago" in other


def test_no_evidence_is_said() -> None:
    row = scenes.few().row("st-7f-login-limit")
    assert "No source has reported it" in explained(row, (), scenes.NOW, 60).plain


async def test_x_shows_the_evidence_of_what_is_selected(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    seats.stopped("two")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("3")
        shown = it.app.fleet.query_one(Explain).query_one("#evidence")
        await it.until(lambda: "▶ local check" in str(shown.render()))
        assert "its process lives" in " ".join(str(shown.render()).split())
        await it.go_to("two")
        await it.until(lambda: "no tmux server of this user has its session" in " ".join(str(shown.render()).split()))


async def test_messages_of_an_agent_without_a_transcript_are_said_to_be_none(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("M")
        shown = it.app.fleet.query_one(AgentMessages).query_one("#said")
        await it.until(lambda: "No messages" in str(shown.render()))


async def test_what_mngr_says_went_wrong_is_shown(world: World) -> None:
    world.make_repository()
    seats = Seats(world)
    seats.seat("one", "cat")
    seats.agents[0] = replace(seats.agents[0], type="claude")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("M")
        shown = it.app.fleet.query_one(AgentMessages).query_one("#said")
        await it.until(lambda: "No hosts found matching" in " ".join(str(shown.render()).split()), "mngr's own words")


async def test_the_messages_of_a_local_agent_are_shown_with_its_calls_and_followed(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    seats.agents[0] = replace(seats.agents[0], type="claude")
    transcript = world.host_dir / "agents" / seats.agents[0].id / "events/claude/common_transcript/events.jsonl"
    transcript.parent.mkdir(parents=True)
    call = {"function_name": "Bash", "arguments": {"command": "pytest [bold]-q"}}
    step = {"type": "step", "source": "agent", "message": "I look.\x1b[2J", "tool_calls": [call]}
    transcript.write_text(f"{json.dumps(step)}\n")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("M")
        shown = it.app.fleet.query_one(AgentMessages).query_one("#said")
        await it.until(lambda: "> Bash: pytest [bold]-q" in str(shown.render()))
        assert "I look." in str(shown.render())
        with transcript.open("a") as file:
            file.write(json.dumps({"type": "step", "source": "agent", "message": "All tests pass."}) + "\n")
        await it.until(lambda: "All tests pass." in str(shown.render()))
