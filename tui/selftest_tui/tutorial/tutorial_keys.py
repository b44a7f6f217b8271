"""What each key of the tutorial's screen does: one method for each action of its key table, named as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from selftest_core.actions.terminal import hand_over
from selftest_core.errors import RefusedError
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.editing import plan_edit
from selftest_tui.shared.table_moves import TableMoves
from selftest_tui.tutorial.view import FILTER, BlockLine, NoteLine, Section, StaleLine, TestLine

if TYPE_CHECKING:
    from selftest_tui.tutorial.screen import TutorialScreen


class TutorialKeys(TableMoves):
    """The acts behind the keys of one tutorial's screen."""

    _screen: TutorialScreen

    # moving

    def next_needing(self) -> None:
        """To the next uncited block or stale citation."""
        self._go_to_open(1)

    def previous_needing(self) -> None:
        """To the one before."""
        self._go_to_open(-1)

    def _go_to_open(self, step: int) -> None:
        if not self._screen.table.go_to_open(step):
            raise RefusedError("Nothing that is shown is open", "", "esc clears the filter; → opens a closed section.")

    def fold(self, group: Section, closed: bool) -> None:
        """Fold a section, or unfold it; the cursor goes to its title."""
        self._screen.table.go_to_group()
        how = self._screen.layout_of_lines
        folded = how.folded | {group.title} if closed else how.folded - {group.title}
        self._screen.lay_out_by(replace(how, folded=folded))

    # finding

    def filter(self) -> None:
        """Open the prompt with the filter that holds."""
        self._screen.open_filter(FILTER, self._screen.layout_of_lines.query)

    def only_needing(self) -> None:
        """Only what is open, or all again."""
        how = self._screen.layout_of_lines
        self._screen.lay_out_by(replace(how, only_open=not how.only_open))

    def sort(self) -> None:
        """What is open first, or everything in the order of the file."""
        how = self._screen.layout_of_lines
        self._screen.lay_out_by(replace(how, open_first=not how.open_first, only_open=False))

    # looking

    def open(self) -> None:
        """The right pane over all, or back; a section opens or closes."""
        line = self._screen.table.line
        if isinstance(line, Section):
            self.fold(line, not line.is_folded)
        else:
            self.zoom()

    # acting

    def copy(self) -> None:
        """Copy the block's text, or the test's id."""
        screen = self._screen
        match screen.table.line:
            case BlockLine(view):
                screen.app.copy_to_clipboard(view.block.text)
                screen.say(view.block.text.splitlines()[0], "Copied the block")
            case TestLine(_, test):
                screen.app.copy_to_clipboard(test.node_id)
                screen.say(present.clean(test.node_id), "Copied")
            case StaleLine(_, stale):
                screen.app.copy_to_clipboard(stale.citation.test)
                screen.say(present.clean(stale.citation.test), "Copied")
            case _:
                return

    def edit(self) -> None:
        """Open the tutorial or the test at this line in the person's editor."""
        screen, news = self._screen, self._screen.news
        if news is None:
            return
        match screen.table.line:
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
        plan = plan_edit(path, line, screen.environ)
        try:
            with screen.app.suspend():
                end = hand_over(plan)
        except SuspendNotSupported as error:
            raise RefusedError("The terminal cannot be handed over here", str(error)) from error
        screen.look_again()
        if end.exit_status:
            screen.say(end.says, "The editor", "warning")

    # the program

    def back(self) -> None:
        """Peel off one layer: the zoomed pane, the filter, the restriction; then back to the fleet."""
        screen = self._screen
        if screen.is_zoomed:
            screen.zoom(False)
        elif screen.layout_of_lines.query:
            screen.filter_by("")
        elif screen.layout_of_lines.only_open:
            self.only_needing()
        else:
            self.fleet()

    def fleet(self) -> None:
        """Back to the fleet."""
        self._screen.dismiss(None)

    def refresh(self) -> None:
        """Read the files again."""
        self._screen.look_again()
        self._screen.say("Reading the tutorial, the tests and the run again.", "Refresh")
