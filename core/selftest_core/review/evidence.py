"""Evidence for the commits of a run: outcomes, conversations and recordings of its agents. All of it is untrusted.

An unreadable outcome counts as missing here; the run reports it at its test.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.changes.provenance import Origin, Provenance
from selftest_core.review.changes.ranking import Claims
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.fetch.conversations import TEXT, conversation_end
from selftest_core.run.outcome.outcome import claims_fix
from selftest_core.run.outcome.outcome_file import LARGEST, UnreadableOutcomeError, parse_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.store import RunFolder

VERIFIED = "verified.json"
_ROW_VERDICTS = "row-verdicts.json"
_TRANSCRIPT = "transcript.txt"
_MOST_RECORDINGS = 20
_LONGEST_SAID = 16 * 1024
"""Bytes of the end of a conversation."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of one agent of a run. Paths are None where there is no such file.

    `tests`: its tests by node id, each with its claim that it passes, None without a claim; `turned_green`: tests that
    it claims to have fixed; `claims_fix`: it claims a fix of the product; `words`: its summary, Markdown; `said`: the
    end of its conversation, which is kept in `conversation`; `end`: the end of its test, empty while it runs;
    `importance`: as the agent states it. `agent_type`, `model`: of the agent, empty where unknown.
    """

    outcome: Path | None = None
    transcript: Path | None = None
    conversation: Path | None = None
    said: str = ""
    recordings: tuple[Path, ...] = ()
    tests: tuple[tuple[str, bool | None], ...] = ()
    claims_fix: bool = False
    turned_green: tuple[str, ...] = ()
    words: str = ""
    end: str = ""
    importance: str | None = None
    why_important: str = ""
    agent_type: str = ""
    model: str = ""


def read_evidence(folder: RunFolder, run: Run, known: Mapping[str, Evidence] | None = None) -> dict[str, Evidence]:
    """Read the evidence of each agent that ended with commits, by its planned name; `known` is not read again."""
    found: dict[str, Evidence] = {}
    for name, row in run.rows.items():
        if row.commits:
            before = (known or {}).get(name)
            found[name] = before if before is not None and _is_of(before, folder, row) else _evidence(folder, run, row)
    return found


def _is_of(evidence: Evidence, folder: RunFolder, row: RunRow) -> bool:
    """True for evidence of the attempt that ended the test, which does not change any more."""
    if row.end is None or row.member is None or evidence.outcome is None:
        return False
    return evidence.end == row.end and evidence.outcome.parent == folder.attempt(row.member)


def claims_of(
    evidence: Mapping[str, Evidence], verified: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, Claims]:
    """The claims of each agent that the ranking uses; tests that are `verified` as fixed, by agent, instead."""
    verified = verified or {}
    found = {agent: Claims(one.importance, one.turned_green) for agent, one in evidence.items()}
    for agent, tests in verified.items():
        importance = found[agent].importance if agent in found else None
        found[agent] = Claims(importance, tests, is_verified=True)
    return found


def provenance_of(name: str, evidence: Mapping[str, Evidence], verdicts: Mapping[str, str]) -> Provenance:
    """The provenance of a run's or review's changes; `verdicts`: ours, by change."""
    origins = {
        agent: Origin(one.agent_type, one.model, tuple(test for test, _ in one.tests))
        for agent, one in evidence.items()
    }
    return Provenance(name, origins, verdicts)


def read_verified(home: Path) -> dict[str, tuple[str, ...]]:
    """Read the tests that the last verification of a review showed as fixed, by agent; empty where there was none."""
    try:
        data = json.loads((home / VERIFIED).read_text(encoding="utf-8"))
        return {str(agent): tuple(str(test) for test in tests) for agent, tests in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_verified(home: Path, fixed: Mapping[str, tuple[str, ...]]) -> None:
    """Keep which tests of each agent are fixed, for the ranking when the review is opened again. Raises OSError."""
    draft = home / f"{VERIFIED}.{os.getpid()}"
    draft.write_text(json.dumps(fixed), encoding="utf-8")
    draft.replace(home / VERIFIED)


def read_row_verdicts(home: Path) -> dict[str, str]:
    """Read the verdicts on changes that have alternatives, by their oids, from all verifications so far."""
    try:
        data = json.loads((home / _ROW_VERDICTS).read_text(encoding="utf-8"))
        return {str(oid): word for oid, word in data.items() if word in ("passed", "flaky", "failed")}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_row_verdicts(home: Path, verdicts: Mapping[str, str]) -> None:
    """Add verdicts on changes that have alternatives, for the choice when a review is opened again. Raises OSError."""
    known = read_row_verdicts(home)
    made = {**known, **verdicts}
    if made != known:
        draft = home / f"{_ROW_VERDICTS}.{os.getpid()}"
        draft.write_text(json.dumps(made), encoding="utf-8")
        draft.replace(home / _ROW_VERDICTS)


def _evidence(folder: RunFolder, run: Run, row: RunRow) -> Evidence:
    end = "" if row.end is None else str(row.end)
    # The task of an agent that is no tester is no test.
    tests = (row.planned.node_id,) if run.plan.role == "tester" else ()
    if row.member is None:
        return Evidence(tests=tuple((test, None) for test in tests), end=end)
    home = folder.attempt(row.member)
    outcome = _outcome(home / OUTCOME)
    stated = None if outcome is None else outcome.importance
    return Evidence(
        outcome=home / OUTCOME if outcome is not None else None,
        transcript=home / _TRANSCRIPT if (home / _TRANSCRIPT).is_file() else None,
        conversation=home / TEXT if (home / TEXT).is_file() else None,
        said=conversation_end(home, _LONGEST_SAID),
        recordings=tuple(sorted(home.glob("**/*.cast")))[:_MOST_RECORDINGS] if home.is_dir() else (),
        tests=tuple((test, None if outcome is None else outcome.tests_passing_after) for test in tests),
        claims_fix=outcome is not None and claims_fix(outcome),
        turned_green=tests if outcome is not None and _turned_green(outcome) else (),
        words=row.text if outcome is None else outcome.summary,
        end=end,
        importance=None if stated is None else stated.level,
        why_important="" if stated is None else stated.reason,
        agent_type=run.plan.agent_type,
        model="" if row.usage is None else row.usage.model,
    )


def _turned_green(outcome: Outcome) -> bool:
    return outcome.tests_passing_before is False and outcome.tests_passing_after is True


def _outcome(path: Path) -> Outcome | None:
    try:
        if path.stat().st_size > LARGEST:
            return None
        return parse_outcome(path.read_bytes())
    except (OSError, UnreadableOutcomeError):
        return None
