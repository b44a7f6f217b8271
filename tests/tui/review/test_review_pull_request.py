"""The pull request from the screen: its text first, then gh, for which a program of ours stands in."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from selftest_tui.review.pull_request import PullRequestPage
from standins import make_gh
from tui.review.review_driving import environ_of, reviewing
from tui.review.review_scenes import shop, shop_once

__all__ = ["shop", "shop_once"]

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from tui.review.review_driving import Reviewing

pytestmark = pytest.mark.slow  # whole screens over a real repository


async def test_the_text_is_shown_then_gh_opens_it_for_what_was_published(shop: Repository, tmp_path: Path) -> None:
    remote, call = tmp_path / "remote.git", tmp_path / "call.json"
    shop.git("init", "-q", "--bare", str(remote))
    shop.git("remote", "add", "origin", str(remote))
    path = f"{make_gh(tmp_path / 'bin')}:{os.environ['PATH']}"
    async with reviewing(shop, environ=environ_of(shop, PATH=path, CALL=str(call))) as one:
        await one.go_to("Guard the empty cart")
        await one.press("y")
        await pressed_pull_request(one)
        await one.press("o")
        assert isinstance(one.top, PullRequestPage), "what is not published yet has no pull request"
        assert not call.exists()
        await one.press("escape")
        await one.press("P")
        await one.press("enter")
        await one.until(lambda: one.top is not one.screen, "the question")
        await one.press("y")
        await one.until(lambda: "published as reviewed" in one.head, "published")
        text = await one.screen.ask(lambda session: session.pull_request(), "the text")
        assert "Guard the empty cart" in text.body
        await pressed_pull_request(one)
        await one.press("o")
        await one.until(lambda: "https://example.org/pull/7" in one.toasts, "its address")
    said = json.loads(call.read_text())
    assert said["argv"][:4] == ["pr", "create", "--head=reviewed", "--base=release"]
    assert said["argv"][4] == f"--title={text.title}"
    assert said["body"] == text.body
    pushed = shop.git("--git-dir", str(remote), "rev-parse", "reviewed")
    assert pushed == shop.git("rev-parse", "reviewed")
    assert shop.git("--git-dir", str(remote), "for-each-ref", "--format=%(refname)") == "refs/heads/reviewed"


async def test_what_gh_says_is_told_and_the_review_goes_on(shop: Repository, tmp_path: Path) -> None:
    shop.git("init", "-q", "--bare", str(tmp_path / "remote.git"))
    shop.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    path = f"{make_gh(tmp_path / 'bin')}:{os.environ['PATH']}"
    environ = environ_of(shop, PATH=path, CALL=str(tmp_path / "call.json"), FAIL="1")
    async with reviewing(shop, environ=environ) as one:
        await one.press("home", "y", "P", "enter")
        await one.until(lambda: one.top is not one.screen, "the question")
        await one.press("y")
        await one.until(lambda: "published as reviewed" in one.head, "published")
        await pressed_pull_request(one)
        await one.press("o")
        await one.until(lambda: "not logged in" in one.toasts, "why")
        assert one.top is one.screen
        await one.go_to("Guard the empty cart")
        await one.press("y")
        assert "the published branch is out of date" in one.head


async def pressed_pull_request(one: Reviewing) -> None:
    """The page with the text."""
    await one.press("O")
    await one.until(lambda: isinstance(one.top, PullRequestPage), "the text")
