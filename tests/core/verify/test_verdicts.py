"""What several runs of a test amount to, and what a change did to it."""

from __future__ import annotations

import pytest

from selftest_core.verify.verdicts import Effect, Execution, Result, Verdict, effect_of, find_missing, verdict_of

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


@pytest.mark.parametrize(
    ("output", "missing"),
    [
        ("E   ModuleNotFoundError: No module named 'libcore'", "the module libcore"),
        ("E   ModuleNotFoundError: No module named 'libcore.parts'", "the module libcore.parts"),
        ("E   ModuleNotFoundError: No module named 'shop.new'", ""),
        ("fatal: not a git repository (or any of the parent directories): .git", "the .git folder of the project"),
        ("Author identity unknown\n*** Please tell me who you are.", "an identity for git (user.name, user.email)"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "the network"),
        ("    return self.data[key]\nos.environ['SHOP_URL']\nKeyError: 'SHOP_URL'", "the variable SHOP_URL"),
        ("KeyError: 'SHOP_URL'", ""),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "a service that listens on this machine"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/home/ann/.netrc'", "/home/ann/.netrc"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/tree/data.json'", ""),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data.json'", ""),
        ("subprocess.py:1950\nFileNotFoundError: [Errno 2] No such file or directory: 'node'", "the program node"),
        ("OSError: [Errno 30] Read-only file system: '/etc/x'", "the right to write outside of the tree"),
        ("assert 1 == 2", ""),
    ],
)
def test_what_a_red_test_may_have_missed_is_named(output: str, missing: str) -> None:
    assert find_missing(output, lambda name: name == "shop" or name.startswith("/tree/")) == missing
