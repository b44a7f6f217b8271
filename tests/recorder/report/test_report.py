"""The report of a run: its pages, its JSON, and what is missing, from real run folders."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import jsonschema
import pytest

import run_scenes
from recorder.report.report_scenes import small_run
from selftest_core.run.clock import WallClock
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import Deletion, RestingTest, Suite
from selftest_core.run.reporting import SECONDS_BETWEEN, RunReports
from selftest_core.schema.registry import schema
from selftest_recorder.report.builder import ReportBuilder
from selftest_recorder.report.writer import ReportError, ReportWriter, RunReporter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_core.run.store import RunFolder

pytestmark = pytest.mark.slow  # each writes a whole report

SCHEMA = schema()


def written(folder: RunFolder) -> Path:
    """Write the report of a run, and return its folder."""
    with ReportBuilder(folder.path, dict(os.environ), folder=folder) as builder:
        writer = ReportWriter(builder)
        assert writer.write() is not None
        return writer.folder


def document(report: Path) -> dict[str, Any]:
    """Return run.json, which must be as the schema says."""
    found: dict[str, Any] = json.loads((report / "run.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, {**SCHEMA["documents"]["report/run.json"], "$defs": SCHEMA["$defs"]})
    return found


def test_every_test_has_a_page_and_every_link_a_target(tmp_path: Path) -> None:
    report = written(run_scenes.halfway(tmp_path).write())

    found = document(report)
    assert len(found["tests"]) == 96
    assert [one["kind"] for one in found["escalations"]] == ["SHARED_PATTERN"] * len(found["escalations"])
    index = (report / "index.html").read_text(encoding="utf-8")
    for test in found["tests"]:
        assert (report / test["page"]).is_file()
        assert test["page"] in index
    for page in [report / "index.html", *(report / "tests").glob("*.html")]:
        for link in re.findall(r'(?:href|src)="([^"#:]+)', page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), (page.name, link)


def test_tests_that_rest_are_new_or_gone_are_told_and_obeyed_by_nothing(tmp_path: Path) -> None:
    evil = "tests/test_a.py::test_x[<script>alert(1)</script> `@all`]"
    suite = Suite(
        resting=(RestingTest(evil, "green and unchanged in its last 3 runs", 2),), since="20261120-0200-7f3a",
        grown=("tests/test_all.py::test_new",),
        deleted=(Deletion(evil, "a" * 40, "Drop <b>it</b> @all", "st-7f (claude)"), Deletion("tests/b.py::test_y")),
    )  # fmt: skip
    report = written(run_scenes.story(tmp_path, 2, suite=suite).write())

    found = document(report)
    assert [one["test"] for one in found["resting"]] == [evil]
    assert (found["compared_with"], found["grown"]) == (suite.since, list(suite.grown))
    assert [one["commit"] for one in found["deleted"]] == ["a" * 40, None]
    assert len(found["tests"]) == 2, "resting tests are none of the run's"
    index = (report / "index.html").read_text(encoding="utf-8")
    assert "1 test without an agent, as they rest" in index
    assert "deleted by st-7f (claude) in <code>aaaaaaaaaaaa</code>: Drop &lt;b&gt;it&lt;/b&gt; @all" in index
    assert "<script>alert" not in index
    summary = (report / "summary.md").read_text(encoding="utf-8")
    assert "## New tests since run `20261120-0200-7f3a`\n\n- `tests/test_all.py::test_new`" in summary
    assert "deleted by `st-7f (claude)` in aaaaaaaaaaaa: `Drop <b>it</b> @all`" in summary
    assert "- 1 test without an agent: green and unchanged in its last 3 runs" in summary


def test_a_block_leads_to_its_tests_and_to_the_changes_of_their_agents(tmp_path: Path) -> None:
    folder = small_run(tmp_path)
    plan = json.loads((folder.path / "plan.json").read_text(encoding="utf-8"))
    for test in plan["tests"][:2]:
        test["blocks"] = ["# Add.\nshop add 1"]
    (folder.path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")

    report = written(folder)

    found = document(report)
    blocks = (report / "index.html").read_text(encoding="utf-8").partition('<h2 id="tutorial">')[2].split("<tr ")
    [row] = [row for row in blocks if "shop add 1" in row]
    assert [test["page"] in row for test in found["tests"]] == [True, True, False, False]
    assert found["changes"]
    assert all(change["page"] in row for change in found["changes"])


def test_hostile_text_is_text_on_every_page(tmp_path: Path) -> None:
    report = written(run_scenes.hostile(tmp_path).write())

    assert len(document(report)["tests"]) > 5
    for page in [report / "index.html", *(report / "tests").glob("*.html")]:
        text = page.read_text(encoding="utf-8")
        assert "<script>x" not in text
        assert "\x1b" not in text
        assert not re.search(r"""src=["']?(?:file|http|javascript|data)""", text)
        assert not re.search(r"""href=["']?(?:file|javascript|data)""", text)


def test_only_pages_of_changed_tests_are_written_again(tmp_path: Path) -> None:
    told = run_scenes.over(tmp_path)
    folder = told.write()
    with ReportBuilder(folder.path, dict(os.environ), folder=folder) as builder:
        writer = ReportWriter(builder)
        writer.write()
        before = {path: path.stat().st_ino for path in (writer.folder / "tests").iterdir()}
        changed = told.plan.tests[3].agent_name
        attempt = folder.attempt(told.run.rows[changed].member)  # type: ignore[arg-type]
        (attempt / "transcript.txt").write_text("$ pytest\n7 passed\n")

        writer.write()

        after = {path: path.stat().st_ino for path in before}
        assert [path.stem for path in before if before[path] != after[path]] == [changed]
        assert "7 passed" in (writer.folder / "tests" / f"{changed}.html").read_text()
        assert not list(writer.folder.rglob("*.draft"))


def test_what_is_missing_is_said_and_the_rest_is_there(tmp_path: Path) -> None:
    told = run_scenes.over(tmp_path)
    folder = told.write()
    first, second = (folder.attempt(told.row(number).member) for number in (0, 1))  # type: ignore[arg-type]
    (first / "outcome.json").write_bytes(b"\xff{ no JSON")
    (first / "transcript.txt").write_bytes(b"\x00\xff\xfe<b>" + b"x" * 1_000)
    (second / "transcript.txt").unlink()
    (second / 'the agent\'s "own" film.cast').write_text("no recording")

    found = document(written(folder))

    assert found["tests"][0]["outcome"] == "succeeded"
    assert any("outcome cannot be read: it is not UTF-8" in one for one in found["tests"][0]["problems"])
    assert "There is no transcript of its command line." in found["tests"][1]["problems"]
    recording = found["tests"][1]["recordings"][0]
    assert recording["script"] is None
    assert recording["problem"]
    assert recording["path"].endswith('the agent\'s "own" film.cast')
    assert "The changes of the agents cannot be read" in found["problems"][0]["says"]


def test_a_huge_transcript_is_shown_from_both_ends(tmp_path: Path) -> None:
    told = run_scenes.over(tmp_path)
    folder = told.write()
    attempt = folder.attempt(told.row(0).member)  # type: ignore[arg-type]
    with (attempt / "transcript.txt").open("r+b") as file:
        file.write(b"the first line\n")
        file.truncate(100 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe last line\n")

    report = written(folder)

    page = (report / document(report)["tests"][0]["page"]).read_text(encoding="utf-8")
    assert "the first line" in page
    assert "the last line" in page
    assert len(page) < 1024 * 1024
    assert document(report)["tests"][0]["transcript"]["left_out"] > 99 * 1024 * 1024


def test_the_newest_transcript_of_the_fixture_is_shown(tmp_path: Path) -> None:
    told = run_scenes.over(tmp_path)
    folder = told.write()
    attempt = folder.attempt(told.row(0).member)  # type: ignore[arg-type]
    (attempt / "transcript.txt").unlink()
    for number, name in enumerate(("test_it-2", "test_it")):
        path = attempt / "artifacts/e2e" / name / "transcript.txt"
        path.parent.mkdir(parents=True)
        path.write_text(f"$ shop pay\n? {number + 41}\n")
        os.utime(path, (2_000_000_000 - number, 2_000_000_000 - number))

    report = written(folder)

    assert document(report)["tests"][0]["transcript"]["path"].endswith(
        "attempt-1/artifacts/e2e/test_it-2/transcript.txt"
    )
    assert "? 41" in (report / document(report)["tests"][0]["page"]).read_text(encoding="utf-8")


def test_each_change_of_the_number_of_agents_at_once_is_shown(tmp_path: Path) -> None:
    story = run_scenes.story(tmp_path, 3, max_running=8, adapt=True)
    story.note(Event.CONDUCTING, 0, pid=1)
    story.note(Event.ADAPTED, 60, limit=4, reason="a launch timed out")
    report = written(story.write())

    found = document(report)["at_once"]
    assert [(one["limit"], one["reason"]) for one in found] == [(8, ""), (4, "a launch timed out")]
    index = (report / "index.html").read_text()
    assert "<dt>Agents at once</dt><dd>4 to 8<details>" in index
    assert re.search(r"<li>4 from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: a launch timed out</li>", index)


def test_a_run_without_tests_has_a_report(tmp_path: Path) -> None:
    report = written(run_scenes.story(tmp_path, 0).write())

    assert document(report)["problems"] == [{"page": "", "says": "The run has no tests."}]
    assert "The run has no tests." in (report / "index.html").read_text()
    assert "The run has no tests." in (report / "summary.md").read_text()


@pytest.mark.parametrize("scene", [run_scenes.halfway, run_scenes.hostile], ids=["halfway", "hostile"])
def test_junit_counts_what_the_run_counts(tmp_path: Path, scene: Any) -> None:
    report = written(scene(tmp_path).write())

    found = document(report)
    top = ElementTree.parse(report / "junit.xml").getroot()
    suite = top.find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    failed = found["outcomes"]["failed"]
    errors = sum(failed.values()) - failed["red"]
    assert (suite.get("tests"), len(cases)) == (str(len(found["tests"])), len(found["tests"]))
    assert (suite.get("failures"), len(suite.findall("testcase/failure"))) == (str(failed["red"]), failed["red"])
    assert (suite.get("errors"), len(suite.findall("testcase/error"))) == (str(errors), errors)
    skipped = sum(found["outcomes"][name] for name in ("blocked", "stopped", "not_started"))
    assert (suite.get("skipped"), len(suite.findall("testcase/skipped"))) == (str(skipped), skipped)
    for case in cases:
        assert case.get("classname")
        assert case.get("name")
        assert float(case.get("time", "-1")) >= 0


def test_summary_mentions_nobody_and_renders_nothing(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 1)
    told.launch(0, 1)
    text = "@admin fixes #1 <img src=x> [a](http://evil) ![b](http://evil) `tick`"
    outcome = {
        **run_scenes.FIXED,
        "summary_markdown": text,
        "escalations": [{"kind": "BLOCKER", "title": text, "detail_markdown": text}],
    }
    told.end(0, 9, End.BLOCKED, text, outcome=outcome)

    summary = (written(told.write()) / "summary.md").read_text(encoding="utf-8")

    assert "@admin" in summary
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", summary)
    assert not re.search(r"[@<\[]|fixes|http", outside)


def test_a_plan_of_another_version_is_shown_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    told = run_scenes.over(tmp_path)
    folder = told.write()
    plan = json.loads((folder.path / "plan.json").read_text())
    del plan["tests"][0]["blocks"], plan["on_cluster"]
    (folder.path / "plan.json").write_text(json.dumps({**plan, "version": 7, "mood": "new"}))

    found = document(written(folder))

    assert found["state"] == "unreadable"
    assert [test["outcome"] for test in found["tests"]] == ["succeeded"] * 12
    assert "version is 7" in found["problems"][0]["says"]


def test_without_a_plan_the_agents_folders_are_shown(tmp_path: Path) -> None:
    told = run_scenes.over(tmp_path)
    folder = told.write()
    (folder.path / "plan.json").write_bytes(b"\xff\xfe nothing")

    found = document(written(folder))

    assert [test["agent"] for test in found["tests"]] == sorted(told.run.rows)
    assert found["tests"][0]["summary"].startswith("A redirect after a login")
    assert "cannot be read" in found["problems"][0]["says"]


class StoppedClock(WallClock):
    """A clock that a test moves."""

    seconds = 0.0

    def elapsed(self) -> float:
        return self.seconds


async def test_a_run_goes_on_where_its_report_cannot_be_written(tmp_path: Path) -> None:
    told = run_scenes.over(tmp_path)
    folder = told.write()
    (folder.path / "report").write_text("in the way")
    said: list[str] = []
    clock = StoppedClock()
    reports = RunReports(RunReporter(folder, dict(os.environ)), clock, said.append)
    assert not reports.is_due(told.run), "not at once"
    clock.seconds += SECONDS_BETWEEN
    assert reports.is_due(told.run)

    for _ in range(3):
        await reports.write(told.run)

    assert len(said) == 1, "one line, not one for each try"
    assert "The report cannot be written" in said[0]
    (folder.path / "report").unlink()
    await reports.close(told.run)
    assert document(folder.path / "report")["state"] == "ended"
    assert not reports.is_due(told.run), "nothing changed since"


@pytest.fixture
def small_report(tmp_path: Path) -> Iterator[RunFolder]:
    """A run whose folder `report` is a disk of two megabytes."""
    folder = run_scenes.over(tmp_path).write()
    disk = folder.path / "report"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can be mounted by root alone")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_leaves_whole_pages(small_report: RunFolder) -> None:
    report = written(small_report)
    pages = {page: page.read_bytes() for page in report.rglob("*.html")}
    filler = report / "filler"
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    for transcript in small_report.path.glob("agents/*/attempt-1/transcript.txt"):
        transcript.write_text("another line\n" * 1000)

    with pytest.raises(ReportError, match="The report cannot be written") as told:
        written(small_report)

    assert told.value.detail == "No space left on device"
    assert told.value.hint.startswith("Free some space")
    assert {page: page.read_bytes() for page in pages} == pages
    assert not list(report.rglob("*.draft"))
    filler.unlink()
    assert "another line" in (written(small_report) / document(report)["tests"][0]["page"]).read_text()
