"""Facts of a run for its report: each test with its outcome, texts, recordings and files, read from the run's folder.

A test that has not changed since the last reading is not read again, so that a report can be written as a run goes on.
Anything may be missing or broken: it becomes a problem in words, and the rest is read.
"""

from __future__ import annotations

import itertools
import os
import stat
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.crew.recording import TERMINAL, live_recording
from selftest_core.run.events import Phase
from selftest_core.run.fetch.conversations import LINES, TEXT, WITHOUT
from selftest_core.run.fold import end_of
from selftest_core.run.outcome.ends import End
from selftest_core.run.outcome.outcome_file import LARGEST, parse_outcome
from selftest_core.run.spending import used_by
from selftest_core.schema.model import instant, usage_item
from selftest_core.schema.report import (
    ReportAttempt,
    ReportEscalation,
    ReportFile,
    ReportRecording,
    ReportTest,
    ReportTestRun,
    ReportText,
)
from selftest_core.schema.run_detail import test_item
from selftest_recorder.report.texts import left_out, text_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from selftest_core.run.fold import Member, Run, RunRow
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.store import RunFolder

TRANSCRIPT = "transcript.txt"
_MOST_FILES = 200
_MOST_RECORDINGS = 20
_MOST_LOOKED_AT = 5_000
_URGENT = ("BLOCKER", "FIX_DIRECTION_AMBIGUOUS")
"""The kinds of escalations that need a decision of a person, the most urgent first."""
_WITH_REASON = tuple(end for end in End if end.group.is_open and end is not End.BLOCKED)


@dataclass(frozen=True, slots=True)
class TestFacts:
    """One test as it was read. `row`: what it was read for."""

    __test__ = False

    row: RunRow
    test: ReportTest


def read_tests(folder: RunFolder, run: Run, known: dict[str, TestFacts]) -> list[ReportTest]:
    """Read all tests of a run in the plan's order; `known` keeps what was read, and is not read again."""
    for name, row in run.rows.items():
        before = known.get(name)
        if before is None or _is_changed(before.row, row):
            known[name] = TestFacts(row, _test(folder, run, row))
    return [known[name].test for name in run.rows]


def _is_changed(before: RunRow, row: RunRow) -> bool:
    # Tokens of a running agent are counted every few seconds; they are part of the run's sum, and of an ended test.
    return before is not row and (row.end is not None or _without_usage(before) != _without_usage(row))


def _without_usage(row: RunRow) -> tuple[object, ...]:
    return row.phase, row.attempt, row.end, row.attention, row.limited, row.verified, row.launched_at, row.is_verifying


def escalations(tests: Iterable[ReportTest]) -> list[ReportEscalation]:
    """List the escalations of all tests, blockers first."""
    found = [
        ReportEscalation(**dict(one), test=test.test, slug=test.slug) for test in tests for one in test.escalations
    ]
    return sorted(found, key=lambda one: _URGENT.index(one.kind) if one.kind in _URGENT else len(_URGENT))


def _test(folder: RunFolder, run: Run, row: RunRow) -> ReportTest:
    problems: list[str] = []
    member = row.member
    home = None if member is None else folder.attempt(member)
    outcome = None if home is None else _outcome(home / OUTCOME, problems)
    end = end_of(row)
    says = row.text if row.end in _WITH_REASON else ""
    has_file = outcome is not None and home is not None
    item = test_item(
        row.planned.node_id, row.name, end, str(row.phase), outcome, says,
        _relative(folder, home / OUTCOME) if has_file and home is not None else None,
    )  # fmt: skip
    recordings: list[ReportRecording] = []
    for one, place in _recordings(folder, row):
        names = {known.name for known in recordings}
        recordings.append(_recording(folder, one, place, row, names))
    transcript = None if home is None else _text(folder, _transcript(home))
    conversation = None if home is None else _text(folder, home / TEXT)
    files = [] if home is None else list(_files(folder, home))
    if row.end is not None:
        problems += _missing(run, row, member, outcome, transcript, conversation, recordings, problems)
    begin = row.launching_at
    fields = dict(item) | {
        "usage": usage_item(used_by(row)) if row.end is not None else None,
    }
    return ReportTest.model_validate(
        fields
        | {
            "slug": row.name,
            "page": f"tests/{row.name}.html",
            "group": end.group.value,
            "is_ended": row.end is not None,
            "attention": row.attention or row.limited,
            "stage": row.stage,
            "signature": row.signature,
            "blocks": list(row.planned.blocks),
            "importance_reason": "" if outcome is None or outcome.importance is None else outcome.importance.reason,
            "claimed": _claimed(outcome),
            "verified": row.verified or "unknown",
            "verified_reason": row.verified_reason,
            "verdict": None,
            "output": "",
            "started_at": instant(begin),
            "ended_at": instant(row.ended_at),
            "seconds": row.ended_at - begin if row.ended_at is not None and begin is not None else None,
            "attempts": list(_attempts(row)),
            "commits": row.commits,
            "tip": row.tip or None,
            "oids": [],
            "test_runs": []
            if outcome is None
            else [ReportTestRun(name=one.name, description=one.description) for one in outcome.test_runs],
            "transcript": transcript,
            "conversation": conversation,
            "recordings": recordings,
            "files": files,
            "problems": problems,
        }
    )


def _claimed(outcome: Outcome | None) -> str | None:
    claims: dict[bool | None, str | None] = {True: "passed", False: "failed", None: None}
    return None if outcome is None else claims[outcome.tests_passing_after]


def _outcome(path: Path, problems: list[str]) -> Outcome | None:
    size = text_size(path)
    if size is None:
        return None
    try:
        with path.open("rb") as file:
            return parse_outcome(file.read(LARGEST + 1))
    except SelftestError as error:
        problems.append(f"Its outcome cannot be read: {error.detail or error.title}.")
    except OSError as error:
        problems.append(f"Its outcome cannot be read: {error.strerror}.")
    return None


def _missing(
    run: Run,
    row: RunRow,
    member: Member | None,
    outcome: Outcome | None,
    transcript: ReportText | None,
    conversation: ReportText | None,
    recordings: list[ReportRecording],
    problems: list[str],
) -> Iterator[str]:
    """Say in words what an ended test lacks."""
    if member is None:
        yield "No agent was started for it."
        return
    if outcome is None and not problems:
        yield "Its agent left no outcome."
    if transcript is None:
        yield "There is no transcript of its command line."
    if conversation is None and run.plan.agent_type not in WITHOUT:
        yield "There is no conversation of its agent."
    if not recordings:
        yield "There is no recording of its terminal."


def _attempts(row: RunRow) -> Iterator[ReportAttempt]:
    for retry in row.retries:
        yield _attempt(retry.member, retry.reason, retry.text, retry)
    if row.member is not None:
        yield _attempt(row.member, "", row.says, row if row.end is not None else None)


def _attempt(member: Member, reason: str, says: str, used: object) -> ReportAttempt:
    return ReportAttempt(
        number=member.attempt, agent=member.name, agent_id=member.agent_id, provider=member.provider,
        host=member.host_id, reason=reason, says=says, usage=usage_item(getattr(used, "usage", None)),
    )  # fmt: skip


def _transcript(home: Path) -> Path:
    """Return the transcript that an agent left, else the newest that the fixture `e2e` wrote."""
    written = [path for path in _walk(home / "artifacts" / "e2e") if path.name == TRANSCRIPT]
    own = home / TRANSCRIPT
    return own if not written or own.exists() else max(written, key=lambda path: (path.lstat().st_mtime, str(path)))


def _text(folder: RunFolder, path: Path) -> ReportText | None:
    size = text_size(path)
    if size is None:
        return None
    return ReportText(path=_relative(folder, path), bytes=size, left_out=left_out(size))


def _recordings(folder: RunFolder, row: RunRow) -> Iterator[tuple[Member, Path]]:
    """Find the recordings of all attempts, the oldest first: those that agents left, else ours of their terminals."""
    members = [retry.member for retry in row.retries]
    if row.member is not None and (row.end is not None or row.phase is Phase.ENDED):
        members.append(row.member)  # those of a running agent still grow
    for member in members:
        live = live_recording(folder, member)
        left = [path for path in _walk(folder.attempt(member)) if path.suffix == ".cast"]
        # What is left of an agent has a copy of our recording, under the name that all of them have.
        has_copy = any(path.name == TERMINAL and path.parent == folder.attempt(member) for path in left)
        found = [*([live] if text_size(live) and not has_copy else []), *left]
        for path in found[:_MOST_RECORDINGS]:
            yield member, path


def _recording(folder: RunFolder, member: Member, path: Path, row: RunRow, taken: set[str]) -> ReportRecording:
    place = _relative(folder, path)
    stem = "terminal" if path == live_recording(folder, member) else path.stem
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in stem)[:40].strip("-")
    name = f"{row.name}-{member.attempt}-{letters or 'recording'}"
    if name in taken:
        name = next(free for number in itertools.count(2) if (free := f"{name}-{number}") not in taken)
    return ReportRecording(
        name=name, script=None, attempt=member.attempt, path=place, bytes=text_size(path) or 0, seconds=None, cols=0,
        rows=0, markers=[], problem="",
    )  # fmt: skip


def _files(folder: RunFolder, home: Path) -> Iterator[ReportFile]:
    shown = (TRANSCRIPT, TEXT, LINES)
    found = (path for path in _walk(home) if path.suffix != ".cast" and path.name not in shown)
    for path in itertools.islice(found, _MOST_FILES):
        yield ReportFile(path=_relative(folder, path), bytes=text_size(path) or 0)


def _walk(home: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, sorted; links are not followed."""
    looked = 0
    for top, folders, names in os.walk(home):
        folders.sort()
        for name in sorted(names):
            looked += 1
            if looked > _MOST_LOOKED_AT:
                return
            path = home.__class__(top) / name
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    yield path
            except OSError:
                continue


def _relative(folder: RunFolder, path: Path) -> str:
    return os.fsencode(path.relative_to(folder.path)).decode("utf-8", "replace")
