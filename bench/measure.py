"""What a measurement is, how samples become one number, and how the results are printed and written."""

from __future__ import annotations

import json
import math
import os
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True, slots=True)
class Result:
    """One row. `ok` is None where there is no budget; `against`: what it was compared with in the same run."""

    value: float | None
    unit: str
    budget: float | None = None
    ok: bool | None = None
    against: str = ""
    note: str = ""


def result(value: float, unit: str, budget: float | None = None, *, against: str = "", note: str = "") -> Result:
    """A row whose value must not exceed its budget."""
    rounded = float(f"{value:.4g}")
    return Result(rounded, unit, budget, None if budget is None else value <= budget, against, note)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that `percent` of all samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(samples: Sequence[float]) -> float:
    """The middle sample."""
    return percentile(samples, 50)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """How much y grows per x: the least-squares line."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    below = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / below if below else 0.0


class Stopwatch:
    """Seconds of wall time, and of CPU time of this process and of children that ended, for a block."""

    wall = 0.0
    own_cpu = 0.0
    child_cpu = 0.0

    def __enter__(self) -> Self:
        self._began = (time.perf_counter(), *_cpu())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        own, child = _cpu()
        self.wall = time.perf_counter() - self._began[0]
        self.own_cpu = own - self._began[1]
        self.child_cpu = child - self._began[2]

    @property
    def cpu(self) -> float:
        """Ours and our children's."""
        return self.own_cpu + self.child_cpu


def _cpu() -> tuple[float, float]:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), children.ru_utime + children.ru_stime


def cpu_of_process(pid: int) -> tuple[float, float]:
    """CPU seconds of another process, and of its children that ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    user, system, child_user, child_system = (int(field) / ticks for field in fields[11:15])
    return user + system, child_user + child_system


def print_table(results: Mapping[str, Result]) -> None:
    """The results for a person."""
    marks = {True: "✓", False: "✗", None: " "}
    width = max((len(name) for name in results), default=0)
    for name, row in results.items():
        value = "—" if row.value is None else f"{row.value:g} {row.unit}"
        sign = "≥" if row.unit.endswith("/s") else "≤"  # speeds are wanted, all else is spent
        budget = "" if row.budget is None else f"{sign} {row.budget:g} {row.unit}"
        print(f"{marks[row.ok]} {name:<{width}}  {value:>18}  {budget:<18}", flush=True)
        for text in (row.against, row.note):
            if text:
                print(f"  {'':<{width}}    {text}")


def comparison(before: Mapping[str, Result], after: Mapping[str, Result]) -> list[str]:
    """Lines that show rows side by side: before, after, and after divided by before; rows that both have come first."""
    both = [name for name in after if name in before]
    width = max((len(name) for name in (*before, *after)), default=0)
    lines = [f"{'':<{width}}  {'before':>18}  {'after':>18}  {'ratio':>6}"]
    for name in (*both, *(name for name in (*before, *after) if name not in both)):
        rows = [rows.get(name) for rows in (before, after)]
        values = [None if row is None else row.value for row in rows]
        shown = ["—" if row is None or row.value is None else f"{row.value:g} {row.unit}" for row in rows]
        first, last = values
        ratio = f"{last / first:.2f}" if first and last is not None else ""
        lines.append(f"{name:<{width}}  {shown[0]:>18}  {shown[1]:>18}  {ratio:>6}")
    return lines


def read_results(path: Path) -> dict[str, Result]:
    """Read the rows that `write_results` wrote."""
    return {name: Result(**row) for name, row in json.loads(path.read_text(encoding="utf-8")).items()}


def write_results(results: Mapping[str, Result], path: Path = RESULTS) -> None:
    """Add these results to those that stand in the file: a run of some parts keeps the others."""
    standing: dict[str, object] = {}
    if path.exists():
        standing = json.loads(path.read_text(encoding="utf-8"))
    standing.update({name: asdict(row) for name, row in results.items()})
    path.write_text(json.dumps(standing, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
