"""The real mngr with its modules loaded once: for what tests only set up or look up, call after call.

Loading takes an mngr most of its time, three seconds of a slow machine's processor for each call. Here one process
beside the tests loads it, and forks for every call: the same program, in the environment, folder and session of its own
that a started one has, ended like one. What is tested itself (how our program runs mngr, ends it, finds it among the
processes) is never run by this, but by starting the installed program.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_one_call = threading.Lock()
_server: list[subprocess.Popen[str]] = []


def call(
    program: Path, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run mngr to its end as `program`, its input closed. Raises TimeoutExpired, when it has been ended."""
    argv = [str(program), *arguments]
    with _one_call, tempfile.TemporaryDirectory(prefix="mngr-") as folder:
        out, errors = Path(folder) / "out", Path(folder) / "errors"
        asked = {"argv": argv, "env": dict(env), "cwd": str(cwd), "out": str(out), "errors": str(errors)}
        status = _ask(json.dumps({**asked, "timeout": timeout}))
        said = out.read_text("utf-8", "replace"), errors.read_text("utf-8", "replace")
    if status is None:
        raise subprocess.TimeoutExpired(argv, timeout, *said)
    return subprocess.CompletedProcess(argv, status, *said)


def _ask(line: str) -> int | None:
    """The exit status of the call, None where it was ended at its deadline."""
    if not _server or _server[0].poll() is not None:
        _server[:] = [_started()]
    pipes = _server[0]
    assert pipes.stdin is not None
    assert pipes.stdout is not None
    try:
        pipes.stdin.write(f"{line}\n")
        pipes.stdin.flush()
        answer = pipes.stdout.readline()
    except BaseException:
        _end()  # nobody would read the answer but who asks next
        raise
    assert answer, f"the loaded mngr ended with {pipes.wait()}"
    status: int | None = json.loads(answer)["status"]
    return status


def _started() -> subprocess.Popen[str]:
    """It ends when we do: its input is at its end then. What mngr would read while it loads is not there."""
    nowhere = f"{os.devnull}-not-there"
    plain = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return subprocess.Popen(
        [sys.executable, __file__],
        env={**plain, "HOME": nowhere, "MNGR_HOST_DIR": f"{nowhere}/m"},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@atexit.register
def _end() -> None:
    while _server:
        server = _server.pop()
        server.kill()
        server.communicate()


# In the process that has mngr loaded


def _serve() -> None:
    """Answer calls until there are no more. Returns in a process of each call, which is to be mngr then."""
    while line := sys.stdin.readline():
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(asked)
            return
        print(json.dumps({"status": _end_of(pid, asked["timeout"])}), flush=True)
    os._exit(0)


def _become(asked: Mapping[str, object]) -> None:
    """Take over what a program that was started with this would have found."""
    os.setsid()
    for number, (path, flags) in enumerate(
        (
            (os.devnull, os.O_RDONLY),
            (asked["out"], os.O_WRONLY | os.O_CREAT),
            (asked["errors"], os.O_WRONLY | os.O_CREAT),
        )
    ):
        file = os.open(str(path), flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    env, argv = asked["env"], asked["argv"]
    assert isinstance(env, dict)
    assert isinstance(argv, list)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(str(asked["cwd"]))
    sys.argv = argv
    random.seed()


def _end_of(pid: int, timeout: float) -> int | None:
    """Wait for the end of a call; at the deadline end it with all that it started in its session."""
    deadline, step = time.monotonic() + timeout, 0.001
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):  # it has no session of its own yet
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(step)  # a call has no event that comes with a deadline
        step = min(2 * step, 0.02)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    cli = importlib.import_module("imbue.mngr.main").cli
    gc.freeze()  # or each call would look through all of it for garbage, and so copy it
    _serve()
    sys.exit(cli())
