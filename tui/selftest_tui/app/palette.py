"""The actions of a screen in Textual's command palette, each with the reason why it is disabled now."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from selftest_tui.shared.commands import named
from selftest_tui.shared.keyed import KeyedScreen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_tui.shared.keys import Key


class Actions(Provider):
    """Offers the rows of the screen's key table; choosing one runs its key."""

    async def discover(self) -> Hits:
        """All rows, in the table's order."""
        for key, says in self._offered():
            yield DiscoveryHit(Content(title_of(key)), partial(self._press, key), title_of(key), says)

    async def search(self, query: str) -> Hits:
        """Rows whose label or help matches."""
        matcher = self.matcher(query)
        for key, says in self._offered():
            title = title_of(key)
            score = max(matcher.match(title), matcher.match(key.help) * 0.9)
            if score > 0:
                yield Hit(score, matcher.highlight(title), partial(self._press, key), title, says)

    def _offered(self) -> Iterator[tuple[Key, str]]:
        screen = self.screen
        if not isinstance(screen, KeyedScreen):
            return
        situation = screen.situation()
        for key in named(screen.KEYS.now(screen.KEYS.rows)):
            why = key.disabled_reason(situation)
            yield key, f"disabled: {why}" if why else key.help

    async def _press(self, key: Key) -> None:
        if isinstance(self.screen, KeyedScreen):
            await self.screen.run_press(key)


def title_of(key: Key) -> str:
    """`destroy  D`."""
    return f"{key.label}  {key.shows}"
