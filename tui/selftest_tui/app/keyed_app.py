"""The keys that work on every screen: help, palette, colours, quit. The base of both apps, with their frame rate."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

import textual.screen

from selftest_tui.app.colours import ColouredApp
from selftest_tui.shared import problems
from selftest_tui.shared.keys import APP, BY_APP_ACTION, bindings_of, choose_keys, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.binding import BindingType

    from selftest_core.config import Config
    from selftest_tui.shared.keyed import KeyedScreen


MOST_WRONG = 5
"""Wrong keys that a message names."""
FRAMES = 240
"""Frames per second at most. After a frame that followed a pause Textual waits one to two periods for the next: at its
own 60 a key that comes then is seen 33 ms later, and the branch that it changes after 33 more. Nothing is painted more
often by that: there is a frame only where something has changed."""

if "TEXTUAL_FPS" not in os.environ:  # the user's choice; if it were set here, agents would inherit it
    textual.screen.UPDATE_PERIOD = 1 / FRAMES  # type: ignore[misc]  # Final, but read for each screen


class KeyedApp(ColouredApp):
    """Runs the keys of the table APP."""

    TITLE = "selftest-tui"
    # The palette is opened by a row of the key table, without the priority that would take ctrl+p from an agent.
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(APP, "app")]

    def __init__(self, environ: Mapping[str, str], theme_setting: str, config: Config | None = None) -> None:
        super().__init__(environ, theme_setting)
        self.settings = config
        self._wrong_keys: tuple[str, ...] = ()
        if config is not None and config.keys:
            from selftest_tui.app.rebinding import chosen_keys  # not needed without a choice

            chosen = chosen_keys(config)
            self._wrong_keys = chosen.wrong
            choose_keys(chosen.rows)
            self.set_keymap(chosen.keymap)
        else:
            choose_keys({})

    def tell_of_wrong_keys(self) -> None:
        """Show a message that the settings of keys are wrong, if they are."""
        if self._wrong_keys:
            shown, more = self._wrong_keys[:MOST_WRONG], len(self._wrong_keys) - MOST_WRONG
            says = "\n".join((*shown, *([f"… and {more} more."] if more > 0 else []), "So no key is changed."))
            self.main_screen.say(says, "The keys of the settings are not used", "warning")

    @property
    def main_screen(self) -> KeyedScreen:
        """The topmost screen that is not a dialog."""
        raise NotImplementedError

    def leave(self) -> None:
        """Quit."""
        self.exit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave ctrl+c to a text field, which copies with it, and to an agent that is typed into."""
        if action == "press" and parameters == ("interrupt",):
            return not (self.main_screen.is_typing or hasattr(self.focused, "action_copy"))
        return super().check_action(action, parameters)

    def action_press(self, action: str) -> None:
        """Run a key of every screen."""
        main, top = self.main_screen, self.screen
        if action == "leave" or (action == "interrupt" and top is main):
            self.leave()
        elif action == "interrupt":
            top.dismiss(None)
        elif action == "help":
            self._help(main)
        elif action == "palette":
            self._palette()
        elif action == "theme":
            self.action_change_theme()
        elif action == "no_quit":
            main.toast(
                problems.refusal("ctrl+q", f"It {BY_APP_ACTION['no_quit'].help}. {shown('app.leave', 'q')} quits.")
            )
        if BY_APP_ACTION[action].opens and self.screen is not top:
            self.hold_keys(top, None, top.focused)

    def _help(self, main: KeyedScreen) -> None:
        from selftest_tui.shared.dialogs.help import Page, help_page  # not needed for the first frame

        if not isinstance(self.screen, Page):
            self.push_screen(help_page(main.KEYS, main.symbols(), main.filter_forms()))

    def _palette(self) -> None:
        from textual.command import CommandPalette

        from selftest_tui.app.palette import Actions

        self.push_screen(CommandPalette(providers=[Actions], placeholder="Search for an action"))
