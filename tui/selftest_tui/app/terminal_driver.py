"""Textual's terminal driver, which starts its input thread only once.

Textual starts the application mode again at every SIGCONT. A closing terminal sends SIGHUP and SIGCONT, so a second
input thread was started, even after the end of the app: nothing ended it, and a thread that reads a closed terminal
uses a whole core. Here a start while the mode is on, or once the app is ending, does nothing.
"""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """LinuxDriver with a guarded start."""

    def start_application_mode(self) -> None:
        """Take the terminal, unless it is taken already or the app is ending."""
        is_on = self._key_thread is not None and self._key_thread.is_alive()
        if not is_on and self._app.is_running:
            super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual leaves it untyped
