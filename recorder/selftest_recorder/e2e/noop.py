"""Cited blocks that do nothing, to find tests that cannot fail: `--e2e-noop PROGRAM`.

In one cited block of each test the program is replaced by one that takes all arguments, prints nothing and succeeds. A
test that passes all the same proves nothing about it. From then on no wait of that test takes longer than two seconds,
since what it waits for will not come.
"""

from __future__ import annotations

from selftest_core.frozen import dataclass

LONGEST_WAIT = 2.0
"""Seconds."""
_is_on = False


@dataclass(frozen=True, slots=True)
class Noop:
    """A program (no path), and the block of each test in which it does nothing: 1 for the first that it cites."""

    program: str
    block: int = 1

    def replace(self, script: str) -> str:
        """Return the block with a program that does nothing, and shorten all waits of the test from now on."""
        global _is_on
        _is_on = True
        return f"{self.program}() {{ :; }}\n{script}"


def end() -> None:
    """Let waits be as long as they are meant to be; the test has ended."""
    global _is_on
    _is_on = False


def longest(seconds: float) -> float:
    """Return how long a wait of so many seconds may take."""
    return min(seconds, LONGEST_WAIT) if _is_on else seconds
