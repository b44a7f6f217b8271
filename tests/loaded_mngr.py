"""The real mngr with its modules loaded once: for tests in which how our program starts and ends it is not the subject.

Loading takes an mngr most of its time, more than a second of processor for each call. Here the product's own server
loads it once for all tests of a process, from the first call on, and forks for every call: the same program, with the
environment, folder, files and session of its own that a started one has. `call` runs it from a test. `install` writes a
program `mngr` for our program to run: the product's launcher, which passes signals on, and ends as the call ends.

A world that teaches mngr a type of agent has a plugin on its PYTHONPATH; such calls go to a server that loaded mngr
with it. Tests of starting, ending and finding mngr itself use the installed program instead.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.tools.loaded.loaded_mngr import SERVER, make_folder
from selftest_core.tools.loaded.server import LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_starting = threading.Lock()
_servers: dict[tuple[Path, str], tuple[subprocess.Popen[str], Path]] = {}
"""The server of each program and PYTHONPATH, and the folder with its launcher and socket."""


def install(folder: Path, program: Path, plugins: str) -> Path:
    """Write a program `mngr` into this folder that is `program`, loaded once with this PYTHONPATH; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program").symlink_to(program.absolute())
    (folder / "socket").symlink_to(_server(program, plugins) / "socket")
    launcher = folder / "mngr"
    # Its first lines say what those of an installed mngr say: the interpreter, and that it is the program imbue.mngr.
    text = SERVER.with_name("launcher.py").read_text(encoding="utf-8")
    launcher.write_text(f"#!{sys.executable}\n# imbue.mngr\n{text}", encoding="utf-8")
    launcher.chmod(0o755)
    return launcher


def call(
    program: Path, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run mngr to its end as `program`, its input closed. Raises TimeoutExpired, when it has been ended."""
    argv = [str(program), *arguments]
    request = json.dumps({"arguments": argv, "environment": dict(env), "folder": str(cwd)}).encode()
    with (
        socket.socket(socket.AF_UNIX) as server,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        Path(os.devnull).open("rb") as nothing,
    ):
        server.settimeout(timeout)
        server.connect(str(_server(program, env.get("PYTHONPATH", "")) / "socket"))
        socket.send_fds(
            server, [len(request).to_bytes(LENGTH, "big")], [nothing.fileno(), out.fileno(), errors.fileno()]
        )
        server.sendall(request)
        is_late = False
        try:
            answer = server.recv(LENGTH)
        except TimeoutError:
            is_late = True
            server.settimeout(None)
            server.shutdown(socket.SHUT_WR)  # it is killed then
            answer = server.recv(LENGTH)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    if is_late:
        raise subprocess.TimeoutExpired(argv, timeout, *texts)
    assert answer, "the process that has mngr loaded has ended"
    return subprocess.CompletedProcess(argv, int.from_bytes(answer, "big", signed=True), *texts)


def _server(program: Path, plugins: str) -> Path:
    """The folder of the server that has mngr loaded with this PYTHONPATH, which is started when there is none."""
    key = (program, plugins)
    with _starting:
        if key not in _servers or _servers[key][0].poll() is not None:
            folder = make_folder(program)
            process = _started(folder / "socket", plugins)
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said == "ready\n", f"mngr could not be loaded: {said}"
            _servers[key] = (process, folder)
        return _servers[key][1]


def _started(address: Path, plugins: str) -> subprocess.Popen[str]:
    """Start it. It ends when we do: its input is at its end then. What mngr would read while it loads is not there."""
    nowhere = f"{os.devnull}-not-there"
    plain = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return subprocess.Popen(
        [sys.executable, str(SERVER), str(address)],
        env={**plain, "HOME": nowhere, "MNGR_HOST_DIR": f"{nowhere}/m", "PYTHONPATH": plugins},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@atexit.register
def _end() -> None:
    while _servers:
        _, (process, folder) = _servers.popitem()
        process.kill()
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)
