"""Two runs compared, test by test: each list, its thresholds, and that nothing is counted twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.compare.comparable_runs import AFTER, BEFORE, GREEN, RED, Repository, Told, used
from selftest_core.compare.comparison import compare
from selftest_core.compare.words import counts, sections
from selftest_core.run.outcome.ends import End
from selftest_core.usage.tokens import Label

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.compare.comparison import Comparison

CRASHED, BLOCKED, UNCHANGED = Told(End.CRASH), Told(End.BLOCKED), Told(End.UNCHANGED)
FLAKY = Told(End.SUCCEEDED, verified="flaky")
VERIFIED_RED = Told(End.SUCCEEDED, verified="failed")
RESULTS = ("newly_red", "newly_flaky", "mended", "no_result")
PAIRS: tuple[tuple[Told, Told, str], ...] = (
    (GREEN, RED, "newly_red"), (GREEN, VERIFIED_RED, "newly_red"), (FLAKY, RED, "newly_red"),
    (CRASHED, RED, "newly_red"), (BLOCKED, RED, "newly_red"), (RED, RED, "same"), (VERIFIED_RED, RED, "same"),
    (GREEN, FLAKY, "newly_flaky"), (RED, FLAKY, "newly_flaky"), (FLAKY, FLAKY, "same"),
    (RED, GREEN, "mended"), (RED, UNCHANGED, "mended"), (FLAKY, GREEN, "mended"), (BLOCKED, UNCHANGED, "mended"),
    (CRASHED, GREEN, ""), (GREEN, UNCHANGED, "same"), (CRASHED, BLOCKED, "same"),
    (GREEN, CRASHED, "no_result"), (RED, BLOCKED, "no_result"), (RED, Told(End.TIMEOUT), "no_result"),
    (GREEN, Told(None), "pending"), (Told(None), GREEN, ""),
)  # fmt: skip
MEASURES: tuple[tuple[str, Told, Told, bool], ...] = (
    ("slower", replace(GREEN, seconds=100), replace(GREEN, seconds=170), True),
    ("slower", replace(GREEN, seconds=10), replace(GREEN, seconds=69), False),
    ("slower", replace(GREEN, seconds=1_000), replace(GREEN, seconds=1_400), False),
    ("slower", replace(CRASHED, seconds=10), replace(GREEN, seconds=500), False),
    ("slower", replace(GREEN, seconds=-50), replace(GREEN, seconds=500), False),
    ("slower", replace(GREEN, seconds=100), replace(GREEN, seconds=90_000), False),
    ("dearer", replace(GREEN, usage=used(0.1)), replace(GREEN, usage=used(0.2)), True),
    ("dearer", replace(GREEN, usage=used(0.01)), replace(GREEN, usage=used(0.05)), False),
    ("dearer", replace(GREEN, usage=used(1.0)), replace(GREEN, usage=used(1.4)), False),
    ("dearer", replace(GREEN, usage=used(None, 30_000)), replace(GREEN, usage=used(None, 60_000)), True),
    ("dearer", replace(GREEN, usage=used(0.1, 1)), replace(GREEN, usage=used(None, 60_000)), True),
    ("dearer", GREEN, replace(GREEN, usage=used(9.0)), False),
    ("dearer", replace(GREEN, usage=used(0.1, label=Label.ESTIMATED)), replace(GREEN, usage=used(9.0)), False),
)


def compared(place: Path, before: dict[str, Told], after: dict[str, Told]) -> Comparison:
    repository = Repository(place)
    return compare(repository.run(BEFORE, before).read(), repository.run(AFTER, after).read())


def lists(found: Comparison) -> dict[str, list[str]]:
    return {one.field: [each.test for each in one.tests] for one in sections(found)}


def test_each_pair_of_results_is_in_its_list_and_in_no_other(tmp_path: Path) -> None:
    before = {f"t::{number}": pair[0] for number, pair in enumerate(PAIRS)}
    after = {f"t::{number}": pair[1] for number, pair in enumerate(PAIRS)}

    found = compared(tmp_path, before, after)

    expected = {name: [f"t::{n}" for n, pair in enumerate(PAIRS) if pair[2] == name] for name in RESULTS}
    assert {name: [one.test for one in getattr(found, name)] for name in RESULTS} == expected
    assert found.same == sum(pair[2] == "same" for pair in PAIRS)
    assert found.pending == 1
    assert found.problems == (f"One test has not ended in the run {BEFORE}, so nothing is compared there.",)
    assert found.is_worse
    says = {test.test: (words, line) for one in sections(found) for test, words, line in zip(*one[2:], strict=True)}
    assert says["t::0"] == ("succeeded → failed", "E  assert 1 == 2")
    assert says["t::7"] == ("succeeded → flaky", "2 of 3 passed")


@pytest.mark.parametrize(("name", "before", "after", "is_in"), MEASURES)
def test_slower_and_dearer_need_two_measurements_and_both_thresholds(
    tmp_path: Path, name: str, before: Told, after: Told, is_in: bool
) -> None:
    found = compared(tmp_path, {"t::a": before}, {"t::a": after})

    assert name in lists(found) if is_in else name not in lists(found)
    assert not found.is_worse
    was_set = not all(0 <= told.seconds <= 4_200 for told in (before, after))
    assert [problem for problem in found.problems if "The clock was set" in problem] != [] if was_set else True


ENDS = st.sampled_from([GREEN, UNCHANGED, RED, FLAKY, VERIFIED_RED, CRASHED, BLOCKED, Told(None)])
RUNS = st.dictionaries(st.sampled_from([f"t::{number}" for number in range(5)]), ENDS, max_size=5)


def test_whatever_two_runs_are_each_test_is_counted_once(tmp_path: Path) -> None:
    folders = count()

    @settings(deadline=None, max_examples=25, derandomize=True, database=None)
    @given(before=RUNS, after=RUNS)
    def check(before: dict[str, Told], after: dict[str, Told]) -> None:
        found = compared(tmp_path / str(next(folders)), before, after)
        of = lists(found)
        told = [test for name in RESULTS for test in of.get(name, [])]
        assert len(told) == len(set(told))
        both = {test for test in before if test in after and None not in (before[test].end, after[test].end)}
        assert set(told) <= both
        # An agent that could not tell, and a green test now: nothing to report.
        came_back = sum(before[test] == CRASHED and after[test] in (GREEN, UNCHANGED) for test in both)
        assert found.same + len(told) + came_back == len(both)
        assert [one.test for one in found.only_after] == [test for test in after if test not in before]
        assert [one.test for one in found.only_before] == [test for test in before if test not in after]
        assert found.pending == sum(one.end is None for one in after.values())
        again = compared(tmp_path / str(next(folders)), after, after)
        assert not again.is_worse
        assert not lists(again)
        assert counts(again).startswith(f"{again.same} with the same result")

    check()
