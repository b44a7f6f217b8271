"""The real mngr with its modules loaded once: for tests in which how our program starts and ends it is not the subject.

Loading takes an mngr most of its time, more than a second of processor for each call. Here one process beside the
tests loads it, and forks for every call: the same program, with the environment, folder, files and session of its own
that a started one has. `call` runs it from a test. `install` writes a program `mngr` for our program to run: it hands
its files and its environment to such a fork, passes signals on, and ends as that ends; when it is killed, the fork is.

A world that teaches mngr a type of agent has a plugin on its PYTHONPATH; such calls go to a process that loaded mngr
with it. Tests of starting, ending and finding mngr itself use the installed program instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LENGTH = 4
"""Bytes of a number: the length of a request, and the status that answers it."""
_starting = threading.Lock()
_servers: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
"""The process that loaded mngr with each PYTHONPATH, and its folder."""

LAUNCHER = '''#!{python}
"""The mngr of imbue.mngr, loaded by another process: this one gives it its files, and waits for it."""

import marshal, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
request = marshal.dumps({{"argv": [{program!r}, *sys.argv[1:]], "env": dict(os.environ), "cwd": os.getcwd()}})
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda number, frame: server.send(bytes([number])))
socket.send_fds(server, [len(request).to_bytes({length}, "big")], [0, 1, 2])
server.sendall(request)
status = int.from_bytes(server.recv({length}), "big", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
'''


def install(folder: Path, program: Path, plugins: str) -> Path:
    """Write a program `mngr` into this folder that is `program`, loaded once with this PYTHONPATH; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    launcher = folder / "mngr"
    address = str(_address(plugins))
    launcher.write_text(
        LAUNCHER.format(python=sys.executable, socket=address, program=str(program), length=_LENGTH), encoding="utf-8"
    )
    launcher.chmod(0o755)
    return launcher


def call(
    program: Path, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run mngr to its end as `program`, its input closed. Raises TimeoutExpired, when it has been ended."""
    argv = [str(program), *arguments]
    request = marshal.dumps({"argv": argv, "env": dict(env), "cwd": str(cwd)})
    with (
        socket.socket(socket.AF_UNIX) as server,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        Path(os.devnull).open("rb") as nothing,
    ):
        server.settimeout(timeout)
        server.connect(str(_address(env.get("PYTHONPATH", ""))))
        socket.send_fds(
            server, [len(request).to_bytes(_LENGTH, "big")], [nothing.fileno(), out.fileno(), errors.fileno()]
        )
        server.sendall(request)
        is_late = False
        try:
            answer = server.recv(_LENGTH)
        except TimeoutError:
            is_late = True
            server.settimeout(None)
            server.shutdown(socket.SHUT_WR)  # it is killed then
            answer = server.recv(_LENGTH)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    if is_late:
        raise subprocess.TimeoutExpired(argv, timeout, *texts)
    assert answer, "the process that has mngr loaded has ended"
    return subprocess.CompletedProcess(argv, int.from_bytes(answer, "big", signed=True), *texts)


def _address(plugins: str) -> Path:
    """The socket of the process that has mngr loaded with this PYTHONPATH, which is started when there is none."""
    with _starting:
        if plugins not in _servers or _servers[plugins][0].poll() is not None:
            folder = Path(tempfile.mkdtemp(prefix="mngr-", dir="/tmp"))
            _servers[plugins] = (_started(folder / "socket", plugins), folder)
        process, folder = _servers[plugins]
        while not (folder / "socket").exists():
            assert process.poll() is None, f"the process that loads mngr ended with {process.returncode}"
            time.sleep(0.02)  # a program of its own, which offers no event
        return folder / "socket"


def _started(address: Path, plugins: str) -> subprocess.Popen[bytes]:
    """Start it. It ends when we do: its input is at its end then. What mngr would read while it loads is not there."""
    nowhere = f"{os.devnull}-not-there"
    plain = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return subprocess.Popen(
        [sys.executable, __file__, str(address)],
        env={**plain, "HOME": nowhere, "MNGR_HOST_DIR": f"{nowhere}/m", "PYTHONPATH": plugins},
        cwd="/",
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


@atexit.register
def _end() -> None:
    while _servers:
        _, (process, folder) = _servers.popitem()
        process.kill()
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


# In the process that has mngr loaded


def _serve(address: str) -> None:
    """Answer calls until there are no more. Returns in a process of each call, which is to be mngr then."""
    wake, waken = socket.socketpair()
    for end in (wake, waken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waken.fileno())
    listening = socket.socket(socket.AF_UNIX)
    # Under its name only once it listens: who sees it can connect.
    listening.bind(f"{address}.new")
    listening.listen(64)
    Path(f"{address}.new").rename(address)
    ready = selectors.DefaultSelector()
    for file, name in ((listening, "call"), (wake, "end of a child"), (sys.stdin, "end of the tests")):
        ready.register(file, selectors.EVENT_READ, name)
    callers: dict[int, socket.socket] = {}
    while True:
        for key, _ in ready.select():
            match key.data:
                case "end of the tests":
                    for pid in callers:
                        _kill(pid, signal.SIGKILL)
                    os._exit(0)
                case "call":
                    caller, _ = listening.accept()
                    asked, files = _request(caller)
                    pid = os.fork()
                    if pid == 0:
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        for file in (wake, waken, listening, caller, *callers.values()):
                            file.close()
                        ready.close()
                        _become(asked, files)
                        return
                    for number in files:
                        os.close(number)
                    callers[pid] = caller
                    ready.register(caller, selectors.EVENT_READ, pid)
                case "end of a child":
                    with contextlib.suppress(BlockingIOError):
                        wake.recv(4096)
                    for pid in [*callers]:
                        done, status = os.waitpid(pid, os.WNOHANG)
                        if done:
                            caller = callers.pop(pid)
                            with contextlib.suppress(KeyError):
                                ready.unregister(caller)
                            with contextlib.suppress(OSError):
                                caller.send(os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, "big", signed=True))
                            caller.close()
                case pid if pid in callers:
                    with contextlib.suppress(ConnectionError):
                        if numbers := callers[pid].recv(64):
                            for number in numbers:
                                _kill(pid, number)
                            continue
                    ready.unregister(callers[pid])  # the caller was killed, or waits no longer
                    _kill(pid, signal.SIGKILL)


def _request(caller: socket.socket) -> tuple[Mapping[str, Any], list[int]]:
    """What a caller asks for, and its input, output and error files."""
    length, files, _, _ = socket.recv_fds(caller, _LENGTH, 3)
    data = bytearray()
    while len(data) < int.from_bytes(length, "big"):
        data += caller.recv(1 << 20)
    asked: Mapping[str, Any] = marshal.loads(data)
    return asked, files


def _kill(pid: int, number: int) -> None:
    """Send a signal to a call and all that it started in its session."""
    with contextlib.suppress(ProcessLookupError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:  # it has no session of its own yet
            os.kill(pid, number)


def _become(asked: Mapping[str, Any], files: Sequence[int]) -> None:
    """Take over what a program that was started with this would have found."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv = asked["argv"]
    random.seed()


if __name__ == "__main__":
    cli = importlib.import_module("imbue.mngr.main").cli
    gc.freeze()  # or each call would look through all of it for garbage, and so copy it
    _serve(sys.argv[1])
    sys.exit(cli())
