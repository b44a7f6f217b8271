"""The two workers of the review screen: one owns the session and runs every action, the other reads diffs and moments.

Only its own thread uses the session, one action at a time, so the screen always matches the log. Diffs have
an engine of their own, so decisions and large diffs never wait for each other.

The app begins to open a review before it loads the screen, so nothing heavy may be imported here at the top.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.journal import unwritten
from selftest_tui.shared.loading import keep_what_is_there, loading
from selftest_tui.shared.reports import ReportRenewal, write_report
from selftest_tui.shared.worker import Worker

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from textual.message import Message

    from selftest_core.config import Config
    from selftest_core.integrate.applying import AnswerTaker
    from selftest_core.review.apply_decisions import ChangeDiff, Reviewed
    from selftest_core.review.changes.inputs import Request
    from selftest_core.review.engine import Engine
    from selftest_core.review.evidence import Evidence
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState
    from selftest_core.verify.background.background_verifier import BackgroundVerifier, VerificationState
    from selftest_core.verify.sandbox import Isolation
    from selftest_recorder.index.moments import AgentMoments

MOST_DIFFS = 24
"""Number of cached diffs."""
MOST_LINES = 60_000
"""Lines of all cached diffs together."""
MOST_AGENTS = 8
"""Agents whose conversations are cached."""

SECONDS_TO_END_TESTS = 10.0
"""Processes of tests are killed, and their folders are removed."""
SECONDS_TO_CLOSE = 60.0
"""Closing moves the candidate's ref to the branch. All decisions are in the log already."""


class ReviewFeed:
    """Opens a review and does acts on it."""

    def __init__(
        self, request: Request, folder: Path, environ: Mapping[str, str], config: Config | None = None
    ) -> None:
        self.request = request
        self._folder = folder
        self._environ = environ
        self._post: Callable[[Message], object] | None = None
        self._config = config
        self._opening: asyncio.Future[ReviewState] | None = None
        self._said = ""
        self._verifier: BackgroundVerifier | None = None
        self._acts = Worker("review")
        self._reads = Worker("diffs")
        self._session: ReviewSession | None = None
        self._report: ReportRenewal | None = None
        self._reader: Engine | None = None
        self._answers: AnswerTaker | None = None
        self._diffs: OrderedDict[str, ChangeDiff] = OrderedDict()
        self._moments: OrderedDict[tuple[str, Evidence], AgentMoments] = OrderedDict()

    @property
    def is_idle(self) -> bool:
        """True while no act is pending."""
        return self._acts.is_idle

    def begin_to_open(self) -> None:
        """Begin to open the review in its thread, if that has not begun."""

        def job() -> ReviewState:
            from selftest_core.review.session import ReviewSession  # in its thread: it costs the screen nothing

            with _raising_readable_errors(), loading():
                self._session = ReviewSession.open(self.request, self._folder, self._environ, self._say)
            self._session.is_awaited = lambda: self._acts.is_awaited
            self._verifier = self._make_verifier(self._session)
            self._report = ReportRenewal(self._session.state.home, self._session.top, self._environ)
            return self._session.state

        if self._opening is None:
            self._opening = self._acts.submit(job)

    async def open(self, post: Callable[[Message], object]) -> ReviewState:
        """Open the review, unless that has begun. `post` gets messages, from any thread.

        Raises what `ReviewSession.open` does.
        """
        self._post = post
        if self._said:
            self._say(self._said)
        self.begin_to_open()
        assert self._opening is not None, "it has begun"
        return await self._opening

    def _make_verifier(self, session: ReviewSession) -> BackgroundVerifier:
        from selftest_core.config import load_config
        from selftest_core.verify.background.background_verifier import BackgroundVerifier

        self._config = self._config or load_config(self._folder, self._environ)
        return BackgroundVerifier(
            session.open_reader, session.top, session.state.home, self._config, self._environ, self._verified,
        )  # fmt: skip

    @property
    def config(self) -> Config:
        """The settings, once the review is open."""
        assert self._config is not None, "it was loaded when the review was opened"
        return self._config

    @property
    def integrating(self) -> Mapping[str, str]:
        """What the agent of each change does that one resolves, by oid."""
        return self._answers.progress if self._answers is not None else {}

    def look(self, session: ReviewSession) -> ReviewState:
        """Look for new commits and moved branches, and take the answers of integrators: an act, for its thread."""
        from selftest_core.integrate.applying import AnswerTaker  # in its thread: it costs the screen nothing

        session.refresh()
        if self._answers is None:
            self._answers = AnswerTaker()
            # Not while the rows are waited for. With the commits of hundreds of agents a search takes longer than a
            # decision.
            keep_what_is_there()
        return self._answers.take(session)

    @property
    def verifier(self) -> BackgroundVerifier:
        """Verifies this review in the background, once it is open."""
        assert self._verifier is not None, "the screen verifies a review that is open"
        return self._verifier

    @property
    def verification(self) -> VerificationState | None:
        """The newest verdicts, None before the review is open."""
        return None if self._verifier is None else self._verifier.state

    def renew_report(self, *, must: bool = False) -> None:
        """Write the report again in the background if acts followed it; `must`: also where there is none yet."""
        if self._report is not None:
            self._report.look(must=must)

    async def write_report(self) -> Path:
        """Write the report now, and return its first page. Raises SelftestError."""
        assert self._session is not None, "the screen writes the report of a review that is open"
        return await write_report(self._session.state.home, self._session.top, self._environ)

    @property
    def has_trailers(self) -> bool:
        """True where published commits get trailers."""
        return self.config.publish_trailers

    async def isolation(self) -> tuple[Isolation, bool]:
        """Find what tests would be isolated by, and whether they may use the network. Raises RefusedError."""

        def find() -> tuple[Isolation, bool]:
            from selftest_core.verify.sandbox import choose_isolation

            assert self._config is not None, "it was loaded when the review was opened"
            isolation = choose_isolation(self._config.verify_isolation, self._environ)
            return isolation, self._config.verify_network

        return await self._reads.submit(find)

    async def act[T](self, do: Callable[[ReviewSession], T]) -> T:
        """Run `do` with the session, after the acts before it."""

        def job() -> T:
            assert self._session is not None, "the screen acts on a review that is open"
            with _raising_readable_errors():
                return do(self._session)

        return await self._acts.submit(job)

    async def diff(self, oid: str, key: str, reviewed: Reviewed) -> ChangeDiff:
        """Return the diff of a change. `key` changes when it is applied to something else. Raises ToolError."""

        def read(reader: Engine) -> ChangeDiff:
            from selftest_core.review.apply_decisions import read_change_diff

            return read_change_diff(reader, reviewed, oid)

        return await self._read(key, read)

    async def joint_diff(self, oid: str, reviewed: Reviewed) -> ChangeDiff:
        """Return the diff of the joint commit, whose id is `oid`. Raises ToolError."""

        def read(reader: Engine) -> ChangeDiff:
            from selftest_core.review.apply_decisions import ChangeDiff, read_joint_diff

            files = read_joint_diff(reader, reviewed)
            return ChangeDiff(files, files)

        return await self._read(oid, read)

    async def comparison(self, one: str, other: str, reviewed: Reviewed) -> ChangeDiff:
        """Return the difference of what two changes make of the base. Raises ToolError."""

        def read(reader: Engine) -> ChangeDiff:
            from selftest_core.review.apply_decisions import ChangeDiff, compare_changes

            files = compare_changes(reader, reviewed, one, other)
            return ChangeDiff(files, files)

        return await self._read(f"{one} {other} {reviewed.plan.base}", read)

    async def moments(self, agent: str, evidence: Evidence) -> AgentMoments:
        """Return an agent's conversation and recordings, to find moments in them."""
        known = self._moments.get((agent, evidence))
        if known is not None:
            self._moments.move_to_end((agent, evidence))
            return known

        def read() -> AgentMoments:
            from selftest_recorder.index.moments import read_moments

            return read_moments(agent, evidence)

        found = self._moments[agent, evidence] = await self._reads.submit(read)
        if len(self._moments) > MOST_AGENTS:
            self._moments.popitem(last=False)
        return found

    async def _read(self, oid: str, read: Callable[[Engine], ChangeDiff]) -> ChangeDiff:
        known = self._diffs.get(oid)
        if known is not None:
            self._diffs.move_to_end(oid)
            return known

        def job() -> ChangeDiff:
            try:
                with _raising_readable_errors():
                    if self._reader is None:
                        assert self._session is not None, "the screen reads diffs of a review that is open"
                        self._reader = self._session.open_reader()
                    return read(self._reader)
            except KeyError as error:
                hint = "Its branch may have been deleted, and git may have removed the commits of no branch."
                raise RefusedError("A commit of this change is gone", str(error), hint) from error

        made = self._diffs[oid] = await self._reads.submit(job)
        self._forget()
        return made

    def _forget(self) -> None:
        """Drop the oldest diffs from the cache."""
        sizes = {
            oid: sum(len(hunk.lines) for file in (*diff.applied, *diff.original) for hunk in file.hunks)
            for oid, diff in self._diffs.items()
        }
        while len(self._diffs) > 1 and (len(self._diffs) > MOST_DIFFS or sum(sizes.values()) > MOST_LINES):
            gone, _ = self._diffs.popitem(last=False)
            del sizes[gone]

    def stop(self) -> None:
        """Close the review, after the pending acts."""
        if self._verifier is not None:
            self._verifier.close(SECONDS_TO_END_TESTS)

        def close_reader() -> None:
            if self._reader is not None:
                self._reader.close()

        def close_session() -> None:
            if self._session is not None:
                self._session.close()

        self._reads.end(close_reader, patience=0)
        self._acts.end(close_session, patience=SECONDS_TO_CLOSE)
        if self._report is not None:
            self._report.look(is_at_rest=True)

    def _say(self, text: str) -> None:
        """Tell the progress of opening; kept until the screen is there."""
        self._said = text
        if self._post is not None:
            from selftest_tui.fleet.messages import ReviewSaid

            self._post(ReviewSaid(text))

    def _verified(self) -> None:
        """Tell that there are newer verdicts."""
        if self._post is not None:
            from selftest_tui.fleet.messages import VerificationSeen

            self._post(VerificationSeen())


@contextlib.contextmanager
def _raising_readable_errors() -> Iterator[None]:
    """Raise errors of files, such as a full disk, as errors for the user."""
    try:
        yield
    except OSError as error:
        raise unwritten(error.filename or "a file of this review", error) from error
