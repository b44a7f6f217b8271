"""The fold: which word stands, who is there, and what is kept when a source fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

import scenes
from scenes import BOX, LOCAL, NOW, OTHER_SOCKET, SOCKET, a_list, a_look, a_probe, an_agent, key_of, scene
from selftest_core.actions.agent_actions import target_of
from selftest_core.agents import Agent, AgentKey, State
from selftest_core.fleet.explain import explain
from selftest_core.fleet.fold import Fleet, apply, view
from selftest_core.fleet.observations import Listed, ListFailed, ListingError, TmuxServer
from selftest_core.fleet.view import Category
from selftest_core.tools.tmux import SessionRef


def names(shown: scenes.Scene) -> list[str]:
    return [row.agent.name for row in shown.view.rows]


def test_local_agents_are_there_before_mngr_has_answered() -> None:
    shown = scene(a_probe([a_look(an_agent(1, "first", State.RUNNING))]))
    (row,) = shown.view.rows
    assert (row.agent.name, row.agent.state, row.source) == ("first", State.RUNNING, "probe")
    assert row.agent.host.is_local
    assert row.key == AgentKey(LOCAL.id, scenes.agent_id(1))
    assert shown.view.has_local_answer
    assert shown.view.expecting == {"remote"}


def test_nothing_is_expected_once_everybody_answered() -> None:
    assert scenes.starting().view.expecting == {"local", "remote"}
    assert not scenes.starting().view.has_local_answer
    assert scenes.few().view.expecting == frozenset()


def test_the_probe_stands_over_a_list_that_was_asked_earlier() -> None:
    running = an_agent(1, "one", State.RUNNING)
    done = replace(running, state=State.DONE, state_word="DONE")
    slow = a_list([running], at=NOW + 5, seconds=5.0)
    for order in ((a_probe([a_look(done)], at=NOW + 2), slow), (slow, a_probe([a_look(done)], at=NOW + 2))):
        row = scene(*order).row("one")
        assert (row.agent.state, row.agent.state_word, row.source) == (State.DONE, "DONE", "probe")
        assert row.agent.pid is None


def test_a_list_that_was_asked_after_the_look_stands() -> None:
    running = an_agent(1, "one", State.RUNNING)
    done = replace(running, state=State.DONE, state_word="DONE")
    row = scene(a_probe([a_look(running)], at=NOW), a_list([done], at=NOW + 2, seconds=1)).row("one")
    assert (row.agent.state, row.source) == (State.DONE, "mngr")


@pytest.mark.parametrize("type_", ["claude", "strange"])
def test_mngr_that_calls_an_agent_stopped_that_has_a_session_is_not_believed(type_: str) -> None:
    agent = an_agent(1, "one", State.WAITING, type=type_)
    stopped = replace(agent, state=State.STOPPED, state_word="STOPPED")
    look = a_look(agent) if type_ == "claude" else replace(a_look(agent), state=None)
    assert look.session is not None
    assert look.session.socket == SOCKET
    shown = scene(a_probe([look], at=NOW), a_list([stopped], at=NOW + 2, seconds=1))
    row = shown.row("one")
    assert (row.agent.state, row.source) == (look.state or State.UNKNOWN, "probe")
    assert any("both disagree" in line.text for line in explain(shown.fleet, row.key))
    gone = replace(look, state=State.STOPPED, session=None, pane_id=None)
    assert shown.and_then(a_probe([gone], at=NOW + 3)).row("one").agent.state is State.STOPPED


def test_the_state_comes_from_the_server_that_has_the_session() -> None:
    shown = scenes.few()
    row = shown.row("st-7f-login-limit")
    assert row.agent.state is State.WAITING
    assert row.session == SessionRef(OTHER_SOCKET, "mngr-st-7f-login-limit")
    # mngr is asked again and again says STOPPED, now later than the last look: it cannot see that server.
    stopped = [replace(row.agent, state=State.STOPPED, state_word="STOPPED")]
    again = shown.and_then(a_list([*stopped, *_others(shown, row.key)], at=NOW + 9))
    assert again.row("st-7f-login-limit") is row


def _others(shown: scenes.Scene, key: AgentKey) -> list[Agent]:
    return [row.agent for row in shown.view.rows if row.key != key]


@pytest.mark.parametrize(
    ("session", "mngr", "stands"),
    [
        (SessionRef(SOCKET, "mngr-x"), State.RUNNING, State.RUNNING),
        (SessionRef(SOCKET, "mngr-x"), State.REPLACED, State.REPLACED),
        (None, State.RUNNING, State.STOPPED),
        (None, State.WAITING, State.STOPPED),
        (SessionRef(SOCKET, "mngr-x"), State.STOPPED, State.UNKNOWN),
        (SessionRef(SOCKET, "mngr-x"), None, State.UNKNOWN),
        (None, None, State.STOPPED),
    ],
)
def test_types_that_the_probe_does_not_know(session: SessionRef | None, mngr: State | None, stands: State) -> None:
    agent = an_agent(1, "x", mngr or State.RUNNING, type="strange")
    look = replace(a_look(agent), state=None, session=session)
    told = [] if mngr is None else [a_list([agent])]
    assert scene(*told, a_probe([look])).row("x").agent.state is stands


@pytest.mark.parametrize(
    ("mngr", "stands"), [(None, State.UNKNOWN), (State.STOPPED, State.UNKNOWN), (State.RUNNING, State.RUNNING)]
)
def test_a_tmux_server_that_does_not_answer_makes_no_agent_stopped(mngr: State | None, stands: State) -> None:
    agent = an_agent(1, "x", mngr or State.WAITING)
    seen, unseen = a_look(agent), replace(a_look(agent), state=None, session=None)
    hung = (TmuxServer(SOCKET, is_default=True, error="it did not answer within 5 s"),)
    told = [] if mngr is None else [a_list([agent])]
    shown = scene(*told, a_probe([seen]), a_probe([unseen], at=NOW, servers=hung))
    row = shown.row("x")
    assert row.agent.state is stands
    assert bool(target_of(row).doubt) is (stands is State.UNKNOWN)
    # Only an answer of every server can say that its session is gone.
    gone = a_probe([replace(unseen, state=State.STOPPED)], at=NOW + 1)
    assert shown.and_then(gone).row("x").agent.state is State.STOPPED


def test_an_agent_that_is_being_made_is_neither_stopped_nor_done() -> None:
    made = an_agent(1, "new", State.STOPPED, age=0.1)
    absent, shell = a_look(made), a_look(replace(made, state=State.DONE))
    shown = scene(a_list([]), a_probe([absent], at=NOW))
    assert shown.row("new").category is Category.UNKNOWN
    assert "it was created a moment ago" in shown.view.explain(key_of(1))[1].text
    shown = shown.and_then(a_probe([shell], at=NOW + 0.2))
    assert shown.row("new").category is Category.UNKNOWN
    # One that says how it ended has ended, one that mngr tells of is as mngr tells, and it does not stay new.
    assert shown.and_then(a_probe([replace(shell, exit_status=0)], at=NOW + 0.3)).row("new").category is Category.DONE
    done = replace(made, state=State.DONE, state_word="DONE")
    assert shown.and_then(a_list([done], at=NOW + 2, seconds=1.0)).row("new").category is Category.DONE
    assert shown.and_then(a_probe([absent], at=NOW + 4)).row("new").category is Category.STOPPED
    running = a_look(replace(made, state=State.RUNNING))
    assert shown.and_then(a_probe([running], at=NOW + 0.4)).row("new").category is Category.WORKING


def test_agents_vanish_when_their_data_is_gone() -> None:
    shown = scenes.few()
    assert "st-7f-pay-refund" in names(shown)
    assert "st-7f-pay-refund" not in names(scenes.gone(shown, "st-7f-pay-refund"))


def test_a_complete_answer_that_omits_an_agent_ends_it() -> None:
    shown = scenes.few()
    kept = [row.agent for row in shown.view.rows if row.agent.name not in ("st-7f-pay-card", "st-7f-cart-tax")]
    after = names(shown.and_then(a_list(kept, at=NOW + 20)))
    assert "st-7f-pay-card" not in after
    assert "st-7f-cart-tax" not in after
    assert len(after) == len(names(shown)) - 2


def test_a_look_that_sees_an_agent_that_lists_omit_keeps_it() -> None:
    look = a_look(an_agent(1, "only-ours", State.RUNNING))
    shown = scene(a_list([]), a_probe([look]))
    for second in range(1, 4):
        shown = shown.and_then(a_list([], at=NOW + 10 * second), a_probe([look], at=NOW + 10 * second + 1))
        assert names(shown) == ["only-ours"]


def test_an_older_list_neither_brings_back_nor_takes_away() -> None:
    first, second = an_agent(1, "first", host=BOX), an_agent(2, "second", host=BOX)
    shown = scene(a_list([first], at=NOW + 10))
    assert names(shown.and_then(a_list([first, second], at=NOW))) == ["first"]
    assert names(shown.and_then(a_list([], at=NOW))) == ["first"]


def test_a_list_does_not_bring_back_what_was_destroyed_while_it_ran() -> None:
    agent = an_agent(1, "destroyed")
    shown = scene(a_probe([a_look(agent)], at=NOW), a_probe([], at=NOW + 2), a_list([agent], at=NOW + 5, seconds=5))
    assert names(shown) == []


def test_a_list_asked_before_the_look_takes_nothing_from_it() -> None:
    agent = an_agent(1, "seen")
    shown = scene(a_list([agent], at=NOW), a_probe([a_look(agent)], at=NOW + 7), a_list([], at=NOW + 9, seconds=5.0))
    assert names(shown) == ["seen"]


def test_a_partial_answer_heard_late_is_not_newer() -> None:
    agent = an_agent(1, "remote", State.DONE, host=BOX)
    late = replace(agent, state=State.RUNNING, state_word="RUNNING")
    error = ListingError(None, "another agent is broken", agent_id="agent-other")
    shown = scene(a_list([agent], at=NOW + 10), a_list([late], at=NOW, errors=(error,)))
    assert shown.row("remote").agent.state is State.DONE


def test_an_older_look_changes_nothing() -> None:
    shown = scenes.few()
    late = replace(shown.probed, at=shown.probed.at - 5, agents=())
    assert apply(shown.fleet, late) is shown.fleet


def test_two_of_one_name_are_two() -> None:
    shown = scenes.two_of_one_name()
    assert names(shown).count("twin") == 2
    assert len({row.key for row in shown.view.rows}) == 3
    states = {row.agent.host.provider: row.agent.state for row in shown.view.rows if row.agent.name == "twin"}
    assert states == {"local": State.RUNNING, "boxes": State.DONE}
    local = next(row for row in shown.view.rows if row.agent.host.is_local)
    other = next(row for row in shown.view.rows if row.agent.name == "copied")
    assert local.agent.id == other.agent.id
    assert other.session is None


def test_a_renamed_agent_is_the_same_row_under_its_new_name() -> None:
    before = scenes.few()
    key = before.row("st-7f-cart-tax").key
    after = scenes.changed(before, "st-7f-cart-tax", name="vat")
    assert after.view.by_key[key].agent.name == "vat"
    assert len(after.view.rows) == len(before.view.rows)


def test_one_made_again_under_the_same_name_is_another_agent() -> None:
    old, new = an_agent(1, "same", State.DONE), an_agent(2, "same", State.RUNNING, age=1)
    shown = scene(a_list([old]), a_probe([a_look(old)]), a_probe([a_look(new)], at=NOW + 1))
    assert [row.key for row in shown.view.rows] == [key_of(2)]


def test_other_sessions_are_those_that_no_row_stands_for() -> None:
    shown = scenes.few()
    assert [session.ref.name for session in shown.view.sessions] == ["logs", "editor"]
    first = shown.probed.agents[0]
    second = SessionRef(OTHER_SOCKET, "mngr-st-7f-cart-empty")
    doubled = shown.and_then(
        a_probe(
            [replace(first, other_sessions=(second,)), *shown.probed.agents[1:]],
            [scenes.a_session(second.name, agent=first.id)],
            at=NOW + 1,
        )
    )
    assert [session.ref for session in doubled.view.sessions] == [second]


def test_a_tmux_server_that_ends_with_its_agents_is_told_of_until_they_are_back() -> None:
    before = scenes.few()
    servers = tuple(server for server in before.probed.servers if server.socket != SOCKET)
    down = tuple(
        replace(agent, state=State.STOPPED, session=None, pane_id=None)
        if agent.session is not None and agent.session.socket == SOCKET
        else agent
        for agent in before.probed.agents
    )
    after = before.and_then(replace(before.probed, at=NOW + 1, agents=down, servers=servers))
    assert [problem.key for problem in after.view.problems] == [f"server:{SOCKET}"]
    assert after.row("st-7f-cart-tax").category is Category.STOPPED
    assert after.row("st-7f-login-limit").category is Category.NEEDS_YOU
    assert len(after.view.rows) == len(before.view.rows)
    still = after.and_then(replace(after.probed, at=NOW + 2))
    assert [problem.key for problem in still.view.problems] == [f"server:{SOCKET}"]
    back = still.and_then(replace(before.probed, at=NOW + 3))
    assert back.view.problems == ()


def test_stopping_the_last_agent_is_no_trouble() -> None:
    agent = an_agent(1, "last")
    stopped = replace(agent, state=State.STOPPED, state_word="STOPPED")
    gone = replace(a_probe([a_look(stopped)], at=NOW + 1), servers=())
    assert scene(a_probe([a_look(agent)]), gone).view.problems == ()


def test_a_server_that_answers_with_an_error_is_a_problem() -> None:
    shown = scene(a_probe([], servers=(TmuxServer("/tmp/x", False, error="lost server"),)))
    (problem,) = shown.view.problems
    assert (problem.key, problem.detail) == ("server:/tmp/x", "lost server")
    assert "tmux -S /tmp/x" in problem.hint


def test_no_tmux_is_told_with_what_to_do() -> None:
    (problem,) = scenes.no_tmux().view.problems
    assert (problem.key, problem.title) == ("tmux", "tmux is not installed")
    assert "apt install tmux" in problem.hint


def test_problems_stand_in_one_order_whatever_came_first() -> None:
    failed = ListFailed(at=NOW + 1, provider=None, title="mngr is missing")
    error = a_list([], at=NOW, errors=(ListingError("b", "x"), ListingError("a", "y")))
    probe = a_probe([], at=NOW, problems=("tmux is not installed",))
    keys = ["mngr", "tmux", "provider:a", "provider:b"]
    for order in ((failed, error, probe), (probe, error, failed), (error, probe, failed)):
        assert [problem.key for problem in scene(*order).view.problems] == keys


def test_lanes_have_one_order_and_say_how_each_source_does() -> None:
    lanes = scenes.provider_down().view.lanes
    assert [lane.lane for lane in lanes] == ["probe", "local", "all", "boxes", "modal"]
    by_name = {lane.lane: lane for lane in lanes}
    assert by_name["probe"].answered_at == NOW + 37.5
    assert by_name["boxes"].answered_at == NOW + 37.0
    assert (by_name["modal"].answered_at, by_name["modal"].failed_at) == (NOW - 3.0, NOW + 37.0)
    assert [lane.lane for lane in scenes.starting().view.lanes] == ["probe", "local", "all"]


def test_rows_are_in_order_of_creation() -> None:
    ages = [3, 1, 2]
    shown = scene(a_list([an_agent(number, f"a{number}", age=age, host=BOX) for number, age in enumerate(ages)]))
    assert names(shown) == ["a0", "a2", "a1"]


def test_only_what_changed_is_made_anew() -> None:
    before = scenes.hundred()
    after = scenes.changed(before, "st-7f-cart-empty", state=State.DONE, exit_status=1)
    assert len(after.view.rows) == len(before.view.rows)
    different = [new.agent.name for old, new in zip(before.view.rows, after.view.rows, strict=True) if old is not new]
    assert different == ["st-7f-cart-empty"]
    assert after.row("st-7f-cart-empty").category is Category.FAILED


def test_the_same_again_keeps_every_row_and_their_tuple() -> None:
    before = scenes.hundred()
    equal_look = replace(before.probed, at=NOW + 1, agents=tuple(replace(agent) for agent in before.probed.agents))
    listed = before.observations[0]
    assert isinstance(listed, Listed)
    # mngr works these out anew for each answer.
    moved = tuple(
        replace(
            agent,
            idle_seconds=(agent.idle_seconds or 0) + 7,
            host=replace(agent.host, boot_time=None if agent.host.boot_time is None else agent.host.boot_time + 1),
        )
        for agent in listed.agents
    )
    after = before.and_then(equal_look, replace(listed, at=NOW + 5, agents=moved))
    assert after.view.rows is before.view.rows


def test_steady_output_is_not_a_change_at_each_look() -> None:
    agent = an_agent(1, "prints")
    shown = scene(a_probe([a_look(agent, acted=0)], at=NOW))
    row = shown.row("prints")
    after = shown.and_then(a_probe([replace(a_look(agent), activity_at=NOW + 3)], at=NOW + 3))
    assert after.row("prints") is row
    assert row.idle_since is not None
    assert 0 <= NOW - row.idle_since < 5


def test_the_fleet_before_stays_as_it_was() -> None:
    before = scenes.few()
    rows, told = before.fleet.rows, dict(before.fleet.listed)
    scenes.gone(before, "st-7f-cart-tax").and_then(a_list([], at=NOW + 50))
    assert before.fleet.rows is rows
    assert dict(before.fleet.listed) == told
    assert view(before.fleet, NOW).rows is rows
    assert Fleet().rows == ()


def test_a_provider_that_no_agent_told_of_is_still_a_problem() -> None:
    error = ListingError("modal", "no token", "modal token new", is_unreachable=True)
    shown = scene(a_list([], errors=(error,)))
    (problem,) = shown.view.problems
    assert (problem.title, problem.hint) == ("modal cannot be reached", "modal token new")
    assert shown.view.expecting == frozenset()
