"""`selftest-tui verify` ended by kill -9 again and again, and what that leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.verify.desks import PYTEST
from selftest_core.demo.world import PLAIN_PYTEST
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass
class Killed:
    """Findings. `runs`: each run of a test that was told, by tree, test and number; `left`: what stayed behind.

    `kills`: the processes that were killed before they ended.
    """

    kills: int = 0
    runs: list[tuple[str, str, int | None]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    exit_status: int = -1
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each agent's change."""
        return {item["agents"][0]: item["verified"] for item in self.summary["items"]}

    @property
    def broken(self) -> list[str]:
        """The tests that somebody breaks."""
        return sorted(one["test"] for one in self.summary["verification"]["broken"])


def kill_again_and_again(
    folder: Path, repository: Path, branches: Sequence[str], runs_before_each: Iterable[int]
) -> Killed:
    """Verify branches of `repository`, killed each time after so many runs of tests; then once to its end.

    `folder` is empty, for its home and cache.
    """
    found = Killed()
    environ = {**os.environ, "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"), PLAIN_PYTEST: "1"}
    (folder / "home").mkdir(parents=True)
    for number, count in enumerate(runs_before_each):
        output = folder / f"{number}.jsonl"
        process = start(repository, branches, environ, output)
        eventually(
            lambda count=count, output=output, process=process: (  # type: ignore[misc]
                process.poll() is not None or len(runs_told(output)) >= count
            ),
            "some tests were run",
        )
        found.kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        found.runs += runs_told(output)
        eventually(lambda: not processes_of(folder / "cache"), "no test process is left")
    output = folder / "last.jsonl"
    found.exit_status = start(repository, branches, environ, output).wait(timeout=600)
    found.runs += runs_told(output)
    found.summary = json.loads(output.read_text().splitlines()[-1])
    slots = folder / "cache" / "selftest-tui" / "verify"
    found.left = [
        *processes_of(folder),
        *(str(path) for path in slots.iterdir() if path.is_dir()),
        *(line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line),
    ]
    return found


def start(
    repository: Path, branches: Sequence[str], environ: Mapping[str, str], output: Path
) -> subprocess.Popen[bytes]:
    """Begin to verify, as a script does."""
    argv = [sys.executable, "-m", "selftest_tui", "verify", "--batch", "--base", "main", *branches]
    argv += ["--jobs", "2", "--set", f"pytest_command={' '.join(PYTEST)}", "--set", f"env={PLAIN_PYTEST}"]
    with output.open("wb") as file:
        return subprocess.Popen(argv, cwd=repository, env=dict(environ), stdout=file, stdin=subprocess.DEVNULL)


def runs_told(output: Path) -> list[tuple[str, str, int | None]]:
    """The runs that were told so far; a line that is cut is not told."""
    *lines, _ = output.read_text().split("\n")
    found = [json.loads(line) for line in lines]
    return [(line["tree"], line["test"], line["attempt"]) for line in found if line["event"] == "tested"]


def processes_of(folder: Path) -> list[str]:
    """Processes whose command line names this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found
