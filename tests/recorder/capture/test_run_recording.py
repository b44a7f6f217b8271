"""A run's recorder: a journal's lines become orders, and recording outlives both the collector and the conductor."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import scenes
from core.run.rehearsals import a_plan
from recorder.onhost.collecting import Collecting
from selftest_core.config import Config
from selftest_core.journal import Journal
from selftest_core.run.crew.recording import TERMINAL, live_recording, recording_of
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import make_run_folder
from selftest_recorder.capture.run_recording import make_recorder
from selftest_tui.replay.screen import ReplayScreen
from tui.driving import driven
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from selftest_core.run.store import RunFolder
    from worlds import World


class OneAgentRun(Collecting):
    """A run of one agent, which is a session of tmux with mngr's stamp on it; its lines are written by the test."""

    def __init__(self, world: World) -> None:
        repository = world.make_repository()
        plan = a_plan(1, is_real=True, repository=str(repository), env_names=("TOKEN",))
        self.folder: RunFolder = make_run_folder(plan, world.environment)
        super().__init__(world, self.folder.path / "recordings")
        self.test = plan.tests[0]
        self.member = next(iter(self.folder.read().rows.values())).next_member()

    def file(self, name: str) -> Path:
        """Its one recording."""
        return live_recording(self.folder, self.member)

    def agent(self) -> None:
        """Let the agent's session be there."""
        self.session("mngr-agent-00")
        self.world.tmux("set-option", "-t", "=mngr-agent-00:", "@mngr_agent_id", self.member.agent_id)

    def collectors(self) -> list[int]:
        """The collectors of this run, without a child of one that is about to become a tmux."""
        found: dict[int, int] = {}
        for pid in self.world.processes():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if b"selftest_recorder.onhost" in line and str(self.home).encode() in line:
                found[pid] = parent
        return [pid for pid, parent in found.items() if parent not in found]

    async def conduct(self, *steps: tuple[Event, dict[str, Any]] | Callable[[], object], is_over: bool) -> None:
        """One conductor's time: lines are written and heard, and what else a step does is done beside the loop."""
        recorder = make_recorder(self.folder, Config(), {**self.world.environment, "TOKEN": "hunter2-hunter2"})
        with Journal(self.folder.journal) as journal:
            recorder.begin(self.folder.read())
            for step in steps:
                if callable(step):
                    await asyncio.to_thread(step)
                else:
                    event, fields = step
                    entry = journal.append(event, time.time(), agent=self.test.agent_name, attempt=1, **fields)
                    recorder.handle(self.folder.read(), entry)
            await recorder.leave(is_over=is_over)

    def kill_collector(self) -> None:
        """End it as kill -9 does, and wait for the next."""
        (pid,) = eventually(self.collectors, "a collector")
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: [one for one in self.collectors() if one != pid], "another collector")


async def _plays_live_from_the_fleet(run: OneAgentRun) -> None:
    """r on the agent plays what is recorded just now, at its end, and what comes then."""
    view = scenes.many(1).view
    agent = replace(view.rows[0].agent, id=run.member.agent_id)
    view = replace(view, rows=(replace(view.rows[0], agent=agent),))
    async with driven(view, environ=run.world.environment, folder=run.world.repository) as one:
        await one.press("r")
        await one.until(lambda: isinstance(one.app.screen, ReplayScreen) and one.app.screen.is_mounted, "the player")
        screen = one.app.screen
        assert isinstance(screen, ReplayScreen)
        await one.until(lambda: "is *************** known" in screen.player.view.text(), "the end of the recording")
        assert screen.player.is_following
        for word in ("live", "on and on"):
            run.type("mngr-agent-00", f"echo and {word}")
            await one.until(
                lambda word=word: f"\nand {word}" in screen.player.view.text(),  # type: ignore[misc]
                "what was typed while it is shown",
            )
        await one.press("escape")
        await one.until(lambda: one.app.screen is one.screen, "the fleet again")


def test_what_happens_to_an_agent_is_in_its_recording_whoever_is_killed(world: World) -> None:
    run = OneAgentRun(world)
    launching = {"agent_id": run.member.agent_id, "name": run.member.name, "elapsed": 0.0, "boot": ""}
    launched = {"host_id": "h", "provider": "local", "adopted": False, "elapsed": 0.0, "boot": ""}
    ended = {"end": End.SUCCEEDED, "stage": "work", "text": "", "signature": "", "tip": "", "commits": 0}

    asyncio.run(
        run.conduct(
            (Event.LAUNCHING, launching),
            run.agent,
            (Event.LAUNCHED, launched),
            lambda: run.wait_until_recorded("it"),
            run.kill_collector,
            lambda: eventually(lambda: any(label.startswith("recording resumed") for label in run.labels("it"))),
            is_over=False,
        )
    )
    # Nobody conducts, and it is recorded on.
    run.type("mngr-agent-00", "echo is hunter2-hunter2 known")
    eventually(lambda: "\nis *************** known" in run.text("it"), "what came without a conductor")
    (left,) = run.collectors()
    assert recording_of(run.folder, run.member) == run.file("it")
    for name in (run.member.name, run.member.agent_id):
        told = world.run(["selftest-tui", "replay", name, "--at", "100%", "--format", "text"], cwd=world.repository)
        assert "is *************** known" in told.stdout
    asyncio.run(_plays_live_from_the_fleet(run))

    attempt = run.folder.attempt(run.member)
    asyncio.run(
        run.conduct(
            lambda: attempt.mkdir(parents=True),
            (Event.PULLING, {"stamp": "1-1"}),
            (Event.ENDED, ended),
            lambda: eventually(lambda: run.labels("it")[-1:] == ["passed"]),
            lambda: run.world.tmux("kill-session", "-t", "=mngr-agent-00"),
            (Event.STOPPED, {"says": ""}),
            is_over=True,
        )
    )
    eventually(lambda: not run.collectors(), "the end of the collector")
    assert [label for label in run.labels("it") if "resumed" not in label] == ["launched", "outcome", "passed"]
    assert recording_of(run.folder, run.member) == attempt / TERMINAL
    assert (attempt / TERMINAL).samefile(run.file("it"))
    eventually(lambda: left not in run.world.processes(), "the end of the first one")
    assert (run.home / "collector.log").read_text() == ""
    assert "hunter2" not in run.file("it").read_text()
