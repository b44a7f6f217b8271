"""What every emulator behind `Terminal` must do. A second one joins by its name in TERMINALS."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_recorder.terminal.emulator import open_terminal
from selftest_recorder.terminal.ghostty import GhosttyTerminal
from selftest_recorder.terminal.terminal import (
    MOST_COLUMNS,
    MOST_ROWS,
    PLAIN,
    Cursor,
    Pen,
    Run,
    Terminal,
    sane_size,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selftest_recorder.terminal.terminal import ScreenUpdate

type Make = Callable[[int, int], Terminal]
TERMINALS: dict[str, Make] = {"ghostty": GhosttyTerminal}


@pytest.fixture(params=list(TERMINALS))
def make(request: pytest.FixtureRequest) -> Make:
    return TERMINALS[request.param]


def fed(make: Make, *data: str | bytes, size: tuple[int, int] = (20, 4)) -> Terminal:
    terminal = make(*size)
    for one in data:
        terminal.feed(one.encode() if isinstance(one, str) else one)
    return terminal


def state(terminal: Terminal) -> ScreenUpdate:
    return terminal.read_update(whole=True)


SHOWN = [
    ("plain", "one\r\ntwo", ["one", "two", "", ""]),
    ("wrapping", "x" * 25, ["x" * 20, "x" * 5, "", ""]),
    ("scrolling", "1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
    ("places", "\x1b[2;3Hhere\x1b[1;1Htop\x1b[2;9Hend", ["top", "  here  end", "", ""]),
    ("erasing", "abcdef\x1b[3D\x1b[K\r\nrest\x1b[1A\x1b[1J", ["     ", "rest", "", ""]),
    ("inserting", "abc\x1b[2G\x1b[2@", ["a  bc", "", "", ""]),
    ("deleting", "abcdef\x1b[2G\x1b[2P", ["adef", "", "", ""]),
    ("lines", "1\r\n2\r\n3\x1b[2;1H\x1b[L", ["1", "", "2", "3"]),
    ("region", "\x1b[2;3r\x1b[2;1H1\r\n2\r\n3\x1b[r\x1b[4;1Hend", ["", "2", "3", "end"]),
    ("reverse index", "1\x1b[1;1H\x1bM0", ["0", "1", "", ""]),
    ("tabs", "a\tb", ["a       b", "", "", ""]),
    ("backspace", "ab\b\bc", ["cb", "", "", ""]),
    ("repeat", "ab\x1b[3b", ["abbbb", "", "", ""]),
    ("save and restore", "a\x1b7bc\x1b8X", ["aXc", "", "", ""]),
    ("wide", "日本|", ["日本|", "", "", ""]),
    ("wide at the edge", "x" * 19 + "日", ["x" * 19, "日", "", ""]),
    ("combining", "e\u0301|", ["e\u0301|", "", "", ""]),
    ("line drawing", "\x1b(0lqk\x1b(B", ["┌─┐", "", "", ""]),
    ("other screen", "main\x1b[?1049h\x1b[Hother\x1b[?1049l", ["main", "", "", ""]),
    ("within the other screen", "main\x1b[?1049h\x1b[Hother", ["other", "", "", ""]),
    ("title, notification", "\x1b]0;t\x07a\x1b]9;n\x07b", ["ab", "", "", ""]),
    ("link", "\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\b", ["ab", "", "", ""]),
    ("strings", "a\x1bP1$qm\x1b\\b\x1b_app\x1b\\c\x1b^pm\x1b\\d", ["abcd", "", "", ""]),
    ("key modes", "a\x1b[>4;2mb\x1b[>1uc\x1b[?2004hd", ["abcd", "", "", ""]),
    ("colons", "\x1b[4:3;38:2::1:2:3ma\x1b[0mb", ["ab", "", "", ""]),
    ("bytes that are no text", b"a\xff\xfeb", None),
    ("clipboard", "\x1b]52;c;aGk=\x07a", ["a", "", "", ""]),
]


@pytest.mark.parametrize(("data", "lines"), [one[1:] for one in SHOWN], ids=[one[0] for one in SHOWN])
def test_it_shows_what_a_terminal_shows(make: Make, data: str | bytes, lines: list[str] | None) -> None:
    terminal = fed(make, data)
    if lines is None:
        assert terminal.lines()[0].startswith("a")
        assert terminal.lines()[0].endswith("b")
    else:
        assert terminal.lines() == [line.rstrip() for line in lines]
    shown = state(terminal)
    assert [text_of(shown.rows[row]).rstrip() for row in range(4)] == terminal.lines()


PENS = [
    ("\x1b[31m", Pen(foreground=1)),
    ("\x1b[97;104m", Pen(foreground=15, background=12)),
    ("\x1b[38;5;200;48;5;17m", Pen(foreground=200, background=17)),
    ("\x1b[38;2;1;2;3;48;2;4;5;6m", Pen(foreground=(1, 2, 3), background=(4, 5, 6))),
    ("\x1b[1;2;3m", Pen(bold=True, dim=True, italic=True)),
    ("\x1b[5;7;8;9;53m", Pen(blink=True, reverse=True, conceal=True, strike=True, overline=True)),
    ("\x1b[4m", Pen(underline=1)),
    ("\x1b[4:2m", Pen(underline=2)),
    ("\x1b[4:3m", Pen(underline=3)),
    ("\x1b[1;31m\x1b[22;39m", PLAIN),
]


@pytest.mark.parametrize(("codes", "pen"), PENS)
def test_characters_keep_their_pens(make: Make, codes: str, pen: Pen) -> None:
    row = state(fed(make, f"a{codes}bc\x1b[0md")).rows[0]
    apart = (Run("a", PLAIN, 1), Run("bc", pen, 2), Run("d", PLAIN, 1))
    assert row == ((Run("abcd", PLAIN, 4),) if pen == PLAIN else apart)


def test_an_erased_part_keeps_its_background(make: Make) -> None:
    assert state(fed(make, "\x1b[44m\x1b[K")).rows[0] == (Run(" " * 20, Pen(background=4), 20),)
    assert state(fed(make, "\x1b[48;2;9;8;7m\x1b[K")).rows[0] == (Run(" " * 20, Pen(background=(9, 8, 7)), 20),)


def test_each_run_holds_characters_of_one_width(make: Make) -> None:
    row = state(fed(make, "ab日本e\u0301c")).rows[0]
    assert [(run.text, run.cells) for run in row] == [("ab", 2), ("日本", 4), ("e\u0301", 1), ("c", 1)]


def test_only_what_changed_is_looked_at_again(make: Make) -> None:
    terminal = fed(make, "one\r\ntwo\r\n")
    first = terminal.read_update()
    assert first.is_whole
    assert set(first.rows) == {0, 1, 2, 3}
    assert terminal.read_update().rows == {}
    terminal.feed(b"\x1b[2;1Hnew")
    assert terminal.lines()[1] == "new"
    again = terminal.read_update()
    assert (again.is_whole, {row: text_of(runs) for row, runs in again.rows.items()}) == (False, {1: "new"})
    assert again.cursor == Cursor(3, 1, True)
    assert set(terminal.read_update(whole=True).rows) == {0, 1, 2, 3}


def test_the_cursor_is_where_the_program_put_it(make: Make) -> None:
    assert state(fed(make, "\x1b[3;5H")).cursor == Cursor(4, 2, True)
    assert state(fed(make, "\x1b[?25l")).cursor == Cursor(0, 0, False)


def test_a_resize_changes_what_is_looked_at(make: Make) -> None:
    terminal = fed(make, "1\r\n2\r\n3\r\n4\r\n5")
    terminal.read_update()
    terminal.resize(10, 2)
    update = terminal.read_update()
    assert (update.columns, update.lines, update.is_whole, set(update.rows)) == (10, 2, True, {0, 1})
    assert terminal.lines() == ["4", "5"]
    terminal.resize(10, 4)
    assert terminal.lines() == ["4", "5", "", ""], "what was scrolled away does not come back"


def test_a_resize_waits_for_the_end_of_an_escape_sequence(make: Make) -> None:
    terminal = fed(make, "a\x1b[3")
    terminal.resize(10, 2)
    terminal.feed(b"1mb")
    update = state(terminal)
    assert (update.columns, update.lines) == (10, 2)
    assert update.rows[0] == (Run("a", PLAIN, 1), Run("b", Pen(foreground=1), 1))


@pytest.mark.parametrize("size", [(0, 0), (-5, 3), (10_000, 10_000), (1, 1)])
def test_any_size_is_brought_within_what_is_possible(make: Make, size: tuple[int, int]) -> None:
    for terminal in (make(*size), make(80, 24)):
        terminal.resize(*size)
        terminal.feed("日本 and more".encode())
        update = state(terminal)
        assert (update.columns, update.lines) == sane_size(*size)
        assert 1 <= update.columns <= MOST_COLUMNS
        assert 1 <= update.lines <= MOST_ROWS


def test_another_takes_over_a_snapshot_and_goes_on_alike(make: Make) -> None:
    one = fed(make, "\x1b[31mred\r\n\x1b[?1049h\x1b[2;3H\x1b[4mother\x1b[?25l")
    other = make(80, 24)
    other.read_update()
    taken = one.snapshot()
    assert taken is not None
    other.restore(taken)
    assert state(other) == state(one)
    for terminal in (one, other):
        terminal.feed(b"more\x1b[?1049l and back")
    assert state(other) == state(one)


@pytest.mark.parametrize("cut", ["\x1b[3", "\x1b]0;tit", "\x1b", "\x1bP1$", b"\xe6\x97"])
def test_a_snapshot_in_the_midst_of_something_goes_on_there_or_is_none(make: Make, cut: str | bytes) -> None:
    one = fed(make, "a", cut)
    taken = one.snapshot()
    if taken is None:
        return
    other = make(20, 4)
    other.restore(taken)
    again = other.snapshot()
    for terminal in (one, other):
        terminal.feed(b"1m\xa5\x07\x1b\\b\x1b[0mc")
    assert state(other) == state(one)
    if again is not None:
        third = make(20, 4)
        third.restore(again)
        third.feed(b"1m\xa5\x07\x1b\\b\x1b[0mc")
        assert state(third) == state(one)


@pytest.mark.parametrize("junk", [b"", b"junk", bytes(1000)])
def test_what_is_no_snapshot_is_refused(make: Make, junk: bytes) -> None:
    terminal = fed(make, "kept")
    with pytest.raises(ValueError, match="not a snapshot"):
        terminal.restore(junk)
    terminal.feed(b" on")
    assert terminal.lines()[0] == "kept on"


def test_a_damaged_snapshot_does_no_harm(make: Make) -> None:
    taken = fed(make, "\x1b[31mred 日本 e\u0301\r\n\x1b[44m\x1b[K").snapshot()
    assert taken is not None
    for length in range(0, len(taken), max(1, len(taken) // 40)):
        terminal = make(20, 4)
        try:
            terminal.restore(taken[:length])
        except ValueError:
            continue
        terminal.read_update(whole=True)


def test_nothing_on_the_disk_is_read_or_removed(make: Make, tmp_path: Path) -> None:
    """The protocol for pictures names files, and lets a program ask for a file to be deleted once it was shown."""
    import base64

    file = tmp_path / "tty-graphics-protocol.png"
    file.write_bytes(b"mine")
    name = base64.b64encode(str(file).encode()).decode()
    terminal = fed(make, *(f"\x1b_Ga=T,f=100,t={medium},i=1;{name}\x1b\\" for medium in "fts"), "after")
    assert file.read_bytes() == b"mine"
    assert terminal.lines()[0] == "after"


def test_towers_of_marks_are_cut(make: Make) -> None:
    row = state(fed(make, "e" + "\u0301" * 5000 + "|")).rows[0]
    assert len(row[0].text) < 300
    assert text_of(row).endswith("|")


def test_a_sequence_longer_than_a_snapshot_can_hold_is_waited_for(make: Make) -> None:
    one = fed(make, "a\x1b]0;", "t" * 200_000)
    assert one.snapshot() is None
    one.feed(b"\x07b")
    taken = one.snapshot()
    assert taken is not None
    other = make(20, 4)
    other.restore(taken)
    assert state(other) == state(one)
    assert other.lines()[0] == "ab"


def test_after_another_state_only_the_rows_that_differ_are_new(make: Make) -> None:
    terminal = fed(make, "one\r\ntwo\r\nthree")
    taken = terminal.snapshot()
    assert taken is not None
    terminal.feed(b"\x1b[2;1HTWO")
    state(terminal)
    terminal.restore(taken)
    update = terminal.read_update()
    assert (update.is_whole, list(update.rows), text_of(update.rows[1])) == (False, [1], "two")
    assert state(terminal) == state(fed(make, "one\r\ntwo\r\nthree"))


@pytest.mark.parametrize("cut", range(1, 6))
@pytest.mark.parametrize("mode", [b"47", b"1047", b"1049"])
@pytest.mark.parametrize("size", [(24, 8), (30, 12), (40, 8)])
def test_what_scrolled_away_is_gone_even_where_the_other_screen_was_resized(
    make: Make, cut: int, mode: bytes, size: tuple[int, int]
) -> None:
    """A line that is half above the screen must not come back, for a snapshot that was taken before has not got it."""
    terminals = one, other = make(20, 8), make(20, 8)
    enters = b"\x1b[?%sh" % mode
    for terminal in terminals:
        terminal.feed(b"\r\n".join(b"%d %s" % (number, b"word " * 9) for number in range(9)))
    assert other.snapshot() is not None
    for terminal in terminals:
        terminal.feed(b"\r\n" + enters[:cut])
        terminal.feed(enters[cut:] + b"other")
        terminal.resize(*size)
        terminal.feed(b"\x1b[?%slback" % mode)
    assert one.lines() == other.lines()


PIECES = st.sampled_from(
    [
        "text", "日本", "e\u0301", "👍", "\r\n", "\x1b[H", "\x1b[2J", "\x1b[31m", "\x1b[0m", "\x1b[48;5;20m", "\x1b[K",
        "\x1b[5;5H", "\x1b[?1049h", "\x1b[?1049l", "\x1b[2;3r", "\x1b[r", "\x1bM", "\x1b[L", "\x1b[3P", "\x1b]0;t\x07",
        "\x1b[38;2;1", ";2;3m", "\x1b", "\x1bP", "\x1b\\", "\t", "\x0e", "\x0f", "\x1b[?7l", "\x1b[?6h", "x" * 70,
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECES, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=3), seed=st.integers(0, 999))
def test_a_snapshot_anywhere_equals_playing_on(pieces: list[str], cuts: list[int], seed: int) -> None:
    """Also where the bytes are cut elsewhere: within a character, within a sequence."""
    data = "".join(pieces).encode()
    whole = open_terminal(30, 6)
    whole.feed(data)
    cut_up = open_terminal(30, 6)
    chance, at = random.Random(seed), 0
    places = {len("".join(pieces[:cut]).encode()) for cut in cuts}
    while at < len(data):
        end = min(at + chance.randint(1, 9), len(data), *(place for place in places if place > at))
        cut_up.feed(data[at:end])
        at = end
        taken = cut_up.snapshot() if at in places else None
        if taken is not None:
            cut_up = open_terminal(3, 3)
            cut_up.restore(taken)
    assert cut_up.read_update(whole=True) == whole.read_update(whole=True)
