"""List of the texts of a row: one line each, with its verdict, agents and size. The lines themselves are pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from selftest_core.frozen import dataclass
from selftest_tui.review import words as review_words
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events

    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.verify.verification import Verified
    from selftest_tui.review.lines import ReviewRow

_MUTED = "$foreground-muted"
_STYLES = {"success": "$text-success", "error": "$text-error", "warning": "$text-warning"}
_CHOSEN, _OTHER, _MARKED = "◆", "◇", "▸"
MOST_AGENTS = 4
"""Agents of a text that are named."""


@dataclass(frozen=True, slots=True)
class RowText:
    """One text of a row. `verdict`: our last one on it, None where there is none."""

    change: Change
    is_chosen: bool
    verdict: Verified | None = None


def texts_of(row: ReviewRow, verdicts: Mapping[str, Verified]) -> tuple[RowText, ...]:
    """Return the texts of a row: the chosen one, then the others by their agents, the most first."""
    others = sorted(row.others, key=lambda change: (-len(change.agents), change.lines, change.oid))
    return tuple(RowText(change, change is row.change, verdicts.get(change.oid)) for change in (row.change, *others))


def line_of(text: RowText, number: int, *, is_marked: bool) -> Content:
    """Return the line of a text."""
    change, verdict = text.change, text.verdict
    sign, sign_style = (_CHOSEN, "$text-success") if text.is_chosen else (_OTHER, _MUTED)
    verified, style = "not verified", _MUTED
    if verdict is not None:
        verified = f"{review_words.VERIFIED[verdict]} {verdict}"
        style = _STYLES.get(review_words.VERIFIED_STYLES[verdict], _MUTED)
    agents = ", ".join(present.clean(agent) for agent in change.agents[:MOST_AGENTS])
    more = ", …" if len(change.agents) > MOST_AGENTS else ""
    weakens = f" {review_words.WEAKENS}" if change.weakenings else ""
    line = Content.assemble(
        (f"{_MARKED if is_marked else ' '} ", "bold"),
        (f"{sign} ", sign_style),
        f"{number:>2}  {present.plural(len(change.agents), 'agent'):>9}  {present.plural(change.lines, 'line'):>8}",
        (weakens, "$text-warning"),
        "  ",
        (verified, style),
        (f"  {agents}{more}", _MUTED),
    )
    return line.stylize("bold on $primary 30%") if is_marked else line


class TextList(Static):
    """Shows texts, one marked. A click marks one, and a click on the marked one asks to choose it."""

    class Clicked(Message):
        """A text was clicked. `number`: its place in the list, from 0."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def show(self, texts: Sequence[RowText], marked: int) -> None:
        """Show these."""
        lines = [line_of(text, number, is_marked=number - 1 == marked) for number, text in enumerate(texts, 1)]
        self.update(Content("\n").join(lines))

    def on_click(self, event: events.Click) -> None:
        """Mark the text of that line."""
        event.stop()
        self.post_message(self.Clicked(event.y))
