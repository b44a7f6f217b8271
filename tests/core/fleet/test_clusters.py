"""Failures that differ by chance alone are one cluster, and failures that differ in a word are two."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.fleet.clusters import (
    LONGEST,
    Cluster,
    Failure,
    cluster,
    limit_line,
    signature,
    where_failed,
    without_shell,
)

HEX = "0123456789abcdef"
PORT = st.integers(1024, 65535).map(str)
NUMBER = st.integers(0, 10**12).map(str)
CHANCE = {
    "PORT": PORT.map(lambda port: f"127.0.0.1:{port}"),
    "BARE": PORT.map(lambda port: f":{port}"),
    "HOST": PORT.map(lambda port: f"localhost:{port}"),
    "URL": PORT.map(lambda port: f"http://127.0.0.1:{port}/v{port}?key={port}"),
    "NUMBER": NUMBER,
    "SECONDS": st.floats(0.01, 9999).map(lambda value: f"{value:.2f}s"),
    "LIST": st.lists(NUMBER, min_size=1, max_size=5).map(lambda numbers: f"[{', '.join(numbers)}]"),
    "UUID": st.uuids().map(str),
    "HEXID": st.text(HEX, min_size=32, max_size=32).filter(lambda text: not text.isalpha() and not text.isdigit()),
    "AGENT": st.text(HEX, min_size=8, max_size=8)
    .filter(lambda text: not text.isalpha() and not text.isdigit())
    .map(lambda text: f"mngr-{text}"),
    "OBJECT": st.integers(2**32, 2**48).map(hex),
    "TIME": st.datetimes().map(lambda at: f"{at:%Y}".rjust(4, "0") + f"-{at:%m-%dT%H:%M:%S}.{at.microsecond:06}Z"),
    "CLOCK": st.times().map(lambda at: f"{at:%H:%M:%S}"),
    "TEMP": st.text("abcdefgh0123_", min_size=8, max_size=8).map(lambda text: f"/tmp/tmp{text}/out-{text}.json"),
    "QUOTED": NUMBER.map(lambda number: f"'/tmp/pytest of root/{number}/a b.txt'"),
    "TEST": NUMBER.map(lambda number: f"tests/shop/test_a{number}.py::TestIt::test_b{number}[x{number}-y]"),
    "LINE": NUMBER.map(lambda number: f"shop/cart.py:{number}"),
    "FILE": NUMBER.map(lambda number: f"cart.py:{number}:{number}"),
}
WORDS = st.lists(
    st.sampled_from(["connection", "was", "refused", "while", "reading", "Cart", "Fehler", "r\u00f6t"]), max_size=4
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.data())
def test_what_differs_by_chance_does_not_count_and_words_do(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(CHANCE)), min_size=1, max_size=3))
    parts = [(data.draw(WORDS), kind) for kind in kinds]
    lines = [
        " ".join(word for words, kind in parts for word in ["error", *words, "at", data.draw(CHANCE[kind]), "again"])
        for _ in range(2)
    ]
    first, second = (signature(line) for line in lines)
    assert first == second
    assert not any(letter.isdigit() for letter in first)
    for words, _ in parts:
        assert all(word in first for word in words)
    assert signature(lines[0].replace("again", "never")) != first


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.text(max_size=400))
def test_a_signature_is_one_short_line_that_a_screen_can_show(text: str) -> None:
    told = signature(text)
    assert len(told) <= LONGEST
    assert not any(letter in told for letter in "\n\r\x1b\x00\x9b\u202e")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("ConnectionRefused 127.0.0.1:4711", "ConnectionRefused <address>"),
        ("ConnectionRefused :9922", "ConnectionRefused <address>"),
        ("\x1b[31;1mfatal\x1b[0m: no \x1b]8;;http://x\x07network\x1b]8;;\x07", "fatal: no network"),
        ("10 %\r50 %\rerror: disk full\r\n", "error: disk full"),
        ("either and/or this, w/o that: failed", "either and/or this, w/o that: failed"),
        (
            "PermissionError: [Errno 13] Permission denied: '/etc/x y'",
            "PermissionError: [Errno <n>] Permission denied: '<path>'",
        ),
        ("deadbeef is a word, dead1beef failed", "deadbeef is a word, <id> failed"),
    ],
)
def test_a_line_is_stripped_to_its_words(text: str, expected: str) -> None:
    assert signature(text) == expected


def test_the_telling_line_of_a_long_text_is_taken() -> None:
    report = """
        ____ test_total ____
    def test_total():
>       assert cart.total() == 900
E       AssertionError: the total has no tax
E        +  where 1 = f()

tests/test_cart.py:9: AssertionError
=== short test summary info ===
FAILED tests/test_cart.py::test_total - AssertionError: the tot...
"""
    assert signature(report) == "AssertionError: the total has no tax"
    trace = "Traceback (most recent call last):\n  File '/x/y.py', line 3\nshop.errors.DoorError: it is locked\n$ "
    assert signature(trace) == "shop.errors.DoorError: it is locked"
    assert signature("building\nmake: *** cannot find shop.h\nleaving\n") == "make: * cannot find shop.h"


def test_an_error_behind_the_end_of_pytest_is_the_cause_and_one_that_was_captured_is_not() -> None:
    report = "E   At index 0 diff: 1 != 2\n--- Captured stderr call ---\nValueError: logged\n1 failed in 0.12s\n"
    assert signature(report) == "At index <n> diff: <n> != <n>"
    died = "Traceback (most recent call last):\n  File x\nConnectionRefusedError: [Errno 111] refused\n"
    assert signature(report + died) == "ConnectionRefusedError: [Errno <n>] refused"


def test_what_the_shell_around_an_agent_wrote_is_no_part_of_its_screen() -> None:
    screen = (
        "root@vm:/srv/a b# . /srv/agents/agent-1/launch_agent.sh\n\x1b[31mpanic\x1b[0m: no such table\n"
        "100 %\n\nroot@vm:/srv/a b# \n"
    )
    assert without_shell(screen) == "panic: no such table\n100 %"
    assert without_shell("costs 5 $\n(venv) me@box:~/x$ \n$ \n") == "costs 5 $"
    assert without_shell("\n$ ") == ""


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        (
            "== ERRORS ==\n__ ERROR collecting tests/test_a.py __\nE   ModuleNotFoundError: No module",
            "collection",
        ),
        ("ERROR: not found: /x/tests/t.py::test_gone\n", "collection"),
        ("ImportError while importing test module '/x/t.py'.", "collection"),
        ("====== no tests ran in 0.01s ======", "collection"),
        ("collecting ... ", "collection"),
        ("E   AssertionError: 1 == 2\nFAILED t.py::test_a - AssertionError", "test"),
        ("2 failed, 1 passed in 3s", "test"),
        ("Segmentation fault", "work"),
        ("", "work"),
    ],
)
def test_the_stage_is_how_far_the_test_came(text: str, stage: str) -> None:
    assert where_failed(text) == stage


def test_a_screen_without_an_error_is_known_by_its_last_lines() -> None:
    def screen(seconds: int, width: int, glyph: str) -> str:
        return f"$ ./agent\n{'=' * width}\nDo you want to proceed?\n{glyph} thinking ({seconds}s)\n\n\n"

    assert signature(screen(9, 40, "\u280b")) == signature(screen(1234, 80, "\u2819"))
    assert "Do you want to proceed?" in signature(screen(9, 40, "\u280b"))


def test_megabytes_of_anything_are_no_burden() -> None:
    for piece in ("x", "a1", "a/", "1.", "\x1b[", "<n> ", "'/", "E   x\n"):
        assert len(signature(piece * 1_000_000)) <= LONGEST


def test_clusters_hold_every_failure_once_largest_first() -> None:
    failures = [
        Failure("a", "launch", "no space left on device /tmp/1"),
        Failure("b", "work", "error: no space left on device /tmp/2"),
        Failure("c", "work", "refused by 192.0.2.1:80"),
        Failure("d", "work", "refused by 192.0.2.2:8080"),
        Failure("c", "work", "refused by 192.0.2.9:81"),
        Failure("e", "work", ""),
    ]
    assert cluster(failures) == (
        Cluster("refused by <address>", "work", ("c", "d")),
        Cluster("no space left on device <path>", "launch", ("a",)),
        Cluster("error: no space left on device <path>", "work", ("b",)),
        Cluster("", "work", ("e",)),
    )
    assert cluster([]) == ()


@pytest.mark.parametrize(
    "line",
    [
        "API Error: Rate limit reached",
        "error 529 overloaded_error: Overloaded",
        "Too Many Requests",
        "HTTP 429",
        "You've hit your usage limit",
        "RateLimitError",
        "openai.RateLimitError: Error code: 429 - too many requests",
        "anthropic.APIStatusError: overloaded",
        "HTTP/1.1 429",
        "litellm.RateLimitError: rate limit exceeded",
        'Error: 429 {"type": "rate_limit_error"}',
        "Your credit balance is too low to access the API",
        "API error: retrying in 17s, attempt 1/10",
    ],
)
def test_a_service_that_takes_no_more_is_heard(line: str) -> None:
    assert limit_line(f"working\n\x1b[31m{line}\x1b[0m\n> \n")
    assert not limit_line(f"{line}\n" + "working\n" * 40)


@pytest.mark.parametrize(
    "line",
    [
        "took 429 s",
        "the generate limiter",
        "limit = 5",
        "tests/test_rates.py passed",
        "I added a test for the rate limiter: HTTP 429 when the limit is reached",
        "tests/test_rate_limit.py::test_overloaded PASSED",
        "E   shop.RateLimitError: too many requests",
        "    raise RateLimitError(429)",
        "assert response.status == 429",
    ],
)
def test_what_only_sounds_like_a_limit_is_none(line: str) -> None:
    assert not limit_line(line)
