"""Conduct a run in this process: for `run --batch`, `resume`, the demo, and the process in a session of its own.

    why = await conduct(folder, environ)           # done, stopped, budget, paused, interrupted
    python -P -m selftest_core.run.conduct.conductor_process FOLDER --from FIFO

The journal is opened first, since its lock keeps a second conductor out. Ctrl-C, SIGTERM and a closed terminal end the
conductor, not its run: agents keep running, and the next conductor continues from the journal. The environment is an
argument, never `os.environ`: the session's process receives the user's through a pipe.
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

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.config import ENVIRONMENT_PREFIX, load_config
from selftest_core.errors import RefusedError, SelftestError, UsageError
from selftest_core.journal import Journal
from selftest_core.run.budget.ledger import DayLedger
from selftest_core.run.clock import WallClock
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.notifier import CommandNotifier
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.crew.trusted_folders import remove_trust
from selftest_core.run.fetch.bundles import GitBundles
from selftest_core.run.log_lines import log_line, plain, summary_lines
from selftest_core.run.meter import RunMeter
from selftest_core.run.pace.sweet_spots import keep_found
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.providers import providers_of
from selftest_core.run.store import RunFolder
from selftest_core.tools.loaded.loaded_mngr import LoadedMngr
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from selftest_core.journal import Entry
    from selftest_core.run.crew.recording import Recorder, RecorderMaker
    from selftest_core.run.fetch.conversations import MaskMaker
    from selftest_core.run.fold import Run
    from selftest_core.run.outcome.claims import ClaimVerifier, ClaimVerifierMaker
    from selftest_core.run.outcome.gate import GateMaker
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.reporting import ReporterMaker

INTERRUPTED = "interrupted"
"""Returned by `conduct` after a signal: the run can be resumed."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPED_EARLY = 3
_STARTER_TIMEOUT = 60  # seconds for what a starter sends at once
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
    make_claim_verifier: ClaimVerifierMaker | None = None,
    make_gate: GateMaker | None = None,
    make_reporter: ReporterMaker | None = None,
) -> str:
    """Conduct the run until it is over or pauses for good; return why the conductor left.

    `on_change` is called after each journal line with the run after it, `on_begin` once this conductor has the lock.
    `make_recorder` makes the recorder of the agents' terminals, unless the setting `record` is off.
    `make_mask` makes the mask of conversations; without it none is kept. `make_claim_verifier` makes what verifies
    claims when they arrive, where the plan says so. `make_gate` makes the gate of a run whose agents are no testers.
    `make_reporter` makes what writes the report.
    Raises RefusedError if another conductor has the run, UsageError if a variable that its agents need is not
    set, ConfigError for a wrong setting, ToolError without mngr, JournalError and OwnDiskError if nothing can be
    written (a full disk). The run can be resumed after each of them.
    """
    plan = folder.plan()
    _refuse_unset(plan, environ)
    repository = Path(plan.repository)
    if not repository.is_dir():
        raise UsageError(
            "The repository of this run does not exist", plan.repository, "Restore it, then `selftest-tui resume`."
        )
    config = load_config(repository, environ)
    # The agents' processes must not get our own settings.
    others = {
        name: value
        for name, value in environ.items()
        if name in plan.env_names or not name.startswith(ENVIRONMENT_PREFIX)
    }
    program = find_mngr(environ)
    loaded = LoadedMngr(program, others) if config.load_mngr_once else None
    mngr = Mngr(program, others, repository, loaded)
    with hold(folder) as journal, contextlib.ExitStack() as closing:
        if loaded is not None:
            closing.callback(loaded.close)
        folder.clear_temporary()
        await mngr.check()
        await asyncio.to_thread(make_clone, repository, plan.base, folder.clone, environ)
        recorder = make_recorder(folder, config, environ) if make_recorder is not None and config.record else None
        mask = make_mask(folder, config, environ) if make_mask is not None else None
        claims: ClaimVerifier | None = None
        if make_claim_verifier is not None and plan.verify_on_arrival:
            claims = make_claim_verifier(plan, config, environ)
        gate = make_gate(plan, config, environ) if make_gate is not None and plan.role != "tester" else None
        conductor = Conductor(
            plan, journal, MngrCrew(plan, mngr, folder, WallClock(), recorder, mask), folder, GitBundles(plan, environ),
            policy=policy, on_change=_with_recorder(on_change, recorder),
            notifier=CommandNotifier(plan.run, repository, config.on_pause_command, environ),
            meter=RunMeter(environ, config.prices), claims=claims, gate=gate,
            reporter=None if make_reporter is None else make_reporter(folder, environ),
            ledger=_ledger(plan, policy or Policy()),
            load=load_for_each_core if LOCAL_PROVIDER in providers_of(plan.provider) else None,
        )  # fmt: skip
        if on_begin is not None:
            on_begin(conductor.run_now)
        if recorder is not None:
            recorder.begin(conductor.run_now)
        try:
            return await _until_signalled(conductor)
        finally:
            if claims is not None:
                await claims.close()
            if gate is not None:
                await gate.close()
            if recorder is not None:
                await recorder.leave(is_over=conductor.run_now.is_over)
            await conductor.write_last_report()
            keep_found(conductor.run_now, environ)
            if conductor.run_now.is_over:
                await asyncio.to_thread(remove_trust, folder, conductor.run_now, environ)
            # Again: an `mngr rsync` that a killed conductor started may have made its folder anew.
            folder.clear_temporary()


def load_for_each_core() -> float:
    """Return the load average of the last minute for each core; 0 where the system has none."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return 0.0


def _ledger(plan: RunPlan, policy: Policy) -> DayLedger | None:
    """Return the ledger of the repository's other runs where the day has a budget."""
    limits = (
        plan.budget_day_usd,
        policy.budget_day_usd,
        plan.budget_day_tokens or None,
        policy.budget_day_tokens or None,
    )
    if all(limit is None for limit in limits):
        return None
    return DayLedger(Path(plan.repository), without=plan.run)


def _with_recorder(
    on_change: Callable[[Run, Entry], None] | None, recorder: Recorder | None
) -> Callable[[Run, Entry], None] | None:
    """Return a listener that passes each journal line to the recorder first."""
    if recorder is None:
        return on_change

    def pass_to_both(run: Run, entry: Entry) -> None:
        recorder.handle(run, entry)
        if on_change is not None:
            on_change(run, entry)

    return pass_to_both


def hold(folder: RunFolder) -> Journal:
    """Open and lock the run's journal. Raises RefusedError if another conductor has it, JournalError."""
    try:
        return Journal(folder.journal)
    except RefusedError as error:
        raise already_conducted(folder) from error


def already_conducted(folder: RunFolder) -> RefusedError:
    """Make the error for a run that has a conductor."""
    hint = "Watch it with `selftest-tui`, or end it with `selftest-tui stop`."
    return RefusedError(f"The run {folder.run} already has a conductor", str(folder.path), hint)


def _refuse_unset(plan: RunPlan, environ: Mapping[str, str]) -> None:
    unset = [name for name in plan.env_names if name not in environ]
    if unset:
        detail = f"Its agents get {', '.join(unset)} from the environment; the values are kept in no file."
        raise UsageError("Variables that this run's agents need are not set", detail, "Set them, and start again.")


async def _until_signalled(conductor: Conductor) -> str:
    task = asyncio.ensure_future(conductor.run())
    signalled: list[int] = []

    def end(number: int) -> None:
        # Cancel once; further signals must not cut the clean-up short.
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
    """Call `end` in the event loop on these signals. Ignored signals stay ignored; needs the main thread."""
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(end, number)

    try:
        for number in _SIGNALS:
            found = signal.getsignal(number)
            if found is signal.SIG_IGN:
                continue
            try:
                signal.signal(number, handle)
            except ValueError:  # not the main thread: whoever started us there handles the signals
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
    make_claim_verifier: ClaimVerifierMaker | None = None,
    make_gate: GateMaker | None = None,
    make_reporter: ReporterMaker | None = None,
) -> int:
    """Run the conductor's own process: its pane shows the journal, and its starter learns whether it began."""
    parser = argparse.ArgumentParser(description="Conduct one run. Started by selftest-tui.")
    parser.add_argument("folder", type=Path, help="the folder of the run")
    parser.add_argument("--from", dest="source", type=Path, help="the pipe from which the environment is read")
    arguments = parser.parse_args(argv)
    folder: RunFolder = RunFolder(arguments.folder)
    starter = _Starter(arguments.source)
    _say(f"conducting {folder.run} in {folder.path}")
    try:
        environ, policy = starter.receive()
        why = asyncio.run(
            conduct(
                folder, environ, policy=policy, on_change=_show, on_begin=lambda run: starter.answer({"ok": True}),
                make_recorder=make_recorder, make_mask=make_mask, make_claim_verifier=make_claim_verifier,
                make_gate=make_gate, make_reporter=make_reporter,
            )
        )  # fmt: skip
    except SelftestError as error:
        starter.answer(
            {"title": error.title, "detail": error.detail, "hint": error.hint, "exit_status": error.exit_status}
        )
        _say("\n".join(f"! {plain(line)}" for line in str(error).splitlines()))
        return error.exit_status
    except Exception as error:
        starter.answer({"title": "The conductor failed", "detail": f"{type(error).__name__}: {error}", "hint": ""})
        _say(traceback.format_exc())
        return 2
    for line in summary_lines(folder.read()):
        _say(line)
    _say({INTERRUPTED: "interrupted: continue with `selftest-tui resume`"}.get(why, why))
    return _STOPPED_EARLY if why == INTERRUPTED else 0


class _Starter:
    """The process that started this one: sends the environment through a pipe, and waits for an answer."""

    def __init__(self, source: Path | None) -> None:
        self._source = source

    def receive(self) -> tuple[dict[str, str], Policy]:
        """Read the environment and the policy; without a pipe, return our own and the default."""
        if self._source is None:
            return dict(os.environ), Policy()
        signal.alarm(_STARTER_TIMEOUT)  # a starter that was killed never opens its end
        with self._source.open("rb") as pipe:
            data = pipe.read(_LONGEST_ENVIRONMENT)
        signal.alarm(0)
        try:
            message = json.loads(data)
            environ = {str(name): str(value) for name, value in message["environ"].items()}
            fields: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in message["policy"].items()
            }
            policy = Policy(**fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError("The environment that this conductor received cannot be read", str(error)) from error
        os.environ.clear()
        os.environ.update(environ)
        return environ, policy

    def answer(self, answer: Mapping[str, Any]) -> None:
        """Answer once: began, or the error. The starter may be gone."""
        if self._source is None:
            return
        place = self._source.with_name("answer.json")
        draft = place.with_suffix(".draft")
        with contextlib.suppress(OSError):
            draft.write_text(json.dumps(answer), encoding="utf-8")
            draft.rename(place)
        self._source = None


def starter_message(environ: Mapping[str, str], policy: Policy | None) -> bytes:
    """Encode the environment and the policy for the pipe."""
    own = {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}
    return json.dumps({"environ": own, "policy": dataclasses.asdict(policy or Policy())}).encode()


def _show(run: Run, entry: Entry) -> None:
    line = log_line(run, entry)
    if line:
        _say(f"{time.strftime('%H:%M:%S', time.localtime(entry.at))}  {line}")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the pane may be gone
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
