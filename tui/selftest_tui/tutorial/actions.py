"""Actions of the tutorial screen: one method for each action of its key table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from selftest_core.actions.terminal import hand_over
from selftest_core.errors import RefusedError
from selftest_core.review.changes.inputs import Request
from selftest_tui.fleet.messages import FleetWanted, ReplayWanted, ReviewWanted, RunWanted
from selftest_tui.run.failure import find_replay
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.editing import editor_of, plan_edit
from selftest_tui.shared.keys import shown
from selftest_tui.tutorial.drafting import DraftActions
from selftest_tui.tutorial.keys import TutorialSituation
from selftest_tui.tutorial.lines import command_of
from selftest_tui.tutorial.results import worst
from selftest_tui.tutorial.view import (
    FILTER,
    BlockLine,
    DrafterLine,
    NoteLine,
    OfferedLine,
    ProposalLine,
    Section,
    StaleLine,
    TestLine,
    WriterLine,
)

if TYPE_CHECKING:
    from selftest_tui.tutorial.results import Result


class TutorialActions(DraftActions):
    """The other key actions of the tutorial screen; `TutorialScreen` shows the rest."""

    FILTER = FILTER

    open_first = True

    def situation(self) -> TutorialSituation:
        """The state that decides which keys are disabled."""
        view, draft = self.view, self.draft
        gaps = view.uncited + view.stale if view is not None else 0
        return TutorialSituation(
            line=self.table.line,
            opens=gaps + (draft.open if draft is not None else 0),
            problems=len(self.problems) + len(self.said),
            pane_is_open=self.pane_is_open,
            editor=editor_of(self.environ),
            result=self._result,
            gaps=gaps,
            headings=len(view.headings) if view is not None else 0,
            targets=self.targets,
            draft=draft,
            is_deciding=not self._acts.is_idle,
            is_preparing=self.is_preparing,
        )

    @property
    def _result(self) -> Result | None:
        """The result of the test under the cursor, or the worst of the block's."""
        match self.table.line:
            case BlockLine(view):
                return view.result
            case TestLine(_, test):
                return worst(test.results)
            case WriterLine(_, result) | OfferedLine(_, result, _):
                return result
            case DrafterLine(heading) | ProposalLine(heading, _):
                return heading.agent
            case _:
                return None

    # moving

    def do_next_needing(self) -> None:
        """Move to the next uncited block or stale citation."""
        self._go_to_open(1)

    def do_previous_needing(self) -> None:
        """Move to the previous uncited block or stale citation."""
        self._go_to_open(-1)

    def _go_to_open(self, step: int) -> None:
        if not self.table.go_to_open(step):
            raise RefusedError(
                "Nothing that is shown is open",
                "",
                f"{shown('tutorial.back', 'esc')} clears the filter; "
                f"{shown('tutorial.open_group', '→')} opens a closed section.",
            )

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
            case BlockLine(view) | WriterLine(view, _) | OfferedLine(view, _, _):
                self.app.copy_to_clipboard(view.block.text)
                self.say(view.block.text.splitlines()[0], "Copied the block")
            case ProposalLine(_, proposal):
                self.app.copy_to_clipboard(proposal.text or proposal.block.base)
                self.say(present.clean(command_of(proposal.text or proposal.block.base)), "Copied the block")
            case TestLine(_, test):
                self.app.copy_to_clipboard(test.node_id)
                self.say(present.clean(test.node_id), "Copied")
            case StaleLine(_, stale):
                self.app.copy_to_clipboard(stale.citation.test)
                self.say(present.clean(stale.citation.test), "Copied")
            case _:
                return

    def do_edit(self) -> object:
        """Open the tutorial or the test at this line in the user's editor, or edit the proposed block."""
        if isinstance(self.table.line, ProposalLine):
            return self.edit_proposal(self.table.line.proposal)
        self._open_editor()
        return None

    def _open_editor(self) -> None:
        news = self.news
        if news is None:
            return
        match self.table.line:
            case BlockLine(view) | WriterLine(view, _) | OfferedLine(view, _, _):
                path, line = news.tutorial, view.block.line
            case TestLine(_, test):
                path, line = news.root / test.path, test.line
            case StaleLine(_, stale):
                path, line = news.root / stale.citation.path, stale.citation.line
            case DrafterLine(heading):
                path, line = news.tutorial, max(1, heading.line)
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
        self.post_message(RunWanted(await asyncio.to_thread(self.run_folder, result.run), result.agent))

    async def do_replay(self) -> None:
        """Play the recording of the test's agent."""
        result = self._result
        assert result is not None, "the key table lets this key through on results only"

        def find() -> ReplayWanted:
            folder = self.run_folder(result.run)
            return find_replay(folder, folder.read().rows[result.agent])

        self.post_message(await asyncio.to_thread(find))

    def do_review(self) -> None:
        """Open the review of the last run, on the last commit of the test's agent."""
        result = self._result
        assert result is not None, "the key table lets this key through on results only"
        self.post_message(ReviewWanted(Request(run=result.run), result.tip))

    def do_fleet(self) -> None:
        """Open the fleet, on the agent of the test."""
        result = self._result
        self.post_message(FleetWanted("" if result is None else result.agent_id))

    # the program

    def do_refresh(self) -> None:
        """Read the files again."""
        self.look_again()
        self.say("Reading the tutorial, the tests and the run again.", "Refresh")
