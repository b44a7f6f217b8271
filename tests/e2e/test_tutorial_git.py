"""The blocks of tutorial.sh that work on a repository, run as they stand; each would fail if nothing was done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.review.repositories import Repository
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd, TutorialBlock
    from selftest_recorder.e2e.results import Result


@pytest.fixture(scope="module")
def plain() -> Iterator[World]:
    """A world without agents: none of this needs one."""
    with a_world() as world:
        yield world


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


def done(block: TutorialBlock, world: World, folder: Path) -> Result:
    """Run a block that must succeed."""
    completed = block.run(environment=world.environment, cwd=folder)
    assert completed.exit_status == 0, f"{completed.stdout}\n{completed.stderr}"
    return completed


def summary(text: str) -> dict[str, Any]:
    """The one line that a batch prints."""
    (line,) = text.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found["event"] == "summary"
    return found


def test_check(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block("""
        # Is every block of tutorial.sh cited by a test in tests/, and every citation a block? If not, this ends with 1.
        selftest-tui check
    """)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tutorial.sh").write_text("#!/bin/sh\n\necho hello\n\necho again\n")
    test = tmp_path / "tests" / "test_it.py"
    test.write_text('def test_a(e2e):\n    e2e.write_tutorial_block("echo hello")\n')
    completed = block.run(environment=plain.environment, cwd=tmp_path)
    assert completed.exit_status == 1
    assert "tutorial.sh:5" in completed.stdout
    assert "1 uncited" in completed.stdout
    test.write_text(test.read_text() + '\ndef test_b(e2e):\n    e2e.write_tutorial_block("echo again")\n')
    assert "2 blocks, 2 tests: every block is cited" in done(block, plain, tmp_path).stdout


def test_check_as_json(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block("""
        # Another tutorial, other tests, as JSON.
        selftest-tui check --tutorial tour.sh --tests e2e --json > check.json || test $? = 1
    """)
    (tmp_path / "e2e").mkdir()
    (tmp_path / "tour.sh").write_text("# A tour\n\necho hello you\n")
    (tmp_path / "e2e" / "test_it.py").write_text('def test_a(e2e):\n    e2e.write_tutorial_block("echo hello me")\n')
    done(block, plain, tmp_path)
    found = json.loads((tmp_path / "check.json").read_text())
    assert (found["ok"], found["uncited"], found["headings"]) == (False, [3], [{"line": 1, "text": "# A tour"}])
    assert [(stale["test"], stale["nearest"]["line"]) for stale in found["stale"]] == [("e2e/test_it.py::test_a", 3)]


def test_review(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block("""
        # What would the branches of two agents be as one line? 1 says that something is undecided or held.
        selftest-tui review --batch --base main ada bob > review.jsonl || test $? = 1
    """)
    done(block, plain, repository.folder)
    found = summary((repository.folder / "review.jsonl").read_text())
    assert [(item["kind"], item["decision"]) for item in found["items"]] == [
        ("test", "undecided"), ("test", "undecided"), ("implementation", "undecided"), ("implementation", "undecided"),
    ]  # fmt: skip
    assert repository.git("rev-parse", found["candidate"]) == found["tip"]
    assert found["published"] is None


def test_review_decided_and_published(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block("""
        # Decide: keep everything, and publish it as one new branch.
        echo '{"default": "keep"}' > decisions.json
        selftest-tui review --batch --base main ada bob --decisions decisions.json --publish fixes
    """)
    found = summary(done(block, plain, repository.folder).stdout)
    assert repository.git("rev-parse", "fixes") == found["tip"]
    changed = repository.git("diff", "--name-only", "main", "fixes").split()
    assert changed == ["cart.py", "pay.py", "tests/test_cart.py", "tests/test_pay.py"]
    assert repository.git("rev-list", "--count", "main..fixes") == "3"
    assert repository.git("rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_review_decided_by_kind(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block("""
        # In CI: tests are kept by their kind, but never one that weakens a test. 1 says that the fixes are still undecided.
        echo '{"kinds": {"test": "keep", "docs": "keep", "build": "keep"}}' > decisions.json
        selftest-tui review --batch --base main ada bob --decisions decisions.json --publish tests || test $? = 1
    """)  # noqa: E501 -- the block's own line
    found = summary(done(block, plain, repository.folder).stdout)
    assert found["published"] == "refs/heads/tests"
    assert repository.git("diff", "--name-only", "main", "tests").split() == ["tests/test_cart.py", "tests/test_pay.py"]


def test_review_of_one_branch_without_its_last_commit(e2e: EndToEnd, plain: World, repository: Repository) -> None:
    block = e2e.write_tutorial_block("""
        # A branch on its own keeps its order; one commit of it is left out here.
        echo "{\\"default\\": \\"keep\\", \\"items\\": {\\"$(git rev-parse ada)\\": \\"revert\\"}}" > decisions.json
        selftest-tui review --batch main..ada --decisions decisions.json --publish less
    """)
    found = summary(done(block, plain, repository.folder).stdout)
    assert [item["status"] for item in found["items"]] == ["laid", "dropped"]
    assert repository.git("diff", "--name-only", "main", "less").split() == ["tests/test_cart.py"]
