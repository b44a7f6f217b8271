"""The mngr program: which one, which version, with what environment, and its commands as argv lists.

mngr calls plain `tmux`, so $TMUX decides which server it looks on: with another server's it shows every agent as
STOPPED and starts a second process for each. So TMUX is taken out, or set to the server that has the agent; and so
is whatever would make a nested mngr behave as if inside an agent. TMUX_TMPDIR and MNGR_HOST_DIR stay as they are.
`cleanup` is never called, for it destroys every agent without asking when nobody sits at the terminal; nothing here
starts an agent but `start`.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from selftest_core.errors import ToolBrokenError, ToolMissingError, ToolOutputError
from selftest_core.fleet.sources.mngr_list import parse_listing
from selftest_core.frozen import dataclass
from selftest_core.tools.installing import MNGR_WANTED, install_hint
from selftest_core.tools.process import run_async
from selftest_core.tools.tmux import default_socket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.fleet.observations import Listed
    from selftest_core.tools.process import Completed

LIST_TIMEOUT = 60.0
"""Seconds for `mngr list`: an unreachable ssh host alone takes 31."""
VERSION_TIMEOUT = 60.0
UPGRADE_HINT = f"Upgrade mngr: `uv tool install --upgrade '{MNGR_WANTED}'`, or `pip install -U '{MNGR_WANTED}'`."
_BROKEN = ((0, 2, 0), (0, 2, 2))
"""First and last version whose `list` fails as soon as there is an agent."""
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_NOT_FOR_MNGR = frozenset({"TMUX", "TMUX_PANE", "MNGR_CONNECT_COMMAND_ACTIVE", "MNGR_AGENT_NAME", "MNGR_SESSION_NAME"})
_versions: dict[tuple[str, float], str] = {}


@dataclass(frozen=True, slots=True)
class MngrProgram:
    """The mngr that is used, and where it was found: on PATH, or in the environment that runs us."""

    path: Path
    source: Literal["PATH", "environment"]


def find_mngr(environ: Mapping[str, str]) -> MngrProgram:
    """The mngr on PATH, else the one installed beside us. Raises ToolMissingError."""
    path = environ.get("PATH", "")
    found = shutil.which("mngr", path=path)
    if found is not None:
        return MngrProgram(Path(found), "PATH")
    beside = Path(sys.executable).parent / "mngr"
    if shutil.which(str(beside)) is not None:
        return MngrProgram(beside, "environment")
    raise ToolMissingError(
        "mngr is not installed", f"It is neither on PATH ({path or 'which is empty'}) nor beside {sys.executable}.",
        install_hint("mngr"), argv=("mngr",),
    )  # fmt: skip


def mngr_environment(environ: Mapping[str, str], tmux_socket: str | None = None) -> dict[str, str]:
    """The environment for mngr: without TMUX, or with that of the server at `tmux_socket` (an absolute path)."""
    made = {name: value for name, value in environ.items() if name not in _NOT_FOR_MNGR}
    if tmux_socket is not None:
        made["TMUX"] = f"{tmux_socket},0,0"
    return made


def parse_version(text: str) -> tuple[int, int, int]:
    """The first version number of the text; raises ToolOutputError."""
    found = _VERSION.search(text)
    if found is None:
        raise ToolOutputError("mngr did not say its version", text.strip()[:200], install_hint("mngr"))
    return int(found[1]), int(found[2]), int(found[3] or 0)


def installed_version(program: Path, package: str = "imbue_mngr") -> str | None:
    """The version of a package in the environment of this launcher of mngr, None where that cannot be seen.

    A launcher that pip or uv wrote names its interpreter in the first line. Asking `--version` costs a second, and
    the broken versions fail even at that.
    """
    try:
        with program.resolve().open("rb") as launcher:
            first, rest = launcher.readline(500), launcher.read(2000)
    except OSError:
        return None
    interpreter = first.removeprefix(b"#!").strip().decode("utf-8", "replace")
    if not first.startswith(b"#!") or b"imbue.mngr" not in rest or " " in interpreter:
        return None
    found = list(Path(interpreter).parent.parent.glob(f"lib/python3.*/site-packages/{package}-*.dist-info"))
    return found[0].name.removeprefix(f"{package}-").removesuffix(".dist-info") if len(found) == 1 else None


def _answered_version(done: Completed, program: MngrProgram) -> str:
    found = _VERSION.search(done.stdout)
    if done.ok and found is not None:
        return found[0]
    raise ToolBrokenError(
        "mngr cannot say its version", f"{program.path} --version ended with {done.exit_status}: {done.stderr_end}",
        UPGRADE_HINT, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
    )  # fmt: skip


def refuse_broken(version: str, program: MngrProgram) -> None:
    """Raise ToolBrokenError for a version that is known not to work."""
    if _BROKEN[0] <= parse_version(version) <= _BROKEN[1]:
        raise ToolBrokenError(
            f"mngr {version} does not work", f"{program.path}: its `list` fails as soon as there is an agent.",
            UPGRADE_HINT, argv=(str(program.path),),
        )  # fmt: skip


def list_arguments(provider: str | None) -> tuple[str, ...]:
    """`mngr list` for one provider, or all."""
    chosen = () if provider is None else (f"--provider={provider}",)
    return ("list", "--format", "json", "--on-error", "continue", *chosen)


def message_arguments(addresses: Sequence[str]) -> tuple[str, ...]:
    """`mngr message`, the text coming on stdin. Never starts a stopped agent."""
    return ("message", *addresses, "--no-start", "--format", "json")


def stop_arguments(addresses: Sequence[str]) -> tuple[str, ...]:
    """`mngr stop`."""
    return ("stop", *addresses, "--format", "json")


def start_arguments(addresses: Sequence[str], *, restart: bool) -> tuple[str, ...]:
    """`mngr start`; without `restart` mngr says "started" of an agent that is DONE, and does nothing."""
    return ("start", *addresses, *(("--restart",) if restart else ()), "--format", "json")


def destroy_arguments(addresses: Sequence[str]) -> tuple[str, ...]:
    """`mngr destroy`, without its question (it would wait for an answer): the person has been asked before."""
    return ("destroy", "-f", *addresses, "--format", "json")


def transcript_arguments(address: str, limit: int) -> tuple[str, ...]:
    """`mngr transcript`: its last `limit` events."""
    return ("transcript", address, "--tail", str(limit), "--format", "json")


class Mngr:
    """One mngr program in one environment and folder. Commands name agents by `Agent.address` only."""

    def __init__(self, program: MngrProgram, environ: Mapping[str, str], cwd: Path) -> None:
        self.program = program
        self.environ = dict(environ)
        self.cwd = cwd

    @property
    def default_socket(self) -> str:
        """The socket of the tmux server that mngr uses with TMUX unset."""
        return default_socket(self.environ)

    async def version(self) -> str:
        """Its version: of the package that it starts, else what it answers; asked once for each file.

        Raises ToolBrokenError where it cannot even say that (as 0.2.0 to 0.2.2 cannot), and other ToolErrors.
        """
        try:
            key = (str(self.program.path), self.program.path.stat().st_mtime)
        except OSError as error:
            raise ToolMissingError("mngr is gone", f"{self.program.path}: {error}", install_hint("mngr")) from error
        if key not in _versions:
            version = installed_version(self.program.path)
            if version is None:
                version = _answered_version(await self.call(("--version",), timeout=VERSION_TIMEOUT), self.program)
            _versions[key] = version
        return _versions[key]

    async def check(self) -> str:
        """Its version; raises ToolBrokenError where that is known not to work."""
        version = await self.version()
        refuse_broken(version, self.program)
        return version

    async def list(
        self, provider: str | None = None, timeout: float = LIST_TIMEOUT, *, tmux_socket: str | None = None
    ) -> Listed:
        """One listing, of `provider` or of all, as seen from the default tmux server or from `tmux_socket`'s.

        Raises ToolError: missing, broken, over its deadline, cut short, or what mngr said went wrong.
        """
        done = await self.call(list_arguments(provider), timeout=timeout, tmux_socket=tmux_socket)
        return parse_listing(
            done.stdout, at=time.time(), provider=provider, seconds=done.seconds, stderr=done.stderr,
            exit_status=done.exit_status,
        )  # fmt: skip

    async def call(
        self, arguments: Sequence[str], *, timeout: float, text: str | None = None, tmux_socket: str | None = None
    ) -> Completed:
        """Run mngr with these arguments; `text` goes to its stdin, which is closed otherwise."""
        return await run_async(
            (self.program.path, *arguments), timeout=timeout, cwd=self.cwd,
            env=mngr_environment(self.environ, tmux_socket), input=text,
        )  # fmt: skip
