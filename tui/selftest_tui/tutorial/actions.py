"""Actions of the tutorial screen: one method for each action of its key table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from selftest_core.actions.terminal import hand_over
from selftest_core.errors import RefusedError
from selftest_core.review.changes.inputs import Request
from selftest_core.run.store import find_run
from selftest_tui.fleet.messages import FleetWanted, ReplayWanted, ReviewWanted, RunWanted
from selftest_tui.run.failure import find_replay
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.editing import editor_of, plan_edit
from selftest_tui.shared.filtered import FilteredScreen
from selftest_tui.tutorial.keys import TutorialSituation
from selftest_tui.tutorial.view import FILTER, BlockLine, NoteLine, Section, StaleLine, TestLine, worst

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.store import RunFolder
    from selftest_tui.tutorial.feed import TutorialNews
    from selftest_tui.tutorial.table import TutorialTable
    from selftest_tui.tutorial.view import Result, TutorialView


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
            result=self._result,
        )

    @property
    def _result(self) -> Result | None:
        """The result of the test under the cursor, or the worst of the block's."""
        match self.table.line:
            case BlockLine(view):
                return view.result
            case TestLine(_, test):
                return worst(test.results)
            case _:
                return None

    def _run_folder(self) -> RunFolder:
        """Find the folder of the last run. Blocks. Raises UsageError if it is gone."""
        assert self.news is not None, "the key table lets this key through on results only"
        assert self.view is not None, "there is no result without a view"
        return find_run(self.environ, self.news.root, self.view.run)

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

    # to other screens

    async def do_run(self) -> None:
        """Open the last run on the test."""
        result = self._result
        assert result is not None, "the key table lets this key through on results only"
        self.post_message(RunWanted(await asyncio.to_thread(self._run_folder), result.agent))

    async def do_replay(self) -> None:
        """Play the recording of the test's agent."""
        result = self._result
        assert result is not None, "the key table lets this key through on results only"

        def find() -> ReplayWanted:
            folder = self._run_folder()
            return find_replay(folder, folder.read().rows[result.agent])

        self.post_message(await asyncio.to_thread(find))

    def do_review(self) -> None:
        """Open the review of the last run, on the last commit of the test's agent."""
        result = self._result
        assert result is not None, "the key table lets this key through on results only"
        assert self.view is not None, "there is no result without a view"
        self.post_message(ReviewWanted(Request(run=self.view.run), result.tip))

    def do_fleet(self) -> None:
        """Open the fleet, on the agent of the test."""
        result = self._result
        self.post_message(FleetWanted("" if result is None else result.agent_id))

    # the program

    def do_refresh(self) -> None:
        """Read the files again."""
        self.look_again()
        self.say("Reading the tutorial, the tests and the run again.", "Refresh")
