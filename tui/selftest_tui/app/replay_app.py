"""The app of `selftest-tui replay`: one recording, without a fleet and without mngr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.app.hangup import ending_with_the_terminal
from selftest_tui.app.keyed_app import KeyedApp
from selftest_tui.replay.screen import ReplayScreen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_tui.shared.keyed import KeyedScreen


class ReplayApp(KeyedApp):
    """Shows one recording; leaving it ends the program."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        *,
        at: float | None = None,
        title: str = "",
        theme: str = "",
        is_ended: bool = False,
        config: Config | None = None,
    ) -> None:
        super().__init__(environ, theme, config)
        self.replay = ReplayScreen(path, environ, at=at, title=title, is_ended=is_ended)

    def on_mount(self) -> None:
        """Apply the theme, then open the screen."""
        self.apply_theme()
        self.push_screen(self.replay, lambda _: self.exit())
        self.tell_of_wrong_keys()

    @property
    def main_screen(self) -> KeyedScreen:
        """The player."""
        return self.replay


def run_replay(
    path: Path, environ: Mapping[str, str], *, at: float | None, title: str, config: Config, is_ended: bool
) -> int:
    """Show a recording until the user leaves; return the exit status. `is_ended`: nothing is added to it."""
    app = ReplayApp(path, environ, at=at, title=title, theme=config.theme, is_ended=is_ended, config=config)
    with ending_with_the_terminal():
        app.run()
    return app.return_code or 0
