"""Other machines for tests: an ssh server each, with a process table, a /tmp and a /run of its own, on the loopback.

Each is a PID and a mount namespace, so that `end` is what a power cut is: the server, its connections, the agents and
their tmux are gone at once and nothing of it stays behind, and two of them share neither files nor processes, just as
mngr's ssh provider expects of hosts. Only Linux's root can make them; elsewhere the tests say why they are skipped.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worlds import World

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

_CONFIG = """
ListenAddress 127.0.0.1
HostKey /run/selftest/host
AuthorizedKeysFile /run/selftest/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
"""
_TAKEN = "Address already in use"
_ROOM = """
set -e
mount -t tmpfs none /run
mkdir /run/sshd /run/selftest /run/selftest/home
cp "$1"/host "$1"/authorized "$1"/config /run/selftest/
mount -t tmpfs none /tmp
chmod 1777 /tmp
exec "$2" -D -e -f /run/selftest/config -p "$3"
"""


@dataclass
class FarHost:
    """One other machine: the host `box` of the provider `name`.

    Each has a provider of its own, since mngr can reach no host of a provider while one of them is down.
    """

    name: str
    port: int
    server: subprocess.Popen[bytes]
    log: Path

    @property
    def place(self) -> str:
        """What `--on` takes for it."""
        return f"box.{self.name}"

    def end(self) -> None:
        """Cut its power."""
        self.server.kill()
        self.server.wait()


@dataclass
class FarHosts:
    """The machines of one world, which mngr reaches there."""

    world: World
    hosts: list[FarHost] = field(default_factory=list)

    @property
    def keys(self) -> Path:
        """The folder with the keys."""
        return self.world.root / "keys"

    def add(self, name: str) -> FarHost:
        """Start one more machine and tell mngr of it. Skips the test where this machine cannot do that."""
        if not self.keys.is_dir():
            self._make_keys()
        host = self._start(name)
        while host.server.poll() is not None and _TAKEN in host.log.read_text():
            host = self._start(name)  # the free port was somebody else's a moment later
        if host.server.poll() is not None:
            pytest.skip(f"no other machine can be played here: {host.log.read_text().strip()[-300:]}")
        self.hosts.append(host)
        self._tell_mngr()
        return host

    def run(self, host: FarHost, command: str, *, check: bool = True) -> str:
        """Run a shell command over there, as mngr would reach it."""
        known = f"UserKnownHostsFile={self.keys / 'known'}"
        return self.world.run(
            ["ssh", "-F", "none", "-i", self.keys / "mine", "-p", str(host.port), "-o", known, "-o", "BatchMode=yes",
             f"{getpass.getuser()}@127.0.0.1", command], check=check,
        ).stdout  # fmt: skip

    def end(self) -> None:
        """Cut the power of all of them."""
        for host in self.hosts:
            host.end()

    def _start(self, name: str) -> FarHost:
        """Start a machine at a port that is free, and return when it listens or has ended."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = self.world.root / f"{name}.log"
        script = ("sh", "-c", _ROOM, "sh", str(self.keys), str(SSHD), str(port))
        with log.open("wb") as out:
            server = subprocess.Popen(
                ("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", *script),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self._environment(),
            )  # fmt: skip
        try:
            eventually(lambda: server.poll() is not None or "listening" in log.read_text(), "a listening sshd")
        except BaseException:
            server.kill()
            raise
        return FarHost(name, port, server, log)

    def _environment(self) -> dict[str, str]:
        # What sshd gives to a session begins with its own PATH; nothing else of the world's may get there.
        return {"PATH": self.world.environment["PATH"], "LANG": "C.UTF-8"}

    def _make_keys(self) -> None:
        self.keys.mkdir(mode=0o700)
        for name in ("host", "mine"):
            self.world.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.keys / name])
        (self.keys / "authorized").write_text((self.keys / "mine.pub").read_text())
        path = self.world.environment["PATH"]
        (self.keys / "config").write_text(f'{_CONFIG}SetEnv "PATH={path}" HOME=/run/selftest/home LANG=C.UTF-8\n')

    def _tell_mngr(self) -> None:
        host_key = " ".join((self.keys / "host.pub").read_text().split()[:2])
        (self.keys / "known").write_text("".join(f"[127.0.0.1]:{host.port} {host_key}\n" for host in self.hosts))
        lines: list[str] = []
        for host in self.hosts:
            lines += [
                f"[providers.{host.name}]", 'backend = "ssh"', f"[providers.{host.name}.hosts.box]",
                'address = "127.0.0.1"', f"port = {host.port}",
                f'user = "{getpass.getuser()}"', f'key_file = "{self.keys / "mine"}"',
                f'known_hosts_file = "{self.keys / "known"}"',
            ]  # fmt: skip
        configure_mngr(self.world, "\n".join(lines) + "\n")


def configure_mngr(world: World, settings: str) -> None:
    """Make this text mngr's own settings in the world."""
    profile = "0" * 32
    folder = world.host_dir / "profiles" / profile
    folder.mkdir(parents=True, exist_ok=True)
    (world.host_dir / "config.toml").write_text(f'profile = "{profile}"\n')
    (folder / "settings.toml").write_text(settings)


@contextlib.contextmanager
def far_hosts(world: World) -> Iterator[FarHosts]:
    """Other machines for one world, gone with the block. Skips the test where there cannot be any."""
    missing = [name for name in ("ssh", "ssh-keygen", "unshare", "rsync", "tmux", "git") if shutil.which(name) is None]
    if SSHD is None or missing or os.geteuid() != 0:
        pytest.skip("other machines are played by root with unshare and sshd")
    hosts = FarHosts(world)
    try:
        yield hosts
    finally:
        hosts.end()
