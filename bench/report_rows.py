"""The rows of the report: writing it for 300 agents with three recordings each, and its first view in a browser."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import run_scenes
from bench.fleets import base_environ
from bench.measure import Result, Stopwatch, median, result
from bench.replay_rows import agent_like
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.tools.process import run
from selftest_recorder.cast.events import OUTPUT, Header
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.report.builder import ReportBuilder
from selftest_recorder.report.writer import ReportWriter

if TYPE_CHECKING:
    from selftest_core.run.store import RunFolder

AGENTS, RECORDINGS = 300, 3
_EVENTS = 1_500
_VIEWS = 5
_DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
_VIEW_BUDGET_SECONDS = 1.0
_VIEW_BUDGET_MEGABYTES = 2.0


def report() -> dict[str, Result]:
    """All rows."""
    with tempfile.TemporaryDirectory(prefix="selftest-bench-") as name:
        folder = _run(Path(name))
        environ = {**os.environ, "HOME": name, "XDG_CACHE_HOME": f"{name}/cache"}
        what = f"{AGENTS} agents with {RECORDINGS} recordings and a change each"
        with ReportBuilder(folder.path, environ, folder=folder) as builder:
            writer = ReportWriter(builder)
            with Stopwatch() as first:
                writer.write()
            with Stopwatch() as again:
                writer.write()
        size = sum(path.stat().st_size for path in writer.folder.rglob("*") if path.is_file()) / 1e6
        return {
            "report_write_300": result(first.wall, "s", note=f"{what}; {first.cpu:.1f} s of CPU, {size:.0f} MB"),
            "report_write_300_again": result(again.wall, "s", note="nothing has changed"),
            **_view(writer.folder / "index.html", what),
        }


def _view(index: Path, what: str) -> dict[str, Result]:
    """Measure the first view from disk: the bytes that it loads, and the time until it is painted and can be used."""
    chromium = shutil.which("chromium")
    if chromium is None:
        missing = Result(None, "s", note="chromium is not installed")
        return {"report_first_view_300": missing, "report_first_view_300_size": missing}
    from playwright.sync_api import sync_playwright

    seconds: list[float] = []
    asked: set[str] = set()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        for _ in range(_VIEWS):
            with browser.new_context(viewport={"width": 1280, "height": 900}, offline=True) as context:
                page = context.new_page()
                page.on("request", lambda request: asked.add(request.url))
                page.goto(index.as_uri(), wait_until="load")
                # Since the navigation began, up to the frame behind the one in which all is drawn.
                milliseconds = page.evaluate(_DRAWN)
                seconds.append(milliseconds / 1000)
        browser.close()
    files = [Path(url.removeprefix("file://")) for url in asked if url.startswith("file://")]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    return {
        "report_first_view_300": result(
            median(seconds), "s", _VIEW_BUDGET_SECONDS,
            note=f"{what}; from disk in chromium until it is painted and its script has run, median of {_VIEWS}",
        ),
        "report_first_view_300_size": result(
            megabytes, "MB", _VIEW_BUDGET_MEGABYTES,
            note=f"{len(files)} files, {len(asked) - len(files)} from a network",
        ),
    }  # fmt: skip


def _run(place: Path) -> RunFolder:
    """A run that ended: each agent made one change, in a repository with a branch for each."""
    repository = place / "shop"
    repository.mkdir()
    _git(repository, "init", "-q", "-b", "main")
    told = run_scenes.story(place / "runs", 0)
    names = [test.agent_name for test in run_scenes.a_plan(AGENTS).tests]
    _git(repository, "fast-import", "--quiet", stdin=_branches(told.plan.run, names))
    base = _git(repository, "rev-parse", "main").strip()
    shutil.rmtree(told.folder.path)
    told = run_scenes.story(place / "runs", AGENTS, repository=str(repository), base=base)
    told.note(Event.CONDUCTING, 0, pid=4321)
    chance = random.Random(7)
    for number in range(AGENTS):
        told.launch(number, 5.0 + number)
    for number in range(AGENTS):
        told.end(number, 400.0 + number, End.SUCCEEDED, commits=1, outcome=run_scenes.FIXED)
        member = told.row(number).member
        assert member is not None
        for recording in range(RECORDINGS):
            events = [(at * 0.2, OUTPUT, agent_like(chance, at)) for at in range(_EVENTS)]
            write_cast(told.folder.attempt(member) / f"test-{recording}.cast", Header(2, 120, 40), events)
    told.note(Event.LEFT, 1_000, why="done")
    return told.write()


def _branches(run_id: str, names: list[str]) -> str:
    """A history for `git fast-import`: a base, and one commit on it for each agent."""
    who = "committer A <a@example.org> 1700000000 +0000"
    made = [f"commit refs/heads/main\nmark :1\n{who}\ndata 5\nStart\nM 644 inline shop.py\ndata 4\na=1\n\n"]
    for number, name in enumerate(names):
        subject = f"[FIX_IMPL] Mend part {number}"
        text = "".join(f"def part_{number}_{line}():\n    return {line}\n" for line in range(20))
        made.append(
            f"commit refs/selftest/{run_id}/agents/{name}\n{who}\ndata {len(subject)}\n{subject}\nfrom :1\n"
            f"M 644 inline shop/part_{number}.py\ndata {len(text)}\n{text}\n"
        )
    return "".join(made)


def _git(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    done = run(("git", *arguments), timeout=120, cwd=folder, env=base_environ(), input=stdin)
    if not done.ok:
        raise RuntimeError(f"git {arguments[0]}: {done.stderr_end}")
    return done.stdout
