"""What each key of a run's screen does: one method for each action of its key table, named as it is.

Nothing is asked here whether a key may: the key table's reasons were, before. What changes the run is a request to its
conductor, or the start of one; what reaches agents goes to `Acting`, as on the fleet's screen.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.actions.attach import AttachPlan, new_window_argv
from selftest_core.errors import RefusedError
from selftest_core.run.cluster_view import message_targets, unreachable_reason
from selftest_core.run.crew.recording import recording_of
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RequestKind, RunRequest
from selftest_core.tools.tmux import own_server, tmux_environment
from selftest_tui.fleet.acting import Acting
from selftest_tui.fleet.messages import ReplayWanted, ReviewWanted
from selftest_tui.fleet.seat import Seat
from selftest_tui.run.lines import RunGroup
from selftest_tui.run.run_moves import RunMoves
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.dialogs import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.run.fold import RunRow
    from selftest_tui.run.screen import RunScreen

_RUNNING = (Phase.LAUNCHING, Phase.WORKING, Phase.PULLING)
FAILED_MARKERS = ("failed", "blocked", "pytest: ")
"""How the markers begin at which something went wrong: the last of them is what one wants to see."""
_SHELL = 'cd -- "$1" && exec "${SHELL:-/bin/sh}"'


class RunKeys(RunMoves):
    """The acts behind the keys of one run's screen."""

    def __init__(self, screen: RunScreen) -> None:
        super().__init__(screen)
        self._acting = Acting(Seat(screen))

    @property
    def under_way(self) -> tuple[str, ...]:
        """Acts that quitting now would cut short, in words."""
        return self._acting.is_running

    @property
    def _row(self) -> RunRow:
        row = self._screen.table.row
        assert row is not None, "the key table lets this key through on tests only"
        return row

    # conducting

    async def pause(self) -> None:
        """Pause, go on, or take the run up again."""
        run = self._screen.run_now
        if run is None:
            return
        if not self._screen.situation().is_live:
            await self._take_up()
        elif run.paused:
            await self._request("The run goes on", RunRequest(RequestKind.GO))
        else:
            await self._request("Launching rests soon; what runs goes on", RunRequest(RequestKind.PAUSE))

    async def _take_up(self) -> None:
        """Start a conductor, which goes on where the last one left."""
        from selftest_tui.run.conducting import start_conductor

        screen = self._screen
        screen.is_starting = True
        screen.show_state()
        try:
            await asyncio.to_thread(screen.folder.add_request, RunRequest(RequestKind.GO))
            session = await asyncio.to_thread(start_conductor, screen.folder, screen.fleet.environ)
        finally:
            screen.is_starting = False
            screen.hurry()
            screen.show_state()
        screen.say(f"It lives in the tmux session {session.name}: leaving this screen does not end it.", "Taken up")

    async def end_run(self) -> None:
        """Stop all agents and launch no more."""
        run = self._screen.run_now
        if run is None:
            return
        running = [row for row in run.rows.values() if row.phase in _RUNNING]
        waiting = sum(row.phase is Phase.WAITING for row in run.rows.values())
        says = (
            f"{present.plural(len(running), 'agent')} at work will be stopped, after what they have is fetched; "
            f"{present.plural(waiting, 'test')} will not be started. H can resume it later."
        )
        lines = _named(running)
        if await self._ask(Question(f"End the run {run.plan.run}?", says, lines, yes="End the run")):
            await self._request("The run is being ended", RunRequest(RequestKind.STOP))

    def fleet(self) -> None:
        """To the fleet, on this agent."""
        agent = self._screen.agent_of(self._screen.table.row)
        self._screen.app.pop_screen()
        if agent is not None:
            self._screen.fleet.table.go_to_key(agent.key)

    def review(self) -> None:
        """What the agents of this run committed."""
        from selftest_core.review.changes.inputs import Request

        self._screen.post_message(ReviewWanted(Request(run=self._screen.folder.run)))

    async def replay(self) -> None:
        """The recording of the agent of this test."""
        row = self._screen.table.row
        assert row is not None, "the key table lets this key through on tests only"
        member = row.member
        path = None if member is None else await asyncio.to_thread(recording_of, self._screen.folder, member)
        if member is None or path is None:
            hint = "`record = false` in the settings turns recording off." if member is not None else ""
            raise RefusedError(f"{present.clean(row.name)} has no recording", "No agent of it was recorded.", hint)
        failed = FAILED_MARKERS if row.end is not None and row.end is not End.SUCCEEDED else ()
        title = f"{member.name} · {present.clean(row.planned.node_id)}"
        self._screen.post_message(ReplayWanted(path, title, marker=failed, follows=row.end is None))

    def tutorial(self) -> None:
        """The tutorial's blocks with their tests."""
        from selftest_tui.tutorial.screen import TutorialScreen

        screen = self._screen
        environ, folder = screen.fleet.environ, screen.fleet.folder
        screen.app.push_screen(TutorialScreen(environ, folder=folder, clock=screen.clock))

    # acting

    def attach(self) -> object:
        """Attach to the agent of the test; on a group, open or close it."""
        line = self._screen.table.line
        if isinstance(line, RunGroup):
            self.fold(line, not line.is_folded)
            return None
        agent = self._screen.agent_of(line)
        return self._acting.attach(agent) if agent is not None else None

    def type(self) -> None:
        """Type into the terminal of its agent."""
        screen = self._screen
        if not screen.pane_is_open:
            screen.zoom(True)
        screen.right.show()
        screen.pane.start_typing()

    async def message(self) -> None:
        """One message to all of them that can be reached."""
        rows = self._screen.targets
        away = [f"not possible: {row.planned.node_id}, {reason}" for row in rows if (reason := unreachable_reason(row))]
        await self._acting.message_to(message_targets(rows), away)

    async def retry(self) -> None:
        """Try those again that have ended."""
        ended = [row for row in self._screen.targets if row.phase in (Phase.ENDED, Phase.STOPPING)]
        what = "A new agent is made for each, from the same base. What came back before is kept."
        if await self._confirm("Try again", ended, what, "Try again"):
            await self._request_for(RequestKind.RETRY, ended, "Tried again")
            if not self._screen.situation().is_live:
                await self._take_up()

    async def skip(self) -> None:
        """Launch nothing for those that wait."""
        waiting = [row for row in self._screen.targets if row.phase is Phase.WAITING]
        what = "No agent is made for them in this run, unless A tries them again."
        if await self._confirm("Skip", waiting, what, "Skip"):
            await self._request_for(RequestKind.SKIP, waiting, "Skipped")

    async def stop(self) -> None:
        """Stop the agents of these tests."""
        running = [row for row in self._screen.targets if row.phase in _RUNNING]
        what = "What it has by then is fetched, and its agent is stopped. The run goes on."
        if await self._confirm("Stop", running, what, "Stop", always=True):
            await self._request_for(RequestKind.STOP_ONE, running, "Being stopped")

    async def _confirm(self, verb: str, rows: Sequence[RunRow], says: str, yes: str, *, always: bool = False) -> bool:
        """Name the exact tests first where there are several, or always."""
        if len(rows) == 1 and not always:
            return True
        about = rows[0].planned.node_id if len(rows) == 1 else f"{len(rows)} tests"
        yes = yes if len(rows) == 1 else f"{yes} all {len(rows)}"
        return await self._ask(Question(f"{verb}: {about}?", says, _named(rows), yes=yes))

    async def _ask(self, question: Question) -> bool:
        return await self._screen.app.push_screen_wait(question) is True

    async def _request_for(self, kind: RequestKind, rows: Sequence[RunRow], said: str) -> None:
        about = present.clean(rows[0].planned.node_id) if len(rows) == 1 else f"{len(rows)} tests"
        await self._request(f"{said}: {about}", *(RunRequest(kind, row.name) for row in rows))

    async def _request(self, said: str, *requests: RunRequest) -> None:
        """Store requests for the conductor."""

        def leave() -> None:
            for request in requests:
                self._screen.folder.add_request(request)

        try:
            await asyncio.to_thread(leave)
        except OSError as error:
            title = "What you asked for could not be left for the conductor"
            raise RefusedError(title, str(error), f"Its place is {self._screen.folder.path}.") from error
        self._screen.say(said, "Asked the conductor" if self._screen.situation().is_live else "Noted")
        self._screen.hurry()

    async def shell(self) -> None:
        """A shell in the folder of what came back."""
        back = self._screen.right.back
        assert back is not None, "the key table lets this key through where something came back"
        assert back.folder is not None, "the key table lets this key through where something came back"
        environ, folder = self._screen.fleet.environ, str(back.folder)
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

    def copy(self) -> None:
        """The id of the test, to the clipboard."""
        said = present.clean(self._row.planned.node_id)
        self._screen.app.copy_to_clipboard(said)
        self._screen.say(said, "Copied")


def _named(rows: Sequence[RunRow]) -> list[str]:
    """Each test, exactly, with the agent that it has."""
    return [
        f"{row.planned.node_id}  {row.member.name}" if row.member is not None else row.planned.node_id for row in rows
    ]
