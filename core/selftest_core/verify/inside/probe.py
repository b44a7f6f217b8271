"""A probe that tries in the sandbox what attackers tried. It runs there, by our own interpreter, before any test.

    python probe.py FOLDER PORT PID STARTED

Prints a JSON list of what worked, each in words that follow "could". FOLDER was made by the host, and holds `secret`
and `socket`; PORT listens on the host's loopback; PID, begun at STARTED, is a process of the host. It imports nothing
but the standard library.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_REMOUNT_BIND = 32 | 4096
_DETACH = 2
_OUTSIDE = ("/", "/usr", "/etc", "/home", "/root", "/var", "/srv", "/opt")
_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger")


def main(folder: str, port: str, pid: str, started: str) -> list[str]:
    """Return what worked."""
    attempts: list[tuple[str, Callable[[], bool]]] = [
        ("keep rights of root", _has_capabilities),
        ("mount file systems", lambda: _call("mount", None, b"/", None, _REMOUNT_BIND, None)),
        ("unmount what hides folders", lambda: _call("umount2", b"/tmp", _DETACH)),
        ("write outside of its folders", lambda: any(_writes(place) for place in (*_OUTSIDE, folder))),
        ("write settings of the kernel", lambda: any(_opens(path, os.O_WRONLY) for path in _SETTINGS)),
        ("read a planted secret", lambda: _opens(f"{folder}/secret", os.O_RDONLY)),
        ("connect to a planted socket", lambda: _connects(socket.AF_UNIX, f"{folder}/socket")),
        ("reach the network", lambda: _connects(socket.AF_INET, ("127.0.0.1", int(port)))),
        ("see processes outside", lambda: _sees(pid, started)),
    ]
    return [words for words, attempt in attempts if attempt()]


def _has_capabilities() -> bool:
    with open("/proc/self/status") as file:  # noqa: PTH123 -- without pathlib it starts in half the time
        return any(line.startswith("CapEff:") and int(line.split()[1], 16) for line in file)


def _call(name: str, *arguments: object) -> bool:
    return getattr(ctypes.CDLL(None), name)(*arguments) == 0  # type: ignore[no-any-return]


def _writes(folder: str) -> bool:
    path = f"{folder}/selftest-probe-{os.getpid()}"
    if not _opens(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL):
        return False
    os.unlink(path)  # noqa: PTH108
    return True


def _opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError:
        return False
    return True


def _connects(family: socket.AddressFamily, address: object) -> bool:
    with socket.socket(family) as made:
        made.settimeout(2)
        try:
            made.connect(address)  # type: ignore[arg-type]
        except OSError:
            return False
    return True


def _sees(pid: str, started: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:  # noqa: PTH123
            return started == file.read().rpartition(")")[2].split()[19]
    except OSError:
        return False


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
