"""mngr: the program and its version, its environment, its commands as argument lists, and its answers.

mngr calls plain `tmux`, so $TMUX decides which server it asks: with another server it shows every agent as STOPPED and
starts a second process for each. So TMUX is removed, or set to the server that has the agent; variables that would make
mngr behave as inside an agent are removed too. TMUX_TMPDIR and MNGR_HOST_DIR are kept. `cleanup` is never called:
without a terminal it destroys every agent without confirmation. Only `start` starts agents.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from enum import StrEnum
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from selftest_core.errors import ToolBrokenError, ToolError, ToolFailedError, ToolMissingError, ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.tools.installing import MNGR_WANTED, install_hint
from selftest_core.tools.process import run_async
from selftest_core.tools.tmux import default_socket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.tools.process import Completed

LIST_TIMEOUT = 60.0
"""Seconds for `mngr list`: an unreachable ssh host alone takes 31."""
VERSION_TIMEOUT = 60.0
UPGRADE_HINT = f"Upgrade mngr: `uv tool install --upgrade '{MNGR_WANTED}'`, or `pip install -U '{MNGR_WANTED}'`."
_BROKEN = ((0, 2, 0), (0, 2, 2))
"""First and last version whose `list` fails as soon as there is an agent."""
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_NOT_FOR_MNGR = frozenset({"TMUX", "TMUX_PANE", "MNGR_CONNECT_COMMAND_ACTIVE", "MNGR_AGENT_NAME", "MNGR_SESSION_NAME"})
_ERROR_LINE = re.compile(r"^(?:Error|ERROR): (?P<text>.*)", re.DOTALL | re.MULTILINE)
_HINT = re.compile(r"\s{2,}\[(?P<hint>[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\]\s*$", re.DOTALL)
_SCRIPT = "from imbue.mngr.main import cli"
"""A line of the script that installers make for mngr."""
_versions: dict[tuple[str, float], str] = {}


@dataclass(frozen=True, slots=True)
class MngrProgram:
    """The mngr in use, and its place: on PATH, or in the Python environment that runs us."""

    path: Path
    source: Literal["PATH", "environment"]


def find_mngr(environ: Mapping[str, str]) -> MngrProgram:
    """Find mngr on PATH, else beside our Python. Raises ToolMissingError."""
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
    """Make the environment for mngr: without TMUX, or with the server at `tmux_socket` (an absolute path)."""
    made = {name: value for name, value in environ.items() if name not in _NOT_FOR_MNGR}
    if tmux_socket is not None:
        made["TMUX"] = f"{tmux_socket},0,0"
    return made


def parse_version(text: str) -> tuple[int, int, int]:
    """Parse the first version number of a text. Raises ToolOutputError."""
    found = _VERSION.search(text)
    if found is None:
        raise ToolOutputError("mngr printed no version", text.strip()[:200], install_hint("mngr"))
    return int(found[1]), int(found[2]), int(found[3] or 0)


def installed_version(program: Path, package: str = "imbue_mngr") -> str | None:
    """Read the version of a package in the environment of this launcher of mngr, None if that is not possible.

    A launcher by pip or uv names its interpreter in the first line. `--version` takes a second, and broken versions
    fail even there.
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


def interpreter_of(program: Path) -> str:
    """Return the Python of mngr's script, empty for any other program."""
    try:
        with program.open(encoding="utf-8", errors="strict") as file:
            text = file.read(4096)
    except (OSError, UnicodeDecodeError):
        return ""
    first, _, rest = text.partition("\n")
    words = first.removeprefix("#!").strip().split(" ")
    is_script = first.startswith("#!/") and len(words) == 1 and _SCRIPT in rest.splitlines()
    return words[0] if is_script and os.access(words[0], os.X_OK) else ""


def _answered_version(done: Completed, program: MngrProgram) -> str:
    found = _VERSION.search(done.stdout)
    if done.ok and found is not None:
        return found[0]
    raise ToolBrokenError(
        "mngr cannot print its version", f"{program.path} --version ended with {done.exit_status}: {done.stderr_end}",
        UPGRADE_HINT, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
    )  # fmt: skip


def refuse_broken(version: str, program: MngrProgram) -> None:
    """Raise ToolBrokenError for a version that is known not to work."""
    if _BROKEN[0] <= parse_version(version) <= _BROKEN[1]:
        raise ToolBrokenError(
            f"mngr {version} does not work", f"{program.path}: its `list` fails as soon as there is an agent.",
            UPGRADE_HINT, argv=(str(program.path),),
        )  # fmt: skip


def list_arguments(provider: str | None, include: str = "") -> tuple[str, ...]:
    """Arguments of `mngr list` for one provider, or all; `include`: a CEL expression that agents must match."""
    chosen = () if provider is None else (f"--provider={provider}",)
    matching = (f"--include={include}",) if include else ()
    return ("list", "--format", "json", "--on-error", "continue", *chosen, *matching)


def message_arguments(addresses: Sequence[str]) -> tuple[str, ...]:
    """Arguments of `mngr message`, with the text on stdin. Never starts a stopped agent."""
    return ("message", *addresses, "--no-start", "--format", "json")


def stop_arguments(addresses: Sequence[str]) -> tuple[str, ...]:
    """Arguments of `mngr stop`."""
    return ("stop", *addresses, "--format", "json")


def start_arguments(addresses: Sequence[str], *, restart: bool) -> tuple[str, ...]:
    """Arguments of `mngr start`; without `restart` mngr reports "started" for a DONE agent, and does nothing."""
    return ("start", *addresses, *(("--restart",) if restart else ()), "--format", "json")


def destroy_arguments(addresses: Sequence[str]) -> tuple[str, ...]:
    """Arguments of `mngr destroy` without its confirmation: the user has confirmed before."""
    return ("destroy", "-f", *addresses, "--format", "json")


def transcript_arguments(address: str, limit: int) -> tuple[str, ...]:
    """Arguments of `mngr transcript` for the last `limit` events."""
    return ("transcript", address, "--tail", str(limit), "--format", "json")


class Loaded(Protocol):
    """An mngr that is loaded once for many calls (`loaded.loaded_mngr`)."""

    def path(self) -> Path:
        """Return the program to run for one call."""
        ...


class Mngr:
    """One mngr program in one environment and folder. Agents are named by `Agent.address` only.

    `loaded`: makes its calls cheap, where there will be many.
    """

    def __init__(
        self, program: MngrProgram, environ: Mapping[str, str], cwd: Path, loaded: Loaded | None = None
    ) -> None:
        self.program = program
        self.loaded = loaded
        self.environ = dict(environ)
        self.cwd = cwd

    @property
    def default_socket(self) -> str:
        """The socket of the tmux server that mngr uses with TMUX unset."""
        return default_socket(self.environ)

    async def version(self) -> str:
        """Return its version: of its installed package, else by `--version`; once for each file.

        Raises ToolBrokenError if `--version` fails (as with 0.2.0 to 0.2.2), and other ToolErrors.
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
        """Return its version. Raises ToolBrokenError for one that is known not to work."""
        version = await self.version()
        refuse_broken(version, self.program)
        return version

    async def call(
        self, arguments: Sequence[str], *, timeout: float, text: str | None = None, tmux_socket: str | None = None
    ) -> Completed:
        """Run mngr with these arguments; `text` goes to its stdin, which is closed otherwise."""
        program = self.program.path if self.loaded is None else self.loaded.path()
        return await run_async(
            (program, *arguments), timeout=timeout, cwd=self.cwd,
            env=mngr_environment(self.environ, tmux_socket), input=text,
        )  # fmt: skip


def split_error(stderr: str) -> tuple[str, str]:
    """Split mngr's stderr into detail and hint: its last `Error: …  [hint]`, else its last lines without a hint.

    Of a traceback only the exception and the lines after it are returned.
    """
    found = [match for match in _ERROR_LINE.finditer(stderr) if match["text"].strip()]
    if not found:
        lines = stderr.strip().splitlines()
        if any(line.startswith("Traceback ") for line in lines):
            last_frame = max(number for number, line in enumerate(lines) if line.startswith(("  File ", "Traceback ")))
            lines = list(dropwhile(lambda line: line.startswith(" "), lines[last_frame + 1 :])) or lines
        return "\n".join(lines[-5:]), ""
    # The pattern matches to the end, so the last error is cut at its beginning.
    start = max(stderr.rfind("Error: "), stderr.rfind("ERROR: "))
    text = stderr[start + len("Error: ") :] if start >= 0 else found[-1]["text"]
    hint = _HINT.search(text)
    if hint is None:
        return text.strip(), ""
    return text[: hint.start()].strip(), hint["hint"].strip()


def answer_error(what: str, *, stderr: str, exit_status: int) -> ToolError:
    """Make the error for an mngr that ended without an answer: its own reason, else its exit status."""
    detail, hint = split_error(stderr)
    if exit_status > 0 and detail:
        return ToolFailedError(f"{what} failed", detail, hint, exit_status=exit_status, stderr=stderr)
    return ToolOutputError(
        f"{what} gave no answer", "\n".join(part for part in (f"It {how_ended(exit_status)}.", detail) if part), hint,
        exit_status=exit_status, stderr=stderr,
    )  # fmt: skip


def how_ended(exit_status: int) -> str:
    if exit_status >= 0:
        return f"ended with {exit_status}"
    try:
        return f"was ended by {signal.Signals(-exit_status).name}"
    except ValueError:
        return f"was ended by signal {-exit_status}"


class Act(StrEnum):
    """An action on an agent."""

    MESSAGE = "message"
    STOP = "stop"
    START = "start"
    DESTROY = "destroy"


DONE_WORD = {Act.MESSAGE: "sent", Act.STOP: "stopped", Act.START: "started", Act.DESTROY: "destroyed"}
_DONE_LIST = {
    Act.MESSAGE: "successful_agents",
    Act.STOP: "stopped_agents",
    Act.START: "started_agents",
    Act.DESTROY: "destroyed_agents",
}


class Answer(NamedTuple):
    """mngr's answer about one agent."""

    ok: bool
    text: str
    hint: str = ""


def read_answer(act: Act, text: str) -> dict[str, Answer] | None:
    """Parse mngr's answer by agent name; None if it is empty, truncated, or of another form."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get(_DONE_LIST[act]), list):
        return None
    leftovers = "; ".join(str(each.get("message", "")) for each in _objects(document, "failures"))
    done = Answer(True, DONE_WORD[act], f"mngr left something behind: {leftovers}" if leftovers else "")
    answers = {name: done for name in document[_DONE_LIST[act]] if isinstance(name, str)}
    for each in _objects(document, "blocked_agents"):
        words = f"sent, but a dialog blocks it: {each.get('error', '')}"
        answers[str(each.get("agent"))] = Answer(True, words, "Attach to it, and answer the dialog.")
    for each in _objects(document, "failed_agents"):
        error = str(each.get("error", ""))
        hint = "Start it, then send again." if "not running" in error else ""
        answers[str(each.get("agent"))] = Answer(False, error or "mngr failed without a reason", hint)
    return answers


def _objects(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    listed = document.get(name)
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
