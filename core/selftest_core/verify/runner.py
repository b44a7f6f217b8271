"""Run tests on a tree in a slot, and read their results as they come.

A test that ends the process, hangs, or fills the disk costs itself: the tests after it run in another process.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.verify import testing_plugin
from selftest_core.verify.commands.contained import (
    DiskLimit,
    Output,
    ProcessLimit,
    contained_argv,
    contained_variables,
    end_orphans,
    link_made,
    place_of,
    start_contained,
)
from selftest_core.verify.commands.junit import collect_reported, is_reported, run_reported
from selftest_core.verify.schedule import Order
from selftest_core.verify.verdicts import LACKS, UNIMPORTABLE, Execution, Result, find_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path, PurePath

    from selftest_core.tools.process import Running
    from selftest_core.verify.environment import Testing
    from selftest_core.verify.slots import Slot

PLUGIN = "selftest_testing_plugin"
_TICK = 0.02
START_TIMEOUT = 120.0
"""Seconds that pytest may take to start and to collect, where the timeout is shorter."""
_LONGEST_LINE = 1_000_000
_LONGEST_RESULTS = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """The runs of the wanted tests, and how many processes that took."""

    runs: Mapping[str, Execution]
    processes: int


def run_tests(
    slot: Slot,
    tests: Sequence[str],
    testing: Testing,
    on_run: Callable[[str, Execution], None] = lambda _test, _run: None,
    should_stop: Callable[[], bool] = lambda: False,
    start: type[PytestProcess] | None = None,
    order: Order | None = None,
) -> Ran:
    """Run tests on the tree that is laid in the slot. Blocking; what `should_stop` ends is missing in the answer.

    `order`: in which tests are wanted; the files of tests that did not begin yet follow it.
    """
    if is_reported(testing.environment.command):
        reported = run_reported(slot, tests, testing, should_stop)
        for test, run in reported.items():
            on_run(test, run)
        return Ran(reported, 1)
    left = list(dict.fromkeys(tests))
    runs: dict[str, Execution] = {}
    processes = 0
    while left and not should_stop():
        if processes:
            # What the last test did before it ended its process, to files or to ours, must not reach the next.
            slot.restore()
        processes += 1
        found = (start or PytestProcess)(slot, left, testing, on_run, should_stop, order).hold()
        runs |= found
        if not found:
            break
        left = [test for test in left if test not in found]
    return Ran(runs, processes)


@dataclass(frozen=True, slots=True)
class Collected:
    """The node ids in some files of a tree, and the errors by file; `reason`: why nothing can be trusted.

    `is_opaque`: a runner other than pytest, of which nobody knows the tests that a change affects.
    """

    tests: tuple[str, ...]
    errors: Mapping[str, str]
    reason: str = ""
    is_opaque: bool = False


def collect_tests(
    slot: Slot,
    files: Sequence[str],
    testing: Testing,
    should_stop: Callable[[], bool] = lambda: False,
    start: type[PytestProcess] | None = None,
) -> Collected:
    """Collect the tests of these files, or of the whole project, in the tree that is laid in the slot.

    What `should_stop` ends has a reason why nothing was collected.
    """
    if is_reported(testing.environment.command):
        tests, reason = collect_reported(slot, testing, should_stop)
        return Collected(tests, {}, reason, is_opaque=True)
    return (start or PytestProcess)(slot, [], testing, lambda _test, _run: None, should_stop).collect(files)


def is_module(command: Sequence[str]) -> bool:
    """True for `python -m pytest`, which imports from the folder where it starts; the program `pytest` does not."""
    return not command or "-m" in command


class PytestProcess:
    """One process of pytest, and its results."""

    def __init__(
        self,
        slot: Slot,
        tests: Sequence[str],
        testing: Testing,
        on_run: Callable[[str, Execution], None],
        should_stop: Callable[[], bool],
        order: Order | None = None,
    ) -> None:
        self._order = order or Order()
        self._told_places = self._order.places()
        self._slot, self._testing = slot, testing
        self._tests = dict.fromkeys(self._order.sorted(tests))
        self._on_run, self._should_stop = on_run, should_stop
        self._results = slot.exchange / "results"
        self._wishes = slot.exchange / "wishes"
        self._nonce = secrets.token_hex(8)
        self._unread = b""
        self._offset = 0
        self._begun = ""
        self._collected: dict[str, None] | None = None
        self._errors: dict[str, str] = {}
        self._absent_in_files: dict[str, object] = {}
        self._is_done = False
        self._foreign: list[str] = []
        self._canary = ""
        self._forged = ""
        self._canary_name = f"test_{secrets.token_hex(4)}"
        self._replaced: list[str] = []
        self._found: dict[str, Execution] = {}
        self._output = Output()
        self._absent = slot.absent()
        self._disk = DiskLimit(slot.folder, testing.disk)
        self._passed = ""

    def hold(self) -> dict[str, Execution]:
        """Run it to its end. Returns at least one run, unless it was stopped."""
        files = dict.fromkeys(test.partition("::")[0] for test in self._tests)
        status, was_timeout = self._go([name for name in files if (self._slot.untouched / name).exists()])
        return self._conclude(status, was_timeout)

    def collect(self, files: Sequence[str]) -> Collected:
        """Run no test but the canary."""
        status, was_timeout = self._go(files)
        reason = self._distrust()
        if self._collected is None:
            late = "pytest did not collect the tests in time"
            ended = f"pytest ended with status {status} before it had collected the tests"
            said = self._output.text()
            reason = f"{late if was_timeout else ended}\n{said}{self._hidden(said)}"
        return Collected(tuple(self._collected or ()), self._errors, reason)

    def _hidden(self, said: str) -> str:
        """Return a hint where the sandbox may hide what an installation refers to."""
        if not self._testing.isolation.is_isolated or "No module named" not in said:
            return ""
        return (
            "\nTests cannot read your home, /tmp and /run; the setting `verify_readable` names folders that they may."
        )

    def _distrust(self) -> str:
        """The reason why no result of this process can be trusted; empty where they can."""
        if self._replaced:
            names = ", ".join(self._replaced[:3])
            return f"code of the tree has replaced what decides results: {names}"
        if self._foreign:
            return f"another tree was tested: {self._foreign[0]} was imported"
        if self._forged:
            return f"a result came of {self._forged}, which had not begun: something writes results"
        if self._canary and self._canary != "failed":
            return f"failing tests are reported as {self._canary}: our canary, which fails, was"
        if not self._canary and self._collected is not None and not self._begun:
            return "our canary test did not run: something chooses other tests"
        return ""

    def _go(self, files: Sequence[str]) -> tuple[int | None, bool]:
        """Run pytest, and take in its results; return its exit status and whether it was ended for taking too long."""
        slot, place = self._slot, place_of(self._slot, self._testing)
        plugins = slot.exchange / "plugins"
        shutil.rmtree(plugins, ignore_errors=True)
        plugins.mkdir(parents=True)
        shutil.copyfile(testing_plugin.__file__, plugins / f"{PLUGIN}.py")
        # Made and held by us: a test may remove it, or put a link to a file of ours in its place.
        self._results.unlink(missing_ok=True)
        self._source = os.open(self._results, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._wishes.unlink(missing_ok=True)
        wishes = os.open(self._wishes, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
        orders = slot.exchange / "orders.json"
        environment = self._testing.environment
        # Isolated, the tested tree is where the checkout was, and the checkout is nowhere.
        foreign = [] if self._testing.isolation.is_isolated else [str(environment.checkout)]
        more = {
            "own": [str(path) for path in environment.own_folders],
            "first": environment.first_at(place),
            "sources": [str(place / path) for path in environment.sources],
            "wishes": str(self._wishes),
        }
        orders.write_text(json.dumps(self._orders(self._results, foreign) | more))
        link_made(slot, self._testing)
        process = start_contained(
            self._argv(plugins, orders, files), slot, self._testing, self._variables(plugins, orders)
        )
        reader = threading.Thread(target=self._output.read, args=(process,), daemon=True)
        reader.start()
        try:
            was_timeout = self._follow(process, wishes)
        finally:
            os.close(wishes)
            process.end(grace=0)
            if not self._testing.isolation.is_isolated:
                end_orphans(orders)
            reader.join(5)
        while self._offset < min(os.fstat(self._source).st_size, _LONGEST_RESULTS):
            self._read()
        os.close(self._source)
        return process.poll(), was_timeout

    def _orders(self, results: PurePath, foreign: Sequence[str]) -> dict[str, object]:
        """Return the orders of the plugin. `results`: the path there; `foreign`: folders that no module may be from."""
        return {
            "results": str(results),
            "tests": list(self._tests),
            "late": [test for test in self._tests if test in self._order.late],
            "foreign": foreign,
            "absent": list(self._absent),
            "nonce": self._nonce,
            "canary": self._canary_name,
            "imports_here": is_module(self._testing.environment.command),
        }

    def _argv(self, plugins: Path, orders: Path, files: Sequence[str]) -> list[str]:
        words = self._testing.environment.words_at(place_of(self._slot, self._testing))
        return contained_argv(
            [*words, "-p", PLUGIN, "-p", "no:cacheprovider", "--", *files],
            self._slot, self._testing, self._variables(plugins, orders),
            network=self._testing.network,
        )  # fmt: skip

    def _variables(self, plugins: Path, orders: Path) -> dict[str, str]:
        return {
            **contained_variables(self._slot, self._testing),
            "PYTHONPATH": str(plugins),
            # `python -m` would import from the tree first: a pytest.py of the tree, or its plugins, would judge it.
            # The plugin adds the folder once pytest is loaded. Python before 3.11 does not know the variable.
            "PYTHONSAFEPATH": "1",
            "PYTEST_ADDOPTS": "",
            testing_plugin.VARIABLE: str(orders),
        }

    def _follow(self, process: Running, wishes: int) -> bool:
        """Read results until the process ends; True where it was ended for taking too long."""
        last = time.monotonic()
        processes = ProcessLimit(process.pid)
        while True:
            ended = process.poll() is not None
            if self._read():
                last = time.monotonic()
            if ended or self._should_stop():
                return False
            self._tell_order(wishes)
            if self._disk.is_passed() or processes.is_passed():
                self._passed = self._disk.reason if self._disk.was_passed else processes.reason
                return False
            # Until the first test runs, it starts and collects, which a busy machine may take long for.
            patience = self._testing.timeout if self._canary else max(self._testing.timeout, START_TIMEOUT)
            if time.monotonic() - last > patience:
                return True
            time.sleep(_TICK)  # results are lines in a file, and no event exists for those on every system

    def _tell_order(self, wishes: int) -> None:
        """Tell the process that other tests are wanted first, where that has changed."""
        places = self._order.places()
        if places is not self._told_places:
            self._told_places = places
            wanted = [test for test in self._order.sorted(self._tests) if test in places and test not in self._found]
            with contextlib.suppress(OSError):  # a full disk: the order stays
                os.write(wishes, json.dumps(wanted).encode() + b"\n")

    def _read(self) -> bool:
        """Take in the whole lines that are new; True where a test has ended or begun."""
        part = os.pread(self._source, 1 << 20, self._offset)
        self._offset += len(part)
        self._unread += part
        *lines, self._unread = self._unread.split(b"\n")
        if self._offset > _LONGEST_RESULTS:
            return False
        taken = [self._take(line) for line in lines if len(line) <= _LONGEST_LINE]
        return any(taken)

    def _take(self, text: bytes) -> bool:
        try:
            line = json.loads(text)
            return isinstance(line, dict) and line.get("nonce") == self._nonce and self._take_line(line)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return False  # no line of the plugin's: whoever wrote it, a test without a result is told as such

    def _take_line(self, line: Mapping[str, Any]) -> bool:
        if "collected" in line:
            self._collected = dict.fromkeys(str(name) for name in line["collected"])
            self._errors = {str(name): str(why) for name, why in dict(line["errors"]).items()}
            self._absent_in_files = dict(line["absent"])
        elif "begun" in line:
            self._begun = str(line["begun"])
        elif "ended" in line:
            reason = self._why_absent(line)
            word = Result.NOT_RUN if reason else str(line["result"])
            result, output = Result(word) if word in set(Result) else Result.ERROR, str(line["output"])
            reason = reason or (self._why_lacking(output) if result.is_red else "")
            held = line.get("assertions")
            run = Execution(result, float(line["seconds"]), output, reason, held if isinstance(held, int) else None)
            self._end(str(line["ended"]), run)
        elif "foreign" in line:
            self._foreign += [str(path) for path in line["foreign"]]
        elif "replaced" in line:
            self._replaced = [str(name) for name in line["replaced"]]
        elif "done" in line:
            self._is_done = True
        return True

    def _why_absent(self, line: Mapping[str, object]) -> str:
        """The reason why a red test proves nothing: it used, or names, what is not in the repository."""
        if not self._absent or line["result"] not in ("failed", "error"):
            return ""
        touched = line.get("absent")
        said = str(line["output"])
        path = (
            str(touched) if touched in self._absent else next((one for one in self._absent if _names(said, one)), None)
        )
        return "" if path is None else f"it needs {path}, {self._absent[path]}, whose content is not in the repository"

    def _why_lacking(self, output: str) -> str:
        missing = find_missing(output, self._is_in_tree)
        return f"{LACKS}{missing}" if missing else ""

    def _is_in_tree(self, name: str) -> bool:
        """True for a module of the laid tree, and for a path that tests see in it or that they may write to."""
        if os.path.isabs(name):  # noqa: PTH117 -- a word of a test's output
            own = (place_of(self._slot, self._testing), self._slot.home, self._slot.exchange)
            return name.startswith((*(f"{path}/" for path in own), "/tmp/"))
        folders = [self._slot.untouched / folder for folder in ("", "src", "lib", "tests", "test")]
        return any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in folders)

    def _end(self, test: str, run: Execution) -> None:
        is_begun, self._begun = test == self._begun, ""
        if test == self._canary_name:
            self._canary = run.result
        elif not is_begun:
            self._forged = test
        elif test in self._tests and test not in self._found:
            self._found[test] = run
            self._on_run(test, run)

    def _conclude(self, status: int | None, was_timeout: bool) -> dict[str, Execution]:
        said = self._output.text()
        reason = self._distrust()
        if reason:
            return self._all(reason, said)
        if self._collected is None:
            if self._should_stop():
                return {}
            if was_timeout:
                return self._all("no test began in time", said, Result.TIMEOUT)
            return self._all(f"pytest ended with status {status} before it had collected the tests", said)
        found = dict(self._found)
        for test in self._tests:
            file = test.partition("::")[0]
            if test in found:
                continue
            if file in self._errors:
                line = {"result": "error", "output": self._errors[file], "absent": self._absent_in_files.get(file)}
                reason = self._why_absent(line)
                result = Result.NOT_RUN if reason else Result.ERROR
                found[test] = Execution(result, None, self._errors[file], reason or self._why_unimportable(file))
            elif test not in self._collected:
                found[test] = Execution(Result.MISSING, None, "", "not collected on this tree")
        if self._begun in self._tests and self._begun not in found and not self._should_stop():
            result = Result.TIMEOUT if was_timeout else Result.CRASHED
            reason = (
                f"did not end within {self._testing.timeout:g} s" if was_timeout
                else self._passed if self._passed
                else f"the process ended in it, with status {status}"
            )  # fmt: skip
            found[self._begun] = Execution(result, None, said, reason)
        elif self._is_done or (not self._begun and not was_timeout):
            for test in self._tests:
                if test not in found and not self._should_stop():
                    found[test] = Execution(Result.NOT_RUN, None, said, "pytest ended without running it")
        if not found and not self._should_stop():
            return self._all("pytest ended without a result", said)
        for test in found:
            if test not in self._found:
                self._on_run(test, found[test])
        return found

    def _why_unimportable(self, file: str) -> str:
        said = self._errors[file]
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
        return f"{UNIMPORTABLE}: {self._why_lacking(said) or last[-200:]}"

    def _all(self, reason: str, output: str, result: Result = Result.NOT_RUN) -> dict[str, Execution]:
        runs = {test: Execution(result, None, output, reason) for test in self._tests}
        for test, one in runs.items():
            self._on_run(test, one)
        return runs


def _names(said: str, path: str) -> bool:
    """True where a text names a path, or what is below it, or imports it; a single word is too little."""
    return (
        f"{path}/" in said or f"/{path}" in said or ("/" in path and (path in said or path.replace("/", ".") in said))
    )
