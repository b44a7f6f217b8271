"""The rows that need the real program in a real terminal."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Result, cpu_of_process, median, percentile, result
from bench.terminals import BARE, LINES, NAME, BareEcho, ScreenReader
from pseudo_terminal import Terminal

if TYPE_CHECKING:
    from bench.fleets import MeasuredFleet

_PROGRAM = str(Path(sys.executable).parent / "selftest-tui")
_HEADER = "selftest"
_HOME, _UP, _DOWN = "\x1b[H", "\x1b[A", "\x1b[B"
_QUIET = ("--set", "poll_local=3600", "--set", "poll_all=3600", "--set", "poll_remote=3600")
"""mngr is asked once, at the start."""


def open_fleet(fleet: MeasuredFleet, *arguments: str, rows: int = 50) -> Terminal:
    """Open the fleet's screen in a terminal."""
    return Terminal((_PROGRAM, *arguments), cwd=fleet.cwd, env=fleet.environ, rows=rows)


def first_paint(fleet: MeasuredFleet, rounds: int = 7) -> dict[str, Result]:
    """From the start of the program to its header on the terminal, by turns with a bare Textual app."""
    ours, bare = [], []
    for _ in range(rounds):
        with Terminal((sys.executable, "-c", BARE), cwd=fleet.cwd, env=fleet.environ) as screen:
            bare.append((screen.painted("bare app is here") - screen.began) * 1000)
        with open_fleet(fleet) as screen:
            ours.append((screen.painted(_HEADER) - screen.began) * 1000)
    ratio = median(ours) / median(bare)
    return {
        "first_paint": result(
            ratio, "x", 1.5, against=f"a bare Textual app in the same run: {median(bare):.0f} ms",
            note=f"ours {median(ours):.0f} ms; start of the process to the first text, real pty, median of {rounds}",
        ),
    }  # fmt: skip


def agents_on_screen(fleet: MeasuredFleet, rounds: int = 5) -> dict[str, Result]:
    """From the start of the program to the first agent's and the last visible agent's name on the terminal."""
    first, whole, before_list = [], [], 0
    names = list(fleet.folders)
    for _ in range(rounds):
        with open_fleet(fleet, rows=len(names) + 20) as screen:
            first.append(min(screen.painted(name) for name in names[:1]) - screen.began)
            whole.append(max(screen.painted(name) for name in names) - screen.began)
            before_list += not _list_has_answered(screen.pid)
    return {
        f"agents_on_screen_{fleet.size}": result(
            median(whole), "s", 1.0, against=f"mngr list was still running or not begun in {before_list} of {rounds}",
            note=f"{fleet.name}, all of them painted; the first after {median(first):.2f} s; real pty, median",
        ),
    }  # fmt: skip


def change_to_screen(fleet: MeasuredFleet, changes: int = 40) -> dict[str, Result]:
    """From a change of an agent's state on disk to its name being painted in its new place."""
    samples = []
    with open_fleet(fleet, *_QUIET, rows=fleet.size + 20) as screen:
        for name in fleet.folders:
            screen.painted(name)
        _wait_for_list(screen.pid)
        order = list(fleet.folders.items())
        random.Random(7).shuffle(order)
        for number in range(changes):
            name, folder = order[number % len(order)]
            screen.quiet(0.4, patience=5)
            before = screen.position
            began = time.perf_counter()
            if (folder / "active").exists():
                (folder / "active").unlink()
            else:
                (folder / "active").touch()
            samples.append((screen.painted(name, before, patience=20) - began) * 1000)
    return {
        f"change_to_screen_{fleet.size}": result(
            percentile(samples, 95), "ms", 300.0, against="mngr list alone would show it seconds later",
            note=f"{fleet.name}, p95 of {changes}; median {median(samples):.0f} ms; marker file to paint, real pty",
        ),
    }  # fmt: skip


def idle(fleet: MeasuredFleet, seconds: float) -> dict[str, Result]:
    """CPU of the program and of the tmux clients that it starts, while nothing changes and no mngr runs."""
    with open_fleet(fleet, *_QUIET) as screen:
        screen.painted(_HEADER)
        _wait_for_list(screen.pid)
        time.sleep(2.0)
        own, children = cpu_of_process(screen.pid)
        began = time.perf_counter()
        time.sleep(seconds)
        own_after, children_after = cpu_of_process(screen.pid)
        wall = time.perf_counter() - began
    used = own_after - own + children_after - children
    return {
        f"idle_cpu_{fleet.size}": result(
            used / wall * 100, "%", 3.0, against="mngr list, which is not counted, and was not run meanwhile",
            note=f"{fleet.name}, {wall:.0f} s of one core; ours {(own_after - own) / wall * 100:.2f} %, "
            f"the tmux clients that it ran {(children_after - children) / wall * 100:.2f} %",
        ),
    }  # fmt: skip


def keys(fleet: MeasuredFleet, presses: int = 100) -> dict[str, Result]:
    """From a cursor key to the output that puts the cursor on another agent, while agents change all the time."""
    stop = threading.Event()
    bare = []
    with open_fleet(fleet, rows=LINES) as screen, BareEcho(fleet.cwd, fleet.environ) as echo:
        screen.painted("st-7f-")
        screen.quiet(1.0, patience=20)
        visible = _names_in_order(screen.shown, fleet)
        movable = [
            folder
            for name, folder in fleet.folders.items()
            if name not in visible and ((folder / "active").exists() or not (folder / "permissions_waiting").exists())
        ]

        def keep_changing() -> None:
            chosen = random.Random(7)
            while not stop.wait(0.05):
                folder = chosen.choice(movable)
                if (folder / "active").exists():
                    (folder / "active").unlink()
                else:
                    (folder / "active").touch()

        for key in (_HOME, *[_DOWN] * 5):
            screen.press(key)
            screen.quiet(0.3, patience=5)
        changer = threading.Thread(target=keep_changing, daemon=True)
        changer.start()
        pressed = []
        try:
            intervals = random.Random(11)
            for number in range(presses):
                time.sleep(intervals.uniform(0.2, 0.3))  # a person's pace: what is measured begins with the key
                pressed.append(screen.press(_DOWN if number // 20 % 2 == 0 else _UP)[1])
                if number % 4 == 3:
                    time.sleep(0.1)  # the key of ours has been painted, else this one would disturb it
                    bare.append(echo.press())
            time.sleep(1.0)  # for the output of the last key
        finally:
            stop.set()
            changer.join()
        moves = ScreenReader(screen).cursor_moves()
    samples = [
        (next(moved for moved in moves if moved > at) - at) * 1000 for at in pressed if any(one > at for one in moves)
    ]
    if len(samples) < presses or len(moves) < presses:
        raise RuntimeError(f"{presses} cursor keys moved the cursor {len(moves)} times")
    return {
        f"key_to_paint_pty_{fleet.size}": result(
            percentile(samples, 95), "ms", 33.0,
            against=f"a frame and a half at 60 a second; a bare Textual app meanwhile: p95 {percentile(bare, 95):.0f} "
            f"ms, median {median(bare):.0f} ms",
            note=f"{fleet.name}, p95 of {presses} cursor keys, median {median(samples):.0f} ms; real pty, real watch, "
            f"an agent changing 20 times a second; load {os.getloadavg()[0]:.1f}",
        ),
    }  # fmt: skip


def _names_in_order(output: bytes, fleet: MeasuredFleet) -> list[str]:
    """The agents' names in the order in which they were first painted."""
    found = NAME.findall(output.decode("utf-8", "replace"))
    return [name for name in dict.fromkeys(found) if name in fleet.folders]


def _list_has_answered(pid: int) -> bool:
    """True when the program's first mngr has come and gone: CPU of a child that has ended."""
    return cpu_of_process(pid)[1] > 0.5


def _wait_for_list(pid: int, patience: float = 120.0) -> None:
    """Wait until the first `mngr list` has ended."""
    deadline = time.perf_counter() + patience
    while not _list_has_answered(pid) and time.perf_counter() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
