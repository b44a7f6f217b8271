"""Links of pages into recordings: from a hunk to the moment at which it was made, from a red test to its run.

A page links to the first agent that made a change, and says its words around that moment.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from selftest_core.conversation.conversation import step_text
from selftest_recorder.index.moments import AgentMoments, read_moments
from selftest_recorder.report.facts import MomentLink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.diffs import FileDiff
    from selftest_core.git.objects import Commit
    from selftest_core.review.evidence import Evidence
    from selftest_core.schema.report import ReportDocument, ReportTest
    from selftest_recorder.index.moments import Moment

_MOST_HUNKS = 200
"""Hunks of one change whose moments are looked for."""


class MomentLinks:
    """Finds moments in the evidence of agents, which is read when the first page needs it. `home`: the run's folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[str, tuple[Evidence, AgentMoments, list[int]]] = {}

    def of_hunks(
        self, report: ReportDocument, files: Sequence[FileDiff], commit: Commit, agent: str, evidence: Evidence
    ) -> dict[tuple[int, int], MomentLink]:
        """Find the moment of each hunk of an agent's commit."""
        moments = self._moments(agent, evidence)
        tests = {test.agent: test for test in report.tests}
        found: dict[tuple[int, int], MomentLink] = {}
        for number, file in enumerate(files):
            for at, hunk in enumerate(file.hunks):
                if len(found) >= _MOST_HUNKS:
                    return found
                moment = moments.of_hunk(file.path, hunk, commit)
                if moment is not None:
                    found[number, at] = self._link(moment, tests.get(agent))
        return found

    def of_red(self, test: ReportTest, evidence: Evidence) -> MomentLink | None:
        """Find the agent's own last red run of its test."""
        moment = self._moments(test.agent, evidence).of_test(test.test, red_only=True)
        return None if moment is None else self._link(moment, test)

    def _moments(self, agent: str, evidence: Evidence) -> AgentMoments:
        known = self._known.get(agent)
        if known is None or known[0] is not evidence:
            moments = read_moments(agent, evidence)
            # The text of a conversation leaves out steps without words.
            numbers = list(accumulate(int(bool(step_text(step))) for step in moments.steps))
            known = self._known[agent] = (evidence, moments, numbers)
        return known[1]

    def _link(self, moment: Moment, test: ReportTest | None) -> MomentLink:
        words = moment.words
        numbers = self._known[moment.agent][2]
        recording = None if test is None or moment.recording is None else self._name(test, moment.recording)
        return MomentLink(
            moment.agent, None if test is None else test.slug, recording, None if recording is None else moment.time,
            words.before, words.call, words.after, None if words.step is None else numbers[words.step],
        )  # fmt: skip

    def _name(self, test: ReportTest, recording: Path) -> str | None:
        paths: Mapping[Path, str] = {self._home / one.path: one.name for one in test.recordings if one.script}
        return paths.get(recording)
