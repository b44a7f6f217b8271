"""The evidence of a state: the report of each source with its age, and the report that decided.

It shows `Evidence` as the fold returns it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from selftest_tui.fleet.pane.aged_text import AgedText
from selftest_tui.shared.present import ago, clean, symbol
from selftest_tui.shared.widgets.screen_text import wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import Evidence, FleetView, Row


_SOURCES = {"probe": "local check", "mngr": "mngr list", "remembered": "cache"}


def _source(source: str) -> str:
    """Return the display name of a source."""
    return _SOURCES.get(source, clean(source))


def explained(row: Row, evidence: Sequence[Evidence], now: float, width: int) -> Content:
    """Return the state, and below it the report of each source, newest first; ▶ marks the one that decided."""
    lines = [
        Content.assemble((f"{symbol(row)} {row.category.value}", "bold"), f", reported by {_source(row.source)}"),
        Content(""),
    ]
    if row.attention:
        lines[1:1] = [Content(part) for part in wrapped(f"It needs you: {row.attention}", max(8, width))]
    if not evidence:
        lines.append(Content("No source has reported it yet."))
    source_width = max((len(_source(said.source)) for said in evidence), default=0)
    for said in evidence:
        head = (
            f"{'▶' if said.stands else ' '} {_source(said.source).ljust(source_width)}  {ago(now - said.at):>6} ago  "
        )
        room = max(8, width - len(head))
        parts = wrapped(said.text, room)
        lines.append(Content.styled(head, "bold" if said.stands else "$foreground-muted") + Content(parts[0]))
        lines.extend(Content(" " * len(head) + part) for part in parts[1:])
    if any(said.stands for said in evidence):
        lines += [Content(""), Content.styled("▶ decided the state", "$foreground-muted")]
    return Content("\n").join(lines)


class Explain(AgedText, can_focus=False):
    """The evidence behind the selected row."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock, id="explain", text_id="evidence")
        self._row: Row | None = None
        self._ask: Callable[[], Sequence[Evidence]] = tuple

    def show_selected(self, row: Row | None, session: TmuxSession | None, view: FleetView) -> None:
        """Show the evidence of the selected agent; sessions have no state to explain."""
        self.show(row, partial(view.explain, row.key) if row else tuple)

    def show(self, row: Row | None, ask: Callable[[], Sequence[Evidence]]) -> None:
        """Show the evidence that `ask()` returns, and call it again as time passes."""
        self._row = row
        self._ask = ask
        self.write()

    def content(self, now: float, width: int) -> Content:
        """Return the evidence."""
        if self._row is None:
            return Content("Only agents have states to explain.")
        return explained(self._row, self._ask(), now, width)
