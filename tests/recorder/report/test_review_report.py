"""The report of a review: decisions, notes, publications and diffs, read while the review is open on a screen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.review.desks import AGENTS, environ, held_one, make_desk, oid, opened
from core.run.fingerprints import fingerprint
from selftest_core.git.command import find_place
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.review.conflict_files import choose
from selftest_recorder.report.builder import ReportBuilder
from selftest_recorder.report.review_facts import inputs_of_log
from selftest_recorder.report.writer import ReportWriter

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository

NOTE = "<script>alert(1)</script> **why**"


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / 'a desk\'s "own"')


def written(desk: Repository, home: Path) -> tuple[Path, dict[str, Any]]:
    """Write the report of a review; return its folder and run.json."""
    with ReportBuilder(home, environ(desk), inputs=inputs_of_log(home, environ(desk))) as builder:
        writer = ReportWriter(builder)
        assert writer.write() is not None
    return writer.folder, json.loads((writer.folder / "run.json").read_text(encoding="utf-8"))


def by_source(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["source"]: one for one in document["changes"]}


def test_a_review_that_is_open_elsewhere_is_reported_and_nothing_is_touched(desk: Repository) -> None:
    with opened(desk) as session:
        ada = oid(desk, "ada")
        session.decide([ada], Decision.KEEP)
        session.note(ada, NOTE)
        place = find_place(desk.folder, environ(desk))
        before = fingerprint(place, environ(desk))

        report, document = written(desk, session.state.home)

        assert fingerprint(place, environ(desk)) == before
        change = by_source(document)[ada]
        assert (change["decision"], change["note"], change["decided_by"]) == ("keep", NOTE, "items")
        assert document["review"]["decisions"] == {"keep": 1, "revert": 0, "undecided": 5}
        assert document["review"]["acts"] == 2
        page = (report / change["page"]).read_text(encoding="utf-8")
        assert "src/a.py" in page
        assert "<script>alert" not in page
        session.undo()  # the review goes on as if nothing had read it


def test_what_was_published_is_read_back_and_a_resolved_change_shows_both_diffs(desk: Repository) -> None:
    with opened(desk) as session:
        held = held_one(desk, session.state)
        session.resolve(held, choose(session.conflict_files(held), "theirs"))
        session.decide([change.oid for change in session.state.reviewed.order], Decision.KEEP)
        published = session.publish("good")

        report, document = written(desk, session.state.home)

    changes = by_source(document)
    review = document["review"]
    assert (review["published"]["ref"], review["published"]["tip"]) == ("refs/heads/good", published.tip)
    assert review["published"]["at"]
    assert review["seconds"] is not None
    commits = {one["oid"] for one in review["commits"]}
    assert commits == set(desk.git("rev-list", "main..good").split())
    assert {one["published"] for one in changes.values()} == commits
    page = (report / changes[held]["page"]).read_text(encoding="utf-8")
    assert 'id="published"' in page, "its diff is another than the agent's"
    for agent, _, _ in AGENTS:
        other = oid(desk, f"{agent}~1")
        assert 'id="published"' not in (report / changes[other]["page"]).read_text(encoding="utf-8")


def test_a_row_of_several_texts_is_one_line_and_names_all_of_them(desk: Repository) -> None:
    for agent, mark in (("kim", "'"), ("lee", '"')):
        desk.git("checkout", "-q", "-b", agent, "main")
        desk.commit(f"[FIX_IMPL] Greet as {agent}", {"src/hello.py": f"print({mark}hello{mark})\n"}, agent)
    with opened(desk, Request(("kim", "lee"), base="main")) as session:
        report, document = written(desk, session.state.home)
    chosen, other = sorted(document["changes"], key=lambda one: not one["chosen"])
    assert (other["row"], other["status"], other["decided_by"]) == (chosen["row"], "dropped", "alternatives")
    assert document["review"]["decisions"] == {"keep": 0, "revert": 0, "undecided": 1}
    index = (report / "index.html").read_text(encoding="utf-8")
    assert "2 texts of 2 agents" in index
    assert index.count(chosen["page"]) == 2, "the change, and its texts"
    assert other["page"] not in index
    for one, another in ((chosen, other), (other, chosen)):
        page = (report / one["page"]).read_text(encoding="utf-8")
        assert another["page"] in page
        assert ("which is chosen, so this one is left out" in page) is (one is other)


def test_commits_that_git_has_dropped_are_said_to_be_missing(desk: Repository) -> None:
    with opened(desk) as session:
        home = session.state.home
    desk.git("branch", "-D", "ada")
    for ref in desk.git("for-each-ref", "--format=%(refname)", "refs/selftest").split():
        desk.git("update-ref", "-d", ref)
    desk.git("reflog", "expire", "--expire=now", "--all")
    desk.git("gc", "-q", "--prune=now")

    report, document = written(desk, home)

    assert document["changes"] == []
    assert "The changes of the agents cannot be read" in document["problems"][0]["says"]
    assert "cannot be read" in (report / "index.html").read_text(encoding="utf-8")
