"""Runs of a real pytest in a project of somebody's, in a private folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from subprocess import CompletedProcess

    from worlds import World

CONFTEST = 'pytest_plugins = ["selftest_recorder.e2e.options"]\n'
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".")


def make_project(world: World, files: Mapping[str, str]) -> Path:
    """Write the files of a project, programs among them."""
    project = world.root / "p"
    project.mkdir(exist_ok=True)
    for name, text in files.items():
        (project / name).write_text(text)
        if text.startswith("#!"):
            (project / name).chmod(0o755)
    # Environments of its tests are found by this world's sweep alone.
    temporary = world.root / "d"
    temporary.mkdir(exist_ok=True)
    world.extra["TMPDIR"] = str(temporary)
    return project


def run_pytest(world: World, *arguments: str, env: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """Run the project's tests to their end."""
    return world.run([*PYTEST, *arguments], cwd=world.root / "p", check=False, env=env)
