"""What a review's screen shows: at once what was decided, then the line for it; whatever commits say, as text."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Static

from selftest_core.errors import RefusedError
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.conflict_files import choose
from selftest_core.review.resolutions import Resolution
from selftest_tui.app.app import FleetApp
from selftest_tui.review.screen import ReviewScreen
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.dialogs.options import Options
from simulated.watch import StillWatch
from tui.driving import PATIENCE, compare, driven
from tui.quiet import press, quiet, until
from tui.review.keys_of_review import asked
from tui.review.review_driving import ALL, environ_of, reviewing
from tui.review.review_scenes import QUERY, shop, shop_once

__all__ = ["shop", "shop_once"]

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from core.review.repositories import Repository
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState
    from tui.driving import Driven

import scenes

pytestmark = pytest.mark.slow  # whole screens over a real repository


def bare_fleet(shop: Repository) -> AbstractAsyncContextManager[Driven]:
    """The fleet alone, in the shop."""
    return driven(scenes.few().view, environ=environ_of(shop), folder=shop.folder, size=(100, 24))


async def test_deciding(shop: Repository) -> None:
    async with reviewing(shop) as one:
        await one.press("y", "j", "x")
        await one.go_to("Retry a payment")
        assert "2 of 12 decided" in one.head
        assert "? not verified: P asks first" in one.head
        assert any(line.startswith(" ✗") and "Keep the query" in line for line in one.lines)
        assert any("+     if answer.status == 500:" in line for line in one.diff_lines)
        compare("review-deciding", await one.picture())


async def test_a_decision_is_shown_before_its_line_is_laid(shop: Repository) -> None:
    async with reviewing(shop, size=(110, 24)) as one:
        may_go_on = threading.Event()

        def wait(session: ReviewSession) -> ReviewState:
            may_go_on.wait(PATIENCE)
            return session.state

        slow = asyncio.create_task(one.screen.act(wait))
        await press(one.fleet.app, "y")
        await one.until(lambda: one.row("Guard").decision is Decision.KEEP, "at once")
        assert one.row("Guard").is_settling
        assert any("✓ …" in line and "Guard" in line for line in one.lines)
        assert one.state.decisions.items == {}, "nothing was obeyed yet"
        assert one.screen.under_way, "quitting now asks twice"
        await press(one.fleet.app, "k", "z")
        may_go_on.set()
        await slow
        await one.settled()
        assert one.row("Guard").decision is Decision.UNDECIDED, "acts are done in their order"
        may_go_on.clear()
        slow = asyncio.create_task(one.screen.act(wait))
        await press(one.fleet.app, "y", "z", "Z", "z", "Z")
        may_go_on.set()
        await slow
        await one.settled()
        assert one.row("Guard").decision is Decision.KEEP, "fingers are faster than what they take back and do again"


async def test_an_act_that_fails_takes_back_nothing_that_was_done_before_it(shop: Repository) -> None:
    async with reviewing(shop, size=(110, 24)) as one:
        may_go_on = threading.Event()

        def wait(session: ReviewSession) -> ReviewState:
            may_go_on.wait(PATIENCE)
            return session.state

        def refuse(session: ReviewSession) -> ReviewState:
            raise RefusedError("Not that")

        slow = asyncio.create_task(one.screen.act(wait))
        await press(one.fleet.app, "y")
        failing = asyncio.create_task(one.screen.act(refuse))
        await quiet(one.fleet.app)
        may_go_on.set()
        await slow
        with pytest.raises(RefusedError):
            await failing
        assert one.row("Guard").decision is Decision.KEEP
        await one.settled()
        assert one.row("Guard").oid in one.state.decisions.items


async def test_what_is_held(shop: Repository) -> None:
    async with reviewing(shop, size=(140, 40)) as one:
        await one.go_to("Round taxes up")
        assert one.row("Round taxes up").status is Status.HELD
        assert "2 in conflict" in one.head
        await one.press("C")
        await one.until(lambda: "ours: the branch so far" in one.pane.text_of("needs"), "both sides")
        assert any("↯" in line and "confl" in line for line in one.lines)
        compare("review-held", await one.picture())
        await one.go_to("Round taxes to cents")
        await one.press("x")
        options = one.top
        assert isinstance(options, Options), "unblocked changes are listed first"
        assert any(line.startswith("unblocked:") for line in options.listed)
        compare("review-revert", await one.picture_of_all())
        await one.press("x")
        await one.until(lambda: one.top is one.screen, "reverted")
        await one.settled()
        assert one.row("Round taxes, in cents").status is Status.LAID
        # In conflict with an undecided change, so it is not applied; what is published has no undecided change.
        kept = one.state.kept
        await one.go_to("Round taxes up")
        await one.press("y")
        assert one.row("Round taxes up").status is Status.HELD
        assert one.state.kept == kept + 1
        assert f"branch now: {kept + 1} change" in one.head


async def test_what_is_there_already_is_void(shop: Repository) -> None:
    shop.commit("Keep the query", {"src/login.py": QUERY})
    async with reviewing(shop, Request(targets=ALL.targets, base="release", onto="main")) as one:
        assert one.row("Keep the query").status is Status.VOID
        assert "1 empty" in one.head
        await one.go_to("Keep the query")
        assert any("∅" in line and "empty" in line for line in one.lines)
        compare("review-void", await one.picture())


async def test_empty_and_alternatives(shop: Repository) -> None:
    async with reviewing(shop) as one:
        await one.press("slash", *"zzzzqq", "enter")
        assert any("Nothing matches" in line for line in one.lines)
        compare("review-empty", await one.picture())


async def test_wide_and_narrow(shop: Repository) -> None:
    async with reviewing(shop, size=(250, 70)) as one:
        await one.go_to("Keep the query")
        assert one.diff.is_split
        assert any("Response(302, url)" in line and "query(self.request)" in line for line in one.diff_lines)
        compare("review-wide", await one.picture())
        await one.fleet.pilot.resize_terminal(80, 24)
        await one.until(lambda: not one.screen.pane_is_open, "narrow")
        await one.go_to("Guard the empty cart")
        assert "? help" in one.key_line
        compare("review-small", await one.picture())
        await one.press("enter")
        assert any("def mean(self):" in line for line in one.diff_lines)
        compare("review-small-diff", await one.picture())


async def test_what_cannot_be_opened_is_said_where_one_was(shop: Repository) -> None:
    shop.git("branch", "nothing", "release")
    async with bare_fleet(shop) as fleet:
        for request in (Request(targets=("nothing",), base="release"), Request(targets=("gone",), base="release")):
            fleet.app.open_review(request)
            await fleet.until(lambda: len(fleet.screen.said) > 0, "why not")
            assert fleet.app.screen is fleet.screen
            fleet.screen.said.clear()


async def test_the_fleet_below_the_review_of_the_command_line_comes_behind_it(shop: Repository) -> None:
    view = scenes.few().view
    app = FleetApp(
        lambda publish: StillWatch(view, publish), environ_of(shop), folder=shop.folder, place="shop", review=ALL
    )
    async with app.run_test(size=(100, 24)):
        await until(app, lambda: isinstance(app.screen, ReviewScreen) and app.screen.state is not None, lambda: "rows")
        assert app.screen.css_path[0] in app.css_path, "another style sheet would make Textual parse all again"
        await until(app, lambda: app.fleet.has_view, lambda: "the agents")


async def test_leaving_and_coming_back_finds_everything(shop: Repository) -> None:
    async with reviewing(shop, size=(100, 24)) as one:
        await one.press("y", "j", "x")
    async with reviewing(shop, size=(100, 24)) as one:
        assert one.row("Guard").decision is Decision.KEEP
        assert one.row("Keep the query").decision is Decision.REVERT
        await one.press("z", "z")
        assert {row.decision for row in one.screen.rows if row.number} == {Decision.UNDECIDED}, "undo after a restart"


async def test_two_reviews_of_the_same_are_not(shop: Repository) -> None:
    async with (
        reviewing(shop, size=(100, 24)),
        bare_fleet(shop) as other,
    ):
        other.app.open_review(ALL)
        await other.until(lambda: len(other.screen.said) > 0, "why not")
        assert "review" in f"{other.screen.said[0].title} {other.screen.said[0].text}"


async def test_what_is_laid_together_is_seen_together(shop: Repository) -> None:
    async with reviewing(shop) as one:
        assert one.table.go_to_key("group joint")
        await one.press()
        files = {file.path: file for file in one.diff.layout_of_rows.files}
        assert set(files) == {path.path for row in one.screen.rows if not row.number for path in row.change.paths}
        assert any("tests/test_login.py" in line for line in one.diff_lines), one.diff_lines
        # Without one of its members it is another commit.
        await one.go_to("Test redirects")
        await one.press("x")
        assert one.table.go_to_key("group joint")
        await one.press()
        assert "tests/test_login.py" not in {file.path for file in one.diff.layout_of_rows.files}
        assert len(one.diff.layout_of_rows.files) == len(files) - 1
        await one.press("x")
        assert one.diff.layout_of_rows.files == ()
        assert any("✗ Tell of taxes" in line for line in one.diff_lines), "nothing of it is laid"


async def test_what_commits_say_is_text_and_a_group_is_decided_as_one(shop: Repository) -> None:
    async with reviewing(shop, size=(110, 24)) as one:
        await one.press("home", "x")
        assert {row.decision for row in one.screen.rows if not row.number} == {Decision.REVERT}
        await one.press("z")
        assert {row.decision for row in one.screen.rows if not row.number} == {Decision.UNDECIDED}, "one act, one undo"
        await one.go_to("Draw the logo")
        svg = await one.picture()
        assert "\x1b" not in svg
        assert "Draw the logo anew [bold]" in one.pane.title, "markup is shown, not obeyed"
        assert any("binary: 25 bytes → 33 bytes" in line for line in one.diff_lines)


async def test_a_big_diff_is_drawn_where_one_looks(shop: Repository) -> None:
    shop.git("checkout", "-q", "-b", "big", "release")
    lines = [f"value_{number} = {number}" for number in range(20_000)]
    shop.commit("[FIX_IMPL] Write it out", {"src/table.py": "\n".join(lines) + "\n", "src/long.py": "x" * 100_000})
    shop.git("checkout", "-q", "main")
    async with reviewing(shop, Request(targets=("big",), base="release"), size=(110, 30)) as one:
        assert one.diff.layout_of_rows.height > 20_000
        drawn = one.diff.painted
        await one.press("J")
        assert one.diff.painted - drawn < 500, "what is not on the screen is not made"
        await one.press("greater_than_sign")
        assert any("value_0 = 0" in line for line in one.diff_lines)
        one.diff.scroll_lines(19_990)
        await one.press()
        assert any("value_19980" in line for line in one.diff_lines)
        await one.until(lambda: one.diff.is_coloured, "colours of what is seen")
        assert one.diff.coloured_lines < 1_000


async def test_main_moves_and_one_key_lays_the_line_anew(shop: Repository) -> None:
    async with reviewing(shop, Request(targets=ALL.targets, base="main"), size=(110, 24)) as one:
        shop.commit("Keep the query", {"src/login.py": QUERY})
        await one.press("R")
        await one.until(lambda: "main +1 (B rebase)" in one.head, "that main has moved")
        await one.press("B")
        await one.until(lambda: "Rebased" in one.toasts, "laid anew")
        assert one.row("Keep the query").status is Status.VOID
        assert "main +1" not in one.head


async def test_what_was_left_out_is_told(shop: Repository) -> None:
    shop.git("checkout", "-q", "-b", "merged", "ada")
    shop.git("merge", "-q", "--no-edit", "eve")
    shop.git("checkout", "-q", "main")
    async with reviewing(shop, Request(targets=("bob", "merged"), base="release"), size=(110, 24)) as one:
        assert "1 branch was left out" in "".join(problem.title for problem in one.screen.problems)
        await one.press("e")
        assert isinstance(one.top, Page)


async def test_a_group_keeps_all_but_what_weakens_a_test(shop: Repository) -> None:
    weaker = "def test_total():\n    assert Cart().total() <= 1000  # [bold]\n"
    shop.git("checkout", "-q", "release")
    shop.commit("Test the total", {"tests/test_total.py": "def test_total():\n    assert Cart().total() == 0\n"})
    shop.git("checkout", "-q", "-b", "zoe")
    shop.commit("[FIX_TEST] Mend the total", {"tests/test_total.py": weaker})
    shop.commit("[FIX_TEST] Test the login", {"tests/test_in.py": "def test_in():\n    assert True\n"})
    shop.git("checkout", "-q", "main")
    async with reviewing(shop, Request(targets=("ada", "zoe"), base="release"), size=(110, 24)) as one:
        await one.press("home", "left")
        assert "y keeps all but 1 that weakens a test" in one.pane.text_of("headline")
        await one.press("y")
        kept = {row.change.subject: row.decision for row in one.screen.rows if not row.number}
        assert kept.pop("[FIX_TEST] Mend the total") is Decision.UNDECIDED
        assert set(kept.values()) == {Decision.KEEP}
        row = one.table.row
        assert row is not None
        assert (row.change.subject, row.weakens) == ("[FIX_TEST] Mend the total", True), "the cursor points at it"
        assert "1 change weakens a test" in one.toasts
        await one.press("2")
        said = one.pane.text_of("members")
        assert "tests/test_total.py:2: test_total: an assertion is changed" in said
        assert "- assert Cart().total() == 0\n+ assert Cart().total() <= 1000  # [bold]\n" in said
        assert any("▼" in line and "Mend the total" in line for line in one.lines), one.lines
        compare("review-weakens", await one.picture())
        await one.press("home", "y")
        assert "Only what weakens a test is left (1)" in one.toasts
        await one.press("z")
        assert not any(row.decision is Decision.KEEP for row in one.screen.rows), "one act, one undo"
        await one.go_to("Mend the total")
        await one.press("y")
        assert one.row("Mend the total").decision is Decision.KEEP, "kept by name"


async def test_a_resolved_conflict_shows_what_is_applied(shop: Repository) -> None:
    async with reviewing(shop, size=(140, 40)) as one:
        await one.go_to("Round taxes up")
        oid = one.row("Round taxes up").oid
        assert any("+     return ceil(amount * rate * 100) / 100" in line for line in one.diff_lines)
        await one.press("equals_sign")
        assert "What is applied is what its agent committed" in one.toasts

        def resolve(session: ReviewSession) -> ReviewState:
            answers = choose(session.conflict_files(oid), "theirs").answers
            content = (answers[0].content or b"").replace(b"* 100) / 100", b"* 100) // 100  # [bold]mine")
            return session.resolve(oid, Resolution((replace(answers[0], content=content),)))

        await one.screen.act(resolve)
        await one.settled()
        row = one.row("Round taxes up")
        assert (row.status, row.is_resolved) == (Status.LAID, True)
        assert any("≠" in line and "Round taxes up" in line for line in one.lines)
        assert any("// 100  # [bold]mine" in line for line in one.diff_lines), "what would be published"
        assert "as it is applied; its agent's commit differs" in one.pane.text_of("headline")
        compare("review-resolved", await one.picture())
        await one.press("equals_sign")
        assert any("+     return ceil(amount * rate * 100) / 100" in line for line in one.diff_lines)
        assert "its agent's commit, not what is applied" in one.pane.text_of("headline")
        await one.press("equals_sign", "2")
        assert "src/pay.py: resolved here" in one.pane.text_of("members")
        await one.press("C")
        await one.until(lambda: "src/pay.py · theirs" in one.pane.text_of("needs"), "both sides")
        assert "src/pay.py · as applied" in one.pane.text_of("needs")
        assert "# [bold]mine" in one.pane.text_of("needs")
        await one.go_to("Round taxes up")
        await one.press("y", "P", "enter")
        listed = (await asked(one, Options)).listed
        assert any("“Round taxes up” was resolved against “" in line for line in listed), listed
        assert any("undecided: without it, its agent's commit is published as it is" in line for line in listed), listed
        await one.press("escape", "z", "z", "1")
        assert not one.row("Round taxes up").is_resolved
        assert any("+     return ceil(amount * rate * 100) / 100" in line for line in one.diff_lines)


async def test_a_name_that_cannot_be_published_is_refused_while_it_is_typed(shop: Repository) -> None:
    async with reviewing(shop, size=(110, 24)) as one:
        await one.press("y", "P")
        for name, why in (("main", "main is checked out"), ("ada", "is not from this review"), ("a..b", "not a valid")):
            await one.press("ctrl+u", *name, "enter")
            assert one.screen.prompt.is_open, name
            assert why in str(one.screen.prompt.query_one("#hint", Static).render()), name
        await one.press("ctrl+u", *"fine")
        assert "not" not in str(one.screen.prompt.query_one("#hint", Static).render())
        await one.press("escape")
        assert not one.screen.prompt.is_open


async def test_a_moved_change_says_that_it_was_moved(shop: Repository) -> None:
    async with reviewing(shop, size=(110, 24)) as one:
        await one.go_to("Guard the empty cart")
        assert one.pane.text_of("headline").startswith("ranked 1st: ")
        await one.press("ctrl+j")
        assert one.pane.text_of("headline").startswith("moved to 2nd, ranked 1st: ")
        await one.press("z")
        assert one.pane.text_of("headline").startswith("ranked 1st: ")
