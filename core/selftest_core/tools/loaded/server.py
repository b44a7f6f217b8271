"""Server that loads mngr once and forks for each call: `PYTHON server.py SOCKET`, run by mngr's own interpreter.

Only the standard library is used, since nothing of ours is installed there. A fork becomes what a started mngr is, with
a session of its own, and the arguments, environment, folder and files that its caller names. It prints `ready` once it
listens, or `odd: REASON` and ends. It ends when its input ends and the last call has ended. The fork of a caller that
goes away is killed, with all that is in its session, and so is each fork when the server is killed. In a `mngr list`
the agents share their probes: `shared_probe.py`.

mngr chooses its plugins while it loads, by settings of the user and of the folder. It is loaded without any settings: a
fork for which they enable a plugin that is disabled without them becomes the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import selectors
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LENGTH = 4
"""Bytes of a number: the length of a request, and the status that answers it."""
NOT_TAKEN = 1 << 30
"""The status that tells a caller to start the program itself."""
_PR_SET_PDEATHSIG = 1


def serve(address: str) -> None:
    """Answer calls until the input ends. Returns only in the process of a call, which becomes mngr."""
    wake, waken = socket.socketpair()
    for end in (wake, waken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waken.fileno())
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    print("ready", flush=True)
    ready = selectors.DefaultSelector()
    for file, name in ((listening, "call"), (wake, "end of a child"), (sys.stdin, "end of the owner")):
        ready.register(file, selectors.EVENT_READ, name)
    callers: dict[int, socket.socket] = {}
    server = os.getpid()
    is_ending = False
    while not is_ending or callers:
        for key, _ in ready.select():
            match key.data:
                case "end of the owner":
                    is_ending = True
                    ready.unregister(sys.stdin)
                    ready.unregister(listening)
                    listening.close()
                    # The folder of an owner that was killed, too.
                    shutil.rmtree(Path(address).parent, ignore_errors=True)
                case "call":
                    caller, _ = listening.accept()
                    asked, files = _request(caller)
                    pid = None if asked is None else _fork()
                    if asked is not None and pid == 0:
                        _end_with(server)
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        for file in (wake, waken, listening, caller, *callers.values()):
                            file.close()
                        ready.close()
                        _become(asked, files)
                        return
                    for number in files:
                        os.close(number)
                    if pid is None:
                        with contextlib.suppress(OSError):
                            caller.send(NOT_TAKEN.to_bytes(LENGTH, "big"))
                        caller.close()
                    else:
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
                                caller.send(os.waitstatus_to_exitcode(status).to_bytes(LENGTH, "big", signed=True))
                            caller.close()
                case pid if pid in callers:
                    with contextlib.suppress(ConnectionError):
                        if numbers := callers[pid].recv(64):
                            for number in numbers:
                                _kill(pid, number)
                            continue
                    ready.unregister(callers[pid])  # the caller was killed
                    _kill(pid, signal.SIGKILL)
    os._exit(0)


def _request(caller: socket.socket) -> tuple[Mapping[str, Any] | None, list[int]]:
    """Read a request, and the input, output and error files of its caller. None for a caller that went away."""
    caller.settimeout(10.0)
    files: list[int] = []
    data = bytearray()
    try:
        length, files, _, _ = socket.recv_fds(caller, LENGTH, 3)
        wanted = int.from_bytes(length, "big")
        while len(data) < wanted and (part := caller.recv(1 << 20)):
            data += part
        caller.settimeout(None)
        if len(files) != 3 or not data or len(data) < wanted:
            return None, files
        asked: Mapping[str, Any] = json.loads(data)
    except (OSError, ValueError):
        return None, files
    return asked, files


def _fork() -> int | None:
    """Fork this process; None where there is no room for another one."""
    try:
        return os.fork()
    except OSError:
        return None


def _end_with(server: int) -> None:
    """Let this process be killed when the server is: nobody would end it at its deadline then."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _kill(pid: int, number: int) -> None:
    """Send a signal to a call and all that it started in its session."""
    with contextlib.suppress(ProcessLookupError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:  # it has no session of its own yet
            os.kill(pid, number)


def _become(asked: Mapping[str, Any], files: Sequence[int]) -> None:
    """Take over what a program that was started so would have found."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    os.chdir(asked["folder"])
    sys.argv = asked["arguments"]
    random.seed()


def load() -> Any:
    """Load mngr's command. Prints why a fork of this process would not be mngr as it is started, and ends then."""
    try:
        cli = importlib.import_module("imbue.mngr.main").cli
    except Exception as error:  # whatever a version of mngr may raise
        print(f"odd: it could not be loaded: {type(error).__name__}: {error}".replace("\n", " ")[:500], flush=True)
        sys.exit(1)
    with contextlib.suppress(Exception):  # without it calls are only slower, and one that needs it says what is wrong
        # mngr sorts each listing by an expression in CEL, whose library builds its parser at the first use and keeps
        # it: two thirds of what a fork's own work on a list of a few agents costs.
        importlib.import_module("celpy").Environment()
    with contextlib.suppress(Exception):  # as above
        importlib.import_module("imbue.mngr.hosts.host")
    tasks = len(list(Path("/proc/self/task").iterdir()))
    if tasks > 1 or threading.active_count() > 1:
        print(f"odd: loading it started {tasks - 1} threads, which a fork would not have", flush=True)
        sys.exit(1)
    gc.freeze()  # else each fork would look through all of it for garbage, and so copy it
    return cli


def disabled_plugins() -> frozenset[str]:
    """Return the plugins that are disabled with the settings of now, as mngr reads them while it loads."""
    if os.environ.get("MNGR_LOAD_ALL_PLUGINS"):
        return frozenset()
    try:
        return frozenset(importlib.import_module("imbue.mngr.config.pre_readers").read_disabled_plugins())
    except Exception:  # such as a file that is no TOML: the program says what is wrong
        return frozenset()


if __name__ == "__main__":
    disabled = disabled_plugins()
    command = load()
    # Beside this file; mngr's interpreter knows no package of ours.
    shared_probe = importlib.import_module("shared_probe")
    serve(sys.argv[1])
    if not disabled <= disabled_plugins():
        os.execv(sys.argv[0], sys.argv)
    if sys.argv[1:2] == ["list"]:
        with contextlib.suppress(Exception):  # then each agent is probed by itself
            shared_probe.share_probes(importlib.import_module("imbue.mngr.hosts.host").Host)
    sys.exit(command())
