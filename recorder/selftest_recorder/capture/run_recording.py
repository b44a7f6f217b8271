"""Recorder of a run: turns entries of its journal into orders for the collector, and restarts the collector.

Orders are lines of a file, so the conductor never waits for tmux, and a collector that is started again after a kill
reads them again. After a kill of the conductor the collector goes on; the next conductor finds it by its lock. Nothing
here raises: a run does not fail for its recordings.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from selftest_core.agent_types.profiles import PLAIN
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.conversation.conversation import steps_of
from selftest_core.conversation.transcript_files import NO_TRANSCRIPT, Transcript, read_whole
from selftest_core.errors import SelftestError, ToolError
from selftest_core.journal import is_held, read
from selftest_core.run.crew.mngr_commands import OUT
from selftest_core.run.crew.recording import LIVE, NOT_RECORDED, TERMINAL, Provision, live_recording
from selftest_core.run.events import RUNNING, Event, Phase
from selftest_core.run.fetch.conversations import LINES
from selftest_core.run.outcome.ends import End, Group
from selftest_core.run.providers import place_of, provider_of, work_dir
from selftest_core.tools import process
from selftest_core.tools.mngr_files import host_dir_of
from selftest_core.tools.tmux import default_socket
from selftest_recorder.capture.conversation_markers import mark_conversation
from selftest_recorder.capture.packing import make_program
from selftest_recorder.capture.text_masking import make_mask
from selftest_recorder.cast.writer import add_markers
from selftest_recorder.onhost.__main__ import PATTERNS
from selftest_recorder.onhost.markers import clean_label
from selftest_recorder.onhost.masking import USUAL_PATTERNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path, PurePosixPath

    from selftest_core.config import Config
    from selftest_core.conversation.common_transcript import Step
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Member, Run
    from selftest_core.run.store import RunFolder
    from selftest_core.tools.process import Running

_LOOK_AGAIN = 0.5
_PATIENCE = 60.0
_NOT_OURS = ("TMUX", "TMUX_PANE", "MNGR_AGENT_ID")
_PIPES = ".pipes"
_FAR = ".selftest/recorder"
_FAR_PATIENCE = 900.0
"""Seconds after its launch in which the session of a remote agent must appear."""
_MOST_STARTS = 20
_GOOD_ENDS: Mapping[Group, str] = {Group.SUCCEEDED: "passed", Group.UNCHANGED: "passed: no change needed"}


def make_recorder(folder: RunFolder, config: Config, environ: Mapping[str, str]) -> RunRecorder:
    """Return the recorder of a run; it is a `selftest_core.run.crew.recording.RecorderMaker`."""
    return RunRecorder(folder, config, environ)


class RunRecorder:
    """The recorder of a conductor. `environ`: the environment of its mngr."""

    def __init__(self, folder: RunFolder, config: Config, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._plan = folder.plan()
        self._home = folder.path / LIVE
        secret = (name for name in self._plan.env_names if name not in PLAIN)
        self._names = tuple(dict.fromkeys((*secret, *config.mask_env)))
        self._patterns = (*USUAL_PATTERNS, *config.mask_patterns)
        self._collector: Running | None = None
        self._starts = 0
        self._keeping: asyncio.Task[None] | None = None
        self._marking: list[asyncio.Future[None]] = []
        self._ended: dict[str, Member] = {}  # agents whose conversations are still to be marked
        self._lock = threading.Lock()
        self._mask = make_mask(folder, config, environ)

    def begin(self, run: Run) -> None:
        """Start the collector if there is none, and order the recordings of running agents."""
        try:
            self._home.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            return  # the conductor reports errors of the disk
        self._order(do="begin")
        for row in run.rows.values():
            if row.member is not None and row.phase in (*RUNNING, Phase.STOPPING):
                self._record(row.member)
            elif row.member is not None:
                self._ended[_name(row.member)] = row.member
        self._start()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def handle(self, run: Run, entry: Entry) -> None:
        """Send the orders for an entry of the journal."""
        row = run.rows.get(str(entry.fields.get("agent", "")))
        if row is None:
            return
        member = row.member
        if entry.event == Event.RETRYING and row.retries:
            self._finish(row.retries[-1].member)
            return
        if member is None:
            return
        label = _label(entry)
        if entry.event == Event.LAUNCHING:
            self._record(member)
        if label:
            self._order(do="mark", name=_name(member), label=label, at=entry.at)
        if row.phase is Phase.ENDED and entry.event in (Event.STOPPED, Event.ENDED):
            self._finish(member)

    def provision(self, member: Member, work_dir: PurePosixPath) -> Provision:
        """Return the files and the command that record a remote agent on its host: the same collector, for one pane."""
        try:
            self._home.mkdir(mode=0o700, exist_ok=True)
            program = make_program(self._home / "recorder.pyz")
            orders = self._home / f"{member.test}-attempt-{member.attempt}.orders"
            place = work_dir / _FAR
            order = {
                "do": "record", "name": _name(member), "file": str(work_dir / OUT / TERMINAL),
                "agent_id": member.agent_id, "title": member.node_id, "repository": str(work_dir),
            }  # fmt: skip
            orders.write_text(f"{json.dumps(order)}\n", encoding="utf-8")
        except OSError:
            return NOT_RECORDED
        # mngr kills processes with the id of an agent in their environment, when it starts and when it stops the agent.
        words = [
            "env", "-u", "MNGR_AGENT_ID", "python3", str(place / "recorder.pyz"), "--detach", "--socket", "",
            "--orders", str(place / "orders"), "--fifos", str(place / "fifos"), "--patience", f"{_FAR_PATIENCE:g}",
            *(word for name in self._names for word in ("--mask", name)),
        ]  # fmt: skip
        patterns = shlex.quote(json.dumps(self._patterns))
        command = f"{PATTERNS}={patterns} {shlex.join(words)} </dev/null >/dev/null 2>&1 || true"
        return Provision(((program, place / "recorder.pyz"), (orders, place / "orders")), command)

    async def leave(self, *, is_over: bool) -> None:
        """End the collector of a run that is over; otherwise it goes on as long as the agents do."""
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        await asyncio.gather(*self._marking)
        if not is_over:
            return
        try:
            await self._end_collector()
        finally:
            await asyncio.to_thread(self._mark_conversations)

    async def _end_collector(self) -> None:
        self._order(do="end")
        deadline = time.monotonic() + _PATIENCE
        while self._is_at_work() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        if self._collector is not None:
            self._collector.end(1.0)

    def _is_at_work(self) -> bool:
        """Return True while a collector works for this run, ours or one of an earlier conductor."""
        if self._collector is not None and self._collector.poll() is None:
            return True
        return is_held(self._home / _PIPES / "lock")

    def _record(self, member: Member) -> None:
        if self._is_far(member):
            return  # it is recorded on its own host
        folder = work_dir(LOCAL_PROVIDER, member, host_dir_of(self._environ))
        self._order(
            do="record", name=_name(member), file=str(live_recording(self._folder, member)),
            agent_id=member.agent_id, title=member.node_id, repository=str(folder), at=time.time(),
        )  # fmt: skip

    def _finish(self, member: Member) -> None:
        path = self._folder.attempt(member) / TERMINAL
        if not self._is_far(member):
            self._order(do="finish", name=_name(member), link=str(path))
            self._ended[_name(member)] = member
        elif path.is_file():
            self._marking.append(asyncio.ensure_future(asyncio.to_thread(self._mark_far, member, path)))

    def _mark_far(self, member: Member, path: Path) -> None:
        """Add the markers of a remote agent to its recording, which was made on its host."""
        try:
            entries = read(self._folder.journal.read_bytes()).entries
            markers = [
                (entry.at, clean_label(label))
                for entry in entries
                if entry.fields.get("agent") == member.test and entry.fields.get("attempt") == member.attempt
                for label in (_label(entry),)
                if label
            ]
            add_markers(path, markers)
            mark_conversation(path, self._steps(member), self._masked(member))
        except (SelftestError, OSError, re.error) as error:
            self._log(member, error)

    def _mark_conversations(self) -> None:
        """Add markers from the conversations of ended agents to their recordings, once each, when complete."""
        with self._lock:
            for name, member in tuple(self._ended.items()):
                path, live = self._folder.attempt(member) / TERMINAL, live_recording(self._folder, member)
                done = live.with_suffix(".marked")
                if done.exists():
                    self._ended.pop(name, None)
                elif path.is_file() and not path.is_symlink():  # linked there once the collector has ended it
                    self._ended.pop(name, None)
                    try:
                        mark_conversation(path, self._steps(member), self._masked(member))
                        done.touch()
                        if live.exists():
                            draft = live.with_name(f".{live.name}.marked")
                            draft.unlink(missing_ok=True)
                            os.link(path, draft)  # one file under both names, as before
                            draft.replace(live)
                    except (SelftestError, OSError, re.error) as error:
                        self._log(member, error)

    def _steps(self, member: Member) -> tuple[Step, ...]:
        """Return the conversation of an ended agent, from its host or from the collected files."""
        transcript = NO_TRANSCRIPT
        with contextlib.suppress(OSError):
            if not self._is_far(member):
                transcript = read_whole(host_dir_of(self._environ) / "agents" / member.agent_id)
            if not transcript.common:
                transcript = Transcript((self._folder.attempt(member) / LINES).read_bytes())
        return steps_of(transcript)

    def _masked(self, member: Member) -> Callable[[str], str]:
        variables = None if self._is_far(member) else host_dir_of(self._environ) / "agents" / member.agent_id / "env"
        return lambda text: self._mask(text, variables)

    def _log(self, member: Member, error: Exception) -> None:
        with contextlib.suppress(OSError), (self._home / "collector.log").open("a", encoding="utf-8") as log:
            log.write(f"{_name(member)}: {error}\n")

    def _is_far(self, member: Member) -> bool:
        return provider_of(place_of(self._plan, member)) != LOCAL_PROVIDER

    def _order(self, **fields: Any) -> None:
        """Write one order. A full disk costs a recording, not the run."""
        line = json.dumps(fields).encode() + b"\n"
        with contextlib.suppress(OSError):
            handle = os.open(self._home / "orders", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)

    async def _keep(self) -> None:
        """Restart the collector after a kill, and mark the recordings of ended agents."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN)
            if self._starts < _MOST_STARTS:
                self._start()
            if self._ended:
                await asyncio.to_thread(self._mark_conversations)

    def _start(self) -> None:
        if self._is_at_work():
            return
        masks = [word for name in self._names for word in ("--mask", name)]
        argv = (
            sys.executable, "-P", "-m", "selftest_recorder.onhost", "--socket", default_socket(self._environ),
            "--orders", str(self._home / "orders"), "--fifos", str(self._home / _PIPES),
            "--owner", str(self._folder.journal), *masks,
        )  # fmt: skip
        environ = {name: value for name, value in self._environ.items() if name not in _NOT_OURS} | {
            PATTERNS: json.dumps(self._patterns)
        }
        with contextlib.suppress(ToolError):
            self._collector = process.spawn(argv, cwd=self._home, env=environ, output=self._home / "collector.log")
            self._starts += 1


def _name(member: Member) -> str:
    return f"{member.test}/{member.attempt}"


def _label(entry: Entry) -> str:
    """Return the marker for an entry of the journal; "" for none."""
    match entry.event:
        case Event.LAUNCHED:
            return "launched"
        case Event.PULLING:
            return "outcome" if entry.fields.get("stamp") else ""
        case Event.NOTICED if entry.fields.get("reason"):
            return f"needs you: {entry.fields['reason']}"
        case Event.LIMITED if entry.fields.get("reason"):
            return f"held up: {entry.fields['reason']}"
        case Event.REMINDING:
            return "reminded"
        case Event.ENDED:
            return _label_of_end(str(entry.fields.get("end", "")))
        case _:
            return ""


def _label_of_end(word: str) -> str:
    group = End(word).group if word in End else Group.FAILED
    name = word.replace("_", " ")
    return _GOOD_ENDS.get(group, f"failed: {name}" if group is Group.FAILED else name)
