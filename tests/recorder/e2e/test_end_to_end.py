"""The fixture that cites and runs blocks, as a project of somebody's would use it."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from worlds import World

TUTORIAL = "#!/bin/sh\nset -e\n\n# Say it.\necho hello\necho $WORD\n\nfalse\necho unreachable\n"

USER = '''
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "WORD": "world"}

def test_runs(e2e, tmp_path):
    block = e2e.write_tutorial_block("""
        # Say it.
        echo hello
        echo $WORD
    """)
    done = block.run(environment=ENVIRONMENT, cwd=tmp_path)
    assert (done.exit_status, done.stdout) == (0, "hello\\nworld\\n")

def test_stops_at_the_first_error(e2e, tmp_path):
    block = e2e.write_tutorial_block("""
        false
        echo unreachable
    """)
    done = block.run(environment=ENVIRONMENT, cwd=tmp_path)
    assert (done.exit_status, done.stdout) == (1, "")

def test_cites_no_block(e2e):
    e2e.write_tutorial_block("""
        echo hello
        echo WORD
    """)
'''

STRANGER = """
import json, sys
import pytest

@pytest.fixture
def e2e():
    return "mine"

def test_it(e2e):
    assert e2e == "mine"
    ours = {"selftest_recorder", "selftest_core", "selftest_tui", "textual", "pydantic"}
    with open("loaded.json", "w") as file:
        json.dump([name for name in sys.modules if name.split(".")[0] in ours], file)
"""


def _pytest(world: World, test: str, *arguments: str) -> CompletedProcess[str]:
    project = world.root / "p"
    project.mkdir()
    (project / "tutorial.sh").write_text(TUTORIAL)
    (project / "test_it.py").write_text(test)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", *arguments]
    return world.run(argv, cwd=project, check=False)


def test_blocks_are_run_as_they_stand_and_recorded(world: World) -> None:
    done = _pytest(world, USER, "--junit-xml=report.xml")
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "test_cites_no_block cites no block of tutorial.sh; the nearest, at line 4" in done.stdout
    found = ElementTree.parse(world.root / "p" / "report.xml").findall(".//property")
    assert [each.get("value") for each in found if each.get("name") == "tutorial_block"] == [
        "# Say it.\necho hello\necho $WORD",
        "false\necho unreachable",
    ]


def test_a_project_that_does_not_use_the_fixture_loads_none_of_it(world: World) -> None:
    done = _pytest(world, STRANGER)
    assert done.returncode == 0, done.stdout
    loaded = json.loads((world.root / "p" / "loaded.json").read_text())
    assert sorted(loaded) == [
        "selftest_recorder", "selftest_recorder.e2e", "selftest_recorder.e2e.pytest_plugin"
    ]  # fmt: skip
