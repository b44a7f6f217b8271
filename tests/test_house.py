"""The rules of the house that no single module can keep: who imports whom, what is locked, what a file may hold."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from worlds import BIN, ROOT

if TYPE_CHECKING:
    from pathlib import Path

ROOMS = {"core": "selftest_core", "recorder": "selftest_recorder", "tui": "selftest_tui"}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.txt").read_text(encoding="utf-8")
MODAL_LOCK = (ROOT / "requirements-modal.txt").read_text(encoding="utf-8")
"""What `.[mngr,claude,codex,modal]` resolves to: the same packages, and those of modal beside them."""


def tracked() -> list[Path]:
    """The files that git knows, and those that it would add; of a copy without git, all that would be."""
    argv = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        names = [ROOT / name for name in done.stdout.split("\0") if name]
    else:
        hidden = {".venv", ".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis"}
        names = [path for path in ROOT.rglob("*") if not hidden.intersection(path.relative_to(ROOT).parts)]
    return sorted(path for path in names if path.is_file())


def own_code() -> list[Path]:
    """The Python files of the three rooms."""
    return [path for room, package in ROOMS.items() for path in (ROOT / room / package).rglob("*.py")]


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    done = subprocess.run([BIN / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: \d+ kept, 0 broken", done.stdout)


def _structure(*packages: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "scripts" / "structure.py"), *map(str, packages)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_no_import_circle_no_crowded_folder_and_nothing_unreferenced() -> None:
    done = _structure()
    assert done.returncode == 0, done.stderr


SAMPLE = {
    "__init__.py": "",
    "first.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sample.second import Used\n"
    "def main() -> None:\n    Used().name()\n",
    "second.py": "from . import third\nfrom .third import helper\nclass Used:\n"
    "    def name(self): return third.LIMIT, helper()\n    def other(self): return self.lonely()\n"
    "    def lonely(self): return self.other()\nclass Unused:\n    def name(self): return Unused\n",
    "third.py": "import sample.first\nLIMIT = 1\nSPARE = 2\ndef helper(): return cast('Shape', LIMIT)\n"
    "def recursive(): return recursive()\nclass Shape: pass\n",
    "many/__init__.py": "",
    **{f"many/part_{number}.py": "" for number in range(16)},
}


def test_the_check_of_the_structure_finds_what_it_is_for(tmp_path: Path) -> None:
    for name, text in SAMPLE.items():
        path = tmp_path / "sample" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = _structure(tmp_path / "sample")
    assert done.stderr.splitlines() == [
        "import circle: sample.first, sample.second, sample.third",
        "more than 15 modules in one folder: sample.many has 16",
        "unreferenced: sample.second:5 Used.other",
        "unreferenced: sample.second:6 Used.lonely",
        "unreferenced: sample.second:7 Unused",
        "unreferenced: sample.third:3 SPARE",
        "unreferenced: sample.third:5 recursive",
    ]
    assert done.returncode == 1


def test_the_whole_core_loads_no_terminal_ui_and_nothing_heavy() -> None:
    modules = sorted(
        ".".join(path.relative_to(ROOT / "core").with_suffix("").parts).removesuffix(".__init__")
        for path in own_code()
        if path.is_relative_to(ROOT / "core") and path.stem != "__main__"
    )
    assert "selftest_core.fleet.view" in modules
    code = f"""
import importlib, sys
for name in {modules!r}: importlib.import_module(name)
print([name for name in ("textual", "rich", "modal", "git", "libtmux", "imbue", "pytest") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_help_loads_neither_textual_nor_pydantic() -> None:
    code = """
import sys
from selftest_tui.cli.main import main
try: main(["--help"])
except SystemExit: pass
print([name for name in ("textual", "rich", "pydantic", "asyncio", "libtmux") if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def test_the_text_that_a_mutant_replaces_stands_once_in_its_file() -> None:
    for mutant in runpy.run_path(str(ROOT / "scripts" / "mutants_of_core.py"))["MUTANTS"]:
        assert (ROOT / mutant.path).read_text().count(mutant.before) == 1, mutant.name
        assert all((ROOT / test).exists() for test in mutant.tests), mutant.name


def test_one_module_starts_programs() -> None:
    starters = {
        str(path.relative_to(ROOT))
        for path in own_code()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and any(name.name == "subprocess" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "subprocess")
        or (isinstance(node, ast.Attribute) and node.attr in ("create_subprocess_exec", "create_subprocess_shell"))
    }
    # What records and what verifies on other hosts runs where nothing else of this project is.
    assert starters == {
        "core/selftest_core/tools/process.py", "core/selftest_core/verify/elsewhere/host_runner.py",
        "recorder/selftest_recorder/onhost/panes.py",
    }  # fmt: skip


def test_scrolling_by_a_key_does_not_wait_for_the_next_frame() -> None:
    """Else of several keys between two frames, as a held key sends them on a busy machine, only the last one counts."""
    waiting = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in own_code()
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "scroll_relative"
        and "immediate" not in {word.arg for word in call.keywords}
    ]
    assert waiting == []


def test_frozen_values_are_made_in_one_way() -> None:
    standard = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    others = [
        str(path.relative_to(ROOT))
        for path in own_code()
        if "@dataclass(frozen=True, slots=True)" in (text := path.read_text(encoding="utf-8")) and standard.search(text)
    ]
    assert others == []


def test_the_version_stands_in_one_place() -> None:
    from selftest_core import __version__

    assert "version" in PROJECT["project"]["dynamic"]
    assert Version(__version__) == Version(_installed("selftest-tui"))
    spellings = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.suffix in (".py", ".toml") and f'"{__version__}"' in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert spellings == ["core/selftest_core/__init__.py"]
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _installed(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def _pins(lock: str = LOCK) -> dict[str, tuple[str, str]]:
    """Each package of a lock: its version, and its whole entry."""
    entries = re.findall(r"^(?=\S)(?!#).*(?:\n[ \t].*)*", lock, re.MULTILINE)
    found: dict[str, tuple[str, str]] = {}
    for entry in entries:
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", entry)
        assert match, f"not a pin: {entry.splitlines()[0]}"
        found[str(canonicalize_name(match[1]))] = (match[2], entry)
    return found


@pytest.mark.parametrize("lock", [LOCK, MODAL_LOCK], ids=["requirements", "modal"])
def test_the_lock_pins_everything_with_hashes_and_names_no_address(lock: str) -> None:
    pins = _pins(lock)
    assert len(pins) > 50
    assert [name for name, (_, entry) in pins.items() if "--hash=sha256:" not in entry] == []
    assert not re.search(r"://|index-url|find-links|@ ", lock)


def test_both_locks_have_the_same_versions_and_modal_is_in_its_own_alone() -> None:
    pins, with_modal = _pins(), _pins(MODAL_LOCK)
    both = pins.keys() & with_modal.keys()
    assert len(both) > 50
    assert {name: pins[name][0] for name in both} == {name: with_modal[name][0] for name in both}
    assert {"modal", "imbue-mngr-modal"} == {"modal", "imbue-mngr-modal"} & (with_modal.keys() - pins.keys())


_IN_MODAL_LOCK = [("dependencies", MODAL_LOCK)] + [(name, MODAL_LOCK) for name in ("mngr", "claude", "codex", "modal")]


@pytest.mark.parametrize(
    ("group", "lock"),
    [*((name, LOCK) for name in ("dependencies", "mngr", "claude", "codex", "dev")), *_IN_MODAL_LOCK],
    ids=lambda value: value if len(value) < 20 else "modal" if value == MODAL_LOCK else "requirements",
)
def test_the_lock_agrees_with_the_project(group: str, lock: str) -> None:
    project = PROJECT["project"]
    requirements = {
        "dependencies": project["dependencies"],
        "dev": PROJECT["dependency-groups"]["dev"],
        **project["optional-dependencies"],
    }[group]
    pins = _pins(lock)
    for line in requirements:
        requirement = Requirement(line)
        version = pins[canonicalize_name(requirement.name)][0]
        assert requirement.specifier.contains(version), f"{line} against the locked {version}: run `make lock`"


def test_the_build_backend_is_locked_too() -> None:
    pins = _pins()
    for line in PROJECT["build-system"]["requires"]:
        requirement = Requirement(line)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)][0])


def test_no_file_names_a_machine_or_a_registry() -> None:
    # Folders of a build machine, this very checkout, and addresses that only one network has. (Homes such as
    # /home/ann in tests are invented.)
    machine = re.compile(
        rf"(?<![\w.$}}])/(?:root|work|Users)/|{re.escape(str(ROOT))}/|index-url\s*=|extra-index|\b10\.\d+\.\d+\.\d+\b"
        r"|pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|deb\.debian\.org"
    )
    allowed = {ROOT / "tests" / "test_house.py"}
    found = []
    for path in tracked():
        if path in allowed or "fixtures" in path.parts:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if machine.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_every_package_is_typed_and_says_what_it_is() -> None:
    for room, package in ROOMS.items():
        assert (ROOT / room / package / "py.typed").is_file()
    undocumented = [
        str(path.relative_to(ROOT))
        for path in [*own_code(), *(ROOT / "scripts").glob("*.py"), *(ROOT / "tests").rglob("*.py")]
        if (text := path.read_text(encoding="utf-8")).strip() and ast.get_docstring(ast.parse(text)) is None
    ]
    assert undocumented == []


@pytest.mark.slow
def test_the_wheel_holds_the_three_packages_and_their_data(tmp_path: Path) -> None:
    import zipfile

    code = "import sys\nfrom hatchling.build import build_wheel\nprint(build_wheel(sys.argv[1]))"
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        entry_points = wheel.read(next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))).decode()
        metadata = wheel.read(next(n for n in wheel.namelist() if n.endswith("METADATA"))).decode()
    expected = {
        str(path.relative_to(ROOT / room))
        for room, package in ROOMS.items()
        for path in (ROOT / room / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected
    assert "selftest-tui = selftest_tui.cli.main:main" in entry_points
    assert "selftest-tui-connect = selftest_recorder.capture.connect:main" in entry_points
    assert "selftest = selftest_recorder.e2e.pytest_plugin" in entry_points
    assert {"mngr", "claude", "codex", "modal", "asciinema"} == set(
        re.findall(r"^Provides-Extra: (\S+)", metadata, re.MULTILINE)
    )


def test_a_failure_is_told_as_it_happens(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os\n\ndef test_a():\n    assert 1 == 2\n\ndef test_b():\n    os._exit(3)\n"
    )
    # The second ends the whole run, so that nothing is left to name the first at its end.
    argv = [sys.executable, "-m", "pytest", "-p", "conftest", "-q", "--rootdir", str(tmp_path), str(tmp_path)]
    run = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 3
    assert "FAILED test_it.py::test_a (call, 0 s) - assert 1 == 2" in run.stdout
