"""The keys of a run's screen: one method for each action of its key table, and the state that they depend on.

A disabled key does not get here: `keyed` has asked for its reason before. What changes the run is a request to its
conductor, or the start of one; what reaches agents is done by `Acting`, as on the fleet's screen.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.actions.attach import AttachPlan, new_window_argv
from selftest_core.errors import RefusedError
from selftest_core.run.cluster_view import message_targets, unreachable_reason
from selftest_core.run.events import Phase
from selftest_core.run.store import RequestKind, RunRequest
from selftest_core.tools.tmux import own_server, tmux_environment
from selftest_tui.fleet.acting import Acting
from selftest_tui.fleet.answering import ended_tests
from selftest_tui.fleet.messages import ReviewWanted, RunWanted
from selftest_tui.fleet.seat import Seat
from selftest_tui.run.failure import find_replay
from selftest_tui.run.keys import RunSituation
from selftest_tui.run.lines import FILTER, RunGroup
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.filtered import FilteredScreen
from selftest_tui.shared.reports import show_page, write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.fleet.view import Row
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.store import RunFolder
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.run.feed import RunNews
    from selftest_tui.run.pane import RunPane, RunTab
    from selftest_tui.run.table import RunTable
    from selftest_tui.shared.keys import Key

_RUNNING = (Phase.LAUNCHING, Phase.WORKING, Phase.PULLING)
_SHELL = 'cd -- "$1" && exec "${SHELL:-/bin/sh}"'


class RunActions(FilteredScreen):
    """The part of a run's screen that keys reach; `RunScreen` shows the rest."""

    FILTER = FILTER
    UNSORTED = "the order of the plan"

    table: RunTable
    pane: RunPane

    def __init__(self, folder: RunFolder, fleet: FleetScreen, clock: Callable[[], float]) -> None:
        super().__init__()
        self.folder = folder
        self.fleet = fleet
        self.clock = clock
        self.news: RunNews | None = None
        self.is_starting = False
        self._needing: tuple[Run | None, int] = (None, 0)
        self._acting = Acting(Seat(self))

    # what is shown, by RunScreen

    def agent_of(self, row: RunRow | None) -> Row | None:
        """Return the agent of a test as the fleet shows it; None if it is not there."""
        raise NotImplementedError

    def show_state(self) -> None:
        """Show the two lines at the top, and the problems."""
        raise NotImplementedError

    def hurry(self) -> None:
        """Look for news soon: something was asked for."""
        raise NotImplementedError

    # the state that keys depend on

    @property
    def run_now(self) -> Run | None:
        """The run as it was last seen."""
        return self.news.run if self.news is not None else None

    @property
    def targets(self) -> tuple[RunRow, ...]:
        """The tests of the group under the cursor, or the one under it."""
        line = self.table.line
        if isinstance(line, RunGroup):
            return line.members
        return (line,) if line is not None else ()

    def situation(self) -> RunSituation:
        """The state that decides which keys are disabled."""
        row, run = self.table.row, self.run_now
        return RunSituation(
            row=row,
            agent=self.agent_of(row),
            on_group=isinstance(self.table.line, RunGroup),
            targets=self.targets,
            shown=len(self.table.shown.group_of),
            needing=self._count_needing(),
            can_answer=run is not None and ended_tests(self.folder, run, self.targets) is not None,
            problems=len(self.problems) + len(self.said),
            has_ended=bool(run and run.order),
            is_live=bool(self.news and self.news.is_live),
            is_over=bool(run and run.is_over),
            is_halted=bool(run and run.is_halted),
            is_starting=self.is_starting,
            has_files=self.pane.collected is not None and self.pane.collected.folder is not None,
            pane_is_open=self.pane_is_open,
            is_filtered=bool(self.query_text or self.only_open),
        )

    def _count_needing(self) -> int:
        """Count the tests whose agents need the user: once for each state of the run, since every key asks for it."""
        run = self.run_now
        if run is not None and self._needing[0] is not run:
            self._needing = (run, sum(bool(one.attention) and one.end is None for one in run.rows.values()))
        return self._needing[1]

    def before_press(self, key: Key) -> None:
        """Show what is under the cursor before a key acts on what is shown."""
        self.pane.show_line()

    @property
    def under_way(self) -> tuple[str, ...]:
        """Acts that quitting now would cut short, in words."""
        return self._acting.is_running

    @property
    def _row(self) -> RunRow:
        row = self.table.row
        assert row is not None, "the key table lets this key through on tests only"
        return row

    # moving

    def do_next_needing(self) -> None:
        """Move to the next test whose agent needs the user."""
        self._go_to_needing(1)

    def do_previous_needing(self) -> None:
        """Move to the previous test whose agent needs the user."""
        self._go_to_needing(-1)

    def _go_to_needing(self, step: int) -> None:
        table, run = self.table, self.run_now
        if run is None:
            return
        needing = [name for name, row in run.rows.items() if row.attention and row.end is None]
        closed = {table.shown.group_of.get(name, "") for name in needing} & self.folded
        if closed or not all(name in table.shown.places for name in needing):
            self.folded -= closed
            self.query_text = ""
            self.rearrange()
        places = sorted(table.shown.places[name] for name in needing)
        self.go_round(places, step)

    # the right pane

    def do_outcome(self) -> None:
        """Show the agent's report."""
        self._toggle("outcome")

    def do_preview(self) -> None:
        """Show the agent's terminal."""
        self._toggle("terminal")

    def do_details(self) -> None:
        """Show all details."""
        self._toggle("details")

    def do_artifacts(self) -> None:
        """Show the files that were fetched."""
        self._toggle("artifacts")

    def _toggle(self, tab: RunTab) -> None:
        """Show a tab; on narrow terminals, asking for the one that is shown closes the pane."""
        if self.is_narrow:
            self.zoom(not (self.is_zoomed and self.pane.tab == tab))
        self.pane.show_tab(tab)

    # conducting

    async def do_pause(self) -> None:
        """Pause, go on, or take the run up again."""
        run = self.run_now
        if run is None:
            return
        if not self.situation().is_live:
            await self._take_up()
        elif run.paused:
            await self._request("Launching resumes", RunRequest(RequestKind.GO))
        else:
            await self._request("Launching pauses soon; running agents continue", RunRequest(RequestKind.PAUSE))

    async def _take_up(self) -> None:
        """Start a conductor, which goes on where the last one left."""
        from selftest_tui.run.conducting import start_conductor

        self.is_starting = True
        self.show_state()
        try:
            await asyncio.to_thread(self.folder.add_request, RunRequest(RequestKind.GO))
            session = await asyncio.to_thread(start_conductor, self.folder, self.fleet.environ)
        finally:
            self.is_starting = False
            self.hurry()
            self.show_state()
        self.say(f"Its conductor runs in the tmux session {session.name}: it continues when you leave.", "Resumed")

    async def do_end_run(self) -> None:
        """Stop all agents and launch no more."""
        run = self.run_now
        if run is None:
            return
        running = [row for row in run.rows.values() if row.phase in _RUNNING]
        waiting = sum(row.phase is Phase.WAITING for row in run.rows.values())
        says = (
            f"{present.plural(len(running), 'agent')} at work will be stopped, after what they have is fetched; "
            f"{present.plural(waiting, run.plan.noun)} will not be started. H can resume it later."
        )
        lines = _named(running)
        if await self._ask(Question(f"End the run {run.plan.run}?", says, lines, yes="End the run")):
            await self._request("The run is being ended", RunRequest(RequestKind.STOP))

    def do_fleet(self) -> None:
        """Return to the fleet, with the cursor on this agent."""
        agent = self.agent_of(self.table.row)
        self.app.pop_screen()
        if agent is not None:
            self.fleet.table.go_to_key(agent.key)

    def do_review(self) -> None:
        """Open a review of this run's commits."""
        from selftest_core.review.changes.inputs import Request

        self.post_message(ReviewWanted(Request(run=self.folder.run)))

    async def do_replay(self) -> None:
        """Replay the recording of this test's agent."""
        row = self.table.row
        assert row is not None, "the key table lets this key through on tests only"
        self.post_message(await asyncio.to_thread(find_replay, self.folder, row))

    async def do_report(self) -> None:
        """Write the report, and open it in the browser."""
        environ = self.fleet.environ
        self.say(show_page(await write_report(self.folder.path, self.folder.path, environ), environ), "Report")

    async def do_compare(self) -> None:
        """Compare the run with the one before it."""
        from selftest_tui.run.compare.comparison_page import comparison_page, read_comparison

        found = await asyncio.to_thread(read_comparison, self.folder, self.fleet.environ)
        self.app.push_screen(comparison_page(found, self.clock(), self._open_test))

    def _open_test(self, folder: RunFolder, test: str) -> None:
        self.post_message(RunWanted(folder, test))

    def do_tutorial(self) -> None:
        """Open the tutorial screen."""
        from selftest_tui.tutorial.screen import TutorialScreen

        environ, folder = self.fleet.environ, self.fleet.folder
        self.app.push_screen(TutorialScreen(environ, folder=folder, clock=self.clock))

    # acting

    def do_attach(self) -> object:
        """Attach to the agent of the test; on a group, open or close it."""
        line = self.table.line
        if isinstance(line, RunGroup):
            self.fold(line, not line.is_folded)
            return None
        agent = self.agent_of(line)
        return self._acting.attach(agent) if agent is not None else None

    def do_type(self) -> None:
        """Type into the terminal of its agent."""
        if not self.pane_is_open:
            self.zoom(True)
        self.pane.show_line()
        self.pane.start_typing()

    async def do_message(self) -> None:
        """Send one message to all targets that can be reached; those that have ended go on with it."""
        rows, run = self.targets, self.run_now
        ended = ended_tests(self.folder, run, rows) if run is not None else None
        going_on = {row.name for row in ended.rows} if ended is not None else set()
        away = [
            f"not possible: {row.planned.node_id}, {reason}"
            for row in rows
            if row.name not in going_on and (reason := unreachable_reason(row))
        ]
        await self._acting.message_to(message_targets(rows), away, ended=() if ended is None else (ended,))
        self.hurry()

    async def do_retry(self) -> None:
        """Try those again that have ended."""
        ended = [row for row in self.targets if row.phase in (Phase.ENDED, Phase.STOPPING)]
        what = "A new agent is made for each, from the same base. What came back before is kept."
        if await self._confirm("Try again", ended, what, "Try again"):
            await self._request_for(RequestKind.RETRY, ended, "Tried again")
            if not self.situation().is_live:
                await self._take_up()

    async def do_skip(self) -> None:
        """Launch nothing for those that wait."""
        waiting = [row for row in self.targets if row.phase is Phase.WAITING]
        what = "No agent is made for them in this run, unless A tries them again."
        if await self._confirm("Skip", waiting, what, "Skip"):
            await self._request_for(RequestKind.SKIP, waiting, "Skipped")

    async def do_stop(self) -> None:
        """Stop the agents of these tests."""
        running = [row for row in self.targets if row.phase in _RUNNING]
        what = "What it has by then is fetched, and its agent is stopped. The run goes on."
        if await self._confirm("Stop", running, what, "Stop", always=True):
            await self._request_for(RequestKind.STOP_ONE, running, "Being stopped")

    async def _confirm(self, verb: str, rows: Sequence[RunRow], says: str, yes: str, *, always: bool = False) -> bool:
        """Name the exact tests first if there are several, or always."""
        if len(rows) == 1 and not always:
            return True
        about = rows[0].planned.node_id if len(rows) == 1 else f"{len(rows)} tests"
        yes = yes if len(rows) == 1 else f"{yes} all {len(rows)}"
        return await self._ask(Question(f"{verb}: {about}?", says, _named(rows), yes=yes))

    async def _ask(self, question: Question) -> bool:
        return await self.app.push_screen_wait(question) is True

    async def _request_for(self, kind: RequestKind, rows: Sequence[RunRow], said: str) -> None:
        about = present.clean(rows[0].planned.node_id) if len(rows) == 1 else f"{len(rows)} tests"
        await self._request(f"{said}: {about}", *(RunRequest(kind, row.name) for row in rows))

    async def _request(self, said: str, *requests: RunRequest) -> None:
        """Store requests for the conductor."""

        def leave() -> None:
            for request in requests:
                self.folder.add_request(request)

        try:
            await asyncio.to_thread(leave)
        except OSError as error:
            title = "What you asked for could not be left for the conductor"
            raise RefusedError(title, str(error), f"Its place is {self.folder.path}.") from error
        self.say(said, "Asked the conductor" if self.situation().is_live else "Noted")
        self.hurry()

    async def do_shell(self) -> None:
        """Open a shell in the folder of fetched files."""
        found = self.pane.collected
        assert found is not None, "the key table lets this key through where files were collected"
        assert found.folder is not None, "the key table lets this key through where files were collected"
        environ, folder = self.fleet.environ, str(found.folder)
        inner = ("/bin/sh", "-c", _SHELL, "sh", folder)
        where = f"A shell in {present.clean(folder)}"
        own = own_server(environ)
        if own is None:
            plan = AttachPlan(inner, dict(environ), "hand over", f"{where}; `exit` brings you back.", "shell")
        else:
            argv = new_window_argv(own, "shell", inner, environ)
            says = f"{where} opens in a new tmux window."
            plan = AttachPlan(argv, tmux_environment(environ), "window", says, "shell")
        await self._acting.go(plan)

    def do_copy(self) -> None:
        """Copy the id of the test to the clipboard."""
        said = present.clean(self._row.planned.node_id)
        self.app.copy_to_clipboard(said)
        self.say(said, "Copied")


def _named(rows: Sequence[RunRow]) -> list[str]:
    """List each test with its exact id and its agent."""
    return [
        f"{row.planned.node_id}  {row.member.name}" if row.member is not None else row.planned.node_id for row in rows
    ]
