"""A demo from start to end, around the code that shows or conducts it. Nothing is left behind.

An interrupt (Ctrl-C, a closed terminal, a termination signal) is a KeyboardInterrupt in the main thread, as
`selftest_tui.cli.main` arranges. The clean-up takes a second and ignores further interrupts.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from selftest_core.cleanup.demo_folders import sweep_dead_demos
from selftest_core.demo.world import POLICY, DemoWorld
from selftest_core.run.answer.answering import answer_requests
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

    from selftest_core.journal import Entry
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder

    type OnChange = Callable[[Run, Entry], None]


def run_demo(
    environ: Mapping[str, str],
    agents: int | None,
    keep: bool,
    show: Callable[[DemoWorld, RunFolder], int],
    write: Callable[[str], None],
    start: Callable[[RunFolder, Mapping[str, str], Policy], object],
    agent: str = "command",
) -> int:
    """Start a demo, show it, end it; return the result of `show`.

    `environ` is the person's; `agent` is command or claude. `start` starts a conductor in the demo's tmux, then `show`
    is called in the demo's repository. `write` gets lines for a person. Raises SelftestError where no demo can start.
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
    conduct: Callable[[DemoWorld, RunFolder, Policy, OnChange], int],
    write: Callable[[str], None],
    agent: str = "command",
) -> int:
    """Conduct a demo's run to its end in the demo's environment; return the result of `conduct`.

    Nobody watches, so the agents wait a few seconds for a person and then continue. One that is blocked then is
    answered as `selftest-tui answer` does, and goes on.
    """
    with a_demo(environ, agents, keep, write, is_watched=False, agent=agent) as demo:
        folder = demo.begin(write)
        write(f"{len(demo.roles)} agents start in {demo.root}")
        return conduct(demo, folder, POLICY, _answerer(demo, folder, write))


def _answerer(demo: DemoWorld, folder: RunFolder, write: Callable[[str], None]) -> OnChange:
    """Return a listener that answers the blocked agents whose roles have an answer, once each."""
    answers = {role.test: role.answer for role in demo.roles if role.answer}

    def answer(run: Run, entry: Entry) -> None:
        row = run.rows.get(str(entry.fields.get("agent", "")))
        if row is None or entry.event != Event.ENDED or row.end is not End.BLOCKED or row.attempt > 1:
            return
        text = answers.get(row.planned.node_id)
        if text is not None:
            write(f"answering {row.planned.node_id}: {text}")
            for request in answer_requests((row,), text):
                folder.add_request(request)

    return answer


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
    """A demo world for a block. `write` gets what could not be removed at its end, or how to reach a kept world."""
    demo = DemoWorld.start(environ, agents, keep, is_watched=is_watched, agent=agent)
    # Dead demos are removed in a thread, so that the first frame does not wait.
    sweeper = threading.Thread(target=sweep_dead_demos, args=(environ,), name="sweep dead demos", daemon=True)
    sweeper.start()
    try:
        yield demo
    finally:
        with _uninterrupted():
            write("ending the demo: its agents are stopped, its folder is removed")
            problems = demo.end()
            sweeper.join()
    for problem in problems:
        write(f"Left behind: {problem}. `selftest-tui sweep --yes` tries again.")
    if keep:
        for line in demo.how_to_reach().splitlines():
            write(line)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, and leave it before it is removed."""
    with contextlib.chdir(folder):
        yield


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Do nothing on interrupts. They are not ignored, since programs that are started would inherit that."""

    def ignore(number: int, frame: FrameType | None) -> None:
        """Do nothing: the demo is ending already."""

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, ignore)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
