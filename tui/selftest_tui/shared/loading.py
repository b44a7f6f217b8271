"""Loading much at once, modules or a review: with no search for garbage meanwhile, and none among it later.

What modules make, they keep. Python looks through all of it again and again while they are loaded, which is a tenth of
the time that the screen takes to open; and once more with every thorough search of the long run that follows.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_RARELY = (3_000, 50, 50)
"""Objects after which garbage is looked for, and how many such searches until older ones are looked through: with
Python's own thresholds one key in twenty waited 10 to 90 ms for it."""


@contextmanager
def loading() -> Iterator[None]:
    """A block of imports. All that there is at its end counts as kept for good; to be used once, near the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def keep_what_is_there() -> None:
    """What was made until now is for long: no more searches through it, each of which can hold a key up.

    What an earlier call kept, and is garbage since, goes first. Takes a tenth of a second where there is much.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_RARELY)
