"""Actions of the fleet screen: one method for each action of its key table, and the state that they depend on.

`keyed` checks the reason why a key is disabled before it calls a method here. `Acting` acts on agents.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.fleet.state_rules import is_plain_command
from selftest_tui.fleet.arrangement import FILTER, Arrangement, Group, GroupBy, SortBy, labels_of
from selftest_tui.fleet.keys import Situation
from selftest_tui.fleet.messages import ReplayWanted, ReviewWanted, RunWanted
from selftest_tui.shared import present
from selftest_tui.shared.filter import help_lines, problem_of
from selftest_tui.shared.keys import Topic
from selftest_tui.shared.present import clean
from selftest_tui.shared.split import SplitScreen
from selftest_tui.shared.widgets.columns import chosen_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.view import FleetView, Row
    from selftest_core.tools.mngr import Mngr
    from selftest_tui.fleet.acting import Acting
    from selftest_tui.fleet.agent_table import AgentTable
    from selftest_tui.fleet.pane.side_pane import SidePane, Tab
    from selftest_tui.shared.keys import Key
    from selftest_tui.shared.widgets.columns import Sort
    from selftest_tui.shared.widgets.prompt import Prompt


class FleetActions(SplitScreen):
    """The key actions of the fleet screen; `FleetScreen` shows the rest."""

    table: AgentTable
    pane: SidePane
    view: FleetView
    environ: Mapping[str, str]
    folder: Path
    clock: Callable[[], float]
    _acting_made: Acting | None = None

    def watch_refresh(self) -> None:
        """Ask all sources again now."""
        raise NotImplementedError

    def show_pane(self) -> None:
        """Show the details of the line under the cursor now."""
        raise NotImplementedError

    # the state that keys depend on

    def situation(self) -> Situation:
        """The state that decides which keys are disabled."""
        table = self.table
        marked = self.marked_rows()
        how = table.arrangement
        return Situation(
            row=table.row,
            session=table.session,
            on_group=isinstance(table.line, Group),
            targets=marked or ((table.row,) if table.row is not None else ()),
            agents=len(self.view.rows),
            shown=table.arranged.shown,
            needing=len(table.arranged.needing),
            problems=len(self.problems) + len(self.said),
            marked=len(marked),
            to_clear=bool(marked or how.query or how.only_me or table.in_range or self.is_zoomed),
            is_searchable=bool(self.view.sessions) or any(map(_is_searchable, self.view.rows)),
            pane_is_open=self.pane_is_open,
            is_filtered=bool(how.query or how.only_me),
            hidden=table.arranged.hidden,
            views=len(self.views),
        )

    def before_press(self, key: Key) -> None:
        """Show the line under the cursor in the right pane before a key acts on it."""
        if key.topic in (Topic.ACT, Topic.LOOK):
            self.show_pane()

    def filter_forms(self) -> tuple[tuple[str, str], ...]:
        """Return the filter syntax of the fleet's table, for the help."""
        return help_lines(FILTER)

    @property
    def _acting(self) -> Acting:
        """Actions on agents. Loaded with the first key: dialogs and subprocess modules take a third of the start."""
        if self._acting_made is None:
            from selftest_tui.fleet.acting import Acting

            self._acting_made = Acting(self)
        return self._acting_made

    @property
    def under_way(self) -> tuple[str, ...]:
        """Running actions that quitting would interrupt, in words."""
        return self._acting_made.is_running if self._acting_made is not None else ()

    @property
    def mngr(self) -> Mngr:
        """Make the adapter of this environment's mngr. Raises ToolError if there is none."""
        from selftest_core.tools.mngr import Mngr, find_mngr

        return Mngr(find_mngr(self.environ), self.environ, self.folder)

    @property
    def _targets(self) -> tuple[Row, ...]:
        return self.situation().targets

    @property
    def _row(self) -> Row:
        row = self.table.row
        assert row is not None, "the key table lets this key through on agents only"
        return row

    # moving

    def fold(self, group: Group, closed: bool) -> None:
        """Fold or unfold a group."""
        self.table.fold(group.key, closed)

    def do_next_needing(self) -> None:
        """Move to the next agent that needs the user."""
        self.table.go_to_needing(1)

    def do_previous_needing(self) -> None:
        """Move to the previous agent that needs the user."""
        self.table.go_to_needing(-1)

    # the prompt

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter while the user types."""
        if event.purpose == "filter":
            self._filter_by(event.text)

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Keep the filter, or start the search in all terminals and conversations that are shown."""
        self.leave_prompt()
        if event.purpose == "filter":
            self._filter_by(event.text)
        elif event.text:
            rows = self.table.shown_rows()
            refs = [row.session for row in rows if row.session is not None]
            refs += [session.ref for session in self.view.sessions if session.ref in self.table.arranged.places]
            self.perform(lambda: self._acting.search_panes(event.text, event.with_history, tuple(refs), rows))

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """Clear the filter."""
        self.leave_prompt()
        if event.purpose == "filter":
            self._filter_by("")

    # marks

    def marked_rows(self) -> tuple[Row, ...]:
        """Return the marked agents in the order of the fleet."""
        if not self.table.marks:
            return ()
        return tuple(row for row in self.view.rows if row.key in self.table.marks)

    def select_keys(self, found: Iterable[AgentKey]) -> None:
        """Mark exactly these agents, and move to the first of them that is shown."""
        chosen = frozenset(found)
        self.table.mark(chosen)
        for key in sorted(chosen, key=lambda one: self.table.arranged.places.get(one, len(self.view.rows))):
            if self.table.go_to_key(key):
                break

    # finding and arranging

    def do_filter(self) -> None:
        """Open the prompt with the current filter."""
        self.open_filter(FILTER, self.table.arrangement.query)

    @property
    def views(self) -> Mapping[str, str]:
        """The filters that the settings name."""
        return self.settings.views if self.settings is not None else {}

    def commands(self) -> dict[str, Callable[[], object]]:
        """The commands of `:` by name, and the views."""
        views = {f"view {name}": partial(self.perform, partial(self.show_view, name)) for name in self.views}
        return {**super().commands(), **views}

    def do_views(self) -> None:
        """Choose a view."""
        from selftest_tui.shared.dialogs.choose import Choose  # not needed for the first frame

        shown = {f"{name}  /{query}": name for name, query in self.views.items()}
        current = next((line for line, name in shown.items() if self.views[name] == self.table.arrangement.query), "")

        def chosen(line: str | None) -> None:
            if line is not None:
                self.perform(lambda: self.show_view(shown[line]))

        self.app.push_screen(Choose("view", list(shown), current, self.KEYS.row_now("views")), chosen)

    def show_view(self, name: str) -> None:
        """Filter by a view. Raises RefusedError if its filter is wrong."""
        query = self.views[name]
        if problem := problem_of(query, FILTER):
            raise RefusedError(f"The view {name} is no filter", problem, f"views.{name} of the settings is {query!r}.")
        self._filter_by(query)

    def do_search_text(self) -> None:
        """Open the prompt for a search in terminals and conversations."""
        self.open_prompt("search_text", "~", "⏎ search  esc back")

    def do_prompt_history(self) -> None:
        """Include the scrollback in the search, or exclude it."""
        self.prompt.toggle_history()

    def _filter_by(self, query: str) -> None:
        self._arrange(replace(self.table.arrangement, query=query.strip()))

    def _arrange(self, arrangement: Arrangement) -> None:
        if arrangement != self.table.arrangement:
            self.table.arrange_by(arrangement)
            self.show_frame()

    def do_only_needing(self) -> None:
        """Show only agents that need the user, or all again."""
        how = self.table.arrangement
        self._arrange(replace(how, only_me=not how.only_me))

    def do_hide_old(self) -> None:
        """Hide agents of runs that ended more than a day ago, or show them."""
        how = self.table.arrangement
        self._arrange(replace(how, hides_old=not how.hides_old))
        self.keep_hiding(not how.hides_old)
        hidden = present.plural(self.table.arranged.hidden, "agent")
        what = "Agents of old runs are shown." if how.hides_old else f"{hidden} of runs that ended more than a day ago."
        self.say(what, "Shown" if how.hides_old else "Hidden")

    def do_group(self) -> None:
        """Choose a grouping."""
        from selftest_tui.shared.dialogs.choose import Choose  # not needed for the first frame

        how = self.table.arrangement
        ways = [way.value for way in GroupBy if way is not GroupBy.LABEL]
        labels = [f"label {name}" for name in labels_of(self.view)]

        def chosen(choice: str | None) -> None:
            if choice is None:
                return
            if choice in ways:
                self._arrange(replace(how, group=GroupBy(choice), label=""))
            else:
                self._arrange(replace(how, group=GroupBy.LABEL, label=choice.removeprefix("label ")))

        self.app.push_screen(Choose("group by", [*ways, *labels], how.grouped_by, self.KEYS.row_now("group")), chosen)

    def do_sort(self) -> None:
        """Choose a sort order."""
        from selftest_tui.shared.dialogs.choose import Choose  # not needed for the first frame

        how = self.table.arrangement
        ways = [way.value for way in SortBy]
        columns = {f"column {one.title}": one.name for one in self.table.columns.columns.columns}
        current = how.sorted_by.removesuffix(", reversed")

        def chosen(choice: str | None) -> None:
            if choice in columns:
                self.sort_by(chosen_again(how.by_column, columns[choice]))
            elif choice is not None:
                self._arrange(replace(how, sort=SortBy(choice), by_column=None))

        choices, again = [*ways, *columns], self.KEYS.row_now("sort")
        self.app.push_screen(Choose("sort by; a column again: reversed", choices, current, again), chosen)

    def sort_by(self, sort: Sort | None) -> None:
        """Sort by a column, or as without one."""
        self._arrange(replace(self.table.arrangement, by_column=sort))

    # marking

    def do_mark(self) -> None:
        """Mark or unmark the line."""
        self.table.toggle_mark()

    def do_mark_range(self) -> None:
        """Start or end a range of marks."""
        self.table.toggle_range()

    def do_mark_all(self) -> None:
        """Mark all shown agents."""
        self.table.mark(row.key for row in self.table.shown_rows())

    def do_back(self) -> None:
        """Close the zoomed pane, else end the range, else clear the filter, else show all, else unmark."""
        table, how = self.table, self.table.arrangement
        if self.is_zoomed:
            self.zoom(False)
        elif table.in_range:
            table.toggle_range()
        elif how.query:
            self._filter_by("")
        elif how.only_me:
            self.do_only_needing()
        else:
            table.mark(())

    # acting

    def do_attach(self) -> object:
        """Attach to the agent or session under the cursor; on a group, open or close it."""
        table = self.table
        if isinstance(table.line, Group):
            self.fold(table.line, not table.line.is_folded)
            return None
        line = table.row or table.session
        return self._acting.attach(line) if line is not None else None

    def do_type(self) -> None:
        """Type into the terminal that is shown."""
        if not self.pane_is_open:
            self.zoom(True)
        self.pane.start_typing()

    def do_type_many(self) -> object:
        """Type the same text into all targets."""
        return self._acting.type_into(self._targets)

    def do_message(self) -> object:
        """Send a message to all targets."""
        return self._acting.message(self._targets)

    def do_stop(self) -> object:
        """Stop all targets."""
        return self._acting.stop(self._targets)

    def do_start(self) -> object:
        """Start all targets."""
        return self._acting.start(self._targets)

    def do_destroy(self) -> object:
        """Destroy all targets."""
        return self._acting.destroy(self._targets)

    def do_shell(self) -> object:
        """Open a shell in the agent's work folder."""
        return self._acting.shell(self._row)

    def do_copy(self) -> object:
        """Copy the name of the agent's branch."""
        return self._acting.copy_branch(self._row)

    # the right pane

    def do_preview(self) -> None:
        """Show the terminal."""
        if self.pane_is_open and self.pane.tab != "preview":
            self.pane.toggle("preview")
        elif self.is_narrow:
            self.zoom(not self.is_zoomed)
        else:
            self.pane.toggle("preview")

    def do_details(self) -> None:
        """Show all details."""
        self._toggle("details")

    def do_explain(self) -> None:
        """Show the evidence for its state."""
        self._toggle("explain")

    def do_messages(self) -> None:
        """Show its last messages."""
        self._toggle("messages")

    def _toggle(self, tab: Tab) -> None:
        was_open = self.pane_is_open
        if not was_open:
            self.zoom(True)
        if was_open or self.pane.tab != tab:
            self.pane.toggle(tab)

    # other screens

    async def do_run(self) -> None:
        """Open the run of the agent under the cursor, else the newest run of this repository."""
        from selftest_core.run.overview import repository_of
        from selftest_core.run.store import find_run

        wanted = self.table.row.agent.run if self.table.row is not None else None
        repository = await asyncio.to_thread(repository_of, self.folder, self.environ)
        folder = await asyncio.to_thread(find_run, self.environ, repository, wanted)
        self.post_message(RunWanted(folder))

    def do_review(self) -> None:
        """Review the commits of the marked agents, or of the agent under the cursor."""
        from selftest_core.review.changes.inputs import Request

        self.post_message(ReviewWanted(Request(agents=tuple(row.agent.address for row in self._targets))))

    async def do_replay(self) -> None:
        """Replay the recording of the agent under the cursor."""
        from selftest_tui.replay.recordings import recording_of_agent

        agent = self._row.agent
        found = await asyncio.to_thread(recording_of_agent, agent.id, self.environ, self.folder)
        if found is None:
            name = clean(agent.name)
            hint = f"`selftest-tui record {name}` records it from now on."
            raise RefusedError(
                f"{name} has no recording", "Those of runs have one, where its run was begun here.", hint
            )
        self.post_message(ReplayWanted(found.path, agent.name, follows=True, is_ended=found.is_ended))

    def do_tutorial(self) -> None:
        """Open the tutorial screen."""
        from selftest_tui.tutorial.screen import TutorialScreen

        self.app.push_screen(TutorialScreen(self.environ, folder=self.folder, clock=self.clock))

    # the program

    def do_key_guard(self) -> object:
        """Guard mngr's dangerous keys on the server under the cursor with a confirmation, or remove the guard."""
        session = self.table.session.ref if self.table.session is not None else None
        if self.table.row is not None:
            session = self.table.row.session
        return self._acting.switch_key_guard(session)

    def do_refresh(self) -> None:
        """Ask all sources again."""
        self.watch_refresh()
        self.say("Asking mngr and tmux again.", "Refresh")


def _is_searchable(row: Row) -> bool:
    """Return whether the agent has a terminal here, or conversation files, which a stopped agent keeps."""
    return row.session is not None or (row.agent.host.is_local and not is_plain_command(row.agent.type))
