"""Tests are picked by coverage data: what each of them ran, as its contexts say."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest
from coverage import CoverageData

from core.collect.picking import asked, picked, write
from core.review.repositories import Repository
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CART = """\
LIMIT = 9

def add(count):
    # A comment.
    if count > LIMIT:
        return LIMIT
    return count

def remove(count):
    return -count
"""
FILES = {
    "shop/__init__.py": "",
    "shop/cart.py": CART,
    "shop/desk.py": "from shop import cart\n\ndef sell(count):\n    return cart.add(count)\n",
    "tests/test_desk.py": (
        "from shop import desk\n\n"
        "def test_one():\n    assert desk.sell(1) == 1\n\ndef test_many():\n    assert desk.sell(99) == 9\n\n"
        "class TestBack:\n    def test_back(self):\n        assert desk.cart.remove(1) == -1\n"
    ),
    "pytest.ini": "[pytest]\npythonpath = .\n",
    ".coveragerc": "[run]\ndynamic_context = test_function\nsource = shop\n",
    ".gitignore": ".coverage*\n__pycache__\n",
}
ONE, MANY, BACK = (f"tests/test_desk.py::{name}" for name in ("test_one", "test_many", "TestBack::test_back"))
RAN = {"": (1, 3, 9), f"{ONE}|run": (5, 7), f"{MANY}|run": (5, 6), f"{BACK}|run": (10,)}
"""The lines of the cart that ran when it was imported, and in each test, by pytest-cov's contexts."""
COMMITTED = 1_700_000_000
"""The time of commits here."""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "shop")
    made.commit("first", FILES)
    made.git("tag", "base")
    return made


def record(repository: Repository, ran: Mapping[str, tuple[int, ...]], path: str = "", at: float = 0) -> Path:
    """Write coverage data of the cart."""
    made = repository.folder / ".coverage"
    data = CoverageData(basename=str(made))
    for context, lines in ran.items():
        data.set_context(context)
        data.add_lines({path or str(repository.folder / "shop/cart.py"): lines})
    data.close()
    if at:
        os.utime(made, (at, at))
    return made


def change(repository: Repository, before: str, after: str) -> None:
    assert before in CART
    write(repository.folder, "shop/cart.py", CART.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "tests", "is_by_line"),
    [
        ("        return LIMIT\n", "        return 9\n", {MANY}, True),
        ("    return -count\n", "    return count\n", {BACK}, True),
        ("    if count > LIMIT:\n", "    count += 1\n    if count > LIMIT:\n", {ONE, MANY}, True),
        ("    # A comment.\n", "", {ONE, MANY}, True),
        (
            "        return LIMIT\n    return count\n\ndef remove(count):\n    return -count\n",
            "        count = 9\n        return LIMIT\n    return count\n\ndef remove(count):\n    return count\n",
            {ONE, MANY, BACK},
            True,
        ),
        ("LIMIT = 9\n", "LIMIT = 8\n", {ONE, MANY, BACK}, False),
        ("def remove(count):\n", "def remove(count=1):\n", {ONE, MANY, BACK}, False),
    ],
)
@pytest.mark.parametrize("is_recorded_first", [True, False], ids=["recorded before", "recorded after"])
def test_a_changed_line_affects_the_tests_that_ran_it(
    repository: Repository, before: str, after: str, tests: set[str], is_by_line: bool, is_recorded_first: bool
) -> None:
    if is_recorded_first:
        # The commit is older than the data, and the file newer.
        record(repository, RAN, at=time.time() - 60)
    change(repository, before, after)
    if not is_recorded_first:
        shift = after.count("\n") - before.count("\n")
        lines = zip(CART.split("\n"), CART.replace(before, after).split("\n"), strict=False)
        at = next(number for number, (one, other) in enumerate(lines, start=1) if one != other)
        record(repository, {name: tuple(n + (shift if n >= at else 0) for n in ran) for name, ran in RAN.items()})

    found = picked(repository.folder)

    assert set(found) == tests
    what = "it ran changed lines of shop/cart.py" if is_by_line else "it ran shop/cart.py, which changed"
    assert {reason.partition(" (")[0] for reasons in found.values() for reason in reasons} == {what}


def test_what_coverage_itself_recorded_is_read_and_left_as_it_is(repository: Repository) -> None:
    argv = (sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    environment = {**repository.environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = run(argv, timeout=120, cwd=repository.folder, env=environment)
    assert done.ok, done.stdout + done.stderr
    recorded = (repository.folder / ".coverage").read_bytes()
    change(repository, "        return LIMIT\n", "        return 9\n")

    found = asked(repository.folder)

    assert [test.node_id for test, _ in found.tests] == [MANY]
    assert found.notes == ()
    assert (repository.folder / ".coverage").read_bytes() == recorded
    assert sorted(repository.folder.glob(".coverage*")) == [
        repository.folder / name for name in (".coverage", ".coveragerc")
    ]


@pytest.mark.parametrize(
    ("path", "at", "age"),
    [
        ("", COMMITTED - 86400 * 2, "days ago"),
        ("", time.time() + 86400, "dated in the future"),
        ("/builds/7/shop/shop/cart.py", 0, "recorded just now"),
        ("shop/cart.py", 0, "recorded just now"),
    ],
    ids=["older than the commit", "in the future", "another folder", "relative"],
)
def test_data_that_cannot_be_compared_by_line_counts_by_file_and_says_how_old_it_is(
    repository: Repository, path: str, at: float, age: str
) -> None:
    change(repository, "        return LIMIT\n", "        return 9\n")
    os.utime(repository.folder / "shop/cart.py", (time.time() + 90000, time.time() + 90000))
    record(repository, RAN, path, at)

    found = picked(repository.folder)

    reason = "it ran shop/cart.py, which changed (.coverage "
    if at > time.time():
        # The base is older than that, and the work tree newer: its lines are those of the base.
        assert set(found) == {MANY}
        reason = "it ran changed lines of shop/cart.py (.coverage "
    else:
        assert set(found) == {ONE, MANY, BACK}
    assert all(one.startswith(reason) and one.endswith(f"{age})") for reasons in found.values() for one in reasons)


def test_lines_of_another_text_are_not_trusted(repository: Repository) -> None:
    change(repository, "        return LIMIT\n", "        return 9\n")
    record(repository, {**RAN, f"{BACK}|run": (8,)})
    assert set(picked(repository.folder)) == {ONE, MANY, BACK}
    record(repository, {**RAN, f"{BACK}|run": (800,)})
    assert set(picked(repository.folder)) == {ONE, MANY, BACK}


def test_a_deleted_file_affects_all_that_ran_it(repository: Repository) -> None:
    record(repository, RAN)
    (repository.folder / "shop/cart.py").unlink()
    found = picked(repository.folder)
    assert set(found) == {ONE, MANY, BACK}
    assert found[ONE] == ("it ran shop/cart.py, which was deleted (.coverage recorded just now)",)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("without contexts", "has no contexts, so it does not say which test ran what"),
        ("other names", "names none of these tests"),
        ("no database", "cannot be read, so it is not used"),
        ("cut", "cannot be read, so it is not used"),
        ("another schema", "cannot be read, so it is not used"),
        ("empty", "has no contexts"),
        ("huge", "is larger than 512 MB"),
        ("not combined", "were not combined, so they are not used: `coverage combine`"),
    ],
)
def test_data_that_is_of_no_use_is_said_and_the_rest_goes_on(repository: Repository, fault: str, says: str) -> None:
    write(repository.folder, "shop/cart.py", CART + "\n")
    write(repository.folder, "shop/desk.py", FILES["shop/desk.py"] + "\n")
    names: dict[str, dict[str, tuple[int, ...]]] = {
        "without contexts": {"": (1, 3)},
        "other names": {"tests/test_x.py::test_one|run": (5,)},
    }
    made = record(repository, names.get(fault, RAN))
    match fault:
        case "no database":
            made.write_bytes(b"!coverage.py: This is a private format\n" * 100)
        case "cut":
            made.write_bytes(made.read_bytes()[:5000])
        case "another schema":
            with sqlite3.connect(made) as database:
                database.execute("update coverage_schema set version = 99")
            database.close()
        case "empty":
            made.write_bytes(b"")
        case "huge":
            os.truncate(made, 600 * 1024**2)
        case "not combined":
            made.rename(made.with_name(".coverage.host.12.Xabc"))

    found = asked(repository.folder)

    assert {test.node_id: reasons for test, reasons in found.tests} == dict.fromkeys(
        (ONE, MANY, BACK), ("it imports shop/desk.py, which changed",)
    )
    (note,) = found.notes
    assert says in note
    assert tempfile.gettempdir() not in note, "a copy is read, of which the user knows nothing"


def test_without_data_nothing_is_said(repository: Repository) -> None:
    change(repository, "LIMIT = 9\n", "LIMIT = 8\n")
    assert asked(repository.folder) == ((), ())
