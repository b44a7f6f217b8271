"""The screen of a run whose agents are no testers: its words name what they own, and what the gate refused is red."""

from __future__ import annotations

import scenes
from core.run.shop import commit
from draft_scenes import TUTORIAL, a_drafted_run
from selftest_tui.run.bar import RunBar
from selftest_tui.run.screen import RunScreen
from tui.driving import driven, text_of
from tui.quiet import press
from worlds import a_world

ADDING = TUTORIAL.replace("shop total", "shop total --all")


async def test_a_draft_is_shown_by_its_headings() -> None:
    with a_world() as world:
        repository = world.make_repository()
        heading = "Carts/refunds: a::b"
        text = TUTORIAL.replace("# Taxes", f"# {heading}")
        (repository / "tutorial.sh").write_text(text)
        commit(world, "A tutorial")
        drafts = {"Adding": ADDING.replace("# Taxes", f"# {heading}"), "Refunds": "# Anew\n\nls\n"}
        folder = a_drafted_run(world, drafts, tutorial=text)
        async with driven(scenes.many(3).view, size=(120, 34)) as fleet:
            fleet.app.show_run(folder)
            await fleet.until(lambda: isinstance(fleet.app.screen, RunScreen), "the run's screen")
            screen = fleet.app.screen
            assert isinstance(screen, RunScreen)
            await fleet.until(lambda: screen.news is not None and screen.is_at_rest, "the run")
            await press(fleet.app, "home")
            head = screen.query_one(RunBar).render().plain
            assert head.startswith(" draft 20261121-0931-d7af")
            assert "3 headings" in head
            assert screen._frame.border_title == "headings by cluster and state"
            shown = "\n".join(text_of(fleet.app.export_screenshot()))
            assert heading in shown
            assert "failed: it changes what stands" in shown
            assert "1 heading: it changes what stands above" in shown
