"""Settings of pytest that make tests easier to pass are found, with their lines, and others are not."""

from __future__ import annotations

import pytest

from selftest_core.review.changes.weakened_settings import find_weakened_settings, is_settings_file

INI = """[pytest]
addopts = -q --strict-markers
    --cov-fail-under=90
filterwarnings =
    error
    ignore:old:DeprecationWarning
timeout = 10
xfail_strict = true
testpaths = tests
markers =
    slow: takes long
"""
TOML = """[tool.black]
line-length = 100

[tool.pytest.ini_options]
addopts = ["-q", "--strict-markers"]
filterwarnings = ["error", "ignore:old:DeprecationWarning"]
timeout = 10
xfail_strict = true
testpaths = ["tests"]
"""


@pytest.mark.parametrize(
    ("old", "new", "what", "text"),
    [
        ("-q --strict", "-q --deselect tests/test_a.py::test_it --strict", "an option leaves tests out", "--deselect"),
        ("-q --strict", "-q -k 'not slow' --strict", "an option leaves tests out", "-k"),
        ("-q --strict", "-q --reruns=3 --strict", "an option hides failures, or changes how tests run", "--reruns"),
        ("-q --strict", "-q -o xfail_strict=no --strict", "an option hides failures, or changes how tests run", "-o"),
        ("-q --strict", "-q -W ignore --strict", "warnings are ignored", "-W"),
        (" --strict-markers", "", "an option that makes pytest stricter is removed or changed", "--strict-markers"),
        ("under=90", "under=10", "an option that makes pytest stricter is removed or changed", "under=90"),
        ("    error\n", "", "warnings are errors no more", "error"),
        ("    error\n", "    error\n    ignore\n", "warnings are ignored", "ignore"),
        ("timeout = 10", "timeout = 600", "the limit timeout is raised or removed", "timeout = 600"),
        ("timeout = 10\n", "", "the limit timeout is raised or removed", "timeout = 10"),
        ("timeout = 10\n", "timeout = 10\nreruns = 2\n", "the limit reruns is raised or removed", "reruns = 2"),
        ("strict = true", "strict = false", "xfail_strict is off", "xfail_strict = false"),
        ("xfail_strict = true\n", "", "xfail_strict is off", "xfail_strict = true"),
        ("testpaths = tests", "testpaths = tests/unit", "testpaths is changed: it chooses tests", "tests/unit"),
    ],
)
@pytest.mark.parametrize("name", ["pytest.ini", "setup.cfg", "sub/tox.ini"])
def test_a_setting_that_is_weaker_is_found_with_its_line(name: str, old: str, new: str, what: str, text: str) -> None:
    whole = INI.replace("[pytest]", "[tool:pytest]") if name == "setup.cfg" else INI
    assert old in whole
    (found,) = find_weakened_settings({name: (whole, whole.replace(old, new, 1))})
    assert (found.path, found.what) == (name, what)
    assert text in found.text or text in found.old_text, (found.text, found.old_text)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"-q"', '"-q", "--ignore=tests/test_a.py"', "an option leaves tests out"),
        ('"error", ', "", "warnings are errors no more"),
        ("timeout = 10", "timeout = 0", "the limit timeout is raised or removed"),
        ("strict = true", "strict = false", "xfail_strict is off"),
        ('["tests"]', '["tests/unit"]', "testpaths is changed: it chooses tests"),
        ("[tool.pytest.ini_options]", "[tool.pytest.ini_options", "cannot be read any more"),
    ],
)
def test_pyproject_is_read_too(old: str, new: str, what: str) -> None:
    (found,) = find_weakened_settings({"pyproject.toml": (TOML, TOML.replace(old, new, 1))})
    assert found.what == what


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("timeout = 10", "timeout = 5"), ("-q", "-v"), ("-q --strict", "-q --strict-config --strict"),
        ("    slow: takes long\n", "    slow: takes long\n    quick: does not\n"), ("-q ", ""),
        ("    ignore:old:DeprecationWarning\n", ""), ("timeout = 10\n", "timeout = 10\nsession_timeout = 60\n"),
        ("error\n", "error\n    error::ResourceWarning\n"), ("[pytest]", "[pytest] # ours"),
    ],
)  # fmt: skip
def test_what_is_no_weaker_is_not(old: str, new: str) -> None:
    assert old in INI
    assert find_weakened_settings({"pytest.ini": (INI, INI.replace(old, new, 1))}) == ()


def test_other_files_of_the_same_names() -> None:
    black = "[tool.black]\nline-length = 100\n"
    assert find_weakened_settings({"pyproject.toml": (black, black.replace("100", "120"))}) == ()
    assert find_weakened_settings({"pyproject.toml": (None, "[tool.pytest]\nstrict = true\n")}) == ()
    (found,) = find_weakened_settings({"pytest.ini": (None, "[pytest]\nminversion = 7\n")})
    assert found.what == "settings of pytest in other files count no more"
    gone = find_weakened_settings({"pytest.ini": (INI, None)})
    assert {one.what for one in gone} >= {"xfail_strict is off", "warnings are errors no more"}
    assert all(one.was_deleted for one in gone)
    assert is_settings_file("a/pyproject.toml")
    assert not is_settings_file("a/my-pyproject.toml")
