"""The circuit breaker: pause launching when many of the last tests failed with the same error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.clusters import Cluster, Failure, cluster
from selftest_core.frozen import dataclass
from selftest_core.run.events import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.run.fold import Run, RunRow


@dataclass(frozen=True, slots=True)
class SharedCause:
    """A cluster of failures that should pause launching. `key`: its `cluster_key`; `text`: one line for people."""

    key: str
    text: str


def cluster_key(stage: str, signature: str) -> str:
    """Return the name under which a run remembers that it paused for a cluster."""
    return f"{stage}: {signature}"


def run_clusters(run: Run) -> tuple[Cluster, ...]:
    """Group the failed and blocked tests of a run by cause."""
    return cluster(_failures(run.rows.values()))


def find_shared_cause(run: Run) -> SharedCause | None:
    """Find the cluster among the last tests that should pause launching now; None without one."""
    if run.paused or run.plan.on_cluster == "go" or not any(r.phase is Phase.WAITING for r in run.rows.values()):
        return None
    last = [run.rows[name] for name in run.order[-run.plan.cluster_window :]]
    for found in cluster(_failures(last)):
        key = cluster_key(found.stage, found.signature)
        if len(found.tests) >= run.plan.cluster_alike and key not in run.accepted:
            count = f"{len(found.tests)} of the last {len(last)}"
            return SharedCause(key, f"{count} failed with the same error: {found.signature[:200]}")
    return None


def _failures(rows: Iterable[RunRow]) -> list[Failure]:
    return [
        Failure(row.planned.node_id, row.stage, row.signature, is_signature=True)
        for row in rows
        if row.end is not None and row.end.group.is_clustered
    ]
