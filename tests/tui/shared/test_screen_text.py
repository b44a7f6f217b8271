"""What a pane shows becomes strips: colours kept, everything else that commands a terminal gone."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color

from selftest_tui.shared.present import clean
from selftest_tui.shared.widgets import screen_text
from selftest_tui.shared.widgets.screen_text import block, with_cursor, wrapped
from worlds import eventually

if TYPE_CHECKING:
    from rich.style import Style
    from textual.strip import Strip

    from worlds import World


def strips(text: str, first: int = 0, last: int | None = None) -> tuple[Strip, ...]:
    return screen_text.strips(text.removesuffix("\n").split("\n"), first, last)


def _first(text: str) -> tuple[str, Style]:
    """The text and style of the only run of a one-line capture."""
    (strip,) = strips(text)
    (segment,) = list(strip)
    assert segment.style is not None
    return segment.text, segment.style


def _texts(text: str) -> list[str]:
    return [strip.text for strip in strips(text)]


@pytest.mark.parametrize(
    ("params", "colour"),
    [
        ("31", Color.from_ansi(1)),
        ("97", Color.from_ansi(15)),
        ("38;5;208", Color.from_ansi(208)),
        ("38:5:208", Color.from_ansi(208)),
        ("38;2;1;2;3", Color.from_rgb(1, 2, 3)),
        ("38:2::1:2:3", Color.from_rgb(1, 2, 3)),
        ("1;38;2;1;2;3;4", Color.from_rgb(1, 2, 3)),
    ],
)
def test_every_way_to_name_a_colour(params: str, colour: Color) -> None:
    assert _first(f"\x1b[{params}mx\n")[1].color == colour


@pytest.mark.parametrize("params", ["48;5;208", "48;2;255;135;0", "101"])
def test_a_background_leaves_the_foreground_alone(params: str) -> None:
    style = _first(f"\x1b[{params}mx\n")[1]
    assert style.bgcolor is not None
    assert style.color is None


def test_attributes_go_on_and_off() -> None:
    style = _first("\x1b[1;2;3;4;7;9;53mx")[1]
    assert (style.bold, style.dim, style.italic, style.underline) == (True, True, True, True)
    assert (style.reverse, style.strike, style.overline) == (True, True, True)
    (strip,) = strips("\x1b[1;3;4;7;9mx\x1b[22;23;24;27;29my")
    assert list(strip)[1].style is None


def test_a_style_goes_on_into_the_next_line_as_tmux_means_it() -> None:
    text = "\x1b[32mone\ntwo\x1b[0m\nthree\n"
    second, third = strips(text)[1:]
    assert [segment.style is not None for segment in second] == [True]
    assert [segment.style for segment in third] == [None]
    assert strips(text, 1, 2) == (second,), "a line read alone has the pen that the lines before it left"


def test_reading_from_the_middle_is_reading_it_all() -> None:
    text = "".join(f"\x1b[{30 + n % 8}mline {n}\n{chr(27) + '[0m' if n % 7 == 0 else ''}" for n in range(200))
    assert strips(text, 150, 160) == strips(text)[150:160]


def test_links_titles_and_device_commands_are_gone_and_their_text_stays() -> None:
    link = "\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\ "
    assert _texts(link + "\x1b]0;title\x07\x1bP1$r\x1b\\\x1b[2J\x1b[10;10Hx\x1b(0\x1b[?1049h\n") == ["here x"]


def test_an_unfinished_command_hides_nothing_behind_it() -> None:
    assert _texts("a\x1b]52;c;AAAA") == ["a52;c;AAAA"]


def test_line_drawing_is_drawn() -> None:
    assert _texts("\x0elqk\x0f lqk") == ["┌─┐ lqk"]


def test_wide_and_combining_characters_keep_their_cells() -> None:
    (strip,) = strips("日本e\u0301x")
    assert strip.cell_length == 6
    assert with_cursor(strip, 4, _first("\x1b[7mx")[1]).text == strip.text


def test_the_cursor_may_stand_beyond_the_text() -> None:
    strip = with_cursor(strips("ab")[0], 5, _first("\x1b[7mx")[1])
    assert strip.text == "ab    "
    assert [segment.text for segment in strip if segment.style is not None] == [" "]


@given(st.text(st.characters(codec="utf-8"), max_size=200) | st.text("\x1b[]0;m:8\x07\\P\x9b\x0e\x0f1aé日\u202e\n\t"))
def test_nothing_that_a_terminal_obeys_comes_out(text: str) -> None:
    shown = [*_texts(text), *block(text).split("\n")]
    for line in shown:
        assert not [
            c for c in line if unicodedata.category(c) == "Cc" or c in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
        ]
    assert len(_texts(text)) == text.removesuffix("\n").count("\n") + 1


def test_a_block_keeps_its_lines_and_drops_escapes() -> None:
    assert block("\x1b[31mred\x1b[0m\r\nnext") == "red\nnext"


def _painted(world: World) -> str:
    shown = world.tmux("capture-pane", "-p", "-e", "-t", "=p:")
    return shown if "end" in shown else ""


def test_what_a_real_tmux_captures(world: World) -> None:
    script = world.script(
        "paint",
        "#!/bin/sh\nprintf '\\033[1;31mred\\033[0m \\033[48;2;1;2;3mback\\033[0m \\033[3;9;4mall\\033[0m "
        "\\033(0lqk\\033(B \\033]8;;http://x\\007link\\033]8;;\\007 日本 end'\nexec sleep 1000\n",
    )
    world.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "5", "-s", "p", str(script))
    text = eventually(lambda: _painted(world))
    made = strips(text)
    assert made[0].text.rstrip() == "red back all ┌─┐ link 日本 end"
    by_text = {segment.text: segment.style for segment in made[0]}
    red, back, every = by_text["red"], by_text["back"], by_text["all"]
    assert red is not None
    assert back is not None
    assert every is not None
    assert (red.bold, red.color) == (True, Color.from_ansi(1))
    assert back.bgcolor == Color.from_rgb(1, 2, 3)
    assert (every.italic, every.underline, every.strike) == (True, True, True)


def test_paths_are_broken_behind_their_separators_and_prose_between_words() -> None:
    path = "/home/somebody/projects/shop/tests/test_checkout_of_many_things.py"
    assert wrapped(path, 30) == ["/home/somebody/projects/shop/", "tests/test_checkout_of_many_", "things.py"]
    assert wrapped("cd /home/somebody and back", 16) == ["cd", "/home/somebody", "and back"]
    assert wrapped("a well-known word", 12) == ["a well-known", "word"]


@given(st.text(max_size=200), st.integers(1, 40))
def test_wrapped_text_fits_and_loses_nothing_but_blanks(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert lines
    assert all(cell_len(line) <= max(2, width) for line in lines), "a wide character needs two cells"
    assert "".join("".join(lines).split()) == "".join("".join(map(clean, text.split("\n"))).split())
