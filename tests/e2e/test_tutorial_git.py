"""The blocks of tutorial.sh that check citations and review branches, run as they stand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.review.repositories import Repository
from selftest_recorder.e2e.expect import expect

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository where two agents left their branches: one fix with its test, one fix of another file."""
    made = Repository.make(tmp_path / "shop")
    made.commit("Start", {"cart.py": "1\n", "pay.py": "1\n"})
    for agent, name in (("ada", "cart"), ("bob", "pay")):
        made.git("checkout", "-q", "-b", agent, "main")
        made.commit(f"[CREATE_TEST] Test {name}", {f"tests/test_{name}.py": "x\n"}, agent)
        made.commit(f"[FIX_IMPL] Mend {name}", {f"{name}.py": "2\n"}, agent)
    made.git("checkout", "-q", "main")
    return made


def on_branch(repository: Repository, branch: str, message: str, files: dict[str, str | bytes | None]) -> str:
    """Add a commit to a branch, and return its id."""
    repository.git("checkout", "-q", branch)
    made = repository.commit(message, files, branch)
    repository.git("checkout", "-q", "main")
    return made


def changed(repository: Repository, branch: str) -> list[str]:
    """The files that a branch changes."""
    return repository.git("diff", "--name-only", "main", f"refs/heads/{branch}").split()


def last_line(text: str) -> dict[str, Any]:
    """The last line of JSON."""
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


# check


CHECK = """
    # Is every block of tutorial.sh cited by a test in tests/, and every citation a block? If not, this ends with 1.
    selftest-tui check
"""
CHECK_AS_JSON = """
    # Another tutorial, other tests, as JSON.
    selftest-tui check --tutorial tour.sh --tests e2e --json > check.json || test $? = 1
"""
CITATION = 'def test_{name}(e2e):\n    e2e.write_tutorial_block("{text}")\n'


def test_check(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(CHECK)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tutorial.sh").write_text("#!/bin/sh\n\necho hello\n\necho again\n")
    citations = [CITATION.format(name="a", text="echo hello"), CITATION.format(name="b", text="echo again")]
    (tmp_path / "tests" / "test_it.py").write_text("\n".join(citations))

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_contain("2 blocks, 2 tests: every block is cited")


@pytest.mark.unhappy
def test_check_of_a_block_without_a_test(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(CHECK)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tutorial.sh").write_text("#!/bin/sh\n\necho hello\n\necho again\n")
    (tmp_path / "tests" / "test_it.py").write_text(CITATION.format(name="a", text="echo hello"))

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(1).stdout.to_contain("tutorial.sh:5", "1 uncited")


@pytest.mark.unhappy
def test_check_where_there_is_no_tutorial(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(CHECK)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("No tutorial at", "--tutorial FILE")


def test_check_as_json(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(CHECK_AS_JSON)
    (tmp_path / "e2e").mkdir()
    (tmp_path / "tour.sh").write_text("# A tour\n\necho hello you\n")
    (tmp_path / "e2e" / "test_it.py").write_text(CITATION.format(name="a", text="echo hello me"))

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed()
    found = json.loads((tmp_path / "check.json").read_text())
    assert (found["ok"], found["uncited"], found["headings"]) == (False, [3], [{"line": 1, "text": "# A tour"}])
    assert [(stale["test"], stale["nearest"]["line"]) for stale in found["stale"]] == [("e2e/test_it.py::test_a", 3)]


@pytest.mark.unhappy
def test_check_as_json_where_there_are_no_tests(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(CHECK_AS_JSON)
    (tmp_path / "tour.sh").write_text("echo hello\n")

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_fail().stderr.to_contain("No tests at", "--tests DIR")
    expect(tmp_path / "check.json").to_have_text("")


# review


REVIEW = """
    # What would the branches of two agents be as one line? 1 says that something is undecided or held.
    selftest-tui review --batch --base main ada bob > review.jsonl || test $? = 1
"""
KEEP_ALL = """
    # Decide: keep everything, and publish it as one new branch.
    echo '{"default": "keep"}' > decisions.json
    selftest-tui review --batch --base main ada bob --decisions decisions.json --publish fixes
"""
BY_KIND = """
    # In CI: tests are kept by their kind, but never one that weakens a test. 1 says that the fixes are still undecided.
    echo '{"kinds": {"test": "keep", "docs": "keep", "build": "keep"}}' > decisions.json
    selftest-tui review --batch --base main ada bob --decisions decisions.json --publish tests || test $? = 1
"""
ONE_BRANCH = """
    # A branch on its own keeps its order; one commit of it is left out here.
    echo "{\\"default\\": \\"keep\\", \\"items\\": {\\"$(git rev-parse ada)\\": \\"revert\\"}}" > decisions.json
    selftest-tui review --batch main..ada --decisions decisions.json --publish less
"""


def test_review(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(REVIEW)

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_succeed()
    found = json.loads((repository.folder / "review.jsonl").read_text())
    assert [(item["kind"], item["decision"]) for item in found["items"]] == [
        ("test", "undecided"), ("test", "undecided"), ("implementation", "undecided"), ("implementation", "undecided"),
    ]  # fmt: skip
    assert repository.git("rev-parse", found["candidate"]) == found["tip"]
    assert (found["event"], found["published"]) == ("summary", None)


@pytest.mark.unhappy
def test_review_of_changes_in_conflict(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(REVIEW)
    on_branch(repository, "bob", "[FIX_IMPL] Mend the cart otherwise", {"cart.py": "3\n"})

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_succeed()
    found = json.loads((repository.folder / "review.jsonl").read_text())
    (held,) = [item for item in found["items"] if item["status"] == "held"]
    assert held["conflicts"] == ["cart.py"]


@pytest.mark.unhappy
def test_review_of_a_branch_that_is_not_there(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(REVIEW)
    repository.git("branch", "-q", "-D", "bob")

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_fail().stderr.to_contain("bob")
    assert last_line((repository.folder / "review.jsonl").read_text())["exit_status"] == 2


def test_review_decided_and_published(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(KEEP_ALL)

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_succeed()
    found = result.json()
    assert repository.git("rev-parse", "fixes") == found["commits"][-1]["oid"]
    assert repository.git("rev-parse", "fixes^{tree}") == found["tree"]
    assert changed(repository, "fixes") == ["cart.py", "pay.py", "tests/test_cart.py", "tests/test_pay.py"]
    assert repository.git("rev-list", "--count", "main..fixes") == "3"
    assert repository.git("rev-parse", "--abbrev-ref", "HEAD") == "main"


@pytest.mark.unhappy
def test_review_writes_over_no_branch_of_somebody_else(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(KEEP_ALL)
    repository.git("branch", "fixes", "bob")
    refs = repository.git("show-ref")

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_have_exit_code(4).stderr.to_contain("fixes")
    assert repository.git("show-ref", "--heads") == "\n".join(line for line in refs.splitlines() if "heads" in line)


def test_review_decided_by_kind(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(BY_KIND)

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_succeed().to_have_json({"published": "refs/heads/tests"})
    assert changed(repository, "tests") == [
        "tests/test_cart.py",
        "tests/test_pay.py",
    ]


@pytest.mark.unhappy
def test_review_keeps_no_change_by_its_kind_that_weakens_a_test(
    e2e: EndToEnd, plain: World, repository: Repository
) -> None:
    block = e2e.write_tutorial_block(BY_KIND)
    repository.commit("Test", {"tests/test_old.py": "def test_old():\n    assert 1 == 1\n    assert 2 == 2\n"})
    for branch in ("ada", "bob"):
        repository.git("checkout", "-q", branch)
        repository.git("rebase", "-q", "main")
    weakens = on_branch(repository, "bob", "[FIX_TEST] Ask less", {"tests/test_old.py": "def test_old():\n    pass\n"})

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_succeed().stderr.to_contain("weakens a test")
    (item,) = [item for item in result.json()["items"] if item["source"] == weakens]
    assert item["decision"] == "undecided"
    assert changed(repository, "tests") == [
        "tests/test_cart.py",
        "tests/test_pay.py",
    ]


def test_review_of_one_branch_without_its_last_commit(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(ONE_BRANCH)

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_succeed()
    assert [item["status"] for item in result.json()["items"]] == ["laid", "dropped"]
    assert changed(repository, "less") == ["tests/test_cart.py"]


@pytest.mark.unhappy
def test_review_of_one_branch_of_which_nothing_is_left(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block(ONE_BRANCH)
    repository.git("branch", "-q", "-f", "ada", "ada~1")

    result = block.run(environment=plain.environment, cwd=repository.folder)

    expect(result).to_have_exit_code(1).to_have_json({"published": None}).stderr.to_contain("nothing is published")
    assert repository.git("branch", "--list", "less") == ""
