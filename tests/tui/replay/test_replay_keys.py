"""Every key of the player's screen is pressed, and what it did is asserted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.replay.keys import REPLAY, TENTHS
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.keys import Where
from tui.replay.replay_driving import Replayed, replayed, write_story

if TYPE_CHECKING:
    from pathlib import Path

OF_THE_APP = {key.action for key in REPLAY.of(Where.APP)}
STARTS = {
    "back_little": 60.0, "back_minute": 90.0, "step_back": 30.5, "previous_marker": 50.0, "first": 60.0,
    "live": 60.0, "next_marker": 6.0,
}  # fmt: skip
"""Where a key is pressed, when not at the beginning."""
GOES_TO = {
    "back_little": 55.0, "on_little": 5.0, "back_minute": 30.0, "on_minute": 60.0, "step_back": 30.0, "step_on": 5.0,
    "first": 0.0, "last": 200.0, "next_marker": 20.0, "previous_marker": 20.0, "live": 200.0,
    **{action: 20.0 * number for number, action in enumerate(TENTHS)},
}  # fmt: skip


async def check_key(one: Replayed, action: str, name: str) -> None:
    """Press it and assert what the table says of it."""
    player, view, press = one.player, one.view, one.press
    if action in GOES_TO:
        await press(name)
        assert player.time == GOES_TO[action]
        assert not player.head.is_playing
        assert player.is_following is (action == "live")
        return
    match action:
        case "play":
            player.set_speed(0.25)  # a slow machine must not come to the end
            await press(name)
            await one.until(lambda: player.time > 0, "time goes on")
            assert "▶ playing" in one.title
            await press(name)
            stood = player.time
            assert "‖ paused" in one.title
            await one.until(lambda: player.time == stood, "it stands")
        case "slower":
            await press(name)
            assert player.head.speed == 0.75
            assert "0.75x" in one.title
        case "faster":
            await press(name)
            assert player.head.speed == 1.5
        case "plain_speed":
            await press("greater_than_sign", name)
            assert player.head.speed == 1.0
        case "skip_idle":
            await press(name)
            assert "skipping idle" not in one.title
        case "go_to":
            await press(name, *"1:30", "enter")
            assert player.time == 90.0
            await press(name, *"50%", "enter")
            assert player.time == 100.0
            await press(name, *"-30", "enter")
            assert player.time == 170.0
            await press(name, *"soon", "enter")
            assert "soon is not a time" in one.toasts
        case "search":
            await press(name, *"PASSED", "enter")
            await one.until(lambda: player.time == 150.0, "the hit")
        case "next_hit":
            await press("slash", *"test_login", "enter")
            await one.until(lambda: player.searching.is_through and player.time == 10.0, "the hits")
            await press("home", name)
            assert player.time == 10.0
        case "previous_hit":
            await press("slash", *"bye", "enter")
            await one.until(lambda: player.time == 200.0, "the hit")
            await press(name)
            assert "This is the first match" in one.toasts
        case "fit":
            await press(name)
            assert view.is_small
            assert "▀" in "".join(one.lines)
            await press(name)
            assert "$ pytest" in one.lines[0]
        case "pan_right" | "pan_left":
            await press("l")
            if action == "pan_left":
                await press(name)
            assert view.corner[0] == (8 if action == "pan_right" else 0)
        case "pan_down" | "pan_up":
            await press("j")
            if action == "pan_up":
                await press(name)
            assert view.corner[1] == (4 if action == "pan_down" else 0)
        case "follow_cursor":
            await press("j", name)
            assert view.corner == (0, 0)
        case "zoom":
            height = view.size.height
            await press(name)
            assert view.size.height == height + 4
            await press(name)
            assert view.size.height == height
        case "copy":
            await press("end", name)
            assert one.app.clipboard.endswith("passed test_login\nbye")
        case "prompt_cancel":
            await press("slash", *"x", name)
            assert not one.screen.prompt.is_open
            assert player.searching.needle == ""
        case "back":
            await press("slash", *"bye", "enter", "plus", name)
            assert not one.screen.has_class("-full")
            assert player.searching.needle == "bye"
            await press(name)
            assert player.searching.needle == ""
        case "problems":
            await press("left_square_bracket", name)
            assert isinstance(one.app.screen, Page)
            await press("escape")
        case "theme":
            await press(name)
            assert one.app.screen is not one.screen
            await press("escape")
        case _:
            raise AssertionError(f"nothing is checked of {action}")


async def test_every_key_does_what_the_table_says(tmp_path: Path) -> None:
    """All in one app, since an app for each would take a minute."""
    path = write_story(tmp_path / "a.cast", 140, 30)  # larger than the window, so that there is something to pan
    async with replayed(path, tmp_path) as one:
        for key in REPLAY.rows:
            if key.action in OF_THE_APP:
                continue
            for name in key.keys:
                one.player.search("")
                one.player.set_speed(1.0)
                one.player.set_skips_idle(True)
                one.view.follow_cursor()
                one.view.make_small(False)
                one.player.seek(STARTS.get(key.action, 0.0))
                try:
                    await check_key(one, key.action, name)
                except AssertionError as error:
                    error.add_note(f"{key.action}: {name}")
                    raise
        await one.press("escape")
        await one.until(lambda: not one.app.is_running, "leaving ends the program")


async def test_keys_that_refuse_say_why_and_keys_before_it_is_open_wait_for_it(tmp_path: Path) -> None:
    path = write_story(tmp_path / "a.cast")
    async with replayed(path, tmp_path) as one:
        await one.press("comma", "underscore", "n", "end", "full_stop")
        for why in ("This is the beginning", "All of the recorded terminal", "There is no search", "This is the end"):
            assert why in one.toasts
        one.player.open(path)
        await one.press("right", "right", "slash", *"thinking", "enter")
        await one.until(lambda: one.player.time == 30.0, "what was pressed meanwhile is done, in its order")
        assert one.view.render_line(2).text.startswith("thinking")
