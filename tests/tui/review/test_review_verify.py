"""The review screen verifies in the background: real git, real pytest, and what a person sees of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import run_scenes
from core.review.changes.test_inputs import arrive
from core.review.repositories import Repository
from core.verify.desks import SANDBOX, SETTINGS, make_shop
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.review.evidence import write_row_verdicts
from selftest_core.verify.background.background_verifier import Phase
from selftest_tui.review.lines import ReviewGroup
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.options import Options
from tui.driving import compare
from tui.review.keys_of_review import asked
from tui.review.review_driving import environ_of, reviewing

if TYPE_CHECKING:
    from pathlib import Path

    from run_scenes import Story
    from tui.review.review_driving import Reviewing

# Not part of `make quick`: it starts many processes of pytest.
pytestmark = pytest.mark.real

AGENTS = ("ada", "eve")
REQUEST = Request(targets=AGENTS, base="main")
VICTIM = "tests/test_common.py::test_rate"


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    return make_shop(tmp_path / "shop")


def environ(shop: Repository) -> dict[str, str]:
    return environ_of(shop, **SETTINGS)


async def done(one: Reviewing) -> None:
    """Wait until all is verified, and shown."""
    state = one.screen.feed.verifier

    def is_done() -> bool:
        return state.state.phase in (Phase.DONE, Phase.FAILED) and state.state.is_settled

    await one.until(is_done, f"verified: {state.state.error}")
    await one.until(lambda: all(row.is_settled for row in one.screen.rows), "shown")
    await one.settled()


def cell(one: Reviewing, words: str) -> str:
    """The marks of claim and verdict in the table's line with these words."""
    column = next(placed for placed in one.table.columns.place(one.table.size.width) if placed.column.name == "tests")
    line = next(line for line in one.lines if words in line)
    return line[column.x : column.x + column.width].strip()


async def test_verdicts_appear_beside_claims_and_nothing_is_published_red_unasked(shop: Repository) -> None:
    async with reviewing(shop, REQUEST, environ=environ(shop), size=(80, 24)) as one:
        assert "not verified: P asks first" in one.head or "cannot publish" in one.head
        assert cell(one, "Mend ada") == "· ?"
        await one.press("v")
        question = await asked(one, Question)
        assert ("sandbox" if SANDBOX.is_isolated else "NOT isolated") in str(
            question.query_one("#lines Static").render()
        )
        await one.press("y")
        await one.press("y")  # decisions never wait
        assert Decision.KEEP in {row.decision for row in one.screen.rows}
        await one.press("z")
        await done(one)
        assert (cell(one, "Mend ada"), cell(one, "Mend eve")) == ("· ✓", "· ✗")
        assert "✓ 1 ✗ 1 ? 0" in one.head
        first = one.table.shown.lines[0]
        assert isinstance(first, ReviewGroup)
        assert [row.change.subject for row in first.members] == ["[FIX_IMPL] Mend eve"], "culprits come first"
        for name, count in (("is:culprit", 1), ("is:liar", 0), ("is:unverified", 0), ("is:passed", 1)):
            one.screen.filter_by(name)
            assert len(one.table.shown.rows) == count, name
        one.screen.filter_by("")
        await one.go_to("Mend eve")
        compare("review-verified-small", await one.picture())
        await one.press("6")
        text = one.pane.text_of("tests")
        assert f"breaks {VICTIM}" in text
        assert "before green" in text
        assert "assert 2 == 1" in text
        await one.press("6", "escape")

        for name in ("Mend eve", "Mend ada"):
            await one.go_to(name)
            await one.press("y")
        await one.until(lambda: "✗ tests fail: P asks first" in one.head, "what is kept is the candidate")
        await one.press("P", "enter")
        options = await asked(one, Options)
        assert any("✗ Mend eve: culprit" in line for line in options.listed)
        await one.press("escape")
        await one.until(lambda: one.top is one.screen, "not published")
        await one.go_to("Mend eve")
        await one.press("x")
        await one.until(lambda: "✓ safe to publish (P)" in one.head, "green without it")
        await one.press("P", "enter")
        await asked(one, Question)
        await one.press("y")
        await one.until(lambda: "✓ published as reviewed" in one.head, "published")

    # Coming back goes on by itself, and all of it was kept.
    async with reviewing(shop, REQUEST, environ=environ(shop), size=(100, 24)) as one:
        await done(one)
        verified = one.screen.feed.verifier.state.candidate
        assert verified is not None
        assert (verified.executions, verified.processes) == (0, 0)
        await one.press("v")
        await asked(one, Options)
        await one.press("c")
        await one.until(lambda: one.screen.feed.verifier.state.phase is Phase.OFF, "cancelled")
        assert cell(one, "Mend ada").endswith("✓")


LOGIN, PAY, SEARCH = "login", "pay", "search"
FRAME = {"#ff5f57", "#febc2e", "#28c840", "#c5c8c6"}
"""The buttons and the title of the window that is drawn around a picture."""
HOSTILE = r"print('\x1b[31mred\x1b[0m \x1b]0;title\x07 [bold]\x1b[2J')"


def make_run(folder: Path) -> Story:
    """A run of three tests, each claimed to pass: one lie, one that breaks the test of another, one own judge."""
    made = Repository.make(folder)
    tests = {LOGIN: "redirect", PAY: "card", SEARCH: "fuzzy"}
    files: dict[str, str | bytes | None] = {"shop/__init__.py": "", "conftest.py": "", "shop/rates.py": "RATE = 1\n"}
    files["tests/test_rates.py"] = "from shop.rates import RATE\n\n\ndef test_rate():\n    assert RATE == 1\n"
    for name, test in tests.items():
        files[f"shop/{name}.py"] = "def f():\n    return 0\n"
        said = f"    {HOSTILE}\n" if name == LOGIN else ""
        files[f"tests/test_{name}.py"] = (
            f"from shop.{name} import f\n\n\ndef test_{test}():\n{said}    assert f() == 1\n"
        )
    base = made.commit("Start", files)
    mended = {name: {f"shop/{name}.py": "def f():\n    return 1\n"} for name in tests}
    mended[LOGIN] = {"shop/login.py": "def f():\n    # The test expects the query of the redirect.\n    return 18\n"}
    mended[PAY]["shop/rates.py"] = "RATE = 2\n"
    mended[SEARCH]["conftest.py"] = "collect_ignore = []\n"
    (folder / ".selftest").mkdir()
    (folder / ".selftest" / ".gitignore").write_text("*\n")
    story = run_scenes.story(folder / ".selftest" / "runs", len(tests), repository=str(folder), base=base)
    for number, (name, changed) in enumerate(mended.items()):
        story.launch(number, 10.0 * number)
        made.git("checkout", "-q", "-b", name, "main")
        made.commit(f"[FIX_IMPL] Mend {name}", changed, name)
        arrive(made, story, number, name, "normal")
    made.git("checkout", "-q", "main")
    return story


async def test_claims_of_a_run_are_shown_beside_what_we_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = make_run(tmp_path / "a run")
    shop = Repository(tmp_path / "a run")
    async with reviewing(shop, Request(run=story.plan.run), environ=environ(shop)) as one:
        assert {cell(one, f"Mend {name}") for name in (LOGIN, PAY, SEARCH)} == {"✔ ?"}
        await one.press("v")
        await asked(one, Question)
        await one.press("y")
        await done(one)
        found = {name: cell(one, f"Mend {name}") for name in (LOGIN, PAY, SEARCH)}
        assert found == {LOGIN: "✔ ✗", PAY: "✔ ✗", SEARCH: "✔ ✓"}
        first = one.table.shown.lines[0]
        assert isinstance(first, ReviewGroup)
        assert {row.change.subject for row in first.members} == {
            "[FIX_IMPL] Mend login", "[FIX_IMPL] Mend pay", "[FIX_IMPL] Mend search",
        }  # fmt: skip
        one.screen.filter_by("is:liar")
        assert [row.change.subject for row in one.table.shown.rows] == ["[FIX_IMPL] Mend login"]
        one.screen.filter_by("")
        await one.go_to("Mend login")
        assert "✓ 1 ✗ 2 ? 0 (owned tests)" in one.head
        assert "verified ✗ failed · liar" in one.pane.text_of("headline")
        compare("review-verified", await one.picture())
        await one.press("6")
        said = one.pane.text_of("tests")
        assert "its agent says that it passes; it fails on the agent's own tree" in said
        assert "before red · after red · still red" in said
        assert "\n  red  [bold]\n" in said, "what a terminal would obey is gone"
        assert not {"\x1b", "\x07"} & set(said)
        text = one.pane.query_one("#tests-text").render()
        assert any("red" in str(span.style) or "ansi" in str(span.style) for span in text.spans)  # type: ignore[union-attr]

    monkeypatch.setenv("NO_COLOR", "1")
    async with reviewing(shop, Request(run=story.plan.run), environ=environ(shop)) as one:
        await done(one)
        assert {name: cell(one, f"Mend {name}") for name in (LOGIN, PAY, SEARCH)} == found
        await one.go_to("Mend login")
        picture = await one.picture()
        drawn = picture[picture.index("</style>") :]
        colours = set(re.findall(r'(?:fill|color)[:=]"?(#[0-9a-f]{6})', picture[: picture.index("</style>")] + drawn))
        assert {one for one in colours if one[1:3] != one[3:5] or one[3:5] != one[5:7]} <= FRAME, "only shades of grey"
        compare("review-verified-no-color", picture)


async def test_verdicts_on_texts_that_were_run_before_are_shown_and_choose(shop: Repository) -> None:
    shop.commit("Zed", {"shop/zed.py": "def f():\n    return 0\n"})
    for agent, text in (("pip", "return 1"), ("rex", "return 1  # slow")):
        shop.git("checkout", "-q", "-b", agent, "main")
        shop.commit(f"[FIX_IMPL] Mend zed as {agent}", {"shop/zed.py": f"def f():\n    {text}\n"}, agent)
    shop.git("checkout", "-q", "main")
    request = Request(targets=("pip", "rex"), base="main")
    async with reviewing(shop, request, environ=environ(shop), size=(150, 40)) as one:
        (row,) = one.screen.rows
        await one.press("5")
        assert "verify --texts" in one.pane.text_of("alternatives")
        home, (other,) = one.state.home, row.others
    write_row_verdicts(home, {row.oid: "failed", other.oid: "passed"})
    async with reviewing(shop, request, environ=environ(shop), size=(150, 40)) as one:
        (row,) = one.screen.rows
        assert (row.oid, row.differing) == (other.oid, True), "the better verdict chooses"
        await one.press("5")
        shown = one.pane.text_of("alternatives")
        assert "✓ passed" in shown
        assert "✗ failed" in shown
        assert "verify --texts" not in shown


async def test_texts_of_a_row_with_different_verdicts_are_marked(shop: Repository) -> None:
    judge = (
        "from pathlib import Path\n\nfrom shop import zed\n\n\n"
        "def test_f():\n    assert zed.f() == 1\n    assert 'slow' not in Path(zed.__file__).read_text()\n"
    )
    shop.commit("Zed", {"shop/zed.py": "def f():\n    return 0\n", "tests/test_zed.py": judge})
    for agent, text in (("pip", "return 1"), ("rex", "return 1  # slow")):
        shop.git("checkout", "-q", "-b", agent, "main")
        shop.commit(f"[FIX_IMPL] Mend zed as {agent}", {"shop/zed.py": f"def f():\n    {text}\n"}, agent)
    shop.git("checkout", "-q", "main")
    request = Request(targets=("pip", "rex"), base="main")
    async with reviewing(shop, request, environ=environ(shop), size=(150, 40)) as one:
        (row,) = one.screen.rows
        assert row.texts == 2
        await one.press("v", "y")
        await done(one)
        await one.press("5", "b")
        await one.until(lambda: one.screen.rows[0].oid != row.oid, "another text is chosen")
        await done(one)
        await one.until(lambda: one.screen.rows[0].differing, f"different verdicts: {one.screen.final_verdicts}")
        assert any("\N{NOT ALMOST EQUAL TO}" in line for line in one.lines)
        shown = one.pane.text_of("alternatives")
        assert "✓ passed" in shown
        assert "? unknown" in shown, "its test is red, as it was before"
        assert "Their verdicts differ: $ sets the marked one apart" in shown
        await one.press("slash", *"is:differing", "enter")
        assert len(one.table.shown.rows) == 1
