"""Explain: whose word was taken, what all others said, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import scenes
from cockpit import Seats, driven
from selftest_core.view import Evidence
from selftest_tui.widgets.agent_messages import AgentMessages
from selftest_tui.widgets.explain import Explain, explained

if TYPE_CHECKING:
    from worlds import World


def test_each_word_has_its_age_and_one_stands() -> None:
    row = scenes.few().row("st-7f-login-limit")
    evidence = (
        Evidence("probe", scenes.NOW - 2, "its process\nlives [bold]here[/]", stands=True),
        Evidence("mngr", scenes.NOW - 240, "STOPPED"),
    )
    lines = explained(row, evidence, scenes.NOW, 60).plain.splitlines()
    assert lines[0].startswith("◆ needs you, as probe says")
    assert "It needs you: " in lines[1]
    (stands,) = [line for line in lines if line.startswith("▶ probe")]
    assert "2 s ago" in stands
    assert stands.endswith("its process")
    assert any(line.strip() == "lives [bold]here[/]" for line in lines)
    (other,) = [line for line in lines if line.startswith("  mngr")]
    assert "4 min ago" in other


def test_no_evidence_is_said() -> None:
    row = scenes.few().row("st-7f-login-limit")
    assert "No source has said anything" in explained(row, (), scenes.NOW, 60).plain


async def test_x_shows_the_evidence_of_what_is_selected(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    seats.stopped("two")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("x")
        shown = it.app.fleet.query_one(Explain).query_one("#evidence")
        await it.until(lambda: "▶ probe" in str(shown.render()))
        assert "its process lives" in str(shown.render())
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
