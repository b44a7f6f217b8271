"""Whole demos, with the real mngr: what is told, and that nothing is left, however they end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.demo.ending import processes_of
from selftest_core.demo.folders import Claim
from worlds import BIN, PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worlds import World

pytestmark = pytest.mark.real


class Demo:
    """`selftest-tui demo --batch` as a process, with a temporary folder of its own."""

    def __init__(self, world: World, *arguments: str, speed: str = "20") -> None:
        self.world = world
        self.temporary = world.root / "d"
        self.temporary.mkdir(exist_ok=True)
        self.environment = {**world.environment, "TMPDIR": str(self.temporary), "SELFTEST_DEMO_SPEED": speed}
        self.out = world.root / "out"
        self.says = world.root / "err"
        with self.out.open("wb") as out, self.says.open("wb") as says:
            self.process = subprocess.Popen(
                [str(BIN / "selftest-tui"), "demo", "--batch", *arguments],
                cwd=world.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=says,
                start_new_session=True,
            )

    def lines(self) -> list[dict[str, Any]]:
        """What it has told so far; a line that is half written is not told yet."""
        return [json.loads(line) for line in self.out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def told(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == event]

    def folder(self) -> Path:
        """The folder of the demo; waits for it."""
        return eventually(lambda: list(self.temporary.glob("selftest-demo-*")), f"its folder\n{self.why()}")[0]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.world.run([BIN / "selftest-tui", *arguments], env=self.environment, check=False)

    def why(self) -> str:
        return self.says.read_text()


@contextlib.contextmanager
def a_demo(world: World, *arguments: str, speed: str = "20") -> Iterator[Demo]:
    demo = Demo(world, *arguments, speed=speed)
    folder = None
    try:
        yield demo
    finally:
        demo.process.kill()
        demo.process.wait()
        for folder in demo.temporary.glob("selftest-demo-*"):
            for pid in processes_of(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_a_demo_tells_every_change_and_leaves_nothing(world: World) -> None:
    with a_demo(world, "--agents", "3") as demo:
        folder = demo.folder()
        status = demo.process.wait(PATIENCE * 2)

        assert status == 1, demo.why()  # by design: one of the cast fails
        lines = demo.lines()
        assert all({"event", "at", "run"} <= line.keys() for line in lines)
        assert [line["event"] for line in lines].count("summary") == 1
        summary = lines[-1]
        assert summary["event"] == "summary"
        assert {agent["name"]: (agent["category"], agent["exit_status"]) for agent in summary["agents"]} == {
            "st-7f-pay-card": ("failed", 3),
            "st-7f-login-redirect": ("done", 0),
            "st-7f-cart-tax": ("done", 0),
        }
        assert summary["counts"]["failed"] == 1
        assert summary["counts"]["done"] == 2
        assert {line["name"] for line in demo.told("launched")} == {agent["name"] for agent in summary["agents"]}
        assert {line["name"] for line in demo.told("agent")} == {agent["name"] for agent in summary["agents"]}

        assert list(demo.temporary.iterdir()) == []
        assert processes_of(folder) == ()
        assert demo.run("sweep").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_demo_that_is_interrupted_leaves_nothing(world: World, number: signal.Signals) -> None:
    with a_demo(world, "--agents", "2", speed="0.1") as demo:
        folder = demo.folder()
        if number is signal.SIGINT:
            eventually(lambda: demo.told("agent"), "an agent is seen")
        else:
            eventually(lambda: processes_of(folder), "mngr is making the first agent")
        demo.process.send_signal(number)
        status = demo.process.wait(PATIENCE)

        assert status == 3, demo.why()
        assert demo.lines()[-1]["event"] == "summary"
        assert demo.lines()[-1]["stopped"]
        assert list(demo.temporary.iterdir()) == []
        assert processes_of(folder) == ()


def test_what_a_killed_demo_leaves_is_shown_by_sweep_and_removed_when_agreed(world: World) -> None:
    with a_demo(world, "--agents", "1", speed="0.1") as demo:
        eventually(lambda: demo.told("launched"), "an agent was made")
        folder = demo.folder()
        demo.process.kill()
        demo.process.wait()
        alive = Claim(demo.environment)  # another demo, which runs: ours is its process

        shown = demo.run("sweep")
        assert shown.returncode == 1
        assert str(folder) in shown.stdout
        assert str(alive.path) not in shown.stdout
        assert processes_of(folder)

        swept = demo.run("sweep", "--yes")
        assert swept.returncode == 0, swept.stderr
        assert not folder.exists()
        assert processes_of(folder) == ()
        assert alive.path.is_dir()
        alive.release()


def test_a_kept_demo_stays_until_it_is_swept(world: World) -> None:
    with a_demo(world, "--agents", "1", "--keep") as demo:
        assert demo.process.wait(PATIENCE * 2) == 1, demo.why()
        folder = demo.folder()

        assert processes_of(folder)
        assert str(folder) in demo.why()
        assert "sweep --yes" in demo.why()
        assert demo.run("sweep", "--yes").returncode == 0
        assert not folder.exists()
        assert processes_of(folder) == ()


def test_a_demo_of_no_sensible_size_or_speed_is_refused(world: World) -> None:
    for arguments, speed in ((("--agents", "0"), "1"), (("--agents", "201"), "1"), ((), "fast"), ((), "0")):
        with a_demo(world, *arguments, speed=speed) as demo:
            assert demo.process.wait(PATIENCE) == 2, (arguments, demo.why())
            assert [line["event"] for line in demo.lines()] == ["error"]
            assert list(demo.temporary.iterdir()) == []
