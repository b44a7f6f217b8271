"""A demo from its start to its end around something that conducts or shows it, with nothing left behind.

Who interrupts (Ctrl-C, a closed terminal, a request to end) does so by KeyboardInterrupt in the main thread, as
`selftest_tui.cli.main` arranges. The clearing up is then not interrupted by a second one: it takes a second, and what
it did not reach would stay. It must not know what shows the demo.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from selftest_core.cleanup.demo_folders import sweep_dead_demos
from selftest_core.demo.world import POLICY, DemoWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.store import RunFolder


def run_demo(
    environ: Mapping[str, str],
    agents: int | None,
    keep: bool,
    show: Callable[[DemoWorld, RunFolder], int],
    write: Callable[[str], None],
    start: Callable[[RunFolder, Mapping[str, str], Policy], object],
    agent: str = "command",
) -> int:
    """Start a demo, show it, end it; returns what `show` returned.

    `environ` is the person's; `agent` is command or claude. `show` is called in the demo's repository once a conductor
    of its own, in the demo's tmux, has the run: `start` starts that. `write` gets lines for a person, before and after
    the show. Raises SelftestError where no demo can start.
    """
    with a_demo(environ, agents, keep, write, is_watched=True, agent=agent) as demo:
        folder = demo.begin(write)
        write("starting the conductor")
        start(folder, demo.tools_environ, POLICY)
        with _inside(demo.repository):
            return show(demo, folder)


def run_demo_batch(
    environ: Mapping[str, str],
    agents: int | None,
    keep: bool,
    conduct: Callable[[RunFolder, Mapping[str, str], Policy], int],
    write: Callable[[str], None],
    agent: str = "command",
) -> int:
    """Conduct a demo's run to its end; returns what `conduct` returned, which is given the environment to do it in.

    Nobody answers here, so the agents wait a moment for a person and then go on by themselves.
    """
    with a_demo(environ, agents, keep, write, is_watched=False, agent=agent) as demo:
        folder = demo.begin(write)
        write(f"{len(demo.roles)} agents start in {demo.root}")
        return conduct(folder, demo.tools_environ, POLICY)


@contextlib.contextmanager
def a_demo(
    environ: Mapping[str, str],
    agents: int | None,
    keep: bool,
    write: Callable[[str], None],
    *,
    is_watched: bool,
    agent: str = "command",
) -> Iterator[DemoWorld]:
    """A demo world for a block. It ends with the block; `write` gets what could not be cleared, or how to reach it."""
    demo = DemoWorld.start(environ, agents, keep, is_watched=is_watched, agent=agent)
    # Dead demos of before are cleared behind the first paint, not before it.
    broom = threading.Thread(target=sweep_dead_demos, args=(environ,), name="sweep dead demos", daemon=True)
    broom.start()
    try:
        yield demo
    finally:
        with _uninterrupted():
            problems = demo.end()
            broom.join()
    for problem in problems:
        write(f"Left behind: {problem}. `selftest-tui sweep --yes` tries again.")
    if keep:
        for line in demo.how_to_reach().splitlines():
            write(line)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, and come back before it is removed."""
    with contextlib.chdir(folder):
        yield


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hear interrupts, and do nothing. Not by ignoring them: that would be inherited by what is started meanwhile."""

    def leave_it(number: int, frame: FrameType | None) -> None:
        """The demo is ending already."""

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, leave_it)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
