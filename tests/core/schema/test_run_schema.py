"""The JSON of runs: what scripts rely on, that the schema allows every line, and that the counts sum."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from core.run.rehearsals import RUN, a_plan, a_rehearsal
from selftest_core.journal import Entry, Journal
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Event
from selftest_core.run.log_lines import log_line, summary_lines
from selftest_core.run.outcome.outcome_file import parse_outcome
from selftest_core.run.overview import glance, glances
from selftest_core.run.store import make_run_folder
from selftest_core.schema.registry import schema
from selftest_core.schema.run import exit_status, open_counts, run_line, run_summary, runs_document
from selftest_core.schema.run_detail import own_document
from simulated.crew import Role

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.run.fold import Run

SCHEMA = schema()


def validate(document: object, name: str) -> None:
    # Not `jsonschema.validate`, which checks the whole schema itself each time.
    jsonschema.Draft202012Validator({**SCHEMA["documents"][name], "$defs": SCHEMA["$defs"]}).validate(document)


def rehearsed(folder: Path, roles: Sequence[Role]) -> tuple[Rehearsal, list[tuple[Run, Entry]]]:
    told: list[tuple[Run, Entry]] = []
    rehearsal = a_rehearsal(folder, roles)
    assert rehearsal.conduct(on_change=lambda run, entry: told.append((run, entry))) == "done"
    return rehearsal, told


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rehearsal, list[tuple[Run, Entry]]]:
    """A run in which everything happens."""
    return rehearsed(tmp_path_factory.mktemp("run"), list(Role))


def test_every_line_of_a_run_is_one_that_the_schema_allows(
    everything: tuple[Rehearsal, list[tuple[Run, Entry]]],
) -> None:
    _, told = everything
    seen = set()
    for run, entry in told:
        line = json.loads(json.dumps(run_line(run, entry)))
        validate(line, "run --batch, a line of the journal")
        assert (line["event"], line["run"]) == (entry.event, RUN)
        assert line["at"].endswith("Z")
        assert {name: line[name] for name in entry.fields} == dict(entry.fields)
        if "agent" in entry.fields:
            assert line["test"] == run.rows[entry.fields["agent"]].planned.node_id
            assert line["attempt"] >= 1
        seen.add(entry.event)
    assert seen >= {Event.CONDUCTING, Event.LAUNCHED, Event.PULLING, Event.ENDED, Event.STOPPED, Event.LEFT}


def test_the_summary_has_what_scripts_rely_on_and_its_counts_sum(
    everything: tuple[Rehearsal, list[tuple[Run, Entry]]],
) -> None:
    rehearsal, told = everything
    for run in (told[0][0], told[len(told) // 2][0], rehearsal.run):
        summary = json.loads(run_summary(run, 1.0, "/x").model_dump_json())
        validate(summary, "run --batch, the summary")
        assert summary.keys() >= {"event", "at", "run", "tests", "outcomes", "clusters", "line", "report"}
        assert (summary["event"], summary["line"], summary["report"]) == ("summary", None, None)
        outcomes = summary["outcomes"]
        assert set(outcomes) == {"succeeded", "unchanged", "blocked", "stopped", "not_started", "failed"}
        assert set(outcomes["failed"]) == {"launch", "crash", "timeout", "lost", "unreadable", "red"}
        plain = sum(count for name, count in outcomes.items() if name != "failed")
        assert plain + sum(outcomes["failed"].values()) == summary["tests"] == len(Role)
    clustered = [test for one in summary["clusters"] for test in one["tests"]]
    bad = [row.planned.node_id for row in rehearsal.run.rows.values() if row.end is not None and row.end.group.is_open]
    assert sorted(clustered) == sorted(bad)
    assert all(one.keys() >= {"signature", "stage", "tests"} for one in summary["clusters"])
    assert exit_status(rehearsal.run) == 1


def test_a_run_that_ended_well_leaves_nothing_open(tmp_path: Path) -> None:
    rehearsal, _ = rehearsed(tmp_path, [Role.SUCCEEDS, Role.CHANGES_NOTHING])
    assert exit_status(rehearsal.run) == 0
    assert set(open_counts(rehearsal.run).model_dump().values()) == {0}


def test_what_is_open_sums_to_what_did_not_end_well(everything: tuple[Rehearsal, list[tuple[Run, Entry]]]) -> None:
    rehearsal, _ = everything
    run = rehearsal.run
    counts = open_counts(run).model_dump()
    assert sum(counts.values()) == sum(row.end is not None and row.end.group.is_open for row in run.rows.values())
    assert counts["failed"] > 0
    assert counts["blocked"] > 0


def test_an_event_of_a_later_version_is_printed_and_told_as_nothing(tmp_path: Path) -> None:
    rehearsal, told = rehearsed(tmp_path, [Role.SUCCEEDS])
    later = Entry(99, 5.0, "vaporised", {"how": "well", "at": "x", "run": "y", "event": "z"})
    line = run_line(rehearsal.run, later)
    assert (line["event"], line["run"], line["how"], line["at"]) == (
        "vaporised",
        RUN,
        "well",
        "1970-01-01T00:00:05.000Z",
    )
    assert log_line(rehearsal.run, later) == ""
    assert told


def test_what_is_told_is_one_harmless_line(everything: tuple[Rehearsal, list[tuple[Run, Entry]]]) -> None:
    rehearsal, told = everything
    said = [log_line(run, entry) for run, entry in told]
    assert all(line.isprintable() and len(line) <= 200 for line in said)
    assert any("blocked" in line for line in said)
    assert said[0] == f"run {RUN} of {len(Role)} tests started"
    run, entry = next((run, entry) for run, entry in told if entry.event == Event.ENDED)
    hostile = Entry(entry.number, entry.at, "paused", {"reason": "\x1b[2J\u202egone\nline [bold]x[/]", "by": "cluster"})
    assert log_line(run, hostile) == "paused: \ufffd[2J\ufffdgone line [bold]x[/]"
    assert summary_lines(rehearsal.run)[0] == f"run {RUN}: {len(Role)} tests"


def test_runs_are_listed_with_their_states_and_one_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    here, there = tmp_path / "here", tmp_path / "there"
    names = ["20261121-0931-7f3a", "20261122-0931-7f3a", "20261123-0931-7f3a", "20261124-0931-7f3a"]
    folders = []
    for name, repository in zip(names, (here, here, here, there), strict=True):
        repository.mkdir(exist_ok=True)
        folders.append(make_run_folder(a_plan(2, run=name, repository=str(repository)), environ))
    with Journal(folders[0].journal) as journal:
        journal.append("conducting", 1.0, pid=1)
        for test in folders[0].plan().tests:
            journal.append("ended", 2.0, agent=test.agent_name, attempt=0, end="not_started", stage="launch", text="x")
    (folders[1].path / "plan.json").write_text('{"version": 99}')
    with Journal(folders[2].journal):
        found = glances(environ, here)
        document = json.loads(runs_document(found).model_dump_json())
    validate(document, "runs --json")
    assert [(one["run"], one["state"]) for one in document["runs"]] == [
        (names[2], "live"), (names[1], "unreadable"), (names[0], "ended"), (names[3], "resumable"),
    ]  # fmt: skip
    live, unreadable, ended, _ = document["runs"]
    assert "version is 99" in unreadable["error"]
    assert unreadable["repository"] == str(here)
    assert (live["tests"], live["open"]["waiting"], live["repository"]) == (2, 2, str(here))
    assert ended["open"]["not_started"] == 2
    assert glance(folders[3]).state == "resumable"


def test_a_run_of_ours_is_shown_test_by_test_with_what_came_back(tmp_path: Path) -> None:
    folder = make_run_folder(a_plan(3, repository=str(tmp_path)), {"XDG_STATE_HOME": str(tmp_path / "state")})
    roles = [Role.SUCCEEDS, Role.WRITES_NONSENSE, Role.CRASHES]
    rehearsal = a_rehearsal(folder.path, roles, repository=str(tmp_path))
    assert rehearsal.conduct() == "done"
    folder.journal.write_bytes(rehearsal.ledger.data)
    document: dict[str, Any] = json.loads(own_document(folder, folder.read()).model_dump_json())
    validate(document, "runs PATH --json")
    fixed, nonsense, crashed = document["tests"]
    assert (fixed["outcome"], fixed["phase"], fixed["errored"]) == ("succeeded", "ended", False)
    assert fixed["changes"]
    assert document["kinds"] == {fixed["changes"][0]["kind"]: 1}
    assert (nonsense["outcome"], nonsense["errored"]) == ("unreadable", None)
    assert nonsense["says"]
    assert (crashed["outcome"], crashed["path"]) == ("crash", None)


def test_the_schema_prints_what_an_agent_writes(tmp_path: Path) -> None:
    outcome = {"errored": False, "changes": {"FIX_IMPL": {"status": "SUCCEEDED"}}, "summary_markdown": "x"}
    validate(outcome, "outcome.json")
    assert parse_outcome(json.dumps(outcome).encode()).changes[0].kind == "FIX_IMPL"
    with pytest.raises(jsonschema.ValidationError):
        validate({"changes": {}}, "outcome.json")
    assert Policy().leave_when_paused is False
