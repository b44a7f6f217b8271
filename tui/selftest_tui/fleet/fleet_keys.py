"""What each key of the fleet screen does: one method for each action of the key table, named as it is.

Nothing is asked here whether a key may: the key table's reasons were, before. What reaches agents goes to `Acting`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_tui.fleet.arrangement import FILTER, Arrangement, Group, GroupBy, SortBy, labels_of
from selftest_tui.fleet.messages import ReplayWanted, ReviewWanted, RunWanted
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.present import clean
from selftest_tui.shared.table_moves import TableMoves

if TYPE_CHECKING:
    from selftest_core.fleet.view import Row
    from selftest_tui.fleet.acting import Acting
    from selftest_tui.fleet.pane.side_pane import Tab
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.shared.widgets.prompt import Prompt


class FleetKeys(TableMoves):
    """The acts behind the keys of one fleet screen."""

    _screen: FleetScreen

    def __init__(self, screen: FleetScreen, acting: Acting) -> None:
        super().__init__(screen)
        self._acting = acting

    @property
    def _targets(self) -> tuple[Row, ...]:
        return self._screen.situation().targets

    @property
    def _row(self) -> Row:
        row = self._screen.table.row
        assert row is not None, "the key table lets this key through on agents only"
        return row

    # moving

    def fold(self, group: Group, closed: bool) -> None:
        """Fold a group, or unfold it."""
        self._screen.table.fold(group.key, closed)

    def next_needing(self) -> None:
        """To the next agent that needs a person."""
        self._screen.table.go_to_needing(1)

    def previous_needing(self) -> None:
        """To the one before."""
        self._screen.table.go_to_needing(-1)

    # finding and arranging

    def filter(self) -> None:
        """Open the prompt with the filter that holds."""
        self._screen.open_filter(FILTER, self._screen.table.arrangement.query)

    def search_text(self) -> None:
        """Open the prompt for a search over panes and conversations."""
        self._screen.open_prompt("search_text", "~", "⏎ search  esc back")

    def prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter as it is typed."""
        if event.purpose == "filter":
            self._filter_by(event.text)

    def prompt_accepted(self, event: Prompt.Accepted) -> object:
        """Keep the filter, or start the search over all panes that are shown."""
        self._screen.table.focus()
        if event.purpose == "filter":
            self._filter_by(event.text)
            return None
        if not event.text:
            return None
        table = self._screen.table
        refs = [row.session for row in table.shown_rows() if row.session is not None]
        refs += [session.ref for session in self._screen.view.sessions if session.ref in table.arranged.places]
        return self._acting.search_panes(event.text, event.with_history, tuple(refs), table.shown_rows())

    def prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """Take the filter back."""
        self._screen.table.focus()
        if event.purpose == "filter":
            self._filter_by("")

    def prompt_history(self) -> None:
        """Whether the scrollback is searched too."""
        self._screen.prompt.toggle_history()

    def _filter_by(self, query: str) -> None:
        self._arrange(replace(self._screen.table.arrangement, query=query.strip()))

    def _arrange(self, arrangement: Arrangement) -> None:
        if arrangement != self._screen.table.arrangement:
            self._screen.table.arrange_by(arrangement)
            self._screen.show_frame()

    def only_needing(self) -> None:
        """Show only what needs a person, or all again."""
        how = self._screen.table.arrangement
        self._arrange(replace(how, only_me=not how.only_me))

    def group(self) -> None:
        """Choose how to group."""
        how = self._screen.table.arrangement
        ways = [way.value for way in GroupBy if way is not GroupBy.LABEL]
        labels = [f"label {name}" for name in labels_of(self._screen.view)]

        def chosen(choice: str | None) -> None:
            if choice is None:
                return
            if choice in ways:
                self._arrange(replace(how, group=GroupBy(choice), label=""))
            else:
                self._arrange(replace(how, group=GroupBy.LABEL, label=choice.removeprefix("label ")))

        self._screen.app.push_screen(Choose("group by", [*ways, *labels], how.grouped_by, "g"), chosen)

    def sort(self) -> None:
        """Choose how to sort."""
        how = self._screen.table.arrangement

        def chosen(choice: str | None) -> None:
            if choice is not None:
                self._arrange(replace(how, sort=SortBy(choice)))

        self._screen.app.push_screen(Choose("sort by", [way.value for way in SortBy], how.sort.value, "o"), chosen)

    # marking

    def mark(self) -> None:
        """Mark or unmark."""
        self._screen.table.toggle_mark()

    def mark_range(self) -> None:
        """Start or end a range."""
        self._screen.table.toggle_range()

    def mark_all(self) -> None:
        """Mark what is shown."""
        self._screen.table.mark(row.key for row in self._screen.table.shown_rows())

    def back(self) -> None:
        """Peel off one layer: the zoomed pane, the range, the filter, the restriction, the marks."""
        table, how = self._screen.table, self._screen.table.arrangement
        if self._screen.is_zoomed:
            self._screen.zoom(False)
        elif table.in_range:
            table.toggle_range()
        elif how.query:
            self._filter_by("")
        elif how.only_me:
            self.only_needing()
        else:
            table.mark(())

    # acting

    def attach(self) -> object:
        """Attach to what is under the cursor; on a group, open or close it."""
        table = self._screen.table
        if isinstance(table.line, Group):
            self.fold(table.line, not table.line.is_folded)
            return None
        line = table.row or table.session
        return self._acting.attach(line) if line is not None else None

    def type(self) -> None:
        """Type into the terminal that is shown."""
        if not self._screen.pane_is_open:
            self._screen.zoom(True)
        self._screen.pane.start_typing()

    def type_many(self) -> object:
        """Type the same into all targets."""
        return self._acting.type_into(self._targets)

    def message(self) -> object:
        """Send a message to all targets."""
        return self._acting.message(self._targets)

    def stop(self) -> object:
        """Stop all targets."""
        return self._acting.stop(self._targets)

    def start(self) -> object:
        """Start all targets."""
        return self._acting.start(self._targets)

    def destroy(self) -> object:
        """Destroy all targets."""
        return self._acting.destroy(self._targets)

    def shell(self) -> object:
        """Open a shell where the agent works."""
        return self._acting.shell(self._row)

    def copy(self) -> object:
        """Copy the agent's branch."""
        return self._acting.copy_branch(self._row)

    # the right pane

    def preview(self) -> None:
        """The terminal."""
        if self._screen.pane_is_open and self._screen.pane.tab != "preview":
            self._screen.pane.toggle("preview")
        elif self._screen.is_narrow:
            self._screen.zoom(not self._screen.is_zoomed)
        else:
            self._screen.pane.toggle("preview")

    def details(self) -> None:
        """All that is known."""
        self._toggle("details")

    def explain(self) -> None:
        """Why it has its state."""
        self._toggle("explain")

    def messages(self) -> None:
        """Its last messages."""
        self._toggle("messages")

    def _toggle(self, tab: Tab) -> None:
        was_open = self._screen.pane_is_open
        if not was_open:
            self._screen.zoom(True)
        if was_open or self._screen.pane.tab != tab:
            self._screen.pane.toggle(tab)

    # other screens

    async def run(self) -> None:
        """The run of the agent under the cursor, else the newest of this repository."""
        from selftest_core.run.overview import repository_of
        from selftest_core.run.store import find_run

        screen = self._screen
        wanted = screen.table.row.agent.run if screen.table.row is not None else None
        repository = await asyncio.to_thread(repository_of, screen.folder, screen.environ)
        folder = await asyncio.to_thread(find_run, screen.environ, repository, wanted)
        screen.post_message(RunWanted(folder))

    def review(self) -> None:
        """The commits of the marked agents, or of the one under the cursor."""
        from selftest_core.review.changes.inputs import Request

        self._screen.post_message(ReviewWanted(Request(agents=tuple(row.agent.address for row in self._targets))))

    async def replay(self) -> None:
        """The recording of the agent under the cursor."""
        from selftest_tui.replay.recordings import recording_of_agent

        screen, agent = self._screen, self._row.agent
        path = await asyncio.to_thread(recording_of_agent, agent.id, screen.environ, screen.folder)
        if path is None:
            name = clean(agent.name)
            hint = f"`selftest-tui record {name}` records it from now on."
            raise RefusedError(
                f"{name} has no recording", "Those of runs have one, where its run was begun here.", hint
            )
        screen.post_message(ReplayWanted(path, agent.name, follows=True))

    def tutorial(self) -> None:
        """The tutorial's blocks with their tests."""
        from selftest_tui.tutorial.screen import TutorialScreen

        screen = self._screen
        screen.app.push_screen(TutorialScreen(screen.environ, folder=screen.folder, clock=screen.clock))

    # the program

    def refresh(self) -> None:
        """Ask everyone again."""
        self._screen.watch_refresh()
        self._screen.say("Asking mngr and tmux again.", "Refresh")
