"""When the ground itself is bad: many of the last tests failed alike, so more agents would fail alike too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.clusters import Cluster, Failure, cluster
from selftest_core.frozen import dataclass
from selftest_core.run.events import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run, RunRow


@dataclass(frozen=True, slots=True)
class Alarm:
    """A cluster that should stop the launching; `says` counts it."""

    signature: str
    says: str


def cluster_key(stage: str, signature: str) -> str:
    """What a run remembers a cluster by, once it paused for it."""
    return f"{stage}: {signature}"


def run_clusters(run: Run) -> tuple[Cluster, ...]:
    """The failures and blocks of the run, those that are alike together."""
    return cluster(_failures(run.rows.values()))


def find_alarm(run: Run, policy: Policy) -> Alarm | None:
    """The cluster among the last tests that should stop the launching now, None where there is none."""
    if run.paused or run.plan.on_cluster == "go" or not any(r.phase is Phase.WAITING for r in run.rows.values()):
        return None
    last = [run.rows[name] for name in run.order[-policy.cluster_window :]]
    for found in cluster(_failures(last)):
        key = cluster_key(found.stage, found.signature)
        if len(found.tests) >= policy.cluster_alike and key not in run.accepted:
            return Alarm(key, f"{len(found.tests)} of the last {len(last)} failed alike: {found.signature[:200]}")
    return None


def _failures(rows: Iterable[RunRow]) -> list[Failure]:
    return [
        Failure(row.planned.node_id, row.stage, row.signature, is_signature=True)
        for row in rows
        if row.end is not None and row.end.group.is_clustered
    ]
