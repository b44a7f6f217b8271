"""Attaching to an agent of another host, over a real ssh server of our own on the loopback."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from selftest_core.actions.attach import plan_attach
from selftest_core.actions.terminal import hand_over
from selftest_core.agents import Agent, Host, Ssh, State
from selftest_core.fleet.view import Category, Row
from selftest_core.tools.tmux import SessionRef
from worlds import World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

CONFIG = """
ListenAddress 127.0.0.1
HostKey "{folder}/host key"
AuthorizedKeysFile "{folder}/authorized"
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
SetEnv TMUX_TMPDIR={far}
"""


@dataclass(frozen=True)
class Far:
    """The other host: its tmux server holds the agents, and `command` reaches it. `log`: what its sshd says."""

    world: World
    tmux_dir: Path
    command: str
    log: Path

    def row(self, name: str, command: str | None = None) -> Row:
        host = Host(id="host-far", name="far", provider="boxes", ssh=Ssh(command=command or self.command))
        agent = Agent(id="agent-1", name=name, type="command", host=host, state=State.WAITING, state_word="WAITING")
        return Row(agent=agent, category=Category.WAITING, source="mngr")

    def tmux(self, *arguments: str) -> str:
        return self.world.run(["tmux", *arguments], env={"TMUX_TMPDIR": str(self.tmux_dir)}, check=False).stdout


def listening(sshd: str, config: Path, log: Path) -> tuple[int, subprocess.Popen[bytes]]:
    """A port, and an sshd that listens there, or has ended with a word about it in the log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    server = [sshd, "-D", "-e", "-f", str(config), "-p", str(port)]
    if os.geteuid() == 0:
        # Root's sshd wants /run/sshd, and gets one that nobody else sees.
        script = 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$@"'
        server = ["unshare", "--mount", "sh", "-c", script, "sh", *server]
    with log.open("wb") as out:
        process = subprocess.Popen(server, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    eventually(lambda: process.poll() is not None or "listening" in log.read_text(), "a listening sshd")
    return port, process


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    """A running sshd, or the reason why there cannot be one."""
    if SSHD is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh server on this machine (sshd, ssh and ssh-keygen are needed)")
    with a_world() as world:
        folder = world.root / "keys of mine"
        folder.mkdir(mode=0o700)
        for name in ("host key", "my key"):
            world.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name])
        (folder / "authorized").write_text((folder / "my key.pub").read_text())
        (folder / "authorized").chmod(0o600)
        tmux_dir = world.root / "far"
        tmux_dir.mkdir()
        config = folder / "config"
        config.write_text(CONFIG.format(folder=folder, far=tmux_dir))
        log = world.root / "sshd.log"
        for _ in range(9):
            port, process = listening(SSHD, config, log)
            # Between our look for a free port and its use, another program may have taken it.
            if process.poll() is None or "already in use" not in log.read_text():
                break
        host_key = " ".join((folder / "host key.pub").read_text().split()[:2])
        (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key}\n")
        words = [
            "ssh", "-i", str(folder / "my key"), "-p", str(port), "-o", f'UserKnownHostsFile="{folder / "known"}"',
            "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-F", "none", f"{getpass.getuser()}@127.0.0.1",
        ]  # fmt: skip
        try:
            command = shlex.join(words)
            tried = world.run(["sh", "-c", f"{command} true"], check=False)
            if tried.returncode != 0:
                pytest.skip(f"sshd does not let us in here: {tried.stderr.strip()} {log.read_text()[-300:]}")
            yield Far(world, tmux_dir, command, log)
        finally:
            process.terminate()
            process.wait()
            world.run(["tmux", "kill-server"], env={"TMUX_TMPDIR": str(tmux_dir)}, check=False)


@pytest.fixture
def far_with_terminals(far: Far) -> Far:
    """Ask sshd for a terminal: on some machines one that is not root's cannot give it to its user."""
    tried = far.world.run(["sh", "-c", f"{far.command} -tt tty"], check=False)
    if tried.returncode != 0:
        pytest.skip(f"sshd gives no terminal here: {tried.stdout.strip()} {far.log.read_text()[-300:]}")
    return far


@pytest.mark.parametrize("name", ["one", "with 'quotes' and ; (brackets)"])
def test_one_types_into_a_remote_agent_and_comes_back(far_with_terminals: Far, name: str) -> None:
    far = far_with_terminals
    far.tmux("-f", "/dev/null", "new-session", "-d", "-s", f"mngr-{name}", "--", "echo the remote agent; cat")
    far.world.tmux("-L", "person", "-f", "/dev/null", "new-session", "-d", "-s", "mine", "-x", "90", "-y", "20", "cat")
    told = far.world.tmux("-L", "person", "display-message", "-p", "-t", "=mine:", "#{pid},0 #{pane_id}").split()
    person = SessionRef(str(far.world.socket.with_name("person")), "mine")
    inside = {**far.world.environment, "TMUX": f"{person.socket},{told[0]}", "TMUX_PANE": told[1]}

    def screen() -> str:
        return far.world.tmux("-L", "person", "capture-pane", "-p", "-t", "=mine:", check=False)

    hand_over(plan_attach(far.row(name), inside))
    eventually(lambda: "the remote agent" in screen(), "the agent's screen")
    far.world.tmux("-L", "person", "send-keys", "-t", "=mine:", "hello there", "Enter")
    eventually(lambda: screen().count("hello there") == 2, "the agent's answer")
    far.world.tmux("-L", "person", "send-keys", "-t", "=mine:", "C-b", "C-b", "d")
    far.tmux("detach-client", "-s", f"=mngr-{name}")
    eventually(lambda: far.tmux("list-clients") == "", "no client over there")
    assert f"mngr-{name}" in far.tmux("list-sessions", "-F", "#{session_name}")
    far.world.end_server("-L", "person")


def test_a_session_that_is_gone_over_there_ends_at_once(far: Far) -> None:
    plan = plan_attach(far.row("nobody"), far.world.environment)
    done = far.world.run(plan.argv, check=False)
    assert done.returncode != 0


def test_a_host_that_does_not_answer_is_said_to_be_unreachable(far: Far) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        command = f"ssh -F none -o BatchMode=yes -p {closed.getsockname()[1]} 127.0.0.1"
        end = hand_over(plan_attach(far.row("one", command), far.world.environment))
    assert end.exit_status == 255
    assert "ssh could not reach one" in end.text
