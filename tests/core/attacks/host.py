"""Attempts of a branch's code to reach the host: by its tests, by its set-up, and by what it leaves where we read.

Each attempt is a test that passes only where it reached, and what it plants on the host says so too. They run in the
sandbox that `verify_isolation = "require"` promises, on a branch like any other.
"""

# ruff: noqa: E501 -- the code of forgeries, which is easier to read on one line

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.attacks.cases import BASE, TESTS, Case
from core.attacks.tried import OPEN, ended, grow, reviewed_unattended
from core.review.repositories import Repository
from selftest_core.verify.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECRET = "planted-secret"
LONGEST = 180.0
"""Seconds that the attempts of one theme may take."""

# `W` is the planted world. An attempt raises, or returns something false, where it did not reach.
ATTEMPTS = {
    "mounts": {
        "remount of /": "return sh('mount -o remount,rw,bind / && touch /reached')",
        "remount by the call": "return libc.mount(None, b'/', None, 32 | 4096, None) == 0",
        "umount of /tmp": "return sh('umount -l /tmp')",
        "umount of /proc/sys": "return sh('umount -l /proc/sys')",
        "a new file system": "return sh('mount -t tmpfs none /mnt')",
        "proc, mounted anew": "return sh('mount -t proc proc /mnt')",
        "pivot_root": "return libc.syscall(155, b'.', b'.') == 0",
        "open_tree": "return libc.syscall(428, -100, b'/', 1) > 0",
        "the right to mount, by a namespace": "return sh('unshare -Urm mount -t tmpfs none /mnt')",
        "a namespace of users": "return libc.unshare(0x10000000) == 0",
        "a namespace of users, by clone": "return sh('unshare -U true')",
        "another process's namespace": "return any(libc.setns(os.open(f'/proc/1/ns/{n}', 0), 0) == 0 for n in ('mnt', 'net'))",
        "a sandbox in the sandbox": "return sh('bwrap --bind / / --dev /dev true')",
        "chroot": "return libc.chroot(b'/tmp') == 0",
        "a device": "return libc.mknod(b'/tmp/disk', 0o60600, 8 << 8) == 0 and bool(open('/tmp/disk', 'rb').read(1))",
    },
    "files": {
        "a file beside the repository": "open(f'{W}/reached', 'w')\nreturn False",
        "a hook of the repository": "open(f'{W}/repository/.git/hooks/post-checkout', 'w')\nreturn True",
        "the repository's settings": "open(f'{W}/repository/.git/config', 'a')\nreturn True",
        "the user's checkout": "return open(f'{W}/repository/user.txt').read() == SECRET",
        "a key in HOME": "return open(f'{W}/person/.ssh/id_rsa').read() == SECRET",
        "a key in HOME, which is a link": "return open(f'{W}/home/.ssh/id_rsa').read() == SECRET",
        "a key by /proc/self/root": "return open(f'/proc/self/root{W}/person/.ssh/id_rsa').read() == SECRET",
        "a key by the first process": "return open(f'/proc/1/root{W}/person/.ssh/id_rsa').read() == SECRET",
        "a key by its cwd": "return open(f'/proc/{PID}/cwd/id_rsa').read() == SECRET",
        "a key by a link in the tree": "os.symlink(f'{W}/person/.ssh/id_rsa', 'link')\nreturn open('link').read() == SECRET",
        "a key by a hard link": "os.link(f'{W}/person/.ssh/id_rsa', 'hard')\nreturn True",
        "a key by its handle": "return libc.name_to_handle_at(-100, b'/', ctypes.create_string_buffer(b'\\x80\\0\\0\\0' * 40), "
        "ctypes.byref(ctypes.c_int()), 0) == 0",
        "the passwords": "return bool(open('/etc/shadow').read())",
        "root's folder": "return any(os.path.isfile(os.sep + f'root/{one}') for one in ('.bashrc', '.profile', '.bash_history'))",
        "a file of the system": "open('/usr/reached', 'w')\nreturn True",
        "the linker's cache": "open('/etc/ld.so.cache', 'a')\nreturn True",
        "our cache": "return any('reached' for one in glob.glob(f'{W}/cache/**/*.sqlite', recursive=True))",
        "our results": "open(f'{W}/repository/.selftest/verified.sqlite', 'r+b')\nreturn True",
        "the interpreter": "open(sys.executable, 'r+b')\nreturn True",
        "the environment": "open(os.path.join(sys.prefix, 'reached.pth'), 'w')\nreturn True",
        "pytest itself": "import pytest\nopen(pytest.__file__, 'a')\nreturn True",
        "the disk": "return any(os.access(one, os.R_OK) for one in glob.glob('/dev/[svx]d*') + ['/dev/mem', '/dev/kmsg'])",
    },
    "kernel": {
        "core_pattern": "open('/proc/sys/kernel/core_pattern', 'w')\nreturn True",
        "sysrq": "open('/proc/sysrq-trigger', 'w')\nreturn True",
        "the host's name": "return libc.sethostname(b'reached', 7) == 0",
        "the clock": "return libc.settimeofday(ctypes.byref(ctypes.create_string_buffer(16)), None) == 0",
        "bpf": "return libc.syscall(321, 0, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38)",
        "keys": "return libc.syscall(250, 0, -3, 1) > 0",
        "io_uring": "return libc.syscall(425, 1, ctypes.create_string_buffer(200)) >= 0",
        "the kernel's messages": "return libc.klogctl(3, ctypes.create_string_buffer(9), 9) > 0",
        "modules": "return sh('modprobe dummy || insmod /x.ko')",
        "cgroups": "return any(os.access(one, os.W_OK) for one in glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True))",
        "a limit raised": "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (100000, 100000))\nreturn True",
        "priority": "os.nice(-5)\nreturn True",
        "another user": "return libc.setuid(12345) == 0 if os.getuid() == 0 else libc.setuid(0) == 0",
        "a program of root's": "return sh('sudo -n true') or sh('su -c true </dev/null')",
        "capabilities": "return int(re.search(r'CapEff:\\s*(\\w+)', open('/proc/self/status').read())[1], 16) != 0",
    },
    "processes": {
        "a process is seen": "return open(f'/proc/{PID}/environ', 'rb').read() != b''",
        "a process is seen by its start": "return any(f'planted-sleeper' in open(p, errors='replace').read() for p in "
        "glob.glob('/proc/[0-9]*/cmdline'))",
        "a signal": "os.kill(PID, 0)\nreturn b'planted-sleeper' in open(f'/proc/{PID}/cmdline', 'rb').read()",
        "ptrace": "return libc.ptrace(16, PID, 0, 0) == 0",
        "ptrace of the first": "return libc.ptrace(16, 1, 0, 0) == 0",
        "memory of another": "return libc.process_vm_readv(PID, None, 0, None, 0, 0) >= 0",
        "a descriptor of another": "return libc.syscall(438, libc.syscall(434, 1, 0), 0, 0) >= 0",
        "a descriptor that is left open": "return any(stat.S_ISDIR(os.fstat(n).st_mode) for n in map(int, "
        "os.listdir('/proc/self/fd')) if n > 2 and os.path.exists(f'/proc/self/fd/{n}') and "
        "not os.readlink(f'/proc/self/fd/{n}').startswith(('/proc', os.getcwd())))",
        "the terminal": "return os.open('/dev/tty', os.O_RDWR) >= 0",
        "input to the terminal": "import fcntl\nreturn all(fcntl.ioctl(0, 0x5412, bytes([one])) == 0 for one in b'x')",
        "shared memory": "import mmap\nreturn 'planted' in str(os.listdir('/dev/shm'))",
        "a message queue": "return libc.msgget(KEY, 0) >= 0",
    },
    "sockets": {
        "a socket by its path": "return connects(socket.AF_UNIX, f'{W}/socket')",
        "an abstract socket": "return connects(socket.AF_UNIX, chr(0) + ABSTRACT)",
        "an agent's socket": "return connects(socket.AF_UNIX, f'{W}/agent.sock')",
        "docker's socket": "return any(connects(socket.AF_UNIX, one) for one in ('/var/run/docker.sock', '/run/docker.sock', "
        "'/run/dbus/system_bus_socket', '/run/systemd/private'))",
        "a tmux server": "return sh(f'tmux -S {W}/tmux run-shell \"touch {W}/reached\"')",
        "tmux of this user": "return sh('tmux list-sessions')",
        "a port of the host": "return connects(socket.AF_INET, ('127.0.0.1', PORT))",
        "a port of the host by its name": "return connects(socket.AF_INET, (socket.gethostname(), PORT))",
        "the network": "return connects(socket.AF_INET, ('192.0.2.1', 80)) or len(socket.if_nameindex()) > 1",
        "raw packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nreturn True",
        "packets of the host": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nreturn True",
        "netlink": "made = socket.socket(16, 3, 0)\nreturn b'eth' in str(socket.if_nameindex()).encode()",
        "a virtual machine's socket": "return connects(socket.AF_VSOCK, (2, 22))",
    },
    "left": {
        "a link where orders are written": "plant('orders.json')\nreturn False",
        "a link where results are read": "plant('results')\nreturn False",
        "a link where wishes are written": "plant('wishes')\nreturn False",
        "a link for the plugins' folder": "plant('plugins')\nreturn False",
        "a link for a folder of the tree": "import shutil\nshutil.rmtree('folder')\nos.symlink(W, 'folder')\nreturn False",
        "a repository in the tree": "sh('git init -q inner && cd inner && git config core.fsmonitor \"touch '"
        " + W + '/reached; false\" && touch f')\nreturn False",
        "settings of git in the tree": "os.makedirs('.git', exist_ok=True)\nopen('.git/config', 'w').write("
        "f'[core]\\nfsmonitor = touch {W}/reached\\nhooksPath = .\\n')\nreturn False",
        "folders that nobody may enter": "os.makedirs('locked/in')\nos.chmod('locked', 0)\nreturn False",
        "folders by the thousand": "import shutil\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\nreturn False",
        "a name that is no text": "open(b'\\xff\\n\\x1b[31m', 'w')\nreturn False",
        "a process that stays": "if not os.fork():\n    os.setsid()\n    time.sleep(3)\n    open(f'{W}/reached', 'w')\n"
        "    os._exit(0)\nreturn False",
    },
    "FIFOs": {
        "a FIFO for .gitattributes": "os.mkfifo('.gitattributes')\nreturn False",
        "a FIFO for .gitmodules": "os.mkfifo('.gitmodules')\nreturn False",
        "a FIFO for a file of the tree": "os.unlink('calc.py')\nos.mkfifo('calc.py')\nreturn False",
    },
}  # fmt: skip
BY_USER = ("mounts", "files", "kernel", "processes", "sockets")
"""Themes in which it matters who the user is."""
_HEAD = """\
import ctypes, glob, os, re, socket, stat, subprocess, sys, time

W, PID, PORT, ABSTRACT, KEY, SECRET = {world!r}, {pid}, {port}, {abstract!r}, {key}, {secret!r}
libc = ctypes.CDLL(None, use_errno=True)


def sh(command):
    return subprocess.run(['sh', '-c', command], stdin=subprocess.DEVNULL, timeout=10).returncode == 0


def connects(family, address):
    with socket.socket(family) as made:
        made.settimeout(0.3)
        return made.connect_ex(address) == 0


def plant(name):
    for folder in {{os.path.dirname(one.split()[1]) for one in open('/proc/self/mounts') if 'exchange' in one}} | {{
        one.split()[1] for one in open('/proc/self/mounts') if 'exchange' in one
    }}:
        path = os.path.join(folder, name)
        if os.access(folder, os.W_OK):
            subprocess.run(['rm', '-rf', path])
            os.symlink(W + '/reached', path)
"""


@dataclass(frozen=True)
class World:
    """A person's files, sockets and processes, planted at `folder` for attempts to reach."""

    folder: Path
    repository: Repository
    values: Mapping[str, object]
    marks: Mapping[str, str]

    def damage(self) -> list[str]:
        """List what is not as it was planted."""
        found = [] if not os.path.lexists(self.folder / "reached") else ["a file was written outside"]
        return found + [
            f"{path} was changed" for path, text in self.marks.items() if (self.folder / path).read_text() != text
        ]


@contextmanager
def planted_world() -> Iterator[World]:
    """Plant a world: a home that is a link, a key, a repository, sockets, a port, a tmux server and a process."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as name, ExitStack() as stack:
        folder = Path(name).resolve()
        repository = Repository.make(folder / "repository")
        grow(repository, "main", ("Base", {**BASE, "folder/file.txt": "kept\n"}))
        repository.git("reset", "-q", "--hard", "main")
        (folder / "person" / ".ssh").mkdir(parents=True)
        (folder / "home").symlink_to("person")
        marks = {"person/.ssh/id_rsa": SECRET, "repository/user.txt": SECRET}
        for path, text in marks.items():
            (folder / path).write_text(text)
        marks["repository/.git/config"] = (repository.folder / ".git" / "config").read_text()
        abstract = f"attacks-{os.getpid()}"
        places = (str(folder / "socket"), str(folder / "agent.sock"), f"\0{abstract}", ("127.0.0.1", 0))
        listening = []
        for place in places:
            family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
            listening.append(stack.enter_context(socket.socket(family)))
            listening[-1].bind(place)
            listening[-1].listen()
        sleeper = subprocess.Popen(
            ["sh", "-c", "read line # planted-sleeper"], cwd=folder / "person" / ".ssh", stdin=subprocess.PIPE
        )
        stack.callback(sleeper.wait)
        stack.callback(sleeper.kill)
        if shutil.which("tmux"):
            tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]
            subprocess.run([*tmux, "new-session", "-d", "cat"], check=True, timeout=20)
            stack.callback(subprocess.run, [*tmux, "kill-server"], check=False, timeout=20)
        values = {
            "world": str(folder), "pid": sleeper.pid, "port": listening[-1].getsockname()[1], "abstract": abstract,
            "key": 0x5E1F, "secret": SECRET,
        }  # fmt: skip
        yield World(folder, repository, values, marks)


def reach_by_tests(theme: str) -> dict[str, str]:
    """Try the attempts of one theme on one branch; returns those that reached the host, with the reason."""
    with planted_world() as world:
        text = _HEAD.format_map(world.values)
        for number, code in enumerate(ATTEMPTS[theme].values()):
            body = "\n".join(f"    {line}" for line in code.split("\n"))
            text += f"\n\ndef reach_{number}():\n{body}\n\n\ndef test_{number}():\n    assert reach_{number}()\n"
        files = {"tests/test_host.py": text, "tests/test_calc.py": TESTS + "\n\ndef test_last():\n    pass\n"}
        grow(world.repository, "eve", ("[CREATE_TEST] Test the host", files))
        began = time.monotonic()
        _, answer = reviewed_unattended(world.repository, "eve")
        verdicts = {one.test: one for one in answer.verification.tests}
        found = {}
        for number, name in enumerate(ATTEMPTS[theme]):
            one = verdicts.get(f"tests/test_host.py::test_{number}")
            # A red attempt was tried: what it lacks here, it did not reach.
            if one is None or (one.after is Verdict.UNKNOWN and not any(run.result.is_red for run in one.runs)):
                found[name] = f"not tried: {one.reason if one else answer.verification.items}"
            elif one.after not in (Verdict.RED, Verdict.UNKNOWN):
                found[name] = f"reached: the test is {one.after}"
        seconds = time.monotonic() - began
        if seconds > LONGEST:
            found[f"the time of {theme}"] = f"it took {seconds:.0f} s"
        damage = world.damage()
        if damage:
            found[f"one of {theme}"] = ", ".join(damage)
        return found


# What a set-up of a branch does: it runs `setup.sh`, which every tree has, with the network.
_VENV = (
    f"{sys.executable} -m venv --without-pip .venv\n"
    f"for path in .venv/lib/python*/site-packages; do echo {Path(pytest.__file__).parents[1]} > $path/all.pth; done\n"
)
SET_UPS: dict[str, dict[str, str | None]] = {
    "a filter of git in a submodule's folder": {
        "sub": "gitlink:" + "1" * 40,
        "setup.sh": _VENV + "git init -q sub && cd sub && git config user.email a@b && git config user.name a && "
        "git config filter.x.clean 'touch W/reached; cat' && git config filter.x.process 'touch W/reached' && "
        "git config core.fsmonitor 'touch W/reached' && echo '* filter=x' > .gitattributes && echo x > f && "
        "git -c filter.x.clean=cat -c filter.x.process= -c core.fsmonitor= add . ; "
        "git -c filter.x.clean=cat -c filter.x.process= -c core.fsmonitor= commit -qm x; echo y > f\n",
    },
    "a .pth that patches pytest": {
        "builder.py": "import glob\n\nfor path in glob.glob('.venv/lib/python*/site-packages'):\n"
        "    open(path + '/odd.pth', 'w').write('import odd\\n')\n"
        "    open(path + '/odd.py', 'w').write('''import builtins, sys, threading\n"
        "real = builtins.__import__\n"
        "def importing(name, *words, **more):\n    made = real(name, *words, **more)\n    if name == 'calc':\n"
        "        sys.modules['calc'].add = lambda a, b: a + b\n    return made\n"
        "builtins.__import__ = importing\n''')\n"
    },
    "the cache of packages": {
        "setup.sh": _VENV + "find / -path '*verify-packages*' -maxdepth 9 -type d 2>/dev/null | while read path; do "
        "ln -s W/reached \"$path/planted\"; done; python3 builder.py\n"
    },
    "a tool of another's work": {"setup.sh": _VENV + "touch W/reached; cat W/person/.ssh/id_rsa > leaked\n"},
    "a FIFO where it is read": {"setup.sh": _VENV + "mkfifo .gitmodules .gitattributes pytest.ini.x\n"},
    "a link out of the tree": {"setup.sh": _VENV + "ln -s W node_modules; ln -s / .tox\n"},
}  # fmt: skip


def reach_by_set_up(name: str) -> dict[str, str]:
    """Try one set-up; returns it where it reached the host, or where its tests came out as fixed."""
    with planted_world() as world:
        base = {**BASE, "setup.sh": _VENV + "python3 builder.py\n", "builder.py": ""}
        grow(world.repository, "main", ("Base", base))
        changed = {
            path: text and text.replace("W/", f"{world.folder}/").replace(" W ", f" {world.folder} ")
            for path, text in SET_UPS[name].items()
        }
        grow(world.repository, "eve", ("[FIX_IMPL] Fix add", changed))
        # The environment is that of this interpreter, which a set-up cannot fetch from a registry.
        settings = world.folder / ".config" / "selftest-tui" / "selftest-tui.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f"verify_readable = {json.dumps([sys.prefix, sys.base_prefix])}\n")
        more = {
            "SELFTEST_TUI_SETUP_COMMAND": "sh setup.sh", "SELFTEST_TUI_PYTEST_COMMAND": ".venv/bin/python -m pytest",
            "XDG_CONFIG_HOME": str(settings.parents[1]),
        }  # fmt: skip
        result, answer = reviewed_unattended(world.repository, "eve", more=more)
        case = Case(name, "set-up", changed)
        how, said = ended(case, result, answer)
        found = {name: said} if how == OPEN else {}
        damage = world.damage()
        return {name: ", ".join(damage)} if damage else found
