"""Attack verification with forged branches, and with what a hostile test tries against the host.

    make attacks [ARGS="--more 100 --only product --json"]

Each forged branch is reviewed alone, by the unattended policy of docs/examples/selftest-decisions.json with
`--require-verified`, the whole suite, in the sandbox. Then the probe tries to leave the sandbox. Prints a table; ends
with 1 where a branch was published, or shown as passed without a mark that asks a person, or an escape worked.
Undecidable branches, which `docs/verification.md` names, are counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from core.attacks.cases import BASE, NAMED, Case, generated  # noqa: E402 -- the tests' own cases, from where they are
from core.review.repositories import Repository  # noqa: E402
from core.verify.desks import SETTINGS  # noqa: E402
from selftest_core.config import load_config  # noqa: E402
from selftest_core.review.candidate_branch import Decision  # noqa: E402
from selftest_core.review.changes.inputs import Request  # noqa: E402
from selftest_core.verify.batch import Verifying, review_verified  # noqa: E402
from selftest_core.verify.sandbox import probe  # noqa: E402
from selftest_core.verify.verdicts import Effect  # noqa: E402
from selftest_core.verify.verification import Mark, Verified  # noqa: E402

POLICY = ROOT / "docs" / "examples" / "selftest-decisions.json"
HELD, ASKS, UNDECIDABLE, OPEN = "held", "asks a person", "undecidable", "OPEN"


def attack(case: Case) -> tuple[str, str]:
    """Review one forged branch; returns how it ended, and the reason that a person sees."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as name:
        folder = Path(name)
        repository = Repository.make(folder / "repository")
        repository.commit("Base", BASE)
        repository.git("switch", "-q", "-c", "eve", "main")
        repository.commit("[FIX_IMPL] Fix add", case.files)
        repository.git("switch", "-q", "main")
        mine = {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "HOME": str(folder),
            "SELFTEST_TUI_VERIFY_ISOLATION": "require",
        }
        environ = {**os.environ, **SETTINGS, **mine}
        request = Request(targets=("eve",), base="main", decisions=POLICY, publish="fixes")
        result, answer = review_verified(
            Verifying(request, 1, is_whole_suite=True, is_required=True),
            load_config(repository.folder, environ, {}), repository.folder, environ,
            lambda _: None, lambda _: None, threading.Event(),
        )  # fmt: skip
        (change,) = answer.reviewed.order
        verdict = answer.verification.items[change.oid]
        is_marked = bool(change.weakenings) or bool(set(verdict.marks) - {Mark.NOTHING_NEW})
        said = verdict.reason or "; ".join(one.what for one in change.weakenings) or ", ".join(verdict.marks)
        if case.is_undecidable:
            return UNDECIDABLE, said
        # One that was left undecided is not on the branch, which is then that of the base.
        if result.published is not None and answer.reviewed.decided[change.oid] is Decision.KEEP:
            return OPEN, f"published as {verdict.verified}: {said}"
        shown = {one.test: one.effect for one in answer.verification.tests}
        is_fixed = shown.get("tests/test_calc.py::test_add") in (Effect.FIXED, Effect.KEPT, Effect.NEW)
        if verdict.verified is Verified.PASSED and is_fixed and not is_marked:
            return OPEN, f"shown as passed without a mark: {said}"
        return (ASKS if verdict.verified is Verified.PASSED and is_fixed else HELD), said


def escapes() -> list[str]:
    """Try to leave the sandbox; returns what worked."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as name:
        _, found = probe({"PATH": os.environ["PATH"], "HOME": name})
    return ["the probe did not run"] if found is None else found


def main() -> int:
    """Run all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--more", type=int, default=0, help="more generated forgeries, as many as that")
    parser.add_argument("--only", default="", help="cases of which name or theme hold this")
    parser.add_argument("--json", action="store_true", help="a document for programs in place of the table")
    given = parser.parse_args()
    cases = [one for one in (*NAMED, *generated(given.more)) if given.only in one.name or given.only in one.theme]
    began = time.monotonic()
    with ProcessPoolExecutor(2) as pool:
        ended = dict(zip([one.name for one in cases], pool.map(attack, cases), strict=True))
    broken_out = escapes()
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        counts.setdefault(case.theme, Counter())[ended[case.name][0]] += 1
    opened = {name: said for name, (how, said) in ended.items() if how == OPEN}
    if given.json:
        print(json.dumps({"counts": counts, "open": opened, "escapes": broken_out, "cases": ended}, indent=1))
    else:
        words = (HELD, ASKS, UNDECIDABLE, OPEN)
        print(f"{'':<12}{'tried':>7}" + "".join(f"{word:>15}" for word in words))
        for theme, found in counts.items():
            print(f"{theme:<12}{found.total():>7}" + "".join(f"{found[word]:>15}" for word in words))
        print(f"escapes from the sandbox: {', '.join(broken_out) or 'none'}")
        for name, said in opened.items():
            print(f"OPEN {name}: {said}")
        print(f"{len(cases)} branches in {time.monotonic() - began:.0f} s")
    return 1 if opened or broken_out else 0


if __name__ == "__main__":
    sys.exit(main())
