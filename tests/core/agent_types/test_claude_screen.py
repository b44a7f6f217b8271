"""Real screens of Claude Code: what was said on them, without the frame that all of them share."""

from __future__ import annotations

from itertools import combinations

import pytest

from selftest_core.agent_types.claude_screen import turned_away_line, without_chrome
from selftest_core.fleet.clusters import limit_line, signature, without_shell
from worlds import ROOT

SCREENS = ROOT / "tests" / "fixtures" / "claude" / "2.1.330" / "screens"
ALL = sorted(path.stem for path in SCREENS.glob("*.txt"))


def screen(name: str) -> str:
    return (SCREENS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALL)
def test_the_frame_and_the_persons_words_are_no_evidence(name: str) -> None:
    said = without_shell(screen(name))
    assert said
    for chrome in (
        "shortcuts",
        "manual mode",
        "bypass permissions",
        "Claude Code v",
        "PLAY",
        "done 9:",
        "to interrupt",
        "Tip:",
    ):
        assert chrome not in said
    assert "tokens)" not in said


def test_unlike_ends_do_not_look_alike() -> None:
    ended = ("work", "denied", "poor", "limited", "limit", "idle", "choose")
    signatures = {name: signature(without_shell(screen(name))) for name in ended}
    for one, other in combinations(ended, 2):
        assert signatures[one] != signatures[other]
    assert signatures["poor"] == "Credit balance too low · Add funds: <address>".replace("·", "·")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("retry", "429 This request would exceed your rate limit. · retrying in 6s · attempt 3/10"),
        ("limited", "API Error: Request rejected (429) · This request would exceed your rate limit."),
        ("poor", "Credit balance too low · Add funds: https://platform.claude.com/settings/billing"),
        ("denied", "Invalid API key · Fix external API key"),
    ],
)
def test_a_service_that_takes_no_more_is_heard(name: str, line: str) -> None:
    assert limit_line(screen(name)) == line


@pytest.mark.parametrize("name", ["talks", "limit", "work", "idle", "thinks", "choose", "asksperm"])
def test_who_talks_of_limits_or_went_on_was_not_turned_away(name: str) -> None:
    assert turned_away_line(screen(name)) == ""
    assert not limit_line(screen(name))


def test_a_retry_without_a_reason_counts_too() -> None:
    text = screen("retry").replace("429 This request would exceed your rate limit.", "API error")
    assert limit_line(text) == "API error · retrying in 6s · attempt 3/10"


def test_an_error_that_is_no_limit_is_none() -> None:
    text = screen("limited").replace(
        "Request rejected (429) · This request would exceed your rate limit.", "400 orphaned"
    )
    assert limit_line(text) == ""
    assert "API Error: 400 orphaned" in without_chrome(text)


def test_other_programs_screens_are_left_as_they_are() -> None:
    text = "$ ./agent\n────────────\nworking\n────────────\nfailed: no such file\n"
    assert without_chrome(text) == text
    assert turned_away_line(text) is None


@pytest.mark.parametrize("piece", ["─", "❯", "─" * 20 + "\n❯\n", "\x1b[", "● x\n", " " * 40])  # noqa: RUF001 - Claude's sign
def test_megabytes_of_anything_are_no_burden(piece: str) -> None:
    text = piece * 200_000
    without_chrome(text)
    turned_away_line(text)


def test_a_line_that_is_nearly_a_folded_call_is_no_burden() -> None:
    line = "  Ran 2 " + " " * 90_000 + "!"
    assert without_chrome(f"Claude Code v2\n{line}") == f"Claude Code v2\n{line}"
