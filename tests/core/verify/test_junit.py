"""Runners other than pytest: their reports are read with distrust, and their changes are verified as any."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import SANDBOX, laid
from selftest_core.verify.commands.junit import is_reported, read_report
from selftest_core.verify.environment import Testing as Way
from selftest_core.verify.environment import find_environment
from selftest_core.verify.runner import collect_tests, run_tests
from selftest_core.verify.verdicts import Execution, Result, Verdict, verdict_of

if TYPE_CHECKING:
    from pathlib import Path

NEXTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run"><testsuite name="shop" tests="4">
<testcase name="cart::adds" classname="shop" time="0.01"/>
<testcase name="cart::pays" classname="shop" time="0.02">
  <flakyFailure message="timed out" type="test failure"><system-out>first try</system-out></flakyFailure></testcase>
<testcase name="cart::fails" classname="shop" time="0.03"><failure message="no" type="x">assertion failed</failure>
  <rerunFailure message="no again" type="x"/></testcase>
<testcase name="cart::later" classname="shop"><skipped/></testcase>
</testsuite></testsuites>"""
GOTESTSUM = """<testsuites><testsuite name="example.com/shop/cart" tests="2">
<testcase classname="" name="TestMain" time="0"><failure message="Failed">cannot find module</failure></testcase>
<testcase classname="example.com/shop/cart" name="TestAdds" time="0.1"/></testsuite>
<testsuite name="example.com/shop/tax">
<testcase classname="example.com/shop/tax" name="TestRound" time="0.1"><failure>1 != 2</failure></testcase>
<testcase classname="example.com/shop/tax" name="TestRound" time="0.1"/></testsuite></testsuites>"""
PYTHON = """<testsuite><testcase classname="tests.test_cart.TestCart" name="test_sum[a]" time="0.1"/>
<testcase classname="unknown.Suite" name="adds" file="./js/cart.test.js"/></testsuite>"""
NODE = """<?xml version="1.0" encoding="utf-8"?>
<testsuites>
<testcase name="adds" time="0.002602" classname="test"/>
<testcase name="fails" time="0.001123" classname="test" failure="1 == 2">
  <failure type="testCodeFailure" message="1 == 2">cause: AssertionError</failure></testcase>
<testsuite name="cart" time="0.000340" tests="1"><testcase name="sums" time="0.000121" classname="test"/></testsuite>
</testsuites>"""
ENTITIES = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(25))
BOMB = f"""<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{ENTITIES}]><testsuite><testcase name="&z;"/></testsuite>"""


def results(folder: Path, text: str) -> dict[str, Result]:
    path = folder / "report.xml"
    path.write_text(text)
    report = read_report(path, folder)
    assert report.reason == ""
    return {test: run.result for test, run in report.runs.items()}


def test_cases_outside_of_suites_are_read_as_node_writes_them(tmp_path: Path) -> None:
    wanted = {"test::adds": Result.PASSED, "test::fails": Result.FAILED, "cart::test::sums": Result.PASSED}
    assert results(tmp_path, NODE) == wanted


def test_a_test_that_passed_when_repeated_is_flaky(tmp_path: Path) -> None:
    assert results(tmp_path, NEXTEST) == {
        "shop::cart::adds": Result.PASSED, "shop::cart::pays": Result.FLAKY, "shop::cart::fails": Result.FAILED,
        "shop::cart::later": Result.SKIPPED,
    }  # fmt: skip
    runs = read_report(tmp_path / "report.xml", tmp_path).runs
    assert "assertion failed" in runs["shop::cart::fails"].output
    assert verdict_of([runs["shop::cart::pays"]]) is Verdict.FLAKY
    assert not runs["shop::cart::pays"].result.is_kept


def test_a_package_that_cannot_be_built_is_red_whatever_its_tests_say(tmp_path: Path) -> None:
    assert results(tmp_path, GOTESTSUM) == {
        "example.com/shop/cart::TestAdds": Result.ERROR, "example.com/shop/tax::TestRound": Result.FLAKY,
    }  # fmt: skip


def test_tests_in_python_files_have_the_ids_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_cart.py").write_text("")
    assert list(results(tmp_path, PYTHON)) == [
        "tests/test_cart.py::TestCart::test_sum[a]", "js/cart.test.js::unknown.Suite::adds",
    ]  # fmt: skip


@pytest.mark.parametrize("text", [NEXTEST[:300], "", "no xml", BOMB, "<testsuite><testcase name='\x01'/></testsuite>"])
def test_a_report_that_is_cut_or_hostile_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.xml").write_text(text)
    assert "cannot be read" in read_report(tmp_path / "report.xml", tmp_path).reason


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_text(NEXTEST)
    (tmp_path / "link.xml").symlink_to(tmp_path / "secret.xml")
    os.mkfifo(tmp_path / "pipe.xml")
    for name in ("link.xml", "pipe.xml"):
        assert "cannot be read" in read_report(tmp_path / name, tmp_path).reason
    assert read_report(tmp_path / "none.xml", tmp_path).reason == "it wrote no report"


def test_a_report_of_many_or_deep_elements_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    for text in ("<a>" * 3_000_000, f"<testsuite><testcase name='x'>{'<a>' * 1000}", "<testsuite>" * 102):
        path.write_text(text)
        assert "too many elements" in read_report(path, tmp_path).reason
    path.write_text(f"<testsuite><testcase classname='{'a.' * 200_000}' name='x'/></testsuite>")
    assert len(read_report(path, tmp_path).runs) == 1


def test_no_link_on_the_way_to_a_report_is_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.xml").write_text(NEXTEST)
    (tmp_path / "reports").symlink_to(tmp_path / "secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "deep.xml").mkdir()
    for name in ("reports", "reports/a.xml", "folder"):
        assert "cannot be read" in read_report(tmp_path / name, tmp_path).reason


def test_a_folder_of_reports_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "a.xml").write_text(NEXTEST)
    (tmp_path / "reports" / "b.xml").write_text(GOTESTSUM)
    assert len(read_report(tmp_path / "reports", tmp_path).runs) == 6


RUNNER = """#!/bin/sh
# A runner of its own: a test for each file in cases/, which holds its result.
report=$1; shift
[ $# -gt 0 ] || set -- $(ls cases)
status=0
{
    echo '<testsuite name="cases">'
    for name in "$@"; do
        [ -f cases/$name ] || continue
        case $(cat cases/$name) in
        passes) echo "<testcase classname='cases' name='$name' file='cases/$name'/>" ;;
        cuts) exit 0 ;;
        lies) echo "<testcase classname='cases' name='$name' file='cases/$name'/>"; status=3 ;;
        *) echo "<testcase classname='cases' name='$name' file='cases/$name'><failure/></testcase>"; status=1 ;;
        esac
    done
    echo '</testsuite>'
} > $report
exit $status
"""


def test_a_command_runs_the_wanted_tests_and_is_not_believed_blindly(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "project")
    words = ("/bin/sh", "run.sh", "{junit}", "{tests}")
    files = {"run.sh": RUNNER, "cases/a": "passes", "cases/b": "fails", "cases/c": "passes"}

    def ran(slot_files: dict[str, str | bytes | None], *names: str) -> list[Execution]:
        repository.commit("Change", slot_files)
        slot.lay(repository.git("rev-parse", "HEAD^{tree}"))
        tests = [f"cases/{name}::cases::{name}" for name in names]
        runs = run_tests(slot, tests, way).runs
        return [runs[test] for test in tests]

    with laid(tmp_path, repository, files) as slot:
        environment = find_environment(repository.folder, words, (), SANDBOX, os.environ)
        assert is_reported(environment.command)
        way = Way(environment, SANDBOX)
        found = collect_tests(slot, (), way)
        assert found.tests == ("cases/a::cases::a", "cases/b::cases::b", "cases/c::cases::c")
        assert found.is_opaque
        assert [one.result for one in ran({}, "a", "b", "z")] == [Result.PASSED, Result.FAILED, Result.MISSING]
        (cut,) = ran({"cases/a": "cuts"}, "a")
        (lie,) = ran({"cases/a": "lies"}, "a")
        (none,) = ran({"run.sh": "echo no compiler; exit 127"}, "a")
    assert {one.result for one in (cut, lie, none)} == {Result.NOT_RUN}
    assert "cannot be read" in cut.reason
    assert "ended with status 3, and reports no failure" in lie.reason
    assert ("wrote no report" in none.reason, "no compiler" in none.output) == (True, True)
