"""A repository with a run of two tests in all kinds of words, and a review without a run: all that a search finds."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from run_scenes import FIXED, RUN, Story, a_plan
from selftest_core.journal import Journal
from selftest_core.paths import runs_folder
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RunFolder
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.search.building import build
from selftest_recorder.search.database import Database, index_file
from selftest_recorder.search.hits import EVERYTHING, Scope, Searcher, parse_query, parse_regex

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_recorder.search.building import Progress
    from selftest_recorder.search.hits import Hit

REVIEW = "review-11111111-22222222"
HOSTILE = "evil \x1b[2J\x1b]0;pwned\x07[bold]<script>alert(1)</script>\u202e\ud800 $(touch x) `x`"
TOLD = """\
[2026-11-21 09:31:00Z] agent:
  I look for the umlaut: Käsekuchen.
"""


@dataclass
class Past:
    """The repository, its run, and the environment of what searches it."""

    repository: Repository
    story: Story
    environ: Mapping[str, str]
    fix: str

    @property
    def top(self) -> Path:
        return self.repository.folder

    @property
    def first(self) -> Path:
        """The folder of the first test's results."""
        member = self.story.row(0).member
        assert member is not None
        return self.story.folder.attempt(member)

    def build(self) -> list[Progress]:
        """Bring the index up to date, here; returns its progress."""
        told: list[Progress] = []
        build(self.top, self.environ, told.append)
        return told

    def find(self, text: str, most: int = 1000, scope: Scope = EVERYTHING) -> list[Hit]:
        """Search words in what is indexed."""
        with Database(index_file(self.top, self.environ)) as database:
            return list(Searcher(database, self.top).find(parse_query(text), most, scope).hits)

    def scan(self, text: str) -> list[Hit]:
        """Search a regular expression."""
        with Database(index_file(self.top, self.environ)) as database:
            return list(Searcher(database, self.top).scan(parse_regex(text)))


def make_past(folder: Path) -> Past:
    """Make it below `folder`, with a blank in its name."""
    repository = Repository.make(folder / "a shop")
    base = repository.commit("Open", {"src/login.py": "url = home\n"})
    repository.git("checkout", "-q", "-b", "ada")
    fix = repository.commit("[FIX_IMPL] Keep the coupon", {"src/login.py": "url = home + coupon_of(request)\n"}, "Ada")
    repository.git("checkout", "-q", "main")
    plan = a_plan(2, repository=str(repository.folder), base=base)
    runs = runs_folder(repository.folder)
    story = Story(plan, RunFolder(runs / RUN))
    for number in range(2):
        story.launch(number, 1.0)
    story.end(0, 10.0, End.SUCCEEDED, commits=1, outcome=FIXED)
    story.fail(1, 20.0, End.CRASH, "E   ConnectionRefusedError: port 40001", "collection")
    story.write()
    repository.git("update-ref", f"refs/selftest/{RUN}/agents/{plan.tests[0].agent_name}", fix)
    member = story.row(0).member
    assert member is not None
    home = story.folder.attempt(member)
    (home / "conversation.txt").write_text(TOLD, encoding="utf-8")
    (home / "e2e").mkdir()
    (home / "e2e" / "transcript.txt").write_bytes(
        b"$ shop add tea\n  1 x tea, \xff\xfe\n" + HOSTILE.encode("utf-8", "surrogatepass")
    )
    write_cast(
        home / "terminal.cast",
        Header(2, 60, 5),
        [
            (1.0, "o", "\x1b[31mtests/test_login.py\x1b[0m::redirect FAILED\r\n"),
            (9.0, "o", "\x1b[2J\x1b[Hdone: zeppelin"),
        ],
    )  # fmt: skip
    review = runs / REVIEW
    review.mkdir()
    with Journal(review / "review.jsonl") as log:
        log.append("opened", 1.0, kind="range", key="main..ada", base=base, base_name="main", branches=[["ada", fix]],
                   is_linear=True)  # fmt: skip
        log.append("decided", 2.0, items={fix: "keep"}, says="keep Keep the coupon, says the walrus")
        log.append(
            "noted", 3.0, oid=fix, text=f"ask the accountant {HOSTILE}".encode("utf-8", "replace").decode(), says="note"
        )
    os.utime(review / "review.jsonl", (1.0, 1.0))  # an old one
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    return Past(repository, story, environ, fix)


def write_outcome(folder: Path, **changes: object) -> None:
    """Write another outcome."""
    (folder / "outcome.json").write_text(json.dumps({**FIXED, **changes}), encoding="utf-8")
