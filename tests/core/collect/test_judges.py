"""Files that decide how tests are run, by their name and place."""

from __future__ import annotations

import pytest

from selftest_core.collect.judges import decides_tests


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py", "tests/conftest.py", "Conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml",
        "sitecustomize.py", "usercustomize/__init__.py", "odd.pth", "x.dist-info/entry_points.txt",
        "x.egg-info/PKG-INFO", "calc.so", "__pycache__/calc.cpython-313.pyc", "calc.pyd", "pytest.py",
        "pytest/__init__.py", "_pytest/python.py", "src/json.py", "tests/unittest.py", "pytest_extra.py",
        "pluggy.py", "__init__.py", "tests/__init__.py", "src/shop/tests/__init__.py",
        "tests/logging/__init__.py",
    ],
)  # fmt: skip
def test_a_new_one_decides(path: str) -> None:
    assert decides_tests(path, lambda: None, lambda: "import pytest\n")
    assert decides_tests(path.upper(), lambda: None, lambda: "import pytest\n")


@pytest.mark.parametrize(
    "path",
    ["shop/cart.py", "src/shop/logging.py", "tests/test_json.py", "shop/__init__.py", "tests/helpers.py", "a.md"],
)
def test_others_do_not(path: str) -> None:
    assert not decides_tests(path, lambda: None, lambda: "import pytest\n")


def test_an_empty_package_of_tests_does_not() -> None:
    assert not decides_tests("tests/__init__.py", lambda: None, lambda: "")


@pytest.mark.parametrize(
    ("path", "before", "after", "decides"),
    [
        ("pyproject.toml", '[project]\nname = "a"\n', '[project]\nname = "b"\n', False),
        ("pyproject.toml", "", '[tool.pytest.ini_options]\naddopts = "-p planted"\n', True),
        ("pyproject.toml", "", '[project.entry-points.pytest11]\nx = "planted"\n', True),
        ("pyproject.toml", "", '[build-system]\nbackend-path = ["."]\n', True),
        ("pyproject.toml", "", "[" * 5000, True),
        ("pyproject.toml", "", "tool = 1\n", True),
        ("setup.cfg", "[metadata]\nname = a\n", "[metadata]\nname = b\n", False),
        ("setup.cfg", "", "[tool:pytest]\naddopts = -p planted\n", True),
        ("tox.ini", "", "[pytest]\naddopts = -p planted\n", True),
        ("tox.ini", "", "no section\n", True),
    ],
)
def test_settings_decide_where_pytests_part_changes(path: str, before: str, after: str, decides: bool) -> None:
    assert decides_tests(path, lambda: before, lambda: after) is decides
