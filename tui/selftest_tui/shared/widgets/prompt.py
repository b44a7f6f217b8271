"""The prompt: a line to type a filter, a search or a name, in place of the key line.

It posts the text as it is typed; the screen gives it its meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from selftest_tui.shared import present
from selftest_tui.shared.commands import beginning_with, completed
from selftest_tui.shared.keys import PROMPT, SCROLLBACK, bindings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

COMMAND = "command"


class Words(Input):
    """The text field: the keys of the prompt end it, all others edit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of((*PROMPT, SCROLLBACK)),
        Binding("ctrl+c", "screen.press('prompt_cancel')", show=False),
    ]

    def __init__(self, accept: Callable[[], None], complete: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self._accept = accept
        self._complete = complete
        self._is_wanted = is_wanted

    def on_mount(self) -> None:
        """Keep the cursor steady where pictures are drawn: they must not depend on the half second."""
        if self.app.is_headless:
            self.cursor_blink = False

    def on_key(self, event: events.Key) -> None:
        """Accept Enter at once: keys that are typed after it are not for this field."""
        if not self._is_wanted():
            event.prevent_default()
        elif event.key == "tab":
            event.stop()
            event.prevent_default()
            self._complete()
        elif event.key == "enter":
            event.stop()
            event.prevent_default()
            self._accept()

    async def action_submit(self) -> None:
        """Accept an Enter of Textual's own."""
        self._accept()


class Prompt(Horizontal):
    """Hidden until it asks; posts Typed with every change, then Accepted or Cancelled, and hides.

    `ask_command` asks for one of some names, and posts CommandGiven only.
    """

    DEFAULT_CSS = """
    Prompt {
        height: 1;
        background: $panel;
        display: none;
        & > #sign { width: auto; text-style: bold; padding: 0 0 0 1; }
        & > #hint { width: auto; max-width: 75%; height: 1; color: $text-muted; padding: 0 1; }
        & > #hint.-problem { color: $text-error; }
        & > Words { width: 1fr; background: $panel; }
    }
    """

    class Typed(Message):
        """The text changed."""

        def __init__(self, purpose: str, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    class Accepted(Message):
        """Enter was pressed. `with_history`: search the scrollback too."""

        def __init__(self, purpose: str, text: str, *, with_history: bool) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text
            self.with_history = with_history

    class Cancelled(Message):
        """Escape was pressed."""

        def __init__(self, purpose: str) -> None:
            super().__init__()
            self.purpose = purpose

    class CommandGiven(Message):
        """Enter was pressed on a command, or the user left: then it is empty."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.purpose = ""
        self._names: tuple[str, ...] = ()
        self.with_history = False
        self._hint = ""
        self._problem_of: Callable[[str], str] | None = None
        self._is_refusing = False
        self._focused_before: Widget | None = None

    def compose(self) -> ComposeResult:
        """Sign, field, hint."""
        yield Static("", id="sign", markup=False)
        yield Words(self.accept, self.complete, lambda: self.is_open)
        yield Static("", id="hint", markup=False)

    @property
    def is_open(self) -> bool:
        """The prompt is on the screen."""
        return self.display

    @property
    def text(self) -> str:
        """The text of the field."""
        return self.query_one(Words).value

    def ask(self, purpose: str, sign: str, hint: str, text: str = "") -> None:
        """Open for `purpose` ("filter", "search_text"), with a sign before the field and a hint after it."""
        self.purpose, self.with_history, self._hint = purpose, False, hint
        self._problem_of, self._is_refusing, self._names = None, False, ()
        self.query_one("#sign", Static).update(f"{sign} ")
        field = self.query_one(Words)
        with self.prevent(Input.Changed):
            field.value = text
        field.cursor_position = len(text)
        self.display = True
        self._show_hint()
        if self.screen.focused is not field:
            self._focused_before = self.screen.focused
        self.screen.set_focus(field)  # at once: keys after the one that opened it are for the field

    def ask_command(self, names: Iterable[str], problem_of: Callable[[str], str]) -> None:
        """Open for one of these names, which tab completes; a text with a problem is not accepted."""
        self.ask(COMMAND, ":", "⏎ run  tab complete  esc leave")
        self._names = tuple(names)
        self.check(problem_of, is_refusing=True)

    def complete(self) -> None:
        """Complete the text from the names, as far as they agree."""
        field = self.query_one(Words)
        text = completed(field.value, self._names)
        if text != field.value:
            field.value, field.cursor_position = text, len(text)

    def check(self, problem_of: Callable[[str], str], *, is_refusing: bool = False) -> None:
        """Show the problem that `problem_of` finds in the text in place of the hint, until the next `ask`.

        `is_refusing`: a text with a problem is not accepted.
        """
        self._problem_of, self._is_refusing = problem_of, is_refusing
        self._show_hint()

    def accept(self) -> None:
        """Close, and post Accepted."""
        if self._is_refusing and self._problem_of is not None and self._problem_of(self.text):
            return
        self._close()
        if self.purpose == COMMAND:
            self.post_message(self.CommandGiven(self.text))
            return
        self.post_message(self.Accepted(self.purpose, self.text, with_history=self.with_history))

    def cancel(self) -> None:
        """Close, and post Cancelled."""
        self._close()
        if self.purpose == COMMAND:
            self.post_message(self.CommandGiven(""))
            return
        self.post_message(self.Cancelled(self.purpose))

    def _close(self) -> None:
        self.display = False
        self.screen.set_focus(self._focused_before)
        self._focused_before = None

    def toggle_history(self) -> None:
        """Search the scrollback too, or not."""
        self.with_history = not self.with_history
        self._show_hint()

    def _show_hint(self) -> None:
        scope = "" if self.purpose != "search_text" else f"[{'x' if self.with_history else ' '}] ^r scrollback  "
        problem = self._problem_of(self.text) if self._problem_of is not None else ""
        hint = self.query_one("#hint", Static)
        may_go_on = bool(beginning_with(self.text, self._names))  # then the names are shown, which is no problem yet
        hint.set_class(bool(problem) and not may_go_on, "-problem")
        hint.update(present.clean(problem) if problem else scope + self._hint)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Post the new text."""
        event.stop()
        if self._problem_of is not None:
            self._show_hint()
        if self.is_open and self.purpose != COMMAND:
            self.post_message(self.Typed(self.purpose, event.value))
