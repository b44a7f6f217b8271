"""What mngr's answers say, agent by agent: its real ones, whole, cut, and no answers at all."""

from __future__ import annotations

import pytest

from selftest_core.actions.agent_actions import Act
from selftest_core.tools.mngr import read_answer
from worlds import ROOT

CAPTURED = ROOT / "tests" / "fixtures" / "mngr" / "0.3.0"


def captured(name: str) -> str:
    return (CAPTURED / name).read_text("utf-8")


def test_captured_answers_are_read_by_name() -> None:
    assert read_answer(Act.STOP, captured("stop_json.out")) == {"d-none": (True, "stopped", "")}
    assert read_answer(Act.STOP, captured("stop_again.out")) == {"b-wait": (True, "stopped", "")}
    assert read_answer(Act.START, captured("start_json.out")) == {"b-wait": (True, "started", "")}
    assert read_answer(Act.DESTROY, captured("destroy_force.out")) == {"b-wait": (True, "destroyed", "")}
    assert read_answer(Act.MESSAGE, captured("msg_json.out")) == {"b-wait": (True, "sent", "")}
    assert read_answer(Act.MESSAGE, captured("msg_stdin.out")) == {"race": (True, "sent", "")}
    for name in ("msg_missing.out", "msg_bad_id.out"):
        assert read_answer(Act.MESSAGE, captured(name)) == {}
    for name, agent in (("msg_done.out", "a-done"), ("msg_stopped.out", "d-none")):
        answers = read_answer(Act.MESSAGE, captured(name))
        assert answers is not None
        assert not answers[agent].ok
        assert "not running" in answers[agent].text
        assert answers[agent].hint


@pytest.mark.parametrize("name", ["destroy_headless.out", "destroy_missing.out", "stop_missing.out", "list0_json.out"])
@pytest.mark.parametrize("act", list(Act))
def test_what_is_no_answer_is_none(name: str, act: Act) -> None:
    assert read_answer(act, captured(name)) is None


def test_an_answer_cut_anywhere_is_none() -> None:
    text = captured("destroy_force.out").rstrip()
    assert [read_answer(Act.DESTROY, text[:cut]) for cut in range(len(text))] == [None] * len(text)


def test_a_delivered_message_that_a_dialog_holds_up_is_not_sent_again() -> None:
    text = '{"successful_agents": [], "failed_agents": [5], "blocked_agents": [{"agent": "a", "error": "trust?"}]}'
    answers = read_answer(Act.MESSAGE, text)
    assert answers is not None
    assert answers["a"].ok
    assert "trust?" in answers["a"].text


def test_what_mngr_leaves_behind_is_told() -> None:
    text = '{"destroyed_agents": ["a"], "failures": [{"message": "volume v"}], "exit_code": 3}'
    answers = read_answer(Act.DESTROY, text)
    assert answers is not None
    assert "volume v" in answers["a"].hint
