"""The key table as Textual bindings: every key runs one action, `press` of the screen or the app, with the row's name.

One action for all keys means one place that asks whether the key can do its work now, and says why not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding

from selftest_tui.shared.keys import Where

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_tui.shared.keys import Key


def bindings_of(rows: Iterable[Key]) -> list[Binding]:
    """What a widget, a screen or the app puts into its BINDINGS, for these rows of a table."""
    return [
        Binding(
            name,
            f"{'app' if key.where is Where.APP else 'screen'}.press('{key.action}')",
            key.label,
            show=False,
            priority=key.priority,
            tooltip=key.help,
        )
        for key in rows
        for name in key.keys
    ]
