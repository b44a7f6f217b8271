"""Whole demos as processes, for tests: they are killed at the end, however the test ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from selftest_core.cleanup.demo_folders import processes_of
from worlds import BIN, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worlds import World


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
        """Its output so far, without an incomplete last line."""
        return [json.loads(line) for line in self.out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def told(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == event]

    def folder(self) -> Path:
        """The folder of the demo; waits for it."""
        return eventually(lambda: list(self.temporary.glob("selftest-demo-*")), f"its folder\n{self.why()}")[0]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.world.run([BIN / "selftest-tui", *arguments], env=self.environment, check=False)

    def left(self) -> list[str]:
        """The files in its temporary folder."""
        return [path.name for path in self.temporary.iterdir()]

    def why(self) -> str:
        return self.says.read_text()


@contextlib.contextmanager
def a_demo(world: World, *arguments: str, speed: str = "20") -> Iterator[Demo]:
    demo = Demo(world, *arguments, speed=speed)
    try:
        yield demo
    finally:
        demo.process.kill()
        demo.process.wait()
        for folder in demo.temporary.glob("selftest-demo-*"):
            for pid in processes_of(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
