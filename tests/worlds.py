"""Private worlds for tests: a HOME, an mngr host folder and a tmux server of their own, all ended with the world.

Nothing of the person's is read or touched: every program started from here gets `World.environment`, which is
built from nothing. Socket paths are short, since a Unix socket's path has 107 bytes at most.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import loaded_mngr
from selftest_recorder.e2e.noop import longest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
PATIENCE = 150.0
"""Seconds before a condition that never comes is called a failure. A deadline, not a measure."""


@dataclass
class World:
    """One private world under a short folder of its own."""

    root: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "h"

    @property
    def host_dir(self) -> Path:
        """MNGR_HOST_DIR."""
        return self.root / "m"

    @property
    def tmux_dir(self) -> Path:
        """TMUX_TMPDIR."""
        return self.root / "t"

    @property
    def repository(self) -> Path:
        """A clean git repository with one commit, made by the first use of `make_repository`."""
        return self.root / "r"

    @property
    def socket(self) -> Path:
        """The default tmux server's socket."""
        return self.tmux_dir / f"tmux-{os.getuid()}" / "default"

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a program in this world: TMUX is not in it."""
        return {
            "HOME": str(self.home),
            "PATH": f"{BIN}{os.pathsep}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/opt/homebrew/bin",
            "MNGR_HOST_DIR": str(self.host_dir),
            "TMUX_TMPDIR": str(self.tmux_dir),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "SHELL": "/bin/bash",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "SELFTEST_TUI_ADAPT": "false",  # else a busy machine changes what a test sees
            **self.extra,
        }

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        check: bool = True,
        timeout: float = 300.0,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        text: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end here, stdin closed unless `text` is given; failing names its output."""
        done = subprocess.run(
            [str(part) for part in argv],
            cwd=cwd or (self.repository if self.repository.is_dir() else self.root),
            env={**self.environment, **(env or {})},
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{argv} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def mngr(self, *arguments: str | Path, check: bool = True, timeout: float = 300.0) -> str:
        """What the real mngr prints for these arguments: loaded once, forked for each call, as that is set-up alone."""
        cwd = self.repository if self.repository.is_dir() else self.root
        words = [str(part) for part in arguments]
        done = loaded_mngr.call(BIN / "mngr", words, env=self.environment, cwd=cwd, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"mngr {words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def load_mngr(self) -> None:
        """Let our program find an mngr that is loaded already: for tests that are not about how it is run.

        Call it once all plugins of mngr are on the world's PYTHONPATH.
        """
        folder = self.root / "loaded"
        if not folder.is_dir():
            loaded_mngr.install(folder, BIN / "mngr", self.extra.get("PYTHONPATH", ""))
            self.extra["PATH"] = f"{folder}{os.pathsep}{self.environment['PATH']}"

    def tmux(self, *arguments: str, check: bool = True) -> str:
        """What the world's own tmux server answers."""
        return self.run(["tmux", *arguments], check=check).stdout

    def end_server(self, *which: str) -> None:
        """End a tmux server (`which`: `-L` or `-S` and its name) and wait until it has ended, which tmux does not."""
        self.tmux(*which, "kill-server")

        def says() -> str:
            return self.run(["tmux", *which, "list-sessions"], check=False).stderr

        eventually(lambda: says().startswith(("no server running", "error connecting")), "the end of a tmux server")

    def make_repository(self) -> Path:
        """Make the repository, with one commit."""
        if not self.repository.is_dir():
            self.repository.mkdir()
            (self.repository / "README").write_text("sample\n")
            self.run(["git", "init", "-q", "-b", "main"])
            self.run(["git", "add", "."])
            self.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "Start"])
        return self.repository

    def script(self, name: str, text: str) -> Path:
        """An executable script, usable as an agent's command (a name of 15 characters at most, as `ps` cuts it)."""
        path = self.root / "s" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def create(
        self, name: str, *command: str | Path, labels: Mapping[str, str] | None = None, more: Sequence[str] = ()
    ) -> str:
        """Create a real command agent in place and return its id. `mngr create` costs about a second."""
        self.make_repository()
        label_arguments = [part for pair in (labels or {}).items() for part in ("--label", f"{pair[0]}={pair[1]}")]
        transfer = () if "--transfer" in more else ("--transfer", "none")
        out = self.mngr(
            "create", name, "--type", "command", "--no-connect", "--headless", "--format", "json",
            *transfer, *label_arguments, *more, "--", *command,
        )  # fmt: skip
        return str(json.loads(out.strip().splitlines()[-1])["agent_id"])

    def listing(self, *arguments: str) -> dict[str, Any]:
        """The truth: `mngr list --format json`."""
        answer: dict[str, Any] = json.loads(self.mngr("list", "--format", "json", *arguments, check=False))
        return answer

    def agent_dir(self, agent_id: str) -> Path:
        """Where mngr keeps its files of one agent."""
        return self.host_dir / "agents" / agent_id

    def processes(self) -> list[int]:
        """The processes that carry this world in their environment (Linux)."""
        mark = f"MNGR_HOST_DIR={self.host_dir}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def end(self) -> None:
        """End every tmux server and every process of this world, then remove its folder."""
        sockets = self.tmux_dir / f"tmux-{os.getuid()}"
        for socket in sockets.iterdir() if sockets.is_dir() else ():
            # One that does not answer is killed below, with all the others.
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    ["tmux", "-S", str(socket), "kill-server"],
                    env=self.environment,
                    capture_output=True,
                    check=False,
                    timeout=30,
                )
        for _ in range(50):
            left = self.processes()
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)  # the kernel needs a moment to reap; nothing signals the end of a stranger's child
        shutil.rmtree(self.root, ignore_errors=True)


_alive: list[World] = []
NUDGE_AFTER = 2.0
"""Seconds of waiting after which tmux is asked to look again."""


def nudge_tmux() -> None:
    """Let the tmux servers of all living worlds look for ended programs.

    tmux 3.3 now and then misses the signal that a program of its own has ended, and then shows it as living for ever.
    Any later SIGCHLD makes it look again. That is tmux's trouble, not what a test is about.
    """
    for world in _alive:
        for pid in world.processes():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("tmux"):
                    os.kill(pid, signal.SIGCHLD)


def eventually[T](ask: Callable[[], T], what: str = "", patience: float = PATIENCE) -> T:
    """Ask until the answer is truthy, and return it; fail with `what` and the last answer after `patience` seconds."""
    deadline = time.monotonic() + longest(patience)
    nudge_at = time.monotonic() + NUDGE_AFTER
    while True:
        began = time.monotonic()
        answer = ask()
        if answer:
            return answer
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"never came: {what or ask} (last answer: {answer!r})")
        if now > nudge_at:
            nudge_tmux()
            nudge_at = now + NUDGE_AFTER
        # Polls an outside program that offers no event; a question that is dear is asked less often.
        time.sleep(min(max(0.05, now - began), 1.0))


@contextlib.contextmanager
def a_world(**extra: str) -> Iterator[World]:
    """A world that ends with the block. mngr's remote providers are off, so that nothing asks the network."""
    root = Path(tempfile.mkdtemp(prefix="st-", dir="/tmp"))
    world = World(root, dict(extra))
    try:
        for folder in (world.home, world.host_dir, world.tmux_dir):
            folder.mkdir()
        _alive.append(world)
        yield world
    finally:
        if world in _alive:
            _alive.remove(world)
        world.end()
