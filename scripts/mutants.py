"""Mutants: small faults put into a copy of this tree, each of which must be found by tests.

    make mutants [ARGS="--list | --sample 8 | NAME…"]

Each row of `mutants_of_core.py` replaces one text in one file and names tests, one of which must fail then. The
checkout is never changed: its files, as they are on the disk, are copied to a temporary folder for each of two jobs. At
first all of these tests must pass there unchanged. Prints a table; ends with 1 where a mutant survives, or where its
text or its tests are not there any more.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.mutants_of_core import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.mutants_of_core import Mutant

ROOT = Path(__file__).resolve().parents[1]
QUICK = "not real and not slow and not world and not agents"
TIMEOUT = 900.0
"""Seconds after which tests of a mutant are ended: it hangs, so it is found."""
_SOURCES = ("core", "recorder", "tui", "tests", "scripts")


@dataclass(frozen=True)
class Outcome:
    """The result of one mutant. `trouble`: why it counts as a failure of ours, empty where it was found."""

    mutant: Mutant
    trouble: str
    found_by: str
    seconds: float


@dataclass(frozen=True)
class Ran:
    """One run of pytest: the tests that failed and that passed, by node id; `said`: the end of its output."""

    status: int
    failed: tuple[str, ...]
    passed: tuple[str, ...]
    said: str


class Copy:
    """A copy of the tree in which a mutant lives for the time of its tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.decode().split("\0")):
            source, target = ROOT / name, folder / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Put the fault in for the time of a block. Raises LookupError where its text is not there exactly once."""
        path = self.folder / mutant.path
        original = path.read_text(encoding="utf-8")
        count = original.count(mutant.before)
        if count != 1:
            raise LookupError(f"its text stands {count} times in {mutant.path}")
        self._write(path, original.replace(mutant.before, mutant.after))
        try:
            yield
        finally:
            self._write(path, original)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Bytecode is taken for that of a source of the same size and second.
        with suppress(FileNotFoundError):
            Path(importlib.util.cache_from_source(str(path))).unlink()

    def run(self, tests: Sequence[str]) -> Ran:
        """Run tests in the copy, those that start programs left out, up to the first failure."""
        report = self.folder / ".mutants.xml"
        report.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-x", "-m", QUICK]
        argv += ["-o", "junit_family=xunit1", f"--junitxml={report}"]
        environment = dict(os.environ)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # Before the installed packages, which are the checkout's.
        environment["PYTHONPATH"] = os.pathsep.join(str(self.folder / name) for name in _SOURCES)
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [*argv, *tests], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                return Ran(1, (f"did not end in {TIMEOUT:g} s",), (), "")
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.wait()
            output.seek(0)
            said = output.read().decode("utf-8", "replace")[-3000:]
        return Ran(status, *_read_report(report), said)


def _read_report(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    failed, passed = [], []
    with suppress(FileNotFoundError, ElementTree.ParseError):
        for case in ElementTree.parse(path).iter("testcase"):  # written by our own pytest
            name = f"{case.get('file') or case.get('classname')}::{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(name)
            elif case.find("skipped") is None:
                passed.append(name)
    return tuple(failed), tuple(passed)


def hold(copy: Copy, mutant: Mutant) -> Outcome:
    """Run the tests of one mutant against it."""
    began = time.monotonic()
    trouble, found_by = "", ""
    try:
        with copy.mutated(mutant):
            ran = copy.run(mutant.tests)
    except (LookupError, OSError) as error:
        trouble = str(error)
    else:
        if ran.status not in (0, 1):
            trouble = f"pytest ended with {ran.status}\n{ran.said}"
        elif not ran.failed:
            trouble = "SURVIVED"
        else:
            found_by = ran.failed[0]
    return Outcome(mutant, trouble, found_by, time.monotonic() - began)


def hold_all(mutants: Sequence[Mutant], jobs: int) -> list[Outcome]:
    """Hold all mutants, some side by side; each is printed as it ends."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        made = [Copy(Path(folder) / str(number)) for number in range(jobs)]
        _require_green(made, mutants)
        copies: queue.Queue[Copy] = queue.Queue()
        for copy in made:
            copies.put(copy)

        def one(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                outcome = hold(copy, mutant)
            finally:
                copies.put(copy)
            word = outcome.trouble.partition("\n")[0] or "found"
            print(f"{outcome.seconds:6.1f} s  {mutant.name:<58}  {word}  {outcome.found_by}", flush=True)
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutants))


def _require_green(copies: Sequence[Copy], mutants: Sequence[Mutant]) -> None:
    """End with 1 where a test fails without any mutant: it would find each of them."""
    tests = list(dict.fromkeys(test for one in mutants for test in one.tests))
    began = time.monotonic()
    parts = [tests[number :: len(copies)] for number in range(len(copies))]
    with ThreadPoolExecutor(len(copies)) as pool:
        runs = (
            list(pool.map(lambda copy, part: copy.run(part), copies, parts)) if all(parts) else [copies[0].run(tests)]
        )
    for ran in runs:
        if ran.status != 0:
            raise SystemExit(f"The tests fail without any mutant:\n{ran.said}")
    count = sum(len(ran.passed) for ran in runs)
    print(f"{time.monotonic() - began:6.1f} s  {count} tests pass on the unchanged copy", flush=True)


def main() -> int:
    """Hold the mutants that the arguments choose."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants whose name contains this; default: all")
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, the same each time")
    parser.add_argument("--list", action="store_true", help="list them, with their tests, and end")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants side by side (default: %(default)s)")
    arguments = parser.parse_args()
    mutants = [one for one in MUTANTS if not arguments.names or any(part in one.name for part in arguments.names)]
    if arguments.sample is not None and arguments.sample < len(mutants):
        chosen = set(random.Random(1).sample(range(len(mutants)), arguments.sample))
        mutants = [one for number, one in enumerate(mutants) if number in chosen]
    if arguments.list:
        for one in mutants:
            print(f"{one.name:<58}  {one.path}  {' '.join(one.tests)}")
        return 0
    if not mutants:
        raise SystemExit("No mutant has such a name: `--list` names them.")
    began = time.monotonic()
    outcomes = hold_all(mutants, arguments.jobs)
    bad = [outcome for outcome in outcomes if outcome.trouble]
    for outcome in bad:
        print(f"\n{outcome.mutant.name}: {outcome.trouble}")
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"\n{len(outcomes) - len(bad)} of {len(outcomes)} mutants were found, in {minutes} min {seconds} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
