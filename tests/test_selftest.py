"""What `make selftest` plants and how its agents mend it must fit the code as it is; the whole is run by hand."""

from __future__ import annotations

import importlib.util
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.tutorial.citations import read_tests
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def selftest() -> Any:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("selftest_script", ROOT / "scripts/selftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_defect_can_be_planted_and_every_edit_be_made(selftest: Any) -> None:
    texts: dict[str, str] = {}
    for defect in selftest.DEFECTS:
        text = texts.setdefault(defect.path, (ROOT / defect.path).read_text(encoding="utf-8"))
        assert text.count(defect.good) == 1, defect
        texts[defect.path] = text.replace(defect.good, defect.bad)
    for role in selftest.ROLES:
        path, _, name = role.test.partition("::")
        cited = {one.test for one in read_tests((ROOT / path).read_bytes(), path).citations}
        # Those that cite a constant of their file are read, too.
        assert role.test in cited, name
        for verb, *arguments in role.story:
            if verb == "edit":
                file, old, new = arguments
                text = texts.get(file) or (ROOT / file).read_text(encoding="utf-8")
                assert text.count(old) == 1, (role.test, old)
                assert old != new


def test_a_report_with_paths_of_ours_or_registries_is_refused(selftest: Any, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f"see {ROOT}/README.md and https://pypi.example.org/simple/x")
    (tmp_path / "run.json").write_text('{"path": "/tmp/acme/selftest-tui"}')
    (tmp_path / "big.js").write_bytes(b"x" * (2 * 1024 * 1024))
    found = list(selftest.faults(tmp_path))
    assert found[:2] == [f"index.html holds {ROOT}", "index.html holds https://pypi.example.org/simple/x"]
    assert found[2].startswith("the report has 2,09")


def test_the_sample_report_holds_nothing_of_a_machine(selftest: Any) -> None:
    folder = ROOT / "docs/sample-report"
    assert list(selftest.faults(folder)) == []
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert re.findall(r"(?<![\w.])/(?:root|home|work|Users)/\w+|\w+@(?!example\.org)[\w-]+:/", text) == [], path
