"""Isolation of code that agents wrote, by bubblewrap where it works. Nothing falls back silently.

In the sandbox: the file system read-only, except the slot; home, /tmp and /run are empty; no network but the sandbox's
own loopback; namespaces of its own for processes, users and IPC, so that nothing outlives the run. Limits on processes,
file size and disk are set inside.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = "bwrap"
MAX_PROCESSES = 512
MAX_FILE = 2 * 1024**3
"""Bytes of one file that a test may write."""
MAX_DISK = 4 * 1024**3
"""Bytes that one run may write: to /tmp, which lies in memory, and as many below its slot."""
_LIMITS = ("prlimit", f"--nproc={MAX_PROCESSES}", f"--fsize={MAX_FILE}", "--core=0", "--")
"""Set inside: outside they would count all processes of the person."""
_REFUSALS = (
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
)
"""Settings of the kernel, the value that refuses namespaces to users, and one that allows them."""
INSTALL_HINT = "Install bubblewrap: `sudo apt-get install bubblewrap` (or your system's package of that name)."


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
    reason = _why_not(environ)
    if not reason:
        return Isolation("bubblewrap")
    if wanted == "require":
        raise RefusedError("Tests cannot be isolated on this machine", reason, isolation_hint(environ))
    return Isolation("none", reason)


def isolation_hint(environ: Mapping[str, str]) -> str:
    """Return the command that makes the sandbox work here."""
    if shutil.which(PROGRAM, path=environ.get("PATH")) is None:
        return INSTALL_HINT
    for name, refusing, allowing in _REFUSALS:
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.is_file() and path.read_text(encoding="ascii").strip() == refusing:
            return f"The kernel refuses it to users: `sudo sysctl -w {name}={allowing}` allows it until the next start."
    return (
        f"Run `{PROGRAM} --unshare-all --ro-bind / / true` to see why. In a container, allow it user namespaces, for "
        "Docker with `--security-opt seccomp=unconfined`; an old bubblewrap needs an upgrade."
    )


def _why_not(environ: Mapping[str, str]) -> str:
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    if program is None:
        return "bubblewrap is not installed"
    # As tests are run: an old bubblewrap lacks some option, a kernel may refuse one namespace of several.
    argv = sandbox_argv(
        ["true"], writable=[], readable=[], cwd=Path("/"), home=Path("/root"), environment=dict(environ), bindings={}
    )
    try:
        done = run(argv, timeout=10, cwd=Path("/"), env=dict(environ))
    except ToolError as error:
        return f"bubblewrap does not work here: {error.title}"
    return "" if done.ok else f"bubblewrap does not work here: {done.stderr_end or done.exit_status}"


def sandbox_argv(
    argv: Sequence[str],
    *,
    writable: Sequence[Path],
    readable: Sequence[Path],
    cwd: Path,
    home: Path,
    environment: Mapping[str, str],
    bindings: Mapping[Path, Path],
    mounts: Mapping[Path, Path] | None = None,
    network: bool = False,
    disk: int = MAX_DISK,
) -> list[str]:
    """The command line that runs `argv` isolated.

    `writable`, `readable`: folders below home, /tmp or /run that stay visible. `home`: the user's home, hidden.
    `bindings`: more writable folders, by where they appear; `mounts`: read-only ones, over all others. `disk`: bytes
    that /tmp may hold.
    """
    made = [PROGRAM, "--unshare-all", "--die-with-parent", "--new-session"]
    made += ["--share-net"] if network else []
    made += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    hidden = dict.fromkeys((Path("/tmp"), Path("/run"), Path("/var/tmp"), Path("/var/run"), Path("/root"), home))
    for folder in hidden:
        # /var/run is a link to /run on most systems; what is below a hidden folder is hidden with it.
        if folder.is_dir() and not folder.is_symlink() and folder != Path("/"):
            made += ["--size", str(disk), "--tmpfs", str(folder)]
    # The names of hosts: on many systems a link into /run, which is hidden.
    names = Path("/etc/resolv.conf")
    if network and names.is_symlink() and names.exists():
        made += ["--ro-bind", str(names.resolve()), str(names.resolve())]
    # In this order: the tree may appear where the user's checkout is, and their environment inside it.
    for place, source in bindings.items():
        made += ["--bind", str(source), str(place)]
    for folder in readable:
        made += ["--ro-bind", str(folder), str(folder)]
    for folder in writable:
        made += ["--bind", str(folder), str(folder)]
    for place, source in (mounts or {}).items():
        made += ["--ro-bind", str(source), str(place)]
    made += ["--chdir", str(cwd), "--clearenv"]
    for name, value in environment.items():
        made += ["--setenv", name, value]
    return [*made, "--", *_LIMITS, *argv]
