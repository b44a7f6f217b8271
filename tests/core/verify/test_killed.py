"""A verification that is killed at any moment goes on where it was: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.verify.desks import PYTEST, SANDBOX, make_shop
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real

RUNS_BEFORE_A_KILL = (1, 3, 6, 4)
"""Runs of tests that each process may finish before it is killed."""


def start(repository: Path, environ: Mapping[str, str], output: Path) -> subprocess.Popen[bytes]:
    """Begin to verify, as a script does."""
    argv = [sys.executable, "-m", "selftest_tui", "verify", "--batch", "--base", "main", "ada", "bob", "eve", "gus"]
    argv += ["--jobs", "2", "--set", f"pytest_command={' '.join(PYTEST)}"]
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


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_killed_again_and_again_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    repository = make_shop(tmp_path / "shop").folder
    environ = {**os.environ, "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    (tmp_path / "home").mkdir()
    seen: list[tuple[str, str, int | None]] = []
    for number, count in enumerate(RUNS_BEFORE_A_KILL):
        output = tmp_path / f"{number}.jsonl"
        process = start(repository, environ, output)
        eventually(lambda count=count, output=output: len(runs_told(output)) >= count, "some tests were run")  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen += runs_told(output)
        eventually(lambda: not processes_of(tmp_path / "cache"), "no test process is left")
    output = tmp_path / "last.jsonl"
    assert start(repository, environ, output).wait(timeout=300) == 1
    seen += runs_told(output)
    assert len(seen) == len(set(seen))
    summary = json.loads(output.read_text().splitlines()[-1])
    assert {item["agents"][0]: item["verified"] for item in summary["items"]} == {
        "ada": "passed", "bob": "passed", "eve": "failed", "gus": "passed",
    }  # fmt: skip
    assert [one["test"] for one in summary["verification"]["broken"]] == ["tests/test_common.py::test_rate"]
    assert summary["verification"]["from_cache"] >= sum(RUNS_BEFORE_A_KILL)
    assert [path.name for path in (tmp_path / "cache" / "selftest-tui" / "verify").iterdir() if path.is_dir()] == []
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
