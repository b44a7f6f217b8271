"""Recording of tmux sessions by name, for `selftest-tui record`: one collector for each server.

It waits until all sessions have ended, or until it is stopped. Each session gets a new file; no file is replaced. It
must not start a server, and it leaves every session unchanged.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, ToolFailedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.tools import process
from selftest_core.tools.tmux import Tmux, require_tmux, sockets_of
from selftest_recorder.onhost.__main__ import PATTERNS
from selftest_recorder.onhost.masking import USUAL_PATTERNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from selftest_core.tools.process import Running

AGENT_PREFIX = "mngr-"
_LOOK_AGAIN = 0.1
_PATIENCE = 60.0
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Target:
    """A session to record, and its file, which does not exist yet."""

    session: str
    socket: str
    file: Path


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result for one session: `size` in bytes; 0 if nothing was recorded, and `says` the reason."""

    target: Target
    size: int
    says: str = ""


def find_targets(
    names: Sequence[str], folder: Path, environ: Mapping[str, str], sockets: Sequence[str] = ()
) -> tuple[Target, ...]:
    """Find sessions by name on all tmux servers of this user; the name of an agent stands for its session.

    Raises ToolMissingError without tmux; UsageError for an unknown name, with the nearest one, or for a name that
    several servers have.
    """
    require_tmux(environ)
    there: dict[str, list[str]] = {}
    for socket in sockets_of(environ, sockets):
        done = None
        with contextlib.suppress(SelftestError):
            done = Tmux(socket, environ).ask("list-sessions", "-F", "#{session_name}")
        for session in done.stdout.splitlines() if done is not None and done.ok else ():
            there.setdefault(session, []).append(socket)
    found: list[Target] = []
    for name in dict.fromkeys(names):
        session = name if name in there else f"{AGENT_PREFIX}{name}"
        if session not in there:
            near = difflib.get_close_matches(name, [*there, *(one.removeprefix(AGENT_PREFIX) for one in there)], n=1)
            hint = f"Did you mean {near[0]}?" if near else "`selftest-tui list` shows the sessions."
            raise UsageError(f"There is no tmux session {name!r}", "", hint)
        if len(there[session]) > 1:
            hint = "Name the server's socket with TMUX_TMPDIR, or rename one of them."
            raise UsageError(f"Several tmux servers have a session {session!r}", ", ".join(there[session]), hint)
        found.append(Target(session, there[session][0], _free(folder, session, [one.file for one in found])))
    return tuple(found)


def _free(folder: Path, session: str, taken: Sequence[Path]) -> Path:
    """Return a free file name, made from the name of the session."""
    stem = _UNSAFE.sub("-", session).strip("-.") or "session"
    number = 1
    while (path := folder / f"{stem}{'' if number == 1 else f'-{number}'}.cast").exists() or path in taken:
        number += 1
    return path


def record_sessions(
    targets: Sequence[Target],
    environ: Mapping[str, str],
    masked: Sequence[str],
    patterns: Sequence[str],
    is_stopped: Callable[[], bool],
) -> tuple[Recorded, ...]:
    """Record until the sessions have ended, or `is_stopped` returns True (called ten times a second).

    `masked`: variables of `environ` whose values are masked. Raises ToolError if no recorder can be started.
    """
    with _a_place() as place:
        collectors = []
        for number, socket in enumerate(dict.fromkeys(one.socket for one in targets)):
            own = [one for one in targets if one.socket == socket]
            collectors.append(_start(place / str(number), socket, own, environ, masked, patterns))
        try:
            while any(one.poll() is None for one in collectors) and not is_stopped():
                time.sleep(_LOOK_AGAIN)  # collectors are processes of their own, and a stop comes from anywhere
        finally:
            for orders in place.glob("*/orders"):
                with orders.open("ab") as file:
                    file.write(b'{"do": "end"}\n')
            deadline = time.monotonic() + _PATIENCE
            for one in collectors:
                with contextlib.suppress(SelftestError):
                    one.wait(max(deadline - time.monotonic(), 0.1))
                one.end()
        said = [line for log in place.glob("*/log") for line in log.read_text(errors="replace").splitlines()]
    return tuple(_recorded(target, said) for target in targets)


def _recorded(target: Target, said: Sequence[str]) -> Recorded:
    about = f"{target.session}: "
    says = next((line.removeprefix(about) for line in said if line.startswith(about)), "")
    try:
        return Recorded(target, target.file.stat().st_size, says)
    except FileNotFoundError:
        return Recorded(target, 0, says or "it ended before it could be recorded")


def _start(
    place: Path, socket: str, targets: Sequence[Target], environ: Mapping[str, str],
    masked: Sequence[str], patterns: Sequence[str],
) -> Running:  # fmt: skip
    place.mkdir()
    orders = place / "orders"
    lines = [
        {"do": "record", "name": one.session, "file": str(one.file), "session": one.session, "title": one.session}
        for one in targets
    ]
    orders.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    argv = [
        sys.executable, "-P", "-m", "selftest_recorder.onhost", "--socket", socket, "--orders", str(orders),
        "--fifos", str(place / "fifos"), *(word for name in masked for word in ("--mask", name)),
    ]  # fmt: skip
    own = {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}
    own[PATTERNS] = json.dumps([*USUAL_PATTERNS, *patterns])
    return process.spawn(argv, cwd=Path("/"), env=own, output=place / "log")


@contextlib.contextmanager
def _a_place() -> Iterator[Path]:
    """Create a folder for orders and FIFOs, and remove it at the end."""
    place = Path(tempfile.mkdtemp(prefix="selftest-record-"))
    try:
        yield place
    except OSError as error:
        raise ToolFailedError("The recorder could not be started", error.strerror or str(error)) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
