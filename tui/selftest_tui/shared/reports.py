"""Reports of runs and reviews, for screens: written by a process of their own, and opened in the browser.

Writing one reads all branches again, which would make a screen stutter; so `selftest-tui report` does it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, ToolFailedError
from selftest_core.tools.process import run_async, spawn
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.tools.process import Running

INDEX = Path("report") / "index.html"
"""The first page, in the folder of a run or a review."""
SECONDS_AT_REST = 10.0
"""After the last act of a review until its report is written again."""
_TIMEOUT = 600.0
_FACTS = ("review.jsonl", "verification.json")
"""The files of a review that its report shows, and that change while its screen is open."""


async def write_report(home: Path, cwd: Path, environ: Mapping[str, str]) -> Path:
    """Write the report of the run or review in the folder `home`; return its first page. Raises SelftestError."""
    done = await run_async((*_program(home), "--batch"), timeout=_TIMEOUT, cwd=cwd, env=dict(environ))
    try:
        said = json.loads(done.stdout.splitlines()[-1])
        if "path" in said:
            return Path(said["path"])
        raise SelftestError(str(said["title"]), str(said["detail"]), str(said["hint"]))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise ToolFailedError("The report could not be written", done.stderr_end, argv=done.argv) from error


def open_page(page: Path, environ: Mapping[str, str]) -> bool:
    """Open a page in the user's browser; False where there is none."""
    command = browser_command(page.as_uri(), environ)
    if not command:
        return False
    try:
        spawn(command, cwd=page.parent, env=dict(environ))
    except SelftestError:
        return False
    return True


def show_page(page: Path, environ: Mapping[str, str]) -> str:
    """Open a page in the user's browser, and return what to say: where it is."""
    where = clean(str(page))
    return where if open_page(page, environ) else f"No browser was found. Open {where}"


def browser_command(address: str, environ: Mapping[str, str]) -> list[str]:
    """Return the command that opens an address: BROWSER, else that of the desktop; empty without one.

    Never a browser that would take over this terminal, as the module `webbrowser` may find.
    """
    chosen = environ.get("BROWSER", "").split(os.pathsep)[0]
    if chosen:
        words = shlex.split(chosen)
        return [word.replace("%s", address) for word in words] if "%s" in chosen else [*words, address]
    if sys.platform == "darwin":
        return ["open", address]
    opener = shutil.which("xdg-open", path=environ.get("PATH"))
    has_desktop = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return [opener, address] if opener is not None and has_desktop else []


class ReportRenewal:
    """Renews the report of one open review in the background, some time after its last act. Never fails an act."""

    def __init__(self, home: Path, cwd: Path, environ: Mapping[str, str]) -> None:
        self._home, self._cwd, self._environ = home, cwd, environ
        self._running: Running | None = None
        self._tried = 0.0

    def look(self, *, must: bool = False, is_at_rest: bool = False) -> None:
        """Start writing where the review changed since. `must`: also where there is no report yet, and at once.

        `is_at_rest`: nothing follows, so do not wait.
        """
        if self._running is not None and self._running.poll() is None:
            return
        written, changed = _time(self._home / INDEX), max(_time(self._home / name) for name in _FACTS)
        is_due = written and changed > max(written, self._tried)
        if not must and not (is_due and (is_at_rest or time.time() - changed >= SECONDS_AT_REST)):
            return
        self._tried = changed
        try:
            self._running = spawn(_program(self._home), cwd=self._cwd, env=dict(self._environ))
        except SelftestError:
            self._running = None  # the key says why it cannot be started


def _program(home: Path) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "selftest_tui", "report", str(home))


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
