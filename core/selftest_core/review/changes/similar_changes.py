"""Changes that are much alike without being the same: several agents' answers to one question, for a person to pick.

Two changes are alternatives where different agents changed the same files in nearly the same words. Nothing is ever
dropped for it: they stand in one group, and one of them being kept says nothing about the others.
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
"""Percent of the changed text that two changes have in common, from where they are alternatives."""
LONGEST = 20_000
"""Characters of a patch that are compared; agents that write that much alike do it from the start."""
MOST_COMPARED = 400
"""Changes of the same files that are compared with each other; what goes beyond is in no group."""


def find_similar(store: ObjectStore, changes: Sequence[Change]) -> dict[str, tuple[str, ...]]:
    """For each change that has alternatives, the oids of the others of its group, in the order of `changes`."""
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
    """How many agents touched each path, where it was more than one: the most touched first, then by path."""
    agents: defaultdict[str, set[str]] = defaultdict(set)
    for change in changes:
        for path in change.paths:
            agents[path.path].update(change.agents)
    counts = {path: len(by) for path, by in agents.items() if len(by) > 1}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _groups(changes: Sequence[Change], texts: Mapping[str, str]) -> list[list[Change]]:
    """Changes that are alike, directly or through others; one agent's own are never each other's alternatives."""
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
    """The lines that each commit adds and removes, without indentation, the signs kept."""
    texts: dict[str, list[str]] = {oid: [] for oid in oids}
    if not oids:
        return {}
    out = store.git.ask(
        "-c", "core.bigFileThreshold=1m", "diff-tree", "--stdin", "-p", "-U0", "--root", "--no-renames",
        "--no-textconv", "--no-ext-diff", "--full-index", text="".join(f"{oid}\n" for oid in oids),
    )  # fmt: skip
    current: list[str] = []
    for line in out.split("\n"):
        # Content is behind a sign, so nothing that an agent wrote can stand at the start of a line.
        if is_oid(line):
            current = texts[line]
        elif line.startswith("Binary ") or (line.startswith(("+", "-")) and not line.startswith(("+++", "---"))):
            current.append(line[:1] + line[1:].strip())
    return {oid: "\n".join(lines)[:LONGEST] for oid, lines in texts.items()}
