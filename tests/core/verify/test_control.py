"""Controls: each way in which a test cannot fail is found by turning its assertions round, and who took it is named."""

from __future__ import annotations

import os
import sys
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import SETTINGS
from selftest_core.config import load_config
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.tools.process import run
from selftest_core.verify.batch import Answer, Verifying, review_verified, verify
from selftest_core.verify.control import is_example, turned
from selftest_core.verify.verdicts import Effect, Verdict
from selftest_core.verify.verification import Mark, Verified

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BASE = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n",
    "test_calc.py": "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n\n\n"
    "def test_mul():\n    assert calc.mul(2, 3) == 6\n",
}
RIGHT = BASE["calc.py"].replace("a - b", "a + b")


def verified(
    folder: Path, base: Mapping[str, str] = MappingProxyType(BASE), **branches: Mapping[str, str | None]
) -> Answer:
    """Verify branches that change these files of the base, each of one agent, with the whole suite."""
    repository = Repository.make(folder / "repository")
    repository.commit("Base", base)
    for name, files in branches.items():
        repository.git("switch", "-q", "-c", name, "main")
        repository.commit(f"[FIX_IMPL] {name}", files)
    repository.git("switch", "-q", "main")
    environ = {**os.environ, **SETTINGS, "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}
    request = Request(targets=tuple(branches), base="main")
    return verify(
        Verifying(request, 1, True, ()), load_config(repository.folder, environ, {}), repository.folder, environ,
        lambda _: None, lambda _: None, threading.Event(),
    )  # fmt: skip


def test_with(test: str) -> dict[str, str]:
    """The base's tests with another test of add."""
    return {"test_calc.py": f"import calc\n\n\n{test}\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n"}


test_with.__test__ = False  # type: ignore[attr-defined]

CANNOT_FAIL = {
    "if False": test_with("def test_add():\n    if False:\n        assert calc.add(2, 3) == 5\n"),
    "while False": test_with("def test_add():\n    while False:\n        assert calc.add(2, 3) == 5\n"),
    "a loop over nothing": test_with("def test_add():\n    for _ in ():\n        assert calc.add(2, 3) == 5\n"),
    "suppress": test_with(
        "def test_add():\n    import contextlib\n    with contextlib.suppress(AssertionError):\n"
        "        assert calc.add(2, 3) == 5\n"
    ),
    "a nested function": test_with("def test_add():\n    def inner():\n        assert calc.add(2, 3) == 5\n"),
    "an early return": test_with("def test_add():\n    return\n    assert calc.add(2, 3) == 5\n"),
    "another code": test_with(
        "def test_add():\n    assert calc.add(2, 3) == 5\ntest_add.__code__ = (lambda: None).__code__\n"
    ),
    "another name": test_with("def test_add():\n    assert calc.add(2, 3) == 5\ntest_add = lambda: None\n"),
    "a decorator": test_with("@lambda f: lambda: None\ndef test_add():\n    assert calc.add(2, 3) == 5\n"),
    "a constant": test_with("def test_add():\n    assert (calc.add(2, 3) == 5, 'never')\n"),
    "equal to everything": {
        "calc.py": "class Any:\n    def __eq__(self, other):\n        return True\n\n\n"
        "def add(a, b):\n    return Any()\n\n\ndef mul(a, b):\n    return a * b\n"
    },
    "a number equal to everything": {
        "calc.py": "class Any(int):\n    def __eq__(self, other):\n        return True\n\n\n"
        "def add(a, b):\n    return Any()\n\n\ndef mul(a, b):\n    return a * b\n"
    },
}


@pytest.mark.parametrize("files", CANNOT_FAIL.values(), ids=CANNOT_FAIL)
def test_a_test_that_cannot_fail_proves_nothing_and_its_change_is_named(
    tmp_path: Path, files: Mapping[str, str]
) -> None:
    answer = verified(tmp_path, eve=files)
    (eve,) = answer.verification.items.values()
    assert answer.verification.verified is Verified.FAILED
    assert (eve.verified, Mark.CULPRIT in eve.marks) == (Verified.FAILED, True)
    assert "cannot fail" in eve.reason
    found = {one.test: (one.after, one.effect) for one in answer.verification.tests}
    assert found["test_calc.py::test_add"] == (Verdict.CANNOT_FAIL, Effect.BROKEN)
    assert found["test_calc.py::test_mul"] == (Verdict.GREEN, Effect.KEPT)


FORGES = """
import gc, pluggy
for found in gc.get_objects():
    if isinstance(found, pluggy.HookCaller) and found.name == "pytest_pyfunc_call":
        for one in found.get_hookimpls():
            one.function = lambda pyfuncitem: True
"""


def test_a_forger_is_named_and_washes_nobody(tmp_path: Path) -> None:
    answer = verified(
        tmp_path,
        ann={"test_ann.py": "import calc\n\n\ndef test_ann():\n    assert calc.mul(1, 1) == 1\n"},
        bob={"calc.py": BASE["calc.py"].replace("a - b", "a - b + 0")},
        eve={"calc.py": BASE["calc.py"] + FORGES},
    )
    found = {one.agents[0]: answer.verification.items[one.oid] for one in answer.reviewed.order}
    said = {name: (one.verified, Mark.CULPRIT in one.marks, one.reason) for name, one in found.items()}
    assert answer.verification.verified is Verified.FAILED, said
    assert {name: one[:2] for name, one in said.items()} == {
        "ann": (Verified.UNKNOWN, False), "bob": (Verified.UNKNOWN, False), "eve": (Verified.FAILED, True)
    }, said  # fmt: skip


def test_an_honest_fix_is_fixed(tmp_path: Path) -> None:
    answer = verified(tmp_path, ann={"calc.py": RIGHT})
    (ann,) = answer.verification.items.values()
    assert (ann.verified, ann.marks, ann.reason) == (Verified.PASSED, (), "")
    assert {one.test: one.effect for one in ann.tests} == {
        "test_calc.py::test_add": Effect.FIXED, "test_calc.py::test_mul": Effect.KEPT
    }  # fmt: skip


def test_a_new_test_that_cannot_fail_is_not_verified_and_nobody_is_accused(tmp_path: Path) -> None:
    new = "import calc\n\n\ndef test_new():\n    if not calc:\n        assert calc.add(0, 0) == 0\n"
    answer = verified(tmp_path, ann={"calc.py": RIGHT, "test_new.py": new})
    (ann,) = answer.verification.items.values()
    assert (ann.verified, Mark.CULPRIT in ann.marks) == (Verified.UNKNOWN, False)
    assert "test_new cannot fail here: it stays green with its assertions turned round" in ann.reason


BREAKS_IMPORT = {"calc.py": BASE["calc.py"].replace("def mul", "def times")}
USES_MUL = {**BASE, "test_calc.py": "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n"}
USES_MUL["test_mul.py"] = "from calc import mul\n\n\ndef test_mul():\n    assert mul(2, 3) == 6\n"


def test_a_file_that_cannot_be_imported_any_more_is_red_and_its_breaker_is_named(tmp_path: Path) -> None:
    answer = verified(tmp_path, base=USES_MUL, ann={"calc.py": RIGHT}, eve=BREAKS_IMPORT)
    found = {one.agents[0]: answer.verification.items[one.oid] for one in answer.reviewed.order}
    assert answer.verification.verified is Verified.FAILED
    (error,) = answer.verification.collection_errors
    (eve,) = [one.oid for one in answer.reviewed.order if one.agents == ("eve",)]
    assert (error.path, error.breaker) == ("test_mul.py", eve)
    assert "ImportError: cannot import name 'mul'" in error.message
    assert (found["eve"].verified, found["eve"].broke) == (Verified.FAILED, ("test_mul.py::test_mul",))


def test_a_file_that_never_could_be_imported_is_no_success(tmp_path: Path) -> None:
    base = {**BASE, "test_other.py": "import calc, not_there\n\n\ndef test_other():\n    assert calc\n"}
    answer = verified(tmp_path, base=base, ann={"calc.py": RIGHT})
    assert answer.verification.verified is Verified.UNKNOWN
    (error,) = answer.verification.collection_errors
    assert (error.path, error.breaker) == ("test_other.py", None)
    assert "No module named 'not_there'" in error.message


VANISHED: dict[str, dict[str, str | None]] = {
    "removed": {"test_calc.py": "import calc\n\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n"},
    "not a test": {"test_calc.py": BASE["test_calc.py"] + "\n\ntest_add.__test__ = False\n"},
    "a file of another name": {"test_calc.py": None, "calc_checks.py": BASE["test_calc.py"]},
    "a setting": {"conftest.py": "def pytest_collection_modifyitems(items):\n    del items[0]\n"},
    "left out": {"conftest.py": "collect_ignore = ['test_calc.py']\n"},
}


@pytest.mark.parametrize("files", VANISHED.values(), ids=VANISHED)
def test_what_vanishes_is_listed_and_nothing_passes(tmp_path: Path, files: Mapping[str, str | None]) -> None:
    answer = verified(tmp_path, eve={"calc.py": BASE["calc.py"].replace("a * b", "b * a"), **files})
    assert answer.verification.verified is not Verified.PASSED
    assert "test_calc.py::test_add" in answer.verification.vanished
    assert not answer.is_green


SKIPPED = {
    "pytestmark": "globals()['pytestmark'] = __import__('pytest').mark.skip\n",
    "annotated": "import pytest\n\npytestmark: object = pytest.mark.skip\n",
    "the product": None,
}


@pytest.mark.parametrize("more", SKIPPED.values(), ids=SKIPPED)
def test_what_is_skipped_is_not_verified(tmp_path: Path, more: str | None) -> None:
    product = BASE["calc.py"].replace("    return a - b", "    import pytest\n\n    pytest.skip('later')")
    files = {"calc.py": product} if more is None else {"test_calc.py": BASE["test_calc.py"] + more}
    answer = verified(tmp_path, eve=files)
    (eve,) = answer.verification.items.values()
    assert (answer.verification.verified, eve.verified) == (Verified.UNKNOWN, Verified.UNKNOWN)


HONEST = """
import unittest

import pytest


def check(value):
    assert value


class TestClass:
    def test_method(self): assert [1, 2] == list((1, 2))


class Case(unittest.TestCase):
    def test_equal(self):
        self.assertEqual({"a": 1}, dict(a=1))

    def test_true(self):
        self.assertTrue(len("x") == 1)

    def test_raises(self):
        with self.assertRaises(ValueError):
            int("x")


def test_helper():
    check("x")


def test_nothing():
	len("tab")


def test_one_line(): len("x")


def test_raises():
    with pytest.raises(ValueError, match="invalid"):
        int("x")


def test_text():
    # An umlaut before it: ä
    assert "ä" + "b" == "äb" and 3 == 1 + 2, "message"


def test_many_lines():
    assert (
        "a"  # first
        + "b"
    ) == "ab"


def test_number():
    assert sum([1, 2]) == pytest.approx(3.0)


def test_in():
    assert "a" in "abc"


@pytest.mark.parametrize("value", [1, 2])
def test_each(value):
    for _ in range(2):
        assert value > 0


def test_returns():
    if len("x"):
        return
"""


def test_each_kind_of_assertion_fails_when_it_is_turned(tmp_path: Path) -> None:
    made = turned(HONEST.encode())
    assert made is not None
    for name, source in (("test_honest.py", HONEST.encode()), ("test_turned.py", made)):
        (tmp_path / name).write_bytes(source)
    counts = {}
    for name in ("test_honest.py", "test_turned.py"):
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path / name]
        done = run([str(one) for one in argv], timeout=120, cwd=tmp_path, env={**os.environ, **SETTINGS})
        counts[name] = done.stdout.splitlines()[-1].split(" in ")[0]
    assert counts == {"test_honest.py": "15 passed", "test_turned.py": "15 failed"}


@pytest.mark.parametrize(
    "source",
    [
        b"def test_it(:\n", b"# coding: nobody-knows\ndef test_it(): assert 1\n", b"\xff", b"(" * 3000 + b")" * 3000,
        b"def test_it(): assert 0" + b"\0", b"def test_it(): assert " + b"not " * 30_000 + b"1\n", b"x" * 5_000_000,
    ],
)  # fmt: skip
def test_what_cannot_be_turned_has_no_control(source: bytes) -> None:
    assert turned(source) is None


def test_sums_of_thousands_do_not_end_it() -> None:
    found = turned(b"def test_it(): assert 1" + b" + 1" * 3000 + b" == 3001\n")
    assert found is None or b"def test_it(): assert _" in found


def test_ids_of_examples_are_told_from_those_of_tests() -> None:
    examples = ["calc.py::calc", "calc.py::calc.add", "src/shop/calc.py::shop.calc.add", "docs/use.md::use.md"]
    tests = ["tests/test_total.py::test_total", "test_a.py::TestA::test_b", "test_a.py::test_a[calc.add]", "test_a.py"]
    assert [test for test in (*examples, *tests) if is_example(test)] == examples


def test_a_test_may_have_the_name_of_its_file(tmp_path: Path) -> None:
    base = {
        "calc.py": BASE["calc.py"],
        "test_add.py": "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n",
    }
    answer = verified(tmp_path, base, ann={"calc.py": RIGHT})
    (ann,) = answer.verification.items.values()
    assert (ann.verified, ann.marks) == (Verified.PASSED, ())


def test_other_encodings_stay_as_they_are() -> None:
    found = turned(b"# coding: latin-1\ndef test_it(): assert name() == '\xe4'\n")
    assert found is not None
    assert b"'\xe4'" in found
    assert compile(found, "turned", "exec")


def test_what_is_drawn_differs_from_seed_to_seed() -> None:
    source = b"def test_it(): assert f() == 5\n"
    assert turned(source, b"one") == turned(source, b"one") != turned(source, b"other")


EQUAL_TO_MUCH = {
    "a range": "-1000 < other < 1000",
    "some": "other in (4, 5, 6, 7)",
    "what was once the other value": "'104' not in str(other)",
}


@pytest.mark.parametrize("how", EQUAL_TO_MUCH.values(), ids=EQUAL_TO_MUCH)
def test_an_object_that_is_equal_to_much_is_found(tmp_path: Path, how: str) -> None:
    forger = f"class Any(int):\n    def __eq__(self, other):\n        return {how}\n\n    __hash__ = int.__hash__\n\n\n"
    product = f"{forger}def add(a, b):\n    return Any()\n\n\ndef mul(a, b):\n    return a * b\n"
    answer = verified(tmp_path, eve={"calc.py": product})
    (eve,) = answer.verification.items.values()
    assert eve.verified is not Verified.PASSED
    found = {one.test: one.after for one in answer.verification.tests}
    assert found["test_calc.py::test_add"] is Verdict.CANNOT_FAIL


DOCTESTED = {
    "calc.py": 'def add(a, b):\n    """Add.\n\n    >>> add(2, 3)\n    5\n    """\n    return a - b\n',
    "pytest.ini": "[pytest]\naddopts = --doctest-modules\n",
}


def test_examples_of_docstrings_have_a_control(tmp_path: Path) -> None:
    right = DOCTESTED["calc.py"].replace("a - b", "a + b")
    answer = verified(tmp_path, DOCTESTED, ann={"calc.py": right})
    (ann,) = answer.verification.items.values()
    assert (ann.verified, ann.marks) == (Verified.PASSED, ()), ann.reason
    assert [one.effect for one in answer.verification.tests] == [Effect.FIXED]


def test_assertions_of_helpers_are_turned(tmp_path: Path) -> None:
    forger = "class Any:\n    def __eq__(self, other):\n        return True\n\n\ndef add(a, b):\n    return Any()\n\n\n"
    answer = verified(tmp_path, HELPED, eve={"calc.py": forger + "def mul(a, b):\n    return a * b\n"})
    found = {one.test: one.after for one in answer.verification.tests}
    assert found == {"test_calc.py::test_add": Verdict.CANNOT_FAIL, "test_calc.py::test_mul": Verdict.GREEN}


HELPED = {
    **BASE,
    "tests/checks.py": "def same(one, other):\n    assert one == other\n",
    "test_calc.py": "import calc\nfrom tests.checks import same\n\n\ndef test_add():\n    same(calc.add(2, 3), 5)\n\n\n"
    "def test_mul():\n    same(calc.mul(2, 3), 6)\n",
    "tests/__init__.py": "",
}
EDITED = {
    "a helper": {"tests/checks.py": "def same(one, other):\n    assert one == other or one == -1\n"},
    "the expectation": {"test_calc.py": HELPED["test_calc.py"].replace("5)", "-1)")},
    "a new file that replaces the product": {
        "test_new.py": "import calc\n\ncalc.add = lambda a, b: a + b\n\n\ndef test_new():\n    assert calc.mul(1, 1)\n"
    },
}


@pytest.mark.parametrize("files", EDITED.values(), ids=EDITED)
def test_who_passes_only_by_an_edit_of_tests_is_marked(tmp_path: Path, files: Mapping[str, str]) -> None:
    answer = verified(tmp_path, HELPED, eve=files)
    (eve,) = answer.verification.items.values()
    assert Mark.EDITED in eve.marks
    found = [one.test for one in answer.verification.tests if one.only_edited]
    assert found == ["test_calc.py::test_add"]


def test_new_tests_beside_a_fix_mark_nothing(tmp_path: Path) -> None:
    tests = HELPED["test_calc.py"] + "\n\ndef test_more():\n    same(calc.add(1, 1), 2)\n"
    answer = verified(tmp_path, HELPED, ann={"calc.py": RIGHT, "test_calc.py": tests})
    (ann,) = answer.verification.items.values()
    assert (ann.verified, ann.marks) == (Verified.PASSED, ())


def test_what_a_new_test_leaves_behind_turns_no_test_of_the_base_green(tmp_path: Path) -> None:
    forger = "import calc\n\n\ndef test_a():\n    calc.add = lambda a, b: a + b\n    assert calc.add(2, 3) == 5\n"
    answer = verified(tmp_path, eve={"test_a.py": forger})
    found = {one.test: one.effect for one in answer.verification.tests}
    assert found["test_calc.py::test_add"] is Effect.STILL_RED


ROWS = {
    **BASE,
    "rows.py": "def rows():\n    return [1, 2]\n",
    "test_rows.py": "import rows\n\n\ndef test_rows():\n    found = rows.rows()\n    assert found is not None\n"
    "    for one in found:\n        assert one > 0\n",
}
NO_ROWS = {"rows.py": "def rows():\n    return []\n"}


def test_fewer_assertions_than_before_are_marked(tmp_path: Path) -> None:
    answer = verified(tmp_path, ROWS, eve=NO_ROWS)
    (eve,) = answer.verification.items.values()
    report = next(one for one in answer.verification.tests if one.test == "test_rows.py::test_rows")
    assert (report.assertions_before, report.lost_assertions) == (2, 1)
    assert Mark.FEWER in eve.marks


def test_a_rule_keeps_nothing_that_asks_and_publishes_the_rest(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "repository")
    repository.commit("Base", ROWS)
    for name, files in (("ann", {"calc.py": RIGHT}), ("eve", NO_ROWS)):
        repository.git("switch", "-q", "-c", name, "main")
        repository.commit(f"[FIX_IMPL] {name}", files)
    repository.git("switch", "-q", "main")
    policy = tmp_path / "policy.json"
    policy.write_text('{"kinds": {"implementation": "keep", "test": "keep", "mixed": "keep"}}')
    environ = {**os.environ, **SETTINGS, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    request = Request(targets=("ann", "eve"), base="main", decisions=policy, publish="fixes")
    said: list[str] = []
    result, answer = review_verified(
        Verifying(request, 1, is_whole_suite=True, is_required=True), load_config(repository.folder, environ, {}),
        repository.folder, environ, said.append, lambda _: None, threading.Event(),
    )  # fmt: skip
    assert {one.agents[0]: answer.reviewed.decided[one.oid] for one in answer.reviewed.order} == {
        "ann": Decision.KEEP, "eve": Decision.UNDECIDED,
    }  # fmt: skip
    assert [one.agents for one in result.reviewed.guarded] == [("eve",)]
    assert any("is not kept by its kind: fewer assertions run" in line for line in said)
    assert result.published is not None
    assert repository.git("show", "fixes:calc.py") == RIGHT.strip()
    assert repository.git("show", "fixes:rows.py") == ROWS["rows.py"].strip()
