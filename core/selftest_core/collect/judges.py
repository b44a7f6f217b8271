"""Files that decide how tests are run: what pytest, Python or an installed plugin loads without being asked by a test.

A change of one asks a person: no rule keeps it, and its tests are marked as judged by itself. Found by name and place,
since what such a file does cannot be read off it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from selftest_core.collect.hostile_text import UnreadableError, read_ini, read_toml

if TYPE_CHECKING:
    from collections.abc import Callable

_ALWAYS = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"})
_SECTIONS = {"tox.ini": ("pytest",), "setup.cfg": ("tool:pytest", "options.entry_points")}
_CUSTOMIZE = frozenset({"sitecustomize", "usercustomize"})
_COMPILED = (".pyc", ".pyo", ".so", ".pyd")
_INSTALLED = (".dist-info", ".egg-info")
_ROOTS = frozenset({"", "src", "lib", "python", "test", "tests"})
"""Folders from which tests import, beside that of each test."""
_RUNNERS = frozenset(
    {
        "pytest", "_pytest", "pluggy", "py", "iniconfig", "packaging", "exceptiongroup", "xdist", "hypothesis", "mock",
        "coverage", "anyio", "django", "nose", "tox",
    }
)  # fmt: skip
"""Modules that run tests, or are loaded with pytest."""
CHANGES_JUDGE = "changes how tests are run"


def decides_tests(path: str, before: Callable[[], str | None], after: Callable[[], str | None]) -> bool:
    """True where a change of this file can change how tests are run.

    `before`, `after`: give its text, None where there is no such file, or none that can be read.
    """
    *folders, name = path.casefold().split("/")  # a file system may fold case
    stem = name.removesuffix(".py")
    if name in _ALWAYS or name.endswith((*_COMPILED, ".pth")) or any(one.endswith(_INSTALLED) for one in folders):
        return True
    if name in _SECTIONS or name == "pyproject.toml":
        read = _toml_of if name == "pyproject.toml" else _ini_of(_SECTIONS[name])
        return read(before()) != read(after())
    if not _CUSTOMIZE.isdisjoint((stem, *folders)):
        return True
    if name == "__init__.py" and (not folders or not {"test", "tests"}.isdisjoint(folders)):
        return (before() or "").strip() != (after() or "").strip()
    return _takes_place(folders, name) and before() is None


def _takes_place(folders: list[str], name: str) -> bool:
    """True for a module, where tests import from, that has the name of one which Python or pytest need."""
    if not name.endswith(".py"):
        return False
    parts = [*folders, name.removesuffix(".py")]
    for place in range(min(len(parts), 3)):
        above = parts[place - 1] if place else ""
        if above not in _ROOTS:
            return False
        module = parts[place]
        if module in _RUNNERS or module in _STANDARD or module.startswith("pytest_"):
            return True
    return False


_STANDARD = frozenset(
    name for name in sys.stdlib_module_names if name not in ("test", "__main__", "this", "antigravity")
)


def _toml_of(text: str | None) -> object:
    """The parts of a pyproject.toml that decide: pytest's own, entry points, and what builds the project."""
    if text is None:
        return [None, None, None]
    try:
        whole = read_toml(text)
    except UnreadableError:
        return text
    tool, project, build = (whole.get(name) for name in ("tool", "project", "build-system"))
    return [
        tool.get("pytest") if isinstance(tool, dict) else tool,
        project.get("entry-points") if isinstance(project, dict) else project,
        build.get("backend-path") if isinstance(build, dict) else build,
    ]


def _ini_of(sections: tuple[str, ...]) -> Callable[[str | None], object]:
    def read(text: str | None) -> object:
        try:
            parser = read_ini(text or "")
        except UnreadableError:
            return text
        return {name: dict(parser[name]) for name in sections if parser.has_section(name)}

    return read
