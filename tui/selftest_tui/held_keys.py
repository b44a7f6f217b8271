"""Keys that come while a dialog is being opened: held back, and given to the dialog once it has the focus.

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
from textual.message import Message

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump
    from textual.screen import Screen
    from textual.timer import Timer
    from textual.worker import Worker

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

    def begin(self, origin: Screen[Any], worker: Worker[Any] | None = None) -> None:
        """A key of `origin` opens a dialog, at once or in the worker: hold what follows."""
        if self._origin is not None:
            return
        self._origin, self._worker = origin, worker
        self._way = origin.focused or origin
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
        if self._way is None or not self._way.post_message(self.CaughtUp()):
            self._app.post_message(self.CaughtUp())  # the widget is gone, and nothing is on the way from it

    def _is_open(self) -> bool:
        top = self._app.screen
        return top is not self._origin and top.is_mounted and (top.focused is not None or not top.focus_chain)

    def _is_over(self) -> bool:
        is_done = self._worker is not None and self._worker.is_finished
        return is_done or time.monotonic() > self._until
