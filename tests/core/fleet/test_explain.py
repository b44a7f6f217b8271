"""The evidence behind a row: who said what, when, and whose word was taken."""

from __future__ import annotations

from dataclasses import replace

import scenes
from scenes import BOX, NOW, OTHER_SOCKET, a_list, a_look, a_probe, an_agent, key_of, scene
from selftest_core.agents import AgentKey, State
from selftest_core.fleet.rows import CHANGES_KEPT
from selftest_core.tools.tmux import SessionRef


def told(shown: scenes.Scene, name: str) -> list[tuple[str, float, str, bool]]:
    return [(line.source, line.at, line.text, line.stands) for line in shown.view.explain(shown.row(name).key)]


def test_both_sources_are_named_newest_first_and_one_stands() -> None:
    assert told(scenes.few(), "st-7f-cart-empty") == [
        ("probe", NOW - 0.4, "RUNNING: its process lives and the active marker is there", True),
        ("mngr", NOW - 3.0, "RUNNING", False),
    ]


def test_the_other_server_is_named_with_what_it_does_to_mngr() -> None:
    lines = told(scenes.few(), "st-7f-login-limit")
    assert lines[0][2].startswith("WAITING: ")
    assert OTHER_SOCKET in lines[1][2]
    assert "that is why mngr says STOPPED" in lines[1][2]
    assert ("mngr", NOW - 3.0, "STOPPED", False) in lines


def test_a_remote_agent_stands_on_mngr() -> None:
    assert told(scenes.few(), "st-7f-api-rate") == [("mngr", NOW - 3.0, "WAITING (PERMISSIONS)", True)]


def test_a_failing_provider_is_told_with_the_word_that_is_kept() -> None:
    first, second = told(scenes.provider_down(), "st-7f-pay-card")
    assert first == ("mngr", NOW + 37.0, "modal cannot be reached; its last state is kept", False)
    assert second == ("mngr", NOW - 3.0, "RUNNING", True)


def test_what_was_remembered_says_so() -> None:
    assert told(scenes.on_their_way(), "nightly-export") == [("remembered", NOW - 7_200, "WAITING", True)]


def test_changes_of_state_are_kept() -> None:
    shown = scenes.changed(scenes.few(), "st-7f-cart-tax", state=State.WAITING)
    shown = scenes.changed(shown, "st-7f-cart-tax", state=State.DONE, exit_status=0)
    says = [line[2] for line in told(shown, "st-7f-cart-tax")]
    assert "RUNNING became WAITING" in says
    assert says.index("WAITING became DONE") < says.index("RUNNING became WAITING")
    assert "its command left exit status 0" in says


def test_the_kept_changes_of_a_big_fleet_do_not_grow_with_its_agents() -> None:
    shown = scenes.many(200)
    agents = shown.probed.agents
    for turn in range(12):
        look = shown.probed
        agents = tuple(replace(agent, state=State.WAITING if turn % 2 else State.RUNNING) for agent in agents)
        shown = shown.and_then(replace(look, agents=agents, at=look.at + 1))
    assert len(shown.fleet.changes) == CHANGES_KEPT < 8 * len(agents)
    key = next(change.key for change in reversed(shown.fleet.changes))
    newest = [line for line in shown.view.explain(key) if " became " in line.text]
    assert [line.at for line in newest] == [shown.probed.at - back for back in range(len(newest))]
    assert len(newest) in (CHANGES_KEPT // len(agents), CHANGES_KEPT // len(agents) + 1)


def test_a_vanished_session_overrides_mngr_for_a_type_that_the_probe_does_not_know() -> None:
    agent = an_agent(1, "strange", State.RUNNING, type="strange")
    look = replace(a_look(agent), state=None, session=None, notes=())
    lines = told(scene(a_list([agent]), a_probe([look])), "strange")
    assert lines[0] == ("probe", NOW - 0.4, "its tmux session is gone", True)
    assert ("mngr", NOW - 3.0, "RUNNING", False) in lines


def test_a_second_session_is_named() -> None:
    look = replace(a_look(an_agent(1, "twice")), other_sessions=(SessionRef(OTHER_SOCKET, "mngr-twice"),))
    says = [line[2] for line in told(scene(a_probe([look])), "twice")]
    assert f"a second session mngr-twice of it is on {OTHER_SOCKET}" in says


def test_a_silent_provider_is_explained() -> None:
    shown = scene(a_list([an_agent(1, "remote", host=BOX)]), a_list([], at=NOW + 10, provider="boxes"))
    assert "kept until a list of all providers agrees" in told(shown, "remote")[0][2]


def test_a_host_that_failed_says_why() -> None:
    host = replace(BOX, state="FAILED", failure_reason="out of memory")
    says = [line[2] for line in told(scene(a_list([an_agent(1, "remote", host=host)])), "remote")]
    assert "its host failed: out of memory" in says


def test_nobody_is_explained_by_nothing() -> None:
    assert scenes.few().view.explain(AgentKey("nobody", "nowhere")) == ()
    assert scenes.empty().view.explain(key_of(1)) == ()


def test_every_row_of_every_scene_has_exactly_one_word_that_stands() -> None:
    for shown in (scenes.few(), scenes.hundred(), scenes.hostile(), scenes.no_mngr(), scenes.two_of_one_name()):
        for row in shown.view.rows:
            (stands,) = [line for line in shown.view.explain(row.key) if line.stands]
            assert stands.source == row.source
