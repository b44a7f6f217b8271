"""A main screen with a table on the left and a pane on the right, which lies over the table on narrow terminals.

What the screens of the fleet, of a run and of a review share: when the pane is on the screen, the line at the bottom
that is typed into, the banner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.shared.filter import problem_of
from selftest_tui.shared.keyed import KeyedScreen

if TYPE_CHECKING:
    from typing import Any, Protocol

    from textual import events

    from selftest_core.fleet.view import Problem
    from selftest_tui.shared.filter import Language
    from selftest_tui.shared.widgets.cursor_table import CursorTable
    from selftest_tui.shared.widgets.prompt import Prompt

    class Pane(Protocol):
        """What lies on the right."""

        def scroll_text(self, lines: int) -> None: ...


NARROW = 100
"""Columns below which the right pane is a key away."""


class SplitScreen(KeyedScreen):
    """Has a table, a pane and a prompt once it is mounted."""

    table: CursorTable[Any]
    pane: Pane
    prompt: Prompt

    def show_frame(self) -> None:
        """Say in the frame what is shown, and in the key line what works now."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that does not work right now, the gravest first."""
        raise NotImplementedError

    @property
    def field(self) -> Prompt:
        """What is typed behind a key that opens the prompt is for it."""
        return self.prompt

    def open_prompt(self, purpose: str, sign: str, hint: str, text: str = "") -> None:
        """Open the prompt in place of the key line."""
        self.add_class("-asking")
        self.prompt.ask(purpose, sign, hint, text)

    def open_filter(self, language: Language, text: str) -> None:
        """Open the prompt with the filter that holds; it shows what it cannot understand while it is typed."""
        self.open_prompt("filter", "/", "⏎ keep  esc clear", text)
        self.prompt.check(lambda query: problem_of(query, language))

    # the right pane

    @property
    def is_narrow(self) -> bool:
        """The right pane lies over the table, or is closed."""
        return self.has_class("-narrow")

    @property
    def is_zoomed(self) -> bool:
        """The right pane covers the table."""
        return self.has_class("-zoomed")

    @property
    def pane_is_open(self) -> bool:
        """The right pane is on the screen."""
        return self.is_zoomed or not self.is_narrow

    def zoom(self, on: bool) -> None:
        """The right pane over the table, or beside it (on narrow terminals: away)."""
        self.set_class(on, "-zoomed")
        self.show_frame()

    def on_resize(self, event: events.Resize) -> None:
        """Narrow terminals are one class."""
        self.set_class(event.size.width < NARROW, "-narrow")

    def on_banner_clicked(self) -> None:
        """All problems."""
        self.action_press("problems")
