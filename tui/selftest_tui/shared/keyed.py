"""The base of every main screen: it runs the keys of its key table, and shows refusals and errors as toasts.

A subclass returns the `situation` that keys are checked against, and has one method for each action of its table:
`do_undo` for the action `undo`.
"""

from __future__ import annotations

import time
from collections import deque
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from textual.screen import Screen

from selftest_core.errors import SelftestError
from selftest_tui.shared import problems
from selftest_tui.shared.keys import Where

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual import events
    from textual.message_pump import MessagePump
    from textual.worker import Worker

    from selftest_tui.shared.keys import Key, KeyTable
    from selftest_tui.shared.problems import Severity, Toast
    from selftest_tui.shared.widgets.key_bar import KeyBar
    from selftest_tui.shared.widgets.prompt import Prompt

KEPT_TOASTS = 50


@runtime_checkable
class HoldsKeys(Protocol):
    """An app that delivers what is typed after a key to the dialog or the prompt that the key opens."""

    def hold_keys(self, origin: Screen[Any], worker: Worker[Any] | None, way: MessagePump | None) -> None: ...


class KeyedScreen(Screen[None]):
    """A main screen: ctrl+c quits from it, `?` shows `KEYS`, the palette offers them."""

    KEYS: ClassVar[KeyTable]

    def __init__(self) -> None:
        super().__init__()
        self.said: deque[Toast] = deque(maxlen=KEPT_TOASTS)
        self._shown_until: dict[Toast, float] = {}
        self._was_shown = False

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Skip styling the first screen a second time, which is a good part of the first frame.

        A screen over another one has a style sheet of its own, which has not been applied yet.
        """
        is_alone = not any(isinstance(one, KeyedScreen) and one is not self for one in self.app.screen_stack)
        if not self._was_shown and is_alone:
            event.refresh_styles = False
        self._was_shown = True

    # defined by screens

    def situation(self) -> object:
        """The state that decides which keys are disabled: the argument of their reasons."""
        raise NotImplementedError

    def do(self, action: str) -> object:
        """Call the method `do_` + action; returns an awaitable where it takes time. May raise SelftestError."""
        done: object = getattr(self, f"do_{action}")()
        return done

    def before_press(self, key: Key) -> None:
        """Prepare for a key, before it is checked whether it is disabled."""

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """The symbols of this screen and their meanings, for its help."""
        return ()

    def filter_forms(self) -> tuple[tuple[str, str], ...]:
        """The forms of this screen's filter and their meanings, for its help."""
        return ()

    @property
    def field(self) -> Prompt | None:
        """The prompt, if this screen has one."""
        return None

    @property
    def _is_asking(self) -> bool:
        return self.field is not None and self.field.is_open

    @property
    def is_typing(self) -> bool:
        """Every key goes to an agent."""
        return False

    @property
    def way_back(self) -> str:
        """The command that returns to this screen, shown when the user quits; empty if it is obvious."""
        return ""

    @property
    def under_way(self) -> tuple[str, ...]:
        """Running actions that quitting would interrupt, in words."""
        return ()

    # messages

    def say(self, text: str, title: str = "", kind: Severity = "information") -> None:
        """Show a message as a toast."""
        self.toast(problems.said(text, title, kind))

    def show_error(self, error: SelftestError) -> None:
        """Show the error of a failed action."""
        self.toast(problems.act_failed(error))

    def toast(self, toast: Toast) -> None:
        """Show a toast, unless the same one is still shown, and keep it for the page of problems."""
        self.said.append(toast)
        now = time.monotonic()
        self._shown_until = {one: until for one, until in self._shown_until.items() if until > now}
        if toast in self._shown_until:
            return
        self._shown_until[toast] = now + toast.seconds
        self.notify(toast.text, title=toast.title, severity=toast.severity, timeout=toast.seconds, markup=False)

    def clear_toasts(self) -> None:
        """Remove all toasts: they would cover the page of problems, which has their texts."""
        self._shown_until.clear()
        self.app.clear_notifications()

    # keys

    def action_press(self, action: str) -> None:
        """Run a key of the table, unless it is disabled. Unknown actions do nothing."""
        key = next((one for one in self.KEYS.rows if one.action == action), None)
        if key is None:
            return
        self.before_press(key)
        why = key.disabled_reason(self.situation())
        if why is not None:
            self.toast(problems.refusal(key.label, why))
            return
        had_focus, was_asking = self.focused, self._is_asking
        worker = self.perform(lambda: self.do(action))
        if (key.opens or self._is_asking > was_asking) and isinstance(self.app, HoldsKeys):
            self.app.hold_keys(self, worker, had_focus)

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        """Run the clicked key."""
        self.call_later(self.run_press, event.key)

    async def run_press(self, key: Key) -> None:
        """Run a key of this screen or of the app."""
        owner = self.app if key.where is Where.APP else self
        await self.app.run_action(f"press('{key.action}')", owner)

    def perform(self, act: Callable[[], object]) -> Worker[None] | None:
        """Run something that may fail, in a worker if it is awaitable; errors become toasts."""
        try:
            answer = act()
        except SelftestError as error:
            self.show_error(error)
            return None
        return self.run_worker(self._finish(answer), group="acts") if isawaitable(answer) else None

    async def _finish(self, answer: Awaitable[object]) -> None:
        try:
            await answer
        except SelftestError as error:
            self.show_error(error)
