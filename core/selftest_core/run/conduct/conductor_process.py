"""Conducts a run in this process: what `run --batch`, `resume`, the demo and a session of its own all do.

    why = await conduct(folder, environ)           # done, stopped, budget, paused, interrupted
    python -P -m selftest_core.run.conduct.conductor_process FOLDER --from FIFO

The journal's lock is what keeps a second conductor out, so it is opened before anything else is done. Ctrl-C, SIGTERM
and a closed terminal end a conductor, not its run: agents go on, and the next conductor takes up from the journal.
What a conductor needs of the environment comes as an argument, never from `os.environ`: the session's process is
given the person's through a pipe.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.config import ENVIRONMENT_PREFIX, load_config
from selftest_core.errors import RefusedError, SelftestError, UsageError
from selftest_core.journal import Journal
from selftest_core.run.clock import WallClock
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.notifier import PersonCaller
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.crew.trusted_folders import take_back_trust
from selftest_core.run.fetch.bundles import GitBundles
from selftest_core.run.meter import RunMeter
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.store import RunFolder
from selftest_core.run.telling import plain, summary_lines, tell
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from selftest_core.journal import Entry
    from selftest_core.run.crew.recording import Recorder, RecorderMaker
    from selftest_core.run.fetch.conversations import MaskMaker
    from selftest_core.run.fold import Run
    from selftest_core.run.plan.plan import RunPlan

INTERRUPTED = "interrupted"
"""Why a conductor left that a signal ended: the run can be taken up again."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPED_EARLY = 3
_PATIENCE = 60  # seconds for what a starter sends at once
_LONGEST_ENVIRONMENT = 16 * 1024 * 1024


async def conduct(
    folder: RunFolder,
    environ: Mapping[str, str],
    *,
    policy: Policy | None = None,
    on_change: Callable[[Run, Entry], None] | None = None,
    on_begin: Callable[[Run], None] | None = None,
    make_recorder: RecorderMaker | None = None,
    make_mask: MaskMaker | None = None,
) -> str:
    """Conduct the run until it is over or rests, and return why it was left.

    `on_change` is called after each line with the run as it is then, `on_begin` once this conductor holds the run.
    `make_recorder`: what records the agents' terminals, where the setting `record` does not say no.
    `make_mask`: what masks conversations; without it none is kept.
    Raises RefusedError where another one does, UsageError where a variable that its agents need is not set,
    ConfigError for a wrong setting, ToolError without mngr, JournalError and OwnDiskError where nothing can be written
    down (a full disk): all resumable.
    """
    plan = folder.plan()
    _refuse_unset(plan, environ)
    repository = Path(plan.repository)
    if not repository.is_dir():
        raise UsageError(
            "The repository of this run is not there", plan.repository, "Put it back, then `selftest-tui resume`."
        )
    config = load_config(repository, environ)
    # Our own settings are nothing that the agents' processes should find.
    others = {
        name: value
        for name, value in environ.items()
        if name in plan.env_names or not name.startswith(ENVIRONMENT_PREFIX)
    }
    mngr = Mngr(find_mngr(environ), others, repository)
    with hold(folder) as journal:
        folder.clear_passing()
        await mngr.check()
        await asyncio.to_thread(make_clone, repository, plan.base, folder.clone, environ)
        recorder = make_recorder(folder, config, environ) if make_recorder is not None and config.record else None
        mask = make_mask(folder, config, environ) if make_mask is not None else None
        conductor = Conductor(
            plan, journal, MngrCrew(plan, mngr, folder, WallClock(), recorder, mask), folder, GitBundles(plan, environ),
            policy=policy, on_change=_telling(on_change, recorder),
            caller=PersonCaller(plan.run, repository, config.on_pause_command, environ),
            meter=RunMeter(environ, config.prices),
        )  # fmt: skip
        if on_begin is not None:
            on_begin(conductor.run_now)
        if recorder is not None:
            recorder.begin(conductor.run_now)
        try:
            return await _until_signalled(conductor)
        finally:
            if recorder is not None:
                await recorder.leave(is_over=conductor.run_now.is_over)
            if conductor.run_now.is_over:
                await asyncio.to_thread(take_back_trust, folder, conductor.run_now, environ)
            # Once more: an `mngr rsync` of a conductor that was killed makes its folder anew while it goes on.
            folder.clear_passing()


def _telling(
    on_change: Callable[[Run, Entry], None] | None, recorder: Recorder | None
) -> Callable[[Run, Entry], None] | None:
    """Who is told of each line: the recorder first, then who asked."""
    if recorder is None:
        return on_change
    hear = recorder.hear

    def tell_both(run: Run, entry: Entry) -> None:
        hear(run, entry)
        if on_change is not None:
            on_change(run, entry)

    return tell_both


def hold(folder: RunFolder) -> Journal:
    """Open the run's journal for writing. Raises RefusedError where another conductor has it, JournalError."""
    try:
        return Journal(folder.journal)
    except RefusedError as error:
        hint = "Watch it with `selftest-tui`, or end it with `selftest-tui stop`."
        raise RefusedError(f"The run {folder.run} has a conductor already", str(folder.path), hint) from error


def _refuse_unset(plan: RunPlan, environ: Mapping[str, str]) -> None:
    unset = [name for name in plan.env_names if name not in environ]
    if unset:
        detail = f"Its agents get {', '.join(unset)} from the environment, and no file keeps the values."
        raise UsageError("Not all that this run's agents need is set", detail, "Set it, and start again.")


async def _until_signalled(conductor: Conductor) -> str:
    task = asyncio.ensure_future(conductor.run())
    signalled: list[int] = []

    def end(number: int) -> None:
        # Asked once; what follows is the ending itself, which impatience must not cut short.
        if not signalled:
            signalled.append(number)
            task.cancel()

    with _signals_to(end):
        try:
            return await task
        except asyncio.CancelledError:
            if not signalled:
                raise
            return INTERRUPTED


@contextlib.contextmanager
def _signals_to(end: Callable[[int], None]) -> Iterator[None]:
    """Have these signals call `end` in the event loop. Ignored ones stay ignored; only a main thread can have any."""
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(end, number)

    try:
        for number in _SIGNALS:
            found = signal.getsignal(number)
            if found is signal.SIG_IGN:
                continue
            try:
                signal.signal(number, heard)
            except ValueError:  # not the main thread: who started us there hears the signals
                break
            before[number] = found
        yield
    finally:
        for number, found in before.items():
            signal.signal(number, found if found is not None else signal.SIG_DFL)


def main(
    argv: Sequence[str] | None = None,
    make_recorder: RecorderMaker | None = None,
    make_mask: MaskMaker | None = None,
) -> int:
    """The conductor's own process. Its pane shows what happens; whoever started it is told whether it began."""
    parser = argparse.ArgumentParser(description="Conducts one run. Started by selftest-tui.")
    parser.add_argument("folder", type=Path, help="the folder of the run")
    parser.add_argument("--from", dest="source", type=Path, help="a pipe that gives the environment, then says it")
    arguments = parser.parse_args(argv)
    folder: RunFolder = RunFolder(arguments.folder)
    starter = _Starter(arguments.source)
    _say(f"conducting {folder.run} in {folder.path}")
    try:
        environ, policy = starter.take()
        why = asyncio.run(
            conduct(
                folder, environ, policy=policy, on_change=_show, on_begin=lambda run: starter.tell({"ok": True}),
                make_recorder=make_recorder, make_mask=make_mask,
            )
        )  # fmt: skip
    except SelftestError as error:
        starter.tell(
            {"title": error.title, "detail": error.detail, "hint": error.hint, "exit_status": error.exit_status}
        )
        _say("\n".join(f"! {plain(line)}" for line in str(error).splitlines()))
        return error.exit_status
    except Exception as error:
        starter.tell({"title": "The conductor failed", "detail": f"{type(error).__name__}: {error}", "hint": ""})
        _say(traceback.format_exc())
        return 2
    for line in summary_lines(folder.read()):
        _say(line)
    _say({INTERRUPTED: "interrupted: `selftest-tui resume` goes on"}.get(why, why))
    return _STOPPED_EARLY if why == INTERRUPTED else 0


class _Starter:
    """Who started this process: gives the environment through a pipe, and waits to hear whether it could begin."""

    def __init__(self, source: Path | None) -> None:
        self._source = source

    def take(self) -> tuple[dict[str, str], Policy]:
        """The environment and the policy; without a pipe, our own and the usual one."""
        if self._source is None:
            return dict(os.environ), Policy()
        signal.alarm(_PATIENCE)  # a starter that was killed never opens its end
        with self._source.open("rb") as pipe:
            data = pipe.read(_LONGEST_ENVIRONMENT)
        signal.alarm(0)
        try:
            said = json.loads(data)
            environ = {str(name): str(value) for name, value in said["environ"].items()}
            fields: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in said["policy"].items()
            }
            policy = Policy(**fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError("What this conductor was given cannot be read", str(error)) from error
        os.environ.clear()
        os.environ.update(environ)
        return environ, policy

    def tell(self, answer: Mapping[str, Any]) -> None:
        """Say once how it began. Nobody may be there any more."""
        if self._source is None:
            return
        place = self._source.with_name("answer.json")
        draft = place.with_suffix(".draft")
        with contextlib.suppress(OSError):
            draft.write_text(json.dumps(answer), encoding="utf-8")
            draft.rename(place)
        self._source = None


def given(environ: Mapping[str, str], policy: Policy | None) -> bytes:
    """What a starter sends through the pipe."""
    own = {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}
    return json.dumps({"environ": own, "policy": dataclasses.asdict(policy or Policy())}).encode()


def _show(run: Run, entry: Entry) -> None:
    said = tell(run, entry)
    if said:
        _say(f"{time.strftime('%H:%M:%S', time.localtime(entry.at))}  {said}")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # a pane that is gone is no reason to end a run
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
