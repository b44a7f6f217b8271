"""What several runs of a test amount to, and what a change did to it."""

from __future__ import annotations

import pytest

from selftest_core.verify.verdicts import Effect, Execution, Result, Verdict, effect_of, verdict_of

P, F, S, X, M, T = Result.PASSED, Result.FAILED, Result.SKIPPED, Result.XFAILED, Result.MISSING, Result.TIMEOUT


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([P], Verdict.GREEN),
        ([P, P, P], Verdict.GREEN),
        ([F, F, F], Verdict.RED),
        ([F, P], Verdict.FLAKY),
        ([P, F], Verdict.FLAKY),
        ([T, T, T], Verdict.RED),
        ([T, P], Verdict.FLAKY),
        ([S], Verdict.SKIPPED),
        ([X], Verdict.SKIPPED),
        ([Result.XPASSED], Verdict.SKIPPED),
        ([M], Verdict.MISSING),
        ([Result.NOT_RUN], Verdict.UNKNOWN),
        ([F, Result.NOT_RUN], Verdict.UNKNOWN),
        ([], Verdict.UNKNOWN),
    ],
)
def test_verdict(results: list[Result], verdict: Verdict) -> None:
    assert verdict_of([Execution(one) for one in results]) is verdict


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (Verdict.RED, Verdict.GREEN, Effect.FIXED),
        (Verdict.GREEN, Verdict.GREEN, Effect.KEPT),
        (Verdict.RED, Verdict.RED, Effect.STILL_RED),
        (Verdict.GREEN, Verdict.RED, Effect.BROKEN),
        (Verdict.MISSING, Verdict.GREEN, Effect.NEW),
        (Verdict.MISSING, Verdict.RED, Effect.STILL_RED),
        (Verdict.GREEN, Verdict.MISSING, Effect.GONE),
        (Verdict.RED, Verdict.SKIPPED, Effect.UNKNOWN),
        (Verdict.SKIPPED, Verdict.GREEN, Effect.NEW),
        (Verdict.RED, Verdict.FLAKY, Effect.FLAKY),
        (Verdict.FLAKY, Verdict.GREEN, Effect.FLAKY),
        (None, Verdict.GREEN, Effect.UNKNOWN),
        (Verdict.GREEN, Verdict.UNKNOWN, Effect.UNKNOWN),
    ],
)
def test_effect(before: Verdict | None, after: Verdict, effect: Effect) -> None:
    assert effect_of(before, after) is effect
