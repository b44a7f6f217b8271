"""Places that have names: printed on purpose, seen in pytest's output, or made by a commit."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_recorder.onhost.markers import LONGEST, CommitFinder, MarkerFinder, clean_label

if TYPE_CHECKING:
    from worlds import World

PRINTED = "before\x1b]777;selftest;marker;login works\x07 between \x1b]777;selftest;marker;é 2\x1b\\ end\r\n".encode()
QUIET = b"\x1b[32m\x1b[32m\x1b[1m3 passed\x1b[0m, \x1b[33m1 skipped\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[0m\r\n"
PYTEST = (
    b"\x1b[1m============ test session starts ============\x1b[0m\r\ncollected 3 items\r\n\r\n"
    b"\x1b[31m=========== \x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m\x1b[31m in 0.02s\x1b[0m"
    b"\x1b[31m ===========\x1b[0m\r\n"
)


@settings(derandomize=True, deadline=None, database=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=8))
def test_markers_are_found_however_they_are_cut(cuts: list[int]) -> None:
    finder, found = MarkerFinder(), []
    data = PRINTED + PYTEST + PRINTED + QUIET
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        found += finder.feed(data[start:end])
    printed = ["login works", "é 2"]
    assert sorted(found) == sorted(
        [*printed, "pytest begins", "pytest: 1 failed, 2 passed", *printed, "pytest: 3 passed, 1 skipped"]
    )


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b]777;selftest;marker;never ends " + b"x" * 5000,
        b"\x1b]777;notify;title;body\x07",
        b"in all 3 passed in 0.01s\r\n3 passed in 1s or so\r\n",
        b"=== no test session starts, 3 passed in a while ===\r\n",
        b"\x1b]777;selftest;marker;" + b"a" * 601 + b"\x07",
    ],
)
def test_what_is_no_marker_is_none(data: bytes) -> None:
    finder = MarkerFinder()
    assert [label for place in range(0, len(data), 7) for label in finder.feed(data[place : place + 7])] == []


def test_a_label_is_one_line_that_any_screen_can_show() -> None:
    assert clean_label("a\x1b[31mb\n\u202ec" + "d" * 500) == ("a [31mb c" + "d" * 500)[:LONGEST]


@pytest.mark.parametrize("kind", ["repository", "worktree"])
def test_commits_are_found_as_they_are_made(world: World, kind: str) -> None:
    place = world.make_repository()
    if kind == "worktree":
        place = world.root / "w"
        world.run(["git", "worktree", "add", "-q", place])
    commit = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m"]
    began = time.time() + 3600  # what was committed by now is of before
    finder = CommitFinder(place, began)
    world.extra["GIT_COMMITTER_DATE"] = f"{int(began)} +0000"
    world.run([*commit, "Fix: the total\n\nBody"], cwd=place)
    assert finder.new() == ["commit: Fix: the total"]
    assert finder.new() == []
    world.run([*commit, "Then that"], cwd=place)
    world.run([*commit, "And this"], cwd=place)
    assert finder.new() == ["commit: Then that", "commit: And this"]


def test_a_folder_without_commits_has_none(world: World) -> None:
    assert CommitFinder(world.root / "nowhere", 0.0).new() == []
