"""A repository of a shop, and the tests of it that a change affects."""

from __future__ import annotations

import ast
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.collect.affected import affected, affected_by_each
from selftest_core.collect.collection import CollectedTest, Collection
from selftest_core.git.command import Git, find_place
from selftest_core.tutorial.citations import Citation, each_test, read_tests

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.collect.affected import AffectedTests

FILES = {
    "tutorial.sh": "#!/bin/sh\n\nshop add apple\nshop pay\n\nshop list\n",
    "src/shop/__init__.py": "",
    "src/shop/cart.py": "def add(): ...\n",
    "src/shop/till.py": "from shop import cart\n",
    "src/shop/types.py": "",
    "tests/conftest.py": "",
    "tests/making.py": "",
    "tests/test_cart.py": "from shop.cart import add\n\ndef test_add(): ...\n\ndef test_remove(): ...\n",
    "tests/test_till.py": "import types\nimport making\n\ndef test_pay():\n    from shop import till\n",
    "tests/cli/conftest.py": "",
    "tests/cli/__init__.py": "",
    "tests/cli/support.py": "",
    "tests/cli/test_cli.py": (
        "from .support import run\n\n"
        "def test_buy(e2e):\n    e2e.write_tutorial_block('''shop add apple\nshop pay''')\n\n"
        "def test_list(e2e):\n    e2e.write_tutorial_block('shop list')\n"
    ),
    "tests/cli/test_plugin.py": "import pytest\nshop = pytest.importorskip('shop.cart')\n\ndef test_plugin(): ...\n",
}
ALL = {
    "tests/test_cart.py::test_add", "tests/test_cart.py::test_remove", "tests/test_till.py::test_pay",
    "tests/cli/test_cli.py::test_buy", "tests/cli/test_cli.py::test_list", "tests/cli/test_plugin.py::test_plugin",
}  # fmt: skip


def asked(folder: Path, base: str = "base") -> AffectedTests:
    """The affected tests, with every test below tests/ as the collection."""
    tests: list[CollectedTest] = []
    citations: list[Citation] = []
    for path in sorted(folder.rglob("test_*.py")):
        name = path.relative_to(folder).as_posix()
        source = path.read_text(encoding="utf-8")
        citations += read_tests(source, name).citations
        for classes, test in each_test(ast.parse(source).body):
            node_id = "::".join((name, *classes, test.name))
            tests.append(CollectedTest(node_id, name, 1, test.name, "::".join(classes), "", False, ()))
    git = Git(find_place(folder, os.environ).git_dir, os.environ)
    found = affected(folder, base, Collection(tuple(tests)), citations, git)
    # The same tests where several commits are asked for at once.
    oids = dict.fromkeys((git.resolve("HEAD"), git.resolve(base)))
    each = affected_by_each(folder, tuple(oids), Collection(tuple(tests)), citations, git)[git.resolve(base)]
    assert [one.test for one in each.tests] == [one.test for one in found.tests]
    picked = {test for test, _ in found.tests}
    assert [test for test, _ in found.tests] == [test for test in tests if test in picked]
    return found


def picked(folder: Path, base: str = "base") -> dict[str, tuple[str, ...]]:
    """Node ids and reasons."""
    return {test.node_id: reasons for test, reasons in asked(folder, base).tests}


def write(folder: Path, name: str, text: str) -> None:
    path = folder.joinpath(*PurePosixPath(name).parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
