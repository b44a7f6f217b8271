"""An mngr that is loaded once for many calls, in a process of its own beside ours.

    loaded = LoadedMngr(program, environ)
    loaded.path()         the program to run: one that calls the loaded mngr once it is ready, else mngr itself
    loaded.close()

mngr's own interpreter loads it, in the background, from the second call on: a single call would gain nothing. The
program is called while it loads, and for good wherever something is odd: another version than those it was tried with,
a program that is not mngr's own script, variables that only a starting Python reads, an error or a thread of its own
while it loads, its end, or a package that is installed beside it. `state` says so. It ends with our process, after the
calls that still run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError
from selftest_core.tools.mngr import installed_version, interpreter_of, parse_version
from selftest_core.tools.process import spawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.tools.mngr import MngrProgram
    from selftest_core.tools.process import Running

TRIED = ((0, 3),)
"""Major and minor numbers of the versions with which it was tried."""
SERVER = Path(__file__).with_name("server.py")
"""The server's program: mngr's interpreter runs it with the path of its socket, which is in a folder of its own."""
_LONGEST_PATH = 70
"""Characters: the path of a socket has 107 bytes at most, the first line of a script 127."""
_CALLS_BEFORE = 1
"""Calls that go to the program before mngr is loaded."""
_READ_AT_START = ("PYTHONHOME", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONWARNINGS", "PYTHONDEVMODE", "PYTHONOPTIMIZE")
"""Variables that change what a Python does, and that it reads only when it starts. PYTHONPATH is passed on."""


class LoadedMngr:
    """One loaded mngr for one program and environment. Not thread-safe."""

    def __init__(self, program: MngrProgram, environ: Mapping[str, str]) -> None:
        self.program = program
        self._environ = dict(environ)
        self._calls = 0
        self._server: Running | None = None
        self._folder: Path | None = None
        self._stamp = _stamp(program.path)
        self._said = ""
        self.state = "not loaded yet"
        """How calls are made, in words: `not loaded yet`, `loading`, `loaded`, or why the program is called."""
        self._is_odd = False

    def path(self) -> Path:
        """Return the program to run for one call of mngr."""
        plain = self.program.path
        if self._is_odd:
            return plain
        if _stamp(plain) != self._stamp:
            self._give_up("mngr, or a package beside it, was installed anew")
            return plain
        if self._server is None:
            self._calls += 1
            if self._calls > _CALLS_BEFORE:
                self._load()
            return plain
        if self._server.poll() is not None:
            told = [line for line in self._words().splitlines() if line.startswith("odd: ")]
            self._give_up(told[0] if told else "it ended")
            return plain
        if self.state != "loaded" and "ready" in self._words().splitlines():
            self.state = "loaded"
        if self.state != "loaded" or self._folder is None:
            return plain
        launcher = self._folder / "mngr"
        if not os.access(launcher, os.X_OK):
            self._give_up(f"{self._folder} is gone, or no programs can be run there")
            return plain
        return launcher

    def cpu_seconds(self) -> float:
        """CPU seconds of the calls that ended so far, and of the server."""
        if self._server is None:
            return 0.0
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{self._server.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def close(self) -> None:
        """End the server; calls that still run go on."""
        server, self._server = self._server, None
        if server is not None:
            for stream in (server.stdin, server.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _load(self) -> None:
        reason = why_not(self.program, self._environ)
        if reason:
            self._give_up(reason)
            return
        try:
            self._folder = make_folder(self.program.path)
            nowhere = f"{os.devnull}-not-there"
            # What mngr would read while it loads is not there: it reads its settings with each call.
            environ = {"PATH": self._environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
            environ |= {"HOME": nowhere, "MNGR_HOST_DIR": f"{nowhere}/m"}
            environ |= {name: self._environ[name] for name in ("PYTHONPATH",) if name in self._environ}
            argv = (interpreter_of(self.program.path), SERVER, self._folder / "socket")
            self._server = spawn(argv, cwd=Path("/"), env=environ, dialogue=True)
            if self._server.stdout is not None:
                os.set_blocking(self._server.stdout.fileno(), False)
        except (OSError, ToolError) as error:
            self._give_up(f"it could not be started: {error}")
            return
        self.state = "loading"

    def _words(self) -> str:
        """Return all that the server printed so far."""
        if self._server is not None and self._server.stdout is not None:
            with contextlib.suppress(BlockingIOError, OSError):
                self._said += os.read(self._server.stdout.fileno(), 4096).decode("utf-8", "replace")
        return self._said.strip()

    def _give_up(self, reason: str) -> None:
        # Until `close` a server stays, and the folder: calls that are just being made need both.
        self._is_odd = True
        self.state = f"the program is called each time: {reason.removeprefix('odd: ')}"


def why_not(program: MngrProgram, environ: Mapping[str, str]) -> str:
    """Return the reason why this mngr cannot be loaded once for many calls, empty where it may be tried."""
    if not sys.platform.startswith("linux"):
        return "it is done on Linux only"
    if not interpreter_of(program.path):
        return f"{program.path} is not the script of an installed mngr"
    version = installed_version(program.path)
    if version is None or parse_version(version)[:2] not in TRIED:
        return f"it was not tried with mngr {version or 'of an unknown version'}"
    if " " in sys.executable or len(sys.executable) > _LONGEST_PATH:
        return "the path of our own Python is too long or has a blank"
    for name in _READ_AT_START:
        if environ.get(name):
            return f"{name} is set"
    if not all(map(os.path.isabs, (environ.get("PYTHONPATH") or os.sep).split(os.pathsep))):
        return "PYTHONPATH has relative folders"
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if locale not in ("C", "POSIX") and not locale.lower().partition("@")[0].replace("-", "").endswith("utf8"):
        return f"the locale is {locale}, not UTF-8"
    return ""


def make_folder(program: Path) -> Path:
    """Make the folder with the program that calls the loaded mngr; the server's socket will be beside it."""
    place = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="selftest-mngr-", dir=place if len(place) < _LONGEST_PATH else "/tmp"))
    (folder / "program").symlink_to(program.absolute())
    launcher = folder / "mngr"
    text = SERVER.with_name("launcher.py").read_text(encoding="utf-8")
    launcher.write_text(f"#!{sys.executable} -ISXutf8\n{text}", encoding="utf-8")
    launcher.chmod(0o700)
    return folder


def _stamp(program: Path) -> object:
    """Return what differs once mngr, a plugin or any package beside it is installed, updated or removed."""
    try:
        status = program.stat()
    except OSError:
        return None
    interpreter = interpreter_of(program)
    beside = Path(interpreter).parent.parent.glob("lib/python3.*/site-packages/*.dist-info") if interpreter else ()
    return status.st_mtime_ns, status.st_size, frozenset(path.name for path in beside)
