"""Rows of the candidate branch: 300 commits of many agents applied, decided on and verified, beside git cherry-pick."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

from bench.histories import history
from bench.measure import Result, Stopwatch, median, percentile, result
from selftest_core.review.apply_decisions import apply_decisions, build_kept_line
from selftest_core.review.candidate_branch import Decision, Line, Status, build_line
from selftest_core.review.changes.plan import Plan, make_plan, resolve_branches
from selftest_core.review.decisions import Decisions
from selftest_core.review.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.histories import History

_FILES = (2_000, 20_000)
_LAY_BUDGET_PERCENT = 10.0
_DECIDE_BUDGET_MS = 100.0


def line() -> dict[str, Result]:
    """All rows, for a repository of 2,000 files and one of 20,000."""
    rows: dict[str, Result] = {}
    for files in _FILES:
        with history(files) as made:
            rows.update(_rows(made))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    rows["line_memory"] = result(peak, "MB", note="the most that this process had, all rows of the line measured")
    return rows


def _rows(made: History) -> dict[str, Result]:
    home = made.folder.parent
    source = made.folder / ".git"
    name = f"{made.files}"
    about = f"{made.commits} commits of {len(made.branches)} agents, {made.files:,} files"
    with Engine.open(home / "engine.git", source, made.environ) as engine:
        with Stopwatch() as planning:
            plan = make_plan(engine.store, resolve_branches(made.user, "main", made.branches))
        items = [change.item for change in plan.changes]
        base_tree = engine.store.tree_of(plan.base)
        with Stopwatch() as laying:
            laid = build_line(engine, plan.base, base_tree, items, {})
        with Stopwatch() as simulating:
            apply_decisions(engine, plan, Decisions(default=Decision.KEEP), stored=False)
        decided, cpu = _decisions(engine, plan)
    with (
        Engine.open(home / "plain.git", source, made.environ, is_plain=True) as plain,
        Stopwatch() as proving,
    ):
        proved = build_line(plain, plan.base, base_tree, items, {})
    with Stopwatch() as picking:
        tree, held = _cherry_pick(made, laid)
    is_same = (tree, held) == (laid.tree, _held(laid)) and proved == laid
    same = "same tree, same conflicts" if is_same else "OTHER TREES"
    row = result(
        laying.wall / picking.wall * 100, "%", _LAY_BUDGET_PERCENT,
        against=f"git cherry-pick one by one in a work tree: {picking.wall:.2f} s; {same}",
        note=f"{about}; applied and stored in {laying.wall:.2f} s, {picking.wall / laying.wall:.0f} times faster; "
        f"{len(held)} in conflict; read and ranked before in {planning.wall:.2f} s",
    )  # fmt: skip
    worst = max(decided.values(), key=max)
    note = ", ".join(f"{word} {median(times):.0f} ms" for word, times in decided.items())
    return {
        f"line_lay_{name}": row if is_same else Result(row.value, row.unit, row.budget, False, row.against, row.note),
        f"line_decide_{name}": result(
            percentile([one for times in decided.values() for one in times], 95), "ms", _DECIDE_BUDGET_MS,
            against=f"the same by whole merges: {proving.wall * 1000:.0f} ms",
            note=f"{about}; from a decision to the new branch, what would be published, its lines counted and its "
            f"dependents; p95; medians: {note}; worst {max(worst):.0f} ms; CPU of the slowest kind {cpu:.0f} ms",
        ),
        f"line_dependents_{name}": result(
            simulating.wall * 1000, "ms", against=f"{made.commits} drops, each applied again",
            note=f"{about}; every drop simulated for the first time; afterwards only the group of the decided change",
        ),
        f"line_prove_{name}": result(
            proving.wall * 1000, "ms", against=f"applied and stored with the cache: {laying.wall * 1000:.0f} ms",
            note=f"{about}; applied again by whole merges in a new engine, as before publishing",
        ),
    }  # fmt: skip


def _decisions(engine: Engine, plan: Plan) -> tuple[dict[str, list[float]], float]:
    """Measure decisions of several kinds, in milliseconds; all other changes are kept.

    The second value is the mean CPU time of the slowest kind, which does not depend on other programs.
    """
    oids = [change.oid for change in plan.changes]
    base_tree = engine.store.tree_of(plan.base)

    def decide(made: Callable[[int], Decisions], places: range) -> list[float]:
        times = []
        cpu = 0.0
        for place in places:
            with Stopwatch() as watch:
                reviewed = apply_decisions(engine, plan, made(place), stored=False)
                engine.count_lines(base_tree, build_kept_line(engine, reviewed).tree)
            times.append(watch.wall * 1000)
            cpu += watch.own_cpu * 1000
        spent.append(cpu / len(times))
        return times

    spent: list[float] = []
    keep, revert, last = Decision.KEEP, Decision.REVERT, len(oids) - 1
    times = {
        "drop the first": decide(lambda place: Decisions(keep, items={oids[place]: revert}), range(10)),
        "drop one amid": decide(lambda place: Decisions(keep, items={oids[place]: revert}), range(100, 200, 10)),
        "drop the last": decide(lambda place: Decisions(keep, items={oids[place]: revert}), range(last - 9, last)),
        "undo": decide(lambda place: Decisions(keep), range(10)),
        "move one up": decide(
            lambda place: Decisions(keep, order=(*oids[:place], oids[place + 1], oids[place], *oids[place + 2 :])),
            range(5, 105, 10),
        ),
    }
    return times, max(spent)


def _cherry_pick(made: History, laid: Line) -> tuple[str, list[str]]:
    """Cherry-pick in the same order with git; returns the tree, and the commits in conflict."""
    work = made.folder.parent / "picked"
    made.git("worktree", "add", "-q", "--detach", str(work), made.base)
    held = []
    for placed in laid.items:
        try:
            made.git("cherry-pick", "--allow-empty", "--keep-redundant-commits", placed.item.oid, folder=work)
        except RuntimeError:
            made.git("cherry-pick", "--abort", folder=work)
            held.append(placed.item.oid)
    return made.git("rev-parse", "HEAD^{tree}", folder=work), held


def _held(laid: Line) -> list[str]:
    return [placed.item.oid for placed in laid.items if placed.status is Status.HELD]
