"""The keys of a review's screen that verify: start, pause, cancel, and the jump to a culprit. Publishing asks here.

Agents' code runs only after a yes: once for each review, and again where tests could reach more than was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.journal import unwritten
from selftest_core.verify.background.background_verifier import Phase, Wanted
from selftest_core.verify.background.note import Started
from selftest_core.verify.verdicts import Verdict
from selftest_core.verify.verification import Verified, verified_tests
from selftest_tui.review import words as review_words
from selftest_tui.review.lines import MARKS, ReviewRow, subject_of
from selftest_tui.review.moves import ReviewMoves
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.options import Options, Way
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.review.pull_request import VerifiedTests
    from selftest_core.review.state import ReviewState
    from selftest_core.verify.sandbox import Isolation
    from selftest_core.verify.verification import Verification

_IN_SANDBOX = (
    "They run in a sandbox ({kind}): your home, /tmp and /run are not there, the file system is read-only, and no "
    "process outlives its run."
)
_NOT_ISOLATED = "They are NOT isolated ({reason}): they run with all your rights, and can read and change your files."
_NETWORK = "They may use the network (`verify_network`)."
_NO_NETWORK = "They have no network."


class ReviewVerifying(ReviewMoves):
    """The part of a review's screen that verifies."""

    # starting

    async def do_verify(self) -> None:
        """Start, or ask what else to do."""
        verifier = self.feed.verifier
        phase = verifier.state.phase
        if phase in (Phase.OFF, Phase.FAILED) or verifier.started is None:
            await self._start(whole=False, kept=False)
            return
        started = verifier.started
        ways = [Way("v", "Verify again: what timed out or was unknown is tried once more")]
        if started.is_whole_suite:
            ways.append(Way("o", "Only the tests that changes own or affect"))
        else:
            ways.append(Way("w", "The whole test suite"))
        if not started.with_kept:
            ways.append(Way("k", "Also exactly what is kept, while other changes are undecided"))
        ways.append(Way("c", "Cancel: end the test processes; verdicts stay"))
        says = "The candidate branch is verified in the background; results are kept, so nothing is run twice."
        chosen = await self.app.push_screen_wait(Options("Verification", says, (), ways))
        match chosen:
            case "v":
                await self._start(whole=started.is_whole_suite, kept=started.with_kept)
            case "w" | "o":
                await self._start(whole=chosen == "w", kept=started.with_kept)
            case "k":
                await self._start(whole=started.is_whole_suite, kept=True)
            case "c":
                self.cancel_verification()

    def cancel_verification(self) -> None:
        """End the test processes; verdicts stay."""
        try:
            self.feed.verifier.cancel()
        except OSError as error:
            raise unwritten(error.filename or "the note of this verification", error) from error

    async def _start(self, *, whole: bool, kept: bool) -> bool:
        """Start it, after a yes where this was not said yet. Returns False where the user does not want it."""
        isolation, network = await self.feed.isolation()
        verifier = self.feed.verifier
        before = verifier.started
        if before is None or (before.isolation, before.network) != (isolation.kind, network):
            says = "Verification runs the tests of the agents' branches, and with them code that agents wrote, here."
            title = "Run the tests of this review?"
            question = Question(title, says, _reach(isolation, network), yes="Verify", no="Leave it")
            if await self.app.push_screen_wait(question) is not True:
                return False
        try:
            verifier.start(Started(isolation.kind, network, whole, kept))
        except OSError as error:
            raise unwritten(error.filename or "the note of this verification", error) from error
        return True

    async def go_on_verifying(self) -> None:
        """Go on with the verification of an earlier session, where tests can reach no more than was said then."""
        started = self.feed.verifier.started
        if started is None:
            return
        try:
            isolation, network = await self.feed.isolation()
            if (started.isolation, started.network) != (isolation.kind, network):
                raise RefusedError(
                    "Not verified",
                    "Tests could reach something else than before.",
                    f"{shown('review.verify', 'v')} asks again.",
                )
            self.feed.verifier.start(started)
        except OSError as error:
            raise unwritten(error.filename or "the note of this verification", error) from error

    def do_pause(self) -> None:
        """Pause the verification, or go on."""
        verifier = self.feed.verifier
        if verifier.state.phase is Phase.PAUSED:
            verifier.go_on()
        else:
            verifier.pause()

    def want_verified(self, state: ReviewState) -> None:
        """Tell the verifier of a newer state."""
        self.want_first()
        self.feed.verifier.want(Wanted(state.reviewed, state.kept_line, state.evidence, state.branches))

    def want_first(self) -> None:
        """Tell the verifier what to verify first: what is on the screen, then what is undecided."""
        lines = self.table.shown.lines
        top = self.table.scroll_offset.y
        seen = [line.oid for line in lines[top : top + self.table.page] if isinstance(line, ReviewRow)]
        opens = [row.oid for row in self.rows if row.is_open]
        self.feed.verifier.look_at(tuple(dict.fromkeys((*seen, *opens))))

    # looking

    def do_show_tests(self) -> None:
        """Show the tests of the change, before and after."""
        self._show("tests")

    def do_culprit(self) -> None:
        """Go to the change that breaks a test of this one; on a culprit, to the next change whose test it breaks."""
        row = self.table.row
        assert row is not None, "the key table lets this key through on changes only"
        others = related(row, self.rows)
        if not others:
            self._show("tests")
            return
        places = self.table.shown.places
        other = next((one for one in others if one in places), None)
        if other is None:
            raise RefusedError(
                "It is not shown",
                "",
                f"{shown('review.back', 'esc')} clears the filter, {shown('review.open_group', '→')} opens a group.",
            )
        self.table.go_to_key(other)

    # publishing

    async def may_publish(self, branch: str, says: str, lines: Sequence[str]) -> bool:
        """Ask before publishing; where what is kept is not verified, or not green, the question names it."""
        state = self.state
        assert state is not None, "the key table lets this key through in a review that is open"
        found = None if self.feed.verification is None else self.feed.verification.finished.get(state.kept_line.tree)
        if found is not None and found.verified is Verified.PASSED:
            suite = "the whole suite passes" if found.is_whole_suite else "all tests that changes own or affect pass"
            question = Question(f"Publish as {branch}?", f"{says}\nVerified: {suite}.", lines, yes="Publish")
            return await self.app.push_screen_wait(question) is True
        warnings = unverified_lines(found, self.rows)
        word = "not verified" if found is None else f"verified: {found.verified}"
        ways = [Way("y", f"Publish it all the same, {word}")]
        if found is None:
            ways.insert(0, Way("v", f"Verify exactly this first; then press {shown('review.publish', 'P')} again"))
        says = f"▲ {word[:1].upper()}{word[1:]}.\n{says}"
        chosen = await self.app.push_screen_wait(Options(f"Publish as {branch}?", says, [*warnings, "", *lines], ways))
        if chosen == "v":
            started = self.feed.verifier.started
            await self._start(whole=started is not None and started.is_whole_suite, kept=True)
        return chosen == "y"

    def verdicts_on_kept(self) -> dict[str, str]:
        """Return our verdicts on the changes of exactly what is kept, by their ids; none where it was not verified."""
        state, verification = self.state, self.feed.verification
        found = None if state is None or verification is None else verification.finished.get(state.kept_line.tree)
        return {} if found is None else {oid: str(one.verified) for oid, one in found.items.items()}

    def verified_tests(self) -> VerifiedTests | None:
        """Return our own run of the tests of exactly what is kept, for the pull request; None where there is none."""
        state, verification = self.state, self.feed.verification
        if state is None or verification is None or verification.isolation is None:
            return None
        found = verification.finished.get(state.kept_line.tree)
        return None if found is None else verified_tests(found, verification.isolation)


def related(row: ReviewRow, rows: Sequence[ReviewRow]) -> list[str]:
    """Return the keys of changes that break a test of this one, or whose tests it breaks, those below it first."""
    if row.verdict is None:
        return []
    culprits = {one.culprit for one in row.verdict.tests if one.culprit not in (None, row.oid)}
    broke = set(row.verdict.broke)
    at = next(number for number, one in enumerate(rows) if one.oid == row.oid)
    return [
        one.key
        for one in (*rows[at + 1 :], *rows[:at])
        if one.oid in culprits
        or (
            one.verdict is not None
            and any(test.test in broke and test.culprit == row.oid for test in one.verdict.tests)
        )
    ]


def has_red(row: ReviewRow) -> bool:
    """Return True where a test of the change is red."""
    return row.verdict is not None and any(one.after is Verdict.RED for one in row.verdict.tests)


def unverified_lines(found: Verification | None, rows: Sequence[ReviewRow]) -> list[str]:
    """Name what is not green of what would be published."""
    if found is None:
        return ["▲ Its tests were not run on exactly what is kept: nobody knows whether they pass."]
    subjects = {row.oid: subject_of(row.change) for row in rows}
    named = [
        f"{review_words.VERIFIED[one.verified]} {subjects.get(one.oid, one.oid[:12])}: "
        + ", ".join([*(MARKS.get(mark, mark) for mark in one.marks), *([one.reason] if one.reason else [])])
        for one in found.items.values()
        if one.verified in (Verified.FAILED, Verified.FLAKY)
    ]
    owned = {test.test for one in found.items.values() for test in one.tests}
    named += [f"✗ {one.test}" for one in found.tests if one.after is Verdict.RED and one.test not in owned]
    return named or [
        f"▲ Verification gives no verdict on exactly what is kept: {shown('review.show_tests', '6')} says why."
    ]


def _reach(isolation: Isolation, network: bool) -> list[str]:
    where = _IN_SANDBOX if isolation.is_isolated else _NOT_ISOLATED
    lines = [where.format(kind=isolation.kind, reason=isolation.reason)]
    lines.append(_NETWORK if network or not isolation.is_isolated else _NO_NETWORK)
    lines += [
        "Your checkout, branches and settings are not touched. Decisions go on meanwhile.",
        f"{shown('review.pause', 'H')} pauses it, {shown('review.verify', 'v')} ends it.",
    ]
    return lines
