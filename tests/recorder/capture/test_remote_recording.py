"""An agent on another machine is recorded there, and its recording comes back with what it left."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.run.far_hosts import far_hosts
from core.run.rehearsals import a_plan
from selftest_core.config import Config
from selftest_core.run.clock import WallClock
from selftest_core.run.crew.crew import Life
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.crew.recording import TERMINAL
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_recorder.capture.run_recording import make_recorder
from selftest_recorder.cast.events import MARKER, OUTPUT
from selftest_recorder.cast.reader import read_cast
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

pytestmark = pytest.mark.real

AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
echo "the token is $TOKEN over there"
while ! test -e /tmp/go; do sleep 0.1; done
git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m '[FIX_IMPL] Say it'
printf 'héllo 你好\\n'
exec sleep 100000
"""


def test_it_comes_back_masked_with_its_commits(world: World, tmp_path: Path) -> None:
    with far_hosts(world) as far:
        host = far.add("one")
        repository = world.make_repository()
        base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
        plan = a_plan(
            1, is_real=True, repository=str(repository), base=base, provider=host.place, env_names=("TOKEN",),
            agent_command=("/bin/sh", str(world.script("agent", AGENT))),
        )  # fmt: skip
        world.load_mngr()
        world.extra["TOKEN"] = "hunter2-hunter2"
        environ = world.environment
        folder = make_run_folder(plan, environ)
        make_clone(repository, base, folder.clone, environ)
        recorder = make_recorder(folder, Config(), environ)
        crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock(), recorder)
        member = next(iter(folder.read().rows.values())).next_member()
        seen = asyncio.run(crew.create(member))
        assert seen.life is Life.WORKING
        member = replace(member, host_id=seen.host_id, provider=seen.provider)
        there = f"/tmp/selftest-copies/{member.agent_id}/.selftest/out/{TERMINAL}"
        eventually(lambda: "over there" in far.run(host, f"cat {there}", check=False), "the beginning of the recording")
        far.run(host, "touch /tmp/go")

        def is_whole() -> bool:
            """Commits are looked for beside what is printed."""
            recorded = far.run(host, f"cat {there}", check=False)
            return "你好" in recorded and "commit: [FIX_IMPL] Say it" in recorded

        eventually(is_whole, "the rest of it")
        staging = tmp_path / "staging"
        staging.mkdir()
        asyncio.run(crew.pull(member, staging))

        recording = read_cast(staging / TERMINAL)
        events = list(recording.events())
        text = "".join(event.data for event in events if event.code == OUTPUT)
        assert "the token is *************** over there" in text
        assert "hunter2" not in (staging / TERMINAL).read_text()
        assert "héllo 你好" in text
        assert [event.data for event in events if event.code == MARKER] == ["commit: [FIX_IMPL] Say it"]
        assert recording.header.title == member.node_id
        far.run(host, f"tmux kill-session -t =mngr-{member.name}")
        eventually(lambda: "recorder.pyz" not in far.run(host, "ps -ax -o args= | grep -v grep"), "the recorder's end")
