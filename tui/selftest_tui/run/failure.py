"""The recording of a test's agent: live while it works, from its beginning where it passed, else where it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.review.evidence import Evidence
from selftest_core.run.crew.recording import recording_of
from selftest_core.run.fetch.conversations import TEXT
from selftest_core.run.outcome.ends import End
from selftest_recorder.index.moments import read_moments
from selftest_tui.fleet.messages import ReplayWanted
from selftest_tui.shared import present

if TYPE_CHECKING:
    from selftest_core.run.fold import RunRow
    from selftest_core.run.store import RunFolder

FAILED_MARKERS = ("failed", "blocked", "pytest: ")
"""Beginnings of the markers to go to where nothing tells when the test failed."""


def find_replay(folder: RunFolder, row: RunRow) -> ReplayWanted:
    """Find the recording of a test's agent and the moment to begin at. Blocks. Raises RefusedError without one."""
    member = row.member
    path = None if member is None else recording_of(folder, member)
    if member is None or path is None:
        hint = "`record = false` in the settings turns recording off." if member is not None else ""
        raise RefusedError(f"{present.clean(row.name)} has no recording", "No agent of it was recorded.", hint)
    title = f"{member.name} · {present.clean(row.planned.node_id)}"
    if row.end is None or row.end is End.SUCCEEDED:
        return ReplayWanted(path, title, follows=row.end is None, is_ended=row.end is not None)
    evidence = Evidence(conversation=folder.attempt(member) / TEXT, recordings=(path,))
    moment = read_moments(member.name, evidence).of_test(row.planned.node_id, red_only=True)
    at = None if moment is None else moment.time
    return ReplayWanted(path, title, at=at, marker=FAILED_MARKERS, is_ended=True)
