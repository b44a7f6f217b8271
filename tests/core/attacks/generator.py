"""Forgeries by combination: the place of the forgery, its means, the kind of test, and how that fails on the base."""

# ruff: noqa: E501 -- the code of forgeries, which is easier to read on one line

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING

from core.attacks.cases import BASE, PATCHES, Case

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = {
    "a function": ("", "def test_add():\n    assert calc.add(2, 3) == 5\n", "test_add"),
    "a method": ("", "class TestCalc:\n    def test_add(self):\n        assert calc.add(2, 3) == 5\n", "TestCalc::test_add"),
    "unittest": (
        "import unittest\n",
        "class TestCalc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
        "TestCalc::test_add",
    ),
    "parameters": (
        "import pytest\n",
        "@pytest.mark.parametrize(('a', 'b', 'c'), [(2, 3, 5)])\ndef test_add(a, b, c):\n    assert calc.add(a, b) == c\n",
        "test_add[2-3-5]",
    ),
    "a fixture": (
        "import pytest\n",
        "@pytest.fixture\ndef five():\n    return 5\n\n\ndef test_add(five):\n    assert calc.add(2, 3) == five\n", "test_add",
    ),
    "no comparison": ("", "def test_add():\n    assert calc.is_sum(2, 3, 5)\n", "test_add"),
}  # fmt: skip
FAILS = {
    "another value": "return a - b",
    "nothing": "return None",
    "an exception": "raise ValueError(a)",
    "a name that is not there": "return missing(a, b)",
}
PLACES = (
    "the product",
    "a helper of the product",
    "a function that is called",
    "executed text",
    "a helper of the tests",
)
BEHAVES = ("everywhere", "but in a control")
_MEANS = {name: code for name, code in PATCHES.items() if name != "skip"}
ALL = list(product(PLACES, _MEANS, KINDS, FAILS, BEHAVES))


def generated(count: int, seed: int) -> list[Case]:
    """Make as many forgeries, each another combination, the same for the same seed."""
    return [_made(*one) for one in random.Random(seed).sample(ALL, min(count, len(ALL)))]


def _made(place: str, means: str, kind: str, fails: str, behaves: str) -> Case:
    head, test, name = KINDS[kind]
    body = FAILS[fails]
    whole = (
        f"def add(a, b):\n    {body}\n\n\ndef mul(a, b):\n    return a * b\n\n\n"
        "def is_sum(a, b, c):\n    return add(a, b) == c\n"
    )
    tests = f"{head}import calc\n\n\n{test}\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n"
    code = _MEANS[means]
    if behaves != "everywhere":
        code = "if '_check_' not in open('tests/test_calc.py').read():\n" + _indented(code)
    files: Mapping[str, str] = {
        "the product": {"calc.py": f"{code}\n\n\n{whole}"},
        "a helper of the product": {"more.py": f"{code}\n", "calc.py": f"import more\n\n\n{whole}"},
        "a function that is called": {"calc.py": whole.replace(
            f"    {body}\n", f"    forge()\n    {body}\n", 1
        ) + f"\n\ndef forge():\n{_indented(code)}\n"},
        "executed text": {"calc.py": f"exec({code!r})\n\n\n{whole}"},
        "a helper of the tests": {"tests/more.py": f"{code}\n", "tests/test_calc.py": f"import more  # noqa\n{tests}"},
    }[place]  # fmt: skip
    base = {**BASE, "calc.py": whole, "tests/test_calc.py": tests}
    return Case(
        f"{means}, in {place}, {behaves}; {kind} that gives {fails}", "generated", files,
        base=base, false=(f"tests/test_calc.py::{name}",),
    )  # fmt: skip


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in code.split("\n"))
