"""The player as a program of its own, for one recording: no fleet is watched, no mngr is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.command import CommandPalette
from textual.widgets import Input

from selftest_tui.app.colours import ColouredApp
from selftest_tui.app.hangup import ending_with_the_terminal
from selftest_tui.app.palette import Actions
from selftest_tui.replay.screen import ReplayScreen
from selftest_tui.shared import problems
from selftest_tui.shared.dialogs.help import Page, help_page
from selftest_tui.shared.keys import APP, BY_APP_ACTION, bindings_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from textual.binding import BindingType


class ReplayApp(ColouredApp):
    """Shows one recording; leaving it ends the program."""

    TITLE = "selftest-tui"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(APP)]

    def __init__(
        self, path: Path, environ: Mapping[str, str], *, at: float | None = None, title: str = "", theme: str = ""
    ) -> None:
        super().__init__(environ, theme)
        self.replay = ReplayScreen(path, environ, at=at, title=title)

    def on_mount(self) -> None:
        """Colours first, then the one screen."""
        self.apply_theme()
        self.push_screen(self.replay, lambda _: self.exit())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """ctrl+c belongs to a field of text."""
        if action == "press" and parameters == ("interrupt",):
            return not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_press(self, action: str) -> None:
        """A key that works everywhere was pressed."""
        if action == "leave" or (action == "interrupt" and self.screen is self.replay):
            self.exit()
        elif action == "interrupt":
            self.screen.dismiss(None)
        elif action == "help" and not isinstance(self.screen, Page):
            self.push_screen(help_page(self.replay.KEYS, self.replay.symbols()))
        elif action == "palette":
            self.push_screen(CommandPalette(providers=[Actions], placeholder="What shall be done?"))
        elif action == "theme":
            self.action_change_theme()
        elif action == "no_quit":
            self.replay.toast(problems.refusal("ctrl+q", f"It {BY_APP_ACTION['no_quit'].help}. q quits."))


def run_replay(path: Path, environ: Mapping[str, str], *, at: float | None, title: str, theme: str) -> int:
    """Show a recording until the person leaves."""
    app = ReplayApp(path, environ, at=at, title=title, theme=theme)
    with ending_with_the_terminal():
        app.run()
    return app.return_code or 0
