"""Worlds that the tests of the tutorial share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def plain() -> Iterator[World]:
    """A world without agents, for what needs none. Its folders of demos are its own."""
    with a_world(SELFTEST_TUI_REMOTE="false") as world:
        temporary = world.root / "d"
        temporary.mkdir()
        world.extra["TMPDIR"] = str(temporary)
        yield world
