"""Answers: an agent that waits is told, one that has ended goes on in a new attempt; a kill loses or doubles none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core.run.rehearsals import Rehearsal, a_rehearsal, assert_told_rightly
from selftest_core.journal import read
from selftest_core.run.answer.answer import ANSWER_FILE, LONGEST
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.spending import spending, used_by
from selftest_core.run.store import RequestKind, RunRequest
from selftest_core.usage.tokens import Label, Usage
from simulated.crew import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Member, Run
    from selftest_core.run.store import RunFolder


def answer(rehearsal: Rehearsal, text: str, test: str = "agent-00", *, attempt: int = 0, key: str = "") -> None:
    rehearsal.folder.add_request(RunRequest(RequestKind.ANSWER, test, text, attempt, key or text))


def declined(rehearsal: Rehearsal) -> list[tuple[str, str]]:
    found = [entry.fields for entry in rehearsal.ledger.entries if entry.event == Event.DECLINED]
    return [(str(fields["text"]), str(fields["says"])) for fields in found]


def interactive(folder: Path, roles: Sequence[Role], **changes: Any) -> Rehearsal:
    """Agents that take turns, as Claude Code does."""
    rehearsal = a_rehearsal(folder, roles, agent_type="claude", agent_command=None, **changes)
    rehearsal.world.is_interactive = True
    return rehearsal


def of_type(agent_type: str, folder: Path, roles: Sequence[Role]) -> Rehearsal:
    return a_rehearsal(folder, roles) if agent_type == "command" else interactive(folder, roles)


def test_a_blocked_agent_that_was_stopped_goes_on_in_a_new_attempt(tmp_path: Path) -> None:
    rehearsal = interactive(tmp_path, [Role.BLOCKED, Role.SUCCEEDS])
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "blocked", "agent-01": "succeeded"}
    first = rehearsal.run.rows["agent-00"]
    # Its run has ended: the next conductor takes the answer.
    answer(rehearsal, "Round half up.", attempt=1)
    assert rehearsal.conduct() == "done"
    row = rehearsal.run.rows["agent-00"]
    assert (row.end, row.attempt, row.commits) == (End.SUCCEEDED, 2, 2)
    assert row.member is not None
    assert first.member is not None
    # The same agent, and its old outcome was not read as the new one.
    assert row.member.agent_id == first.member.agent_id
    assert rehearsal.world.creates.count(row.member.agent_id) == 1
    assert rehearsal.world.wrongs == []
    assert [(test, attempt) for test, attempt, _ in rehearsal.world.answers] == [("agent-00", 2)]
    assert ANSWER_FILE in rehearsal.world.answers[0][2]
    (retry,) = row.retries
    assert (retry.reason, retry.text, retry.is_continued) == ("answered", "Round half up.", True)
    assert row.answer is not None
    assert "Needs a decision" in row.answer.asked
    assert rehearsal.run.rows["agent-01"].attempt == 1
    for attempt in (1, 2):
        assert (rehearsal.folder.path / "agents" / "agent-00" / f"attempt-{attempt}" / "outcome.json").is_file()
    assert rehearsal.folder.requests() == ()


@pytest.mark.parametrize("agent_type", ["command", "claude"])
def test_a_new_agent_takes_the_place_of_one_that_cannot_go_on(tmp_path: Path, agent_type: str) -> None:
    rehearsal = of_type(agent_type, tmp_path, [Role.STAYS_RED, Role.CANNOT_GO_ON])
    assert rehearsal.conduct() == "done"
    red = rehearsal.run.rows["agent-00"]
    answer(rehearsal, "The block is right.", "agent-01")
    if agent_type == "command":
        answer(rehearsal, "The fixture is wrong.")
    assert rehearsal.conduct() == "done"
    row = rehearsal.run.rows["agent-01"]
    assert row.end is End.SUCCEEDED
    assert row.member is not None
    assert not row.member.is_continued
    assert row.member.agent_id not in {retry.member.agent_id for retry in row.retries}
    assert (row.member.answer.text if row.member.answer else "") == "The block is right."
    reasons = [retry.reason for retry in row.retries]
    assert reasons == (["answered"] if agent_type == "command" else ["answered", "gone"])
    if agent_type == "command":
        # Its copy begins with the commits that came back before.
        again = rehearsal.run.rows["agent-00"].member
        assert again is not None
        assert again.answer is not None
        assert (again.answer.start, again.answer.start_attempt) == (red.tip, 1)
        assert rehearsal.run.rows["agent-00"].retries[0].tip == red.tip
    assert rehearsal.world.wrongs == []
    assert len(rehearsal.world.answers) == (2 if agent_type == "command" else 1)


def test_an_agent_that_asks_is_told_and_works_on_in_the_same_attempt(tmp_path: Path) -> None:
    rehearsal = interactive(tmp_path, [Role.ASKS], timeout=36_000.0)

    def follow(run: Run, entry: Entry) -> None:
        if entry.event == Event.NOTICED and entry.fields["reason"]:
            answer(rehearsal, "Yes, both.", attempt=1)

    assert rehearsal.conduct(on_change=follow) == "done"
    row = rehearsal.run.rows["agent-00"]
    assert (row.end, row.attempt) == (End.SUCCEEDED, 1)
    assert rehearsal.world.answers == [("agent-00", 1, "Yes, both.")]
    assert row.telling is None
    assert declined(rehearsal) == []


def test_two_reviewers_at_once_are_both_heard_in_their_order(tmp_path: Path) -> None:
    for agent_type in ("command", "claude"):
        rehearsal = of_type(agent_type, tmp_path / agent_type, [Role.BLOCKED])
        assert rehearsal.conduct() == "done"
        answer(rehearsal, "Round half up.", attempt=1)
        answer(rehearsal, "And name it in the block.", attempt=1)
        assert rehearsal.conduct() == "done"
        row = rehearsal.run.rows["agent-00"]
        assert (row.end, row.attempt) == (End.SUCCEEDED, 2)
        assert row.answer is not None
        assert row.answer.text == "Round half up.\n\nAnd name it in the block."
        assert declined(rehearsal) == []


def test_a_late_second_answer_goes_to_the_agent_that_works_on_or_says_why_not(tmp_path: Path) -> None:
    for agent_type in ("command", "claude"):
        rehearsal = of_type(agent_type, tmp_path / agent_type, [Role.BLOCKED])
        assert rehearsal.conduct() == "done"
        answer(rehearsal, "First.", attempt=1)

        def follow(run: Run, entry: Entry, rehearsal: Rehearsal = rehearsal) -> None:
            if entry.event == Event.LAUNCHED:
                answer(rehearsal, "Second.", attempt=1)

        assert rehearsal.conduct(on_change=follow) == "done"
        said = [text for _, _, text in rehearsal.world.answers]
        if agent_type == "command":
            assert said == ["First."]
            assert declined(rehearsal) == [
                ("Second.", "another answer came first, and it works: a command agent gets an answer when it has ended")
            ]
        else:
            assert said[-1] == "Second."
            assert declined(rehearsal) == []


def test_what_cannot_be_answered_is_declined_with_the_reason_and_the_text(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.BLOCKED, Role.FAILS_TO_LAUNCH, Role.SUCCEEDS])
    assert rehearsal.conduct() == "done"
    rehearsal.folder.add_request(RunRequest(RequestKind.RETRY, "agent-00"))
    assert rehearsal.conduct() == "done"
    answer(rehearsal, "Too late.", attempt=1)
    answer(rehearsal, "Nobody there.", "agent-01")
    answer(rehearsal, "Which test?", "nobody")
    answer(rehearsal, " \x1b\n ", key="empty")
    answer(rehearsal, "x" * (LONGEST + 1), key="long")
    assert rehearsal.conduct() == "done"
    reasons = [says for _, says in declined(rehearsal)]
    assert reasons[:3] == [
        "it was tried again meanwhile: attempt 2 has not asked this",
        "it had no agent that could have asked: try it again instead",
        "there is no such test in this run",
    ]
    assert "The answer is empty" in reasons[3]
    assert "10,001 characters" in reasons[4]
    assert [text for text, _ in declined(rehearsal)][:3] == ["Too late.", "Nobody there.", "Which test?"]
    assert rehearsal.world.answers == []


def test_a_stop_before_the_next_attempt_does_not_lose_the_answer(tmp_path: Path) -> None:
    rehearsal = interactive(tmp_path, [Role.BLOCKED])
    assert rehearsal.conduct() == "done"
    answer(rehearsal, "Round half up.", attempt=1)
    rehearsal.folder.add_request(RunRequest(RequestKind.STOP))
    assert rehearsal.conduct() == "stopped"
    assert rehearsal.outcomes() == {"agent-00": "stopped"}
    assert rehearsal.world.answers == []
    rehearsal.folder.add_request(RunRequest(RequestKind.RETRY, "agent-00"))
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded"}
    assert rehearsal.world.answers == [("agent-00", 2, "Round half up.")]


@pytest.mark.parametrize("agent_type", ["command", "claude"])
def test_killed_at_any_line_an_answer_is_neither_lost_nor_doubled(tmp_path: Path, agent_type: str) -> None:
    def blocked(name: str) -> Rehearsal:
        made = of_type(agent_type, tmp_path / name, [Role.BLOCKED, Role.CANNOT_GO_ON])
        assert made.conduct() == "done"
        answer(made, "Round half up.", attempt=1)
        answer(made, "The block is right.", "agent-01", attempt=1)
        return made

    whole = blocked("whole")
    before = len(whole.ledger.entries)
    assert whole.conduct() == "done"
    for lives in range(len(whole.ledger.entries) - before):
        rehearsal = blocked(str(lives))
        assert rehearsal.conduct(lives=lives) is None
        assert rehearsal.conduct() == "done"
        assert set(rehearsal.outcomes().values()) == {"succeeded"}, f"killed before line {lives + 1}"
        for row in rehearsal.run.rows.values():
            assert [retry.reason for retry in row.retries].count("answered") == 1
            assert len(row.answered) == 1
        told = [(test, attempt) for test, attempt, _ in rehearsal.world.answers]
        assert len(told) == len(set(told)), f"killed before line {lives + 1}: {told}"
        assert {test for test, _ in told} == {"agent-00", "agent-01"}
        assert rehearsal.world.wrongs == []
        assert rehearsal.folder.requests() == ()
        assert_told_rightly(rehearsal.plan, read(rehearsal.ledger.data).entries)


def test_killed_at_any_moment_a_running_agent_is_told_once(tmp_path: Path) -> None:
    def asking(name: str) -> Rehearsal:
        made = interactive(tmp_path / name, [Role.ASKS], timeout=36_000.0)
        made.conduct(seconds=200.0)
        assert made.run.rows["agent-00"].attention
        answer(made, "Yes, both.", attempt=1)
        return made

    for number in range(30):
        rehearsal = asking(str(number))
        rehearsal.conduct(seconds=0.5 * number)
        assert rehearsal.conduct() == "done"
        assert rehearsal.world.answers == [("agent-00", 1, "Yes, both.")], number
        assert rehearsal.outcomes() == {"agent-00": "succeeded"}
        assert_told_rightly(rehearsal.plan, read(rehearsal.ledger.data).entries)


class Meter:
    """Counts an agent from its beginning, as the real one does: 1,000 tokens in each attempt."""

    def __init__(self) -> None:
        self.latest: dict[str, Usage] = {}

    async def read(self, members: Iterable[Member], folder: RunFolder) -> None:
        for member in members:
            self.latest[member.agent_id] = Usage(1000 * member.attempt, 0, 0, 0, float(member.attempt), Label.METERED)


def test_an_agent_that_goes_on_is_metered_once(tmp_path: Path) -> None:
    rehearsal = interactive(tmp_path, [Role.BLOCKED], usd_per_agent=50.0)
    rehearsal.meter = Meter()  # type: ignore[assignment]
    assert rehearsal.conduct() == "done"
    assert spending(rehearsal.run).usd == 1.0
    answer(rehearsal, "Round half up.")
    assert rehearsal.conduct() == "done"
    used = used_by(rehearsal.run.rows["agent-00"])
    assert used is not None
    assert (used.input, spending(rehearsal.run).usd) == (2000, 2.0)
