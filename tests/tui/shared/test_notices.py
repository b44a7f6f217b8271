"""Notifications: how they reach the terminal and the person's command."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import scenes
from pseudo_terminal import shell_in
from selftest_tui.shared.notices import Notices, desktop_notification
from worlds import ROOT, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.config import Notify
    from selftest_core.fleet.view import FleetView
    from worlds import World

NEED = "waits for \x1b[31mpermission"
# The screen in a real terminal: an agent comes to need a person while it is shown.
SCREEN = """
import dataclasses, os, pathlib, sys
sys.path.insert(0, {tests!r})
import scenes
from selftest_tui.app.app import FleetApp
from simulated.watch import StillWatch
before = scenes.many(3)
name = next(row.agent.name for row in before.view.rows if row.attention is None)
def asking(view):
    rows = [dataclasses.replace(r, attention="waits for permission") if r.agent.name == name else r for r in view.rows]
    return dataclasses.replace(view, rows=tuple(rows), expecting=frozenset())
made = []
def make_watch(publish):
    made.append(StillWatch(dataclasses.replace(before.view, expecting=frozenset()), publish))
    return made[0]
app = FleetApp(make_watch, dict(os.environ), folder=pathlib.Path.cwd(), place="here", notify="both")
async def press(pilot):
    while not app.fleet.has_view:
        await pilot.pause(0.01)
    made[0].show(asking(made[0].view))
app.run(auto_pilot=press)
"""


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as made:
        made.make_repository()
        yield made


def with_need(view: FleetView, need: str | None) -> FleetView:
    """The view with this need of its first agent."""
    first, *others = view.rows
    return replace(view, rows=(replace(first, attention=need), *others), expecting=frozenset())


class Heard:
    """Notices over a fleet whose first agent comes to need a person."""

    def __init__(self, world: World, how: Notify, command: str = "", **more: str) -> None:
        self.written: list[str] = []
        self.complaints: list[str] = []
        environ = {**world.environment, **more}
        notices = Notices(how, command, environ, world.root, self.written.append, self.complaints.append, lambda: 0.0)
        view = scenes.many(3).view
        self.name = view.rows[0].agent.name
        notices.see(with_need(view, None))
        notices.see(with_need(view, NEED))


def test_the_setting_chooses_what_the_terminal_gets(world: World) -> None:
    name = Heard(world, "off").name
    osc9 = f"\x1b]9;selftest-tui: {name}: waits for [31mpermission\x1b\\"
    assert {how: Heard(world, how).written for how in ("both", "bell", "osc9", "off")} == {
        "both": [f"\a{osc9}"],
        "bell": ["\a"],
        "osc9": [osc9],
        "off": [],
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"TERM": "linux"}, ""),
        ({"TERM": "screen", "STY": "1.pts"}, ""),
        ({"TERM": "rxvt-unicode-256color"}, "\x1b]777;notify;selftest-tui;a, b\x1b\\"),
        ({"TERM": "xterm", "VTE_VERSION": "7000"}, "\x1b]777;notify;selftest-tui;a, b\x1b\\"),
        ({"TERM": "xterm"}, "\x1b]9;selftest-tui: a; b\x1b\\"),
        ({"TERM": "tmux-256color", "TMUX": "/s,1,0"}, "\x1bPtmux;\x1b\x1b]9;selftest-tui: a; b\x1b\x1b\\\x1b\\"),
    ],
)
def test_each_terminal_gets_what_it_knows(more: dict[str, str], expected: str) -> None:
    assert desktop_notification("a; b", more) == expected


def test_the_command_gets_it_in_its_environment(world: World) -> None:
    out = world.root / "out"
    command = f'printf "%s|%s|%s|%s" "$SELFTEST_SAYS" "$SELFTEST_REASON" "$SELFTEST_AGENTS" "$SELFTEST_COUNT" > {out}.x'
    heard = Heard(world, "off", f"{command}; mv {out}.x {out}")
    eventually(out.exists, "the command")
    assert out.read_text() == f"{heard.name}: waits for [31mpermission|{NEED}|{heard.name}|1"
    assert heard.complaints == []


def test_a_command_that_fails_is_told(world: World) -> None:
    heard = Heard(world, "off", "echo broken >&2; exit 3")
    eventually(lambda: heard.complaints, "the complaint")
    assert heard.complaints == ["notify_command ended with 3: broken"]


@pytest.mark.real
@pytest.mark.parametrize("inside_tmux", [False, True])
def test_a_screen_in_a_terminal_rings_and_notifies(world: World, inside_tmux: bool) -> None:
    script = world.script("screen.py", SCREEN.replace("{tests!r}", repr(str(ROOT / "tests"))))
    more = {"TMUX": "/nowhere,1,0"} if inside_tmux else {}
    terminal = shell_in(world, f"exec {shlex.join([sys.executable, str(script)])}", **more)
    start = b"\a\x1bPtmux;\x1b\x1b]9;selftest-tui: " if inside_tmux else b"\a\x1b]9;selftest-tui: "
    eventually(lambda: start in terminal.shown, "the notification")
    terminal.press("q")
    assert terminal.leader.wait() == 0
    assert terminal.shown.count(b"]9;") == 1
    terminal.hang_up()
