"""Attempts to leave the sandbox, each as an attacker made it, and the probe that tries them before anything is run."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from core.verify.desks import SANDBOX
from selftest_core.tools.process import run
from selftest_core.verify.inside import probe as probe_script
from selftest_core.verify.sandbox import choose_isolation, isolation_hint, probe, refused_calls, sandbox_argv

pytestmark = pytest.mark.skipif(not SANDBOX.is_isolated, reason=f"no sandbox here: {SANDBOX.reason}")
SHOWN = [Path(sys.prefix), Path(sys.base_prefix)]


def inside(*argv: str | Path, folder: Path, network: bool = False) -> str:
    """Run a command in the sandbox, with `folder` as its only writable one; returns what it says."""
    whole = sandbox_argv(
        [str(one) for one in argv], writable=[folder], readable=SHOWN, cwd=folder, bindings={}, network=network,
        environment={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )  # fmt: skip
    return run(whole, timeout=60, cwd=folder).stdout


def python(code: str, folder: Path) -> str:
    """Run Python in the sandbox."""
    return inside(sys.executable, "-c", code, folder=folder)


@pytest.fixture
def slot(tmp_path: Path) -> Path:
    """A folder that the sandbox may write to."""
    folder = tmp_path / "slot"
    folder.mkdir()
    return folder


def test_it_runs_programs_and_writes_to_its_folder(slot: Path) -> None:
    assert python("open('made', 'w').write('x'); print(len('four'))", slot) == "4\n"
    assert (slot / "made").read_text() == "x"


@pytest.mark.parametrize("place", ["beside", "linked", "srv"])
def test_what_is_not_named_is_not_there(place: str, tmp_path: Path, slot: Path) -> None:
    folder = tmp_path / place
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_rsa").write_text("planted")
    home = folder
    if place == "linked":
        home = tmp_path / "home"
        home.symlink_to(folder)
    for path in (folder, home):
        said = inside(
            "sh", "-c", f"cat {path}/.ssh/id_rsa; ls {path} {path}/..; echo x > {path}/.ssh/made", folder=slot
        )
        assert "planted" not in said
        assert "No such file" in said
    assert [one.name for one in (folder / ".ssh").iterdir()] == ["id_rsa"]


def test_no_program_of_the_tree_is_taken_for_ours(slot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bwrap", "sh", "prlimit"):
        (slot / name).write_text(f"#!/bin/sh\ntouch {slot}/reached\n")
        (slot / name).chmod(0o755)
    monkeypatch.chdir(slot)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert inside("/bin/echo", "ran", folder=slot) == "ran\n"
    assert not (slot / "reached").exists()


def test_nothing_of_ours_is_open_inside(slot: Path) -> None:
    # ls opens the folder that it lists.
    assert inside("ls", "/proc/self/fd", folder=slot).split() == ["0", "1", "2", "3"]


def test_no_right_of_root_is_kept(slot: Path) -> None:
    said = inside("sh", "-c", "grep Cap /proc/self/status; grep NoNewPrivs /proc/self/status", folder=slot)
    assert "NoNewPrivs:\t1" in said
    assert [line.split()[1] for line in said.splitlines() if line.startswith(("CapEff", "CapBnd"))] == ["0" * 16] * 2
    for attempt in ("mount -o remount,rw,bind /", "umount -l /tmp", "mount -t tmpfs none /mnt", "unshare -Ur true"):
        assert "worked" not in inside("sh", "-c", f"{attempt} && echo worked", folder=slot)


def test_the_kernel_and_the_system_cannot_be_written(slot: Path) -> None:
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    places = ("/proc/sys/kernel/core_pattern", "/usr/planted", "/etc/planted", "/planted", "/etc/ld.so.cache")
    for place in places:
        assert "worked" not in inside("sh", "-c", f"echo x >> {place} && echo worked", folder=slot)
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


def test_no_socket_is_there_to_connect_to(tmp_path: Path, slot: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix, socket.socket() as port:
        unix.bind(os.path.relpath(tmp_path / "planted"))
        port.bind(("127.0.0.1", 0))
        for one in (unix, port):
            one.listen()
        code = (
            "import socket\nfor family, address in ((socket.AF_UNIX, {!r}), (socket.AF_INET, {!r})):\n"
            "    try:\n        socket.socket(family).connect(address); print('worked')\n"
            "    except OSError as error: print(type(error).__name__)"
        ).format(str(tmp_path / "planted"), port.getsockname())
        assert python(code, slot).split() == ["FileNotFoundError", "ConnectionRefusedError"]


def test_a_tmux_server_in_an_odd_folder_is_not_reached(tmp_path: Path, slot: Path) -> None:
    path = os.path.relpath(tmp_path / "tmux")
    environ = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    done = run(["tmux", "-f", "/dev/null", "-S", path, "new-session", "-d", "cat"], timeout=20, cwd=Path(), env=environ)
    assert done.ok, done.stderr
    try:
        inside("tmux", "-S", tmp_path / "tmux", "run-shell", f"touch {tmp_path}/reached", folder=slot)
        listed = run(["tmux", "-S", path, "list-sessions"], timeout=20, cwd=Path(), env=environ)
        assert (listed.ok, (tmp_path / "reached").exists()) == (True, False)
    finally:
        run(["tmux", "-S", path, "kill-server"], timeout=20, cwd=Path(), env=environ)


@pytest.mark.skipif(refused_calls() is None, reason="no filter of system calls on this processor")
@pytest.mark.parametrize(
    "call",
    [
        "ptrace(0, 0, 0, 0)", "unshare(0x10000000)", "keyctl(0, 0)",
        "mount(b'none', b'/tmp', b'tmpfs', 0, None)",
    ],
)  # fmt: skip
def test_system_calls_that_no_test_needs_are_refused(call: str, slot: Path) -> None:
    code = f"import ctypes\nc = ctypes.CDLL(None, use_errno=True)\ntry: print(c.{call}, ctypes.get_errno())\n"
    said = python(code + "except AttributeError: print(-1, 1)", slot)
    assert said.split() == ["-1", "1"]


def test_threads_and_processes_start_as_ever(slot: Path) -> None:
    code = (
        "import threading, subprocess, multiprocessing as m\nthreading.Thread(target=print, args=('thread',)).start()\n"
        "print(subprocess.check_output(['echo', 'process'], text=True), m.get_context('fork').Lock())"
    )
    assert {"thread", "process"} <= set(python(code, slot).split())


def test_set_ups_with_a_password_of_an_index_do_not_show_it(slot: Path) -> None:
    said = inside("sh", "-c", "cat /etc/pip.conf /etc/npmrc /etc/gitconfig", folder=slot)
    assert said.count("No such file") == 3
    assert "/etc/shadow: No such" in inside("cat", "/etc/shadow", folder=slot, network=True)


def test_the_probe_finds_nothing_in_the_sandbox(tmp_path: Path) -> None:
    _, escapes = probe({"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert escapes == []
    assert list((tmp_path / ".cache" / "selftest-tui").glob("probe-*")) == []


def test_the_probe_finds_what_works_without_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("planted")
    with socket.socket(socket.AF_UNIX) as unix, socket.socket() as port:
        unix.bind(os.path.relpath(tmp_path / "socket"))
        port.bind(("127.0.0.1", 0))
        unix.listen()
        port.listen()
        own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        argv = [sys.executable, probe_script.__file__, tmp_path, port.getsockname()[1], os.getpid(), own]
        said = run([str(one) for one in argv], timeout=60, cwd=tmp_path).stdout
    for attempt in ("write outside", "planted secret", "planted socket", "reach the network", "see processes outside"):
        assert attempt in said


def test_a_mac_is_told_what_holds_there_and_no_package_of_debian(tmp_path: Path) -> None:
    for path in ("", "/opt/homebrew/bin"):
        hint = isolation_hint({"PATH": path}, "darwin")
        assert ("apt-get" in hint, "needs Linux" in hint) == (False, True)
    assert "apt-get" in isolation_hint({"PATH": str(tmp_path)}, "linux")


def test_a_sandbox_that_hides_nothing_is_none(tmp_path: Path) -> None:
    # As bubblewrap was called before: all of the file system, but for some folders.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bwrap").write_text(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\n"
        f'exec {shutil.which("bwrap")} --unshare-all --ro-bind / / --dev /dev --proc /proc -- "$@"\n'
    )  # fmt: skip
    (tmp_path / "bin" / "bwrap").chmod(0o755)
    environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    found = choose_isolation("auto", environ)
    assert (found.kind, "a probe in the sandbox could" in found.reason) == ("none", True)
    assert "read a planted secret" in found.reason
