"""The report in Debian's chromium, opened from disk with the network cut: read, searched, played, and harmless."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

import run_scenes
from recorder.report.browsing import CHROMIUM, Reader, a_browser, a_reader
from recorder.report.report_scenes import small_run
from selftest_recorder.report.builder import ReportBuilder
from selftest_recorder.report.writer import ReportWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from selftest_core.run.store import RunFolder

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium"),
    pytest.mark.slow,
    # A click that finds nothing waits for half a minute by itself.
    pytest.mark.timeout(300),
]


def written(folder: RunFolder) -> Path:
    """Write the report of a run; returns its folder."""
    with ReportBuilder(folder.path, dict(os.environ), folder=folder) as builder:
        writer = ReportWriter(builder)
        assert writer.write() is not None
        return writer.folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(small_run(tmp_path_factory.mktemp("small")))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(run_scenes.halfway(tmp_path_factory.mktemp("large")).write())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(run_scenes.hostile(tmp_path_factory.mktemp("hostile")).write())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as made:
        yield made


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    with a_reader(browser) as made:
        yield made


def shown(page: Page) -> list[str]:
    return page.locator("#test-rows tbody tr:visible th a").all_inner_texts()


def test_tests_are_searched_filtered_and_sorted(reader: Reader, large: Path) -> None:
    page = reader.open(large / "index.html")
    every = shown(page)
    assert len(every) == 96

    page.keyboard.press("/")
    page.keyboard.type("redirect st-7f-login")
    found = shown(page)
    assert 0 < len(found) < 96
    assert any("test_login.py::test_redirect" in name for name in found)
    assert all("test_login.py" in name for name in found)
    expect(page.locator("#shown")).to_have_text(f"{len(found)} of 96")

    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#shown")).to_have_text("96")
    assert shown(page) == every

    page.select_option("#state", "failed")
    assert len(shown(page)) == 6
    assert page.locator("#test-rows tbody tr:visible .pill.failed").count() == 6
    page.reload()
    assert len(shown(page)) == 6, "the filter is part of the address"
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#shown")).to_have_text("96")

    page.get_by_role("button", name="Test", exact=True).click()
    ordered = shown(page)
    assert sorted(ordered) == sorted(every)
    assert [name.split(":")[0] for name in ordered] == sorted(name.split(":")[0] for name in every)
    expect(page.locator("#test-rows th[aria-sort=ascending]")).to_have_text("Test")
    page.get_by_role("button", name="Test", exact=True).click()
    assert shown(page) == ordered[::-1]


def test_of_many_tests_some_are_drawn_and_the_rest_when_it_is_scrolled_to(browser: Browser, tmp_path: Path) -> None:
    report = written(run_scenes.halfway(tmp_path, 480).write())
    with a_reader(browser) as reader:
        page = reader.open(report / "index.html")
        assert len(shown(page)) == 200
        page.locator("#more").scroll_into_view_if_needed()
        expect(page.locator("#test-rows tbody tr:visible")).to_have_count(400)
        page.locator("#search").fill("test_")
        expect(page.locator("#shown")).to_have_text("480")
        page.select_option("#state", "blocked")
        expect(page.locator("#shown")).to_have_text("24 of 480")
        expect(page.locator("#more")).to_be_hidden()


def test_keys_move_open_explain_and_keep_the_theme(reader: Reader, large: Path) -> None:
    page = reader.open(large / "index.html")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    second = shown(page)[1]
    assert page.evaluate("document.activeElement.textContent") == second
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("search the tests")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("t")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(second)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("u")
    expect(page.locator("#test-rows")).to_be_visible()


def test_a_recording_is_loaded_when_it_is_opened_and_plays(reader: Reader, small: Path) -> None:
    loaded: list[str] = []
    reader.page.on("request", lambda request: loaded.append(request.url))
    page = reader.open(next((small / "tests").glob("*login*.html")))
    assert not [url for url in loaded if "recordings/" in url or "asciinema" in url]

    page.get_by_role("button", name="Open the recording").click()
    terminal = page.locator(".ap-term-text")
    expect(terminal).to_contain_text("now a long pause")
    expect(terminal).to_contain_text("then the edit", timeout=10_000)  # 36 seconds later, which are shortened to 2
    assert len([url for url in loaded if "recordings/" in url]) == 1

    page.get_by_role("link", name="0:03", exact=True).click()
    expect(page.locator(".recording[data-at='3']")).to_be_visible()
    expect(terminal).to_contain_text("red")
    expect(terminal).not_to_contain_text("now a long pause")


def test_a_hunk_leads_to_the_moment_at_which_it_was_made(reader: Reader, small: Path) -> None:
    page = reader.open(small / "index.html")
    page.locator("#changes").locator("xpath=..").get_by_role("link", name="[FIX_IMPL] Count").first.click()
    expect(page.locator(".diff .added")).to_contain_text("sum(thing.price")
    page.locator(".heading .words summary").click()
    expect(page.locator(".heading")).to_contain_text("It returns nothing yet.")

    page.get_by_role("link", name="the conversation there").click()
    expect(page.locator("#said-1:target")).to_contain_text("It returns nothing yet.")
    page.go_back()

    page.locator(".heading a.moment").click()
    terminal = page.locator(".ap-term-text")
    expect(terminal).to_contain_text("then the edit")
    expect(terminal).not_to_contain_text("the last line")


def test_the_page_of_a_test_has_the_diffs_of_its_agent(reader: Reader, small: Path) -> None:
    page = reader.open(next((small / "tests").glob("*login*.html")))
    expect(page.locator("#commits ~ .card .diff .added")).to_contain_text("sum(thing.price")
    page.locator(".heading a.moment").click()
    expect(page.locator(".ap-term-text")).to_contain_text("then the edit")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(reader: Reader, small: Path, scheme: Any) -> None:
    reader.page.emulate_media(color_scheme=scheme)
    change = next((small / "changes").glob("*.html"))
    test = next((small / "tests").glob("*login*.html"))
    for path, fragment in ((small / "index.html", ""), (change, ""), (test, ""), (test, "#t=40")):
        page = reader.open(path, fragment)
        if fragment:
            expect(page.locator(".ap-term-text")).to_contain_text("then the edit")
        # Its preloading would fetch the style sheets, which the policy forbids.
        found = Axe().run(page, options={"preload": False}).response["violations"]
        assert [one for one in found if one["impact"] in ("serious", "critical")] == [], path


@pytest.mark.parametrize("width", [400, 2500])
def test_no_page_is_wider_than_its_window(reader: Reader, small: Path, large: Path, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": 900})
    pages = (large / "index.html", small / "index.html", *(small / "changes").iterdir(), *(small / "tests").iterdir())
    for path in pages:
        page = reader.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_what_agents_wrote_does_nothing(reader: Reader, hostile: Path) -> None:
    for path in (hostile / "index.html", *(hostile / "tests").iterdir()):
        page = reader.open(path)
        assert page.locator("main script, main img, main iframe, main style, main [onclick], main [style]").count() == 0
        assert page.locator("a[href^='javascript:' i], a[href^='data:' i]").count() == 0
        for link in page.locator("main a[href^='http']").all():
            assert link.get_attribute("rel") == "noopener noreferrer"


def test_everything_is_there_without_scripts(browser: Browser, small: Path) -> None:
    with browser.new_context(java_script_enabled=False, offline=True) as context:
        page = context.new_page()
        page.goto((small / "index.html").as_uri())
        assert len(shown(page)) == 4
        expect(page.locator(".filters")).to_be_hidden()
        page.locator("#test-rows a").first.click()
        expect(page.locator("h1")).to_contain_text("tests/test_")
        expect(page.get_by_role("button")).to_have_count(0)
