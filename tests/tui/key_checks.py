"""The registry of what pressing each key of the table must do; `test_keys` presses them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tui.driving import Driven

type Check = Callable[[Driven, str], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def does(action: str) -> Callable[[Check], Check]:
    """Register what pressing a key must do. It gets the app over the dozen agents, and the key."""

    def keep(check: Check) -> Check:
        CHECKS[action] = check
        return check

    return keep
