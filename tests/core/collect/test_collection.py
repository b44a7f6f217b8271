"""Collecting with a real pytest: what exists, what does not import, and every way in which pytest can fail."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.collect import collecting_plugin
from selftest_core.collect.collection import Collection, collect, default_pytest_command
from selftest_core.errors import ToolFailedError, ToolMissingError, ToolTimeoutError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

PYTEST = (sys.executable, "-m", "pytest")
# Each run of pytest costs its start, and most of that is plugins that mean nothing here.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
PATIENCE = 120.0

FILES = {
    # The settings stand in a folder below, so pytest's own ids are relative to that; and they are in the way.
    "tests/pytest.ini": (
        "[pytest]\n"
        "addopts = -q -v -x --tb=no --color=yes -p no:warnings --pdb\n"
        "markers = slow\n"
        "disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true\n"
    ),
    "tests/conftest.py": (
        "print('{\"noise\":')\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items.reverse()\n"
        "    items.extend(item for item in items[:] if item.name == 'test_twice')\n"
    ),
    "tests/test_a.py": (
        "import pytest, unittest\n"
        "print('more noise')\n"
        "\n"
        "@pytest.mark.slow\n"
        "@pytest.mark.parametrize('x', ['a/b', 'c d', 'é ü', '', 'x::[y]'], ids=str)\n"
        "def test_many(x):\n"
        "    'It has a docstring.'\n"
        "\n"
        "class TestOuter:\n"
        "    class TestInner:\n"
        "        def test_method(self): ...\n"
        "\n"
        "class Old(unittest.TestCase):\n"
        "    def test_old(self): ...\n"
        "\n"
        "def test_twice(): ...\n"
    ),
    "tests/test_broken.py": "import not_there_at_all\n\ndef test_never(): ...\n",
    "tests/test_exits.py": "import sys\nsys.exit(3)\n",
    "tests/test_skips.py": "import pytest\npytest.skip('not on this machine', allow_module_level=True)\n",
    "tests/test_syntax.py": "def test_never(:\n",
    "tests/test_ünïcode name.py": "def test_é(): ...\n",
    "dying/test_dies.py": "import os\nos._exit(7)\n",
    "hanging/test_hangs.py": "import threading\nthreading.Event().wait()\n",
    "stopping/test_stops.py": "raise KeyboardInterrupt('the ground is bad')\n",
}


def listing(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("a project")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def collection(project: Path) -> Collection:
    before = listing(project)
    found = asyncio.run(collect(project, ["tests"], PYTEST, [], ENVIRONMENT, PATIENCE))
    assert listing(project) == before, "collecting writes nothing into the project"
    return found


def collecting(
    project: Path, *tests: str, command: Sequence[str] = PYTEST, args: Sequence[str] = (), timeout: float = PATIENCE
) -> Collection:
    return asyncio.run(collect(project, tests, command, args, ENVIRONMENT, timeout))


def test_ids_are_relative_to_the_folder_and_in_the_order_of_the_files(collection: Collection) -> None:
    many = "tests/test_a.py::test_many"
    assert [test.node_id for test in collection.tests] == [
        *(f"{many}[{one}]" for one in ("a/b", "c d", "é ü", "", "x::[y]")),
        "tests/test_a.py::TestOuter::TestInner::test_method",
        "tests/test_a.py::Old::test_old",
        "tests/test_a.py::test_twice",
        "tests/test_ünïcode name.py::test_é",
    ]
    assert {test.without_parameters for test in collection.tests[:5]} == {many}
    assert [test.without_parameters for test in collection.tests[5:]] == [t.node_id for t in collection.tests[5:]]


def test_each_test_is_described(collection: Collection) -> None:
    many, method = collection.tests[4], collection.tests[5]
    assert (many.file, many.function, many.class_name) == ("tests/test_a.py", "test_many", "")
    assert (many.parameters, many.has_docstring, many.markers) == ("x::[y]", True, ("parametrize", "slow"))
    assert (method.class_name, method.parameters, method.has_docstring) == ("TestOuter::TestInner", "", False)
    assert (method.line, method.markers) == (11, ())


def test_what_does_not_import_is_told_file_by_file_and_hides_nothing_else(collection: Collection) -> None:
    errors = {error.path: error for error in collection.errors}
    assert set(errors) == {
        "tests/test_broken.py", "tests/test_exits.py", "tests/test_syntax.py", "tests/test_a.py",
    }  # fmt: skip
    broken = errors["tests/test_broken.py"]
    assert broken.message == "ModuleNotFoundError: No module named 'not_there_at_all'"
    assert "import not_there_at_all" in broken.traceback
    assert errors["tests/test_syntax.py"].message.startswith("SyntaxError: ")
    assert errors["tests/test_exits.py"].message.startswith("SystemExit: 3")
    assert [(skip.path, skip.message) for skip in collection.skipped] == [
        ("tests/test_skips.py", "Skipped: not on this machine")
    ]


def test_an_id_that_is_there_twice_is_one_test_and_an_error(collection: Collection) -> None:
    assert [error.message for error in collection.errors if error.path == "tests/test_a.py"] == [
        "2 tests have the id tests/test_a.py::test_twice: only one of them can be run"
    ]


def test_an_id_finds_its_test_again_and_arguments_reach_pytest(project: Path, collection: Collection) -> None:
    ids = [test.node_id for test in collection.tests]
    assert [test.node_id for test in collecting(project, *ids[2:5]).tests] == ids[2:5]
    found = collecting(project, "tests/test_a.py", args=["-k", "test_many", "--deselect", f"{ids[0]}"])
    assert found.deselected == 9 - 2 - 4 + 1
    assert {test.function for test in found.tests} == {"test_many"}


def test_no_tests_is_an_error_that_says_why(project: Path) -> None:
    with pytest.raises(UsageError, match="No tests were collected: the arguments leave out all 9") as caught:
        collecting(project, "tests/test_a.py", args=["-k", "nothing_like_it"])
    assert "(9 deselected)" in caught.value.detail, "with what pytest said"
    assert "\x1b" not in caught.value.detail
    with pytest.raises(UsageError, match="No tests were collected: 1 file could not be read") as caught:
        collecting(project, "tests/test_broken.py", "tests/test_skips.py")
    assert "test_broken.py: ModuleNotFoundError: No module named 'not_there_at_all'" in caught.value.detail
    assert "test_skips.py: Skipped: not on this machine" in caught.value.detail


def test_arguments_that_pytest_refuses(project: Path) -> None:
    with pytest.raises(UsageError, match="--no-such-option"):
        collecting(project, "tests", args=["--no-such-option"])
    with pytest.raises(UsageError, match=r"not found: tests/test_gone\.py") as caught:
        collecting(project, "tests/test_gone.py", "tests/test_a.py")
    assert "--collect-only" in caught.value.hint


def test_a_pytest_that_dies_or_is_stopped_names_where(project: Path) -> None:
    with pytest.raises(ToolFailedError, match=r"status 7 while it collected dying/test_dies\.py"):
        collecting(project, "dying")
    with pytest.raises(ToolFailedError, match="the ground is bad"):
        collecting(project, "stopping")


def test_a_pytest_that_hangs_is_ended_at_the_deadline(project: Path) -> None:
    for timeout in (2, 10, 50, 250):  # a busy machine may not have come to the file by then
        with pytest.raises(ToolTimeoutError, match=f"had not collected the tests within {timeout} s") as caught:
            collecting(project, "hanging", timeout=timeout)
        if "test_hangs" in caught.value.detail:
            break
    assert caught.value.detail.startswith("It was collecting hanging/test_hangs.py.")


def test_a_pytest_that_is_not_there(project: Path) -> None:
    with pytest.raises(ToolMissingError, match="pytest_command"):
        collecting(project, command=["no-such-pytest"])
    with pytest.raises(ToolMissingError, match=r"nope/bin/python"):
        collecting(project, command=["nope/bin/python", "-m", "pytest"])
    with pytest.raises(ToolMissingError, match="pytest is not installed for this project"):
        collecting(project, command=[sys.executable, "-S", "-m", "pytest"])
    with pytest.raises(ToolFailedError, match="PYTHONPATH"):
        collecting(project, command=[sys.executable, "-I", "-m", "pytest"])


def test_the_projects_own_interpreter_comes_first(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path / "bin")}
    assert default_pytest_command(tmp_path, environ) == PYTEST
    for name in ("bin/pytest", ".venv/bin/python"):
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
        expected = (str(program),) if name == "bin/pytest" else (str(program), "-m", "pytest")
        assert default_pytest_command(tmp_path, environ) == expected


def test_the_plugin_runs_in_an_old_project_without_us() -> None:
    tree = ast.parse(Path(collecting_plugin.__file__).read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "json", "os", "pathlib", "typing"}
    # Syntax is not all: these came after 3.8.
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert called.isdisjoint({"removeprefix", "removesuffix", "is_relative_to", "with_stem", "readlink", "hardlink_to"})
