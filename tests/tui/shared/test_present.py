"""Text that reaches the screen: harmless, of exact width, in few words."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from selftest_core.usage.tokens import Label, Usage
from selftest_tui.fleet import columns
from selftest_tui.shared import present

HOSTILE = (
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07x", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x9b31mc1", "a\nb\tc\rd",
    "\u202eright\u2066left\u200b", "\x00nul\x7f", "zalgo" + "\u0301" * 50, "\ud800lone", "\x1bP+q\x1b\\dcs", "\x1b",
    "[bold]markup[/bold]", "e\u0301 wide 漢字 👩\u200d👩", "\U000e0041tag", "x" * 100_000,
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_becomes_one_harmless_line(text: str) -> None:
    clean = present.clean(text)
    assert clean.isprintable() or not clean
    assert "\x1b" not in clean
    assert len(clean) <= present.LONGEST
    assert present.clean(clean) == clean


def test_what_is_harmless_stays_as_it_is() -> None:
    assert present.clean("[red]a[/] 漢字 é") == "[red]a[/] 漢字 é"
    assert present.clean("\x1b[31mred\x1b[0m and \x1b]0;t\x07blue") == "red and blue"
    assert present.clean("one\r\ntwo\tthree") == "one two three"


@given(st.text(), st.integers(1, 60))
@example("漢字漢字", 3)
@example("漢字", 1)
@example("e" + "\u0301" * 9, 1)
def test_text_fits_exactly(text: str, width: int) -> None:
    for fitted in (present.fit(text, width), present.fit_end(text, width), present.fit_right(text, width)):
        assert cell_len(fitted) == width
    if cell_len(present.clean(text)) <= width:
        assert present.fit(text, width).rstrip(" ") == present.clean(text).rstrip(" ")


def test_times_that_passed_are_not_kept() -> None:
    """A screen shows some thousand times in an hour, and each of them once."""

    def blocks_after(hour: int) -> int:
        for second in range(5_000):
            present.fit_right(f"{hour}h {second}", 12)
        return sys.getallocatedblocks()

    blocks_after(0)  # fills the caches of Rich, which hold a fixed number of texts
    before = blocks_after(1)
    assert blocks_after(2) - before < 1_000


def test_long_text_says_that_it_was_cut() -> None:
    assert present.fit("abcdef", 4) == "abc…"
    assert present.fit_end("abcdef", 4) == "…def"
    assert present.fit_right("9", 3) == "  9"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0:00"), (9, "0:09"), (724, "12:04"), (3_599, "59:59"), (11_220, "3h07"), (187_200, "2d 4h"), (9e6, "104d")],
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert present.duration(seconds) == words
    assert len(words) <= columns.RUNNING.least


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (7_300, "2 h"), (2e5, "2 d")])
def test_ages_are_words(seconds: float, words: str) -> None:
    assert present.ago(seconds) == words


@given(st.integers(0, 10**13))
def test_tokens_are_short(count: int) -> None:
    assert len(present.tokens(count)) <= columns.TOKENS.least


@pytest.mark.parametrize(
    ("usd", "label", "words"),
    [
        (None, Label.METERED, ""),
        (0.0, Label.METERED, "$0.00"),
        (0.00524, Label.METERED, "$0.0052"),
        (12.345, Label.IMPUTED, "~$12.35"),
        (4.05, Label.ESTIMATED, "$4.05 est"),
    ],
)
def test_dollars_say_how_sound_they_are(usd: float | None, label: Label, words: str) -> None:
    assert present.cost(Usage(usd=usd, label=label)) == words


def test_what_was_used_is_one_harmless_line() -> None:
    usage = Usage(120, 72_000, 3_000, 112, 0.03212, Label.METERED, "claude\x1b[31m-opus")
    assert present.used(usage) == (
        "$0.03 metered · 120 input, 72.0k cached, 3.0k cache write, 112 output tokens · claude-opus"
    )
    assert present.used(Usage(output=5, model="strange")).startswith("no known price · 0 input")
    assert present.used(None) == ""
