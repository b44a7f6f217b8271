"""Ownership of tests by a change: its agents' tests, those that it adds or edits, and those that it affects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.git.command import Git
from selftest_core.review.changes.plan import make_plan, resolve_branches
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import Evidence
from selftest_core.verify.ownership import changes_judge, files_with_tests, find_owned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.verify.ownership import Owned

BASE = {
    "shop/__init__.py": "",
    "shop/tax.py": "RATE = 1\n",
    "shop/cart.py": "from shop import tax\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-q'\n",
    "tests/test_tax.py": (
        "from shop.tax import RATE\n\ndef test_a():\n    assert RATE\n\ndef test_b():\n    assert RATE\n\n"
        "class TestIt:\n    def test_c(self):\n        pass\n\n    def test_d(self):\n        pass\n"
    ),
    "tests/test_cart.py": "import shop.cart\n\ndef test_cart():\n    pass\n",
}
COLLECTED = (
    "tests/test_tax.py::test_a[1]", "tests/test_tax.py::test_a[2]", "tests/test_tax.py::test_b",
    "tests/test_tax.py::TestIt::test_c", "tests/test_tax.py::TestIt::test_d", "tests/test_cart.py::test_cart",
    "tests/test_new.py::test_new",
)  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "r")
    made.commit("Start", BASE)
    made.git("checkout", "-q", "-b", "ada")
    return made


def owned(
    repository: Repository, files: Mapping[str, str | None], evidence: Mapping[str, Evidence] | None = None
) -> tuple[Owned, list[str], tuple[str, ...]]:
    """Return the tests of ada's change, the test files that matter, and the changed files of its judge."""
    repository.commit("[FIX_IMPL] Mend", dict(files), "ada")
    with Engine.open(repository.folder.parent / "engine.git", repository.folder / ".git", os.environ) as engine:
        user = Git(repository.folder / ".git", os.environ)
        plan = make_plan(engine.store, resolve_branches(user, "main", ["ada"]))
        changes = plan.changes
        (found,) = find_owned(engine.store, changes, evidence or {}, COLLECTED, repository.folder).values()
        looked_at = list(files_with_tests(changes, evidence or {}, repository.folder))
        return found, looked_at, changes_judge(engine.store, changes[0])


def test_an_edited_function_with_all_its_parameters(repository: Repository) -> None:
    text = BASE["tests/test_tax.py"].replace("def test_a():\n    assert RATE", "def test_a():\n    assert RATE == 1")
    found, files, _ = owned(repository, {"tests/test_tax.py": text})
    assert found.own == ("tests/test_tax.py::test_a[1]", "tests/test_tax.py::test_a[2]")
    assert files == ["tests/test_tax.py"]


def test_tests_of_agents_that_said_the_same_are_owned_and_their_claims_are_not(repository: Repository) -> None:
    repository.commit("[FIX_IMPL] Mend", {"shop/tax.py": "RATE = 2\n"}, "ada")
    told = {"ada": Evidence(tests=((COLLECTED[2], True),)), "bob": Evidence(tests=((COLLECTED[5], True),))}
    with Engine.open(repository.folder.parent / "engine.git", repository.folder / ".git", os.environ) as engine:
        user = Git(repository.folder / ".git", os.environ)
        (change,) = make_plan(engine.store, resolve_branches(user, "main", ["ada"])).changes
        owned = find_owned(engine.store, [change], told, COLLECTED, repository.folder, {change.oid: ["bob"]})
    assert owned[change.oid].own == (COLLECTED[2], COLLECTED[5])
    assert owned[change.oid].claimed == {COLLECTED[2]: True}


def test_an_edited_method(repository: Repository) -> None:
    text = BASE["tests/test_tax.py"].replace("test_d(self):\n        pass", "test_d(self):\n        assert 1")
    assert owned(repository, {"tests/test_tax.py": text})[0].own == ("tests/test_tax.py::TestIt::test_d",)


def test_a_fixture_of_a_class_edits_its_tests(repository: Repository) -> None:
    text = BASE["tests/test_tax.py"].replace("class TestIt:\n", "class TestIt:\n    value = 1\n\n")
    found, _, _ = owned(repository, {"tests/test_tax.py": text})
    assert found.own == ("tests/test_tax.py::TestIt::test_c", "tests/test_tax.py::TestIt::test_d")


def test_a_helper_edits_every_test_of_its_file(repository: Repository) -> None:
    text = BASE["tests/test_tax.py"] + "\ndef helper():\n    pass\n"
    assert len(owned(repository, {"tests/test_tax.py": text})[0].own) == 5


@pytest.mark.parametrize("text", ["# a comment\n", "\n\n\n", '"""A docstring."""\n'])
def test_a_comment_edits_nothing(repository: Repository, text: str) -> None:
    found, _, _ = owned(repository, {"tests/test_tax.py": text + BASE["tests/test_tax.py"]})
    assert found.own == ()


def test_a_new_file(repository: Repository) -> None:
    found, _, _ = owned(repository, {"tests/test_new.py": "def test_new():\n    pass\n"})
    assert found.own == ("tests/test_new.py::test_new",)


def test_a_file_that_is_no_python_is_edited_whole(repository: Repository) -> None:
    found, _, _ = owned(repository, {"tests/test_tax.py": "def broken(:\n"})
    assert len(found.own) == 5


def test_the_tests_of_its_agents_with_their_claims(repository: Repository) -> None:
    evidence = {"ada": Evidence(tests=(("tests/test_cart.py::test_cart", True), ("tests/test_gone.py::test_x", None)))}
    found, files, _ = owned(repository, {"shop/tax.py": "RATE = 2\n"}, evidence)
    assert found.own == ("tests/test_cart.py::test_cart", "tests/test_gone.py::test_x")
    assert found.claimed == {"tests/test_cart.py::test_cart": True, "tests/test_gone.py::test_x": None}
    assert files == ["tests/test_cart.py", "tests/test_tax.py"]


def test_what_imports_a_changed_module_is_affected(repository: Repository) -> None:
    found, files, _ = owned(repository, {"shop/tax.py": "RATE = 2\n"})
    assert (found.own, len(found.affected), files) == ((), 5, ["tests/test_tax.py"])


def test_a_documentation_affects_nothing(repository: Repository) -> None:
    found, files, _ = owned(repository, {"README.md": "x\n"})
    assert (found.own, found.affected, files) == ((), (), [])


@pytest.mark.parametrize(
    ("files", "judge"),
    [
        ({"tests/conftest.py": ""}, ("tests/conftest.py",)),
        ({"sitecustomize.py": ""}, ("sitecustomize.py",)),
        ({"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-q -p no:randomly'\n"}, ("pyproject.toml",)),
        ({"pyproject.toml": BASE["pyproject.toml"] + "[project]\nname = 'shop'\n"}, ()),
        ({"pyproject.toml": "no toml ["}, ("pyproject.toml",)),
        ({"shop/tax.py": "RATE = 3\n"}, ()),
    ],
)
def test_a_change_of_its_own_judge(repository: Repository, files: dict[str, str], judge: tuple[str, ...]) -> None:
    assert owned(repository, files)[2] == judge
