"""The programs that a project installs, and the files that they use; of our own project too."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import pytest

from selftest_core.collect.entry_points import entry_points
from selftest_core.collect.import_graph import ImportGraph
from selftest_core.collect.imports import parsed
from selftest_core.collect.programs_of_tests import ProgramFinder
from selftest_core.tutorial.citations import each_test, read_tests
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SHOP = {"src/shop/__init__.py": "", "src/shop/cli.py": "", "src/shop/till.py": ""}
SETUP_PY = "from setuptools import setup\nsetup(entry_points={'console_scripts': ['shop = shop.cli:main', f'x{1}=']})\n"


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("pyproject.toml", "[project.scripts]\nshop = 'shop.cli:main'\n[project.gui-scripts]\nwin = 'shop.till:run'\n",
         {"shop": "src/shop/cli.py", "win": "src/shop/till.py"}),
        ("pyproject.toml", "[tool.poetry.scripts]\nshop = {reference = 'shop.cli:main', type = 'console'}\n",
         {"shop": "src/shop/cli.py"}),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n  shop = shop.cli:main [fast]\n  till=shop.till:x\n",
         {"shop": "src/shop/cli.py", "till": "src/shop/till.py"}),
        ("parts/one/setup.py", SETUP_PY, {"shop": "src/shop/cli.py"}),
        ("pyproject.toml", "[project.scripts]\nelse = 'other.cli:main'\nodd = 7\n", {}),
        ("pyproject.toml", "[project]\nscripts = 'shop'\n", {}),
        ("pyproject.toml", "[project.scripts\n", {}),
        ("setup.cfg", "no section\n", {}),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts = %(there)s\n", {}),
        ("setup.py", "setup(\n", {}),
        ("setup.py", "\0", {}),
        ("setup.py", f"x = 'shop = shop{' ' * 5_000}: x y'\n", {}),  # which took a pattern hours
    ],
)  # fmt: skip
def test_programs_and_the_files_in_which_they_start(
    tmp_path: Path, path: str, text: str, names: dict[str, str]
) -> None:
    for name, content in {**SHOP, path: text}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)

    found = entry_points(ImportGraph(tmp_path, (*SHOP, path)))

    assert found == {name: (file,) for name, file in names.items()}


def test_a_link_to_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "setup.cfg").symlink_to(tmp_path / "pipe")
    assert entry_points(ImportGraph(tmp_path, ("setup.cfg",))) == {}


def test_expressions_and_chains_of_any_depth_are_read(tmp_path: Path) -> None:
    parts = " / ".join(f"'{number}'" for number in range(3_000))
    branches = "".join(f"elif x == {number}:\n    def test_{number}(): ...\n" for number in range(3_000))
    text = f"def test_a():\n    run([HERE / {parts} / 'shop', 'list'])\n\n\nif x:\n    pass\n{branches}"
    (tmp_path / "test_a.py").write_text(text)
    (tmp_path / "shop.py").write_text("")
    finder = ProgramFinder(ImportGraph(tmp_path, ("test_a.py", "shop.py")), {"shop": ("shop.py",)}, [])

    (own,) = finder.programs_of("test_a.py", "test_a.py::test_a")
    assert (own.starts, own.word) == (("shop.py",), "list")
    assert len(list(each_test(parsed(text).body))) == 3_001


@pytest.mark.slow
def test_a_changed_product_file_of_ours_affects_the_tests_of_the_tutorial() -> None:
    folders = ("core", "recorder", "tui", "tests/e2e")
    files = [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    graph = ImportGraph(ROOT, (*files, "pyproject.toml"))
    citations = [
        one for path in files if path.startswith("tests/e2e/") for one in read_tests(graph.text(path), path).citations
    ]
    finder = ProgramFinder(graph, entry_points(graph), citations)

    reach = functools.cache(graph.reach)

    def affected_by(changed: str) -> set[str]:
        return {
            one.test
            for one in citations
            if any(changed in reach(own.starts, own.word) for own in finder.programs_of(one.path, one.test))
        }

    every = {one.test for one in citations}
    assert affected_by("core/selftest_core/errors.py") == every
    # The module of one command: its own tests, and some that use it on the way.
    searching = affected_by("tui/selftest_tui/cli/evidence/search.py")
    assert {test for test in every if "test_tutorial_search" in test} <= searching
    assert len(searching) < len(every) / 2
