"""What stands of one agent when several sources speak of it: pure, one agent at a time.

The truth is mngr. For agents of this machine the probe is newer and sees every tmux server, so its word stands
where it has one; where it cannot tell the state (a type whose process it does not know), mngr's state stands, but
a session that is gone is STOPPED. `selftest_core.fleet.fleet` says who is there at all and how old each word is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.agent_types.condition import BUSY, MNGR, PERMISSIONS, Condition, Kind, from_mngr, ladder
from selftest_core.agents import Agent, Host, State
from selftest_core.fleet.attention import Standing, is_plain_command, judge
from selftest_core.fleet.view import Category, Row
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from selftest_core.fleet.observations import LocalAgent
    from selftest_core.usage.tokens import Usage

CODEX = "Codex's rollout"
_LIVE_STATES = (State.RUNNING, State.WAITING)
IDLE_STEP = 5.0
"""Seconds. Activity is rounded down to this, so that an agent that prints all the time is not a new row each look."""


@dataclass(frozen=True, slots=True)
class Told:
    """mngr's last word on an agent. It was asked at `start` and had answered at `at`."""

    agent: Agent
    start: float
    at: float
    is_remembered: bool = False


class Circumstances(NamedTuple):
    """What a row depends on beside the words themselves; two equal ones with the same words give the same row.

    `list_is_newer`: mngr was asked after the probe looked, and they differ. `on_default_server`: mngr can see
    its session too. `stale_since`: the last good word is that old. `silence`: why, where a person must know it.
    `is_run_s` and `is_reminded` are as in `attention.Standing`. `is_blind`: not every tmux server
    answered the probe, so that a session which it did not find may be there.
    `usage`: what it used, where it is metered.
    """

    list_is_newer: bool = False
    on_default_server: bool = True
    stale_since: float | None = None
    silence: str | None = None
    is_run_s: bool = False
    is_reminded: bool = False
    is_starting: bool = False
    is_blind: bool = False
    usage: Usage | None = None


def stand(
    told: Told | None,
    local: LocalAgent | None,
    host: Host | None,
    circumstances: Circumstances,
    old: Row | None,
    *,
    is_told_the_same: bool = False,
) -> Row:
    """The row of one agent. `host` is this machine, for an agent that mngr has not told of yet.

    Gives `old` back, the same object, where nothing in it changed. `is_told_the_same`: mngr's word is the very one
    that `old` was made of.
    """
    state, source = standing_state(told, local, circumstances)
    if local is None:
        assert told is not None, "an agent that nobody told of has no row"
        agent = told.agent
    elif told is not None:
        agent = _merged(told.agent, local, state, source, old.agent if old is not None and is_told_the_same else None)
    else:
        assert host is not None, "an agent of the probe has a host"
        agent = _unlisted(local, host, state)
    if old is not None and agent is not old.agent and agent == old.agent:
        agent = old.agent
    row = _row_of(agent, source, local, circumstances, told)
    return old if row == old and old is not None else row


def standing_state(told: Told | None, local: LocalAgent | None, circumstances: Circumstances) -> tuple[State, str]:
    """The state that stands and who said it ("probe", "mngr", "remembered")."""
    if local is None:
        assert told is not None
        return told.agent.state, "remembered" if told.is_remembered else "mngr"
    if circumstances.is_starting and (local.session is None or local.state is State.DONE):
        # While mngr makes an agent it has no session yet, and then a shell in which its program does not run yet.
        return State.UNKNOWN, "probe"
    words = told.agent.state if told is not None and not told.is_remembered else None
    if local.state is None:
        if local.session is None and circumstances.is_blind:
            # Its session may be on the server that did not answer, where mngr may not look either.
            return (State.UNKNOWN, "probe") if words in (None, State.STOPPED) else (words, "mngr")
        if words is None:
            return (State.STOPPED if local.session is None else State.UNKNOWN), "probe"
        if local.session is None and not circumstances.list_is_newer:
            return State.STOPPED, "mngr" if words is State.STOPPED else "probe"
        if local.session is not None and words is State.STOPPED:
            return State.UNKNOWN, "probe"
        return words, "mngr"
    if words is None or words is local.state:
        return local.state, "probe"
    if words in _LIVE_STATES and local.state in _LIVE_STATES and local.condition is not None:
        # The program's own file and mngr's markers are nearer than mngr's word, however new that is.
        return local.state, "probe"
    if words is State.STOPPED and local.session is not None:
        # It has a session: mngr did not find it, or it ended just now, which the next look will see.
        return local.state, "probe"
    if circumstances.list_is_newer and (local.session is None or circumstances.on_default_server):
        return words, "mngr"
    return local.state, "probe"


def _unlisted(local: LocalAgent, host: Host, state: State) -> Agent:
    """An agent that mngr has not told of yet, as the probe sees it."""
    return Agent(
        id=local.id,
        name=local.name,
        type=local.type,
        host=host,
        state=state,
        state_word=state.value,
        command=local.command,
        work_dir=local.work_dir,
        branch=local.branch,
        created_at=local.created_at,
        started_at=local.started_at,
        pid=local.pid if _is_live(state) else None,
        waiting_reason=PERMISSIONS if local.waits_for_permission else None,
        labels=local.labels,
    )


def _merged(agent: Agent, local: LocalAgent, state: State, source: str, before: Agent | None) -> Agent:
    """mngr's agent with what the probe knows better. Which source a field comes from never depends on the time.

    `before`, made of the same word of mngr's, is given back where the probe says what it said then.
    """
    name = local.name or agent.name
    kind = local.type or agent.type
    word = agent.state_word if source == "mngr" or agent.state is state else state.value
    command = local.command or agent.command
    work_dir = local.work_dir or agent.work_dir
    branch = agent.branch if agent.branch is not None else local.branch
    created_at = agent.created_at if agent.created_at is not None else local.created_at
    started_at = local.started_at if local.started_at is not None else agent.started_at
    pid = (local.pid if local.pid is not None else agent.pid) if _is_live(state) else None
    waiting_reason = _waiting_reason(agent, local, state, source)
    for same in (before, agent):
        if (
            same is not None
            and same.state is state
            and same.name == name
            and same.type == kind
            and same.state_word == word
            and same.command == command
            and same.work_dir == work_dir
            and same.branch == branch
            and same.created_at == created_at
            and same.started_at == started_at
            and same.pid == pid
            and same.waiting_reason == waiting_reason
            and same.labels == local.labels
        ):
            return same
    return replace(
        agent,
        name=name,
        type=kind,
        state=state,
        state_word=word,
        command=command,
        work_dir=work_dir,
        branch=branch,
        created_at=created_at,
        started_at=started_at,
        pid=pid,
        waiting_reason=waiting_reason,
        labels=local.labels,
    )


def _is_live(state: State) -> bool:
    return state is not State.STOPPED and state is not State.DONE


def _waiting_reason(agent: Agent, local: LocalAgent, state: State, source: str) -> str | None:
    if local.waits_for_permission:
        return PERMISSIONS
    if state is not State.WAITING:
        return None
    if source == "probe" and local.state is not None and agent.waiting_reason == PERMISSIONS:
        return None
    return agent.waiting_reason


def _row_of(
    agent: Agent, source: str, local: LocalAgent | None, circumstances: Circumstances, told: Told | None
) -> Row:
    exit_status = local.exit_status if local is not None else None
    condition = condition_of(agent, source, local, told)
    category, attention = judge(
        Standing(
            agent=agent,
            condition=condition,
            is_run_s=circumstances.is_run_s,
            is_reminded=circumstances.is_reminded,
            bell=local is not None and local.bell,
            exit_status=exit_status,
            host_silence=circumstances.silence,
        )
    )
    return Row(
        agent=agent,
        category=category,
        source=source,
        attention=attention,
        stale_since=circumstances.stale_since,
        session=local.session if local is not None else None,
        pane_id=local.pane_id if local is not None else None,
        idle_since=idle_since(agent, local, category, condition),
        title=local.title if local is not None else "",
        exit_status=exit_status,
        usage=circumstances.usage,
        condition=condition,
    )


def condition_of(agent: Agent, source: str, local: LocalAgent | None, told: Told | None) -> Condition | None:
    """The rung that stands: what the probe found in files, else mngr's word. `agent` and `source` are as they stand."""
    found = local.condition if local is not None and source == "probe" else None
    if found is None and local is not None and local.waits_for_permission:
        found = Condition(Kind.PERMISSION, "", None, "mngr's markers", "permissions_waiting")
    if found is not None and found.kind not in BUSY:
        return found
    if found is not None and not _asks_by_mngr(found, told):
        return found
    said = from_mngr(
        agent.state if found is None else State.WAITING,
        PERMISSIONS if found is not None else agent.waiting_reason,
        has_had_a_turn=_has_acted(agent),
        since=agent.agent_activity_at,
    )
    if said is not None and is_plain_command(agent.type) and said.kind is not Kind.PERMISSION:
        return found
    return ladder(said, found)


def _asks_by_mngr(found: Condition, told: Told | None) -> bool:
    """True where mngr says that an agent asks whose own file does not tell of questions: Codex's rollout."""
    return (
        found.source == CODEX
        and told is not None
        and not told.is_remembered
        and told.agent.waiting_reason == PERMISSIONS
        and told.start > (found.since or math.inf)
    )


def _has_acted(agent: Agent) -> bool:
    """True where an interactive agent did something since it started: else it waits for its very first message."""
    if is_plain_command(agent.type) or agent.agent_activity_at is None:
        return False
    return agent.started_at is None or agent.agent_activity_at >= agent.started_at


def idle_since(
    agent: Agent, local: LocalAgent | None, category: Category, condition: Condition | None = None
) -> float | None:
    """Since when it waits, seconds since the epoch; None while it works and where nobody knows.

    Its own file tells that exactly. Else it is when it last did anything: a dialog that blinks keeps that young.
    """
    is_exact = condition is not None and condition.source != MNGR and condition.kind not in BUSY
    if condition is not None and condition.since is not None and is_exact:
        return condition.since
    if category in (Category.WORKING, Category.STOPPED):
        return None
    known = [
        instant
        for instant in (local.activity_at if local is not None else None, agent.agent_activity_at)
        if instant is not None and math.isfinite(instant)
    ]
    return math.floor(max(known) / IDLE_STEP) * IDLE_STEP if known else None


def is_known_without_mngr(rows: tuple[Row, ...]) -> bool:
    """True where the probe knows every agent's state. Of an approval that Codex asks for only mngr knows."""
    return all(
        row.source == "probe"
        and not (row.condition is not None and row.condition.source == CODEX and row.condition.kind is Kind.WORKING)
        for row in rows
    )


def states(rows: tuple[Row, ...]) -> list[object]:
    """What must change for a change to count as one: who there is, in which state, and who needs a person."""
    return [(row.key, row.agent.state, row.attention) for row in rows]
