"""A report says what changed since the run before: on its first page, in its JSON and in its summary."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from core.compare.comparable_runs import AFTER, BEFORE, GREEN, RED, Repository, Told
from recorder.report.test_report import document, written
from selftest_core.run.outcome.ends import End
from selftest_recorder.report.builder import ReportBuilder
from tui.run.run_driving import conducted

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder

pytestmark = pytest.mark.slow  # each writes a whole report
WORSE, SAME, MENDED = "tests/test_a.py::test_worse<b>", "tests/test_a.py::test_same", "tests/test_a.py::test_mended"


def two_runs(place: Path) -> tuple[RunFolder, RunFolder]:
    runs = Repository(place)
    before = runs.run(BEFORE, {WORSE: GREEN, SAME: GREEN, MENDED: RED})
    return before, runs.run(AFTER, {WORSE: RED, SAME: Told(End.UNCHANGED), MENDED: GREEN})


def test_the_report_of_a_run_is_compared_with_the_run_before(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)

    report = written(after)

    since = document(report)["since"]
    assert since["before"]["run"] == before.run
    assert [(one["test"], one["change"]) for one in since["newly_red"]] == [(WORSE, "succeeded → failed")]
    assert [one["test"] for one in since["mended"]] == [MENDED]
    assert since["same"] == 1
    page = (report / "index.html").read_text(encoding="utf-8")
    part = page.partition('<h2 id="since">')[2].partition("</section>")[0]
    assert before.run in part
    assert re.findall(r"<summary>(.*?)</summary>", part) == ["1 newly red", "1 mended"]
    assert "test_worse&lt;b&gt;</a>" in part
    summary = (report / "summary.md").read_text(encoding="utf-8")
    assert f"## Since run `{before.run}`\n\n- 1 newly red, 1 mended, 1 with the same result\n- `{WORSE}`" in summary


def test_without_a_run_before_or_with_a_damaged_one_the_report_is_there(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    assert document(written(before))["since"] is None
    (before.path / "plan.json").write_text("{")

    found = document(written(after))

    assert (found["since"], found["problems"]) == (None, [])


def test_a_run_that_goes_on_is_not_compared_yet(tmp_path: Path) -> None:
    runs = Repository(tmp_path)
    runs.run(BEFORE, {SAME: GREEN, WORSE: GREEN})
    story = runs.story(AFTER, {SAME: GREEN, WORSE: Told(None)})
    story.entries.pop()
    folder = story.write()
    with conducted(folder), ReportBuilder(folder.path, dict(os.environ), folder=folder) as builder:
        assert builder.build().since is None
    with ReportBuilder(folder.path, dict(os.environ), folder=folder) as builder:
        since = builder.build().since
        assert since is not None
        assert since.pending == 1
