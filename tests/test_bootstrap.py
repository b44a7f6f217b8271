"""scripts/bootstrap, as far as it can be tried without installing anything: what it checks, says and skips."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CORE = (
    "sh",
    "sed",
    "awk",
    "cat",
    "id",
    "uname",
    "cksum",
    "dirname",
    "grep",
    "tr",
    "mkdir",
    "rm",
    "mv",
    "git",
    "rsync",
    "tmux",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What bootstrap reads of a checkout, in a folder with a space; `bin` is the whole PATH."""
    root = tmp_path / "a clone"
    (root / "scripts").mkdir(parents=True)
    for name in ("scripts/bootstrap", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    (root / "bin").mkdir()
    for name in CORE:
        found = shutil.which(name)
        assert found, f"{name} is not on PATH"
        (root / "bin" / name).symlink_to(found)
    return root


def bootstrap(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it with a PATH of its own, where there is no Python, and no apt-get unless a test puts one there."""
    return subprocess.run(
        [shutil.which("sh") or "sh", str(checkout / "scripts" / "bootstrap")],
        cwd="/",
        env={"PATH": str(checkout / "bin"), "HOME": str(checkout), "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def program(checkout: Path, name: str, script: str) -> Path:
    """Put a program of ours in the place of one on PATH."""
    path = checkout / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("name", "says"),
    [("tmux", "tmux 3.1c"), ("tmux", "tmux 2.9"), ("git", "git version 2.37.9 (Apple Git-136)"), ("git", "")],
)
def test_a_program_that_is_too_old_is_named_with_the_command(checkout: Path, name: str, says: str) -> None:
    program(checkout, name, f"echo '{says}'")
    # Not root, whoever runs this: it must not try to install anything.
    program(checkout, "id", "echo 1000")
    program(checkout, "apt-get", "exit 99")
    program(checkout, "uname", "echo Linux")
    done = bootstrap(checkout)
    assert done.returncode == 1
    assert f": {name}\n" in done.stderr
    assert f"    sudo apt-get update && sudo apt-get install -y {name}\n" in done.stderr


def test_on_a_mac_the_command_is_homebrews(checkout: Path) -> None:
    (checkout / "bin" / "rsync").unlink()
    (checkout / "bin" / "tmux").unlink()
    program(checkout, "uname", "echo Darwin")
    done = bootstrap(checkout)
    assert done.returncode == 1
    assert "    brew install tmux rsync\n" in done.stderr


@pytest.mark.parametrize("says", ["tmux 3.2", "tmux 3.3a", "tmux next-3.6", "tmux 4.0"])
def test_newer_programs_are_accepted(checkout: Path, says: str) -> None:
    program(checkout, "tmux", f"echo '{says}'")
    done = bootstrap(checkout, PYTHON="/nonexistent/python")
    assert "needed and missing" not in done.stderr
    assert "PYTHON=/nonexistent/python is no CPython >= 3.12 that runs." in done.stderr


def test_root_installs_what_is_missing_and_says_so_where_that_fails(checkout: Path) -> None:
    program(checkout, "id", "echo 0")
    program(checkout, "uname", "echo Linux")
    (checkout / "bin" / "rsync").unlink()
    asked = checkout / "asked"
    program(checkout, "apt-get", f"echo \"$@\" >> '{asked}'; exit 100")
    done = bootstrap(checkout, PYTHON="/nonexistent/python")
    assert asked.read_text().splitlines() == ["install -y -q --no-install-recommends rsync", "update -q"]
    assert (done.returncode, "install -y rsync" in done.stderr) == (1, True)


def test_a_shim_that_does_not_run_is_no_interpreter(checkout: Path) -> None:
    shim = program(checkout, "python3.13", 'echo "python3.13: command not found" >&2; exit 127')
    done = bootstrap(checkout, PYTHON=str(shim))
    assert done.returncode == 1
    assert f"PYTHON={shim} is no CPython >= 3.12 that runs." in done.stderr


def test_an_old_interpreter_is_refused(checkout: Path) -> None:
    """A real interpreter that says that it is 3.11, which costs no second one."""
    old = program(
        checkout,
        "python3.11",
        f"""exec '{sys.executable}' -c "import sys; sys.version_info = (3, 11, 0); exec(sys.argv[1])" "$2" """,
    )
    done = bootstrap(checkout, PYTHON=str(old))
    assert (done.returncode, "is no CPython >= 3.12" in done.stderr) == (1, True)


def test_a_second_call_is_silent_until_something_changes(checkout: Path) -> None:
    interpreter = checkout / ".venv" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    program(checkout, "runs", f"exec '{sys.executable}' \"$@\"").rename(interpreter)
    files = ["requirements.txt", "pyproject.toml", "scripts/bootstrap"]
    sums = subprocess.run(["cksum", *files], cwd=checkout, capture_output=True, text=True, check=True).stdout
    stamp = checkout / ".venv" / ".bootstrapped"
    stamp.write_text(f"{sums}{checkout.resolve()}\n{sys.version}\n")
    done = bootstrap(checkout, PYTHON="/nonexistent/python")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    with (checkout / "requirements.txt").open("a") as file:
        file.write("# changed\n")
    # From here on it would install; an environment that cannot even run pip ends it at once.
    program(checkout, "broken", "exit 1").rename(interpreter)
    done = bootstrap(checkout, PYTHON="/nonexistent/python")
    assert (done.returncode, "/nonexistent/python" in done.stderr) == (1, True)


@pytest.mark.parametrize(("status", "of_make"), [(0, 0), (1, 0), (2, 2), (3, 2)])
def test_make_demo_reports_no_error_where_the_demo_ends_with_work_for_a_person(
    tmp_path: Path, status: int, of_make: int
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name, text in (("scripts/bootstrap", "true"), (".venv/bin/selftest-tui", f'echo "$@"; exit {status}')):
        script = tmp_path / name
        script.parent.mkdir(parents=True)
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)

    done = subprocess.run(
        ["make", "demo", "ARGS=--batch"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == of_make
    assert "demo --batch" in done.stdout
    assert ("Error" in done.stderr) is (of_make != 0)
