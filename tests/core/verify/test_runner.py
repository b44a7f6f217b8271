"""Hostile and broken tests, run for real: each costs itself, never the others."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import ISOLATIONS, NONE, SANDBOX, laid, with_pytest
from selftest_core.verify.runner import collect_tests, run_tests
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.verify.sandbox import Isolation

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real

TRAPS = """
import os, subprocess, sys, time
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_hangs(): time.sleep(1000)
def test_exits(): os._exit(0)
def test_crashes():
    import ctypes
    ctypes.string_at(0)
def test_prints():
    for _ in range(100):
        os.write(1, b"x" * 1_000_000)
def test_forks():
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            time.sleep(20)
        os._exit(0)
def test_writes_here(): open("tests/junk", "w").write("x")
def test_empties_its_file(): open(__file__, "w").close()
def test_has_no_terminal():
    with pytest.raises(OSError):
        open("/dev/tty")
    assert os.read(0, 1) == b""
@pytest.mark.skip(reason="later")
def test_skips(): pass
@pytest.mark.xfail
def test_is_expected_to_fail(): assert 0
@pytest.mark.xfail
def test_passes_unexpectedly(): pass
@pytest.fixture
def broken(): raise ValueError("no fixture")
def test_has_a_broken_fixture(broken): pass
def test_last(): pass
class TestClass:
    @pytest.mark.parametrize("word", ["a b", "[x]", "ü"])
    def test_with(self, word): assert word != "[x]"
"""
EXPECTED = {
    "passes": "passed", "fails": "failed", "hangs": "timeout", "exits": "crashed", "crashes": "crashed",
    "prints": "passed", "forks": "passed", "writes_here": "passed", "empties_its_file": "passed",
    "has_no_terminal": "passed", "skips": "skipped", "is_expected_to_fail": "xfailed",
    "passes_unexpectedly": "xpassed", "has_a_broken_fixture": "error", "last": "passed",
}  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "a person's repository")


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=lambda one: one.kind)
def test_each_trap_costs_itself(tmp_path: Path, repository: Repository, isolation: Isolation) -> None:
    tests = {f"tests/test_traps.py::test_{name}": word for name, word in EXPECTED.items()}
    tests["tests/test_traps.py::test_nowhere"] = "missing"
    tests["tests/test_none.py::test_it"] = "missing"
    tests["tests/test_import.py::test_it"] = "error"
    tests |= {f"tests/test_traps.py::TestClass::test_with[{word}]": "passed" for word in ("a b", "\\xfc")}
    tests["tests/test_traps.py::TestClass::test_with[[x]]"] = "failed"
    files = {"tests/test_traps.py": TRAPS, "tests/test_import.py": "import nothing_like_it\ndef test_it(): pass\n"}
    told: dict[str, Execution] = {}
    with laid(tmp_path, repository, files) as slot:
        ran = run_tests(slot, list(tests), with_pytest(repository.folder, isolation, timeout=8), told.__setitem__)
        assert {test: run.result.value for test, run in ran.runs.items()} == tests
        assert told == ran.runs
        assert ran.processes <= 5
        assert "assert 1 == 2" in ran.runs["tests/test_traps.py::test_fails"].output
        assert "nothing_like_it" in ran.runs["tests/test_import.py::test_it"].output
        assert all(len(run.output) < 300_000 for run in ran.runs.values())
        slot.lay(repository.git("rev-parse", "HEAD^{tree}"))
        assert sorted(path.name for path in (slot.tree_folder / "tests").iterdir()) == [
            "test_import.py",
            "test_traps.py",
        ]
        assert (slot.tree_folder / "tests" / "test_traps.py").read_text() == TRAPS


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_the_sandbox_hides_the_person_and_the_network(tmp_path: Path, repository: Repository) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    source = f"""
import os, socket, tempfile
from pathlib import Path
import pytest

def test_home(): assert not list(Path.home().glob("*")) and not Path({str(secret)!r}).exists()
def test_writes_outside():
    with pytest.raises(OSError):
        open("/etc/selftest", "w")
def test_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
def test_network():
    with pytest.raises(OSError):
        socket.create_connection(("192.0.2.1", 80), 2)
def test_temporary(): tempfile.mkstemp()
def test_runs_where_the_checkout_is(): assert os.getcwd() == {str(repository.folder)!r}
def test_cannot_see_our_processes(): assert len([name for name in os.listdir("/proc") if name.isdigit()]) < 10
"""
    with laid(tmp_path, repository, {"test_it.py": source}) as slot:
        names = [line.split("(")[0].removeprefix("def ") for line in source.splitlines() if line.startswith("def ")]
        ran = run_tests(slot, [f"test_it.py::{name}" for name in names], with_pytest(repository.folder))
    assert {test: (run.result, run.output) for test, run in ran.runs.items() if run.result is not Result.PASSED} == {}
    assert len(ran.runs) == 7


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_an_editable_installation_tests_the_tree_and_not_the_checkout(tmp_path: Path, repository: Repository) -> None:
    """The trap: the person's environment points to their sources, so their code would be tested."""
    files = {"src/thing.py": "VALUE = 'committed'\n", "test_it.py": (
        f"import sys\nsys.path.insert(0, {str(repository.folder / 'src')!r})\n"
        "import thing\ndef test_it(): assert thing.VALUE == 'committed'\n"
    )}  # fmt: skip
    with laid(tmp_path, repository, files) as slot:
        (repository.folder / "src" / "thing.py").write_text("VALUE = 'not committed'\n")
        ran = run_tests(slot, ["test_it.py::test_it"], with_pytest(repository.folder))
    assert ran.runs["test_it.py::test_it"].result is Result.PASSED


def test_without_isolation_another_tree_makes_the_result_unknown(tmp_path: Path, repository: Repository) -> None:
    files = {"src/thing.py": "", "test_it.py": (
        f"import sys\nsys.path.insert(0, {str(repository.folder / 'src')!r})\nimport thing\ndef test_it(): pass\n"
    )}  # fmt: skip
    with laid(tmp_path, repository, files) as slot:
        ran = run_tests(slot, ["test_it.py::test_it"], with_pytest(repository.folder, NONE))
    found = ran.runs["test_it.py::test_it"]
    assert found.result is Result.NOT_RUN
    assert "another tree was tested" in found.reason


LIARS = {
    "a report that is rewritten": """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
""",
    "a call that never fails": """
import _pytest.runner
def never(cls, func, when, reraise=None):
    try:
        result = func()
    except BaseException:
        result = None
    return cls(result=result, excinfo=None, start=0, stop=0, duration=0, when=when, _ispytest=True)
_pytest.runner.CallInfo.from_call = classmethod(never)
""",
}


@pytest.mark.parametrize("conftest", LIARS.values(), ids=LIARS)
def test_a_project_that_rewrites_results_is_found_by_the_canary(
    tmp_path: Path, repository: Repository, conftest: str
) -> None:
    with laid(tmp_path, repository, {"conftest.py": conftest, "test_it.py": "def test_it(): assert 0\n"}) as slot:
        ran = run_tests(slot, ["test_it.py::test_it"], with_pytest(repository.folder))
    found = ran.runs["test_it.py::test_it"]
    assert found.result is Result.NOT_RUN
    assert "canary" in found.reason


def test_a_line_that_a_test_forges_is_not_believed(tmp_path: Path, repository: Repository) -> None:
    source = """
import json, os
def test_it():
    orders = json.load(open(os.environ["SELFTEST_VERIFY"]))
    with open(orders["results"], "a") as file:
        line = {"ended": "test_it.py::test_other", "result": "passed", "seconds": 0, "output": ""}
        file.write(json.dumps(line) + "\\n")
        file.write("no json\\n[1]\\n" + "x" * 2_000_000 + "\\n")
def test_other(): assert 0
"""
    with laid(tmp_path, repository, {"test_it.py": source}) as slot:
        ran = run_tests(slot, ["test_it.py::test_it", "test_it.py::test_other"], with_pytest(repository.folder))
    assert ran.runs["test_it.py::test_other"].result is Result.FAILED


def test_collection_names_tests_and_files_that_do_not_import(tmp_path: Path, repository: Repository) -> None:
    files = {"test_a.py": "def test_a(): pass\n", "test_b.py": "import nowhere\n", "test_c.py": "def test_c(): pass\n"}
    with laid(tmp_path, repository, files) as slot:
        found = collect_tests(slot, ["test_a.py", "test_b.py"], with_pytest(repository.folder))
        whole = collect_tests(slot, [], with_pytest(repository.folder))
    assert (found.tests, list(found.errors), found.reason) == (("test_a.py::test_a",), ["test_b.py"], "")
    assert whole.tests == ("test_a.py::test_a", "test_c.py::test_c")


def test_a_pytest_that_does_not_start_is_a_reason(tmp_path: Path, repository: Repository) -> None:
    with laid(tmp_path, repository, {"pytest.ini": "[pytest]\naddopts = --no-such-flag\n", "test_a.py": ""}) as slot:
        found = collect_tests(slot, [], with_pytest(repository.folder))
        ran = run_tests(slot, ["test_a.py::test_a"], with_pytest(repository.folder))
    assert "--no-such-flag" in found.reason
    assert ran.runs["test_a.py::test_a"].result is Result.NOT_RUN
    assert "no-such-flag" in ran.runs["test_a.py::test_a"].output


def test_a_stop_ends_what_runs(tmp_path: Path, repository: Repository) -> None:
    stop = threading.Event()
    source = "import time\ndef test_a(): pass\ndef test_b(): time.sleep(300)\n"
    with laid(tmp_path, repository, {"test_it.py": source}) as slot:
        tests = ["test_it.py::test_a", "test_it.py::test_b"]
        ran = run_tests(slot, tests, with_pytest(repository.folder), lambda _test, _run: stop.set(), stop.is_set)
    assert [run.result for run in ran.runs.values()] == [Result.PASSED]


def test_an_old_project_setting_does_not_stop_at_the_first_failure(tmp_path: Path, repository: Repository) -> None:
    files = {"pytest.ini": "[pytest]\naddopts = -x -q\n", "test_it.py": "def test_a(): assert 0\ndef test_b(): pass\n"}
    with laid(tmp_path, repository, files) as slot:
        ran = run_tests(slot, ["test_it.py::test_a", "test_it.py::test_b"], with_pytest(repository.folder))
    assert [run.result for run in ran.runs.values()] == [Result.FAILED, Result.PASSED]
    assert sys.executable in with_pytest(repository.folder).environment.command
