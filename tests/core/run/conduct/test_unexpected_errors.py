"""A crew or a tool with nonsense answers costs single tests, never the run, and causes no endless loop."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.run.rehearsals import POLL, a_rehearsal, assert_told_rightly
from selftest_core.errors import ToolFailedError
from selftest_core.journal import read
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.crew.crew import LaunchError
from selftest_core.run.events import Event
from selftest_core.run.fetch.fetching import OwnDiskError
from selftest_core.run.meter import RunMeter
from selftest_core.run.store import RequestKind, RunRequest
from simulated.crew import Role, SimulatedBundles, SimulatedCrew

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.journal import Entry
    from selftest_core.run.crew.crew import Seen
    from selftest_core.run.fold import Member, Run
    from selftest_core.run.store import RunFolder

METHODS = ("create", "look", "pull", "screens", "send", "stop")


class OddCrew(SimulatedCrew):
    """A simulated crew whose methods sometimes raise unexpected errors, or return nonsense."""

    odd: Mapping[str, float] = {}
    """By method: how often it is odd, 0 to 1."""

    async def _oddly[T](self, method: str, act: Callable[[], Awaitable[T]]) -> T:
        dice = self.world.dice(f"odd {method}")
        if dice.random() >= self.odd.get(method, 0.0):
            return await act()
        if method == "create" and dice.random() < 0.5:
            await act()  # it was made, and the answer is lost
        kind = dice.choice((KeyError("local"), TypeError("no such thing"), None, ExceptionGroup("some", [KeyError(7)])))
        if kind is None:
            answer: Any = None
            return answer  # type: ignore[no-any-return]
        raise kind

    async def create(self, member: Member) -> Seen:
        return await self._oddly("create", lambda: super(OddCrew, self).create(member))

    async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
        return await self._oddly("look", lambda: super(OddCrew, self).look(members))

    async def pull(self, member: Member, staging: Path) -> None:
        return await self._oddly("pull", lambda: super(OddCrew, self).pull(member, staging))

    async def screens(self, members: Sequence[Member]) -> Mapping[str, str]:
        return await self._oddly("screens", lambda: super(OddCrew, self).screens(members))

    async def send(self, member: Member, text: str) -> None:
        return await self._oddly("send", lambda: super(OddCrew, self).send(member, text))

    async def stop(self, members: Sequence[Member]) -> Mapping[str, str]:
        return await self._oddly("stop", lambda: super(OddCrew, self).stop(members))


def odd_crew(odd: Mapping[str, float]) -> type[OddCrew]:
    return type("CrewOfThisTest", (OddCrew,), {"odd": odd})


def assert_over(rehearsal: Rehearsal) -> None:
    """Assert one outcome for every test, no agent left, and a valid journal."""
    run = rehearsal.run
    assert run.is_over
    assert sum(run.ends().values()) == len(run.rows)
    assert_told_rightly(rehearsal.plan, read(rehearsal.ledger.data).entries)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), odd=st.dictionaries(st.sampled_from(METHODS), st.sampled_from((0.1, 0.3, 0.6))))
def test_a_crew_that_is_odd_at_times_never_ends_a_run(
    seed: int, odd: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    dice = random.Random(seed)
    roles = [dice.choice(list(Role)) for _ in range(6)]
    rehearsal = a_rehearsal(tmp_path_factory.mktemp("run"), roles, seed=seed)
    rehearsal.crew = odd_crew(odd)
    assert rehearsal.conduct() == "done"
    assert_over(rehearsal)
    if not odd.keys() & {"look", "stop"} and not set(roles) & {Role.VANISHES, Role.VANISHES_ONCE, Role.FALLS_SILENT}:
        assert rehearsal.world.live(rehearsal.passed) == []


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_always_fails_ends_each_test_once_with_its_evidence(method: str, tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS, Role.NEEDS_A_REMINDER, Role.CRASHES], timeout=600.0)
    rehearsal.crew = odd_crew({method: 1.0})
    assert rehearsal.conduct() == "done"
    assert_over(rehearsal)
    rows = rehearsal.run.rows.values()
    if method == "look":
        assert {str(row.end) for row in rows} <= {"launch", "lost"}
    if method in ("create", "look"):
        failed = [row for row in rows if str(row.end) in ("launch", "lost")]
        assert all("Error" in row.text or "no answer about it" in row.text for row in failed)
        assert failed
    assert len(read(rehearsal.ledger.data).entries) < 500


def test_an_error_of_our_own_about_one_test_ends_that_test_alone(tmp_path: Path) -> None:
    class BundlesThatFail(SimulatedBundles):
        async def take(self, bundle: Path, member: Member) -> Any:
            if member.test == "agent-01":
                raise ZeroDivisionError("division by zero")
            return await super().take(bundle, member)

    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 3)
    rehearsal.bundles = BundlesThatFail
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded", "agent-01": "lost", "agent-02": "succeeded"}
    assert "ZeroDivisionError: division by zero" in rehearsal.run.rows["agent-01"].text
    assert not rehearsal.world.live(rehearsal.passed)


def test_a_meter_that_fails_costs_no_test_anything(tmp_path: Path) -> None:
    class BrokenMeter(RunMeter):
        async def read(self, members: Iterable[Member], folder: RunFolder) -> None:
            raise PermissionError(13, "Permission denied")

    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 3)
    rehearsal.meter = BrokenMeter({"HOME": str(tmp_path)})
    assert rehearsal.conduct(seconds=3600.0) == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    errors = [entry for entry in rehearsal.ledger.entries if entry.event == Event.ERROR]
    assert errors
    assert all("Permission denied" in entry.fields["says"] for entry in errors)


def test_a_wish_that_cannot_be_taken_is_declined_with_its_error(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS])
    rehearsal.folder.add_request(RunRequest(RequestKind.SKIP, "agent-00"))
    rehearsal.folder.add_request(RunRequest(RequestKind.RETRY, "\ud800"))
    assert rehearsal.conduct() == "done"
    assert rehearsal.folder.requests() == ()
    declined = [entry for entry in rehearsal.ledger.entries if entry.event == Event.DECLINED]
    assert len(declined) == 1


def test_arguments_that_mngr_does_not_take_are_not_tried_again(tmp_path: Path) -> None:
    class RefusingCrew(SimulatedCrew):
        async def create(self, member: Member) -> Seen:
            raise LaunchError("mngr could not make the agent", "Error: No such option: --bogus-flag", exit_status=2)

    rehearsal = a_rehearsal(tmp_path, tests=20)
    rehearsal.crew = RefusingCrew
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"launch"}
    events = [entry.event for entry in rehearsal.ledger.entries]
    assert events.count(Event.LAUNCHING) == 20
    assert Event.RETRYING not in events


def test_a_listener_that_fails_ends_the_conductor_with_its_own_error(tmp_path: Path) -> None:
    def listen(run: Run, entry: Entry) -> None:
        raise BrokenPipeError

    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS])
    with pytest.raises(BrokenPipeError):
        rehearsal.conduct(on_change=listen)
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded"}


def test_a_full_disk_of_ours_ends_the_conductor_and_no_test(tmp_path: Path) -> None:
    class FullCrew(SimulatedCrew):
        async def pull(self, member: Member, staging: Path) -> None:
            raise OSError(28, "No space left on device")

    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS])
    rehearsal.crew = FullCrew
    with pytest.raises(OwnDiskError):
        rehearsal.conduct()
    rehearsal.crew = SimulatedCrew
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded"}


def test_an_agent_whose_launch_went_wrong_is_stopped_before_its_test_ends(tmp_path: Path) -> None:
    """Its launch fails in our own code after the crew's, so its agent is there."""

    class MadeAndLost(SimulatedCrew):
        async def create(self, member: Member) -> Any:
            await super().create(member)
            return None

        async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
            if self.clock.passed < 60.0:
                raise ToolFailedError("mngr failed")
            return await super().look(members)

    rehearsal = a_rehearsal(tmp_path, [Role.HANGS], policy=Policy(poll=POLL))
    rehearsal.crew = MadeAndLost
    assert rehearsal.conduct() == "done"
    assert_over(rehearsal)
    assert not rehearsal.world.live(rehearsal.passed)


class WithoutPrices(RunMeter):
    """A meter whose price table is broken."""

    problem = "RuntimeError: providers: 7 validation errors"

    async def read(self, members: Iterable[Member], folder: RunFolder) -> None:
        pass


def test_a_broken_price_table_is_told_once_and_costs_no_test(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 3)
    rehearsal.meter = WithoutPrices({"HOME": str(tmp_path)})
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    (told,) = [entry for entry in rehearsal.ledger.entries if entry.event == Event.ERROR]
    assert told.fields["says"] == (
        "the price table of genai-prices cannot be used, so tokens have no dollars: RuntimeError: providers: "
        "7 validation errors (install selftest-tui anew, or set `prices`)"
    )
