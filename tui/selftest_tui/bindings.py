"""The key table as Textual bindings: every key runs one action, `press` of the screen or the app, with the row's name.

One action for all keys means one place that asks whether the key can do its work now, and says why not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding

from selftest_tui import keys

if TYPE_CHECKING:
    from selftest_tui.keys import Where


def bindings_of(where: Where) -> list[Binding]:
    """What a widget, a screen or the app puts into its BINDINGS."""
    owner = "app" if where is keys.Where.APP else "screen"
    return [
        Binding(name, f"{owner}.press('{key.action}')", key.label, show=False, priority=key.priority, tooltip=key.help)
        for key in keys.of(where)
        for name in key.keys
    ]
