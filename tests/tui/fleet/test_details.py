"""Details: every fact, aligned, nothing obeyed; on the real screen too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import scenes
from cockpit import Seats, driven
from selftest_tui.fleet.pane.details import Details, laid_out, row_facts, session_facts, when
from selftest_tui.shared import present

if TYPE_CHECKING:
    from worlds import World


def test_every_fact_of_an_agent_is_there() -> None:
    scene = scenes.few()
    row = scene.row("st-7f-login-redirect")
    facts = dict(row_facts(row, scene.view, scenes.NOW))
    assert facts["name"] == "st-7f-login-redirect"
    assert facts["id"] == row.agent.id
    assert facts["type"] == "claude"
    assert list(facts)[-1] == "command", "it may have thirty lines: all else comes before it"
    assert facts["command"] == "claude"
    assert "idle" in facts
    assert "it acted" not in facts
    assert facts["work dir"] == row.agent.work_dir
    assert facts["branch"] == "mngr/st-7f-login-redirect"
    assert facts["test"] == "tests/test_login.py::test_redirect"
    assert facts["provider"] == "local"
    assert facts["running"] == "12:04"
    assert facts["created"].startswith("2026-11-21 ")
    assert facts["created"].endswith("(12 min ago)")
    assert facts["session"].startswith("mngr-st-7f-login-redirect  pane %")
    assert facts["server"] == "/tmp/tmux-1000/default  (the default)"
    assert "needs you" in facts["state"]
    assert facts["labels"] == "project=api"


def test_the_time_of_an_agent_that_has_ended_stands_still() -> None:
    scene = scenes.few()
    row = scene.row("st-7f-pay-refund")
    now = scenes.NOW
    ended = replace(row, idle_since=now - 60, exit_status=0)
    for seconds in (0.0, 3_600.0):
        facts = dict(row_facts(ended, scene.view, now + seconds))
        assert facts["ran"] == present.duration(now - 60 - (row.agent.started_at or 0))
        assert "running" not in facts
        assert "ran" not in dict(row_facts(replace(ended, idle_since=None), scene.view, now + seconds))
    assert present.symbol(ended) == "✓"
    assert present.symbol(replace(ended, exit_status=None)) == "□", "who knows how it ended"


def test_a_remote_agent_says_where_it_is_and_how_it_is_reached() -> None:
    scene = scenes.few()
    facts = dict(row_facts(scene.row("st-7f-pay-card"), scene.view, scenes.NOW))
    assert facts["ssh"] == "ssh -p 40022 root@r432.modal.host"
    assert facts["image"] == "debian-slim"
    assert facts["host"].startswith("st-7f-sandbox  host-")
    assert "session" not in facts, "what is not known is left out"


def test_a_session_has_facts_too() -> None:
    scene = scenes.few()
    facts = dict(session_facts(scene.view.sessions[0], scene.view, scenes.NOW))
    assert facts["session"] == scene.view.sessions[0].ref.name
    assert facts["agent"] == "none: not made by mngr"


def test_values_are_aligned_and_long_ones_go_on_below_themselves() -> None:
    scene = scenes.few()
    text = laid_out(row_facts(scene.row("st-7f-cart-empty"), scene.view, scenes.NOW), 40).plain
    lines = text.splitlines()
    start = lines[0].index("●")
    assert all(line[:start].strip() == "" or line[start - 1] == " " for line in lines)
    assert all(len(line) <= 40 for line in lines)
    whole = "".join(line[start:] for line in lines)
    assert scene.row("st-7f-cart-empty").agent.work_dir in whole


def test_nonsense_times_do_no_harm() -> None:
    assert "1e+300" in when(1e300, scenes.NOW)
    assert when(None, scenes.NOW) == ""


async def test_d_shows_them_and_hostile_values_stay_text(world: World) -> None:
    seats = Seats(world)
    seats.seat("one", "cat")
    seats.agents[0] = replace(seats.agents[0], command="run [bold]x[/] \x1b[31m[@click=app.exit()]y", branch="b\u202ec")
    async with driven(seats) as it:
        await it.go_to("one")
        await it.press("d")
        await it.until(lambda: it.pane.tab == "details")
        details = it.app.fleet.query_one(Details)
        await it.until(lambda: "work dir" in str(details.query_one("#facts").render()))
        shown = str(details.query_one("#facts").render())
        assert "run [bold]x[/]" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        await it.press("d")
        await it.until(lambda: it.pane.tab == "preview")
