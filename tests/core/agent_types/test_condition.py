"""Condition of an agent by its own file, by mngr's markers, and by mngr's answer. One case for each row."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.agent_types.claude_status import ClaudeSession
from selftest_core.agent_types.claude_turns import NO_TURN, LastTurn
from selftest_core.agent_types.condition import (
    Condition,
    Kind,
    first_known,
    from_claude,
    from_mngr,
    local_condition,
    one_line,
    reason,
    urgency,
)
from selftest_core.agents import State

TURN = LastTurn(is_there=True, at=100.0)


def session(status: str, waiting_for: str = "") -> ClaudeSession:
    return ClaudeSession(1, "s", "/w", status, waiting_for, since=110.0, started_at=50.0, process_start="")


@dataclass(frozen=True)
class Case:
    """What is seen of a Claude Code agent, and what is to be said of it. `state`: by its processes and the markers."""

    kind: Kind | None
    says: str
    session: ClaudeSession | None = None
    turn: LastTurn = TURN
    state: State = State.RUNNING
    active: bool = True
    blocked: bool = False
    compacting: bool = False
    retry: str = ""
    had_turn: bool = True


ROWS = {
    "streaming, or a tool runs": Case(Kind.WORKING, "", session("busy")),
    "permission dialog": Case(
        Kind.PERMISSION, "asks for permission: Bash make", session("waiting", "permission prompt"),
        LastTurn(is_there=True, asked_tool="Bash", asked="Bash make", at=105.0), State.WAITING, blocked=True,
    ),
    "approved, the tool runs": Case(Kind.WORKING, "", session("busy"), state=State.WAITING, blocked=True),
    "Esc on that dialog": Case(
        Kind.INTERRUPTED, "its turn was interrupted", session("idle"),
        LastTurn(is_there=True, is_interrupted=True, at=105.0), State.WAITING, blocked=True,
    ),
    "Esc while streaming": Case(
        Kind.INTERRUPTED, "its turn was interrupted", session("idle"),
        LastTurn(is_there=True, is_interrupted=True, at=105.0),
    ),
    "dialog without a hook": Case(Kind.DIALOG, "waits at a dialog", session("waiting", "dialog open")),
    "start-up dialog": Case(
        Kind.DIALOG, "waits at a dialog: trust", session("waiting", "trust"), NO_TURN, active=False
    ),
    "AskUserQuestion": Case(
        Kind.QUESTION, "asks: Which one?", session("waiting", "input needed"),
        LastTurn(is_there=True, asked_tool="AskUserQuestion", asked="Which one?"), State.WAITING, blocked=True,
    ),
    "plan approval": Case(
        Kind.PLAN, "asks to approve its plan", session("waiting", "permission prompt"),
        LastTurn(is_there=True, asked_tool="ExitPlanMode", asked="ExitPlanMode"), State.WAITING, blocked=True,
    ),
    "turn ended, the marker still there": Case(Kind.TURN_ENDED, "its turn ended", session("idle")),
    "turn ended": Case(Kind.TURN_ENDED, "its turn ended", session("idle"), state=State.WAITING, active=False),
    "no turn yet": Case(Kind.READY, "", session("idle"), NO_TURN, State.WAITING, active=False),
    "no turn since it was started again": Case(
        Kind.READY, "", session("idle"), LastTurn(is_there=True, at=40.0), State.WAITING, active=False
    ),
    "429, retrying": Case(Kind.RETRYING, "retrying: API error · attempt 2/10", session("busy"),
                          retry="API error · attempt 2/10"),
    "529, 401, credit": Case(
        Kind.ERROR, "API error: too much (529)", session("idle"),
        LastTurn(is_there=True, error="API error: too much (529)", at=105.0), State.WAITING, active=False,
    ),
    "/compact": Case(Kind.COMPACTING, "compacting its conversation", session("busy"), state=State.WAITING,
                     active=False, compacting=True),
    "kill -9 in a turn": Case(Kind.CRASHED, "crashed in the middle of a turn", state=State.DONE),
    "ended between turns": Case(None, "", state=State.DONE, active=False),
    "stopped in a turn": Case(None, "", state=State.STOPPED),
    "an older Claude Code at work": Case(Kind.WORKING, ""),
    "an older Claude Code at a dialog": Case(
        Kind.PERMISSION, "waits for permission", state=State.WAITING, blocked=True
    ),
    "an older Claude Code whose turn ended": Case(
        Kind.TURN_ENDED, "its turn ended", state=State.WAITING, active=False
    ),
    "an older Claude Code without a turn": Case(Kind.READY, "", state=State.WAITING, active=False, had_turn=False),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS.values(), ids=list(ROWS))
def test_each_situation_of_claude_code(case: Case) -> None:
    own = from_claude(case.session, case.turn, is_compacting=case.compacting, retry=case.retry)
    condition = local_condition(
        case.state,
        own,
        has_markers=True,
        is_active=case.active,
        is_blocked=case.blocked,
        has_had_a_turn=case.had_turn,
        since=90.0,
    )
    assert (condition.kind if condition else None) is case.kind
    assert (reason(condition) if condition else "") == case.says
    if condition is not None and case.session is not None:
        assert condition.since == 110.0
        assert condition.state is (
            State.RUNNING if case.kind in (Kind.WORKING, Kind.RETRYING, Kind.COMPACTING) else State.WAITING
        )


def test_codex_at_work_works_whatever_marks_are_missing() -> None:
    own = Condition(Kind.WORKING, source="Codex's rollout")
    assert local_condition(None, own, has_markers=False, is_active=False, is_blocked=False) is own
    ended = local_condition(State.DONE, own, has_markers=False, is_active=False, is_blocked=False)
    assert ended is not None
    assert ended.kind is Kind.CRASHED


def test_of_a_type_that_is_not_known_only_a_dialog_is_said() -> None:
    assert local_condition(None, None, has_markers=False, is_active=False, is_blocked=False) is None
    asks = local_condition(None, None, has_markers=False, is_active=True, is_blocked=True)
    assert asks is not None
    assert asks.kind is Kind.PERMISSION


def test_mngrs_word_is_the_last_rung() -> None:
    own, word = Condition(Kind.WORKING), from_mngr(State.WAITING, "PERMISSIONS", has_had_a_turn=True, since=None)
    assert first_known(own, word) is own
    assert first_known(None, word) is word
    assert word is not None
    assert word.kind is Kind.PERMISSION
    ended = from_mngr(State.WAITING, "END_OF_TURN", has_had_a_turn=True, since=1.0)
    ready = from_mngr(State.WAITING, "END_OF_TURN", has_had_a_turn=False, since=1.0)
    assert ended is not None
    assert ready is not None
    assert (ended.kind, ready.kind) == (Kind.TURN_ENDED, Kind.READY)
    assert from_mngr(State.DONE, None, has_had_a_turn=True, since=None) is None


def test_dialogs_cost_most_then_errors_then_ended_turns() -> None:
    order = [Kind.PERMISSION, Kind.QUESTION, Kind.PLAN, Kind.DIALOG, Kind.ERROR, Kind.TURN_ENDED, Kind.INTERRUPTED]
    assert [urgency(kind) for kind in order] == [0, 0, 0, 0, 1, 2, 2]


@given(st.text(max_size=3000))
def test_what_an_agent_wrote_is_one_bounded_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= 300
    assert line.isprintable()
    line.encode()


@given(
    st.sampled_from(["busy", "idle", "waiting"]),
    st.text(max_size=20),
    st.builds(LastTurn, st.booleans(), st.booleans(), st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)),
    st.sampled_from([*State, None]),
    st.booleans(),
    st.booleans(),
)
def test_a_live_agents_own_file_stands_whatever_else_is_said(
    status: str, waiting_for: str, turn: LastTurn, state: State | None, active: bool, blocked: bool
) -> None:
    own = from_claude(session(status, waiting_for), turn)
    assert own is not None
    found = local_condition(state, own, has_markers=True, is_active=active, is_blocked=blocked)
    if state in (State.DONE, State.STOPPED, State.REPLACED):
        assert found is None or found.kind is Kind.CRASHED
    else:
        assert found is own
