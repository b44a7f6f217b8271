"""A split screen that shows a part of its table: what passes the filter, only what is open, groups folded or not.

Base of the screens of run, review and tutorial. The fleet's table keeps an arrangement of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from selftest_tui.shared.filter import help_lines
from selftest_tui.shared.split import SplitScreen

if TYPE_CHECKING:
    from selftest_tui.shared.filter import Language
    from selftest_tui.shared.widgets.prompt import Prompt


class FilteredScreen(SplitScreen):
    """Screen with a filter. A subclass lays its lines out by `query_text`, `only_open` and `folded`."""

    FILTER: ClassVar[Language]
    query_text = ""
    only_open = False
    folded: frozenset[str] = frozenset()
    """Keys of folded groups."""

    def filter_forms(self) -> tuple[tuple[str, str], ...]:
        """Return the filter syntax of the table, for the help."""
        return help_lines(self.FILTER)

    # the prompt

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter while the user types."""
        if event.purpose == "filter":
            self.filter_by(event.text)

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Keep the filter."""
        self.leave_prompt()
        if event.purpose == "filter":
            self.filter_by(event.text)

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """Clear the filter."""
        self.leave_prompt()
        if event.purpose == "filter":
            self.filter_by("")

    # keys

    def filter_by(self, text: str) -> None:
        """Show only what passes this filter."""
        if text.strip() != self.query_text:
            self.query_text = text.strip()
            self.rearrange()

    def fold(self, group: Any, closed: bool) -> None:
        """Fold a group, or unfold it; the cursor moves to its title."""
        self.table.go_to_group()
        self.folded = self.folded | {group.key} if closed else self.folded - {group.key}
        self.rearrange()

    def do_filter(self) -> None:
        """Open the prompt with the present filter."""
        self.open_filter(self.FILTER, self.query_text)

    def do_only_needing(self) -> None:
        """Show only open lines, or all again."""
        self.only_open = not self.only_open
        self.rearrange()

    def do_back(self) -> None:
        """Close the zoomed pane, else clear the filter, else show all, else return to the screen below."""
        if self.is_zoomed:
            self.zoom(False)
        elif self.query_text:
            self.filter_by("")
        elif self.only_open:
            self.do_only_needing()
        else:
            self.app.pop_screen()
