"""Keys that are typed while a dialog or a prompt opens: queued until it has the focus.

A terminal delivers fast typing all at once. Textual gives it to the widget that has the focus then, and keys that the
widget does not handle return to the app, in order: after an `m` the letters of a message would run as table keys.
So after a key that opens a dialog every key is queued here: those that returned (the older ones), and those that came
later. The app delivers them when the dialog has the focus, or when it is clear that none opens.

This queues and orders; it does not know what a key means.
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
"""Seconds after which queued keys are delivered although no dialog has opened."""


class HeldKeys:
    """The queue of keys of one app."""

    class CaughtUp(Message, bubble=True):
        """Sent along the way of the keys: when it arrives, all keys before it have arrived."""

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
        """True while keys are queued."""
        return self._origin is not None

    def begin(self, origin: Screen[Any], worker: Worker[Any] | None, way: MessagePump | None) -> None:
        """Queue what follows a key of `origin`, which opens a dialog at once or in the worker. `way`: had the focus."""
        if self._origin is not None:
            return
        self._origin, self._worker = origin, worker
        self._way = way or origin
        self._until = time.monotonic() + LONGEST
        self._timer = self._app.set_interval(_LOOK_AGAIN, self._look)

    def keeps(self, event: events.Event) -> bool:
        """Queue this event if it is a key while keys are queued; True if it was queued."""
        if self._origin is None or not isinstance(event, events.Key | events.Paste):
            return False
        (self._older if event.is_forwarded else self._newer).append(event)
        return True

    def release(self) -> list[events.Key | events.Paste]:
        """Stop queueing; returns the queued keys as new events, in the order of typing."""
        kept = [*self._older, *self._newer]
        self._older, self._newer = [], []
        self._origin = self._way = self._worker = None
        return [
            events.Key(one.key, one.character) if isinstance(one, events.Key) else events.Paste(one.text)
            for one in kept
        ]

    def _look(self) -> None:
        """Once a dialog has the focus, or none will open, wait for the keys that are still on their way."""
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
    """An app that delivers what is typed after a key to the dialog or the prompt that the key opens."""

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._held = HeldKeys(self)

    @property
    def holds_keys(self) -> bool:
        """Keys are queued for a dialog."""
        return self._held.is_holding

    async def on_event(self, event: events.Event) -> None:
        """Queue keys after one that opens a dialog."""
        if not self._held.keeps(event):
            await super().on_event(event)

    def hold_keys(self, origin: Screen[Any], worker: Worker[Any] | None, way: MessagePump | None) -> None:
        """Queue keys: one of `origin`, while `way` had the focus, opens a dialog at once or in the worker."""
        self._held.begin(origin, worker, way)

    async def on_held_keys_caught_up(self) -> None:
        """Deliver each queued key to the widget that has the focus now."""
        for key in self._held.release():
            await super().on_event(key)

    def write_to_terminal(self, data: str) -> None:
        """Send control characters that change nothing on the screen, between two writes of the screen."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(data)
