"""Every row of the table of situations, with the real Claude Code: state, reason and attention as we say them.

What is right is told by the scripted model's log and by the keys that the test presses. How long it took until two
watches said so is a figure that is printed, never asserted.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from agents.real_agents import ASKING, BYPASS, TAKES_KEYS, Real, as_it_is, made_watcher, real_agents
from selftest_core.agent_types.condition import ASKING as DIALOGS
from selftest_core.agent_types.condition import Kind
from selftest_core.agents import State
from selftest_core.fleet.view import Category
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    """Agents that ask nothing, and one that asks for permissions."""
    with real_agents() as made:
        # It would try ten times, which takes minutes.
        made.world.extra["CLAUDE_CODE_MAX_RETRIES"] = "3"
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
    """Wait until the agent has nothing to do. A dialog that a failed test left open is closed, as it would get keys."""
    real.turn_ended(name, 0.0)
    busy = (Category.WORKING, None)
    pressed_at = 0.0

    def rests() -> bool:
        nonlocal pressed_at
        row = real.watchers[0].row(name)
        if row is None or row.condition is None:
            return False
        if row.condition.kind in DIALOGS:
            if time.time() - pressed_at > TAKES_KEYS:
                # Esc on a question leaves mngr's marker, and mngr then sends nothing more.
                pressed_at = real.press(name, "Escape" if row.condition.kind is Kind.DIALOG else "Enter")
            return False
        return (row.category, row.attention) != busy and STREAMING not in real.screen(name)

    eventually(rests, "an agent at rest")
    return name


WORKING = as_it_is(Kind.WORKING, Category.WORKING)
TURN_ENDED = as_it_is(Kind.TURN_ENDED, Category.NEEDS_YOU, "its turn ended")
INTERRUPTED = as_it_is(Kind.INTERRUPTED, Category.NEEDS_YOU, "its turn was interrupted")
STREAMING = " to interrupt"
"""In Claude Code's last line during a turn; the key before it depends on the terminal."""
PERMISSION_DIALOG = "Do you want to proceed?"
PERMISSION = as_it_is(Kind.PERMISSION, Category.NEEDS_YOU, "asks for permission: Bash")


def test_a_turn_streams_and_ends(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY think 15")
    real.says("streaming", free, real.asked(free, sent), WORKING)
    real.says("turn ended while watched", free, real.turn_ended(free, sent), TURN_ENDED)
    said = real.listing(free)
    assert (said["state"], said["attention"], said["reason"]) == ("WAITING", True, "its turn ended")
    assert said == real.listing(free) | {"as_of": said["as_of"]}


def test_a_turn_that_ended_before_anybody_looked(real: Real, free: str) -> None:
    with made_watcher(real) as late:
        eventually(lambda: (row := late.row(free)) is not None and TURN_ENDED(row), "a late watch")
    alone = real.listing(free, "--no-wait")
    assert (alone["attention"], alone["reason"]) == (True, "its turn ended")


def test_a_tool_runs(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY sleep 20")
    real.says("tool running", free, real.tool_called(free, sent), WORKING)
    assert real.listing(free, "--no-wait")["state"] == "RUNNING"
    real.turn_ended(free, sent)


def test_a_turn_that_is_interrupted(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY think 60")
    real.says("streaming", free, real.asked(free, sent), WORKING)
    # Before the first word, Esc would put the message back into the prompt, where the next one would join it.
    eventually(lambda: "Thought 0" in real.screen(free).rpartition("PLAY think 60")[2], "the first word")
    real.says("Esc while streaming", free, real.answer(free, STREAMING, "Escape"), INTERRUPTED)
    said = real.listing(free, "--no-wait")
    assert (said["state"], said["attention"], said["reason"]) == ("WAITING", True, "its turn was interrupted")


def test_a_question_with_choices(real: Real, free: str) -> None:
    sent = real.type(free, "PLAY choose")
    called = real.tool_called(free, sent)

    def asks() -> str:
        # On a busy machine Claude Code writes its question down only once it is answered: until then none can be told.
        return "asks: How shall prices be rounded?" if "AskUserQuestion" in real.written(free) else "asks a question"

    real.says("question", free, called, lambda row: as_it_is(Kind.QUESTION, Category.NEEDS_YOU, asks())(row))
    assert real.listing(free, "--no-wait")["reason"] == asks()
    real.answer(free, "Enter to select", "Enter")
    real.turn_ended(free, called)


def test_a_dialog_that_no_hook_tells_of(real: Real, free: str) -> None:
    real.press(free, "-l", "/model")
    entered = real.answer(free, "/model ", "Enter")
    real.says("dialog open", free, entered, as_it_is(Kind.DIALOG, Category.NEEDS_YOU, "dialog"))
    said = real.listing(free, "--no-wait")
    assert (said["state"], said["attention"], said["reason"]) == ("WAITING", True, "waits at a dialog")
    real.says(
        "dialog closed",
        free,
        real.answer(free, "Select model", "Escape"),
        lambda row: row.condition is not None and row.condition.kind is not Kind.DIALOG,
    )


def test_a_permission_dialog_is_allowed(real: Real, careful: str) -> None:
    sent = real.type(careful, "PLAY bash python3 -c 'import time; time.sleep(20)'")
    real.says("permission dialog", careful, real.tool_called(careful, sent), PERMISSION)
    assert real.listing(careful, "--no-wait")["attention"] is True
    pressed = real.answer(careful, PERMISSION_DIALOG, "Enter")
    real.says("approved, tool runs", careful, pressed, WORKING)
    real.says("turn ended", careful, real.turn_ended(careful, pressed), TURN_ENDED)


def test_a_permission_dialog_is_refused(real: Real, careful: str) -> None:
    sent = real.type(careful, "PLAY bash python3 -c 'print(1)'")
    real.says("permission dialog", careful, real.tool_called(careful, sent), PERMISSION)
    real.says("Esc on that dialog", careful, real.answer(careful, PERMISSION_DIALOG, "Escape"), INTERRUPTED)


def test_a_limit_that_passes(real: Real, free: str) -> None:
    sent = real.say(free, "PLAY limit 2 12")
    refused = real.refused(free, sent)
    real.says("429, retrying", free, refused, as_it_is(Kind.RETRYING, Category.WORKING))
    real.says("after the limit", free, real.turn_ended(free, sent), TURN_ENDED)


@pytest.mark.parametrize(
    ("play", "words"),
    [("PLAY busy 100", "529"), ("PLAY denied", "401"), ("PLAY poor", "Credit balance is too low")],
    ids=["overloaded", "not logged in", "no credit"],
)
def test_an_error_that_ends_the_turn(real: Real, free: str, play: str, words: str) -> None:
    sent = real.say(free, play)
    real.refused(free, sent)
    error = as_it_is(Kind.ERROR, Category.NEEDS_YOU, words)
    row = real.says(f"error {words}", free, sent, error, since_log=True)
    assert real.listing(free, "--no-wait")["reason"] == row.attention


def test_a_conversation_that_is_compacted(real: Real, free: str) -> None:
    said = real.say(free, "PLAY hello")
    real.turn_ended(free, said)
    sent = real.say(free, "/compact")
    asked = real.asked(free, sent)
    real.says("/compact", free, asked, as_it_is(Kind.COMPACTING, Category.WORKING))
    real.turn_ended(free, asked)


def test_a_program_that_is_killed_in_its_turn(real: Real) -> None:
    real.create("killed", "PLAY think 60")
    row = real.says("streaming", "killed", real.asked("killed", 0.0), WORKING)
    assert row.agent.pid
    killed = time.time()
    os.kill(row.agent.pid, signal.SIGKILL)
    crashed = as_it_is(Kind.CRASHED, Category.FAILED, "crashed in the middle of a turn", State.DONE)
    real.says("kill -9 in a turn", "killed", killed, crashed)
    said = real.listing("killed")
    assert (said["state"], said["attention"]) == ("DONE", True)
