"""Both ways: every block cited, every citation a block."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from selftest_core.check import check
from selftest_core.citations import Citation
from selftest_core.coverage import cover
from selftest_core.errors import UsageError
from selftest_core.tutorial import parse_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.coverage import Coverage

TUTORIAL = """\
#!/bin/bash
set -eu

# Begin

mngr create one
  mngr list

mngr destroy one
"""


def covered(*texts: str) -> Coverage:
    citations = [Citation(f"t.py::test_{n}", "t.py", n, text) for n, text in enumerate(texts)]
    return cover(parse_blocks(TUTORIAL).blocks, citations)


def test_a_block_is_cited_when_its_lines_occur_in_order() -> None:
    found = covered("\n   mngr create one\n echo between\n\tmngr list\n", "mngr destroy one")
    assert [cited.tests for cited in found.blocks] == [("t.py::test_0",), ("t.py::test_1",)]
    assert found.is_complete


def test_one_citation_may_cover_several_blocks_and_one_block_have_several_tests() -> None:
    found = covered("mngr create one\nmngr list\nmngr destroy one", "mngr destroy one")
    assert [cited.tests for cited in found.blocks] == [("t.py::test_0",), ("t.py::test_0", "t.py::test_1")]


def test_lines_in_another_order_are_no_citation() -> None:
    found = covered("mngr list\nmngr create one")
    assert [block.line for block in found.uncited] == [6, 9]
    assert [stale.nearest and stale.nearest.line for stale in found.stale] == [6]


def test_a_stale_citation_names_the_block_that_it_drifted_from() -> None:
    (stale,) = covered("mngr create one\nmngr list --all").stale
    assert stale.nearest is not None
    assert stale.nearest.line == 6
    assert stale.similarity is not None
    assert 0.8 < stale.similarity < 1


def test_a_citation_like_nothing_names_no_block() -> None:
    (stale,) = covered("????").stale
    assert (stale.nearest, stale.similarity) == (None, None)


def test_an_empty_citation_is_stale() -> None:
    assert len(covered(" \n ").stale) == 1


def project(folder: Path, tests: dict[str, str], tutorial: str = TUTORIAL) -> Path:
    (folder / "tutorial.sh").write_text(tutorial)
    for name, source in tests.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    return folder


def test_a_project_is_read_from_its_files(tmp_path: Path) -> None:
    source = 'def test_a(e2e):\n    e2e.write_tutorial_block("mngr create one\\nmngr list")\n'
    files = {
        "test_a.py": source, "deep/b_test.py": "def test_b(): ...", "helper.py": source,
        ".venv/test_c.py": source, "node_modules/test_d.py": source, "test_broken.py": "def test_(:",
    }  # fmt: skip
    project(tmp_path, files)
    found = check(tmp_path, tmp_path / "tutorial.sh", tmp_path / "tests")
    assert found.tests == 2
    assert [cited.tests for cited in found.coverage.blocks] == [("tests/test_a.py::test_a",), ()]
    assert [one.path for one in found.unreadable] == ["tests/test_broken.py"]
    assert not found.is_ok


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No tutorial at"):
        check(tmp_path, tmp_path / "tutorial.sh", tmp_path / "tests")
    project(tmp_path, {})
    with pytest.raises(UsageError, match="No tests at"):
        check(tmp_path, tmp_path / "tutorial.sh", tmp_path / "tests")
    project(tmp_path, {"test_a.py": "x = 1\n"})
    with pytest.raises(UsageError, match="No tests in"):
        check(tmp_path, tmp_path / "tutorial.sh", tmp_path / "tests")
