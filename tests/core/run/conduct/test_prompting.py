"""An interactive agent is launched with its prompt, which it gets exactly once, whatever fails."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.run.rehearsals import POLL, a_rehearsal, assert_told_rightly
from selftest_core.journal import read
from selftest_core.run.conduct.policy import UNSURE, Policy
from selftest_core.run.crew.crew import Delivery, DoubtfulMessageError
from selftest_core.run.crew.delivery import find_message, may_have_arrived
from selftest_core.run.events import Event
from selftest_core.run.plan.prompt import PROMPT_LINE
from simulated.crew import Role, SimulatedCrew

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.run.fold import Member


def interactive(folder: Path, roles: Sequence[Role], **changes: object) -> Rehearsal:
    rehearsal = a_rehearsal(folder, roles, agent_type="claude", agent_command=None, **changes)  # type: ignore[arg-type]
    rehearsal.world.is_interactive = True
    return rehearsal


def assert_prompted_once(rehearsal: Rehearsal) -> None:
    """Assert that no agent got two prompts, and that every launched one got one, unless a person was told of doubt."""
    launched = [entry for entry in rehearsal.ledger.entries if entry.event == Event.LAUNCHED]
    agents = rehearsal.world.agents
    assert all(len(agent.prompted_at) <= 1 for agent in agents.values())
    rows = rehearsal.run.rows
    for entry in launched:
        row = rows[entry.fields["agent"]]
        made = [retry.member for retry in row.retries] + [row.member]
        (member,) = (one for one in made if one is not None and one.attempt == entry.fields["attempt"])
        assert len(agents[member.agent_id].prompted_at) == 1 or entry.fields["unsure"]
    assert_told_rightly(rehearsal.plan, read(rehearsal.ledger.data).entries)


def test_each_agent_gets_its_prompt_once_and_behind_its_making(tmp_path: Path) -> None:
    rehearsal = interactive(tmp_path, [Role.SUCCEEDS, Role.CHANGES_NOTHING])
    assert rehearsal.conduct() == "done"
    assert list(rehearsal.outcomes().values()) == ["succeeded", "unchanged"]
    assert_prompted_once(rehearsal)
    events = [entry.event for entry in rehearsal.ledger.entries if entry.fields.get("agent") == "agent-00"]
    assert events[:4] == [Event.LAUNCHING, Event.MADE, Event.PROMPTING, Event.LAUNCHED]


def test_a_dialog_that_goes_away_costs_a_second_try(tmp_path: Path) -> None:
    rehearsal = interactive(tmp_path, [Role.SHOWS_A_DIALOG_ONCE])
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded"}
    assert_prompted_once(rehearsal)
    tries = [entry for entry in rehearsal.ledger.entries if entry.event == Event.PROMPTING]
    assert len(tries) == 2
    assert "A dialog is open" in tries[1].fields["says"]
    assert len(rehearsal.world.creates) == 1


def test_a_dialog_that_stays_is_a_failed_launch_with_mngrs_words_and_leaves_no_agent(tmp_path: Path) -> None:
    rehearsal = interactive(tmp_path, [Role.OPENS_A_DIALOG])
    assert rehearsal.conduct() == "done"
    row = rehearsal.run.rows["agent-00"]
    assert (str(row.end), row.stage, row.attempt) == ("launch", "launch", 3)
    assert "A dialog is open in the agent's terminal" in row.text
    assert Event.LAUNCHED not in [entry.event for entry in rehearsal.ledger.entries]
    assert rehearsal.world.live(rehearsal.passed) == []
    assert rehearsal.world.reminders == []


def test_where_no_transcript_tells_a_person_is_asked_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    class Doubtful(SimulatedCrew):
        async def send(self, member: Member, text: str) -> None:
            raise DoubtfulMessageError("it is not known whether the message arrived")

    rehearsal = interactive(tmp_path, [Role.SUCCEEDS])
    rehearsal.world.has_transcripts = False
    rehearsal.crew = Doubtful
    assert rehearsal.conduct() == "done"
    noticed = [entry.fields["reason"] for entry in rehearsal.ledger.entries if entry.event == Event.NOTICED]
    assert noticed == [UNSURE]
    assert PROMPT_LINE in UNSURE
    assert Event.REMINDING not in [entry.event for entry in rehearsal.ledger.entries]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    kills=st.lists(st.one_of(st.integers(1, 12), st.floats(0.1, 30.0)), max_size=5),
    trouble=st.sampled_from((0.0, 0.3)),
)
def test_killed_anywhere_no_agent_gets_two_prompts(
    seed: int, kills: list[float], trouble: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dice = random.Random(seed)
    roles = [dice.choice((Role.SUCCEEDS, Role.SHOWS_A_DIALOG_ONCE, Role.CRASHES)) for _ in range(2)]
    rehearsal = interactive(
        tmp_path_factory.mktemp("run"), roles, seed=seed, trouble=trouble, policy=Policy(poll=POLL), launch_retries=20
    )
    for kill in kills:
        if isinstance(kill, int):
            rehearsal.conduct(lives=kill)
        else:
            rehearsal.conduct(seconds=kill)
    assert rehearsal.conduct() == "done"
    assert_prompted_once(rehearsal)
    expected = {Role.CRASHES: "crash"}
    for (name, end), role in zip(rehearsal.outcomes().items(), roles, strict=True):
        is_unsure = bool(rehearsal.run.rows[name].unsure)
        assert end == expected.get(role, "succeeded") or (is_unsure and end == "timeout")


def claude_session(folder: Path, *lines: object) -> Path:
    session = folder / "plugin/claude/anthropic/projects/-work/1.jsonl"
    session.parent.mkdir(parents=True, exist_ok=True)
    session.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return session


def test_claudes_own_session_tells_whether_a_message_was_taken(tmp_path: Path) -> None:
    assert find_message(tmp_path, PROMPT_LINE) is Delivery.UNKNOWN
    (tmp_path / "plugin/claude/anthropic").mkdir(parents=True)
    assert find_message(tmp_path, PROMPT_LINE) is Delivery.NO
    other = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": PROMPT_LINE}]}}
    claude_session(tmp_path, {"type": "summary"}, other)
    assert find_message(tmp_path, PROMPT_LINE) is Delivery.NO
    for taken in (
        {"type": "user", "message": {"role": "user", "content": PROMPT_LINE}},
        {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": f"{PROMPT_LINE}\n"}]}},
        {"type": "queue-operation", "operation": "enqueue", "content": PROMPT_LINE},
    ):
        claude_session(tmp_path, other, taken)
        assert find_message(tmp_path, PROMPT_LINE) is Delivery.YES


def test_a_session_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    real = claude_session(tmp_path / "a", {"type": "user", "message": {"content": PROMPT_LINE}})
    link = tmp_path / "b/plugin/claude/anthropic/projects/-work/1.jsonl"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    assert find_message(tmp_path / "b", PROMPT_LINE) is Delivery.UNKNOWN


@pytest.mark.parametrize(
    ("says", "doubtful"),
    [
        ("Timeout waiting for message submission evidence: no evidence probe confirmed", True),
        ("Timeout waiting for pasted content to appear (waited 5.0s)", True),
        ("tmux send-keys Enter failed: no server", True),
        ("Traceback (most recent call last): KeyError: 'a newer mngr'", True),
        ("Claude is waiting on something in its terminal that mngr does not recognize", False),
        ("Timeout waiting for TUI to be ready (waited 10.0s)", False),
        ("A dialog (permission dialog) is open in the agent's terminal. Clear it there.", False),
        ("Agent is not running (state: STOPPED)", False),
    ],
)
def test_mngrs_words_tell_whether_a_message_may_have_been_typed(says: str, doubtful: bool) -> None:
    assert may_have_arrived(says) is doubtful
