"""The preview shows a real pane, live, in its colours, whatever is in it, and dies with nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import scenes
from cockpit import Seats, driven
from selftest_core.agents import Ssh
from selftest_core.tools.panes import PaneText
from selftest_tui.fleet.pane.preview import Preview, part_of
from worlds import eventually

if TYPE_CHECKING:
    from worlds import World


def pane(lines: list[str], *, height: int, cursor: tuple[int, int] = (0, 0), history_size: int = 0) -> PaneText:
    return PaneText(
        "\n".join(lines), "%1", 80, height, *cursor, history=len(lines) - height, history_size=history_size
    )  # fmt: skip


def test_a_screen_that_fits_is_shown_whole() -> None:
    part = part_of(pane(["a", "b", "", ""], height=4, cursor=(1, 1)), rows=10, back=0, history_then=0)
    assert [line.text for line in part.lines] == ["a", "b", "", ""]
    assert part.cursor == (1, 1)
    assert part.most_back == 0


def test_of_a_larger_screen_the_end_of_what_is_used_is_shown() -> None:
    lines = [f"l{n}" for n in range(10)] + [""] * 20
    part = part_of(pane(lines, height=30, cursor=(0, 9)), rows=4, back=0, history_then=0)
    assert [line.text for line in part.lines] == ["l6", "l7", "l8", "l9"]
    assert part.cursor == (0, 3)
    assert part.most_back == 6


def test_scrolling_goes_back_into_the_history_and_no_further() -> None:
    lines = [f"h{n}" for n in range(6)] + [f"s{n}" for n in range(4)]
    captured = pane(lines, height=4, cursor=(0, 3), history_size=6)
    assert [line.text for line in part_of(captured, 4, 2, 6).lines] == ["h4", "h5", "s0", "s1"]
    far = part_of(captured, 4, 100, 6)
    assert [line.text for line in far.lines] == ["h0", "h1", "h2", "h3"]
    assert far.back == far.most_back == 6


def test_what_was_scrolled_to_stays_in_sight_while_the_pane_prints_on() -> None:
    before = pane([f"l{n}" for n in range(10)], height=4, cursor=(0, 3), history_size=6)
    after = pane([f"l{n}" for n in range(13)], height=4, cursor=(0, 3), history_size=9)
    seen = part_of(before, 4, 3, 6)
    again = part_of(after, 4, seen.back, seen.history)
    assert [line.text for line in again.lines] == [line.text for line in seen.lines]


HOSTILE = r"""#!/bin/sh
printf '\033]0;[bold]title\007\033[31mred\033[0m [bold red]markup[/] [@click=app.exit()]x[/] \033]8;;http://e\007link\033]8;;\007'
printf '\033[?1003h\033[?2004h\033]52;c;QQ==\007\n日本語 e\314\201 \342\200\256bidi\342\200\254 end'
exec sleep 1000
"""


async def test_hostile_contents_are_shown_and_never_obeyed(world: World) -> None:
    seats = Seats(world)
    seats.seat("evil", world.script("evil", HOSTILE))
    async with driven(seats, size=(200, 40)) as it:
        await it.go_to("evil")
        await it.until(lambda: "end" in it.preview, "the pane")
        first, second = it.preview.splitlines()[:2]
        assert first == "red [bold red]markup[/] [@click=app.exit()]x[/] link"
        assert second == "日本語 e\u0301 bidi end"
        preview = it.app.fleet.query_one(Preview)
        colours = {segment.style.color for segment in preview.render_line(0) if segment.style and segment.text == "red"}
        assert [colour.number for colour in colours if colour is not None] == [1]
        assert it.app.is_running


async def test_it_follows_what_happens_and_the_selection(world: World) -> None:
    seats = Seats(world)
    one = seats.seat("one", "cat")
    seats.seat("two", world.script("two", "#!/bin/sh\necho I am two\nexec sleep 1000\n"))
    seats.stopped("three")
    async with driven(seats) as it:
        await it.go_to("one")
        world.tmux("send-keys", "-t", f"={one.name}:", "news one", "Enter")
        await it.until(lambda: "news one" in it.preview)
        world.tmux("send-keys", "-t", f"={one.name}:", "more", "Enter")
        await it.until(lambda: "more" in it.preview)
        await it.go_to("two")
        await it.until(lambda: "I am two" in it.preview)
        assert "news one" not in it.preview
        await it.go_to("three")
        await it.until(lambda: "no tmux session" in it.preview)
        assert "S starts it" in it.preview


async def test_scrolling_shows_the_history(world: World) -> None:
    seats = Seats(world)
    script = "#!/bin/sh\ni=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done\nexec sleep 1000\n"
    seats.seat("long", world.script("long", script))
    async with driven(seats) as it:
        await it.go_to("long")
        await it.until(lambda: "line 499" in it.preview)
        for _ in range(12):
            await it.press("K")
        await it.until(lambda: "line 430" in it.preview and "line 499" not in it.preview)
        for _ in range(12):
            await it.press("J")
        await it.until(lambda: "line 499" in it.preview)


async def test_a_pane_of_ten_megabytes_is_like_any_other(world: World) -> None:
    seats = Seats(world)
    world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "first", "sleep 1000")
    world.tmux("set-option", "-g", "history-limit", "200000")
    script = "#!/bin/sh\nyes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -n 145000\n"
    seats.seat("big", world.script("big", script + "echo the end\nexec sleep 1000\n"))
    eventually(lambda: "the end" in world.tmux("capture-pane", "-p", "-t", "=mngr-big:"), "ten megabytes are printed")
    async with driven(seats) as it:
        await it.go_to("big")
        await it.until(lambda: "the end" in it.preview)
        for _ in range(8):
            await it.press("K")
        await it.until(lambda: "the end" not in it.preview)
        assert "0123456789" in it.preview


@pytest.mark.parametrize("what", ["session", "server"])
async def test_what_dies_under_the_eyes_leaves_a_calm_word(world: World, what: str) -> None:
    seats = Seats(world)
    seats.seat("dies", "cat")
    seats.other("stays", "cat")
    async with driven(seats) as it:
        await it.go_to("dies")
        await it.until(lambda: it.app.fleet.query_one(Preview).shown is not None)
        if what == "server":
            world.tmux("kill-server")
        else:
            world.tmux("kill-session", "-t", "=mngr-dies")
        await it.until(lambda: "gone" in it.preview)
        assert it.app.is_running


async def test_a_larger_pane_is_anchored_at_its_bottom_left(world: World) -> None:
    seats = Seats(world)
    script = (
        "#!/bin/sh\ni=0; while [ $i -lt 90 ]; do echo $i $(printf '%0150d' 7); i=$((i+1)); done; printf 'prompt> '\n"
    )
    seats.seat("large", world.script("large", script + "exec sleep 1000\n"), width=200, height=100)
    async with driven(seats, size=(120, 30)) as it:
        await it.go_to("large")
        await it.until(lambda: it.preview.endswith("prompt>"))
        assert it.preview.splitlines()[-2].startswith("89 00000")


async def test_a_remote_screen_is_looked_at_on_request_only(world: World) -> None:
    seats = Seats(world)
    seats.seat("near", "cat")
    world.tmux(
        "new-session", "-d", "-s", "mngr-far", str(world.script("far", "#!/bin/sh\necho far away\nexec sleep 1000\n"))
    )
    eventually(lambda: "far away" in world.tmux("capture-pane", "-p", "-t", "=mngr-far:"))
    # What ssh does with a command is what `sh -c` does with it.
    host = replace(scenes.BOX, ssh=Ssh(f"env TMUX_TMPDIR={world.tmux_dir} sh -c"))
    gone = replace(scenes.BOX, id="host-2", ssh=Ssh("echo no route >&2; exit 255; :"))
    remote = [scenes.an_agent(8, "far", host=host), scenes.an_agent(9, "lost", host=gone)]
    async with driven(seats) as it:
        it.watch.show(scenes.scene(seats.probed(), scenes.a_list(remote)).view)
        await it.until(lambda: len(it.app.fleet.view.rows) == 3)
        await it.go_to("far")
        await it.until(lambda: "⏎ attaches to it; p fetches its screen once" in " ".join(it.preview.split()))
        await it.press("p")
        await it.until(lambda: it.preview.startswith("far away"))
        await it.go_to("lost")
        await it.press("p")
        await it.until(lambda: "no route" in it.preview)
