"""The last messages and tool calls of the selected agent, from its transcript.

A local agent's transcript is followed while it grows. For others mngr is called, which takes a second: once when the
tab is opened and again on request, never in a loop. An answer for an agent that is no longer selected is dropped.
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
"""Number of steps that are requested: messages, and results of tool calls."""
_LOOK_AGAIN = 1.0


class AgentMessages(VerticalScroll, can_focus=False):
    """The last messages of the selected agent. `ask`: reads them.

    `stamp`: returns a value that changes when there are new messages; cheap to call; None if that cannot be known.
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
        """Show new messages, if `stamp` can tell that there are any."""
        if self._row is None or not self._is_answered or not self.is_on_screen:
            return
        stamp = self._stamp_of(self._row)
        if stamp is not None and stamp != self._stamp:
            self._read(self._row)

    def show_selected(self, row: Row | None, session: TmuxSession | None, view: FleetView) -> None:
        """Show the selected agent's messages; sessions have none."""
        self.show(row)

    def show(self, row: Row | None) -> None:
        """Show this agent's messages once the tab is visible."""
        if row is not None and self._row is not None and row.key == self._row.key:
            self._row = row
            return
        self._row = row
        self._is_answered = False
        if self.is_on_screen:
            self.ask_again()

    def ask_again(self, *, only_if_new: bool = False) -> None:
        """Read the messages again now."""
        row = self._row
        if row is None:
            self._say(Content("Only agents have messages."))
        elif not (only_if_new and self._is_answered):
            self._say(Content(f"Asking for the messages of {clean(row.agent.name)} …"))
            self._read(row)

    def _read(self, row: Row) -> None:
        # Not a coroutine: a worker that is replaced before it starts would leave it without an await.
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
        # Keep the position of a user who has scrolled up.
        is_at_end = not self._is_answered or self.scroll_offset.y >= self.max_scroll_y
        for shown in self.query("#said").results(Static):
            shown.update(text)
        if is_at_end:
            self.scroll_end(animate=False)


def _shown(messages: tuple[str, ...]) -> Content:
    """Join the messages, with an empty line between them."""
    if not messages:
        return Content("No messages: only agents that keep a transcript (as Claude does) have any.")
    return Content("\n\n").join(_step(message) for message in messages)


def _step(message: str) -> Content:
    """Format one step: its first line has the speaker and the time."""
    head, _, text = message.partition("\n")
    return Content.assemble((block(head), "$foreground-muted"), "\n", block(text))


async def messages_of(mngr: Mngr, row: Row, limit: int) -> tuple[str, ...]:
    """Return the last `limit` steps of an agent, each a text whose first line has speaker and time. Raises ToolError.

    They are read from its transcript on this machine, else from the files that its run has fetched, else from mngr.
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
    # Only steps are separated by empty lines: blank lines within a message are indented.
    return tuple(step for step in kept.split("\n\n") if step.strip())[-limit:]
