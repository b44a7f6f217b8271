"""Every row of the table of situations, with the real Claude Code: state, reason and attention as we say them.

What is right is told by the scripted model's log and by the keys that the test presses. How long it took until two
watches said so is a figure that is printed, never asserted.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from agents.real_agents import ASKING, BYPASS, Real, describe, made_watcher, real_agents
from selftest_core.agents import State
from selftest_core.view import Category, Row
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    """Agents that ask nothing, and one that asks for permissions."""
    with real_agents() as made:
        made.create("free", "PLAY hello")
        made.settings(ASKING)
        made.create("careful", "PLAY hello")
        made.settings(BYPASS)
        yield made


@pytest.fixture
def free(real: Real) -> str:
    """The name of an agent that may do all, at rest."""
    return at_rest(real, "free")


@pytest.fixture
def careful(real: Real) -> str:
    """The name of an agent that asks for permission, at rest."""
    return at_rest(real, "careful")


def at_rest(real: Real, name: str) -> str:
    """Wait until the agent has nothing to do."""
    real.turn_ended(name, 0.0)
    eventually(lambda: "esc to interrupt" not in real.screen(name), "an agent at rest")
    return name


def is_working(row: Row) -> bool:
    return row.category is Category.WORKING and row.agent.state is State.RUNNING and row.attention is None


def needs_you(*words: str) -> Callable[[Row], bool]:
    """A row that needs a person, with one of these words in its reason."""

    def is_so(row: Row) -> bool:
        return row.category is Category.NEEDS_YOU and any(word in (row.attention or "") for word in words)

    return is_so


def failed(*words: str) -> Callable[[Row], bool]:
    def is_so(row: Row) -> bool:
        return row.category is Category.FAILED and any(word in (row.attention or "") for word in words)

    return is_so


def test_a_turn_streams_and_ends(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY think 6")
    real.says("streaming", free, real.asked(free, sent), is_working)
    real.says("turn ended while watched", free, real.turn_ended(free, sent), needs_you("its turn ended"))
    said = real.listing(free)
    assert (said["state"], said["attention"], said["reason"]) == ("WAITING", True, "its turn ended")


def test_a_turn_that_ended_before_anybody_looked(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY hello")
    ended = real.turn_ended(free, sent)
    real.says("turn ended", free, ended, needs_you("its turn ended"))
    with made_watcher(real) as late:
        eventually(lambda: needs_you("its turn ended")(row) if (row := late.row(free)) else False, "a late watch")
    alone = real.listing(free, "--no-wait")
    assert (alone["attention"], alone["reason"]) == (True, "its turn ended")


def test_a_tool_runs(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY sleep 6")
    real.says("tool running", free, real.tool_called(free, sent), is_working)
    assert real.listing(free, "--no-wait")["state"] == "RUNNING"
    real.turn_ended(free, sent)


def test_a_turn_that_is_interrupted(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY think 60")
    real.says("streaming", free, real.asked(free, sent), is_working)
    pressed = real.press(free, "Escape")
    real.says("Esc while streaming", free, pressed, lambda row: row.agent.state is State.WAITING)
    assert real.listing(free, "--no-wait")["state"] == "WAITING"


def test_a_question_with_choices(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY choose")
    called = real.tool_called(free, sent)
    real.says("question", free, called, needs_you("question", "input"))
    said = real.listing(free, "--no-wait")
    assert said["attention"] is True
    real.press(free, "Enter")
    real.turn_ended(free, called)


def test_a_permission_dialog_is_allowed(real: Real, careful: str) -> None:
    sent = real.say(careful, "PLAY bash python3 -c 'import time; time.sleep(12)'")
    real.says("permission dialog", careful, real.tool_called(careful, sent), needs_you("permission"))
    assert real.listing(careful, "--no-wait")["attention"] is True
    pressed = real.press(careful, "Enter")
    real.says("approved, tool runs", careful, pressed, is_working)
    real.turn_ended(careful, pressed)


def test_a_permission_dialog_is_refused(real: Real, careful: str) -> None:
    sent = real.say(careful, "PLAY bash python3 -c 'print(1)'")
    real.says("permission dialog", careful, real.tool_called(careful, sent), needs_you("permission"))
    pressed = real.press(careful, "Escape")

    def is_idle(row: Row) -> bool:
        return row.agent.state is State.WAITING and "permission" not in (row.attention or "")

    real.says("Esc on that dialog", careful, pressed, is_idle)


def test_a_limit_that_passes(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY limit 2 8")
    refused = real.refused(free, sent)

    def is_retrying(row: Row) -> bool:
        return is_working(row) and "limit" in describe(row)

    real.says("429, retrying", free, refused, is_retrying)
    real.says("after the limit", free, real.turn_ended(free, sent), needs_you("its turn ended"))


@pytest.mark.parametrize(
    ("play", "refusals", "words"),
    [("PLAY busy 20", 3, "529"), ("PLAY denied", 1, "401"), ("PLAY poor", 1, "credit balance")],
    ids=["overloaded", "not logged in", "no credit"],
)
def test_an_error_that_ends_the_turn(real: Real, free: str, play: str, refusals: int, words: str) -> None:
    sent = real.say(free, play)
    real.refused(free, sent, refusals)
    ended = real.lines(free)[-1]["at"]
    row = real.says(f"{words}: error", free, ended, needs_you("error", "529", "401", "redit"))
    assert row.attention is not None


def test_a_conversation_that_is_compacted(real: Real, free: str) -> None:
    real.say(free, "PLAY hello")
    sent = real.say(free, "/compact")
    asked = real.asked(free, sent)
    real.says("/compact", free, asked, lambda row: row.category is Category.WORKING)
    real.turn_ended(free, asked)


def test_a_program_that_is_killed_in_its_turn(real: Real) -> None:
    real.create("killed", "PLAY think 60")
    row = real.says("streaming", "killed", real.asked("killed", 0.0), is_working)
    assert row.agent.pid
    os.kill(row.agent.pid, signal.SIGKILL)
    import time

    real.says("kill -9 in a turn", "killed", time.time(), failed("crashed", "ended"))
    said = real.listing("killed")
    assert (said["state"], said["attention"]) == ("DONE", True)
