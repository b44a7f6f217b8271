"""The newest verification of a review, kept in its folder for the report: `verdicts.json`.

It is replaced as a whole, and says which tree it is of: decisions that were made since give another tree. A file that
cannot be read is as none.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.verify.sandbox import Isolation
from selftest_core.verify.schedule import TestReport
from selftest_core.verify.verdicts import Effect, Execution, Result, Verdict
from selftest_core.verify.verification import CollectionError, ItemVerdict, Mark, Verification, Verified

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "verdicts.json"
_LARGEST = 64 * 1024 * 1024
_LONGEST_OUTPUT = 8_000
"""Characters of the end of a red run's output."""


@dataclass(frozen=True, slots=True)
class KeptVerification:
    """A verification as it was kept. `at`: seconds since the epoch; `seconds`: how long it took."""

    verification: Verification
    isolation: Isolation
    at: float
    seconds: float


def keep_verification(home: Path, verification: Verification, isolation: Isolation, seconds: float) -> None:
    """Replace the verification in a review's folder. Raises OSError.

    An earlier verdict on a change stays where it has none, such as of one that was reverted for its verdict.
    """
    before = read_verification(home)
    if before is not None:
        new = {oid: one for oid, one in verification.items.items() if one.tests or one.verified is not Verified.UNKNOWN}
        items = {**verification.items, **before.verification.items, **new}
        verification = replace(verification, items=items)
    tests = {id(one): one for one in verification.tests}
    for item in verification.items.values():
        tests |= {id(one): one for one in item.tests}
    places = {key: number for number, key in enumerate(tests)}
    document = {
        "version": 1, "at": time.time(), "seconds": seconds,
        "isolation": [isolation.kind, isolation.reason],
        "tree": verification.tree, "verified": verification.verified, "is_whole_suite": verification.is_whole_suite,
        "executions": verification.executions, "processes": verification.processes,
        "checkouts": verification.checkouts, "from_cache": verification.from_cache,
        "flaky_before": dict(verification.flaky_before), "vanished": verification.vanished,
        "collection_errors": [[one.path, one.message, one.breaker] for one in verification.collection_errors],
        "tests": [_test_json(one) for one in tests.values()],
        "run": [places[id(one)] for one in verification.tests],
        "items": [
            {
                "oid": one.oid, "verified": one.verified, "claimed": one.claimed,
                "tests": [places[id(test)] for test in one.tests], "broke": one.broke, "marks": one.marks,
                "reason": one.reason,
            }
            for one in verification.items.values()
        ],
    }  # fmt: skip
    draft = home / f".{FILE_NAME}.{os.getpid()}"
    try:
        draft.write_text(json.dumps(document), encoding="utf-8")
        draft.replace(home / FILE_NAME)
    finally:
        draft.unlink(missing_ok=True)


def read_verification(home: Path) -> KeptVerification | None:
    """Read the newest verification of a review; None where there is none, or it cannot be read."""
    path = home / FILE_NAME
    try:
        if path.stat().st_size > _LARGEST:
            return None
        said = json.loads(path.read_text(encoding="utf-8"))
        return _kept(said)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return None


def _test_json(one: TestReport) -> dict[str, Any]:
    return {
        "test": one.test, "before": one.before, "after": one.after, "effect": one.effect, "culprit": one.culprit,
        "false_claims": one.false_claims, "reason": one.reason, "fixed_by": one.fixed_by,
        "only_edited": one.only_edited, "assertions_before": one.assertions_before,
        "runs": [
            [
                run.result, run.seconds, run.output[-_LONGEST_OUTPUT:] if run.result.is_red else "", run.reason,
                run.assertions,
            ]
            for run in one.runs
        ],
    }  # fmt: skip


def _kept(said: dict[str, Any]) -> KeptVerification:
    tests = [_test(one) for one in said["tests"]]
    items = {
        str(one["oid"]): ItemVerdict(
            str(one["oid"]), Verified(one["verified"]), one["claimed"], tuple(tests[place] for place in one["tests"]),
            tuple(map(str, one["broke"])), tuple(Mark(mark) for mark in one["marks"]), str(one["reason"]),
        )
        for one in said["items"]
    }  # fmt: skip
    verification = Verification(
        str(said["tree"]), Verified(said["verified"]), items, tuple(tests[place] for place in said["run"]),
        bool(said["is_whole_suite"]), int(said["executions"]), int(said["processes"]), int(said["checkouts"]),
        int(said["from_cache"]), {str(test): int(count) for test, count in said["flaky_before"].items()},
        tuple(map(str, said.get("vanished", ()))),
        tuple(CollectionError(str(path), str(why), by) for path, why, by in said.get("collection_errors", ())),
    )  # fmt: skip
    kind, reason = said["isolation"]
    return KeptVerification(verification, Isolation(str(kind), str(reason)), float(said["at"]), float(said["seconds"]))


def _test(one: dict[str, Any]) -> TestReport:
    return TestReport(
        str(one["test"]), None if one["before"] is None else Verdict(one["before"]), Verdict(one["after"]),
        Effect(one["effect"]),
        tuple(
            Execution(Result(run), seconds, str(output), str(why), *held)
            for run, seconds, output, why, *held in one["runs"]
        ),
        one["culprit"], tuple(map(str, one["false_claims"])), str(one["reason"]), one.get("fixed_by"),
        str(one.get("only_edited", "")), one.get("assertions_before"),
    )  # fmt: skip
