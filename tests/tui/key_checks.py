"""Registries of what pressing each key of a screen must do; the test of the screen's keys presses them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_tui.shared.keys import KeyTable

type Check[D] = Callable[[D, str], Awaitable[None]]


class KeyChecks[D]:
    """The checks of one screen, by action; `D` drives the screen. `@does("down", "up")` registers one."""

    def __init__(self) -> None:
        self.of: dict[str, Check[D]] = {}

    def __call__(self, *actions: str) -> Callable[[Check[D]], Check[D]]:
        """Register what pressing a key of these actions must do. The check gets a fresh screen, and the key."""

        def keep(check: Check[D]) -> Check[D]:
            self.of.update(dict.fromkeys(actions, check))
            return check

        return keep

    async def press_all(
        self, one: D, table: KeyTable, actions: Iterable[str], as_it_was: Callable[[D], Awaitable[None]]
    ) -> None:
        """Press every key of these actions, each on the screen as it was at first."""
        for action in actions:
            for name in table.row(action).keys:
                await as_it_was(one)
                try:
                    await self.of[action](one, name)
                except AssertionError as error:
                    error.add_note(f"{action}: {name}")
                    raise
