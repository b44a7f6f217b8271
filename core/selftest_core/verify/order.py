"""The order in which tests are wanted: those of what somebody looks at first. It may change while tests run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_LAST = 1 << 30


class Order:
    """The place in the queue of each test. Safe to use from any thread.

    `first`: gives the ids of changes, the most wanted first; `tests`: the tests of each change.
    """

    def __init__(
        self, first: Callable[[], Sequence[str]] = tuple, tests: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._first, self._tests = first, tests or {}
        self._made: tuple[Sequence[str], Mapping[str, int]] = ((), {})

    def places(self) -> Mapping[str, int]:
        """Return the places of the tests that are wanted before all others; the same object while nothing changes."""
        first, made = self._first(), self._made
        if first is not made[0]:
            found: dict[str, int] = {}
            for place, oid in enumerate(first):
                for test in self._tests.get(oid, ()):
                    found.setdefault(test, place)
            self._made = made = first, found
        return made[1]

    def sorted(self, tests: Iterable[str]) -> list[str]:
        """Sort tests; those of one place stay as they are."""
        places = self.places()
        return sorted(tests, key=lambda test: places.get(test, _LAST))

    def place_of(self, tests: Iterable[str]) -> int:
        """Return the place of a job with these tests: that of its most wanted one."""
        places = self.places()
        return min((places.get(test, _LAST) for test in tests), default=_LAST)
