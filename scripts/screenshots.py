"""Draws screenshots/ by driving the real app over the tests' scenes, on a clock that stands still.

Without arguments it writes the pictures, and the snapshots of the tests with them; with --check it writes nothing and
fails where a picture is not what the app draws now. What the preview shows is a real terminal: a private tmux server
has a session that printed a few lines. No mngr and no agent is needed.

The replay is of claude.cast: the real Claude Code on the scripted model, as `demo --agent claude` recorded it, with
neutral paths. The review and the report of 96 agents take minutes, because their tests are really run; --check does not
compare them. The report is drawn by Chromium; without it the old picture stays.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "screenshots"
CLAUDE = FOLDER / "claude.cast"
SNAPSHOTS = ROOT / "tests" / "tui" / "snapshots"

FROM_SNAPSHOTS = {
    "run": "run",
    "claimed-green": "run-claimed-green",
    "start": "start-120",
    "tutorial": "tutorial",
    "verified": "review-verified",
}
"""Pictures that are the tests' own snapshots, by name: what those tests look at is what a reader sees."""

TERMINALS = {
    "mngr-st-7f-export-csv-2": r"""
\e[1m> Own the test tests/test_export.py::test_csv[1]\e[0m

\e[32m●\e[0m I have read \e[1msrc/shop/export.py\e[0m. A field with
  a line break is written bare, so that the next
  row starts in the middle of it.

\e[32m●\e[0m \e[1mUpdate\e[0m(src/shop/export.py)
  └  Updated with 1 addition and 1 removal
     41      def row(self, fields):
     \e[41m42 -        return ",".join(fields)         \e[0m
     \e[42;30m42 +        return self.writer.row(fields)  \e[0m

\e[32m●\e[0m \e[1mBash\e[0m(pytest tests/test_export.py -q)
  └  \e[32m.........\e[0m                    \e[32m[100%]\e[0m
     \e[32m9 passed\e[0m in 0.62s

  Should I quote every field, or only some?

  \e[1;34m> 1. Every field\e[0m
    2. Only where it is needed
""",
    "mngr-st-7f-login-redirect": r"""
\e[1m> Own the test tests/test_login.py::test_redirect\e[0m

\e[32m●\e[0m A redirect after a login drops the query, so
  \e[36m/cart?coupon=SPRING\e[0m loses the coupon.

\e[32m●\e[0m \e[1mBash\e[0m(pytest tests/test_login.py -q)
  └  \e[32m......\e[0m                       \e[32m[100%]\e[0m
     \e[32m6 passed\e[0m in 0.41s

  Should I change it for guests too?
""",
}


def main() -> int:
    """Draw, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a picture is stale; write nothing")
    arguments = parser.parse_args()
    _make_the_same_everywhere()
    if not arguments.check:
        _update_snapshots()
    stale = asyncio.run(_draw(is_check=arguments.check))
    if not arguments.check:
        asyncio.run(_draw_large())
    if stale:
        print(f"stale: {', '.join(stale)}. Run: make pictures", file=sys.stderr)
    return 1 if stale else 0


def _make_the_same_everywhere() -> None:
    """Neither the caller's terminal nor their clock may show in a picture."""
    for name in [*os.environ]:
        if name.startswith(("TEXTUAL", "SELFTEST_", "TMUX", "LC_")) or name in ("NO_COLOR", "COLORTERM", "LANG"):
            del os.environ[name]
    os.environ.update(TZ="UTC", TERM="xterm-256color", COLORTERM="truecolor", LC_ALL="C.UTF-8")
    time.tzset()
    sys.path.insert(0, str(ROOT / "tests"))


def _update_snapshots() -> None:
    tests = sorted(str(path) for path in (ROOT / "tests" / "tui").rglob("test_*.py") if "compare(" in path.read_text())
    argv = [sys.executable, "-m", "pytest", "-q", *tests]
    subprocess.run(argv, cwd=ROOT, env={**os.environ, "UPDATE_SNAPSHOTS": "1"}, check=True)


async def _draw(*, is_check: bool) -> list[str]:
    """Draw all pictures; with `is_check` compare, and return the names of the stale ones."""
    import scenes
    from tui.driving import Driven, driven, text_of
    from tui.replay.replay_driving import replayed
    from worlds import a_world

    stale: list[str] = []

    async def keep(name: str, one: Driven) -> None:
        put(name, await one.picture())

    def put(name: str, picture: str) -> None:
        path = FOLDER / f"{name}.svg"
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if kept == picture:
            return
        if not is_check:
            path.write_text(picture, encoding="utf-8")
            print(f"drew {path.relative_to(ROOT)}")
            return
        stale.append(path.name)
        for line in difflib.unified_diff(text_of(kept), text_of(picture), path.name, "now", lineterm="", n=0):
            print(line, file=sys.stderr)

    for name, snapshot in FROM_SNAPSHOTS.items():
        put(name, (SNAPSHOTS / f"{snapshot}.svg").read_text(encoding="utf-8"))
    with a_world() as world:
        for number, (name, text) in enumerate(TERMINALS.items()):
            script = world.script(f"agent{number}", f"#!/bin/bash\nprintf '{_for_printf(text)}'\nexec sleep 3600\n")
            world.tmux("-f", "/dev/null", "new-session", "-d", "-x", "60", "-y", "38", "-s", name, str(script))
        sockets = {scenes.SOCKET: str(world.socket), scenes.OTHER_SOCKET: str(world.socket)}
        few, hundred = scenes.few().view, scenes.hundred().view
        question = "Should I "

        async with driven(hundred, sockets=sockets) as one:
            await one.until(lambda: question in one.preview, "a terminal")
            await keep("fleet", one)
            await one.press("slash", *"export")
            await one.until(lambda: question in one.preview, "a terminal")
            await keep("filter", one)
        async with driven(few, size=(80, 24)) as one:
            await keep("small", one)
            await one.press("3")
            await keep("small-explain", one)
        async with driven(hundred, size=(200, 50), sockets=sockets) as one:
            await one.until(lambda: question in one.preview, "a terminal")
            await one.press("down", "space", "space", "home", "down")
            await one.until(lambda: question in one.preview, "a terminal")
            await keep("wide", one)
        async with driven(few, theme="textual-light") as one:
            await one.press("d")
            await keep("light", one)
        async with driven(scenes.provider_down().view, sockets=sockets) as one:
            await one.press("down", "down")  # to a local agent, whose terminal is shown
            await one.until(lambda: question in one.preview, "a terminal")
            await keep("provider-down", one)
        async with driven(scenes.empty().view, size=(100, 30)) as one:
            await keep("empty", one)
        async with driven(few) as one:
            await one.press("question_mark")
            await keep("help", one)
    with tempfile.TemporaryDirectory() as folder:
        title = "st-7f-login-redirect · tests/test_login.py::test_redirect_keeps_query"
        async with replayed(CLAUDE, Path(folder), size=(204, 55), at=49.0, title=title, is_ended=True) as player:
            put("replay", player.picture())
    return stale


async def _draw_large() -> None:
    """Draw the review and the report of a run of 96 agents, whose tests are run in a sandbox."""
    from core.review.repositories import Repository
    from large_run import make_large_run
    from selftest_core.review.candidate_branch import Decision
    from selftest_core.review.changes.inputs import Request
    from selftest_core.verify.verification import Verified
    from selftest_tui.shared.dialogs.dialogs import Question
    from tui.review.keys_of_review import asked
    from tui.review.review_driving import reviewing
    from tui.review.test_review_verify import done, environ

    with tempfile.TemporaryDirectory() as folder:
        story = make_large_run(Path(folder) / "acme-shop")
        shop = Repository(Path(folder) / "acme-shop")
        request = Request(run=story.plan.run)
        async with reviewing(shop, request, environ=environ(shop), size=(160, 44)) as one:
            await one.press("v")
            await asked(one, Question)
            await one.press("y")
            await done(one)
            passed = [row.oid for row in one.screen.rows if row.verdict and row.verdict.verified is Verified.PASSED]
            kept = dict.fromkeys(passed[: len(passed) // 2], Decision.KEEP)
            await one.screen.act(lambda session: session.decide_each(kept), kept)
            await done(one)
            (FOLDER / "review.svg").write_text(await one.picture(), encoding="utf-8")
        _draw_report(shop.folder, environ(shop), story.plan.run)


def _draw_report(top: Path, environ: Mapping[str, str], run: str) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        print("no Chromium: the picture of the report stays as it is", file=sys.stderr)
        return
    tui = Path(sys.executable).with_name("selftest-tui")
    subprocess.run([tui, "report", run], cwd=top, env=dict(environ), check=True, stdout=subprocess.DEVNULL)
    page = top / ".selftest" / "runs" / run / "report" / "index.html"
    argv = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1000",
        f"--screenshot={FOLDER / 'report.png'}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True, timeout=120)


def _for_printf(text: str) -> str:
    return text.replace("'", "'\\''").replace("%", "%%")


if __name__ == "__main__":
    raise SystemExit(main())
