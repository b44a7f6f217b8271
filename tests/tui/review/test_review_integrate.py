"""`A` on the review screen: the plan, agents of the real mngr, and an answer that comes while the person goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.integrate.agents import answering, put_agent
from core.integrate.counters import BOTH, REQUEST, Integrating, make_counter, text_of
from core.integrate.fixtures import CONFTEST, ONE, make_fixtures
from core.integrate.fixtures import REQUEST as FIXTURES
from core.verify.desks import SETTINGS
from selftest_core.review.candidate_branch import Decision, Status
from selftest_tui.shared.dialogs.dialogs import Question
from tui.review.keys_of_review import asked
from tui.review.review_driving import reviewing
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.review.repositories import Repository

# Not part of `make quick`: an agent is started, and tests are run.
pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def away() -> Iterator[World]:
    """A world whose mngr is loaded, with an integrator as its agent."""
    more = {"SELFTEST_TUI_AGENT": "command", "SELFTEST_TUI_AGENT_COMMAND": "./integrator.sh"}
    with a_world(**SETTINGS, **more) as world:
        world.load_mngr()
        yield world


@pytest.fixture
def counter(away: World) -> Repository:
    return make_counter(away.repository)


async def test_an_agent_resolves_while_the_person_goes_on(away: World, counter: Repository) -> None:
    put_agent(away.repository, answering(f"cat <<'END'\n{BOTH}END"))
    async with reviewing(counter, REQUEST, environ=away.environment, size=(120, 34)) as one:
        (held,) = (row.oid for row in one.screen.rows if row.status is Status.HELD)
        assert one.table.go_to_key(one.state.reviewed.row_of[held].id)
        await one.press("A")
        question = await asked(one, Question)
        said = str(question.query_one("#lines Static").render())
        assert "conflicts 1 conflict, one agent" in said
        assert "what an agent answers is tested when it arrives" in said
        await one.press("n")
        assert not list(away.repository.glob(".selftest/runs/*/plan.json")), "nothing has started"

        await one.press("A")
        await asked(one, Question)
        await one.press("y")
        await one.until(lambda: "1 agent started" in one.toasts, "the agent")
        # The person goes on: another change is decided, and the cursor stays there.
        await one.go_to("Test the fee")
        await one.press("y")
        cursor = one.table.row
        assert cursor is not None
        await one.until(lambda: "Resolved by " in one.toasts, "the answer")
        assert one.table.row is not None
        assert one.table.row.oid == cursor.oid
        row = next(row for row in one.screen.rows if row.oid == held)
        assert (row.status, row.is_resolved, row.decision) == (Status.LAID, True, Decision.UNDECIDED)
        assert one.state.undo_text.startswith("resolve “[FIX_IMPL] Add a ")
        await one.go_to(row.change.subject)
        await one.press("4")
        assert ": resolved by Add-a-" in one.pane.text_of("needs")
    assert text_of(counter, f"refs/selftest/{one.state.name}/candidate") == BOTH


async def test_progress_and_refusals_are_on_the_row(away: World, counter: Repository) -> None:
    async with reviewing(counter, REQUEST, environ=away.environment, size=(120, 34)) as one:
        (held,) = (row.oid for row in one.screen.rows if row.status is Status.HELD)
        assert one.table.go_to_key(one.state.reviewed.row_of[held].id)
        run = await one.screen.ask(lambda session: Integrating.begin(session, counter), "")
        await one.press("R")
        await one.until(lambda: any("no conductor" in line for line in one.lines), "its run is not conducted")
        await one.press("4")
        assert "`selftest-tui resume" in one.pane.text_of("needs")
        await one.press("A")
        await one.until(lambda: "No conflict is for an agent" in one.toasts, "one works on it already")
        run.answer({"shop/price.py": "x"})
        run.ended("it drops \x1b[31meverything")
        await one.press("R")
        await one.until(lambda: "Not used, it stays as it was" in one.toasts, "the refusal")
        assert any("conflict" in line and "Add a" in line for line in one.lines)
        assert "it stays in conflict: it drops" in one.pane.text_of("needs")
        assert "\x1b" not in one.toasts


async def test_one_text_is_proposed_for_a_row_and_chosen_by_the_person(away: World) -> None:
    desk = make_fixtures(away.repository)
    answer = answering(f"cat <<'END'\n{ONE}END", CONFTEST)
    put_agent(away.repository, answer)
    async with reviewing(desk, FIXTURES, environ=away.environment, size=(120, 34)) as one:
        row = next(row for row in one.screen.rows if row.others)
        assert one.table.go_to_key(row.key)
        chosen = row.oid
        await one.press("A")
        question = await asked(one, Question)
        assert "One for 3: Give tests a home" in str(question.query_one("#lines Static").render())
        await one.press("y")
        await one.until(lambda: "proposes one text instead of 3" in one.toasts, "the answer")
        row = next(row for row in one.screen.rows if row.others)
        assert (len(row.others), row.oid) == (3, chosen), "it is there, and nothing is chosen by that"
        assert one.state.undo_text == ""
