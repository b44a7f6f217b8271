"""Garbage collection around loads of many objects: paused meanwhile, and never again through what was loaded.

Modules keep their objects. Python's collector would look through all of them again and again while they are loaded,
which is a tenth of the time that the screen takes to open, and once more in each full collection later.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_RARELY = (3_000, 50, 50)
"""Thresholds of the collector: with Python's own one key in twenty waited 10 to 90 ms for it."""


@contextmanager
def loading() -> Iterator[None]:
    """Pause the collector while much is loaded that stays, then exclude all present objects from it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def keep_what_is_there() -> None:
    """Collect garbage, then exclude all present objects from later collections, each of which can delay a key.

    Objects that an earlier call excluded are collected first. Takes up to a tenth of a second.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_RARELY)
