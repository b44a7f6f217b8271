"""Keys that come while a dialog or a prompt is being opened: held back, and given to it once it has the focus.

A terminal delivers what is typed fast all at once. All of it is given to the widget that has the focus then, and what
that widget does not want comes back to the app, in its order: behind an `m` the letters of a message would be looked up
as keys of the table. So from a key that opens a dialog on, every key is kept here: those that came back (they are the
older ones), and those that came later. The app gives them to whoever has the focus when the dialog is there, or when
it turned out that there is none.

This holds and orders; it does not know what a key means.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import App
from textual.message import Message

from selftest_tui.app.terminal_driver import TerminalDriver

if TYPE_CHECKING:
    from textual.message_pump import MessagePump
    from textual.screen import Screen
    from textual.timer import Timer
    from textual.worker import Worker

    from selftest_tui.shared.widgets.prompt import Prompt

_LOOK_AGAIN = 0.01
LONGEST = 10.0
"""Seconds after which a dialog that has not come will not: keys are let go, so that none is held for ever."""


class HeldKeys:
    """The keys that are held for one app."""

    class CaughtUp(Message, bubble=True):
        """It came by the same way as the keys: all of those that were on it have arrived."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._origin: Screen[Any] | None = None
        self._way: MessagePump | None = None
        self._worker: Worker[Any] | None = None
        self._older: list[events.Key | events.Paste] = []
        self._newer: list[events.Key | events.Paste] = []
        self._timer: Timer | None = None
        self._until = 0.0

    @property
    def is_holding(self) -> bool:
        """What is typed now waits for a dialog, or for it to turn out that there is none."""
        return self._origin is not None

    def begin(self, origin: Screen[Any], worker: Worker[Any] | None, way: MessagePump | None) -> None:
        """A key of `origin` opened something, or does so in the worker: hold what follows. `way`: had the focus."""
        if self._origin is not None:
            return
        self._origin, self._worker = origin, worker
        self._way = way or origin
        self._until = time.monotonic() + LONGEST
        self._timer = self._app.set_interval(_LOOK_AGAIN, self._look)

    def keeps(self, event: events.Event) -> bool:
        """True where this event is a key that was kept: nobody else must see it."""
        if self._origin is None or not isinstance(event, events.Key | events.Paste):
            return False
        (self._older if event.is_forwarded else self._newer).append(event)
        return True

    def release(self) -> list[events.Key | events.Paste]:
        """Hold no longer: all that was kept, as new events in the order in which they were typed."""
        kept = [*self._older, *self._newer]
        self._older, self._newer = [], []
        self._origin = self._way = self._worker = None
        return [
            events.Key(one.key, one.character) if isinstance(one, events.Key) else events.Paste(one.text)
            for one in kept
        ]

    def _look(self) -> None:
        """Is there somebody to have them? Then what is still on its way is awaited, no longer than it takes."""
        if self._timer is None or not (self._is_open() or self._is_over()):
            return
        self._timer.stop()
        self._timer = None
        # As sent by the app: a message ends at its sender, which else is the screen where a key was clicked.
        message = self.CaughtUp().set_sender(self._app)
        if self._way is None or not self._way.post_message(message):
            self._app.post_message(message)  # the widget is gone, and nothing is on the way from it

    def _is_open(self) -> bool:
        top, origin = self._app.screen, self._origin
        if top is not origin:
            return top.is_mounted and (top.focused is not None or not top.focus_chain)
        field: Prompt | None = getattr(origin, "field", None)
        return field is not None and field.is_open

    def _is_over(self) -> bool:
        is_done = self._worker is None or self._worker.is_finished
        return (is_done and self._app.screen is self._origin) or time.monotonic() > self._until


class HoldingApp(App[None]):
    """An app that gives what is typed behind a key to the dialog or the prompt which that key opens."""

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._held = HeldKeys(self)

    @property
    def holds_keys(self) -> bool:
        """Keys wait for what one before them opens."""
        return self._held.is_holding

    async def on_event(self, event: events.Event) -> None:
        """Keys behind one that opens something wait for it."""
        if not self._held.keeps(event):
            await super().on_event(event)

    def hold_keys(self, origin: Screen[Any], worker: Worker[Any] | None, way: MessagePump | None) -> None:
        """A key of `origin`, while `way` had the focus, opened something, or does so in the worker."""
        self._held.begin(origin, worker, way)

    async def on_held_keys_caught_up(self) -> None:
        """It is there, or there is none: each key to whoever has the focus now."""
        for key in self._held.release():
            await super().on_event(key)

    def write_to_terminal(self, data: str) -> None:
        """Send control characters that change nothing on the screen, between two writes of the screen's own."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(data)
