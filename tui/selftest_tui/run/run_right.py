"""The right half of one run's screen, kept to what is under the cursor: a test with what came back for it, or a group.

What came back is read in a thread, once for each state of a test. Until the cursor rests, the half shows what it did
before, so that moving through a long list costs nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from selftest_tui.fleet.pane.preview import PaneRef
from selftest_tui.run import facts as run_facts
from selftest_tui.run import report as run_report
from selftest_tui.run.files import CameBack, read_back
from selftest_tui.run.lines import RunGroup
from selftest_tui.run.state import no_terminal
from selftest_tui.shared import present

if TYPE_CHECKING:
    from textual.timer import Timer

    from selftest_core.run.fold import RunRow
    from selftest_tui.run.actions import RunActions
    from selftest_tui.run.pane import RunPane

SECONDS_OF_REST = 0.05


class RightSide:
    """Shows on the pane of `screen` what is under its cursor."""

    def __init__(self, screen: RunActions, pane: RunPane) -> None:
        self._screen = screen
        self._pane = pane
        self._back: tuple[object, CameBack | None] = (None, None)
        self._rest: Timer | None = None
        self._shown: object = None

    @property
    def back(self) -> CameBack | None:
        """What came back for the test that is shown, as far as it was read."""
        return self._back[1]

    @property
    def is_at_rest(self) -> bool:
        """It shows what is under the cursor."""
        return self._rest is None

    @property
    def is_read(self) -> bool:
        """What came back for the test that is shown was read."""
        return self._screen.table.row is None or self._back[1] is not None

    def follow(self) -> None:
        """The cursor moved: show what is under it once it rests."""
        if self._rest is not None:
            self._rest.stop()
        self._rest = self._screen.set_timer(SECONDS_OF_REST, self.show)

    def show(self) -> None:
        """Show what is under the cursor, now."""
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
        line = self._screen.table.line
        key = line.key if isinstance(line, RunGroup) else line.name if line is not None else None
        if key != self._shown:
            self._shown = key
            self._pane.scroll_top()
        if isinstance(line, RunGroup):
            self._show_group(line)
        elif line is not None:
            self._show_test(line)
        else:
            self._show_nothing()

    def _show_nothing(self) -> None:
        self._back = (None, None)
        self._pane.show_title("")
        self._pane.show_markdown("")
        self._pane.show_pane(None, "")
        self._pane.show_facts(lambda now: ())
        self._pane.show_artifacts("")

    def _show_group(self, group: RunGroup) -> None:
        self._back = (None, None)
        cluster, pane = group.cluster, self._pane
        pane.show_title(f"{group.sign} {present.plural(len(group.members), 'test')}")
        pane.show_pane(None, "This is a group of tests: move to one of them to see its agent's terminal.")
        pane.show_artifacts(run_facts.files_text(None))
        if cluster is None:
            pane.show_markdown(run_report.group_markdown(group.title, group.members))
            pane.show_facts(lambda now: ())
        else:
            pane.show_markdown(run_report.cluster_markdown(cluster, self._screen.clock()))
            pane.show_facts(partial(run_facts.cluster_facts, cluster))

    def _show_test(self, row: RunRow) -> None:
        agent = self._screen.agent_of(row)
        has_terminal = agent is not None and agent.session is not None
        wanted = (row.name, row.attempt, row.end, row.misses, row.stamp, has_terminal)
        if self._back[0] != wanted:
            keeps = self._back[1] if isinstance(self._back[0], tuple) and self._back[0][:2] == wanted[:2] else None
            self._back = (wanted, keeps)
            # Not a coroutine: of a worker that is replaced before it began, one would be left that nobody awaits.
            read = partial(self._read, row, wanted, has_terminal=has_terminal)
            self._screen.run_worker(read, group="came back", exclusive=True)  # type: ignore[arg-type]  # its type admits no async function
        self._show_known(row)

    async def _read(self, row: RunRow, wanted: object, *, has_terminal: bool) -> None:
        environ = self._screen.fleet.environ
        back = await asyncio.to_thread(read_back, self._screen.folder, row, environ, has_terminal=has_terminal)
        if self._back[0] == wanted:
            self._back = (wanted, back)
            now = self._screen.table.row
            if now is not None and now.name == row.name:
                self._show_known(now)
                self._screen.show_frame()

    def _show_known(self, row: RunRow) -> None:
        run, back, agent, pane = self._screen.run_now, self.back, self._screen.agent_of(row), self._pane
        if run is None:
            return
        outcome, trouble = (back.outcome, back.trouble) if back is not None else (None, "")
        said = back.conversation if back is not None else ""
        pane.show_title(present.clean(row.planned.node_id))
        pane.show_markdown(run_report.outcome_markdown(row, outcome, trouble, said))
        place = str(back.folder) if back is not None and back.folder is not None else ""
        pane.show_facts(partial(run_facts.test_facts, row, agent, run, place))
        pane.show_artifacts(run_facts.files_text(back if back is not None else CameBack()))
        if agent is not None and agent.session is not None:
            pane.show_pane(PaneRef(agent.session, agent.pane_id))
        elif back is not None and (back.transcript or back.screen):
            pane.show_screen(back.transcript or back.screen)
        else:
            pane.show_pane(None, no_terminal(row, agent))
