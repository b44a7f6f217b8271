"""Loading many modules at once: with no search for garbage meanwhile, and none among them later.

What modules make, they keep. Python looks through all of it again and again while they are loaded, which is a tenth of
the time that the screen takes to open; and once more with every thorough search of the long run that follows.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def loading() -> Iterator[None]:
    """A block of imports. All that there is at its end counts as kept for good; to be used once, near the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
