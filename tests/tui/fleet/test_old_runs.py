"""Agents of runs: how their tests ended is shown, and those of runs that ended long ago are hidden."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widgets import Static

import run_scenes
import scenes
from selftest_core.fleet.view import Category, Row
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RequestKind, register
from selftest_tui.fleet.arrangement import OLD_AFTER, is_old
from selftest_tui.fleet.feed import Outcomes
from selftest_tui.run import words as run_words
from selftest_tui.run.feed import OutcomeReader
from selftest_tui.run.lines import outcome_of
from selftest_tui.shared.dialogs.composer import Composer
from selftest_tui.shared.preferences import PreferenceStore
from selftest_tui.shared.present import ENDED
from tui.driving import ENVIRONMENT, driven
from tui.run.run_driving import conducted

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.fleet.view import FleetView

NAME = "st-7f-search-fuzzy"
"""A stopped agent of a run, in the scene of a dozen."""


def aged(view: FleetView, seconds: float, *names: str) -> FleetView:
    """The view with some agents that did everything so many seconds earlier."""

    def older(row: Row) -> Row:
        if row.agent.name not in names:
            return row
        agent = replace(
            row.agent, created_at=view.at - seconds, started_at=view.at - seconds, agent_activity_at=None,
            user_activity_at=None,
        )  # fmt: skip
        return replace(row, agent=agent, idle_since=None)

    return replace(view, rows=tuple(map(older, view.rows)))


def row_of(view: FleetView, name: str) -> Row:
    return next(row for row in view.rows if row.agent.name == name)


def test_only_ended_agents_of_runs_become_old() -> None:
    view = scenes.few().view
    names = [row.agent.name for row in view.rows]
    long_ago = aged(view, OLD_AFTER + 60, *names)
    old = [row for row in long_ago.rows if is_old(row, view.at)]
    assert {row.category for row in old} == {Category.DONE, Category.FAILED, Category.STOPPED}
    assert all(row.agent.run for row in old)
    assert "old-spike" not in {row.agent.name for row in old}, "an agent of no run is the person's own"
    assert not any(is_old(row, view.at) for row in aged(view, OLD_AFTER - 60, *names).rows)


async def test_agents_of_old_runs_are_hidden_until_a_key_shows_them(tmp_path: Path) -> None:
    environ = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path)}
    view = aged(scenes.few().view, 3 * OLD_AFTER, NAME, "st-7f-pay-retry")
    async with driven(view, environ=environ, size=(200, 50)) as one:
        assert not any(NAME in line for line in one.lines)
        assert "2 of old runs hidden (^e)" in one.status
        assert "of 12 agents" not in str(one.screen.query_one("#agents").border_subtitle)
        await one.press("slash", *"fuzzy", "enter")
        assert any(NAME in line for line in one.lines), "a filter finds what is hidden"
        await one.press("escape", "ctrl+e")
        assert any(NAME in line for line in one.lines)
        assert "hidden" not in one.status
        assert not PreferenceStore(environ).now.hides_old_agents
        await one.press("ctrl+e")
        assert not any(NAME in line for line in one.lines)
        assert one.table.go_to_key(row_of(one.screen.view, NAME).key), "who asks for one of them finds it"
        assert one.name == NAME
    async with driven(view, environ=environ, size=(80, 24)) as one:
        assert "2 hidden" in one.status


async def test_where_all_are_old_the_table_says_so() -> None:
    view = scenes.few().view
    ended = tuple(row for row in view.rows if row.category is Category.STOPPED and row.agent.run)
    alone = replace(aged(replace(view, rows=ended), 3 * OLD_AFTER, NAME), sessions=())
    async with driven(alone) as one:
        assert any("^e shows them" in line for line in one.lines)
        await one.press("space")
        assert "more than a day ago" in one.toasts


async def test_ended_agents_of_a_run_show_how_their_test_ended(tmp_path: Path) -> None:
    environ = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path / "state")}
    story = run_scenes.story(tmp_path, 3)
    for number in range(3):
        story.launch(number, 1.0)
    story.end(0, 60.0, End.SUCCEEDED, commits=2)
    story.fail(1, 60.0, End.RED, run_scenes.RED, "test")
    register(story.write(), environ)
    view = scenes.few().view
    numbers = {NAME: 1, "st-7f-pay-refund": 0}

    def of_story(row: Row) -> Row:
        number = numbers.get(row.agent.name)
        if number is None:
            return row
        member = story.row(number).member
        assert member is not None
        labels = {**row.agent.labels, "selftest_run": story.plan.run}
        return replace(row, agent=replace(row.agent, id=member.agent_id, labels=labels))

    rows = tuple(of_story(row) for row in view.rows if row.agent.name in numbers)
    async with driven(replace(view, rows=rows), environ=environ, size=(200, 50)) as one:
        await one.until(lambda: any("✓ succeeded" in line for line in one.lines), "an outcome")
        assert any(NAME in line and f"✗ {run_words.WORDS[End.RED]}" in line for line in one.lines)
        await one.press("slash", *"succeeded", "enter")
        assert {row.agent.name for row in one.table.shown_rows()} == {"st-7f-pay-refund"}, "the filter finds outcomes"


def test_outcomes_of_agents_that_are_gone_are_not_kept() -> None:
    outcomes = Outcomes()
    view = scenes.many(100).view
    ended = [row for row in view.rows if row.category in ENDED]
    outcomes.learn({row.agent.id: "passed, long ago" for row in ended})

    def kept() -> int:
        return sum(isinstance(one, Row) and one.outcome == "passed, long ago" for one in gc.get_objects())

    shown = outcomes.applied_to(view)
    assert kept() == len(ended) > 5
    assert all(was is now for was, now in zip(shown.rows, outcomes.applied_to(view).rows, strict=True))
    shown = outcomes.applied_to(replace(view, rows=(ended[0],)))
    assert [row.outcome for row in shown.rows] == ["passed, long ago"]
    assert kept() == 1


async def test_a_message_to_an_ended_agent_of_a_run_is_an_answer_to_its_conductor(tmp_path: Path) -> None:
    environ = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path / "state")}
    story = run_scenes.story(tmp_path, 1)
    story.launch(0, 1.0)
    story.fail(0, 60.0, End.BLOCKED, "Which of the two is meant?", "blocked")
    folder = story.write()
    register(folder, environ)
    view = scenes.few().view
    member = story.row(0).member
    assert member is not None
    row = row_of(view, NAME)
    agent = replace(row.agent, id=member.agent_id, labels={**row.agent.labels, "selftest_run": story.plan.run})
    alone = replace(view, rows=(replace(row, agent=agent),), sessions=())
    with conducted(folder):
        async with driven(alone, environ=environ) as one:
            assert one.table.go_to_key(alone.rows[0].key)
            await one.press("m")
            await one.until(lambda: isinstance(one.app.screen, Composer), "the answer")
            said = one.app.screen.query_one("#lines Static", Static)
            assert "Which of the two is meant?" in str(said.render())
            await one.press(*"Both.", "enter")
            await one.until(folder.requests, "the request")
            await one.until(lambda: "goes on" in one.toasts, "what happens")
    ((_, request),) = folder.requests()
    assert (request.kind, request.test, request.text) == (RequestKind.ANSWER, story.row(0).name, "Both.")


def test_a_journal_is_read_again_only_when_it_has_grown(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    story = run_scenes.story(tmp_path, 2)
    story.launch(0, 1.0)
    folder = story.write()
    register(folder, environ)
    reader, runs = OutcomeReader(environ, outcome_of), frozenset({story.plan.run})
    assert reader.read(runs) == {}
    story.end(0, 60.0, End.UNCHANGED)
    story.write()
    member = story.row(0).member
    assert member is not None
    assert reader.read(runs) == {member.agent_id: "= unchanged"}
    before = reader.read(runs)
    folder.journal.write_bytes(b"\xff" * folder.journal.stat().st_size)
    assert before == {member.agent_id: "= unchanged"}
    (folder.path / "plan.json").write_text("{}")
    assert reader.read(runs) == {}, "a run that cannot be read has no outcomes"
    assert reader.read(frozenset({"another"})) == {}
