"""The benchmarks themselves: their arithmetic, their file, and that they still start. No number is judged."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from worlds import ROOT, World

sys.path.append(str(ROOT))
from bench.measure import Result, comparison, median, percentile, read_results, result, slope, write_results

if TYPE_CHECKING:
    from pathlib import Path


def test_a_percentile_is_a_sample_that_was_measured() -> None:
    samples = [float(number) for number in range(1, 101)]

    assert percentile(samples, 95) == 95.0
    assert percentile([3.0], 95) == 3.0
    assert median([9.0, 1.0, 5.0]) == 5.0


@pytest.mark.parametrize("growth", [0.0, 2.5, -1.0])
def test_a_slope_is_found_again(growth: float) -> None:
    assert slope([(float(x), 7.0 + growth * x) for x in range(10)]) == pytest.approx(growth)


def test_a_row_is_judged_by_its_budget() -> None:
    assert result(33.0, "ms", 33.0).ok is True
    assert result(33.1, "ms", 33.0).ok is False
    assert result(33.1, "ms").ok is None


def test_a_run_of_some_rows_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results({"one": result(1, "ms", 2), "two": result(5, "ms", 2)}, path)
    write_results({"two": Result(None, "", note="could not be measured")}, path)

    written = json.loads(path.read_text())
    assert written["one"] == {"value": 1.0, "unit": "ms", "budget": 2, "ok": True, "against": "", "note": ""}
    assert written["two"]["value"] is None


def test_the_program_measures_prints_and_writes(world: World) -> None:
    out = world.root / "results.json"

    done = world.run([sys.executable, "-m", "bench", "--only", "machine,import", "--out", out], cwd=ROOT)

    written = json.loads(out.read_text())
    assert written.keys() == {"machine", "core_import"}
    assert all({"value", "unit", "budget", "ok", "against", "note"} == row.keys() for row in written.values())
    assert "core_import" in done.stdout
    assert "heavy modules loaded: none" in written["core_import"]["note"]


def test_an_unknown_part_is_refused(world: World) -> None:
    done = world.run([sys.executable, "-m", "bench", "--only", "nonsense"], cwd=ROOT, check=False)

    assert done.returncode == 2
    assert "no such part: nonsense" in done.stderr


def test_two_runs_stand_side_by_side_with_their_ratio(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    before = {"paint": result(200.0, "ms"), "gone": result(1.0, "s"), "failed": Result(None, "")}
    write_results(before, path)
    after = {"paint": result(150.0, "ms"), "failed": result(2.0, "s"), "new": result(3.0, "MB")}

    lines = [line.split() for line in comparison(read_results(path), after)]

    assert lines == [
        ["before", "after", "ratio"],
        ["paint", "200", "ms", "150", "ms", "0.75"],
        ["failed", "—", "2", "s"],
        ["gone", "1", "s", "—"],
        ["new", "—", "3", "MB"],
    ]


@pytest.mark.real
def test_a_soak_sees_each_change_and_each_key(tmp_path: Path, world: World) -> None:
    out = tmp_path / "soak.json"

    world.run([sys.executable, "-m", "bench.soak", "--seconds", "4", "--agents", "60", "--out", out], cwd=ROOT)

    rows = read_results(out)
    assert rows["soak_missed_changes"].value == 0
    assert rows["soak_vanished_agents"].value == 0
    assert "4 changes" in rows["soak_missed_changes"].note or "3 changes" in rows["soak_missed_changes"].note
    assert all(row.value is not None for row in rows.values())
