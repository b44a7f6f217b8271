"""Splitting, squashing and rewording on the screen: what the keys alone do not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.widgets import TextArea

from selftest_core.review.candidate_branch import Decision
from selftest_core.review.conflict_files import choose
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.dialogs.composer import Composer
from selftest_tui.shared.dialogs.options import Options
from tui.driving import compare
from tui.review.keys_of_review import asked
from tui.review.review_driving import reviewing
from tui.review.review_scenes import shop, shop_once

__all__ = ["shop", "shop_once"]

if TYPE_CHECKING:
    from core.review.repositories import Repository

pytestmark = pytest.mark.slow  # whole screens over a real repository


async def test_a_message_is_written_anew_and_who_helped_stays_credited(shop: Repository) -> None:
    async with reviewing(shop, size=(110, 24)) as one:
        await one.go_to("Guard")
        await one.press("ctrl+w")
        composer = await asked(one, Composer)
        assert composer.query_one(TextArea).text == "[FIX_IMPL] Guard the empty cart"
        composer.query_one(TextArea).text = "fix: guard it\x1b[31m"
        await one.press("enter")
        await one.until(lambda: one.top is one.screen, "the message is kept")
        await one.settled()
        row = one.row("fix: guard it")
        assert row.change.commit.text.endswith(
            "\n\nCo-authored-by: Bob <bob@example.org>\nCo-authored-by: Eve <eve@example.org>\n"
        )
        assert any("fix: guard it" in line and "\x1b" not in line for line in one.lines)
        await one.press("ctrl+w")
        composer = await asked(one, Composer)
        composer.query_one(TextArea).text = ""
        await one.press("enter")
        await one.until(lambda: one.top is one.screen, "the message is kept")
        await one.settled()
        assert not one.row("Guard").change.is_reworded
        await one.press("z", "z")
        assert not one.row("Guard").change.is_reworded
        await one.press("Z")
        assert one.row("fix: guard it")


async def test_the_mouse_selects_hunks(shop: Repository) -> None:
    async with reviewing(shop, size=(130, 30)) as one:
        await one.go_to("Keep the query")
        row = next(y for y, line in enumerate(one.diff_lines) if " @@ " in line) + 2
        await one.fleet.pilot.click("#diff", offset=(20, row), times=2)
        await one.settled()
        assert one.diff.selected == {(0, 0)}
        await one.fleet.pilot.click("#diff", offset=(20, row))
        await one.settled()
        assert one.diff.selected == {(0, 0)}, "one click goes there"
        assert one.diff.here == (0, 0)


async def test_a_hunk_is_kept_alone(shop: Repository) -> None:
    shop.git("checkout", "-q", "ada")
    shop.commit(
        "[FIX_IMPL] Tidy up\x1b[2J",
        {"src/cart.py": (shop.folder / "src/cart.py").read_text() + "\n\nCARTS = []\n", "docs/use.md": "# Use it\n"},
        "Ada",
    )
    shop.git("checkout", "-q", "main")
    async with reviewing(shop, size=(80, 24)) as one:
        await one.go_to("Tidy up")
        whole = one.row("Tidy up")
        await one.press("enter", "full_stop", "asterisk")
        compare("review-split-hunk", await one.picture())
        await one.press("percent_sign")
        options = await asked(one, Options)
        assert len(options.listed) == 1
        await one.press("y")
        await one.settled()
        parts = [row for row in one.screen.rows if row.change.part is not None]
        assert {row.decision for row in parts} == {Decision.KEEP, Decision.REVERT}
        (kept,) = [row for row in parts if row.decision is Decision.KEEP]
        assert [path.path for path in kept.change.paths] == ["src/cart.py"]
        await one.press("z")
        assert one.row("Tidy up").oid == whole.oid
        assert one.row("Tidy up").decision is Decision.UNDECIDED
        await one.go_to("Tidy up")
        await one.press("percent_sign")
        await asked(one, Options)
        await one.press("f")
        await asked(one, Choose)
        await one.press("enter")
        await one.until(lambda: one.top is one.screen, "it is split")
        await one.settled()
        assert len([row for row in one.screen.rows if row.change.part is not None]) == 2


async def test_hunks_of_what_is_applied_otherwise_are_not_those_of_the_commit(shop: Repository) -> None:
    """A resolution made it differ: its own hunks are shown by `=`, and only they can be split off."""
    text = (shop.folder / "src/pay.py").read_text()
    shop.git("checkout", "-q", "kim")
    mended = text.replace('"""Money, asked of a bank."""', '"""Money."""')
    shop.git("checkout", "-q", "release", "--", "src/pay.py")
    shop.commit("[FIX_IMPL] Start over", {"src/pay.py": mended + "\n\nCENTS = 100\n"}, "Kim")
    shop.git("checkout", "-q", "main")
    async with reviewing(shop, size=(130, 30)) as one:
        await one.go_to("Start over")
        files = await one.screen.ask(lambda session: session.conflict_files(one.row("Start over").oid), "reading")
        await one.screen.act(lambda session: session.resolve(one.row("Start over").oid, choose(files, "theirs")))
        await one.settled()
        assert one.pane.differs
        await one.press("asterisk", "percent_sign")
        options = await asked(one, Options)
        await one.press("s")
        await one.until(lambda: one.toasts, "a refusal")
        assert options.listed
        assert "= shows it" in one.toasts
        await one.press("equals_sign", "asterisk", "percent_sign")
        await asked(one, Options)
        await one.press("s")
        await one.until(lambda: one.top is one.screen, "it is split")
        await one.settled()
        assert len([row for row in one.screen.rows if row.change.part is not None]) == 2
