"""Try out whether the tests of tutorial.sh notice that a command does nothing.

    make noop [ARGS="--sample N | WORD…"]     part of `make mutants`

For each test of a block, `selftest-tui` is replaced in that block by a program that takes all arguments, prints nothing
and succeeds (`--e2e-noop`); the other blocks that the test cites work. The test must fail; that it passes otherwise is
shown by `make test`. Prints a table of blocks with their tests; ends with 1 where a test passes all the same, where its
fixtures fail, or where no test of a block was run.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.tutorial.check import check
from selftest_core.tutorial.coverage import cover

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from selftest_core.tutorial.tutorial import Block

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "selftest-tui"
NOTICED, SURVIVED, SKIPPED, BROKEN = "noticed", "SURVIVED", "skipped", "BROKEN"


@dataclass(frozen=True)
class Use:
    """A test that cites a block as its `number`-th, from 1."""

    test: str
    number: int


def read_uses() -> dict[Block, list[Use]]:
    """The blocks of the tutorial in their order, each with the tests that run it."""
    result = check(ROOT, ROOT / "tutorial.sh", ROOT / "tests")
    blocks = [cited.block for cited in result.coverage.blocks]
    counted: defaultdict[str, int] = defaultdict(int)
    uses: dict[Block, list[Use]] = {block: [] for block in blocks}
    for citation in result.citations:
        counted[citation.test] += 1
        for cited in cover(blocks, [citation]).blocks:
            if cited.tests:
                uses[cited.block].append(Use(citation.test, counted[citation.test]))
    return uses


def try_out(tests: Collection[str], number: int, jobs: int) -> dict[str, str]:
    """Run tests without the program in the `number`-th block of each; returns what became of each."""
    with tempfile.TemporaryDirectory(prefix="noop-") as folder:
        report = Path(folder) / "report.xml"
        argv = [
            sys.executable, "-m", "pytest", "-q", "-p", "selftest_recorder.e2e.options", "-n", str(jobs), "--dist",
            "loadfile", "--tb=no", "-rN", "--durations=0", "--durations-min=600", "-o", "junit_family=xunit1",
            f"--junitxml={report}", "--e2e-noop", PROGRAM, "--e2e-noop-block", str(number), *sorted(tests),
        ]  # fmt: skip
        done = subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        found: dict[str, str] = {}
        for case in ElementTree.parse(report).iter("testcase"):  # written by our own pytest
            test = f"{case.get('file')}::{(case.get('name') or '').partition('[')[0]}"
            if case.find("error") is not None:
                found[test] = BROKEN
            elif case.find("skipped") is not None:
                found[test] = SKIPPED
            elif found.get(test) not in (SURVIVED, BROKEN):
                found[test] = SURVIVED if case.find("failure") is None else NOTICED
        return found


def troubles(uses: Mapping[Block, Sequence[Use]], results: Mapping[Use, str]) -> list[str]:
    """Print the table, and return what is wrong."""
    wrong = []
    for block, of_block in uses.items():
        line = next(line for line in block.text.splitlines() if not line.startswith("#"))
        print(f"tutorial.sh:{block.line:<4} {line[:100]}")
        said = {use: results.get(use, "not run here") for use in of_block}
        for use, result in said.items():
            print(f"    {result:<12} {use.test}")
        wrong += [f"{use.test}: {result}" for use, result in said.items() if result in (SURVIVED, BROKEN)]
        if not {NOTICED, SKIPPED}.intersection(said.values()):
            wrong.append(f"tutorial.sh:{block.line}: no test was run")
    return wrong


def main() -> int:
    """Try out the blocks that the arguments choose."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only blocks with this word; default: all")
    parser.add_argument("--sample", type=int, metavar="N", help="N blocks, the same each time")
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="test files side by side (default: %(default)s)"
    )
    arguments = parser.parse_args()
    began = time.monotonic()
    uses = {
        block: of_block
        for block, of_block in read_uses().items()
        if not arguments.words or any(word in block.text for word in arguments.words)
    }
    if arguments.sample is not None and arguments.sample < len(uses):
        chosen = set(random.Random(1).sample(sorted(block.line for block in uses), arguments.sample))
        uses = {block: of_block for block, of_block in uses.items() if block.line in chosen}
    if not uses:
        raise SystemExit("No block of the tutorial has such a word.")
    everything = {use for of_block in uses.values() for use in of_block}
    results: dict[Use, str] = {}
    for number in sorted({use.number for use in everything}):
        tests = {use.test for use in everything if use.number == number}
        results |= {Use(test, number): result for test, result in try_out(tests, number, arguments.jobs).items()}
    wrong = troubles(uses, results)
    for one in wrong:
        print(one)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    noticed = sum(result == NOTICED for result in results.values())
    print(f"{len(uses)} blocks, {len(results)} tests of them, {noticed} noticed; {minutes} min {seconds} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
