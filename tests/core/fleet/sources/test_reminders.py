"""The markers of reminders: left by a conductor, found from any process by the registry of runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from selftest_core.fleet.sources.reminders import ReminderReader, note_reminder
from selftest_core.paths import runs_registry

if TYPE_CHECKING:
    from pathlib import Path


def registered(tmp_path: Path, run: str) -> Path:
    folder = tmp_path / "repository" / ".selftest" / "runs" / run
    folder.mkdir(parents=True)
    registry = runs_registry({"HOME": str(tmp_path)})
    registry.mkdir(parents=True, exist_ok=True)
    (registry / f"{run}.json").write_text(json.dumps({"path": str(folder)}))
    return folder


def test_a_marker_is_found_from_anywhere_and_at_once(tmp_path: Path) -> None:
    reader = ReminderReader({"HOME": str(tmp_path)})
    assert reader.read() == {}
    folder = registered(tmp_path, "20261122-0900")
    assert reader.read() == {"20261122-0900": {}}
    note_reminder(folder, "agent-1")
    before = reader.read()
    assert before == {"20261122-0900": {"agent-1": (folder / "reminded" / "agent-1").stat().st_mtime}}
    assert reader.read() is before
    registered(tmp_path, "20261122-0901")
    assert set(reader.read()) == {"20261122-0900", "20261122-0901"}


def test_a_run_whose_folder_is_gone_and_a_pointer_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    folder = registered(tmp_path, "gone")
    folder.rmdir()
    registry = runs_registry({"HOME": str(tmp_path)})
    (registry / "torn.json").write_text('{"pa')
    (registry / "odd.json").write_text('{"path": 3}')
    assert ReminderReader({"HOME": str(tmp_path)}).read() == {}


def test_a_registry_that_cannot_be_listed_knows_no_run(tmp_path: Path) -> None:
    registry = runs_registry({"HOME": str(tmp_path)})
    registry.parent.mkdir(parents=True)
    registry.touch()
    assert ReminderReader({"HOME": str(tmp_path)}).read() == {}
