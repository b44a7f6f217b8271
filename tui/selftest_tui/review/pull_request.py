"""Dialog with the text of a pull request, to read, to copy, or to open with gh. Its answer: open it with gh."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from selftest_tui.shared.markdown_lines import markdown_content
from selftest_tui.shared.present import clean
from selftest_tui.shared.widgets.screen_text import block

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

_MOST = 200_000


class PullRequestPage(ModalScreen[bool]):
    """Shows a title and a body in Markdown. `disabled_reason`: why gh cannot open it now, "" when it can."""

    CSS_PATH = "pull_request.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c,n,w", "close", show=False),
        Binding("o", "open", show=False),
        Binding("y", "copy", show=False),
        Binding("down,j,J", "scroll(1)", show=False),
        Binding("up,k,K", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(self, title: str, body: str, disabled_reason: str) -> None:
        super().__init__()
        self._title = clean(title)
        self._body = block(body, _MOST)
        self._disabled_reason = disabled_reason

    def compose(self) -> ComposeResult:
        """Place title, body and keys."""
        with Vertical(id="dialog") as dialog:
            dialog.border_title = Content("Pull request")
            dialog.border_subtitle = Content("o open it with gh   y copy   esc close")
            yield Static(Content.styled(self._title, "bold"), id="title")
            with VerticalScroll(id="body", can_focus=False):
                yield Static(id="text")

    def on_mount(self) -> None:
        """Wrap the text once its width is known."""
        self.call_after_refresh(self._wrap)

    def on_resize(self) -> None:
        """Wrap the text to the new width."""
        self._wrap()

    def _wrap(self) -> None:
        width = self.query_one("#body").scrollable_content_region.width - 2
        if width > 0:
            self.query_one("#text", Static).update(markdown_content(self._body, width))

    def action_close(self) -> None:
        """Close the dialog."""
        self.dismiss(False)

    def action_open(self) -> None:
        """Answer yes, unless gh cannot open it."""
        if self._disabled_reason:
            self.notify(self._disabled_reason, severity="warning", markup=False)
        else:
            self.dismiss(True)

    def action_copy(self) -> None:
        """Copy title and text."""
        self.app.copy_to_clipboard(f"{self._title}\n\n{self._body}")
        self.notify("Copied title and text.", markup=False)

    def action_scroll(self, lines: int) -> None:
        """Scroll down, or up with a negative number."""
        self.query_one("#body").scroll_relative(y=lines, animate=False, immediate=True)
