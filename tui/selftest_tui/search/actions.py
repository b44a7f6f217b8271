"""Actions of the search screen: one method for each action of its key table."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.paths import runs_folder
from selftest_core.run.store import RunFolder
from selftest_recorder.search.hits import command_of, review_request
from selftest_recorder.search.sources import Kind
from selftest_tui.fleet.messages import ReplayWanted, ReviewWanted, RunWanted
from selftest_tui.search.feed import parse_question
from selftest_tui.search.keys import SearchSituation
from selftest_tui.search.lines import SearchGroup
from selftest_tui.shared.keys import shown
from selftest_tui.shared.split import SplitScreen

if TYPE_CHECKING:
    from selftest_recorder.search.hits import Hit
    from selftest_tui.search.feed import SearchFeed, SearchNews
    from selftest_tui.search.table import SearchTable
    from selftest_tui.shared.widgets.prompt import Prompt

_HINT = "⏎ keep  esc leave"


class SearchActions(SplitScreen):
    """The key actions of the search screen; `SearchScreen` shows the rest."""

    UNSORTED = "kind, test and place"

    table: SearchTable
    feed: SearchFeed
    news: SearchNews
    text = ""
    folded: frozenset[str] = frozenset()
    """Keys of folded runs."""

    def situation(self) -> SearchSituation:
        """The state that decides which keys are disabled."""
        return SearchSituation(self.table.line, len(self.problems) + len(self.said), self.pane_is_open)

    # what is searched

    def do_filter(self) -> None:
        """Change the words."""
        self.ask_for_words(self.text)

    def do_search_all(self) -> None:
        """Search for something else."""
        self.ask_for_words("")

    def ask_for_words(self, text: str) -> None:
        """Open the prompt."""
        self.open_prompt("search", "search", _HINT, text)
        self.prompt.check(_problem_of)

    def search(self, text: str) -> None:
        """Search for this text."""
        if text.strip() != self.text:
            self.text = text.strip()
            self.folded = frozenset()
            self.table.start_over()
            self.feed.ask(self.text)

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Search while the user types; an empty prompt leaves the hits as they are."""
        if event.text.strip():
            self.search(event.text)

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Keep what is searched."""
        self.leave_prompt()
        if event.text.strip():
            self.search(event.text)

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """Leave the prompt; back to where it came from if nothing was searched."""
        self.leave_prompt()
        if not self.text:
            self.app.pop_screen()

    # the table

    def fold(self, group: SearchGroup, closed: bool) -> None:
        """Fold a run, or unfold it; the cursor moves to its title."""
        self.table.go_to_group()
        self.folded = self.folded | {group.key} if closed else self.folded - {group.key}
        self.rearrange()

    def do_back(self) -> None:
        """Close the zoomed pane, else return to the screen below."""
        if self.is_zoomed:
            self.zoom(False)
        else:
            self.app.pop_screen()

    def do_fleet(self) -> None:
        """Show the fleet."""
        while len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    # the hit

    async def do_open(self) -> None:
        """Open the hit at its place; fold or unfold a run."""
        line, repository = self.table.line, self.news.repository
        if line is None or repository is None:
            return
        if isinstance(line, SearchGroup):
            self.fold(line, not line.is_folded)
            return
        folder = runs_folder(repository) / line.run
        match line.kind:
            case Kind.TRANSCRIPT | Kind.CONVERSATION:
                self.do_zoom()
            case Kind.TERMINAL:
                _require(Path(line.path))
                self.post_message(ReplayWanted(Path(line.path), line.test or line.agent, at=line.seconds))
            case Kind.OUTCOME:
                _require(folder)
                self.post_message(RunWanted(RunFolder(folder.resolve()), line.agent))
            case Kind.DIFF | Kind.NOTE | Kind.DECISION:
                _require(folder)
                request = await asyncio.to_thread(review_request, repository, line.run)
                if request is None:
                    raise RefusedError("This review cannot be opened again", str(folder))
                self.post_message(ReviewWanted(request, line.commit))

    def do_copy(self) -> None:
        """Copy the command that opens the hit."""
        hit: Hit | SearchGroup | None = self.table.line
        if hit is not None and not isinstance(hit, SearchGroup) and self.news.repository is not None:
            command = command_of(hit, self.news.repository)
            self.app.copy_to_clipboard(command)
            self.say(command, "Copied")

    def do_refresh(self) -> None:
        """Index what is new or has changed."""
        self.feed.refresh()
        self.say("Looking for what is new or has changed.", "Refresh")


def _require(path: Path) -> None:
    if not path.exists():
        raise RefusedError("This is gone meanwhile", str(path), f"{shown('search.refresh', 'R')} looks again.")


def _problem_of(text: str) -> str:
    from selftest_core.errors import UsageError

    try:
        if text.strip():
            parse_question(text)
    except UsageError as error:
        return error.title
    return ""
