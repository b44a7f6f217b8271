"""Which agents need a person, and why in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import scenes
from scenes import BOX, NOW, a_list, a_look, a_probe, an_agent, scene
from selftest_core.agent_types.condition import Condition, Kind
from selftest_core.agents import State
from selftest_core.fleet.attention import AFTER_REMINDER, AgentFacts, attention_of, cost_of_waiting
from selftest_core.fleet.view import Category

if TYPE_CHECKING:
    from selftest_core.fleet.observations import LocalAgent

COMMAND = an_agent(1, "plain", State.WAITING)
CLAUDE = an_agent(1, "claude", State.WAITING, type="claude")


@pytest.mark.parametrize(
    ("state", "category"),
    [
        (State.RUNNING, Category.WORKING),
        (State.RUNNING_UNKNOWN_AGENT_TYPE, Category.WORKING),
        (State.WAITING, Category.WAITING),
        (State.DONE, Category.DONE),
        (State.STOPPED, Category.STOPPED),
        (State.REPLACED, Category.UNKNOWN),
        (State.UNKNOWN, Category.UNKNOWN),
    ],
)
def test_a_plain_command_agent_needs_nobody_in_any_state(state: State, category: Category) -> None:
    agent = replace(COMMAND, state=state)
    assert attention_of(AgentFacts(agent, exit_status=0)) == (category, None)
    assert attention_of(AgentFacts(replace(agent, type="headless_command"))) == (category, None)


@pytest.mark.parametrize("state", [State.WAITING, State.RUNNING, State.UNKNOWN])
def test_a_permission_dialog_needs_you(state: State) -> None:
    facts = AgentFacts(replace(CLAUDE, state=state), Condition(Kind.PERMISSION))
    assert attention_of(facts) == (Category.NEEDS_YOU, "waits for permission")


def test_what_mngr_says_of_permissions_counts_too() -> None:
    asking = replace(CLAUDE, waiting_reason="PERMISSIONS")
    assert scene(a_list([asking])).row("claude").attention == "waits for permission"
    # A command agent too, by mngr's word.
    assert scene(a_list([replace(asking, type="command")])).row("claude").attention == "waits for permission"
    # A marker that outlived its turn.
    assert scene(a_list([replace(asking, state=State.STOPPED)])).row("claude").attention is None


def test_a_turn_that_ended_needs_you_and_one_that_never_began_does_not() -> None:
    assert attention_of(AgentFacts(CLAUDE, Condition(Kind.TURN_ENDED))) == (Category.NEEDS_YOU, "its turn ended")
    assert attention_of(AgentFacts(CLAUDE)) == (Category.WAITING, None)


def test_starting_up_raises_no_attention() -> None:
    # mngr gives END_OF_TURN to an agent that has had no turn at all.
    fresh = replace(CLAUDE, waiting_reason="END_OF_TURN", agent_activity_at=None)
    assert scene(a_list([fresh])).row("claude").attention is None
    restarted = replace(fresh, agent_activity_at=NOW - 900, started_at=NOW - 5)
    assert scene(a_list([restarted])).row("claude").attention is None
    acted = replace(fresh, agent_activity_at=NOW - 2, started_at=NOW - 5)
    assert scene(a_list([acted])).row("claude").attention == "its turn ended"


def test_an_ended_turn_needs_you_also_when_nobody_watched() -> None:
    ended = replace(a_look(CLAUDE), condition=Condition(Kind.TURN_ENDED, since=NOW - 60))
    assert scene(a_probe([ended])).row("claude").attention == "its turn ended"
    ready = replace(ended, condition=Condition(Kind.READY, since=NOW - 60))
    assert scene(a_probe([ready])).row("claude").attention is None


def test_an_answered_permission_needs_nobody() -> None:
    asking = replace(CLAUDE, waiting_reason="PERMISSIONS")
    shown = scene(a_list([asking]), a_probe([replace(a_look(asking), waits_for_permission=True)]))
    assert shown.row("claude").attention == "waits for permission"
    answered = scenes.changed(shown, "claude", waits_for_permission=False, state=State.RUNNING)
    assert answered.row("claude").attention is None
    assert answered.row("claude").agent.waiting_reason is None


def test_an_exit_status_makes_done_failed() -> None:
    done = replace(COMMAND, state=State.DONE)
    assert attention_of(AgentFacts(done, exit_status=3)) == (Category.FAILED, "ended with exit status 3")
    assert attention_of(AgentFacts(done, exit_status=0)) == (Category.DONE, None)
    assert attention_of(AgentFacts(done)) == (Category.DONE, None)
    # A restarted agent runs whatever its last run left; a stopped one was stopped by a person.
    for state in (State.RUNNING, State.STOPPED):
        assert attention_of(AgentFacts(replace(done, state=state), exit_status=3))[1] is None


@pytest.mark.parametrize("state", ["FAILED", "CRASHED"])
def test_a_host_that_failed_fails_its_agents(state: str) -> None:
    agent = replace(COMMAND, host=replace(BOX, state=state, failure_reason="no disk"))
    assert attention_of(AgentFacts(agent)) == (Category.FAILED, "its host failed: no disk")
    assert attention_of(AgentFacts(replace(agent, host=replace(BOX, state=state))))[1] == f"its host is {state}"


def test_a_host_that_wants_a_login_needs_you() -> None:
    agent = replace(COMMAND, host=replace(BOX, state="UNAUTHENTICATED"))
    assert attention_of(AgentFacts(agent)) == (Category.NEEDS_YOU, "its host needs you to log in")


def test_a_silent_host_is_attention_and_leaves_the_group() -> None:
    facts = AgentFacts(replace(COMMAND, state=State.RUNNING), host_problem="its host box does not answer")
    assert attention_of(facts) == (Category.WORKING, "its host box does not answer")
    assert attention_of(facts._replace(condition=Condition(Kind.PERMISSION))) == (
        Category.NEEDS_YOU,
        "waits for permission",
    )


def test_a_bell_needs_you_while_it_waits() -> None:
    assert attention_of(AgentFacts(COMMAND, bell=True)) == (Category.NEEDS_YOU, "rang the bell")
    assert attention_of(AgentFacts(replace(COMMAND, state=State.STOPPED), bell=True)) == (Category.STOPPED, None)
    # tmux keeps the mark of a bell until somebody looks.
    assert attention_of(AgentFacts(replace(COMMAND, state=State.RUNNING), bell=True)) == (Category.WORKING, None)


def test_archived_agents_need_nobody() -> None:
    done = replace(COMMAND, state=State.DONE, labels={"archived_at": "2026-11-20T08:00:00Z"})
    assert attention_of(AgentFacts(done, exit_status=9, bell=True, host_problem="silent")) == (Category.DONE, None)


def test_reasons_hold_no_clock() -> None:
    for shown in (scenes.few(), scenes.hundred(), scenes.provider_down()):
        for row in shown.view.rows:
            later = shown.and_then(replace(shown.probed, at=NOW + 500), now=NOW + 500).view.by_key[row.key]
            assert later.attention == row.attention


def test_what_costs_most_to_wait_for_comes_first_and_of_these_what_waits_longest() -> None:
    def looked(number: int, name: str, kind: Kind, waited: float) -> LocalAgent:
        agent = an_agent(number, name, State.RUNNING if kind is Kind.WORKING else State.WAITING, type="claude")
        return replace(a_look(agent), condition=Condition(kind, since=NOW - waited))

    looks = [
        looked(1, "ended", Kind.TURN_ENDED, 900),
        looked(2, "works", Kind.WORKING, 950),
        looked(3, "refused", Kind.ERROR, 30),
        looked(4, "asks", Kind.QUESTION, 5),
        looked(5, "wants", Kind.PERMISSION, 50),
        looked(6, "broken off", Kind.INTERRUPTED, 1000),
    ]
    rows = sorted(scene(a_probe(looks)).view.rows, key=cost_of_waiting)
    assert [row.agent.name for row in rows] == ["wants", "asks", "refused", "broken off", "ended", "works"]


def test_the_end_of_a_turn_in_a_run_is_its_conductors_first() -> None:
    agent = an_agent(1, "tester", State.WAITING, type="claude", test="tests/test_a.py::test_a")
    ended = replace(a_look(agent), condition=Condition(Kind.TURN_ENDED, since=NOW - 60))
    unknown = a_probe([ended])
    assert scene(unknown).row("tester").attention == "its turn ended"

    def with_reminders(**reminded: float) -> str | None:
        return scene(replace(unknown, reminders={agent.run or "": reminded})).row("tester").attention

    assert with_reminders() is None
    assert with_reminders(**{agent.id: NOW - 10}) is None  # it has not begun its turn yet
    assert with_reminders(**{agent.id: NOW - 70}) == AFTER_REMINDER
    assert with_reminders(**{agent.id: NOW - 59}) is None
    asks = replace(ended, condition=Condition(Kind.QUESTION, "Which one?", since=NOW - 60))
    assert (
        scene(replace(a_probe([asks]), reminders={agent.run or "": {}})).row("tester").attention == "asks: Which one?"
    )


def test_a_crash_in_a_turn_has_failed_and_needs_you() -> None:
    done = an_agent(1, "claude", State.DONE, type="claude")
    crashed = replace(a_look(done), condition=Condition(Kind.CRASHED))
    row = scene(a_probe([crashed])).row("claude")
    assert (row.category, row.attention) == (Category.FAILED, "crashed in the middle of a turn")


def test_of_a_type_that_is_not_known_mngr_is_named() -> None:
    odd = replace(an_agent(1, "odd", State.WAITING, type="odd", acted=5), waiting_reason="END_OF_TURN")
    assert scene(a_list([odd])).row("odd").attention == "its turn ended (reported by mngr)"


def test_the_programs_own_file_stands_against_a_newer_word_of_mngr() -> None:
    agent = an_agent(1, "claude", State.RUNNING, type="claude")
    busy = replace(a_look(agent), condition=Condition(Kind.WORKING, source="Claude Code's sessions file"))
    asks = replace(agent, state=State.WAITING, state_word="WAITING", waiting_reason="PERMISSIONS")
    newer = replace(a_list([asks]), at=NOW + 5, seconds=0.1)
    row = scene(a_probe([busy])).and_then(newer).row("claude")
    assert (row.agent.state, row.attention, row.agent.waiting_reason) == (State.RUNNING, None, None)


def test_an_approval_that_codex_asks_for_is_known_by_mngrs_word() -> None:
    agent = an_agent(1, "codex", State.RUNNING, type="codex")
    busy = replace(a_look(agent), condition=Condition(Kind.WORKING, since=NOW - 60, source="Codex's rollout"))
    asks = replace(agent, state=State.WAITING, state_word="WAITING", waiting_reason="PERMISSIONS")
    older = replace(a_list([asks]), at=NOW - 90, seconds=0.1)
    assert scene(a_probe([busy]), older).row("codex").attention is None
    newer = replace(a_list([asks]), at=NOW - 1, seconds=0.1)
    assert scene(a_probe([busy]), newer).row("codex").attention == "waits for permission"
