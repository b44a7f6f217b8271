"""Answers to agents of runs that have ended, from any screen: what they asked, and how their conductor gets the answer.

A running agent is sent a message at once, as any other. For one that has ended a request is left in the folder of its
run, and a conductor is started where the run has none.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.run.answer.answer import clean_answer
from selftest_core.run.answer.answering import answer_disabled_reason, answer_requests, question_key, question_of
from selftest_core.run.cluster_view import message_targets
from selftest_core.run.events import Phase
from selftest_core.run.log_lines import plain
from selftest_core.run.store import RequestKind, RunFolder, RunRequest, find_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.actions.agent_actions import Target
    from selftest_core.agents import Agent
    from selftest_core.run.fold import Run, RunRow

_LONGEST_QUESTION = 160
_CONDUCTOR = "selftest_tui.run.conducting"
"""The program of a conductor with recorder and report, by its name: the room of runs imports this one."""
_ENDED = (Phase.ENDED, Phase.STOPPING, Phase.WAITING)


@dataclass(frozen=True, slots=True)
class EndedTests:
    """Tests of one run that have ended, and whose agents go on when they are answered."""

    folder: RunFolder
    run: Run
    rows: tuple[RunRow, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Each test with its agent, the attempt that follows, and the agent's question."""
        return tuple(
            f"{row.planned.node_id}  {row.name}, attempt {row.attempt + 1}: "
            f"{plain(question_of(row), _LONGEST_QUESTION) or 'it asked nothing'}"
            for row in self.rows
        )


def ended_tests(folder: RunFolder, run: Run, rows: Iterable[RunRow]) -> EndedTests | None:
    """Choose the tests whose ended agents can be answered; None without any."""
    able = tuple(row for row in rows if row.phase in _ENDED and not answer_disabled_reason(run, row))
    return EndedTests(folder, run, able) if able else None


def ended_tests_of(
    agents: Iterable[Agent], environ: Mapping[str, str], repository: Path | None
) -> tuple[EndedTests, ...]:
    """Find the tests of these agents that have ended and can be answered. Reads journals: call it in a thread."""
    by_run: dict[str, set[str]] = {}
    for agent in agents:
        if agent.run:
            by_run.setdefault(agent.run, set()).add(agent.id)
    found = []
    for name, ids in by_run.items():
        try:
            folder = find_run(environ, repository, name)
            run = folder.read()
        except (UsageError, OSError):
            continue  # its run was removed, or is on another machine: it gets a plain message
        rows = (row for row in run.rows.values() if row.member is not None and row.member.agent_id in ids)
        ended = ended_tests(folder, run, rows)
        if ended is not None:
            found.append(ended)
    return tuple(found)


def authors_of_run(home: Path, names: Iterable[str]) -> tuple[EndedTests | None, tuple[Target, ...]] | None:
    """Find the authors of a change among the tests of the run whose folder is `home`: ended ones, and running ones.

    `names`: planned names. None where the folder is of no run. Reads the journal: call it in a thread.
    """
    folder = RunFolder(home)
    if not (home / "plan.json").is_file():
        return None
    run = folder.read()
    rows = [run.rows[name] for name in names if name in run.rows]
    return ended_tests(folder, run, rows), message_targets(rows)


def differ(ended: Sequence[EndedTests]) -> bool:
    """Return whether these tests do not all ask the same."""
    return len({question_key(row) or row.name for one in ended for row in one.rows}) > 1


def leave_answers(ended: Sequence[EndedTests], text: str, environ: Mapping[str, str]) -> None:
    """Leave the answers for the conductors of these runs, and start those that are not there. Blocks.

    Raises UsageError for a text that cannot be sent, RefusedError where nothing can be left, and what starting raises.
    """
    said = clean_answer(text)
    for one in ended:
        is_live = one.folder.is_conducted()
        try:
            if not is_live and (one.run.paused or one.run.is_halted):
                one.folder.add_request(RunRequest(RequestKind.GO))
            for request in answer_requests(one.rows, said):
                one.folder.add_request(request)
        except OSError as error:
            title = "The answer could not be left for the conductor"
            raise RefusedError(title, str(error), f"Its place is {one.folder.path}.") from error
        if not is_live:
            from selftest_core.run.conduct.conductor_session import start_conductor  # few answers start one

            with contextlib.suppress(RefusedError):  # another reviewer has just started it
                start_conductor(one.folder, environ, program=_CONDUCTOR)
