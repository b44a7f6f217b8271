"""The report of a demo of real agents in a browser: a hunk leads to the moment at which it was made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from core.demo.demos import a_demo
from recorder.report.browsing import CHROMIUM, a_browser, a_reader

if TYPE_CHECKING:
    from worlds import World

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium"),
]
PATIENT = 800.0


def test_a_hunk_of_a_real_agent_leads_to_its_recording(world: World) -> None:
    with a_demo(world, "--agents", "2", "--keep") as demo:
        assert demo.process.wait(PATIENT) == 1, demo.why()
        index = Path(demo.lines()[-1]["path"], "report", "index.html")
        with a_browser() as browser, a_reader(browser) as reader:
            page = reader.open(index)
            expect(page.locator(".legend")).to_contain_text("1 succeeded")
            page.locator(".rows").first.get_by_role(
                "link", name="[FIX_IMPL] Keep the query when login redirects"
            ).click()
            page.locator(".heading a.moment").click()
            # The agent's terminal shows its edit, and not yet the end of its work.
            expect(page.locator(".ap-term-text")).to_contain_text("Update(shop/login.py)")
            expect(page.locator(".ap-term-text")).not_to_contain_text("outcome.json")
