"""The right half of the fleet screen: preview, details, evidence and messages of the selected agent or session.

It shows the given values and reads nothing about the fleet. In typing mode every key goes to the agent, except ctrl+],
which ends it: escape, ctrl+c and all others are the agent's. Typing also ends when another pane is selected, so that no
key reaches another agent or is taken as a command by accident.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, assert_never, cast, get_args, runtime_checkable

from textual.content import Content
from textual.widgets import ContentSwitcher

from selftest_core.errors import SelftestError
from selftest_tui.fleet.pane.preview import PaneRef
from selftest_tui.fleet.pane.typing_pane import TypingPane
from selftest_tui.shared.keys import shown
from selftest_tui.shared.present import clean
from selftest_tui.shared.widgets.tabs import TabBar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult
    from textual.widget import Widget

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Row
    from selftest_core.tools.mngr import Mngr

type Tab = Literal["preview", "details", "explain", "messages"]
TABS: tuple[Tab, ...] = get_args(Tab.__value__)


class _Fleet(Protocol):
    """The interface of the screen that contains this pane."""

    @property
    def mngr(self) -> Mngr: ...
    @property
    def environ(self) -> Mapping[str, str]: ...


@runtime_checkable
class _Part(Protocol):
    """A tab that is made when it is first opened."""

    def show_selected(self, row: Row | None, session: TmuxSession | None, view: FleetView) -> None: ...


class SidePane(TypingPane, can_focus=False):
    """Shows one row or session; `show` is cheap and may be called on every move of the cursor."""

    def __init__(self, clock: Callable[[], float] = time.time, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._clock = clock
        self._row: Row | None = None
        self._session: TmuxSession | None = None
        self._view: FleetView | None = None
        self._shown_title = ""
        self._tab: Tab = "preview"
        self._tabs = TabBar({tab: tab for tab in TABS})

    def compose(self) -> ComposeResult:
        yield self._tabs
        with ContentSwitcher(initial="preview"):
            yield self.preview
        yield self.typist

    def on_mount(self) -> None:
        self._show_tab("preview")

    @property
    def tab(self) -> Tab:
        """The tab that is shown."""
        return self._tab

    def show(self, row: Row | None, session: TmuxSession | None, view: FleetView) -> None:
        """Show this agent, this session, or nothing. Typing ends if its pane is no longer shown."""
        self._row, self._session, self._view = row, session, view
        if not self.is_mounted:
            return
        title = self._title()
        if title != self._shown_title:  # setting it paints the whole pane again
            self._shown_title = title
            self.border_title = Content(title)
        pane = self._pane_of(row, session)
        self.stop_typing_elsewhere(pane)
        self.preview.show(pane, "" if pane else self._words(row))
        for part in self.query_one(ContentSwitcher).children:
            self._tell(part)

    def _tell(self, part: Widget) -> None:
        """Show the selection in one of the tabs."""
        if self._view is not None and isinstance(part, _Part):
            part.show_selected(self._row, self._session, self._view)

    def _make(self, tab: Tab) -> None:
        """Make a tab when it is first opened, so that the first frame does not wait for tabs that are rarely used."""
        switcher = self.query_one(ContentSwitcher)
        if any(part.id == tab for part in switcher.children):
            return
        part: Widget
        match tab:
            case "preview":
                return  # it exists from the start
            case "details":
                from selftest_tui.fleet.pane.details import Details

                part = Details(self._clock)
            case "explain":
                from selftest_tui.fleet.pane.explain import Explain

                part = Explain(self._clock)
            case "messages":
                from selftest_tui.fleet.pane.agent_messages import AgentMessages

                part = AgentMessages(self._ask_messages, self._messages_stamp)
            case _:
                assert_never(tab)
        part.display = False
        switcher.mount(part)
        self._tell(part)

    def toggle(self, tab: Tab) -> None:
        """Show this tab; if it is shown already, show the preview. On the preview, capture a remote screen again."""
        if tab != self._tab:
            self._show_tab(tab)
        elif tab != "preview":
            self._show_tab("preview")
        elif self._row is not None and self._row.agent.host.ssh is not None:
            self._look_at_remote(self._row)

    def scroll_text(self, lines: int) -> None:
        """Scroll the shown tab; negative is up, into the history of a pane."""
        if self._tab == "preview":
            self.preview.scroll_text(lines)
        else:
            self.query_one(f"#{self._tab}").scroll_relative(y=lines, animate=False, immediate=True)

    def pan_text(self, cells: int) -> None:
        """Scroll the shown tab sideways; negative is to the left."""
        if self._tab == "preview":
            self.preview.pan(cells)
        else:
            self.query_one(f"#{self._tab}").scroll_relative(x=cells, animate=False, immediate=True)

    def start_typing(self) -> None:
        """Send every key to the shown pane from now on. Raises SelftestError if there is none."""
        pane = self._pane_of(self._row, self._session)
        if pane is None:
            raise SelftestError("There is nothing to type into", self._words(self._row))
        self._show_tab("preview")
        self.typist.start(pane)

    # Messages of the tabs

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        event.stop()
        self._show_tab(cast("Tab", event.tab))

    def _show_tab(self, tab: Tab) -> None:
        if tab != "preview" and self.is_typing:
            self.typist.stop()
        self._tab = tab
        self._make(tab)
        self.query_one(ContentSwitcher).current = tab
        self._tabs.show(tab)

    def _shown_name(self) -> str:
        if self._row is not None:
            return self._row.agent.name
        return self._session.ref.name if self._session is not None else ""

    def _title(self) -> str:
        return clean(self._shown_name()) or "nothing selected"

    @staticmethod
    def _pane_of(row: Row | None, session: TmuxSession | None) -> PaneRef | None:
        if row is not None:
            return PaneRef(row.session, row.pane_id) if row.session is not None else None
        return PaneRef(session.ref, None) if session is not None else None

    @staticmethod
    def _words(row: Row | None) -> str:
        if row is None:
            return "Nothing is selected."
        host = row.agent.host
        if not host.is_local:
            where = f"It runs on {host.name} ({host.provider}), so its screen is not live here."
            if host.ssh is None:
                return f"{where}\nmngr gives no ssh command for that host."
            return (
                f"{where}\n{shown('fleet.attach', '⏎')} attaches to it; "
                f"{shown('fleet.preview', 'p')} fetches its screen once."
            )
        if row.stale_since is not None:
            return "It was not found at the last check."
        return f"It is {row.category.value}, and has no tmux session.\n{shown('fleet.start', 'S')} starts it."

    async def _ask_messages(self, row: Row) -> tuple[str, ...]:
        from selftest_tui.fleet.pane.agent_messages import LIMIT, messages_of  # not needed for the first frame

        return await messages_of(cast("_Fleet", self.screen).mngr, row, LIMIT)

    def _messages_stamp(self, row: Row) -> object:
        from selftest_core.conversation.last_messages import stamp_of, state_folder

        folder = state_folder(cast("_Fleet", self.screen).mngr.environ, row.agent)
        return stamp_of(folder) if folder is not None else None

    def _look_at_remote(self, row: Row) -> None:
        self.preview.show(None, f"Asking {row.agent.host.name} for the screen of {row.agent.name} …")
        # Not a coroutine: a worker that is replaced before it starts would leave it without an await.
        read = partial(self._remote, row)
        self.run_worker(read, group="remote screen", exclusive=True)  # type: ignore[arg-type]  # its type admits no async function

    async def _remote(self, row: Row) -> None:
        from selftest_tui.fleet.pane.remote_screen import remote_screen  # not needed for the first frame

        try:
            text = await remote_screen(row, cast("_Fleet", self.screen).environ)
        except SelftestError as error:
            if self._is_shown(row.key):
                self.preview.show(None, "\n".join(part for part in (error.title, error.detail, error.hint) if part))
        else:
            if self._is_shown(row.key):
                self.preview.show_text(text)

    def _is_shown(self, key: AgentKey) -> bool:
        return self._row is not None and self._row.key == key
