"""Which tests rest: whatever their history is, a rest is earned, it ends, and any work that is not green ends it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from selftest_core.run.history.past_runs import PastRun
from selftest_core.run.history.resting import Rest, rests

TEST = "tests/test_tax.py::test_tax"
OTHER = "tests/test_tax.py::test_other"
DID = st.sampled_from(["green", "red", "rested", "absent"])


def a_run(did: str, number: int) -> PastRun:
    worked = {OTHER: False} | ({TEST: did == "green"} if did in ("green", "red") else {})
    return PastRun(
        float(number), f"run-{number}", f"base-{number}", worked, frozenset([TEST] if did == "rested" else [])
    )


def rest_after(history: list[str], after: int, runs: int) -> Rest | None:
    """The test's rest in the next run, after this history, oldest first."""
    past = [a_run(did, number) for number, did in enumerate(history)]
    return rests(past[::-1], after, runs).get(TEST)


@given(st.lists(DID, max_size=20), st.integers(1, 5), st.integers(1, 5))
def test_a_rest_is_earned_by_green_work_alone(history: list[str], after: int, runs: int) -> None:
    worked = [did for did in history if did in ("green", "red")]
    rested = history[::-1].index(worked[-1]) if worked else 0
    last = history[len(history) - rested :].count("rested")

    found = rest_after(history, after, runs)

    is_earned = worked[-after:] == ["green"] * after
    assert (found is not None) == (is_earned and last < runs)
    if found is not None:
        assert found.until == runs - last
        greens = [number for number, did in enumerate(history) if did == "green"]
        assert found.base == f"base-{greens[-after]}", "changes since the first of these agents count"


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 40))
def test_a_test_that_stays_green_works_once_after_each_rest(after: int, runs: int, nights: int) -> None:
    history: list[str] = []
    for _ in range(nights):
        history.append("green" if rest_after(history, after, runs) is None else "rested")

    expected = (["green"] * after + (["rested"] * runs + ["green"]) * nights)[:nights]
    assert history == expected


@given(st.lists(DID, max_size=20), st.integers(1, 5))
def test_without_the_setting_nothing_rests(history: list[str], runs: int) -> None:
    assert rests([a_run(did, n) for n, did in enumerate(history)][::-1], 0, runs) == {}


def test_nights_in_which_everything_rested_count() -> None:
    nights = [PastRun(float(n), rested=frozenset([TEST])) for n in range(1, 3)]
    assert rests([*nights[::-1], a_run("green", 0)], 1, 3)[TEST].until == 1
    assert rests([nights[0], *nights[::-1], a_run("green", 0)], 1, 3) == {}
