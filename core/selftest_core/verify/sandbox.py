"""Isolation of code that agents wrote, by bubblewrap where it works. Nothing falls back silently.

The sandbox is a list of what is shown, not of what is hidden: the system's programs, the environment that tests run
in, the tree, and what settings name; all but the slot is read-only. So no home, no other repository and no socket is
there, wherever they lie. There is no capability, no network but the sandbox's own loopback, and no process outlives
the run; system calls that no test needs are refused. Limits on processes, file size and disk are set inside.

Before anything is run in it, a probe tries in the sandbox what attackers tried (`inside.probe`). One attempt that
works, and the isolation is "none".
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolError
from selftest_core.frozen import dataclass
from selftest_core.paths import cache_folder
from selftest_core.tools.process import run
from selftest_core.verify.inside import probe as probe_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from selftest_core.tools.process import Completed

PROGRAM = "bwrap"
MAX_PROCESSES = 512
MAX_FILE = 2 * 1024**3
"""Bytes of one file that a test may write."""
MAX_DISK = 4 * 1024**3
"""Bytes that one run may write: to /tmp, which lies in memory, and as many below its slot."""
_LIMITS = (f"--nproc={MAX_PROCESSES}", f"--fsize={MAX_FILE}", "--core=0", "--")
"""Set inside: outside they would count all processes of the person."""
_TOP = ("usr", "bin", "sbin", "nix", "gnu", "sys/devices/system")
"""Folders of the system; /sys says how many processors there are. All of /lib* come to them."""
_ETC = (
    "passwd", "group", "hosts", "host.conf", "hostname", "nsswitch.conf", "gai.conf", "services", "protocols",
    "networks", "ld.so.*", "localtime", "timezone", "locale*", "mime.types", "magic*", "os-release", "*_version",
    "*-release", "shells", "alternatives", "terminfo", "inputrc", "profile", "profile.d", "bash.bashrc", "fonts",
    "java*", "python*", "perl", "ssl/certs", "ssl/openssl.cnf", "ca-certificates*", "pki/tls/certs", "pki/ca-trust",
    "crypto-policies",
)  # fmt: skip
"""What programs need of /etc, and nothing that may hold a secret."""
_INDEXES = ("/etc/pip.conf", "/etc/xdg/pip", "/etc/uv", "/etc/npmrc")
_SECRETS = ("@", "_auth", "password", "token", "secret")
_REFUSED = (
    "mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd",
    "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "kexec_load",
    "kexec_file_load", "init_module", "finit_module", "delete_module", "swapon", "swapoff", "reboot", "syslog", "acct",
    "quotactl", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "lookup_dcookie", "settimeofday",
    "clock_settime", "adjtimex", "clock_adjtime", "nfsservctl", "sethostname", "setdomainname",
)  # fmt: skip
"""System calls that fail in the sandbox. The kernel refuses most of them to whom has no capability: a second lock."""
_NAMESPACES = (
    0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
"""Flags of clone that make a namespace: mounts, cgroups, host name, IPC, users, processes, network."""
_REFUSALS = (
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
)
"""Settings of the kernel, the value that refuses namespaces to users, and one that allows them."""
_NO_SANDBOX = (
    "bubblewrap needs Linux: here tests run with all your rights. Run them elsewhere (`verify --on`, a container or a "
    "virtual machine with Linux), or set `verify_isolation` to none to say that this is enough."
)
_INSTALL_HINT = "Install bubblewrap: `sudo apt-get install bubblewrap` (or your system's package of that name)."


NONE, HOST = "none", "host"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of tests from the user's files: "bubblewrap", "none" with the reason, or "host": where they run."""

    kind: str
    reason: str = ""

    @property
    def is_isolated(self) -> bool:
        """True where tests run in a sandbox."""
        return self.kind != NONE


def choose_isolation(wanted: str, environ: Mapping[str, str]) -> Isolation:
    """Try the sandbox once. `wanted`: "auto", "require" or "none". Raises RefusedError where a required one fails."""
    if wanted == "none":
        return Isolation("none", "`verify_isolation` is none")
    reason = _why_not(environ) if sys.platform == "linux" else f"there is no sandbox for {sys.platform}"
    if not reason:
        return Isolation("bubblewrap")
    if wanted == "require":
        raise RefusedError("Tests cannot be isolated on this machine", reason, isolation_hint(environ))
    return Isolation("none", reason)


def isolation_hint(environ: Mapping[str, str], system: str = sys.platform) -> str:
    """Return the command that makes the sandbox work here, or what to do on a system that has none."""
    if system != "linux":
        return _NO_SANDBOX
    if shutil.which(PROGRAM, path=environ.get("PATH")) is None:
        return _INSTALL_HINT
    for name, refusing, allowing in _REFUSALS:
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.is_file() and path.read_text(encoding="ascii").strip() == refusing:
            return f"The kernel refuses it to users: `sudo sysctl -w {name}={allowing}` allows it until the next start."
    return (
        f"Run `{PROGRAM} --unshare-all --ro-bind / / --proc /proc true` to see why. In a container, allow it user "
        "namespaces, for Docker with `--security-opt seccomp=unconfined`; an old bubblewrap needs an upgrade."
    )


def _why_not(environ: Mapping[str, str]) -> str:
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    if program is None:
        return "bubblewrap is not installed"
    try:
        done, escapes = probe(environ)
    except (ToolError, OSError) as error:
        return f"bubblewrap does not work here: {error.title if isinstance(error, ToolError) else error}"
    if escapes is None:
        return f"bubblewrap does not work here: {done.stdout.strip()[-500:] or done.exit_status}"
    return f"a probe in the sandbox could {', '.join(escapes)}" if escapes else ""


def probe(environ: Mapping[str, str]) -> tuple[Completed, list[str] | None]:
    """Try in the sandbox what attackers tried. Returns what worked, None where the probe did not run.

    A secret, a folder to write to, a socket and a port are planted for it, in the cache folder: beside the slots.
    """
    cache = cache_folder(environ)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="probe-", dir=cache) as name, contextlib.ExitStack() as stack:
        folder = Path(name).resolve()
        (folder / "secret").write_text("planted")
        listeners = [stack.enter_context(socket.socket(family)) for family in (socket.AF_UNIX, socket.AF_INET)]
        # Bound through its folder's descriptor: the path of a socket has at most about 100 bytes.
        with _entered(folder) as short:
            listeners[0].bind(f"{short}/socket")
        listeners[1].bind(("127.0.0.1", 0))
        for listener in listeners:
            listener.listen()
        planted = [str(folder), str(listeners[1].getsockname()[1]), str(os.getpid()), _started(os.getpid())]
        script = Path(probe_script.__file__)
        # As tests are run: an old bubblewrap lacks some option, a kernel may refuse one namespace of several.
        argv = sandbox_argv(
            [sys.executable, "-I", "-S", str(script), *planted],
            writable=[], readable=[Path(sys.prefix), Path(sys.base_prefix), script], cwd=Path("/"),
            environment={"PATH": environ.get("PATH", os.defpath)}, bindings={},
            environ=environ,
        )  # fmt: skip
        done = run(argv, timeout=20, cwd=Path("/"), env=dict(environ))
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return done, None
    return done, [str(one) for one in found] if done.ok and isinstance(found, list) else None


@contextlib.contextmanager
def _entered(folder: Path) -> Iterator[str]:
    """Give a short path to a folder, by a link in the system's temporary folder."""
    with tempfile.TemporaryDirectory(prefix="s-") as name:
        link = Path(name) / "f"
        link.symlink_to(folder)
        yield str(link)


def _started(pid: int) -> str:
    """Return when a process began, in ticks of the kernel: with its id it names one process. Empty without /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""


def sandbox_argv(
    argv: Sequence[str],
    *,
    writable: Sequence[Path],
    readable: Sequence[Path],
    cwd: Path,
    environment: Mapping[str, str],
    bindings: Mapping[Path, Path],
    mounts: Mapping[Path, Path] | None = None,
    network: bool = False,
    disk: int = MAX_DISK,
    environ: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line that runs `argv` isolated.

    `writable`, `readable`: folders that are shown beside the system's own. `bindings`: more writable folders, by where
    they appear; `mounts`: read-only ones, over all others. `disk`: bytes that /tmp may hold. `environ`: where
    bubblewrap is looked for.
    """
    made = [
        _program(PROGRAM, os.environ if environ is None else environ),
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]
    made += ["--share-net"] if network else []
    for path in _system():
        # A link of the system, such as /bin, stays one; what it leads to is shown below its own name.
        is_top_link = path.is_symlink() and path.parent == Path("/")
        made += ["--symlink", os.readlink(path), str(path)] if is_top_link else ["--ro-bind", str(path), str(path)]  # noqa: PTH115
    made += ["--dev", "/dev", "--size", str(disk), "--tmpfs", "/dev/shm", "--proc", "/proc"]
    # Settings of the kernel belong to root, which a sandbox that root started still is.
    made += ["--ro-bind", "/proc/sys", "/proc/sys"]
    for name, size in (("/tmp", disk), ("/var/tmp", disk), ("/run", disk // 64)):
        made += ["--size", str(size), "--tmpfs", name]
    made += ["--symlink", "/run", "/var/run"]
    for path in _for_network() if network else ():
        made += ["--ro-bind", str(path), str(path)]
    # In this order: the tree may appear where the user's checkout is, and their environment inside it.
    for place, source in bindings.items():
        made += ["--bind", str(source), str(place)]
    for folder in _uncovered(path for one in readable for path in (one, one.resolve())):
        is_link = _is_link(folder, bindings)
        made += ["--symlink", str(folder.resolve())] if is_link else ["--ro-bind", str(folder)]
        made += [str(folder)]
    for folder in writable:
        made += ["--bind", str(folder), str(folder)]
    for place, source in (mounts or {}).items():
        made += ["--ro-bind", str(source), str(place)]
    made += ["--remount-ro", "/", "--chdir", str(cwd), "--clearenv"]
    for name, value in environment.items():
        made += ["--setenv", name, value]
    return [*_with_filter(made), "--", _program("prlimit", os.environ), *_LIMITS, *argv]


def _program(name: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program. Relative folders of PATH would be looked for where agents' files are."""
    folders = [one for one in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(one)]  # noqa: PTH117
    return shutil.which(name, path=os.pathsep.join(folders)) or name


def _uncovered(paths: Iterable[Path]) -> list[Path]:
    """Leave out what is shown with another: a link cannot be mounted over in a folder that is read-only."""
    wanted = list(dict.fromkeys(path for path in paths if path != Path("/")))
    shown = {*wanted, Path("/usr")}
    return [path for path in wanted if shown.isdisjoint(path.parents)]


def _is_link(path: Path, places: Iterable[Path]) -> bool:
    """Return whether a link is made in the sandbox too: an interpreter finds its libraries from where its file lies.

    Those of the system and of the tree are there already.
    """
    parent = path.parent.resolve()
    return path.is_symlink() and {*path.parents, parent, *parent.parents}.isdisjoint((Path("/usr"), *places))


def _system() -> list[Path]:
    """List what every program may need of the system."""
    found = [Path("/") / name for name in _TOP if os.path.lexists(f"/{name}")]
    found += sorted(Path("/").glob("lib*")) if Path("/lib").exists() else []
    found += [path for pattern in _ETC for path in sorted(Path("/etc").glob(pattern)) if path.exists()]
    return list(dict.fromkeys(found))


def _for_network() -> list[Path]:
    """List what a program needs to use the network: names of hosts, and package indexes whose settings hold no secret.

    The names of hosts are on many systems a link into /run, which is empty here.
    """
    names = Path("/etc/resolv.conf")
    found = [names.resolve()] if names.is_symlink() and names.exists() else [names] if names.exists() else []
    for path in map(Path, _INDEXES):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        with contextlib.suppress(OSError):  # not for this user, so not for tests
            texts = [one.read_text(errors="replace").lower() for one in files if one.is_file()]
            if texts and not any(word in text for text in texts for word in _SECRETS):
                found.append(path)
    return found


def _with_filter(argv: Sequence[str]) -> list[str]:
    """Have bubblewrap refuse system calls, by a filter that it takes from a descriptor; none where there is no filter.

    A shell opens the file: descriptors above 2 are closed where programs are started. What bubblewrap itself has to
    say goes where the output goes.
    """
    path = _filter_file(cache_folder(os.environ))
    if path is None:
        return ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *argv]
    return ["/bin/sh", "-c", 'exec "$@" 2>&1 9<"$0"', str(path), argv[0], "--seccomp", "9", *argv[1:]]


@functools.cache
def _filter_file(cache: Path) -> Path | None:
    """Write the filter of system calls; None on a system that has none."""
    program = refused_calls()
    if program is None:
        return None
    path = cache / f"system-calls-{hashlib.sha256(program).hexdigest()[:16]}"
    try:
        if path.read_bytes() == program:
            return path
    except OSError:
        cache.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(program)
    draft.replace(path)
    return path


def refused_calls() -> bytes | None:
    """Compile the filter that refuses what no test needs, for the kernel; None where it knows no such filter."""
    try:
        from seccompy import Filter, UnsupportedError  # no package of it but for Linux
    except ImportError:
        return None
    try:
        made = Filter()
        for name in _REFUSED:
            with contextlib.suppress(ValueError, KeyError):  # not a call of this processor
                made.errno(name, errno.EPERM)
        made.errno("clone3", errno.ENOSYS)  # its flags cannot be seen; the C library then uses clone
        for flag in _NAMESPACES:
            made.errno("clone", errno.EPERM, args=[(0, 6, flag, flag)])  # 6: the bits of the mask are equal
        return made.program
    except UnsupportedError:
        return None
