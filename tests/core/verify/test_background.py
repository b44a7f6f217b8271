"""A review that is verified in the background follows the decisions, and loses nothing when it is left."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from core.verify.desks import SANDBOX, SETTINGS, make_shop
from selftest_core.config import load_config
from selftest_core.errors import ToolMissingError
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.review.changes.parts import PartSpec
from selftest_core.review.evidence import Evidence
from selftest_core.review.session import ReviewSession
from selftest_core.verify.background.background_verifier import BackgroundVerifier, Phase, Wanted
from selftest_core.verify.background.note import Started
from selftest_core.verify.verification import Mark, Verified, verified_tests
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_core.review.state import ReviewState
    from selftest_core.verify.background.background_verifier import VerificationState

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real

TOLD = Started(SANDBOX.kind, network=False)
LIE = {"cat": Evidence(tests=(("tests/test_cat.py::test_f", True),))}


class Open:
    """An open review that is verified in the background."""

    def __init__(
        self,
        session: ReviewSession,
        environ: dict[str, str],
        settings: dict[str, str],
        evidence: dict[str, Evidence],
        quiet: float,
    ) -> None:
        self.session = session
        self._evidence = evidence
        self.seen: list[VerificationState] = []
        config = load_config(session.top, environ, {**settings, "verify_jobs": "2"})
        home = session.state.home
        self.verifier = BackgroundVerifier(session.open_reader, session.top, home, config, environ, self.look, quiet)
        self.want(session.state)

    def look(self) -> None:
        self.seen.append(self.verifier.state)

    def want(self, state: ReviewState) -> None:
        self.verifier.want(Wanted(state.reviewed, state.kept_line, self._evidence, state.branches))

    def decide(self, agent: str, decision: Decision) -> None:
        self.want(self.session.decide([self.oid(agent)], decision))

    def oid(self, agent: str) -> str:
        return next(change.oid for change in self.session.state.reviewed.order if change.agents == (agent,))

    def verdict(self, agent: str) -> tuple[Verified, tuple[Mark, ...]]:
        found = self.verifier.state.items[self.oid(agent)]
        return found.verified, found.marks

    def until(self, condition: Callable[[VerificationState], object], what: str) -> None:
        eventually(lambda: condition(self.verifier.state), what)

    def is_settled(self) -> bool:
        return self.verifier.state.is_settled

    def until_done(self) -> None:
        self.until(lambda one: one.phase in (Phase.DONE, Phase.FAILED) and one.is_settled, "done")


class Shop:
    def __init__(self, folder: Path) -> None:
        self.repository: Repository = make_shop(folder / "shop")
        mine = {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder / "home")}
        self.environ = {**os.environ, **SETTINGS, **mine}
        self.slots = folder / "cache" / "selftest-tui" / "verify"

    @contextmanager
    def reviewing(
        self, *agents: str, evidence: dict[str, Evidence] = LIE, quiet: float = 0, **settings: str
    ) -> Iterator[Open]:
        request = Request(targets=agents, base="main")
        with ReviewSession.open(request, self.repository.folder, self.environ, lambda _: None) as session:
            one = Open(session, self.environ, settings, evidence, quiet)
            try:
                yield one
            finally:
                one.verifier.close()
        assert not [path for path in self.slots.glob("*") if path.is_dir()], "a slot is left"
        assert "verification" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("background"))


def test_it_follows_the_decisions_and_undo_costs_nothing(shop: Shop) -> None:
    with shop.reviewing("ada", "cat", "eve") as one:
        assert one.verifier.started is None
        assert one.verifier.state.phase is Phase.OFF
        one.verifier.start(TOLD)
        one.until_done()
        first = next(state for state in one.seen if state.items)
        assert not first.is_settled, "first verdicts are shown before causes are known"
        assert one.verdict("ada") == (Verified.PASSED, ())
        assert one.verdict("cat") == (Verified.FAILED, (Mark.LIAR,))
        assert one.verdict("eve") == (Verified.FAILED, (Mark.CULPRIT,))
        assert set(one.verifier.state.finished) == {one.session.state.reviewed.line.tree}

        one.decide("eve", Decision.REVERT)
        assert not one.is_settled(), "the verdicts are of another line"
        one.until_done()
        assert one.verdict("eve")[0] is Verified.UNKNOWN
        one.want(one.session.undo())
        assert one.is_settled()
        assert one.verdict("eve") == (Verified.FAILED, (Mark.CULPRIT,))
        one.want(one.session.redo())
        one.decide("cat", Decision.REVERT)
        one.decide("ada", Decision.KEEP)
        one.until_done()
        kept = one.verifier.state.finished[one.session.state.kept_line.tree]
        assert kept.verified is Verified.PASSED
        assert one.verifier.state.isolation is not None
        told = one.session.pull_request(verified_tests(kept, one.verifier.state.isolation)).body
        assert f"(tree {kept.tree[:12]}) selftest-tui ran" in told
        assert "- `tests/test_ada.py::test_f`: green, fixed (before: red)" in told
        assert "Claimed by the agents" not in told
        stale = one.session.decide([one.oid("ada")], Decision.REVERT)
        assert stale.kept_line.tree != kept.tree
        told = one.session.pull_request(verified_tests(kept, one.verifier.state.isolation)).body
        assert "selftest-tui ran" not in told, "it speaks of exactly what is published"
    with shop.reviewing("ada", "cat", "eve") as one:
        why = {one.agent: ranked.why for ranked in one.session.state.plan.ranked for one in ranked.change.sources}
        assert "1 test fixed, verified" in why["ada"]
        assert "fixed" not in why["cat"], "what is claimed counts no more"


def test_red_tests_do_not_wait_for_more_decisions(shop: Shop) -> None:
    rate = "tests/test_common.py::test_rate"
    evidence = {**LIE, "ada": Evidence(tests=(("tests/test_ada.py::test_f", True), (rate, True)))}
    with shop.reviewing("ada", "bob", "cat", "eve", evidence=evidence, quiet=3600) as one:
        one.verifier.start(TOLD)
        one.until_done()
        assert one.verdict("ada")[0] is Verified.FAILED
        one.decide("eve", Decision.REVERT)
        one.until(lambda state: state.phase is Phase.WAITING and one.verdict("ada")[0] is Verified.PASSED, "green")
        assert not one.is_settled()
        assert one.verdict("cat")[0] is Verified.FAILED
        one.verifier.start(TOLD)
        one.until_done()
        assert one.verdict("ada") == (Verified.PASSED, ())
        assert one.verdict("cat") == (Verified.FAILED, (Mark.LIAR,))
        found = one.verifier.state.candidate
        assert found is not None
        assert found.from_cache >= 4, "what ran at once, and the test of the lie three times, is not run again"


def test_it_goes_on_where_it_was_left(shop: Shop) -> None:
    with shop.reviewing("bob", "gus", "eve") as one:
        one.verifier.start(TOLD)
        one.until(lambda state: state.done, "a result")
        one.verifier.pause()
        one.until(lambda state: state.phase is Phase.PAUSED, "paused")
        one.verifier.go_on()
        one.until(lambda state: state.phase in (Phase.RUNNING, Phase.DONE), "running again, or done before one looked")
    with shop.reviewing("bob", "gus", "eve") as one:
        started = one.verifier.started
        assert started == TOLD
        one.verifier.start(started)
        one.until_done()
        before = one.verifier.state.candidate
    with shop.reviewing("bob", "gus", "eve") as one:
        noted = one.verifier.started
        assert noted == TOLD, "what was found does not replace the note that it was started"
        one.verifier.start(TOLD)
        one.until_done()
        again = one.verifier.state.candidate
        assert before is not None
        assert again is not None
        assert (again.executions, again.processes, again.verified) == (0, 0, before.verified)
        one.verifier.cancel()
        one.until(lambda state: state.phase is Phase.OFF, "off")
        assert one.verifier.started is None
        assert one.verifier.state.items, "verdicts stay"


def test_what_is_kept_is_verified_when_it_is_asked_for(shop: Shop) -> None:
    with shop.reviewing("ada", "bob") as one:
        one.decide("ada", Decision.KEEP)
        one.verifier.start(Started(SANDBOX.kind, network=False, with_kept=True))
        tree = one.session.state.kept_line.tree
        assert tree != one.session.state.reviewed.line.tree
        one.until(lambda state: tree in state.finished, "the kept line")
        assert one.verifier.state.finished[tree].verified is Verified.PASSED
        assert one.verdict("bob")[0] is Verified.PASSED, "rows show the candidate"


def test_what_cannot_be_started_is_told_and_tried_again_on_request(shop: Shop) -> None:
    with shop.reviewing("ada", pytest_command="/no/python -m pytest") as one:
        one.verifier.start(TOLD)
        one.until(lambda state: state.phase is Phase.FAILED, "failed")
        assert isinstance(one.verifier.state.error, ToolMissingError)


def test_the_parts_of_a_change_have_verdicts_of_their_own(shop: Shop) -> None:
    """Eve's change mends one module and breaks another."""
    with shop.reviewing("ada", "eve", evidence={}) as one:
        one.verifier.start(TOLD)
        one.until_done()
        eve = one.oid("eve")
        assert one.verdict("eve")[1] == (Mark.CULPRIT,)
        one.want(one.session.split(eve, (PartSpec(files=("shop/eve.py",)),)))
        one.until_done()
        mended, broken = (change.oid for change in one.session.state.reviewed.order if change.part is not None)
        items = one.verifier.state.items
        assert (items[mended].verified, items[mended].marks) == (Verified.PASSED, ())
        assert (items[broken].verified, items[broken].marks) == (Verified.FAILED, (Mark.CULPRIT,))
        before = one.verifier.state.candidate
        one.want(one.session.squash([mended, one.oid("ada")]))
        one.until_done()
        after = one.verifier.state.candidate
        assert before is not None
        assert after is not None
        assert (after.tree, after.executions) == (before.tree, 0), "another commit of the same tree"
