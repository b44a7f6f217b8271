"""Changes that make a test easier to pass are found, and others are not."""

from __future__ import annotations

import pytest

from selftest_core.review.changes.weakening import find_lost_examples, find_weakenings

PATH = "tests/test_it.py"
BEFORE = """
import pytest

LIMIT = 10

@pytest.fixture
def shop():
    return Shop()

@pytest.mark.timeout(5)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_sum(shop, count):
    total = shop.sum(count)
    assert total == 1000
    assert shop.is_open

class TestTax:
    def test_rate(self):
        with pytest.raises(ValueError):
            tax(-1)
        self.assertEqual(tax(1), 2)
"""

WEAKER = {
    "a looser comparison": ("total == 1000", "total <= 1000", "test_sum: an assertion is changed"),
    "another value": ("total == 1000", "total == 18", "test_sum: an assertion is changed"),
    "an alternative": ("total == 1000", "total == 1000 or True", "test_sum: an assertion is changed"),
    "a removed assertion": ("    assert shop.is_open\n", "", "test_sum: an assertion is removed"),
    "a skip": ("@pytest.mark.timeout(5)", "@pytest.mark.skip", "test_sum is skipped or expected to fail"),
    "an xfail": (
        "@pytest.mark.timeout(5)", "@pytest.mark.timeout(5)\n@pytest.mark.xfail(strict=False)",
        "test_sum is skipped or expected to fail",
    ),
    "a skip of the module": (
        "LIMIT = 10", "LIMIT = 10\npytestmark = [pytest.mark.skipif(True, reason='')]",
        "the module is skipped or expected to fail",
    ),
    "a skip of the class": (
        "class TestTax", "@pytest.mark.skip\nclass TestTax", "TestTax is skipped or expected to fail",
    ),
    "a skip inside": ("    total =", "    pytest.skip('later')\n    total =", "test_sum can skip itself"),
    "a raised limit": ("timeout(5)", "timeout(500)", "test_sum: a limit or mark is changed"),
    "a raised constant": ("LIMIT = 10", "LIMIT = 100", "LIMIT is changed"),
    "fewer cases": ("[1, 2, 3]", "[1, 2]", "test_sum: cases are taken out or changed"),
    "a broader exception": ("raises(ValueError)", "raises(Exception)", "TestTax::test_rate: an assertion is changed"),
    "another call": ("assertEqual(tax(1), 2)", "assertTrue(tax(1))", "TestTax::test_rate: an assertion is changed"),
    "a renamed test that is not collected": ("def test_sum", "def check_sum", "test_sum is deleted"),
    "a changed fixture": ("return Shop()", "return Shop(is_open=True)", "the fixture shop is changed"),
    "a fixture for all": (
        "LIMIT = 10", "LIMIT = 10\n@pytest.fixture(autouse=True)\ndef patch(): pass\n",
        "the fixture patch reaches every test",
    ),
    "a caught failure": (
        "    assert total == 1000\n",
        "    try:\n        assert total == 1000\n    except AssertionError:\n        pass\n",
        "test_sum: a failure is caught",
    ),
    "an early return": (
        "    total =", "    if count:\n        return\n    total =", "test_sum can return before its assertions",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "what"), WEAKER.values(), ids=WEAKER)
def test_weaker(old: str, new: str, what: str) -> None:
    assert old in BEFORE
    found = find_weakenings({PATH: (BEFORE, BEFORE.replace(old, new, 1))})
    assert [one.what for one in found] == [what]


HARMLESS = {
    "a new assertion": ("    assert shop.is_open", "    assert shop.is_open\n    assert total"),
    "a tighter one": ("total == 1000", "total is 1000"),
    "a new case": ("[1, 2, 3]", "[1, 2, 3, 4]"),
    "a comment": ("LIMIT = 10", "LIMIT = 10  # pieces"),
    "a renamed test": ("def test_sum", "def test_sum_of_all"),
    "another set-up": ("total = shop.sum(count)", "total = shop.sum(count, 0)"),
    "a new test": ("class TestTax", "def test_new(): assert 1\n\nclass TestTax"),
    "a fixture": ("LIMIT = 10", "LIMIT = 10\n@pytest.fixture\ndef other(): pass\n"),
    "another mark": ("@pytest.mark.timeout(5)", "@pytest.mark.timeout(5)\n@pytest.mark.slow"),
}


@pytest.mark.parametrize(("old", "new"), HARMLESS.values(), ids=HARMLESS)
def test_harmless(old: str, new: str) -> None:
    assert old in BEFORE
    assert find_weakenings({PATH: (BEFORE, BEFORE.replace(old, new, 1))}) == ()


def test_lines_are_those_that_a_person_looks_at() -> None:
    (changed,) = find_weakenings({PATH: (BEFORE, "# one more line\n" + BEFORE.replace("== 1000", "<= 1000"))})
    assert (changed.line, changed.was_deleted) == (15, False)
    (removed,) = find_weakenings({PATH: (BEFORE, BEFORE.replace("    assert shop.is_open\n", ""))})
    assert (removed.line, removed.was_deleted) == (15, True)


def test_a_test_that_moves_to_another_file_is_not_deleted() -> None:
    moved = "def test_sum(): assert 1\n"
    assert find_weakenings({"tests/test_a.py": (moved, ""), "tests/test_b.py": (None, moved)}) == ()
    assert len(find_weakenings({"tests/test_a.py": (moved, "")})) == 1


def test_a_deleted_file_deletes_its_tests() -> None:
    assert [one.what for one in find_weakenings({PATH: (BEFORE, None)})] == [
        "test_sum is deleted", "TestTax::test_rate is deleted",
    ]  # fmt: skip


def test_a_file_that_does_not_parse_any_more() -> None:
    (lost,) = find_weakenings({PATH: (BEFORE, "def (")})
    assert lost.what.startswith("cannot be read: it is no Python: ")
    (mended,) = find_weakenings({PATH: ("def (", BEFORE)})
    assert mended.what.startswith("could not be read before, so it is not compared: ")
    assert find_weakenings({PATH: ("def (", "def (")}) == ()


def test_a_new_conftest_with_a_fixture_for_all() -> None:
    text = "import pytest\n@pytest.fixture(autouse=True)\ndef patch(): pass\n"
    assert [one.what for one in find_weakenings({"tests/conftest.py": (None, text)})] == [
        "the fixture patch reaches every test"
    ]
    assert find_weakenings({PATH: (None, text)}) == ()


def test_hooks_of_a_conftest_that_choose_tests_or_change_results() -> None:
    hook = "def pytest_collection_modifyitems(items):\n    items.clear()\n"
    (found,) = find_weakenings({"tests/conftest.py": ("", hook)})
    assert found.what == "pytest_collection_modifyitems may leave tests out or change their results"
    (found,) = find_weakenings({"conftest.py": (None, 'collect_ignore = ["test_a.py"]\n')})
    assert (found.text, found.line) == ('collect_ignore = ["test_a.py"]', 1)
    (found,) = find_weakenings({"conftest.py": (hook, hook.replace("clear", "sort"))})
    assert (found.what, found.old_line) == ("pytest_collection_modifyitems is changed", 1)
    assert find_weakenings({"conftest.py": (hook, hook + "\ndef pytest_addoption(parser): ...\n")}) == ()
    assert find_weakenings({"tests/test_it.py": (None, hook)}) == ()


def test_examples_that_expect_something_else_or_are_gone_are_found() -> None:
    before = (
        'def add(a, b):\n    """Add.\n\n    >>> add(2, 3)\n    5\n    >>> add(\n    ...     1, 1)\n    2\n    """\n'
    )
    assert find_lost_examples("calc.py", before, before.replace("Add.", "Add two.")) == ()
    (other,) = find_lost_examples("calc.py", before, before.replace("    5\n", "    -1\n"))
    assert (other.line, other.was_deleted) == (4, True)
    (gone,) = find_lost_examples("calc.py", before, before.replace("    >>> add(\n    ...     1, 1)\n    2\n", ""))
    assert gone.line == 6
    assert len(find_lost_examples("calc.py", before, None)) == 2
