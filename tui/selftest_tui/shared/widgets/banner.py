"""The banner of problems with their solutions, above the key line, so that the table stays in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.fleet.view import Problem

SIGN = "▲"


class Banner(Static):
    """Shows the first problem and the number of others; hidden without any. A click asks for all."""

    DEFAULT_CSS = """
    Banner {
        display: none;
        height: auto;
        max-height: 2;
        padding: 0 1;
        background: $warning 20%;
        color: $foreground;
    }
    """

    class Clicked(Message):
        """The banner was clicked."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, markup=False)
        self.problems: tuple[Problem, ...] = ()

    def show(self, problems: Sequence[Problem]) -> None:
        """Show other problems."""
        if tuple(problems) == self.problems:
            return
        self.problems = tuple(problems)
        self.display = bool(self.problems)
        if self.problems:
            self.update(_said(self.problems))

    def on_click(self) -> None:
        """Ask for all problems."""
        self.post_message(self.Clicked())


def _said(problems: Sequence[Problem]) -> Content:
    first = problems[0]
    parts: list[tuple[str, str] | str] = [(f"{SIGN} {present.clean(first.title)}", "bold $text-warning")]
    if first.hint:
        parts.append(f"  {present.clean(first.hint)}")
    more = len(problems) - 1
    parts.append((f"  {f'and {present.plural(more, "more problem")}: ' if more else ''}e details", "$foreground-muted"))
    return Content.assemble(*parts)
