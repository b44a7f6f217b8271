"""A review from branches to a published branch, as a script drives it."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from core.review.repositories import Repository
from selftest_core.errors import RefusedError, UsageError
from selftest_core.git.command import Git
from selftest_core.review.apply_decisions import apply_decisions, publish_review
from selftest_core.review.batch import Request, review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.changes.plan import Plan, make_plan, resolve_branches, resolve_range, split_range
from selftest_core.review.decisions import Decisions, decisions_json, parse_decisions, read_decisions
from selftest_core.review.engine import Engine
from selftest_core.review.publishing import is_branch_name, read_branches
from selftest_core.review.pull_request import write_pull_request
from selftest_core.schema.review import review_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Desk:
    """A repository with the branches of three agents, and an engine on it."""

    repository: Repository
    engine: Engine
    user: Git
    folder: Path

    def oid(self, name: str) -> str:
        return self.repository.git("rev-parse", name)

    def plan(self) -> Plan:
        return make_plan(self.engine.store, resolve_branches(self.user, "main", ["ada", "bob", "eve"]))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    repository = Repository.make(tmp_path / "r")
    repository.commit("Start", {"src/a.py": "1\n", "src/b.py": "1\n"})
    for agent, name, content in (("ada", "a", "2\n"), ("bob", "b", "2\n"), ("eve", "a", "3\n")):
        repository.git("checkout", "-q", "-b", agent, "main")
        repository.commit(f"[FIX_TEST] Test {name}", {f"tests/test_{agent}.py": "x\n"}, agent)
        repository.commit(f"[FIX_IMPL] Mend {name}", {f"src/{name}.py": content}, agent)
    repository.git("checkout", "-q", "main")
    with Engine.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as engine:
        yield Desk(repository, engine, Git(repository.folder / ".git", os.environ), tmp_path)


def test_many_branches_become_joint_tests_then_fixes(desk: Desk) -> None:
    reviewed = apply_decisions(desk.engine, desk.plan(), Decisions())
    assert [change.kind.value for change in reviewed.order] == ["test"] * 3 + ["implementation"] * 3
    statuses = [placed.status for placed in reviewed.line.items]
    assert statuses.count(Status.HELD) == 1
    assert statuses.count(Status.LAID) == 5
    log = desk.engine.store.git.ask("log", "--format=%s", f"{reviewed.plan.base}..{reviewed.line.tip}").splitlines()
    assert log[-1] == "Tests, docs and build files: 3 changes"
    assert len(log) == 3
    assert len(reviewed.open) == 6


def test_only_what_is_kept_is_published_and_the_review_says_what_stays_open(desk: Desk) -> None:
    decisions = Decisions(
        kinds={Kind.TEST: Decision.KEEP}, items={desk.oid("bob"): Decision.KEEP, desk.oid("eve~1"): Decision.REVERT}
    )
    reviewed = apply_decisions(desk.engine, desk.plan(), decisions)
    ref, line = publish_review(desk.engine, desk.user, reviewed, "fixes", desk.folder, os.environ)
    assert desk.repository.git("rev-parse", ref) == line.tip
    changed = desk.repository.git("diff", "--name-only", "main", "fixes").split()
    assert changed == ["src/b.py", "tests/test_ada.py", "tests/test_bob.py"]
    assert {change.subject for change in reviewed.open} == {"[FIX_IMPL] Mend a"}


def test_reverting_the_rival_lets_the_held_one_in(desk: Desk) -> None:
    plan = desk.plan()
    first = apply_decisions(desk.engine, plan, Decisions())
    (held,) = (placed for placed in first.line.items if placed.status is Status.HELD)
    (rival,) = (oid for oid, freed in first.dependents.lets_in.items() if held.item.oid in freed)
    second = apply_decisions(desk.engine, plan, Decisions(items={rival: Decision.REVERT}))
    assert {placed.item.oid: placed.status for placed in second.line.items}[held.item.oid] is Status.LAID


def test_the_same_decisions_give_the_same_line_whatever_order_the_branches_come_in(desk: Desk) -> None:
    other = make_plan(desk.engine.store, resolve_branches(desk.user, "main", ["eve", "bob", "ada"]))
    assert (
        apply_decisions(desk.engine, other, Decisions()).line
        == apply_decisions(desk.engine, desk.plan(), Decisions()).line
    )
    assert other.name == desk.plan().name


def test_one_branch_keeps_its_order_and_its_commits(desk: Desk) -> None:
    plan = make_plan(desk.engine.store, resolve_range(desk.user, "main", "ada"))
    reviewed = apply_decisions(desk.engine, plan, Decisions())
    assert [change.oid for change in reviewed.order] == [desk.oid("ada~1"), desk.oid("ada")]
    assert reviewed.line.tree == desk.oid("ada^{tree}")
    moved = apply_decisions(desk.engine, plan, Decisions(order=(desk.oid("ada"), desk.oid("ada~1"))))
    assert [change.oid for change in moved.order] == [desk.oid("ada"), desk.oid("ada~1")]
    assert moved.line.tree == reviewed.line.tree


@pytest.mark.parametrize("default", [Decision.REVERT, Decision.UNDECIDED])
def test_what_nobody_keeps_is_not_published(desk: Desk, default: Decision) -> None:
    reviewed = apply_decisions(desk.engine, desk.plan(), Decisions(default=default))
    assert (reviewed.line.tip == reviewed.plan.base) is (default is Decision.REVERT)
    with pytest.raises(RefusedError, match="nothing to publish"):
        publish_review(desk.engine, desk.user, reviewed, "nothing", desk.folder, os.environ)
    request = Request(("ada", "bob", "eve"), base="main", publish="nothing", decisions=desk.folder / "decisions.json")
    (desk.folder / "decisions.json").write_text(json.dumps({"default": default.value}))
    answer = review(request, desk.repository.folder, os.environ)
    assert (answer.published, answer.not_published, answer.is_done) == (None, "no change is kept yet", False)
    assert "refs/heads/nothing" not in desk.user.refs()


def test_a_review_of_main_onto_itself_is_refused_to_publish(desk: Desk) -> None:
    reviewed = apply_decisions(desk.engine, desk.plan(), Decisions(default=Decision.KEEP))
    with pytest.raises(RefusedError, match="checked out"):
        publish_review(desk.engine, desk.user, reviewed, "main", desk.folder, os.environ)


@pytest.mark.parametrize("text", ["main", "..", "main..", "..ada", "main...ada"])
def test_what_is_no_range_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is not a range"):
        split_range(text)


def test_a_base_that_the_branch_does_not_build_on_is_said(desk: Desk) -> None:
    with pytest.raises(UsageError, match="does not build on"):
        resolve_range(desk.user, "ada", "bob")


@pytest.mark.parametrize("name", ["--output=x", "nobody", "main:src", "HEAD^{tree}", "$(touch x)", ""])
def test_what_is_no_commit_is_said(desk: Desk, name: str) -> None:
    with pytest.raises(UsageError, match="is not a commit of this repository"):
        resolve_branches(desk.user, "main", [name])


def test_a_branch_without_anything_new_is_said(desk: Desk) -> None:
    with pytest.raises(UsageError, match="nothing to review"):
        make_plan(desk.engine.store, resolve_range(desk.user, "ada", "ada"))


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "must be an object"),
        ({"defualt": "keep"}, "Unknown key 'defualt'"),
        ({"default": "maybe"}, "'maybe' is not a decision"),
        ({"items": {"x": 1}}, "1 is not a decision"),
        ({"on_conflict": "panic"}, "on_conflict is 'panic'"),
        ({"order": ["a", "a"]}, "order must be"),
        ({"items": []}, "items must be an object"),
        ({"kinds": {"tests": "keep"}}, "'tests' is not a kind of changes"),
        ({"kinds": {"test": "yes"}}, r"'yes' is not a decision \(at test\)"),
    ],
)
def test_a_wrong_decisions_file_is_refused_by_name(document: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_decisions(document)


def test_decisions_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps({"default": "keep", "items": {"a" * 40: "revert"}, "notes": {"a" * 40: "why"}}))
    read = read_decisions(path)
    assert (read.default, dict(read.items)) == (Decision.KEEP, {"a" * 40: Decision.REVERT})
    path.write_text("{")
    with pytest.raises(UsageError, match="is not JSON"):
        read_decisions(path)


def test_an_oid_that_is_not_in_the_plan_is_named(desk: Desk) -> None:
    with pytest.raises(UsageError, match="ffff is not in the plan"):
        apply_decisions(desk.engine, desk.plan(), Decisions(items={"f" * 40: Decision.KEEP}))


def test_onto_a_newer_base_what_is_there_already_is_void(desk: Desk) -> None:
    before = desk.plan()
    desk.repository.git("cherry-pick", desk.oid("bob"))
    targets = resolve_branches(desk.user, "main~1", ["ada", "bob", "eve"], "main")
    plan = make_plan(desk.engine.store, targets)
    assert (plan.name, plan.base) == (before.name, desk.oid("main"))
    statuses = {one.item.oid: one.status for one in apply_decisions(desk.engine, plan, Decisions()).line.items}
    assert statuses[desk.oid("bob")] is Status.VOID


def test_a_review_without_a_screen_leaves_only_what_is_its_own(desk: Desk) -> None:
    top = desk.repository.folder
    (desk.folder / "decisions.json").write_text('{"kinds": {"test": "keep"}}')
    request = Request(("ada", "bob", "eve"), base="main", publish="fixes", decisions=desk.folder / "decisions.json")
    answer = review(request, top / "src", os.environ)
    assert not answer.is_done
    assert answer.published is not None
    document = review_document(answer.reviewed, answer.candidate, answer.published[0], commits=answer.commits)
    assert document.published == "refs/heads/fixes"
    log = desk.repository.git("log", "--reverse", "--format=%H %s", "main..fixes").splitlines()
    assert [f"{one.oid} {one.subject}" for one in document.commits] == log
    assert [(item.decision, item.decided_by) for item in document.items] == [
        *[("keep", "kinds")] * 3, *[("undecided", "default")] * 3,
    ]  # fmt: skip
    refs = set(desk.user.refs())
    sources = (f"sources/{desk.oid(name)}" for name in ("ada", "bob", "eve"))
    own = {f"refs/selftest/{document.review}/{name}" for name in ("candidate", "published/fixes", *sources)}
    assert refs - own == {f"refs/heads/{name}" for name in ("main", "ada", "bob", "eve", "fixes")}
    assert desk.repository.git("status", "--porcelain") == ""
    json.loads(document.model_dump_json())


def test_a_conflict_can_be_made_to_forbid_publishing(desk: Desk) -> None:
    decisions = desk.folder / "decisions.json"
    decisions.write_text('{"default": "keep", "on_conflict": "fail"}')
    request = Request(("ada", "bob", "eve"), base="main", publish="fixes", decisions=decisions)
    answer = review(request, desk.repository.folder, os.environ)
    assert (answer.published, answer.commits, answer.is_done) == (None, (), False)
    assert "refs/heads/fixes" not in desk.user.refs()
    everything_else = Request(("bob",), base="main", publish="fixes", decisions=decisions)
    assert review(everything_else, desk.repository.folder, os.environ).is_done


@pytest.mark.parametrize(
    ("decisions", "weaker", "other"),
    [
        ({}, "undecided default", "undecided default"),
        ({"kinds": {"test": "keep"}}, "undecided default", "keep kinds"),
        ({"kinds": {"test": "keep"}, "default": "keep"}, "keep default", "keep kinds"),
        ({"kinds": {"test": "keep"}, "default": "revert"}, "revert default", "keep kinds"),
        ({"kinds": {"test": "revert"}, "default": "keep"}, "revert kinds", "revert kinds"),
        ({"kinds": {"docs": "keep", "implementation": "keep"}}, "undecided default", "undecided default"),
        ({"default": "keep"}, "keep default", "keep default"),
        ({"items": "keep"}, "keep items", "undecided default"),
        ({"items": "revert", "kinds": {"test": "keep"}, "default": "keep"}, "revert items", "keep kinds"),
    ],
)
def test_a_change_that_weakens_a_test_is_kept_by_name_or_by_an_explicit_default_only(
    tmp_path: Path, decisions: dict[str, Any], weaker: str, other: str
) -> None:
    repository = Repository.make(tmp_path / "r")
    repository.commit("Start", {"tests/test_sum.py": "def test_sum():\n    assert total() == 1000\n"})
    repository.git("checkout", "-q", "-b", "ada")
    weak = repository.commit("[FIX_TEST] Mend", {"tests/test_sum.py": "def test_sum():\n    assert total() <= 1000\n"})
    repository.commit("[FIX_TEST] Add", {"tests/test_new.py": "def test_new():\n    assert 1\n"})
    if "items" in decisions:
        decisions = {**decisions, "items": {weak: decisions["items"]}}
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps(decisions))
    assert decisions_json(read_decisions(path)).get("kinds") == decisions.get("kinds")
    result = review(Request(("ada",), base="main", decisions=path, publish="fixes"), repository.folder, os.environ)
    document = review_document(result.reviewed, result.candidate, None)
    first, second = sorted(document.items, key=lambda item: item.source != weak)
    assert first.cautions == ["weakens a test: tests/test_sum.py:2: test_sum: an assertion is changed"]
    assert [f"{one.decision} {one.decided_by}" for one in (first, second)] == [weaker, other]
    assert document.kept_weakening == ([weak] if first.decision == "keep" else [])
    assert document.guarded == (
        [weak]
        if decisions.get("kinds") == {"test": "keep"} and weaker[-5:] == "fault" and first.decision != "keep"
        else []
    )
    is_published = "refs/heads/fixes" in repository.git("for-each-ref", "--format=%(refname)").split()
    assert is_published is ("keep" in (first.decision, second.decision))
    if result.published is not None:
        text = write_pull_request(result.reviewed, result.published[1]).body
        assert ("## Kept, and weakens a test" in text) is (first.decision == "keep")
        assert ("`tests/test_sum.py:2`: `test_sum: an assertion is changed`" in text) is (first.decision == "keep")


def test_names_of_branches_are_those_that_git_takes(desk: Desk) -> None:
    dice = random.Random(5)
    words = [
        "a",
        "B",
        ".",
        "..",
        "/",
        "@",
        "{",
        "@{",
        ".lock",
        "lock",
        " ",
        "~",
        "^",
        ":",
        "?",
        "*",
        "[",
        "\\",
        "-",
        "ä",
        "\x7f",
    ]
    names = ["".join(dice.choices(words, k=dice.randint(1, 4))) for _ in range(250)]
    for name in dict.fromkeys(names):
        if "\0" not in name:
            assert is_branch_name(name) is desk.user.run("check-ref-format", f"refs/heads/{name}").ok, name


def test_a_name_that_cannot_be_published_is_told_before(desk: Desk) -> None:
    desk.repository.git("branch", "taken/deep", "main")
    branches = read_branches(desk.user, "review-x")
    names = ("fixes", "main", "ada", "taken", "ada/more", "a..b", "-x", "")
    assert [branches.disabled_reason(name) for name in names] == [
        "", "main is checked out", "ada exists already and is not from this review", "taken is taken by taken/deep",
        "ada/more is taken by ada", "'a..b' is not a valid branch name", "'-x' is not a valid branch name",
        "'' is not a valid branch name",
    ]  # fmt: skip
