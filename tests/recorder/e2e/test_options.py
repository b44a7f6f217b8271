"""Where the artifacts of tests go, what is kept, and what a killed pytest leaves."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from recorder.e2e.pytest_runs import CONFTEST, PYTEST, make_project, run_pytest
from worlds import BIN, eventually

if TYPE_CHECKING:
    from worlds import World

TESTS = """
from selftest_recorder.e2e.expect import expect

def test_good(e2e):
    expect(e2e.run("echo good")).to_succeed()

def test_bad(e2e):
    e2e.start("echo bad; exec sleep 100000").wait_for("bad")
    assert False
"""


BLIND = """
from selftest_recorder.e2e.expect import eventually, expect

ADD = "seq 3 > numbers"

def test_that_looks(e2e):
    block = e2e.write_tutorial_block(ADD)
    expect(block.run()).to_succeed()
    expect(e2e.repository / "numbers").to_have_text("1\\n2\\n3\\n")

def test_that_is_blind(e2e):
    expect(e2e.write_tutorial_block(ADD).run()).to_succeed()

def test_of_two(e2e):
    first, second = e2e.write_tutorial_block("mkdir new"), e2e.write_tutorial_block(ADD)
    first.run()
    expect(e2e.repository / "new").to_be_a_folder()
    with second.start():
        eventually(lambda: expect(e2e.repository / "numbers").to_contain("3"), "numbers", timeout=10_000)
"""


def test_a_test_that_passes_without_its_program_is_found(world: World) -> None:
    tutorial = "mkdir new\n\nseq 3 > numbers\n"
    make_project(world, {"conftest.py": CONFTEST, "test_it.py": BLIND, "tutorial.sh": tutorial})
    assert "3 passed" in run_pytest(world).stdout
    first = run_pytest(world, "--e2e-noop", "seq").stdout
    assert "FAILED test_it.py::test_that_looks" in first
    assert "1 failed, 2 passed" in first
    second = run_pytest(world, "--e2e-noop", "seq", "--e2e-noop-block", "2").stdout
    assert "numbers did not come within 2 s" in second
    assert "1 failed, 2 passed" in second


def test_an_agents_artifacts_are_among_its_results(world: World) -> None:
    make_project(world, {"test_it.py": TESTS})
    out = world.root / "out"
    for _ in range(2):
        run_pytest(world, "-k", "good", env={"SELFTEST_OUT": str(out)})
    found = sorted(path.name for path in (out / "artifacts/e2e").iterdir())
    assert found == ["test_it.py-test_good", "test_it.py-test_good-2"]
    assert "$ echo good\n  good\n? 0\n" in (out / "artifacts/e2e/test_it.py-test_good-2/transcript.txt").read_text()


def test_the_environment_of_a_failed_test_is_kept_until_it_is_swept(world: World) -> None:
    make_project(world, {"conftest.py": CONFTEST, "test_it.py": TESTS})
    done = run_pytest(world, "--e2e-keep-env", "on-failure", "-n", "2")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("kept: ")]
    kept = Path(line.split()[1])
    assert line.endswith("of test_it.py::test_bad")
    assert [path.name for path in (world.root / "d").glob("selftest-*")] == [kept.name]
    swept = world.run([BIN / "selftest-tui", "sweep"], check=False).stdout
    assert f"{kept}: an end-to-end test kept on request, 1 process still running" in swept
    world.run([BIN / "selftest-tui", "sweep", "--yes"])
    assert not kept.exists()


def test_a_killed_pytest_loses_nothing_of_the_transcript_and_what_it_left_is_swept(world: World) -> None:
    make_project(world, {"conftest.py": CONFTEST, "test_it.py": TESTS.replace("assert False", "e2e.run('sleep 9999')")})
    argv = [*PYTEST, "-k", "bad", "--e2e-artifacts", "out"]
    process = subprocess.Popen(argv, cwd=world.root / "p", env=world.environment, stdout=subprocess.DEVNULL)
    transcript = world.root / "p/out/test_it.py-test_bad/transcript.txt"
    begun = "$ echo bad; exec sleep 100000\n  bad\n$ sleep 9999\n"
    eventually(lambda: transcript.exists() and begun in transcript.read_text(), "the second command")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert transcript.read_text() == f"# test: test_it.py::test_bad\n{begun}"
    (left,) = (world.root / "d").glob("selftest-*")
    swept = world.run([BIN / "selftest-tui", "sweep", "--yes"]).stdout
    assert f"an end-to-end test whose process ({process.pid}) was killed, 2 processes still running" in swept
    assert not left.exists()
