"""Pytest plugin with the fixture `e2e`, for every project that has this package installed.

pytest loads it in all of these projects. So it adds only that fixture (no option, no hook, no marker), and imports the
rest when a test uses it. A fixture `e2e` of the project itself wins. `options` has the options, for who wants them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.e2e.end_to_end import EndToEnd

_LONGEST_NAME = 100


@pytest.fixture
def e2e(request: pytest.FixtureRequest) -> Iterator[EndToEnd]:
    """Run commands in an isolated environment, with a transcript; cite and run blocks of `tutorial.sh`.

    Properties of the test in pytest's XML report: each cited block, and the folder of its artifacts.
    """
    from selftest_recorder.e2e.end_to_end import EndToEnd
    from selftest_recorder.e2e.noop import Noop

    def record(name: str, value: str) -> None:
        request.node.user_properties.append((name, value))

    program = request.config.getoption("e2e_noop", None)
    made = EndToEnd(
        request.config.rootpath / "tutorial.sh",
        request.node.nodeid,
        record,
        lambda: _make_artifacts(request),
        Noop(program, request.config.getoption("e2e_noop_block", 1)) if program else None,
    )
    try:
        yield made
    finally:
        made.close(keep=_is_kept(request))


def _make_artifacts(request: pytest.FixtureRequest) -> Path:
    """Make a new folder for the artifacts of a test: a second run does not overwrite the first."""
    named = request.config.getoption("e2e_artifacts", None)
    out = os.environ.get("SELFTEST_OUT")
    root: Path
    if named:
        root = request.config.invocation_params.dir / named
    elif out:
        root = Path(out) / "artifacts" / "e2e"
    else:
        root = request.getfixturevalue("tmp_path_factory").getbasetemp() / "e2e"
    root /= _file_name(request.config.getoption("e2e_run_name", ""))
    name = _file_name(request.node.nodeid)
    for number in range(1, 10_000):
        folder = root / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        request.node.add_report_section("call", "e2e", f"artifacts: {folder}")
        return folder
    raise AssertionError(f"{root} has 10,000 folders of {name}")


def _is_kept(request: pytest.FixtureRequest) -> bool:
    keep = request.config.getoption("e2e_keep_env", "never")
    if keep != "on-failure":
        return bool(keep == "always")
    from selftest_recorder.e2e.options import HAS_FAILED

    return bool(request.node.stash.get(HAS_FAILED, False))


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[-_LONGEST_NAME:]
