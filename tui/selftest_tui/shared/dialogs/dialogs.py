"""The dialogs of actions: a question with a safe default, and the live results of an action on many agents.

All targets are listed exactly before anything happens. Names come from agents: they are shown as text, never as markup.
Dialogs run nothing; they show, and return an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from selftest_core.agents import LOCAL_PROVIDER
from selftest_tui.shared.present import clean
from selftest_tui.shared.widgets.screen_text import block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from selftest_core.actions.agent_actions import ActResult, Target


_MOST_OF_A_NAME = 40


def target_lines(targets: Sequence[Target], default_socket: str) -> list[str]:
    """Describe each target in one line: name, id and place; also the tmux server if it is not mngr's own."""
    names = [clean(target.name) for target in targets]
    width = min(_MOST_OF_A_NAME, max((cell_len(name) for name in names), default=0))
    lines = []
    for name, target in zip(names, targets, strict=True):
        is_local = target.provider == LOCAL_PROVIDER
        where = f"{target.key.agent_id}  local" if is_local else target.address
        server = f"  tmux {target.socket}" if target.socket not in (None, default_socket) else ""
        lines.append(f"{name}{' ' * (width - cell_len(name))}  {clean(where + server)}")
    return lines


class Question(ModalScreen["bool | None"]):
    """Ask yes or no. The focused button is the default; escape returns None.

    `lines` are listed in a scrollable box: the exact targets. `leaves`: what escape does, for the frame.
    """

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave"),
        Binding("n,N", "answer(False)", "No"),
        Binding("y,Y", "answer(True)", "Yes"),
        Binding("left,right,h,l", "other_button", "Choose", show=False),
        Binding("down,j", "scroll_lines(1)", "Down", show=False),
        Binding("up,k", "scroll_lines(-1)", "Up", show=False),
        Binding("pagedown", "scroll_lines(10)", "Down", show=False),
        Binding("pageup", "scroll_lines(-10)", "Up", show=False),
    ]

    def __init__(
        self,
        title: str,
        says: str = "",
        lines: Sequence[str] = (),
        *,
        yes: str = "Yes",
        no: str = "No",
        is_yes_default: bool = False,
        leaves: str = "no",
    ) -> None:
        super().__init__()
        self._title = clean(title)
        self._says = block(says)
        self._lines = [clean(line) for line in lines]
        self._yes = yes
        self._no = no
        self._is_yes_default = is_yes_default
        self._leaves = leaves

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = Content(self._title)
            dialog.border_subtitle = Content(f"y yes   n no   ⏎ the marked one   esc {self._leaves}")
            if self._says:
                yield Static(Content(self._says), id="says")
            if self._lines:
                with VerticalScroll(id="lines", can_focus=False):
                    yield Static(Content("\n".join(self._lines)))
            with Horizontal(id="buttons"):
                yield Button(Content(self._no), id="no", compact=True)
                yield Button(Content(self._yes), id="yes", compact=True)

    def on_mount(self) -> None:
        self.query_one("#yes" if self._is_yes_default else "#no", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.id == "yes")

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_answer(self, is_yes: bool) -> None:
        self.dismiss(is_yes)

    def action_other_button(self) -> None:
        self.focus_next(Button)

    def action_scroll_lines(self, lines: int) -> None:
        for box in self.query("#lines").results(VerticalScroll):
            box.scroll_relative(y=lines, animate=False, immediate=True)


class Results(ModalScreen["tuple[Target, ...]"]):
    """Show an action on many agents: one line per target. Returns the targets to try again, or none.

    Closing it does not stop the action. `report` and `finish` may be called after it was closed.
    """

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Close"),
        Binding("r", "retry", "Retry the failed"),
        Binding("down,j", "scroll_lines(1)", "Down", show=False),
        Binding("up,k", "scroll_lines(-1)", "Up", show=False),
        Binding("pagedown", "scroll_lines(10)", "Down", show=False),
        Binding("pageup", "scroll_lines(-10)", "Up", show=False),
    ]

    def __init__(self, title: str, targets: Sequence[Target]) -> None:
        super().__init__()
        self._title = clean(title)
        self._targets = tuple(targets)
        self._results: dict[object, ActResult] = {}
        self._is_finished = False
        self._is_open = False
        # Attributes, not queries: a result may arrive while the dialog is being removed.
        self._dialog = Vertical(id="dialog")
        self._says = Static(id="says")
        self._listed = Static(id="results")
        self._retry = Button("Retry the failed", id="retry", disabled=True, compact=True)

    @property
    def failed(self) -> tuple[Target, ...]:
        """The targets that have failed so far, in order."""
        return tuple(t for t in self._targets if (done := self._results.get(t.key)) is not None and not done.ok)

    def compose(self) -> ComposeResult:
        with self._dialog:
            self._dialog.border_title = Content(self._title)
            yield self._says
            with VerticalScroll(id="lines", can_focus=False):
                yield self._listed
            with Horizontal(id="buttons"):
                yield Button("Close", id="close", compact=True)
                yield self._retry

    def on_mount(self) -> None:
        self.query_one("#close", Button).focus()
        self._is_open = True
        self._show()

    def on_unmount(self) -> None:
        self._is_open = False

    def report(self, result: ActResult) -> None:
        """Show the result of one target."""
        self._results[result.target.key] = result
        self._show()

    def finish(self) -> None:
        """Show that all results are here."""
        self._is_finished = True
        self._show()

    def _show(self) -> None:
        if not self._is_open:
            return
        failed = len(self.failed)
        done = len(self._results)
        words = f"{done - failed} done, {failed} failed, {len(self._targets) - done} to go"
        self._says.update(Content(words + ("." if self._is_finished else " …")))
        self._listed.update(Content("\n").join(self._line(target) for target in self._targets))
        self._retry.disabled = not (self._is_finished and failed)
        self._dialog.border_subtitle = Content("esc close" + ("   r retry the failed" * (not self._retry.disabled)))

    def _line(self, target: Target) -> Content:
        result = self._results.get(target.key)
        name = clean(target.name)
        if result is None:
            return Content(f"… {name}")
        if result.ok:
            return Content.assemble(("✓", "$text-success"), f" {name}  {clean(result.text)}")
        hint = f"\n    {clean(result.hint)}" if result.hint else ""
        return Content.assemble(("✗", "$text-error"), f" {name}  {clean(result.text)}{hint}")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "retry":
            self.action_retry()
        else:
            self.action_close()

    def action_retry(self) -> None:
        if self._is_finished and self.failed:
            self.dismiss(self.failed)
        else:
            self.notify("Nothing has failed." if self._is_finished else "Not all have answered yet.", markup=False)

    def action_close(self) -> None:
        self.dismiss(())

    def action_scroll_lines(self, lines: int) -> None:
        self.query_one("#lines", VerticalScroll).scroll_relative(y=lines, animate=False, immediate=True)
