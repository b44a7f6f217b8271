"""Every key of the run's table is pressed, and what it did is asserted: what it shows, or what it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import run_scenes
import scenes
from selftest_tui.run.keys import RUN
from selftest_tui.shared.keys import Where
from tui.run.keys_of_run import does
from tui.run.run_driving import shown

if TYPE_CHECKING:
    from pathlib import Path

    from tui.run.run_driving import RunDriven

# A deadline for a hang, far beyond what some hundred presses take on a busy machine.
pytestmark = pytest.mark.timeout(600)
VIEW = scenes.many(48).view

TOGETHER: dict[str, tuple[str, ...]] = {
    "moving": (
        "down", "up", "page_down", "page_up", "first", "last", "close_group", "open_group", "next_needing",
        "previous_needing",
    ),
    "finding": (
        "filter", "only_needing", "sort", "prompt_up", "prompt_down", "prompt_cancel", "copy", "no_quit",
    ),
    "looking": ("outcome", "preview", "details", "artifacts", "zoom", "scroll_down", "scroll_up", "type"),
    "acting": ("attach", "message", "retry", "skip", "stop", "shell", "end_run"),
    "pages": ("search_all", "tutorial", "review", "replay", "report", "problems", "theme", "help", "palette"),
    "comparing": ("compare",),
    "the table": ("table_wider", "table_narrower", "choose_columns", "command", "pan_right", "pan_left"),
    "pausing": ("pause",),
    "going back": ("back",),
    "to the fleet": ("fleet",),
    "leaving": ("leave",),
    "leaving by ctrl+c": ("interrupt",),
}  # fmt: skip
"""Keys that are pressed one after the other in one app, since each app takes a second."""
SIZES = {"moving": (80, 24), "finding": (80, 24), "acting": (80, 24)}
"""Where the right pane is away, which each press would draw anew."""


@pytest.mark.slow
@pytest.mark.parametrize("together", TOGETHER)
async def test_every_key_does_what_the_table_says(tmp_path: Path, together: str) -> None:
    async with shown(run_scenes.halfway(tmp_path, 48), view=VIEW, size=SIZES.get(together, (110, 26))) as one:
        await does.press_all(one, RUN, TOGETHER[together], as_it_was)


async def as_it_was(one: RunDriven) -> None:
    """The run's screen as it is at first, with nothing left for the conductor."""
    for file in one.screen.folder.path.joinpath("wishes").iterdir():
        file.unlink()
    while one.top is not one.screen:
        one.fleet.app.pop_screen()
    one.screen.folded = frozenset()
    one.screen.filter_by("")
    one.screen.said.clear()
    one.screen.rearrange()
    await one.press("home")


def test_no_key_is_left_out() -> None:
    assert set(does.of) == {key.action for key in RUN.rows} == {name for names in TOGETHER.values() for name in names}
    assert all(key.where in (Where.TABLE, Where.SCREEN, Where.APP, Where.PROMPT) for key in RUN.rows)
