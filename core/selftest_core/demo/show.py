"""A demo from its start to its end around something that shows it, with nothing left behind however it ends.

Who interrupts (Ctrl-C, a closed terminal, a request to end) does so by KeyboardInterrupt in the main thread, as
`selftest_tui.cli` arranges. The clearing up is then not interrupted by a second one: it takes a second, and what it
did not reach would stay. It must not know what shows the demo.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from selftest_core.demo.world import AGENTS, DemoWorld
from selftest_core.sweep import sweep_dead_demos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

    from selftest_core.demo.launch import Progress
    from selftest_core.errors import SelftestError


def run_demo(
    environ: Mapping[str, str],
    agents: int | None,
    keep: bool,
    show: Callable[[DemoWorld], int],
    write: Callable[[str], None],
) -> int:
    """Start a demo, show it, end it; returns what `show` returned.

    `environ` is the person's. `show` is called at once, in the demo's repository, while the agents are still being
    made. `write` gets lines for a person, after the show. Raises SelftestError where no demo can start.
    """
    failures: list[SelftestError] = []

    def note(progress: Progress) -> None:
        if progress.error is not None:
            failures.append(progress.error)

    with a_demo(environ, agents, keep, write) as demo:
        demo.launch(note)
        with _inside(demo.repository):
            status = show(demo)
    if failures:
        write(f"{len(failures)} of {len(demo.roles)} agents could not be made. The first said:")
        for line in str(failures[0]).splitlines():
            write(line)
        return max(status, 1)
    return status


@contextlib.contextmanager
def a_demo(
    environ: Mapping[str, str], agents: int | None, keep: bool, write: Callable[[str], None]
) -> Iterator[DemoWorld]:
    """A demo world for a block. It ends with the block; `write` gets what could not be cleared, or how to reach it."""
    demo = DemoWorld.start(environ, AGENTS if agents is None else agents, keep)
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
