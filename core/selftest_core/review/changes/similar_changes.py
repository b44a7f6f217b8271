"""Similar changes: different agents changed the same files in nearly the same way, so a person should pick one.

They form a group; no decision follows from that by itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from selftest_core.git.objects import is_oid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.review.changes.collect_changes import Change

ALIKE = 75.0
"""Percent of the changed text that similar changes have in common at least."""
LONGEST = 20_000
"""Characters of a patch that are compared."""
MOST_COMPARED = 400
"""Changes of the same files that are compared with each other; others are in no group."""


def find_similar(store: ObjectStore, changes: Sequence[Change]) -> dict[str, tuple[str, ...]]:
    """Find similar changes: by oid, the oids of the others of its group, in the order of `changes`."""
    touching: defaultdict[tuple[str, ...], list[Change]] = defaultdict(list)
    for change in changes:
        if change.paths:
            touching[tuple(path.path for path in change.paths)].append(change)
    rivals = {
        paths: same for paths, same in touching.items() if len({agent for one in same for agent in one.agents}) > 1
    }
    texts = _changed_text(store, [change.oid for same in rivals.values() for change in same])
    found: dict[str, tuple[str, ...]] = {}
    for same in rivals.values():
        for group in _groups(same[:MOST_COMPARED], texts):
            for change in group:
                found[change.oid] = tuple(other.oid for other in group if other is not change)
    return found


def hot_files(changes: Sequence[Change]) -> dict[str, int]:
    """Count the agents that changed each path, where more than one did: the most first, then by path."""
    agents: defaultdict[str, set[str]] = defaultdict(set)
    for change in changes:
        for path in change.paths:
            agents[path.path].update(change.agents)
    counts = {path: len(by) for path, by in agents.items() if len(by) > 1}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _groups(changes: Sequence[Change], texts: Mapping[str, str]) -> list[list[Change]]:
    """Group similar changes, directly or through others; changes of one agent are never similar."""
    from rapidfuzz import fuzz

    leader = list(range(len(changes)))

    def root(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    for index, change in enumerate(changes):
        for other in range(index):
            if root(index) == root(other) or set(change.agents) & set(changes[other].agents):
                continue
            if fuzz.ratio(texts[change.oid], texts[changes[other].oid], score_cutoff=ALIKE):
                leader[root(index)] = root(other)
    groups: defaultdict[int, list[Change]] = defaultdict(list)
    for index, change in enumerate(changes):
        groups[root(index)].append(change)
    return [group for group in groups.values() if len(group) > 1]


def _changed_text(store: ObjectStore, oids: Sequence[str]) -> dict[str, str]:
    """Read the lines that each commit adds and removes, with their signs, without indentation."""
    texts: dict[str, list[str]] = {oid: [] for oid in oids}
    if not oids:
        return {}
    out = store.git.ask(
        "-c", "core.bigFileThreshold=1m", "diff-tree", "--stdin", "-p", "-U0", "--root", "--no-renames",
        "--no-textconv", "--no-ext-diff", "--full-index", text="".join(f"{oid}\n" for oid in oids),
    )  # fmt: skip
    current: list[str] = []
    for line in out.split("\n"):
        # Content follows a sign, so text of an agent cannot imitate an id.
        if is_oid(line):
            current = texts[line]
        elif line.startswith("Binary ") or (line.startswith(("+", "-")) and not line.startswith(("+++", "---"))):
            current.append(line[:1] + line[1:].strip())
    return {oid: "\n".join(lines)[:LONGEST] for oid, lines in texts.items()}
