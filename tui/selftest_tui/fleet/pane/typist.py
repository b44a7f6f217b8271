"""Sends typed keys to a pane, in order, without attaching.

Keys are queued and sent in batches, one tmux process at a time; keys typed while a batch is being sent form the next
batch, so the order is kept however fast the user types or slow the server is. Every queued key stores its target pane.
All keys are sent, escape and ctrl+c too; only ctrl+] ends typing, as in telnet. Agents use escape, and if it ended
typing by accident, the next keys would run commands.
"""

from __future__ import annotations

import unicodedata
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from textual.keys import key_to_character
from textual.message import Message
from textual.widget import Widget

from selftest_core.errors import SelftestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from selftest_core.actions.send_keys import Keystroke
    from selftest_tui.fleet.pane.preview import PaneRef

LEAVE = "ctrl+]"
TYPING = "TYPING  every key goes to the agent · ^] leaves"
"""Text of the key line during typing."""
SUBTITLE = f"TYPING · {LEAVE} leaves · esc goes to it"
OTHER_PANE = "Typing has ended: another terminal is shown now."
_LEAVE_KEYS = frozenset({"ctrl+right_square_bracket", "ctrl+]"})
# Textual's key names that are not Unicode names.
_NAMED_CHARACTERS = {"space": " ", "backslash": "\\", "underscore": "_", "at": "@", "minus": "-", "plus": "+"}


def keystroke(key: str, character: str | None) -> Keystroke | None:
    """Return the keystroke for a Textual key; None if the key cannot be sent to a terminal program."""
    from selftest_core.actions.send_keys import Keystroke, is_sendable  # not needed until somebody types

    if character is not None and _is_text(character) and "+" not in key[:-1]:
        return Keystroke(text=character)
    words, plus, base = key.rpartition("+")
    if plus and not base:  # the plus key itself
        words, base = words.removesuffix("+"), "+"
    modifiers = set(words.split("+")) - {""}
    if modifiers - {"ctrl", "alt", "meta", "shift"}:
        return None
    ctrl, alt, shift = "ctrl" in modifiers, bool(modifiers & {"alt", "meta"}), "shift" in modifiers
    named = Keystroke(name=base, ctrl=ctrl, alt=alt, shift=shift)
    if base != "space" and is_sendable(named):
        return named
    text = base if len(base) == 1 else _NAMED_CHARACTERS.get(base) or key_to_character(base)
    if text is None or len(text) != 1 or not _is_text(text):
        return None
    return Keystroke(text=text.upper() if shift else text, ctrl=ctrl, alt=alt, shift=shift)


def _is_text(characters: str) -> bool:
    """Return whether it contains no control character: joiners and wide blanks are text, though not "printable"."""
    return not any(unicodedata.category(one) in ("Cc", "Cs") for one in characters)


class Queued(NamedTuple):
    """An entry of the queue for a pane: a keystroke, or a pasted text."""

    pane: PaneRef
    what: Keystroke | str


class Typist(Widget, can_focus=True):
    """Widget that has the focus while the user types into a pane."""

    DEFAULT_CSS = "Typist { width: 0; height: 0; }"

    class Began(Message):
        """Typing started: keys go to the pane now."""

    class Ended(Message):
        """Typing ended: keys are commands again. `why` is empty if the user ended it."""

        def __init__(self, why: str = "") -> None:
            super().__init__()
            self.why = why

    class Sent(Message):
        """A batch was sent to its pane, or failed."""

        def __init__(self, error: SelftestError | None = None) -> None:
            super().__init__()
            self.error = error

    class Typed(Message):
        """Input was sent to the pane, so its screen may change."""

    def __init__(self) -> None:
        super().__init__()
        self._pane: PaneRef | None = None
        self._queue: list[Queued] = []
        self._is_sending = False
        self._focused_before: Widget | None = None

    @property
    def pane(self) -> PaneRef | None:
        """The pane that receives keys, None if they are commands."""
        return self._pane

    @property
    def is_typing(self) -> bool:
        """True while keys go to a pane."""
        return self._pane is not None

    def start(self, pane: PaneRef) -> None:
        """Send every key to this pane from now on."""
        if not self.is_typing:
            self._focused_before = self.screen.focused
        self._pane = pane
        self.screen.set_focus(self, scroll_visible=False)  # at once: the next key is for the pane
        self.post_message(self.Began())

    def stop(self, why: str = "") -> None:
        """Stop typing; queued keys are still sent to their pane."""
        if not self.is_typing:
            return
        self._pane = None
        if self.screen.focused is self:
            self.screen.set_focus(self._focused_before, scroll_visible=False)
        self.post_message(self.Ended(why))

    def on_key(self, event: events.Key) -> None:
        if self._pane is None:
            return
        event.stop()
        event.prevent_default()
        if event.key in _LEAVE_KEYS:
            self.stop()
            return
        stroke = keystroke(event.key, event.character)
        if stroke is not None:
            self._queue.append(Queued(self._pane, stroke))
            self._send_next()

    def on_paste(self, event: events.Paste) -> None:
        if self._pane is None:
            return
        event.stop()
        event.prevent_default()
        self._queue.append(Queued(self._pane, event.text))
        self._send_next()

    def on_blur(self) -> None:
        if self.is_typing and self.app.app_focus:  # switching to another desktop window does not end typing
            self.stop("Typing has ended: something else has the focus.")

    def _send_next(self) -> None:
        if self._is_sending or not self._queue:
            return
        self._is_sending = True
        batch, self._queue = self._queue, []
        self.run_worker(partial(self._send, batch), thread=True, group="typing", description="type into a pane")

    def _send(self, batch: Sequence[Queued]) -> None:
        """Send a batch: one process for consecutive keys, one for each paste; called in a thread."""
        from selftest_core.actions import send_keys as keystrokes

        try:
            for (pane, is_paste), run in groupby(batch, lambda typed: (typed.pane, isinstance(typed.what, str))):
                if is_paste:
                    for typed in run:
                        keystrokes.paste(pane.session, pane.pane_id, str(typed.what))
                else:
                    keys = [typed.what for typed in run if not isinstance(typed.what, str)]
                    keystrokes.send_keys(pane.session, pane.pane_id, keys)
        except SelftestError as error:
            self.post_message(self.Sent(error))
        else:
            self.post_message(self.Sent())

    def on_typist_sent(self, event: Sent) -> None:
        event.stop()
        self._is_sending = False
        if event.error is None:
            self.post_message(self.Typed())
            self._send_next()
            return
        lost = len(self._queue)
        self._queue.clear()
        also = f" {lost} more keys were not sent." if lost else ""
        self.stop(f"{event.error.title}: typing has ended, the last keys may not have arrived.{also}")
