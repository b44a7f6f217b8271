"""The player's screen: mouse, what it says, live recordings, hostile and broken ones; and pictures of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import run_scenes
from selftest_core.run.outcome.ends import End
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import CastWriter, write_cast
from selftest_recorder.index.timeline import open_timeline
from selftest_tui.replay.player_search import Searching
from selftest_tui.replay.screen import ReplayScreen
from selftest_tui.shared.dialogs.help import Page
from tui.driving import compare
from tui.quiet import quiet
from tui.replay.replay_driving import replayed, write_story
from tui.run.run_driving import shown
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path


async def test_it_shows_the_recording_at_the_moment_that_was_asked_for(tmp_path: Path) -> None:
    async with replayed(write_story(tmp_path / "a.cast"), tmp_path, at=95.0, title="st-7f-login") as one:
        assert [line for line in one.lines if line] == [
            "$ pytest", "FAILED test_login", "thinking harder", "日本 e\u0301  ok",
        ]  # fmt: skip
        assert "st-7f-login · 40x8 · an agent" in one.title
        assert "1:35 / 3:20 · ‖ paused" in one.title
        names, bar = one.bar.render().plain.split("\n")
        assert [word in names for word in ("▾pyte", "▾failed", "▾commit: keep the query")] == [True] * 3
        assert bar.startswith(" 1:35 ")
        assert bar.rstrip().endswith(" 3:20")


async def test_it_opens_at_its_first_words_and_home_goes_before_them(tmp_path: Path) -> None:
    path = tmp_path / "late.cast"
    with CastWriter(path, Header(3, 40, 8)) as writer:
        for moment, text in ((0.0, "\x1b[2J"), (1.0, "\x1b[H"), (4.0, "$ pytest"), (9.0, "\r\nbye")):
            writer.text(moment, text)
        writer.exit(10.0, 0)
    async with replayed(path, tmp_path) as one:
        await one.until(lambda: one.player.time == 4.0, "the first words")
        assert one.lines[0] == "$ pytest"
        await one.press("home")
        assert (one.player.time, one.lines[0]) == (0.0, "")


async def test_one_refusal_is_shown_once_while_it_is_on_the_screen(tmp_path: Path) -> None:
    async with replayed(write_story(tmp_path / "a.cast"), tmp_path) as one:
        one.app._disable_notifications = False  # a driven app shows none by default
        await one.press("n")
        await one.until(lambda: len(one.app._notifications) == 1, "the refusal")
        await one.press("n", "n")
        await quiet(one.app)
        assert len(one.app._notifications) == 1
        assert one.toasts.count("There is no search") == 3, "the page of problems keeps each"


async def test_a_click_plays_the_wheel_winds_and_the_bar_is_clicked_and_dragged(tmp_path: Path) -> None:
    async with replayed(write_story(tmp_path / "a.cast"), tmp_path) as one:
        room = one.bar.room
        await one.pilot.click("SeekBar", offset=(room.start + len(room) // 2, 1))
        await one.until(lambda: abs(one.player.time - 100) < 5, "the middle")
        await one.pilot.mouse_down("SeekBar", offset=(room.start, 1))
        await one.pilot.hover("SeekBar", offset=(room.stop - 1, 1))
        await one.until(lambda: one.player.time == 200.0, "dragged to the end")
        await one.pilot.mouse_up("SeekBar", offset=(room.stop - 1, 1))
        await one.pilot.hover("SeekBar", offset=(room.start, 1))
        await quiet(one.app)
        assert one.player.time == 200.0, "it is let go"
        one.player.seek(50.0)
        one.player.set_speed(0.25)
        await one.pilot.click("TerminalView")
        await quiet(one.app)
        assert one.player.head.is_playing
        await one.pilot.click("TerminalView")
        await quiet(one.app)
        assert not one.player.head.is_playing


async def test_it_plays_to_the_end_skipping_what_is_idle(tmp_path: Path) -> None:
    async with replayed(write_story(tmp_path / "a.cast"), tmp_path) as one:
        one.player.set_speed(16.0)
        await one.press("space")
        await one.until(lambda: not one.player.head.is_playing, "the end")
        assert one.player.time == 200.0
        assert one.lines[6] == "bye"
        one.player.set_speed(0.25)
        one.player.set_skips_idle(False)
        await one.press("space")
        assert one.player.time < 200.0, "from the beginning again"


async def test_a_live_recording_is_followed_wound_back_and_followed_again(tmp_path: Path) -> None:
    path = tmp_path / "live.cast"
    with CastWriter(path, Header(3, 40, 8)) as writer:
        writer.text(1.0, "one ")
        writer.flush()
        async with replayed(path, tmp_path) as one:
            await one.press("L")
            assert "● live" in one.title
            for number in range(2, 6):
                writer.text(float(number), f"{number} ")
                writer.flush()
                await one.until(lambda number=number: one.player.time == number, "what is new")  # type: ignore[misc]
            assert one.lines[0] == "one 2 3 4 5"
            assert one.bar.render().plain.rstrip().endswith(" live")
            await one.press("home", "full_stop")
            writer.text(6.0, "6")
            writer.flush()
            await one.until(lambda: one.player.duration == 6.0, "more")
            assert (one.player.time, one.lines[0]) == (1.0, "one")
            await one.press("L")
            assert one.lines[0] == "one 2 3 4 5 6"
            writer.exit(7.0, 0)
            writer.flush()
            await one.until(lambda: one.player.timeline and one.player.timeline.has_ended, "the end")
            await one.press("home", "L")
            assert "This recording is finished" in one.toasts


async def test_the_recording_of_an_ended_agent_is_never_live(tmp_path: Path) -> None:
    path = tmp_path / "killed.cast"
    with CastWriter(path, Header(3, 40, 8)) as writer:  # without the exit of its program, as after a kill
        writer.text(1.0, "one ")
        writer.flush()
        async with replayed(path, tmp_path, is_ended=True) as one:
            writer.text(2.0, "two ")
            writer.flush()
            await one.until(lambda: one.player.duration == 2.0, "what was written late")
            await one.press("L")
            assert "This recording is finished" in one.toasts
            assert "live" not in one.title
            assert "live" not in one.bar.render().plain


def test_a_search_is_through_as_far_as_it_looked_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "live.cast"
    with CastWriter(path, Header(3, 40, 8)) as writer:
        writer.text(1.0, "one ")
        writer.flush()
        with open_timeline(path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}) as timeline:
            timeline.finish()
            searching = Searching()
            searching.start(timeline, "one")
            eventually(lambda: searching.is_through, "all that is there was looked through")
            assert searching.hits == [1.0]
            searching.stop()
            writer.text(2.0, "\x1b[2J")
            writer.text(3.0, "\x1b[Hone again")
            writer.flush()
            eventually(lambda: timeline.poll() or timeline.duration == 3.0, "what came meanwhile")
            searching.wants_next_after = 2.0
            assert not searching.is_through
            assert searching.wanted_hit(timeline.is_complete) is None, "what came may hold a later one"


HOSTILE = (
    "\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[5n\x1b[c\x1b[?1000h\x1b[?2004h[bold]markup[/bold] \u202eright\u202c "
    "\x1bP+q544e\x1b\\\x1b_Gi=1,a=q;AAAA\x1b\\\x1b[8;2;2t\x07 \x9b31m e" + "\u0301" * 100 + " 👩\u200d💻|"
)


async def test_nothing_of_a_recording_reaches_the_persons_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    events = [(0.0, "o", HOSTILE), (1.0, "m", "\x1b[31m[red]mark\x07"), (2.0, "o", "\x1b[?1049h\x1b[3;3Hend")]
    write_cast(path, Header(3, 90, 6, title="\x1b]0;title\x07[b]t"), events)
    async with replayed(path, tmp_path, title="[red]agent\x1b[2J") as one:
        everything = "\n".join([*one.lines, one.title, one.bar.render().plain, one.picture()])
        assert not {code for code in map(ord, everything) if code < 32 or 127 <= code < 160} - {10}
        assert "\u202e" not in everything
        assert "\u200d" not in everything
        assert "[bold]markup[/bold]" in one.lines[0]
        assert "[red]agent" in one.title
        assert "▾[red]mark" in one.bar.render().plain
        assert all(one.view.render_line(y).cell_length == one.view.size.width for y in range(one.view.size.height))
        await one.press("end", "c")
        assert one.app.clipboard == "\n\n  end"


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "is no recording"), (b"PK\x03\x04", "is no recording"), (b'{"version": 7}', "version 7")],
    ids=["empty", "another thing", "another version"],
)
async def test_what_is_no_recording_is_said_on_the_screen(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "a.cast"
    path.write_bytes(content)
    async with replayed(path, tmp_path) as one:
        assert says in "\n".join(one.lines)
        assert "cannot be read" in one.title
        await one.press("space", "end", "slash", "x", "enter", "c")
        assert "No recording is open" in one.toasts


async def test_damage_is_told_of_with_its_lines_and_odd_sizes_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    lines = [
        {"version": 2, "width": 0, "height": 99999}, [0.0, "o", "wide"], [1.0, "r", "10000x10000"], [-4, "o", " back"],
    ]  # fmt: skip
    path.write_bytes("\n".join(map(json.dumps, lines)).encode() + b'\nnonsense\n[2.0, "o", " cut')
    async with replayed(path, tmp_path) as one:
        await one.press("end", "underscore", "underscore", "h", "j", "k", "l", "semicolon")
        assert "lines skipped or repaired (e)" in one.title
        await one.press("e")
        page = one.app.screen
        assert isinstance(page, Page)
        told = [words for section in page.sections for _, words in section.lines]
        assert "line 1: the size 0x99999 cannot be; taken as 80x500" in told


async def test_a_recording_that_vanishes_while_it_is_shown_does_no_harm(tmp_path: Path) -> None:
    path = write_story(tmp_path / "a.cast")
    async with replayed(path, tmp_path) as one:
        path.unlink()
        await one.press("end", "0", "space", "right", "slash", *"bye", "enter", "comma")
        assert one.app.is_running


async def test_a_run_plays_the_recording_of_a_test_where_it_failed(tmp_path: Path) -> None:
    story = run_scenes.halfway(tmp_path / "run", 12)
    async with shown(story, size=(110, 26)) as one:
        row = next(row for row in story.folder.read().rows.values() if row.end is End.RED and row.member is not None)
        assert row.member is not None
        attempt = story.folder.attempt(row.member)
        attempt.mkdir(parents=True, exist_ok=True)
        write_story(attempt / "terminal.cast")
        await one.go_to(row.name)
        await one.press("r")
        await one.until(lambda: isinstance(one.top, ReplayScreen), "the player")
        screen = one.top
        assert isinstance(screen, ReplayScreen)
        await one.until(lambda: screen.player.time == 20.0, "where it failed")
        assert row.member.name in str(screen.query_one("#title").render())
        await one.press("escape")
        assert one.top is one.screen


@pytest.mark.parametrize(
    ("name", "size", "at"),
    [("replay", (120, 30), 95.0), ("replay-small", (80, 24), 150.0), ("replay-wide", (250, 70), 200.0)],
)
async def test_pictures(tmp_path: Path, name: str, size: tuple[int, int], at: float) -> None:
    path = write_story(tmp_path / "a.cast", 120, 24)
    async with replayed(
        path, tmp_path, size=size, at=at, title="st-7f-login-redirect · test_login.py::redirect"
    ) as one:
        one.player.search("test_login")
        one.player.searching.wants_next_after = None
        await one.until(lambda: one.player.searching.is_through, "all hits")
        one.player.refresh_bar()
        one.screen.on_player_changed()
        await quiet(one.app)
        assert "FAILED test_login" in "\n".join(one.lines)
        compare(name, one.picture())


async def test_picture_of_a_terminal_drawn_small(tmp_path: Path) -> None:
    async with replayed(write_story(tmp_path / "a.cast", 200, 60), tmp_path, size=(80, 24), at=150.0) as one:
        await one.press("underscore")
        assert one.view.is_small
        compare("replay-fit", one.picture())
