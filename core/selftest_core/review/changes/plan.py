"""The plan of a review: its branches resolved to ids, read, collapsed into changes, grouped and ranked."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.review.changes.collect_changes import Branch, Change, collect_changes
from selftest_core.review.changes.proposed import join_proposed
from selftest_core.review.changes.ranking import Claims, Ranked, rank
from selftest_core.review.changes.rows import Row, group_changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.command import Git
    from selftest_core.git.object_store import ObjectStore

MAIN_REFS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
"""Refs that usually are the main branch of a repository, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranked changes of a review. `is_linear`: one branch, in its own order until a change is moved.

    `name` is the review's id; `base` is the commit that the line is built on, another one after a rebase; `left_out`:
    branches that could not be read, each with the reason. `rows`: changes that say the same, by their fingerprints;
    decisions may split or join them.
    """

    name: str
    base: str
    ranked: tuple[Ranked, ...]
    is_linear: bool
    rows: tuple[Row, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes in the order of the plan."""
        return tuple(one.change for one in self.ranked)


def split_range(text: str) -> tuple[str, str]:
    """Split `BASE..BRANCH`. Raises UsageError for anything else, `BASE...BRANCH` included."""
    base, dots, branch = text.partition("..")
    if not dots or not base or not branch or branch.startswith("."):
        raise UsageError(f"{text!r} is not a range", "", "Write BASE..BRANCH, as in `main..fixes`.")
    return base, branch


@dataclass(frozen=True, slots=True)
class Targets:
    """The subject of a review, resolved to ids once. `onto_oid`: the commit that the line is built on.

    `id`: the review's, where something else than the commits names it, as a run does.
    """

    base: str
    onto_oid: str
    branches: tuple[Branch, ...]
    is_linear: bool
    id: str = ""

    @property
    def name(self) -> str:
        """The review's id, `review-<base8>-<tip8>`: the same for the same commits in any order."""
        if self.id:
            return self.id
        tips = sorted({branch.tip for branch in self.branches})
        tip = tips[0] if len(tips) == 1 else hashlib.sha256("\n".join(tips).encode()).hexdigest()
        return f"review-{self.base[:8]}-{tip[:8]}"


def resolve_range(user: Git, base_name: str, branch_name: str, onto: str | None = None) -> Targets:
    """Resolve one linear branch on its base, or rebased onto the commit `onto`.

    Raises UsageError for a base that is not an ancestor of the branch, and for names that are not commits.
    """
    base, tip = user.resolve(base_name), user.resolve(branch_name)
    if not user.run("merge-base", "--is-ancestor", base, tip).ok:
        hint = f"Review it with `--base {base_name} {branch_name}`, which picks its commits onto that base."
        raise UsageError(f"{branch_name} does not build on {base_name}", "The base is not an ancestor of it.", hint)
    onto_oid = base if onto is None else user.resolve(onto)
    return Targets(base, onto_oid, (Branch(branch_name, tip),), is_linear=True)


def resolve_branches(user: Git, base_name: str, branch_names: Sequence[str], onto: str | None = None) -> Targets:
    """Resolve many branches on one base, or rebased onto the commit `onto`. Raises UsageError for unknown names."""
    base = user.resolve(base_name)
    tips = user.resolve_each(branch_names)
    branches = tuple(Branch(name, tips.get(name) or _tip_of(user, name)) for name in dict.fromkeys(branch_names))
    onto_oid = base if onto is None else user.resolve(onto)
    return Targets(base, onto_oid, branches, is_linear=False)


def _tip_of(user: Git, name: str) -> str:
    """Return the commit of a name. Of a branch whose commit git cannot read, its id: it is left out by that."""
    ref = f"refs/heads/{name.removeprefix('refs/heads/')}"
    try:
        return user.resolve(name)
    except UsageError:
        tip = user.refs(ref).get(ref)
        if tip is None:
            raise
        return tip


def make_plan(
    store: ObjectStore,
    targets: Targets,
    claims: Mapping[str, Claims] | None = None,
    left_out: Sequence[tuple[str, str]] = (),
    *,
    arrived: Mapping[str, int] = MappingProxyType({}),
    verdicts: Mapping[str, str] = MappingProxyType({}),
    may_be_empty: bool = False,
) -> Plan:
    """Collect, group and rank the changes. `claims` by agent; `left_out`: branches that could not be read before.

    `arrived`: when each commit was found, as the log of the review has it; 0 where it is missing. `verdicts`: earlier
    ones on changes that have alternatives.

    Raises UsageError where the base has everything already, unless the plan `may_be_empty`.
    """
    collected = collect_changes(store, targets.base, targets.branches)
    collected = replace(collected, left_out=(*left_out, *collected.left_out))
    claims = claims or {}
    if claims:
        collected = replace(collected, changes=tuple(_with_importance(change, claims) for change in collected.changes))
    if not collected.changes and not may_be_empty:
        detail = "\n".join(f"{name}: {why}" for name, why in collected.left_out)
        hint = "The base has all commits of these branches."
        raise UsageError("There is nothing to review", detail, "" if detail else hint)
    rows = group_changes(store, collected.changes, arrived, verdicts, is_linear=targets.is_linear)
    rows = join_proposed(rows, collected.changes, [one for one in targets.branches if one.alternative_of])
    ranked = rank(collected.changes, claims, [row.members for row in rows])
    if targets.is_linear:
        why = {one.change.oid: one.why for one in ranked}
        ranked = tuple(Ranked(change, why[change.oid]) for change in collected.changes)
    return Plan(targets.name, targets.onto_oid, ranked, targets.is_linear, rows, collected.left_out)


def _with_importance(change: Change, claims: Mapping[str, Claims]) -> Change:
    """Add the importance that an agent states for all its work to commits that state none themselves."""
    sources = tuple(
        source if source.importance or source.agent not in claims
        else replace(source, importance=claims[source.agent].importance)
        for source in change.sources
    )  # fmt: skip
    return replace(change, sources=sources)


def find_main(user: Git, base_name: str, base: str, refs: Mapping[str, str] | None = None) -> str:
    """Find the target branch of the work: the one named as base, else the one checked out, else a usual main branch.

    Empty where none of them builds on `base`. `refs`: those of the repository, if they were read already.
    """
    refs = user.refs() if refs is None else refs
    head = user.head()
    named = [ref for ref in (f"refs/heads/{base_name}", f"refs/remotes/{base_name}") if base_name]
    for ref in (*named, head, *MAIN_REFS):
        if ref in refs and (refs[ref] == base or user.run("merge-base", "--is-ancestor", base, refs[ref]).ok):
            return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")
    return ""
