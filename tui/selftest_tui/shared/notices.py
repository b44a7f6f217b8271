"""Notifications to the user at this terminal: its bell, its desktop notification (OSC 9 or 777), their own command.

`fleet.notifications` decides what is due. Texts of agents reach the terminal without their escapes, and the command
only in its environment, where no shell parses them:

    SELFTEST_SAYS     one line for people            SELFTEST_REASON    what the agents need
    SELFTEST_AGENTS   their names, one a line          SELFTEST_COUNT     how many they are
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.fleet.notifications import Announced, Notification, due, see

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.config import Notify
    from selftest_core.fleet.view import FleetView

_DEADLINE = 30.0
_TITLE = "selftest-tui"
# These print the text of an unknown control string.
_TERMINALS_WITHOUT = ("linux", "dumb", "cons25")


class Notices:
    """Announces agents that need the user. `write` sends text to the terminal; `complain` gets errors in words."""

    def __init__(
        self,
        how: Notify,
        command: str,
        environ: Mapping[str, str],
        folder: Path,
        write: Callable[[str], None],
        complain: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._how = how
        self._command = command
        self._environ = dict(environ)
        self._folder = folder
        self._write = write
        self._complain = complain
        self._clock = clock
        self._announced = Announced()

    def see(self, view: FleetView) -> None:
        """Announce what is new in a view."""
        self._announced = see(self._announced, view)
        self.look(view)

    def look(self, view: FleetView) -> None:
        """Announce what was held back, once its minute is over."""
        if self._announced.open:
            self._announced, made = due(self._announced, view, self._clock())
            for notification in made:
                self._announce(notification)

    def _announce(self, notification: Notification) -> None:
        data = "\a" if self._how in ("both", "bell") else ""
        if self._how in ("both", "osc9"):
            data += desktop_notification(notification.line, self._environ)
        if data:
            self._write(data)
        if self._command.strip():
            threading.Thread(target=self._run, args=(notification,), name="notify_command", daemon=True).start()

    def _run(self, notification: Notification) -> None:
        from selftest_core.tools import process  # not needed for the first frame

        values = {
            "SELFTEST_SAYS": notification.line,
            "SELFTEST_REASON": notification.reason.replace("\0", " "),
            "SELFTEST_AGENTS": "\n".join(notification.names).replace("\0", " "),
            "SELFTEST_COUNT": str(len(notification.names)),
        }
        argv = ("/bin/sh", "-c", self._command)
        try:
            done = process.run(argv, timeout=_DEADLINE, cwd=self._folder, env={**self._environ, **values})
        except SelftestError as error:
            self._complain(f"notify_command: {error.title}")
            return
        if not done.ok:
            self._complain(f"notify_command ended with {done.exit_status}: {done.stderr_end}".rstrip(": "))


def desktop_notification(text: str, environ: Mapping[str, str]) -> str:
    """The control string that shows a text on the desktop; empty if the terminal might print it instead.

    Inside tmux it is wrapped, so that tmux passes it on where `allow-passthrough` is on, and drops it elsewhere.
    """
    term = environ.get("TERM", "")
    if term in ("", *_TERMINALS_WITHOUT) or environ.get("STY"):
        return ""
    plain = "".join(letter for letter in text if letter.isprintable())
    if term.startswith("rxvt") or environ.get("VTE_VERSION"):
        data = f"\x1b]777;notify;{_TITLE};{plain.replace(';', ',')}\x1b\\"
    else:
        data = f"\x1b]9;{_TITLE}: {plain}\x1b\\"
    return f"\x1bPtmux;{data.replace('\x1b', '\x1b\x1b')}\x1b\\" if environ.get("TMUX") else data
