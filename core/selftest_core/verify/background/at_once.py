"""The tests that are run at once after a decision, before it is known whether another one follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.review.candidate_branch import Status
from selftest_core.verify.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.verify.verification import ItemVerdict


def tests_at_once(before: Reviewed, verdicts: Mapping[str, ItemVerdict], now: Reviewed) -> dict[str, tuple[str, ...]]:
    """Map changes of the branch to those of their tests that a decision may change most.

    These are the red ones, and all tests of changes that depend on one that came or went. A change of which other
    tests were not green is left out: its verdict needs more than these. `verdicts`: those on the branch `before`.
    """
    laid = _laid(now)
    moved = laid ^ _laid(before)
    dependents = {
        oid
        for reviewed in (before, now)
        for found in (reviewed.dependents.needed_by, reviewed.dependents.lets_in)
        for one in moved
        for oid in found.get(one, ())
    }
    found = {}
    for oid in laid:
        tests = verdicts[oid].tests if oid in verdicts else ()
        chosen = [one for one in tests if oid in dependents or oid in moved or one.after is Verdict.RED]
        if chosen and all(one.after is Verdict.GREEN for one in tests if one not in chosen):
            found[oid] = tuple(one.test for one in chosen)
    return found


def _laid(reviewed: Reviewed) -> frozenset[str]:
    return frozenset(one.item.oid for one in reviewed.line.items if one.status is Status.LAID)
