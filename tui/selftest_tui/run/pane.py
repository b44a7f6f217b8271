"""The right pane of a run's screen: outcome, terminal, details and files of the test or group under the cursor.

It follows the cursor with a short delay, so that moving through a long list costs nothing. The collected files of a
test are read in a thread, once for each state of the test. Text of agents is made harmless and cut in `report`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from selftest_tui.fleet.pane.details import Details
from selftest_tui.fleet.pane.preview import PaneRef
from selftest_tui.fleet.pane.typing_pane import TypingPane
from selftest_tui.run import report as run_report
from selftest_tui.run.collected import Collected, read_collected
from selftest_tui.run.lines import RunGroup
from selftest_tui.run.words import no_terminal_reason
from selftest_tui.shared import present
from selftest_tui.shared.markdown_lines import markdown_content
from selftest_tui.shared.widgets.tabs import TabBar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult
    from textual.timer import Timer

    from selftest_core.fleet.view import Row
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.store import RunFolder
    from selftest_tui.run.lines import RunLine

SECONDS_OF_REST = 0.05
"""The cursor must rest this long before the pane follows it."""

type RunTab = Literal["outcome", "terminal", "details", "artifacts"]
TABS: tuple[RunTab, ...] = get_args(RunTab.__value__)


class RunSource(Protocol):
    """The data that the pane shows; implemented by the screen."""

    folder: RunFolder
    clock: Callable[[], float]

    @property
    def environ(self) -> Mapping[str, str]: ...

    @property
    def run_now(self) -> Run | None: ...

    @property
    def line(self) -> RunLine | None: ...

    def agent_of(self, row: RunRow | None) -> Row | None: ...


class Report(Static):
    """Markdown, wrapped anew when the width changes."""

    def __init__(self) -> None:
        super().__init__(id="report", markup=False)
        self._text = ""

    def show(self, text: str) -> None:
        """Replace the text."""
        self._text = text
        self.lay_out()

    def lay_out(self) -> None:
        """Wrap prose to the visible width; output of programs is not wrapped, and scrolls sideways."""
        parent = self.parent
        width = parent.scrollable_content_region.width if isinstance(parent, Widget) else 0
        if width:
            self.update(markdown_content(self._text, width))


class ReportScroll(VerticalScroll, can_focus=False):
    """Scrolls a report in both directions."""

    def __init__(self, report: Report) -> None:
        super().__init__(id="outcome")
        self._report = report

    def compose(self) -> ComposeResult:
        yield self._report

    def on_resize(self) -> None:
        """Wrap the report to the new width."""
        self._report.lay_out()


class RunPane(TypingPane, can_focus=False):
    """Shows one test or one group. `source` tells what is under the cursor."""

    DEFAULT_CSS = """
    RunPane ReportScroll { overflow-x: auto; scrollbar-size-horizontal: 1; }
    RunPane ReportScroll Report { width: auto; min-width: 100%; text-wrap: nowrap; text-overflow: clip; }
    """

    class CollectedRead(Message):
        """The collected files of the test under the cursor were read."""

    def __init__(self, source: RunSource, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._source = source
        self._collected: tuple[object, Collected | None] = (None, None)
        self._rest: Timer | None = None
        self._shown: object = None
        self.tab: RunTab = "outcome"
        self.markdown = ""
        self.artifacts = ""
        # Kept as attributes: a thread's result may arrive while the screen is being removed.
        self._tabs = TabBar({tab: tab for tab in TABS})
        self._switcher = ContentSwitcher(initial="outcome")
        self._report = Report()
        self._pane: PaneRef | None = None
        self._details = Details(source.clock)
        self._files = Static(id="files")
        self._outcome_scroll = ReportScroll(self._report)
        self._files_scroll = VerticalScroll(id="artifacts", can_focus=False)

    def compose(self) -> ComposeResult:
        yield self._tabs
        with self._switcher:
            yield self._outcome_scroll
            with Vertical(id="terminal"):
                yield self.preview
            yield self._details
            with self._files_scroll:
                yield self._files
        yield self.typist

    def on_mount(self) -> None:
        self.show_tab("outcome")

    # the line under the cursor

    @property
    def collected(self) -> Collected | None:
        """The collected files of the test that is shown, as far as they were read."""
        return self._collected[1]

    @property
    def is_at_rest(self) -> bool:
        """True when the pane shows the line under the cursor."""
        return self._rest is None

    def follow(self) -> None:
        """Show the line under the cursor once the cursor rests."""
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(SECONDS_OF_REST, self.show_line)

    def show_line(self) -> None:
        """Show the line under the cursor now."""
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
        line = self._source.line
        key = line.key if isinstance(line, RunGroup) else line.name if line is not None else None
        if key != self._shown:
            self._shown = key
            self._outcome_scroll.scroll_home(animate=False)
            self._files_scroll.scroll_home(animate=False)
        if isinstance(line, RunGroup):
            self._show_group(line)
        elif line is not None:
            self._show_test(line)
        else:
            self._show_nothing()

    def _show_nothing(self) -> None:
        self._collected = (None, None)
        self.border_title = Content("")
        self._show_markdown("")
        self._show_terminal(None, "")
        self._details.show(lambda now: ())
        self._show_artifacts("")

    def _show_group(self, group: RunGroup) -> None:
        self._collected = (None, None)
        cluster, run = group.cluster, self._source.run_now
        noun = "test" if run is None else run.plan.noun
        self.border_title = Content(f"{group.sign} {present.plural(len(group.members), noun)}")
        self._show_terminal(None, f"This is a group of {noun}s: move to one of them to see its agent's terminal.")
        self._show_artifacts(run_report.files_text(None))
        if cluster is None:
            self._show_markdown(run_report.group_markdown(group.title, group.members, noun))
            self._details.show(lambda now: () if run is None else run_report.pace_facts(run, now))
        else:
            self._show_markdown(run_report.cluster_markdown(cluster, self._source.clock(), noun))
            self._details.show(partial(run_report.cluster_facts, cluster))

    def _show_test(self, row: RunRow) -> None:
        agent = self._source.agent_of(row)
        has_terminal = agent is not None and agent.session is not None
        wanted = (row.name, row.attempt, row.end, row.misses, row.stamp, has_terminal)
        before, files = self._collected
        if before != wanted:
            is_same_attempt = isinstance(before, tuple) and before[:2] == wanted[:2]
            self._collected = (wanted, files if is_same_attempt else None)
            # A partial, not a coroutine: a worker that is replaced before it began would leave one never awaited.
            read = partial(self._read, row, wanted, has_terminal=has_terminal)
            self.run_worker(read, group="collected", exclusive=True)  # type: ignore[arg-type]  # its type admits no async function
        self._show_known(row)

    async def _read(self, row: RunRow, wanted: object, *, has_terminal: bool) -> None:
        folder, environ = self._source.folder, self._source.environ
        found = await asyncio.to_thread(read_collected, folder, row, environ, has_terminal=has_terminal)
        if self._collected[0] == wanted:
            self._collected = (wanted, found)
            now = self._source.line
            if now is not None and not isinstance(now, RunGroup) and now.name == row.name:
                self._show_known(now)
                self.post_message(self.CollectedRead())

    def _show_known(self, row: RunRow) -> None:
        run, agent, found = self._source.run_now, self._source.agent_of(row), self.collected or Collected()
        if run is None:
            return
        self.border_title = Content(present.clean(row.planned.node_id))
        self._show_markdown(run_report.outcome_markdown(row, found.outcome, found.trouble, found.conversation))
        place = str(found.folder) if found.folder is not None else ""
        self._details.show(partial(run_report.test_facts, row, agent, run, place))
        self._show_artifacts(run_report.files_text(found))
        if agent is not None and agent.session is not None:
            self._show_terminal(PaneRef(agent.session, agent.pane_id))
        elif found.transcript or found.screen:
            self._set_terminal(None)
            self.preview.show_text(found.transcript or found.screen)
        else:
            self._show_terminal(None, no_terminal_reason(row, agent))

    def _show_markdown(self, text: str) -> None:
        if text != self.markdown:  # unchanged text is not wrapped again
            self.markdown = text
            self._report.show(text)

    def _show_artifacts(self, text: str) -> None:
        if text != self.artifacts:
            self.artifacts = text
            self._files.update(Content(text))

    def _show_terminal(self, pane: PaneRef | None, words: str = "") -> None:
        """Show the terminal of an agent; without one, `words`."""
        self._set_terminal(pane)
        self.preview.show(pane, words)

    def _set_terminal(self, pane: PaneRef | None) -> None:
        self._pane = pane
        self.stop_typing_elsewhere(pane)

    # typing

    def start_typing(self) -> None:
        """Send every key to the terminal that is shown; do nothing without one."""
        if self._pane is not None:
            self.show_tab("terminal")
            self.typist.start(self._pane)

    # tabs

    def show_tab(self, tab: RunTab) -> None:
        """Switch to a tab."""
        if tab != "terminal":
            self.typist.stop()
        self.tab = tab
        self._switcher.current = tab
        self._tabs.show(tab)

    def scroll_text(self, lines: int) -> None:
        """Scroll the tab that is shown; negative is up."""
        if self.tab == "terminal":
            self.preview.scroll_text(lines)
        else:
            self.query_one(f"#{self.tab}").scroll_relative(y=lines, animate=False, immediate=True)

    def pan_text(self, cells: int) -> None:
        """Scroll the tab that is shown sideways; negative is to the left."""
        if self.tab == "terminal":
            self.preview.pan(cells)
        else:
            self.query_one(f"#{self.tab}").scroll_relative(x=cells, animate=False, immediate=True)
