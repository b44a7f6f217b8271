"""Branches of many agents become distinct changes in an order that says why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.errors import UsageError
from selftest_core.git.object_store import ObjectStore
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.collect_changes import Branch, collect_changes
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.changes.ranking import Claims, rank
from selftest_core.review.decisions import Decisions, decide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILE = "".join(f"line {n}\n" for n in range(20))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "r")
    made.commit("Start", {"src/a.py": FILE, "src/b.py": FILE, "logo.png": b"\0old"})
    return made


@pytest.fixture
def store(repository: Repository, tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as opened:
        yield opened


def branch(repository: Repository, agent: str, *commits: tuple[str, Mapping[str, str | bytes | None]]) -> Branch:
    repository.git("checkout", "-q", "-f", "-b", agent, "main")
    for message, files in commits:
        repository.commit(message, files, agent)
    return Branch(agent, repository.git("rev-parse", "HEAD"))


def base(repository: Repository) -> str:
    return repository.git("rev-parse", "main")


def test_the_same_change_of_three_agents_is_one_with_all_credited(repository: Repository, store: ObjectStore) -> None:
    mended = {"src/a.py": FILE.replace("line 3\n", "line three\n")}
    shifted = {"src/a.py": "new first\n" + FILE}
    branches = [
        branch(repository, "ada", ("Mend", mended)),
        branch(repository, "bob", ("Mend it", mended)),
        # The same patch a line further down: other contents, one patch id.
        branch(repository, "eve", ("Shift", shifted), ("Mend too", {"src/a.py": "new first\n" + mended["src/a.py"]})),
    ]
    changes = collect_changes(store, base(repository), branches).changes
    assert [change.agents for change in changes] == [("ada", "bob", "eve"), ("eve",)]
    message = changes[0].item.message.decode()
    others = {"ada", "bob", "eve"} - {changes[0].item.author.split()[0].decode()}
    assert message.splitlines()[2:] == [f"Co-authored-by: {name} <{name}@example.org>" for name in sorted(others)]
    assert len(changes[0].sources) == 3


def test_a_change_of_two_agents_is_decided_by_either_commit_and_not_in_two_ways(
    repository: Repository, store: ObjectStore
) -> None:
    ada, bob = (branch(repository, name, ("Mend", {"src/a.py": "mended\n"})) for name in ("ada", "bob"))
    changes = collect_changes(store, base(repository), [ada, bob]).changes
    both = dict.fromkeys((ada.tip, bob.tip), Decision.KEEP)
    for items in (both, {ada.tip: Decision.KEEP}, {bob.tip: Decision.KEEP}):
        assert list(decide(changes, Decisions(items=items)).values()) == [Decision.KEEP]
    with pytest.raises(UsageError, match="Two different decisions on one change"):
        decide(changes, Decisions(items={**both, bob.tip: Decision.REVERT}))


def test_other_modes_and_other_binaries_are_other_changes(repository: Repository, store: ObjectStore) -> None:
    plain = branch(repository, "plain", ("Add", {"run.sh": "ls\n"}))
    repository.git("checkout", "-q", "-f", "-b", "exec", "main")
    (repository.folder / "run.sh").write_text("ls\n")
    (repository.folder / "run.sh").chmod(0o755)
    executable = Branch("exec", repository.commit("Add", {}))
    one = branch(repository, "one", ("Logo", {"logo.png": b"\0one"}))
    two = branch(repository, "two", ("Logo", {"logo.png": b"\0two"}))
    changes = collect_changes(store, base(repository), [plain, executable, one, two]).changes
    assert [change.agents for change in changes] == [("plain",), ("exec",), ("one",), ("two",)]


def test_commits_that_change_nothing_stay_apart(repository: Repository, store: ObjectStore) -> None:
    branches = [branch(repository, "ada", ("Nothing", {})), branch(repository, "bob", ("Nothing either", {}))]
    assert len(collect_changes(store, base(repository), branches).changes) == 2


def test_a_branch_with_a_merge_is_left_out_and_the_rest_goes_on(repository: Repository, store: ObjectStore) -> None:
    good = branch(repository, "good", ("Mend", {"src/a.py": "x\n"}))
    branch(repository, "merged", ("Mend", {"src/b.py": "x\n"}))
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "good")
    merged = Branch("merged", repository.git("rev-parse", "HEAD"))
    gathered = collect_changes(store, base(repository), [merged, good])
    assert [change.agents for change in gathered.changes] == [("good",)]
    assert [name for name, _ in gathered.left_out] == ["merged"]
    assert "merge commit" in gathered.left_out[0][1]


def test_ranks_go_by_importance_then_votes_within_a_branch(repository: Repository, store: ObjectStore) -> None:
    shared = {"src/b.py": "shared\n"}
    branches = [
        branch(
            repository, "ada",
            ("[FIX_TEST] test", {"tests/test_a.py": "x\n"}),
            ("[FIX_IMPL] groundwork", {"src/c.py": "c\n"}),
            ("[FIX_IMPL] urgent\n\nImportance: critical", {"src/d.py": "d\n"}),
        ),
        branch(repository, "bob", ("[FIX_IMPL] popular", shared)),
        branch(repository, "eve", ("[FIX_IMPL] popular", shared)),
        branch(repository, "zoe", ("[FIX_IMPL] alone\n\nImportance: low", {"src/e.py": "e\n"})),
    ]  # fmt: skip
    ranked = rank(collect_changes(store, base(repository), branches).changes)
    assert [one.change.subject for one in ranked] == [
        "[FIX_TEST] test", "[FIX_IMPL] popular", "[FIX_IMPL] groundwork", "[FIX_IMPL] urgent", "[FIX_IMPL] alone",
    ]  # fmt: skip
    assert [one.change.kind for one in ranked][:2] == [Kind.TEST, Kind.IMPLEMENTATION]
    assert ranked[1].why == "normal importance, 2 agents, 1 file, 21 lines"


def test_changes_of_equal_importance_and_votes_go_by_the_other_facts(
    repository: Repository, store: ObjectStore
) -> None:
    branches = [
        branch(repository, "ann", ("[FIX_IMPL] long", {"src/a1.py": "1\n2\n3\n"})),
        branch(repository, "bea", ("[FIX_IMPL] short", {"src/a2.py": "1\n"})),
        branch(repository, "cat", ("[FIX_IMPL] wide", {"src/a3.py": "1\n", "src/a4.py": "1\n"})),
        branch(repository, "dan", ("[FIX_IMPL] crowded", {"src/hot.py": "dan\n"})),
        branch(repository, "eli", ("[FIX_IMPL] crowded too", {"src/hot.py": "eli\n", "src/eli.py": "1\n"})),
        branch(
            repository, "fay",
            ("[FIX_IMPL] ground", {"src/f.py": "1\n", "src/g.py": "1\n"}),
            ("[FIX_IMPL] upon it", {"src/f.py": "2\n", "src/h.py": "1\n2\n"}),
        ),
        branch(repository, "gus", ("[FIX_IMPL] proven", {"src/p1.py": "1\n", "src/p2.py": "1\n", "src/p3.py": "1\n"})),
    ]  # fmt: skip
    claims = {"gus": Claims(turned_green=("tests/test_a.py::test_a",)), "ann": Claims("normal")}
    gathered = collect_changes(store, base(repository), branches).changes
    ranked = rank(gathered, claims)
    assert [one.change.subject.removeprefix("[FIX_IMPL] ") for one in ranked] == [
        "proven", "ground", "short", "long", "wide", "upon it", "crowded", "crowded too",
    ]  # fmt: skip
    why = {one.change.subject.removeprefix("[FIX_IMPL] "): one.why for one in ranked}
    assert why["proven"] == "normal importance, 1 agent, 1 test fixed as claimed, 3 files, 3 lines"
    assert why["ground"] == "normal importance, 1 agent, 1 later change on top, 2 files, 2 lines"
    assert why["crowded"] == "normal importance, 1 agent, 1 other change in its files, 1 file, 1 line"
    assert rank(tuple(reversed(gathered)), claims) == ranked, "the order of the branches does not matter"


def test_a_change_of_two_agents_comes_before_one_that_fixes_more_tests(
    repository: Repository, store: ObjectStore
) -> None:
    shared = ("[FIX_IMPL] popular", {"src/b.py": "shared\n"})
    branches = [branch(repository, "ann", ("[FIX_IMPL] proven", {"src/a.py": "1\n"}))]
    branches += [branch(repository, name, shared) for name in ("bob", "eve")]
    claims = {
        "ann": Claims(turned_green=("tests/test_a.py::test_a", "tests/test_b.py::test_b", "tests/test_c.py::test_c"))
    }
    ranked = rank(collect_changes(store, base(repository), branches).changes, claims)
    assert [one.change.subject for one in ranked] == ["[FIX_IMPL] popular", "[FIX_IMPL] proven"]


def test_crossed_branches_still_have_an_order(repository: Repository, store: ObjectStore) -> None:
    x, y = {"src/x.py": "x\n"}, {"src/y.py": "y\n"}
    branches = [branch(repository, "ada", ("x", x), ("y", y)), branch(repository, "bob", ("y", y), ("x", x))]
    changes = collect_changes(store, base(repository), branches).changes
    assert sorted(one.change.oid for one in rank(changes)) == sorted(change.oid for change in changes)
    assert len(changes) == 2


def test_a_change_made_taken_back_and_made_again_is_three(repository: Repository, store: ObjectStore) -> None:
    on, off = {"src/a.py": "on\n"}, {"src/a.py": FILE}
    ada = branch(repository, "ada", ("On", on), ("Off", off), ("On again", on))
    bob = branch(repository, "bob", ("On", on))
    changes = collect_changes(store, base(repository), [ada, bob]).changes
    assert [change.agents for change in changes] == [("ada", "bob"), ("ada",), ("ada",)]
