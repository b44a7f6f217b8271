"""Both ways: every block cited, every citation a block."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING

import pytest

from selftest_core.errors import UsageError
from selftest_core.tutorial.check import Checker, check
from selftest_core.tutorial.citations import Citation
from selftest_core.tutorial.coverage import cover
from selftest_core.tutorial.tutorial import parse_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.tutorial.coverage import Coverage

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


def test_of_many_blocks_the_nearest_is_found_by_its_rarest_words() -> None:
    blocks = [f"# Make it.\ntool make --name n{number}\ntool list --json" for number in range(500)]
    tutorial = "\n\n".join(blocks)
    citations = [
        Citation("t.py::test_a", "t.py", 1, blocks[321].replace("list", "show")),
        Citation("t.py::test_b", "t.py", 2, "entirely otherwise"),
        Citation("t.py::test_c", "t.py", 3, "# Make it.\ntool make --name other\ntool list"),
    ]
    first, second, third = cover(parse_blocks(tutorial).blocks, citations).stale
    assert first.nearest is not None
    assert first.nearest.text == blocks[321]
    assert second.nearest is None
    assert third.nearest is not None, "words that all blocks have are better than nothing"


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


def test_a_tutorial_without_a_block_is_warned_of(tmp_path: Path) -> None:
    project(tmp_path, {"test_a.py": "def test_a(): ...\n"}, "#!/bin/sh\n\n# Only words\n")
    found = check(tmp_path, tmp_path / "tutorial.sh", tmp_path / "tests")
    assert found.is_ok
    assert [warning.line for warning in found.tutorial.warnings] == [1]


def test_what_only_looks_like_a_test_file_is_left_alone(tmp_path: Path) -> None:
    project(tmp_path, {"test_a.py": "def test_a(): ...\n"})
    os.mkfifo(tmp_path / "tests" / "test_pipe.py")
    (tmp_path / "tests" / "test_folder.py").mkdir()
    assert check(tmp_path, tmp_path / "tutorial.sh", tmp_path / "tests").tests == 1


def test_a_second_check_sees_what_has_changed(tmp_path: Path) -> None:
    files = {"test_a.py": 'def test_a(e2e):\n    e2e.write_tutorial_block("mngr destroy one")\n', "deep/test_b.py": ""}
    project(tmp_path, files)
    checker = Checker(tmp_path, tmp_path / "tutorial.sh", tmp_path / "tests")
    assert [block.line for block in checker.check().coverage.uncited] == [6]
    source = 'def test_b(e2e):\n    e2e.write_tutorial_block("mngr create one\\nmngr list")\n'
    (tmp_path / "tests" / "deep" / "test_b.py").write_text(source)
    again = checker.check()
    assert again.is_ok
    assert again.tests == 2
    (tmp_path / "tests" / "test_a.py").unlink()
    assert [block.line for block in checker.check().coverage.uncited] == [9]
    assert checker.folders() == (tmp_path, tmp_path / "tests", tmp_path / "tests" / "deep")
