"""A page of the report in a browser without a network, and everything that goes wrong in it."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Route

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_WATCH = "document.addEventListener('securitypolicyviolation', (e) => console.error('policy', e.violatedDirective))"


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Debian's chromium; as root it has no sandbox of its own."""
    with sync_playwright() as started:
        made = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )  # fmt: skip
        yield made
        made.close()


class Reader:
    """A page in a browser without a network, and everything that went wrong in it."""

    def __init__(self, context: BrowserContext) -> None:
        self.wrong: list[str] = []
        context.set_offline(True)
        context.route(lambda url: not url.startswith("file:"), self._refuse)
        context.add_init_script(_WATCH)
        self.page: Page = context.new_page()
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", self._dismiss)

    def _refuse(self, route: Route) -> None:
        self.wrong.append(f"asked the network for {route.request.url}")
        route.abort()

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"opened a dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: Path, fragment: str = "") -> Page:
        self.page.goto(f"{path.as_uri()}{fragment}")
        return self.page


@contextmanager
def a_reader(browser: Browser) -> Iterator[Reader]:
    """A page; at its end nothing may have gone wrong in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    made = Reader(context)
    yield made
    assert made.wrong == []
    context.close()
