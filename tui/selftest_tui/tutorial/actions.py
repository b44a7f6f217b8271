"""Actions of the tutorial screen: one method for each action of its key table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from selftest_core.actions.terminal import hand_over
from selftest_core.errors import RefusedError
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.editing import editor_of, plan_edit
from selftest_tui.shared.filter import help_lines
from selftest_tui.shared.split import SplitScreen
from selftest_tui.tutorial.keys import TutorialSituation
from selftest_tui.tutorial.view import FILTER, BlockLine, Layout, NoteLine, Section, StaleLine, TestLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_tui.shared.widgets.prompt import Prompt
    from selftest_tui.tutorial.feed import TutorialNews
    from selftest_tui.tutorial.table import TutorialTable
    from selftest_tui.tutorial.view import TutorialView


class TutorialActions(SplitScreen):
    """The key actions of the tutorial screen; `TutorialScreen` shows the rest."""

    table: TutorialTable
    environ: Mapping[str, str]
    view: TutorialView | None
    news: TutorialNews | None
    layout_of_lines = Layout()

    def lay_out_by(self, how: Layout) -> None:
        """Lay the lines out with other options."""
        raise NotImplementedError

    def look_again(self) -> None:
        """Read the files now."""
        raise NotImplementedError

    def situation(self) -> TutorialSituation:
        """The state that decides which keys are disabled."""
        return TutorialSituation(
            line=self.table.line,
            opens=self.view.uncited + self.view.stale if self.view is not None else 0,
            problems=len(self.problems) + len(self.said),
            pane_is_open=self.pane_is_open,
            editor=editor_of(self.environ),
        )

    def filter_forms(self) -> tuple[tuple[str, str], ...]:
        """Return the filter syntax of the tutorial's table, for the help."""
        return help_lines(FILTER)

    # the prompt

    def filter_by(self, query: str) -> None:
        """Show only matching lines."""
        self.lay_out_by(replace(self.layout_of_lines, query=query.strip()))

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter while the user types."""
        self.filter_by(event.text)

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Keep the filter."""
        self.leave_prompt()
        self.filter_by(event.text)

    def on_prompt_cancelled(self) -> None:
        """Clear the filter."""
        self.leave_prompt()
        self.filter_by("")

    # moving

    def do_next_needing(self) -> None:
        """Move to the next uncited block or stale citation."""
        self._go_to_open(1)

    def do_previous_needing(self) -> None:
        """Move to the previous uncited block or stale citation."""
        self._go_to_open(-1)

    def _go_to_open(self, step: int) -> None:
        if not self.table.go_to_open(step):
            raise RefusedError("Nothing that is shown is open", "", "esc clears the filter; → opens a closed section.")

    def fold(self, group: Section, closed: bool) -> None:
        """Fold or unfold a section; the cursor moves to its title."""
        self.table.go_to_group()
        how = self.layout_of_lines
        folded = how.folded | {group.title} if closed else how.folded - {group.title}
        self.lay_out_by(replace(how, folded=folded))

    # finding

    def do_filter(self) -> None:
        """Open the prompt with the current filter."""
        self.open_filter(FILTER, self.layout_of_lines.query)

    def do_only_needing(self) -> None:
        """Show only open lines, or all again."""
        how = self.layout_of_lines
        self.lay_out_by(replace(how, only_open=not how.only_open))

    def do_sort(self) -> None:
        """Sort open lines first, or all in the order of the file."""
        how = self.layout_of_lines
        self.lay_out_by(replace(how, open_first=not how.open_first, only_open=False))

    # looking

    def do_open(self) -> None:
        """Zoom the right pane, or unzoom it; fold or unfold a section."""
        line = self.table.line
        if isinstance(line, Section):
            self.fold(line, not line.is_folded)
        else:
            self.do_zoom()

    # acting

    def do_copy(self) -> None:
        """Copy the block's text, or the test's id."""
        match self.table.line:
            case BlockLine(view):
                self.app.copy_to_clipboard(view.block.text)
                self.say(view.block.text.splitlines()[0], "Copied the block")
            case TestLine(_, test):
                self.app.copy_to_clipboard(test.node_id)
                self.say(present.clean(test.node_id), "Copied")
            case StaleLine(_, stale):
                self.app.copy_to_clipboard(stale.citation.test)
                self.say(present.clean(stale.citation.test), "Copied")
            case _:
                return

    def do_edit(self) -> None:
        """Open the tutorial or the test at this line in the user's editor."""
        news = self.news
        if news is None:
            return
        match self.table.line:
            case BlockLine(view):
                path, line = news.tutorial, view.block.line
            case TestLine(_, test):
                path, line = news.root / test.path, test.line
            case StaleLine(_, stale):
                path, line = news.root / stale.citation.path, stale.citation.line
            case NoteLine(_, note):
                path, line = news.tutorial if note.path is None else news.root / note.path, note.line
            case _:
                return
        plan = plan_edit(path, line, self.environ)
        try:
            with self.app.suspend():
                end = hand_over(plan)
        except SuspendNotSupported as error:
            raise RefusedError("The terminal cannot be handed over here", str(error)) from error
        self.look_again()
        if end.exit_status:
            self.say(end.text, "The editor", "warning")

    # the program

    def do_back(self) -> None:
        """Close the zoomed pane, else clear the filter, else show all, else return to the fleet."""
        if self.is_zoomed:
            self.zoom(False)
        elif self.layout_of_lines.query:
            self.filter_by("")
        elif self.layout_of_lines.only_open:
            self.do_only_needing()
        else:
            self.do_fleet()

    def do_fleet(self) -> None:
        """Return to the fleet."""
        self.dismiss(None)

    def do_refresh(self) -> None:
        """Read the files again."""
        self.look_again()
        self.say("Reading the tutorial, the tests and the run again.", "Refresh")
