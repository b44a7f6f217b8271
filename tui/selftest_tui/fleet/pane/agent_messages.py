"""The last messages of the selected agent with its tool calls, as its transcript tells them.

A local agent's transcript is followed while it grows. Of others mngr is asked, which costs a second: once when the tab
is looked at and again on request, never in a loop. A question that is overtaken by another selection is dropped.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from selftest_core.conversation.last_messages import has_conversation, last_messages, read_messages, state_folder
from selftest_core.errors import SelftestError
from selftest_core.run.fetch.conversations import kept_conversation
from selftest_core.run.plan.names import RUN_LABEL
from selftest_tui.shared.present import clean
from selftest_tui.shared.widgets.screen_text import block

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from textual.app import ComposeResult

    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Row
    from selftest_core.tools.mngr import Mngr

LIMIT = 60
"""How many steps are asked for: messages, and results of tool calls."""
_LOOK_AGAIN = 1.0


class AgentMessages(VerticalScroll, can_focus=False):
    """What was last said in the selected agent. `ask` is given by whoever knows mngr.

    `stamp` changes when there is more to show, and costs next to nothing; None where that cannot be known.
    """

    def __init__(self, ask: Callable[[Row], Awaitable[tuple[str, ...]]], stamp: Callable[[Row], object]) -> None:
        super().__init__(id="messages")
        self._ask = ask
        self._stamp_of = stamp
        self._stamp: object = None
        self._row: Row | None = None
        self._is_answered = False

    def compose(self) -> ComposeResult:
        yield Static(id="said")

    def on_mount(self) -> None:
        self.set_interval(_LOOK_AGAIN, self._follow)

    def on_show(self) -> None:
        self.ask_again(only_if_new=True)

    def _follow(self) -> None:
        """Show what has come since, where that can be known."""
        if self._row is None or not self._is_answered or not self.is_on_screen:
            return
        stamp = self._stamp_of(self._row)
        if stamp is not None and stamp != self._stamp:
            self._read(self._row)

    def show_selected(self, row: Row | None, session: TmuxSession | None, view: FleetView) -> None:
        """Show what is selected: only agents have messages."""
        self.show(row)

    def show(self, row: Row | None) -> None:
        """Show this agent's messages, once they are looked at."""
        if row is not None and self._row is not None and row.key == self._row.key:
            self._row = row
            return
        self._row = row
        self._is_answered = False
        if self.is_on_screen:
            self.ask_again()

    def ask_again(self, *, only_if_new: bool = False) -> None:
        """Ask mngr for them now."""
        row = self._row
        if row is None:
            self._say(Content("Only agents have messages."))
        elif not (only_if_new and self._is_answered):
            self._say(Content(f"Asking for the messages of {clean(row.agent.name)} …"))
            self._read(row)

    def _read(self, row: Row) -> None:
        # Not a coroutine: of a worker that is replaced before it began, one would be left that nobody awaits.
        read = partial(self._answer, row)
        self.run_worker(read, group="messages", exclusive=True)  # type: ignore[arg-type]  # its type admits no async function

    async def _answer(self, row: Row) -> None:
        self._stamp = self._stamp_of(row)
        try:
            messages = await self._ask(row)
        except SelftestError as error:
            parts = [error.title, error.detail.strip(), error.hint]
            self._say(Content(block("\n".join(part for part in parts if part))))
        else:
            self._say(_shown(messages))
        self._is_answered = True

    def _say(self, text: Content) -> None:
        # Who has scrolled up reads on there.
        is_at_end = not self._is_answered or self.scroll_offset.y >= self.max_scroll_y
        for shown in self.query("#said").results(Static):
            shown.update(text)
        if is_at_end:
            self.scroll_end(animate=False)


def _shown(messages: tuple[str, ...]) -> Content:
    """The messages one below the other, a line between."""
    if not messages:
        return Content("No messages: only agents that keep a transcript (as Claude does) have any.")
    return Content("\n\n").join(_step(message) for message in messages)


def _step(message: str) -> Content:
    """One step: its first line says who and when."""
    head, _, text = message.partition("\n")
    return Content.assemble((block(head), "$foreground-muted"), "\n", block(text))


async def messages_of(mngr: Mngr, row: Row, limit: int) -> tuple[str, ...]:
    """Return the last `limit` steps of an agent, each a text whose first line has speaker and time. Raises ToolError.

    They come from its transcript on this machine, else from what its run has kept, else from mngr.
    """
    if not has_conversation(row.agent):
        return ()
    found = await asyncio.to_thread(_on_this_machine, mngr.environ, row, limit)
    return found or await last_messages(mngr, row.agent, limit)


def _on_this_machine(environ: Mapping[str, str], row: Row, limit: int) -> tuple[str, ...]:
    folder = state_folder(environ, row.agent)
    found = read_messages(folder, limit) if folder is not None else ()
    if found:
        return found
    kept = kept_conversation(environ, row.agent.labels.get(RUN_LABEL, ""), row.agent.id)
    # Blank lines are between steps alone: those of a message are indented.
    return tuple(step for step in kept.split("\n\n") if step.strip())[-limit:]
