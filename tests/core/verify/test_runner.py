"""Hostile and broken tests, run for real: each costs itself, never the others."""

from __future__ import annotations

import os
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import ISOLATIONS, NONE, SANDBOX, laid, with_pytest
from selftest_core.verify.runner import PytestProcess, collect_tests, run_tests
from selftest_core.verify.schedule import Order
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    from selftest_core.verify.sandbox import Isolation

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real

TRAPS = """
import os, subprocess, sys, time
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_exits(): os._exit(0)
def test_crashes():
    import ctypes
    ctypes.string_at(0)
def test_prints_a_gigabyte():
    pipe, = [fd for fd in range(3, 50) if os.path.exists(f"/proc/self/fd/{fd}")
             and os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:")][:1]
    for _ in range(1000):
        os.write(pipe, b"x" * 1_000_000)
def test_prints_what_is_captured():
    for _ in range(100):
        os.write(1, b"x" * 1_000_000)
def test_forks():
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        os._exit(0)
def test_deletes_all_files_and_exits():
    import shutil
    for name in os.listdir():
        shutil.rmtree(name, ignore_errors=True)
    os._exit(0)
def test_replaces_our_files_and_exits():
    orders = os.environ["SELFTEST_VERIFY"]
    for path in (os.path.join(os.path.dirname(orders), "results"), orders):
        try: os.remove(path)
        except OSError: pass
        else: os.symlink(os.path.abspath("own"), path)
    os._exit(0)
def test_fills_the_disk():
    while True:
        open(f"junk{time.monotonic_ns()}", "wb").write(b"x" * 4_000_000)
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
    "passes": "passed", "fails": "failed", "exits": "crashed", "crashes": "crashed",
    "prints_a_gigabyte": "passed", "prints_what_is_captured": "passed", "forks": "passed", "writes_here": "passed",
    "empties_its_file": "passed", "deletes_all_files_and_exits": "crashed", "replaces_our_files_and_exits": "crashed",
    "fills_the_disk": "crashed",
    "has_no_terminal": "passed", "skips": "skipped", "is_expected_to_fail": "xfailed",
    "passes_unexpectedly": "xpassed", "has_a_broken_fixture": "error", "last": "passed",
}  # fmt: skip


def processes_of(folder: Path) -> list[str]:
    """Processes that inherited a variable that names this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"SELFTEST_VERIFY={folder}" in path.read_bytes().decode(errors="replace"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


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
        testing = replace(with_pytest(repository.folder, isolation), disk=200 * 2**20)
        ran = run_tests(slot, list(tests), testing, told.__setitem__)
        reasons = {test: (run.reason, run.output[-500:]) for test, run in ran.runs.items() if run.reason}
        assert {test: run.result.value for test, run in ran.runs.items()} == tests, reasons
        assert told == ran.runs
        assert ran.processes <= 8
        assert ran.runs["tests/test_traps.py::test_fills_the_disk"].reason == "it wrote more than 200 MiB"
        assert processes_of(tmp_path) == []
        assert not (slot.tree_folder / "own").exists()
        assert "assert 1 == 2" in ran.runs["tests/test_traps.py::test_fails"].output
        assert "nothing_like_it" in ran.runs["tests/test_import.py::test_it"].output
        assert all(len(run.output) < 300_000 for run in ran.runs.values())
        slot.lay(repository.git("rev-parse", "HEAD^{tree}"))
        assert sorted(path.name for path in (slot.tree_folder / "tests").iterdir()) == [
            "test_import.py",
            "test_traps.py",
        ]
        assert (slot.tree_folder / "tests" / "test_traps.py").read_text() == TRAPS


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=lambda one: one.kind)
def test_a_test_that_hangs_costs_itself(tmp_path: Path, repository: Repository, isolation: Isolation) -> None:
    source = "import time\ndef test_a(): pass\ndef test_hangs(): time.sleep(1000)\ndef test_b(): pass\n"
    with laid(tmp_path, repository, {"test_it.py": source}) as slot:
        tests = [f"test_it.py::test_{name}" for name in ("a", "hangs", "b")]
        ran = run_tests(slot, tests, with_pytest(repository.folder, isolation, timeout=5))
    assert {test: run.result for test, run in ran.runs.items()} == dict(
        zip(tests, (Result.PASSED, Result.TIMEOUT, Result.PASSED), strict=True)
    )
    assert ran.runs[tests[1]].reason == "did not end within 5 s"


def test_a_conftest_may_clear_the_environment(tmp_path: Path, repository: Repository) -> None:
    files = {"conftest.py": "import os\nos.environ.clear()\n", "test_it.py": "def test_it(): pass\n"}
    with laid(tmp_path, repository, files) as slot:
        ran = run_tests(slot, ["test_it.py::test_it"], with_pytest(repository.folder, ISOLATIONS[0]))
    assert [run.result for run in ran.runs.values()] == [Result.PASSED]


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=lambda one: one.kind)
def test_files_that_are_wanted_meanwhile_are_run_before_others(
    tmp_path: Path, repository: Repository, isolation: Isolation
) -> None:
    # It goes on once the new order has reached the process, so that no time matters.
    waits = """
import os, time
def test_one(): pass
def test_two():
    wishes = os.path.join(os.path.dirname(os.environ["SELFTEST_VERIFY"]), "wishes")
    while not os.stat(wishes).st_size:
        time.sleep(0.01)
"""
    plain = "def test_it(): pass\ndef test_too(): pass\n"
    files = {"test_a.py": waits, **{f"test_{name}.py": plain for name in "bcde"}}
    tests = ["test_a.py::test_one", "test_a.py::test_two"]
    tests += [f"test_{name}.py::{test}" for name in "bcde" for test in ("test_it", "test_too")]
    told: list[str] = []
    first: list[tuple[str, ...]] = [()]

    def take(test: str, _: Execution) -> None:
        told.append(test)
        first[0] = first[0] or ("d", "e")

    order = Order(lambda: first[0], {name: (f"test_{name}.py::test_too",) for name in "de"})
    with laid(tmp_path, repository, files) as slot:
        run_tests(slot, tests, with_pytest(repository.folder, isolation), take, order=order)
    assert sorted(told) == sorted(tests)
    at = [told.index(f"test_{name}.py::test_it") for name in "dec"]
    assert at == sorted(at), told
    assert all(told.index(f"test_{name}.py::test_too") == told.index(f"test_{name}.py::test_it") + 1 for name in "bcde")


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_a_test_that_forks_without_end_is_ended(tmp_path: Path, repository: Repository) -> None:
    """For a user the kernel refuses the 513th process, for root we end the run."""
    source = """
import os, time
def test_forks():
    try:
        while True:
            if os.fork() == 0:
                time.sleep(1000)
    except OSError:
        pass
def test_after(): pass
"""
    with laid(tmp_path, repository, {"test_it.py": source}) as slot:
        ran = run_tests(slot, ["test_it.py::test_forks", "test_it.py::test_after"], with_pytest(repository.folder))
    forks, after = ran.runs["test_it.py::test_forks"], ran.runs["test_it.py::test_after"]
    assert forks.result is (Result.CRASHED if os.getuid() == 0 else Result.PASSED)
    assert forks.reason == ("it started more than 512 processes" if os.getuid() == 0 else "")
    assert after.result is Result.PASSED
    assert processes_of(tmp_path) == []


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_the_sandbox_hides_the_person_and_the_network(tmp_path: Path, repository: Repository) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    server = socket.create_server(("127.0.0.1", 0))
    taken = server.getsockname()[1]
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
def test_temporary_is_limited():
    with pytest.raises(OSError), tempfile.TemporaryFile() as file:
        for _ in range(100):
            file.write(b"x" * 1_000_000)
            file.flush()
def test_a_port_of_its_own():
    with socket.create_server(("127.0.0.1", {taken})):
        pass
def test_runs_where_the_checkout_is(): assert os.getcwd() == {str(repository.folder)!r}
def test_cannot_see_our_processes(): assert len([name for name in os.listdir("/proc") if name.isdigit()]) < 10
"""
    with server, laid(tmp_path, repository, {"test_it.py": source}) as slot:
        names = [line.split("(")[0].removeprefix("def ") for line in source.splitlines() if line.startswith("def ")]
        testing = replace(with_pytest(repository.folder), disk=50 * 2**20)
        ran = run_tests(slot, [f"test_it.py::{name}" for name in names], testing)
    assert {test: (run.result, run.output) for test, run in ran.runs.items() if run.result is not Result.PASSED} == {}
    assert len(ran.runs) == 9


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
def test_a_project_that_rewrites_results_is_found(tmp_path: Path, repository: Repository, conftest: str) -> None:
    with laid(tmp_path, repository, {"conftest.py": conftest, "test_it.py": "def test_it(): assert 0\n"}) as slot:
        ran = run_tests(slot, ["test_it.py::test_it"], with_pytest(repository.folder))
    found = ran.runs["test_it.py::test_it"]
    assert found.result is Result.NOT_RUN
    assert "canary" in found.reason or "has replaced what decides results: _pytest.runner.CallInfo" in found.reason


REPLACED = {
    "a function": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
    "its code": "import _pytest.python\n_pytest.python.Function.runtest.__code__ = (lambda self: None).__code__\n",
    "an assertion of unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *words: None\n",
}


@pytest.mark.parametrize("product", REPLACED.values(), ids=REPLACED)
def test_a_product_that_replaces_pytest_makes_the_result_unknown(
    tmp_path: Path, repository: Repository, product: str
) -> None:
    files = {"product.py": product, "test_it.py": "import product\ndef test_it(): assert 0\n"}
    with laid(tmp_path, repository, files) as slot:
        ran = run_tests(slot, ["test_it.py::test_it"], with_pytest(repository.folder))
    found = ran.runs["test_it.py::test_it"]
    assert (found.result, "has replaced what decides results" in found.reason) == (Result.NOT_RUN, True)


SHADOWS = {
    "pytest.py": "raise SystemExit(0)\n",
    "json.py": "raise SystemExit(0)\n",
    "planted.dist-info/entry_points.txt": "[pytest11]\nplanted = planted\n",
}


@pytest.mark.parametrize("path", SHADOWS)
def test_no_file_of_the_tree_takes_the_place_of_pytest(tmp_path: Path, repository: Repository, path: str) -> None:
    planted = "import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_pyfunc_call(): return True\n"
    files = {path: SHADOWS[path], "planted.py": planted, "planted.dist-info/METADATA": "Name: planted\nVersion: 1\n"}
    files["test_it.py"] = "import thing\ndef test_it(): assert 0\ndef test_good(): assert thing.VALUE\n"
    files["thing.py"] = "VALUE = 1\n"
    with laid(tmp_path, repository, files) as slot:
        testing = with_pytest(repository.folder, has_plugins=True)
        ran = run_tests(slot, ["test_it.py::test_it", "test_it.py::test_good"], testing)
    # What lies at the top of the tree is imported all the same, once pytest is there.
    assert [one.result for one in ran.runs.values()] == [Result.FAILED, Result.PASSED], list(ran.runs.values())


def tell_nobody(_test: str, _run: Execution) -> None:
    """Take a result that nobody waits for."""


@pytest.mark.parametrize("line", ['{"collected": 1}', '{"ended": [], "result": {}, "seconds": "x"}', "[" * 100_000])
def test_lines_of_a_wrong_type_are_no_results(tmp_path: Path, repository: Repository, line: str) -> None:
    with laid(tmp_path, repository, {"test_it.py": "def test_it(): pass\n"}) as slot:
        process = PytestProcess(
            slot, ["test_it.py::test_it"], with_pytest(repository.folder), tell_nobody, lambda: False
        )
        nonce = process._nonce
        text = line.replace("{", f'{{"nonce": "{nonce}", ', 1).encode()
        assert process._take(text) is False
        assert process.hold()["test_it.py::test_it"].result is Result.PASSED


def test_an_installed_copy_of_the_project_makes_the_result_unknown(tmp_path: Path, repository: Repository) -> None:
    """The trap: the environment has the project installed, not as editable, so the tree is not what is tested."""
    installed = "lib/site-packages/thing.py", "lib/site-packages/shop/__init__.py"
    files = dict.fromkeys((*installed, "src/shop/__init__.py", "test_a.py"), "")
    files["conftest.py"] = "import sys\nsys.path.insert(0, 'lib/site-packages')\n"
    files["test_a.py"] = "import os, thing\ndef test_a(): pass\ndef test_exits(): os._exit(0)\n"
    tests = ["test_a.py::test_a", "test_a.py::test_exits"]
    with laid(tmp_path, repository, files) as slot:
        well = run_tests(slot, tests, with_pytest(repository.folder))
        repository.commit("Import it", {"test_a.py": f"import shop\n{files['test_a.py']}"})
        slot.lay(repository.git("rev-parse", "HEAD^{tree}"))
        ran = run_tests(slot, tests, with_pytest(repository.folder))
    assert [run.result for run in well.runs.values()] == [Result.PASSED, Result.CRASHED]
    assert {run.result for run in ran.runs.values()} == {Result.NOT_RUN}
    assert "another tree was tested: " in ran.runs[tests[0]].reason


def test_bytecode_of_another_tree_is_not_used(tmp_path: Path, repository: Repository) -> None:
    """The trap: an edit of the same size within one second, and a project that has bytecode written."""
    files = {"conftest.py": "import sys\nsys.dont_write_bytecode = False\n", "thing.py": "VALUE = 1\n"}
    files["test_a.py"] = "import thing\ndef test_a(): assert thing.VALUE == 1\n"
    found: list[Execution] = []
    with laid(tmp_path, repository, files) as slot:
        for value in (1, 2, 1):
            repository.commit("Edit", {"thing.py": f"VALUE = {value}\n"})
            slot.lay(repository.git("rev-parse", "HEAD^{tree}"))
            os.utime(slot.tree_folder / "thing.py", (1_700_000_000, 1_700_000_000))
            found += run_tests(slot, ["test_a.py::test_a"], with_pytest(repository.folder)).runs.values()
    assert [run.result for run in found] == [Result.PASSED, Result.FAILED, Result.PASSED]


def test_plugins_of_the_project_do_not_hide_results(tmp_path: Path, repository: Repository) -> None:
    """pytest-xdist runs tests where our plugin is not; an exit of its own at the end says that all is well."""
    files = {
        "pytest.ini": "[pytest]\naddopts = -n 2\n",
        "conftest.py": "import atexit, os\natexit.register(lambda: os._exit(0))\n",
        "test_a.py": "def test_a(): pass\ndef test_b(): assert 0\n",
    }
    with laid(tmp_path, repository, files) as slot:
        testing = with_pytest(repository.folder, has_plugins=True)
        ran = run_tests(slot, ["test_a.py::test_a", "test_a.py::test_b"], testing)
        none = collect_tests(slot, ["conftest.py"], testing)
    assert [run.result for run in ran.runs.values()] == [Result.PASSED, Result.FAILED]
    assert (none.tests, none.reason) == ((), "")


def test_what_needs_a_submodule_or_a_large_file_is_unknown(tmp_path: Path, repository: Repository) -> None:
    other = Repository.make(tmp_path / "other")
    commit = other.commit("Start", {"data.py": "VALUE = 1\n"})
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1\n"
    repository.commit("Attributes", {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    files = {
        ".gitmodules": '[submodule "lib"]\n\tpath = vendor/lib\n\turl = ../other\n', "big.bin": pointer,
        "test_a.py": (
            "def test_imports():\n    import vendor.lib.data\n"
            "def test_opens(): assert open('big.bin').read() == 'x'\n"
            "def test_reads_no_text(): assert open('big.bin').read().startswith('version')\n"
            "def test_fails(): assert 0\n"
        ),
        "test_b.py": "import vendor.lib.data\ndef test_b(): pass\n",
        "Name.py": "X = 1\n", "name.py": "X = 2\n",
        "test_c.py": "import Name, name\ndef test_c(): assert (Name.X, name.X) == (1, 2)\n",
    }  # fmt: skip
    tests = [f"test_a.py::test_{name}" for name in ("imports", "opens", "reads_no_text", "fails")]
    tests += ["test_b.py::test_b", "test_c.py::test_c"]
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},vendor/lib")
    (repository.folder / "vendor" / "lib").mkdir(parents=True)
    with laid(tmp_path, repository, files) as slot:
        ran = run_tests(slot, tests, with_pytest(repository.folder))
    assert [ran.runs[test].result for test in tests] == [
        Result.NOT_RUN, Result.NOT_RUN, Result.PASSED, Result.FAILED, Result.NOT_RUN, Result.PASSED,
    ]  # fmt: skip
    assert "vendor/lib, a submodule" in ran.runs[tests[0]].reason
    assert "big.bin, a file of Git LFS" in ran.runs[tests[1]].reason
    assert "vendor/lib, a submodule" in ran.runs["test_b.py::test_b"].reason


def test_a_line_that_a_test_forges_is_not_believed(tmp_path: Path, repository: Repository) -> None:
    source = """
import json, os
def test_it():
    orders = os.environ["SELFTEST_VERIFY"]
    assert not os.path.exists(orders)  # they hold the word without which no line is believed
    with open(os.path.join(os.path.dirname(orders), "results"), "a") as file:
        line = {"ended": "test_it.py::test_other", "result": "passed", "seconds": 0, "output": ""}
        file.write(json.dumps(line) + "\\n")
        file.write("no json\\n[1]\\n" + "x" * 2_000_000 + "\\n")
def test_other(): assert 0
"""
    with laid(tmp_path, repository, {"test_it.py": source}) as slot:
        ran = run_tests(slot, ["test_it.py::test_it", "test_it.py::test_other"], with_pytest(repository.folder))
    assert [one.result for one in ran.runs.values()] == [Result.PASSED, Result.FAILED]


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


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_a_module_that_the_sandbox_may_hide_is_told_with_the_setting(tmp_path: Path, repository: Repository) -> None:
    with laid(tmp_path, repository, {"pytest.ini": "[pytest]\naddopts = -p nowhere_at_all\n", "test_a.py": ""}) as slot:
        found = collect_tests(slot, [], with_pytest(repository.folder))
    assert "No module named 'nowhere_at_all'" in found.reason
    assert "`verify_readable`" in found.reason


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
