"""Fleets to look at: made by the real fold from observations, on a clock that stands still.

Tests, screenshots and the pictures of the README all draw from here, so that they show the same fleet. Each scene
gives a `Scene`: the observations, the `Fleet` and its `FleetView` at `NOW`.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from fleet_parts import (
    BOX,
    LOCAL,
    MODAL,
    NOW,
    OTHER_SOCKET,
    RUN,
    SOCKET,
    TOPICS,
    Scene,
    a_list,
    a_look,
    a_probe,
    a_session,
    agent_id,
    an_agent,
    scene,
)
from selftest_core.agents import Agent, AgentKey, Host, State
from selftest_core.fleet.observations import Listed, ListFailed, ListingError, LocalAgent, Remembered, RememberedAgent

__all__ = [
    "BOX",
    "HOSTILE_NAMES",
    "LOCAL",
    "MODAL",
    "NOW",
    "OTHER_SOCKET",
    "RUN",
    "SOCKET",
    "TOPICS",
    "Scene",
    "a_list",
    "a_look",
    "a_probe",
    "a_session",
    "agent_id",
    "an_agent",
    "changed",
    "empty",
    "few",
    "gone",
    "hostile",
    "hundred",
    "key_of",
    "many",
    "no_mngr",
    "no_tmux",
    "on_their_way",
    "provider_down",
    "scene",
    "starting",
    "thousand",
    "two_of_one_name",
]


def empty() -> Scene:
    """Everybody answered: there is no agent and no tmux session."""
    return scene(a_probe(()), a_list(()))


def starting() -> Scene:
    """Nobody has answered yet, and nothing is remembered."""
    return scene()


def few() -> Scene:
    """A dozen agents, each in another situation, on this machine, on modal and on an ssh box."""
    local = [
        an_agent(1, "st-7f-cart-empty", State.RUNNING, test="tests/test_cart.py::test_empty", age=250, type="claude"),
        an_agent(2, "st-7f-cart-tax", State.RUNNING, test="tests/test_cart.py::test_tax", age=248, type="claude"),
        an_agent(3, "st-7f-cart-coupon", test="tests/test_cart.py::test_coupon", age=240),
        an_agent(4, "st-7f-pay-refund", State.DONE, test="tests/test_pay.py::test_refund", age=560),
        an_agent(5, "st-7f-pay-retry", State.DONE, test="tests/test_pay.py::test_retry", age=555),
        an_agent(6, "st-7f-search-fuzzy", State.STOPPED, test="tests/test_search.py::test_fuzzy", age=900),
        an_agent(
            7, "st-7f-login-redirect", test="tests/test_login.py::test_redirect", age=724, type="claude",
            acted=180, waiting_reason="END_OF_TURN",
        ),
        an_agent(8, "st-7f-login-limit", test="tests/test_login.py::test_limit", age=571, type="claude", acted=40),
    ]  # fmt: skip
    remote = [
        an_agent(9, "st-7f-pay-card", State.RUNNING, host=MODAL, test="tests/test_pay.py::test_card", type="claude"),
        an_agent(
            10, "st-7f-api-rate", host=MODAL, test="tests/test_api.py::test_rate", type="claude",
            acted=65, waiting_reason="PERMISSIONS",
        ),
        an_agent(11, "nightly-export", host=BOX, age=30_000, labels={"project": "warehouse"}),
        an_agent(12, "old-spike", State.STOPPED, host=BOX, age=90_000, labels={"archived_at": "2026-11-20T08:00:00Z"}),
    ]  # fmt: skip
    looks = [
        a_look(local[0], title="✳ Writing a guard for the empty cart"),
        a_look(local[1], title="✳ Reading tax.py"),
        a_look(local[2], acted=12),
        a_look(local[3], acted=95, exit_status=0),
        a_look(local[4], acted=101, exit_status=3),
        a_look(local[5]),
        a_look(local[6], acted=180, title="✳ Keep the query on redirect"),
        a_look(local[7], acted=40, waits_for_permission=True, title="✳ Limit logins", socket=OTHER_SOCKET),
    ]
    others = [a_session("editor", command="nvim"), a_session("logs", SOCKET, command="journalctl")]
    stopped_elsewhere = replace(local[7], state=State.STOPPED, state_word="STOPPED", pid=None)
    return scene(
        a_list([*local[:7], stopped_elsewhere, *remote]),
        a_probe(looks, others),
    )


def many(number: int) -> Scene:
    """`number` agents over three providers in every situation, named as a run names them."""
    local: list[Agent] = []
    looks: list[LocalAgent] = []
    remote: list[Agent] = []
    for index in range(number):
        topic, cases = TOPICS[index % len(TOPICS)]
        case = cases[(index // len(TOPICS)) % len(cases)]
        again = index // 48
        name = f"st-7f-{topic}-{case}" + (f"-{again + 1}" if again else "")
        test = f"tests/test_{topic}.py::test_{case.replace('-', '_')}" + (f"[{again}]" if again else "")
        host = (LOCAL, LOCAL, LOCAL, MODAL, LOCAL, BOX, LOCAL)[index % 7]
        kind = index % 25
        state = State.RUNNING
        reason = None
        if kind in (3, 14):
            state, reason = State.WAITING, "END_OF_TURN"
        elif kind in (5, 6, 17, 18, 19):
            state = State.WAITING
        elif kind in (8, 20, 24):
            state = State.DONE
        elif kind == 11:
            state = State.STOPPED
        agent = an_agent(
            index + 1, name, state, host=host, test=test, age=900.0 - (index % 800), acted=30.0 + index % 60,
            waiting_reason=reason, type="command" if kind in (5, 6, 17, 18, 19, 8, 20, 24) else "claude",
        )  # fmt: skip
        if host is not LOCAL:
            remote.append(agent)
            continue
        local.append(agent)
        status = None if state is not State.DONE else (3 if kind == 24 else 0)
        looks.append(a_look(agent, acted=30.0 + index % 60, exit_status=status, title=f"✳ {case} of {topic}"))
    others = [a_session("editor", command="nvim"), a_session("logs"), a_session("notes", command="vim")]
    return scene(a_list([*local, *remote]), a_probe(looks, others))


def hundred() -> Scene:
    """A hundred agents."""
    return many(100)


def thousand() -> Scene:
    """A thousand agents."""
    return many(1_000)


def provider_down() -> Scene:
    """The few, and then modal stops answering: its rows stay, as of the last good answer."""
    before = few()
    first = before.observations[0]
    assert isinstance(first, Listed)
    answering = [agent for agent in first.agents if agent.host.provider != "modal"]
    error = ListingError(
        "modal", "Could not reach api.modal.com: connection timed out", "Run: modal token new", is_unreachable=True
    )
    return before.and_then(
        a_list(answering, at=NOW + 37.0, errors=(error,)),
        replace(before.probed, at=NOW + 37.5),
        now=NOW + 38.0,
    )


def no_mngr() -> Scene:
    """mngr is not there; the probe sees the agents of this machine all the same."""
    return scene(
        replace(few().probed, at=NOW - 0.4),
        ListFailed(
            at=NOW - 0.2,
            provider=None,
            title="mngr is not installed",
            detail="It is neither on PATH nor in our own environment.",
            hint="Install it: uv tool install imbue-mngr",
        ),
    )


def no_tmux() -> Scene:
    """tmux is not there: the agents are, all stopped."""
    local = [an_agent(number, f"st-7f-cart-{number}", State.STOPPED, test="t.py::t") for number in (1, 2)]
    looks = [a_look(agent) for agent in local]
    problem = "tmux is not installed\nInstall it: apt install tmux (Debian, Ubuntu) or brew install tmux (macOS)"
    return scene(a_probe(looks, servers=(), problems=(problem,)), a_list(local))


def on_their_way() -> Scene:
    """The probe has answered and mngr has not: remote agents of before are shown as remembered."""
    remembered = [
        RememberedAgent(an_agent(9, "st-7f-pay-card", State.RUNNING, host=MODAL, test="t.py::t"), NOW - 3_600),
        RememberedAgent(an_agent(11, "nightly-export", host=BOX), NOW - 7_200),
    ]
    return scene(Remembered(NOW - 1, tuple(remembered)), replace(few().probed, at=NOW - 0.4))


HOSTILE_NAMES = (
    "\x1b[31mred\x1b]0;title\x07",
    "[bold red]markup[/bold red]",
    "[/]",
    "[link='x']",
    "right\u202eto\u202cleft",
    "x" * 3_000,
    "line\nbreak\ttab\rreturn",
    "表情👩‍👩‍👧‍👦 wide",
    "zal\u0301\u0302\u0303\u0304go",
    "$(rm -rf ~); --force",
    "nul\x00and\x9b31mc1",
    "\ud800lone surrogate",
    "",
)


def hostile() -> Scene:
    """Names, titles, labels, commands, reasons and errors full of escapes, markup, bidi and length."""
    agents = [
        an_agent(
            number, text, (State.WAITING, State.RUNNING, State.DONE)[number % 3], test=text, age=600 - number,
            labels={text: text, "project": text}, type="claude",
        )
        for number, text in enumerate(HOSTILE_NAMES, 1)
    ]  # fmt: skip
    agents = [replace(agent, branch=f"mngr/{agent.name}", command=agent.name) for agent in agents]
    bad_host = replace(BOX, id="host-\x1b[2J", name="[red]box[/red]\u202e", state="FAILED", failure_reason="\x1b[5mno")
    remote = an_agent(99, "on-a-bad-host", host=bad_host)
    looks = [a_look(agent, title=agent.name, says=(agent.name,), bell=True) for agent in agents]
    error = ListingError("[blink]evil[/blink]", "\x1b]52;c;eA==\x07 [/bold]", "\x1b[Hrm -rf ~")
    sessions = [a_session(text, command=text) for text in HOSTILE_NAMES]
    return scene(
        a_list([*agents, remote], errors=(error,)),
        a_probe(looks, sessions, problems=("[red]\x1b[31mproblem[/]\n\u202ehint",)),
    )


def two_of_one_name() -> Scene:
    """Two agents of one name, on this machine and on an ssh box."""
    here = an_agent(1, "twin", State.RUNNING, test="tests/test_cart.py::test_empty")
    there = an_agent(2, "twin", State.DONE, host=BOX, test="tests/test_cart.py::test_empty")
    same_id = replace(an_agent(1, "copied", host=BOX), labels=MappingProxyType({"project": "api"}))
    return scene(a_list([here, there, same_id]), a_probe([a_look(here)]))


def changed(before: Scene, name: str, /, *, seconds: float = 1.0, **fields: object) -> Scene:
    """The scene `seconds` later, after the probe saw other values for the local agent of that name.

    `fields` are those of `LocalAgent`, so `state=State.DONE, exit_status=0` ends it and `name=…` renames it.
    """
    last = before.probed
    agents = tuple(
        replace(agent, **fields) if agent.name == name else agent  # type: ignore[arg-type]
        for agent in last.agents
    )
    assert agents != last.agents, f"no local agent {name} that this would change"
    return before.and_then(replace(last, at=last.at + seconds, agents=agents), now=before.view.at + seconds)


def gone(before: Scene, name: str, *, seconds: float = 1.0) -> Scene:
    """The scene `seconds` later, after the local agent of that name was destroyed."""
    last = before.probed
    agents = tuple(agent for agent in last.agents if agent.name != name)
    return before.and_then(replace(last, at=last.at + seconds, agents=agents), now=before.view.at + seconds)


def key_of(number: int, host: Host = LOCAL) -> AgentKey:
    """The key of the agent with that number."""
    return AgentKey(host.id, agent_id(number))
