"""The report of a run: its pages, its JSON, and what is missing, from real run folders."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import jsonschema
import pytest

import run_scenes
from selftest_core.run.outcome.ends import End
from selftest_core.schema.registry import schema
from selftest_recorder.report.builder import ReportBuilder
from selftest_recorder.report.writer import ReportWriter

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder

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
