"""`selftest-tui` with each process that it starts written down, and each that git starts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Writes what Python starts, by whatever means, then is the program.
_TRACER = """
import json, os, runpy, sys
trace = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
started = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn"}
def note(event, arguments):
    if event in started:
        words = arguments[1] if len(arguments) > 1 else [arguments[0]]
        cwd = arguments[2] if event == "subprocess.Popen" else None
        line = {"words": [os.fsdecode(one) for one in words], "cwd": os.fsdecode(cwd or os.getcwd())}
        os.write(trace, json.dumps(line).encode() + b"\\n")
sys.addaudithook(note)
runpy.run_module("selftest_tui", run_name="__main__", alter_sys=True)
"""
# First on PATH: writes the call, and has git write what it starts itself.
_GIT = """#!{python} -IS
import json, os, sys
with open({trace!r}, "a") as file:
    file.write(json.dumps({{"words": ["git", *sys.argv[1:]], "cwd": os.getcwd()}}) + "\\n")
os.environ["GIT_TRACE2_EVENT"] = {events!r}
os.execv({git!r}, ["git", *sys.argv[1:]])
"""


@dataclass(frozen=True)
class Started:
    """One process that was started."""

    words: tuple[str, ...]
    cwd: str


def traced(
    folder: Path, cwd: Path, arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[subprocess.CompletedProcess[str], list[Started]]:
    """Run the program with these arguments; returns how it ended, and the processes. `folder`: empty, for the trace."""
    git = shutil.which("git")
    assert git is not None
    trace, events = folder / "trace", folder / "events"
    programs = folder / "programs"
    programs.mkdir(parents=True)
    texts = {"python": sys._base_executable, "trace": str(trace), "events": str(events), "git": git}  # type: ignore[attr-defined]
    (programs / "git").write_text(_GIT.format(**texts))
    (programs / "git").chmod(0o755)
    environ = {**environ, "PATH": f"{programs}{os.pathsep}{environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", _TRACER, trace, *arguments], cwd=cwd, env=environ, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, text=True, timeout=600,
    )  # fmt: skip
    found = [json.loads(line) for line in trace.read_text().splitlines()]
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event["event"] in ("child_start", "exec"):
            found.append({"words": event.get("argv", []), "cwd": event.get("cd", "/")})
    return done, [Started(tuple(one["words"]), one["cwd"]) for one in found]
