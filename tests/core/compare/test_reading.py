"""The runs to compare are read from their folders and from git; what cannot be compared is said in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.compare.comparable_runs import AFTER, BEFORE, GREEN, RED, Repository, Told
from selftest_core.compare.reading import compare_runs, previous_run
from selftest_core.errors import SelftestError, UsageError
from selftest_core.run.plan.plan import RestingTest, Suite
from selftest_core.verify.kept.verification_file import keep_verification
from selftest_core.verify.sandbox import Isolation
from selftest_core.verify.schedule import TestReport as Reported
from selftest_core.verify.verdicts import Effect, Verdict
from selftest_core.verify.verification import Verification, Verified
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator

STAYS, LEFT_OUT, NEW, GONE, MOVED, CASE, NO_PYTHON = (
    "tests/test_a.py::TestA::test_stays", "tests/test_a.py::test_left_out", "tests/test_b.py::test_new",
    "tests/test_a.py::test_gone", "tests/test_old name.py::test_moved", "tests/test_a.py::test_left_out[two]",
    "tests/readme.txt::readme.txt",
)  # fmt: skip
FIRST = "class TestA:\n    def test_stays(self): ...\ndef test_gone(): ...\nasync def test_left_out(n): ...\n"


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as made:
        made.make_repository()
        yield made


def commit(world: World, **files: str | None) -> str:
    for name, text in files.items():
        path = world.repository / "tests" / name.replace("__", ".").replace("-", " ")
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True) if text is None else path.write_text(text)
    world.run(["git", "add", "-A"], cwd=world.repository)
    world.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "x"], cwd=world.repository
    )
    return world.run(["git", "rev-parse", "HEAD"], cwd=world.repository).stdout.strip()


def test_new_and_gone_tests_are_told_from_those_that_a_run_left_out(world: World) -> None:
    first = commit(world, test_a__py=FIRST, **{"test_old-name__py": "def test_moved(): ...\n"})
    second = commit(
        world, test_a__py=FIRST.replace("def test_gone(): ...\n", ""), test_b__py="def test_new(): ...\n",
        **{"test_old-name__py": None},
    )  # fmt: skip
    repository = Repository(world.repository)
    before = repository.run(BEFORE, dict.fromkeys((STAYS, LEFT_OUT, GONE, MOVED, NO_PYTHON), GREEN), base=first)
    after = repository.run(AFTER, dict.fromkeys((STAYS, NEW, CASE), RED), base=second)

    found = compare_runs(before, after, world.environment)

    assert [one.test for one in found.newly_red] == [STAYS]
    assert [one.test for one in found.new] == [NEW]
    assert [one.test for one in found.gone] == [GONE, MOVED]
    assert [one.test for one in found.only_before] == [LEFT_OUT, NO_PYTHON]
    assert [one.test for one in found.only_after] == [CASE]
    assert found.problems == ()
    # A base that was pushed over and collected is not in the repository any more.
    lost = repository.run("20261122-0931-7f3a", {STAYS: RED}, base="b" * 40, created_at=1_763_700_000.0)
    found = compare_runs(before, lost, world.environment)
    assert (found.gone, len(found.only_before)) == ((), 4)
    assert ["not known" in problem for problem in found.problems] == [True]


def test_runs_of_the_same_suite_say_themselves_what_is_new_gone_or_resting(world: World) -> None:
    repository = Repository(world.repository)
    case, other = "tests/test_a.py::test_n[1]", "tests/test_a.py::test_n[2]"
    before = repository.run(BEFORE, dict.fromkeys((STAYS, GONE, case, LEFT_OUT), GREEN), suite=Suite())
    resting = RestingTest(LEFT_OUT, "green and unchanged in its last 2 runs", 3)
    after = repository.run(AFTER, dict.fromkeys((STAYS, other), GREEN), suite=Suite(resting=(resting,)))

    found = compare_runs(before, after, world.environment)

    assert [one.test for one in found.new] == [other]
    assert [one.test for one in found.gone] == [GONE, case]
    assert [one.test for one in found.only_before] == [LEFT_OUT]
    assert (found.only_after, found.problems) == ((), ())
    # A run of one file in between is newer, and asked for something else.
    at = 1_763_680_000.0
    repository.run("20261120-1200-0001", {STAYS: GREEN}, created_at=at, suite=Suite(asked=("tests/test_a.py",)))
    assert previous_run(after, world.environment) == before
    # A file that skips itself, for want of a module, deletes none of its tests.
    skipped = repository.run("20261121-1100-0001", {other: GREEN}, suite=Suite(unknown=("tests/test_a.py",)))
    assert compare_runs(before, skipped, world.environment).gone == ()


def test_a_test_that_a_verification_found_flaky_is_newly_flaky(world: World) -> None:
    repository = Repository(world.repository)
    before, after = (repository.run(run, {STAYS: GREEN}) for run in (BEFORE, AFTER))
    flaky = Reported(STAYS, Verdict.GREEN, Verdict.FLAKY, Effect.UNKNOWN, (), None, (), "")
    verification = Verification("c" * 40, Verified.FLAKY, {}, (flaky,), False, 3, 1, 1, 0, {})
    keep_verification(after.path, verification, Isolation("none", ""), 1.0)

    found = compare_runs(before, after, world.environment)

    assert [one.test for one in found.newly_flaky] == [STAYS]
    assert found.is_worse


def test_the_run_before_is_the_newest_of_its_kind_that_can_be_compared(world: World) -> None:
    repository = Repository(world.repository)
    environ = world.environment
    after = repository.run(AFTER, {STAYS: GREEN})
    assert previous_run(after, environ) is None
    at = 1_763_600_000.0
    before = repository.run(BEFORE, {STAYS: GREEN})
    repository.run("20261120-1000-0001", {STAYS: Told(None)}, created_at=at + 1)
    repository.run("20261120-1000-0002", {}, created_at=at + 2)
    repository.run("20261120-1000-0003", {STAYS: GREEN}, created_at=at + 3, role="drafter", tutorial="tutorial.sh")
    damaged = repository.run("20261120-1000-0004", {STAYS: GREEN}, created_at=at + 4)
    (damaged.path / "plan.json").write_text("{")
    repository.run("20261120-1000-0005", {STAYS: GREEN}, created_at=at + 900_000)

    assert previous_run(after, environ) == before
    # A clock that was set back between them is said, and the order that was asked for is kept.
    assert ["is dated after" in one for one in compare_runs(after, before, environ).problems] == [True]


def test_runs_that_cannot_be_compared_are_refused_with_the_reason(world: World) -> None:
    repository = Repository(world.repository)
    before = repository.run(BEFORE, {STAYS: GREEN})
    other = Repository(world.home).run(AFTER, {STAYS: GREEN})
    empty = repository.run("20261121-1000-0001", {})
    begun = repository.run("20261121-1000-0002", {STAYS: Told(None)})
    draft = repository.run("20261121-1000-0003", {STAYS: GREEN}, role="drafter", tutorial="tutorial.sh")
    damaged = repository.run("20261121-1000-0004", {STAYS: GREEN})
    (damaged.path / "plan.json").write_text('{"run": ')

    for folder, says in (
        (other, "different repositories"), (empty, "no results"), (begun, "no results"), (draft, "different kinds"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=says):
            compare_runs(before, folder, world.environment)
    with pytest.raises(SelftestError, match="cannot be read"):
        compare_runs(before, damaged, world.environment)
