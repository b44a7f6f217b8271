"""Moments of an agent's work in its recording: when it made a hunk of its change, and when a test failed.

    moments = read_moments(agent, evidence)          # reads files: call it in a thread
    moment = moments.of_hunk(path, hunk, commit)
    moment.recording, moment.time                    # for the player; for a page: `#t={moment.time:.0f}`
    moment.words                                     # the agent's words around it

The source of a moment is the best of these: the tool call in the conversation that wrote the lines of the hunk,
the marker of the commit in the recording, the time of the commit. Times are those of the agent's host, as are those of
its recording.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.conversation.appended_lines import open_below
from selftest_core.conversation.common_transcript import parse_lines
from selftest_core.conversation.tool_calls import Words, find_edit, find_test_run, words_around
from selftest_core.conversation.transcript_files import LARGEST, whole_lines
from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.run.crew.recording import TERMINAL
from selftest_core.run.fetch.conversations import LINES
from selftest_recorder.cast.events import MARKER
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.index.index import Marker
from selftest_recorder.onhost.markers import clean_label

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.conversation.common_transcript import Step
    from selftest_core.git.objects import Commit
    from selftest_core.git.patches import Hunk
    from selftest_core.review.evidence import Evidence

_QUIET = 60.0
"""Seconds after the last output of a recording that still belong to it: its terminal showed the same then."""


class MomentSource(StrEnum):
    """The source of a moment, the most exact first."""

    TOOL_CALL = "tool call"
    MARKER = "marker"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment of one agent. `at`: seconds since the epoch.

    `recording` and `time` (seconds from its beginning): None where nothing was recorded at that moment.
    """

    agent: str
    source: MomentSource
    at: float
    recording: Path | None = None
    time: float | None = None
    words: Words = Words()


@dataclass(frozen=True, slots=True)
class _Recorded:
    """One recording: when it began and ended, in seconds since the epoch, and its markers."""

    path: Path
    began: float
    ended: float
    markers: tuple[Marker, ...]


class AgentMoments:
    """The conversation and the recordings of one agent, searched for moments."""

    def __init__(self, agent: str, steps: Sequence[Step], recordings: Sequence[_Recorded]) -> None:
        self.agent = agent
        self.steps = steps
        """The steps of the kept conversation; `Words.step` counts them."""
        self._recordings = recordings

    def of_hunk(self, path: str, hunk: Hunk, commit: Commit) -> Moment | None:
        """Return the moment at which a hunk was made; `path` is the file's, `commit` the agent's commit with the hunk.

        None for a commit without a valid date.
        """
        words = find_edit(self.steps, path, hunk)
        if words is not None and words.at is not None:
            return self._moment(MomentSource.TOOL_CALL, words.at, words)
        return self.of_commit(commit)

    def of_commit(self, commit: Commit) -> Moment | None:
        """Return the moment of a commit: its marker in a recording, else its date. None without a valid date."""
        label = clean_label(f"commit: {commit.subject}")[:60]
        for recorded in self._recordings:
            found = [one for one in recorded.markers if one.label.startswith(label)]
            if found:
                at = recorded.began + found[-1].time
                return self._moment(MomentSource.MARKER, at, words_around(self.steps, at))
        date = _date_of(commit.author)
        return None if date is None else self._moment(MomentSource.COMMIT, date, words_around(self.steps, date))

    def of_test(self, node_id: str, *, red_only: bool = False) -> Moment | None:
        """Return the moment at which the agent's own last run of a test ended: a red one, else (unless `red_only`) any.

        It is found by the tool call that ran it, else by the last marker of a red pytest. None without either.
        """
        words = find_test_run(self.steps, node_id, red_only=red_only)
        if words is not None and words.at is not None:
            return self._moment(MomentSource.TOOL_CALL, words.at, words)
        for recorded in self._recordings:
            found = [one for one in recorded.markers if _is_failure(one.label)]
            if found:
                at = recorded.began + found[-1].time
                return self._moment(MomentSource.MARKER, at, words_around(self.steps, at))
        return None

    def _moment(self, source: MomentSource, at: float, words: Words) -> Moment:
        covering = [one for one in self._recordings if one.began <= at <= one.ended + _QUIET]
        if not covering:
            return Moment(self.agent, source, at, words=words)
        recorded = covering[0]
        return Moment(self.agent, source, at, recorded.path, at - recorded.began, words)


def read_moments(agent: str, evidence: Evidence) -> AgentMoments:
    """Read the conversation and the recordings of an agent; what cannot be read counts as missing. Blocks."""
    recordings = [one for path in evidence.recordings if (one := _recorded(path)) is not None]
    # The agent's terminal comes before what its tests recorded.
    recordings.sort(key=lambda one: one.path.name != TERMINAL)
    folder = evidence.conversation.parent if evidence.conversation is not None else None
    return AgentMoments(agent, _steps(folder) if folder is not None else (), recordings)


def _steps(folder: Path) -> Sequence[Step]:
    try:
        handle = open_below(folder, LINES)
    except (OSError, ValueError):
        return ()
    try:
        data = os.pread(handle, LARGEST, 0)
    except OSError:
        return ()
    finally:
        os.close(handle)
    return parse_lines(whole_lines(data, is_cut=False).split(b"\n"))[0]


def _recorded(path: Path) -> _Recorded | None:
    try:
        recording = read_cast(path)
        began = recording.header.timestamp
        if began is None:
            return None
        markers = []
        end = 0.0
        for event in recording.events():
            end = event.time
            if event.code == MARKER:
                markers.append(Marker(event.time, event.data))
    except (OSError, SelftestError):
        return None
    return _Recorded(path, began, began + end, tuple(markers))


def _is_failure(label: str) -> bool:
    return label.startswith("pytest: ") and (" failed" in label or " error" in label)


def _date_of(author: bytes) -> float | None:
    """Return the date of an author line: its second last word."""
    words = author.rsplit(b" ", 2)
    return float(words[1]) if len(words) == 3 and words[1].isdigit() and len(words[1]) < 12 else None
