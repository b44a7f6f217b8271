"""A review in which three agents wrote the same fixture in three texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.review.repositories import Repository
from selftest_core.review.changes.inputs import Request

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST = "conftest.py"
FIXTURE = """import pytest


@pytest.fixture{}
def home(tmp_path):
    {name} = tmp_path / 'home'
    {name}.mkdir()
    return {name}
"""
TEXTS = {
    "ada": FIXTURE.format("", name="folder"),
    "bob": FIXTURE.format("()", name="place"),
    "eve": FIXTURE.format("", name="spot"),
}
ONE = "import pytest\n\n\n@pytest.fixture\ndef home(tmp_path):\n    return tmp_path\n"
"""The smallest of all, which would be chosen where nobody chose."""
REQUEST = Request(("ada", "bob", "eve"), base="main")


def make_fixtures(folder: Path) -> Repository:
    """Three agents that each wrote the same fixture, and a test that uses it."""
    repository = Repository.make(folder)
    repository.commit("Start", {"README.md": "x\n"})
    for agent, text in TEXTS.items():
        repository.git("checkout", "-q", "-b", agent, "main")
        repository.commit("[FIX_TEST] Give tests a home", {CONFTEST: text}, agent)
        test = f"def test_{agent}(home):\n    assert not list(home.iterdir())\n"
        repository.commit(f"[CREATE_TEST] Test of {agent}", {f"tests/test_{agent}.py": test}, agent)
    repository.git("checkout", "-q", "main")
    return repository
