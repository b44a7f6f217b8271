"""Actions of the tutorial screen: one method for each action of its key table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from selftest_core.actions.terminal import hand_over
from selftest_core.errors import RefusedError
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.editing import editor_of, plan_edit
from selftest_tui.shared.filtered import FilteredScreen
from selftest_tui.tutorial.keys import TutorialSituation
from selftest_tui.tutorial.view import FILTER, BlockLine, NoteLine, Section, StaleLine, TestLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_tui.tutorial.feed import TutorialNews
    from selftest_tui.tutorial.table import TutorialTable
    from selftest_tui.tutorial.view import TutorialView


class TutorialActions(FilteredScreen):
    """The key actions of the tutorial screen; `TutorialScreen` shows the rest."""

    FILTER = FILTER

    table: TutorialTable
    environ: Mapping[str, str]
    view: TutorialView | None
    news: TutorialNews | None
    open_first = True

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

    def do_sort(self) -> None:
        """Sort open lines first, or all in the order of the file."""
        self.open_first, self.only_open = not self.open_first, False
        self.rearrange()

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

    def do_fleet(self) -> None:
        """Return to the fleet."""
        self.dismiss(None)

    def do_refresh(self) -> None:
        """Read the files again."""
        self.look_again()
        self.say("Reading the tutorial, the tests and the run again.", "Refresh")
