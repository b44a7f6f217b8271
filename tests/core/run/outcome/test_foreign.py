"""Outcomes that another program left: every file is a row, unknown kinds stay, and nothing outside is read."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from selftest_core.errors import UsageError
from selftest_core.run.outcome.ends import End
from selftest_core.run.outcome.foreign import read_foreign
from selftest_core.run.outcome.outcome_file import LARGEST
from selftest_core.schema.registry import schema
from selftest_core.schema.run_detail import foreign_document
from selftest_tui.cli.runs.runs import foreign_lines

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.outcome.foreign import ForeignRun

FIXED: dict[str, Any] = {
    "changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "the flag was ignored"}},
    "errored": False,
    "tests_passing_before": False,
    "tests_passing_after": True,
    "summary_markdown": "Fixed the flag.",
    "test_runs": [{"run_name": "before", "description_markdown": "red"}],
    "escalations": [],
}
NORMALISED: dict[str, Any] = {
    **FIXED,
    "changes": {"NORMALIZE_TEST": {"status": "DEFERRED", "summary_markdown": "one fixture for all"}},
    "test_node_id": "tests/test_shop.py::test_cart[a/b]",
}
NOTHING = {**FIXED, "changes": {}, "tests_passing_before": True}


def blocked(title: str) -> dict[str, Any]:
    return {
        **FIXED,
        "changes": {},
        "escalations": [
            {"kind": "BLOCKER", "title": title, "detail_markdown": "x", "locations": [{"path": "a.py", "line": 3}]},
            {"kind": "OMEN", "description_markdown": "a kind of later"},
        ],
    }


def write(path: Path, said: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(said if isinstance(said, str) else json.dumps(said), encoding="utf-8")


def ends(found: ForeignRun) -> dict[str, End]:
    return {test.test: test.end for test in found.tests}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Both shapes at once: a folder for each agent, and files beside each other."""
    run = tmp_path / "run"
    write(run / "agents" / "ada" / "outcome.json", FIXED)
    write(run / "agents" / "bob" / "outcome.json", NORMALISED)
    write(run / "agents" / "eve" / "outcome.json", "{ half of it")
    write(run / "results" / "carol.json", NOTHING)
    write(run / "results" / "dan.json", blocked("no server on port 4711"))
    write(run / "results" / "fay.json", blocked("no server on port 4712"))
    write(run / "results" / "package.json", {"name": "something", "changes": {}})
    write(run / "results" / "list.json", [1, 2])
    write(
        run / "integrator.json",
        {"squashed_branches": ["mngr/ada", "mngr/bob"], "squashed_commit_hash": "a" * 40, "failed": {"mngr/eve": "no"},
         "impl_priority": ["mngr/ada"], "impl_commit_hashes": {"mngr/ada": "b" * 40}},
    )  # fmt: skip
    return run


def test_every_outcome_is_a_row_whatever_its_file_is_called(folder: Path) -> None:
    found = read_foreign(folder)
    assert ends(found) == {
        "agents/ada": End.SUCCEEDED,
        "tests/test_shop.py::test_cart[a/b]": End.SUCCEEDED,
        "agents/eve": End.UNREADABLE,
        "results/carol": End.UNCHANGED,
        "results/dan": End.BLOCKED,
        "results/fay": End.BLOCKED,
    }
    assert found.passed_over == 2
    assert found.kinds() == {"FIX_IMPL": 1, "NORMALIZE_TEST": 1}
    (joined,) = found.joinings
    assert joined.branches == ("mngr/ada", "mngr/bob")
    assert joined.failed == (("mngr/eve", "no"),)
    (first, *_) = found.clusters()
    assert (first.signature, first.tests) == ("no server on port <n>", ("results/dan", "results/fay"))


def test_it_is_printed_in_a_shape_of_ours_with_the_kinds_of_theirs(folder: Path) -> None:
    document = json.loads(foreign_document(read_foreign(folder)).model_dump_json())
    whole = schema()
    described = {**whole["documents"]["runs PATH --json"], "$defs": whole["$defs"]}
    jsonschema.Draft202012Validator(described).validate(document)
    tests = {test["test"]: test for test in document["tests"]}
    assert tests["tests/test_shop.py::test_cart[a/b]"]["changes"] == [
        {"kind": "NORMALIZE_TEST", "status": "DEFERRED", "summary": "one fixture for all"}
    ]
    dan = tests["results/dan"]["escalations"]
    assert [one["kind"] for one in dan] == ["BLOCKER", "OMEN"]
    assert dan[0]["locations"] == [{"path": "a.py", "line": 3}]
    assert tests["agents/eve"]["says"]
    assert document["outcomes"]["blocked"] == 2
    assert document["outcomes"]["failed"]["unreadable"] == 1


def test_it_is_shown_to_people_on_any_width_and_obeys_nothing(folder: Path) -> None:
    hostile = {**FIXED, "summary_markdown": "\x1b[2J[bold]loud[/bold]\u202e", "agent": "x"}
    write(folder / "results" / "\x1b[31mred.json", hostile)
    for width in (80, 200):
        lines = foreign_lines(read_foreign(folder), width)
        assert all("\x1b" not in line and "\u202e" not in line for line in lines)
        assert any("[bold]" in line for line in lines)
        assert any("NORMALIZE_TEST" in line for line in lines)
        assert any("2 tests: no server on port <n>" in line for line in lines)


def test_links_devices_and_giants_are_rows_or_nothing_and_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    write(secret, FIXED)
    run = tmp_path / "run"
    (run / "ada").mkdir(parents=True)
    (run / "ada" / "outcome.json").symlink_to(secret)
    (run / "bob").mkdir()
    os.mkfifo(run / "bob" / "outcome.json")
    write(run / "eve" / "outcome.json", " " * (LARGEST + 1))
    (run / "elsewhere").symlink_to(tmp_path)
    found = read_foreign(run)
    assert ends(found) == dict.fromkeys(("ada", "bob", "eve"), End.UNREADABLE)
    assert all(test.outcome is None and test.error for test in found.tests)


def test_one_outcome_alone_is_called_by_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "ada" / "outcome.json", FIXED)
    assert ends(read_foreign(tmp_path / "ada")) == {"ada": End.SUCCEEDED}


def test_a_folder_without_outcomes_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no outcomes"):
        read_foreign(tmp_path)
    write(tmp_path / "a.json", {"b": 1})
    with pytest.raises(UsageError, match="no outcomes") as told:
        read_foreign(tmp_path)
    assert "1 JSON files" in told.value.detail
    with pytest.raises(UsageError, match="no such folder"):
        read_foreign(tmp_path / "nowhere")
