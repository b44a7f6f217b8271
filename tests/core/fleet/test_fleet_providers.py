"""Providers that fail, answers that are partial, and what is remembered: no row is lost, none outlives its agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

import scenes
from scenes import BOX, LOCAL, NOW, a_list, a_probe, an_agent, scene
from selftest_core.agents import State
from selftest_core.fleet.fold import to_remember
from selftest_core.fleet.observations import ListFailed, ListingError, Remembered, RememberedAgent
from selftest_core.fleet.view import Category
from selftest_core.tools.mngr_files import UnreadableAgent


def names(shown: scenes.Scene) -> list[str]:
    return [row.agent.name for row in shown.view.rows]


def test_a_failing_provider_keeps_its_rows_as_of_the_last_good_answer() -> None:
    before, after = scenes.few(), scenes.provider_down()
    assert names(before) == names(after)
    for row in after.view.rows:
        is_modal = row.agent.host.provider == "modal"
        assert (row.stale_since == NOW - 3.0) == is_modal
        assert row.attention is not None or not is_modal
    working = after.row("st-7f-pay-card")
    assert working.category is Category.WORKING
    assert working.attention == "its host st-7f-sandbox (modal) does not answer"
    (problem,) = after.view.problems
    assert (problem.key, problem.provider, problem.hint) == ("provider:modal", "modal", "Run: modal token new")


def test_a_provider_that_answers_again_is_no_problem() -> None:
    down = scenes.provider_down()
    agents = [row.agent for row in down.view.rows]
    up = down.and_then(a_list(agents, at=NOW + 60), now=NOW + 61)
    assert up.view.problems == ()
    assert all(row.stale_since is None for row in up.view.rows)


def test_an_error_heard_late_does_not_undo_a_later_answer() -> None:
    agent = an_agent(1, "remote", host=BOX)
    late = a_list([], at=NOW, errors=(ListingError("boxes", "down"),))
    shown = scene(a_list([agent], at=NOW + 10), late)
    assert shown.row("remote").stale_since is None
    assert shown.view.problems == ()
    failed = ListFailed(at=NOW + 9, provider="boxes", title="too slow", seconds=9.0)
    assert shown.and_then(failed).view.problems == ()


def test_an_answer_heard_after_a_later_error_still_counts() -> None:
    agent = an_agent(1, "remote", host=BOX)
    shown = scene(a_list([], at=NOW + 10, errors=(ListingError("boxes", "down"),)), a_list([agent], at=NOW))
    assert shown.row("remote").stale_since == NOW


def test_one_corrupt_file_hides_no_agent() -> None:
    shown = scenes.few()
    remote = [row.agent for row in shown.view.rows if not row.agent.host.is_local]
    error = ListingError(None, "Invalid control character at: line 1 column 13 (char 12)", host_id=LOCAL.id)
    broken = shown.probed.agents[0]
    unreadable = UnreadableAgent(broken.id, "/home/dev/.mngr/agents/x/data.json", "Invalid control character")
    look = replace(shown.probed, at=NOW + 21, agents=shown.probed.agents[1:], unreadable=(unreadable,))
    for order in (
        (a_list(remote, at=NOW + 20, errors=(error,)), look),
        (look, a_list(remote, at=NOW + 20, errors=(error,))),
    ):
        after = shown.and_then(*order)
        assert names(after) == names(shown)
        stale = [row for row in after.view.rows if row.stale_since is not None]
        assert [row.agent.name for row in stale] == [broken.name]
        assert stale[0].attention == "its data.json cannot be read"
        assert [problem.key for problem in after.view.problems] == [f"agent:{broken.id}", "provider:local"]
        assert unreadable.path in after.view.problems[0].hint


def test_a_corrupt_file_at_the_start_hides_nothing_that_was_remembered() -> None:
    agent = an_agent(1, "remembered")
    unreadable = UnreadableAgent(agent.id, "/x/data.json", "broken")
    shown = scene(
        Remembered(NOW, (RememberedAgent(agent, NOW - 100),)), a_probe([], at=NOW + 1, unreadable=(unreadable,))
    )
    assert shown.row("remembered").stale_since == NOW - 100


@pytest.mark.parametrize("provider", [None, "boxes"])
def test_an_error_without_a_place_ends_nobody(provider: str | None) -> None:
    agent = an_agent(1, "remote", host=BOX)
    shown = scene(a_list([agent]), a_list([], at=NOW + 10, provider=provider, errors=(ListingError(None, "what?"),)))
    assert shown.row("remote").stale_since == NOW - 3.0
    assert len(shown.view.problems) == 1


def test_an_empty_answer_of_one_provider_is_no_proof() -> None:
    # mngr answers so for a provider that it does not know at all.
    shown = scene(a_list([an_agent(1, "remote", host=BOX)]), a_list([], at=NOW + 10, provider="boxes"))
    row = shown.row("remote")
    assert row.stale_since == NOW - 3.0
    assert row.attention is None
    assert names(shown.and_then(a_list([], at=NOW + 20))) == []


def test_a_list_of_one_provider_says_nothing_of_others() -> None:
    shown = scenes.few()
    local = [row.agent for row in shown.view.rows if row.agent.host.is_local]
    after = shown.and_then(a_list(local, at=NOW + 20, provider="local"))
    assert names(after) == names(shown)
    assert all(row.stale_since is None for row in after.view.rows)


def test_no_mngr_at_all() -> None:
    shown = scenes.no_mngr()
    assert len(shown.view.rows) == 8
    (problem,) = shown.view.problems
    assert problem.key == "mngr"
    assert "uv tool install" in problem.hint
    assert shown.view.expecting == frozenset()


def test_mngr_that_fails_makes_remote_rows_stale_and_local_ones_not() -> None:
    failed = ListFailed(at=NOW + 40, provider=None, title="mngr did not answer within 30 s", seconds=30.0)
    shown = scenes.few().and_then(replace(scenes.few().probed, at=NOW + 39), failed)
    for row in shown.view.rows:
        assert (row.stale_since is None) == row.agent.host.is_local
    assert [problem.key for problem in shown.view.problems] == ["mngr"]
    assert shown.view.problems[0].hint


def test_a_failure_asked_before_a_good_answer_makes_nothing_stale() -> None:
    agent = an_agent(1, "remote", host=BOX)
    slow = ListFailed(at=NOW + 40, provider=None, title="too slow", seconds=40.0)
    shown = scene(a_list([agent], at=NOW + 10, provider="boxes"), slow)
    assert shown.row("remote").stale_since is None


def test_remembered_rows_are_shown_until_answered() -> None:
    shown = scenes.on_their_way()
    row = shown.row("st-7f-pay-card")
    assert (row.source, row.stale_since, row.attention) == ("remembered", NOW - 3_600, None)
    assert shown.view.expecting == {"remote", "modal", "boxes"}
    answered = shown.and_then(a_list([replace(row.agent, state=State.DONE, state_word="DONE")], at=NOW + 5))
    fresh = answered.row("st-7f-pay-card")
    assert (fresh.source, fresh.stale_since, fresh.agent.state) == ("mngr", None, State.DONE)
    assert "nightly-export" not in names(answered)
    assert answered.view.expecting == frozenset()


def test_remembered_local_rows_never_outlive_a_look() -> None:
    remembered = Remembered(NOW, (RememberedAgent(an_agent(1, "gone"), NOW - 10),))
    assert names(scene(remembered)) == ["gone"]
    assert names(scene(remembered, a_probe([], at=NOW + 1))) == []


def test_a_memory_from_the_future_is_as_old_as_its_reading() -> None:
    remembered = Remembered(NOW, (RememberedAgent(an_agent(1, "gone"), NOW + 9_999),))
    assert scene(remembered).row("gone").stale_since == NOW
    assert names(scene(remembered, a_probe([], at=NOW + 1))) == []


def test_memory_never_overrides_an_answer() -> None:
    agent = an_agent(1, "remote", State.RUNNING, host=BOX)
    done = RememberedAgent(replace(agent, state=State.DONE), NOW + 98)
    ended = RememberedAgent(an_agent(2, "ended", host=BOX), NOW + 98)
    shown = scene(a_list([agent]), Remembered(NOW + 99, (done, ended)))
    assert names(shown) == ["remote"]
    assert shown.row("remote").agent.state is State.RUNNING


def test_what_is_remembered_of_a_fleet_is_the_fleet() -> None:
    down = scenes.provider_down()
    kept = to_remember(down.fleet)
    assert [one.agent for one in kept] == [row.agent for row in down.view.rows]
    by_name = {one.agent.name: one.as_of for one in kept}
    assert by_name["st-7f-pay-card"] == NOW - 3.0
    assert by_name["st-7f-cart-tax"] == NOW + 37.5
    again = scene(Remembered(NOW + 100, kept))
    assert names(again) == names(down)
    assert all(row.stale_since is not None for row in again.view.rows)
