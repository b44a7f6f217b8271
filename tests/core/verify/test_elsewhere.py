"""One contract for both verifiers: the same jobs give the same answers here and on two other machines over ssh."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from core.run.far_hosts import far_hosts
from core.verify.desks import PYTEST, SANDBOX, make_shop, with_pytest
from selftest_core.config import Config
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.errors import RefusedError
from selftest_core.git.object_store import ObjectStore
from selftest_core.run.crew.crew import LaunchError
from selftest_core.verify.commands.junit import REPORT
from selftest_core.verify.elsewhere.remote import FarSlot, RemoteVerifier, elsewhere_testing
from selftest_core.verify.local import LocalVerifier
from selftest_core.verify.schedule import Job, Order
from selftest_core.verify.verdicts import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from core.run.far_hosts import FarHost, FarHosts
    from selftest_core.verify.verdicts import Execution
    from selftest_core.verify.verifier import Verifier
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for thirty calls of mngr over ssh.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

_RAN = frozenset(Result) - {Result.NOT_RUN}
TRAPS = """\
import os, pathlib, sys
import pytest


def test_skipped():
    pytest.skip("not today")


def test_dies():
    os._exit(0)


def test_after_it():
    print("\\x1b[31mred\\x1b[0m", "x" * 200_000)
    pathlib.Path("left.txt").write_text("x")


def test_clean():
    assert not pathlib.Path("left.txt").exists()
    assert os.listdir(os.environ["HOME"]) == []
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Resources that a test opens."""
    with ExitStack() as opened:
        yield opened


def jobs_of(world: World) -> list[tuple[Job, list[str]]]:
    """Jobs on several trees: green, red, missing, not importable, and traps."""
    repository = make_shop(world.root / "shop")
    repository.git("checkout", "-q", "-b", "traps", "main")
    repository.commit(
        "Traps",
        {
            "tests/test_traps.py": TRAPS,
            "tests/test_bad.py": "import of_nobody\n",
        },
    )
    repository.git("checkout", "-q", "main")
    ada, cat = "tests/test_ada.py::test_f", "tests/test_cat.py::test_f"
    wanted = {
        "main": [ada, "tests/test_kim.py::test_f"],
        "ada": [ada, cat, "tests/test_none.py::test_f"],
        "cat": [cat],
        "traps": [f"tests/test_traps.py::test_{name}" for name in ("skipped", "dies", "after_it")]
        + ["tests/test_bad.py::test_f"],
    }
    trees = {branch: repository.git("rev-parse", f"{branch}^{{tree}}") for branch in wanted}
    # A second job on a tree finds nothing of what the first did to it.
    trees["traps again"], wanted["traps again"] = trees["traps"], ["tests/test_traps.py::test_clean"]
    return [(Job(trees[branch], tuple((test, 0) for test in tests), branch), tests) for branch, tests in wanted.items()]


def answers(verifier: Verifier, jobs: Sequence[tuple[Job, list[str]]]) -> dict[str, dict[str, tuple[Result, str]]]:
    """The answers by branch and test; each was told once as it came, but those of jobs that could not be run."""
    told: list[tuple[str, str]] = []
    lock = threading.Lock()

    def tell(job: Job, test: str, run: Execution) -> None:
        with lock:
            told.append((job.purpose, test))

    found = {job.purpose: dict(runs) for job, runs in verifier.run(jobs, tell, Order())}
    ran = ((branch, test) for branch, runs in found.items() for test, run in runs.items() if run.result in _RAN)
    assert sorted(told) == sorted(ran)
    return {branch: {test: (run.result, run.reason) for test, run in runs.items()} for branch, runs in found.items()}


def remote(world: World, store: ObjectStore, hosts: Sequence[FarHost], **settings: Any) -> RemoteVerifier:
    """A verifier on these machines, a slot for each."""
    on = ",".join(host.place for host in hosts)
    config = Config(**{"verify_command": PYTEST, "setup_command": "", "env": (PLAIN_PYTEST,), **settings})
    environ = {**world.environment, PLAIN_PYTEST: "1"}
    testing = elsewhere_testing(world.root / "shop", on, config, environ)
    verifier = RemoteVerifier(world.root / "slots", store.git, testing, len(hosts), on, config, environ)
    verifier.begin(threading.Event())
    return verifier


def assert_nothing_is_left(world: World, far: FarHosts, hosts: Sequence[FarHost]) -> None:
    """No agent, no process, no file of a verification on these machines, nor here."""
    for host in hosts:
        listed = json.loads(world.mngr("list", "--provider", host.name, "--format", "json"))
        assert listed["agents"] == []
        assert far.run(host, "ls -A /tmp/selftest-copies 2>/dev/null || true").strip() == ""
        assert "host_runner" not in far.run(host, "ps -axww -o args= | grep -v grep | grep host_runner || true")
    assert not (world.root / "slots").exists()


def test_both_verifiers_give_the_same_answers(world: World, stack: ExitStack) -> None:
    far = stack.enter_context(far_hosts(world))
    hosts = [far.add("one"), far.add("two")]
    jobs = jobs_of(world)
    world.load_mngr()
    shop = world.root / "shop"
    store = stack.enter_context(ObjectStore.open(world.root / "engine.git", shop / ".git", world.environment))
    with LocalVerifier(world.root / "here", store.git, with_pytest(shop, SANDBOX), 2) as local:
        local.begin(threading.Event())
        here = answers(local, jobs)
        collected, root = local.collect(jobs[3][0].tree, lambda _: ["tests/test_traps.py", "tests/test_bad.py"])
        assert (root / "tests" / "test_traps.py").is_file()
    with remote(world, store, hosts) as verifier:
        there = answers(verifier, jobs)
        far_collected, root = verifier.collect(jobs[3][0].tree, lambda _: ["tests/test_traps.py", "tests/test_bad.py"])
        assert (root / "tests" / "test_traps.py").is_file()
        # Both machines were given work, and what they run is theirs: nothing of the repository but trees is there.
        for host in hosts:
            kept = far.run(host, "ls /tmp/selftest-copies/*/.selftest")
            assert "objects.git" in kept
    assert there == here
    assert here["ada"]["tests/test_ada.py::test_f"] == (Result.PASSED, "")
    assert here["cat"]["tests/test_cat.py::test_f"] == (Result.FAILED, "")
    assert here["traps"]["tests/test_traps.py::test_dies"][0] is Result.CRASHED
    assert here["traps again"]["tests/test_traps.py::test_clean"][0] is Result.PASSED
    assert here["ada"]["tests/test_none.py::test_f"][0] is Result.MISSING
    assert (far_collected.tests, far_collected.reason) == (collected.tests, collected.reason)
    assert far_collected.errors.keys() == collected.errors.keys() == {"tests/test_bad.py"}
    assert_nothing_is_left(world, far, hosts)


def test_a_machine_that_is_gone_costs_a_try_and_without_any_all_is_unknown(world: World, stack: ExitStack) -> None:
    far = stack.enter_context(far_hosts(world))
    goes, stays = far.add("one"), far.add("two")
    jobs = jobs_of(world)[:2]
    world.load_mngr()
    store = stack.enter_context(
        ObjectStore.open(world.root / "engine.git", world.root / "shop" / ".git", world.environment)
    )
    goes.end()
    with remote(world, store, [goes, stays]) as verifier:
        found = answers(verifier, jobs)
        assert found["ada"]["tests/test_ada.py::test_f"] == (Result.PASSED, "")
        assert {result for runs in found.values() for result, _ in runs.values()} <= {
            Result.PASSED, Result.FAILED, Result.MISSING,
        }  # fmt: skip
        stays.end()
        found = answers(verifier, jobs[:1])
        for result, reason in found["main"].values():
            assert result is Result.NOT_RUN
            assert reason
    assert not (world.root / "slots").exists()


def test_what_was_killed_is_removed_by_the_next_and_a_failed_setup_is_the_reason(
    world: World, stack: ExitStack
) -> None:
    far = stack.enter_context(far_hosts(world))
    hosts = [far.add("one")]
    jobs = jobs_of(world)[:1]
    world.load_mngr()
    store = stack.enter_context(
        ObjectStore.open(world.root / "engine.git", world.root / "shop" / ".git", world.environment)
    )
    killed = remote(world, store, hosts)  # never closed, as kill -9 leaves it
    answers(killed, jobs)
    with remote(world, store, hosts, setup_command="echo no such package; exit 7") as verifier:
        listed = json.loads(world.mngr("list", "--provider", "one", "--format", "json"))
        assert listed["agents"] == []
        found = answers(verifier, jobs)
        for result, reason in found["main"].values():
            assert result is Result.NOT_RUN
            assert "no such package" in reason
    assert_nothing_is_left(world, far, hosts)


def test_a_required_sandbox_is_refused_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="requires a sandbox"):
        elsewhere_testing(tmp_path, "modal", Config(verify_isolation="require"), {})


def test_what_would_run_here_is_refused_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="Only pytest"):
        elsewhere_testing(tmp_path, "modal", Config(verify_command=("go-test", REPORT)), {})


def test_mngr_takes_what_is_asked_for_on_modal(world: World, stack: ExitStack) -> None:
    """Its plugin is not installed here: mngr reads all arguments before it names that as what is missing."""
    repository = make_shop(world.root / "shop")
    world.load_mngr()
    store = stack.enter_context(
        ObjectStore.open(world.root / "engine.git", repository.folder / ".git", world.environment)
    )
    config = Config(create_args=("--label", "team=shop"))
    testing = elsewhere_testing(repository.folder, "modal", config, world.environment)
    assert (testing.isolation.kind, testing.isolation.reason) == ("host", "on modal")
    with RemoteVerifier(world.root / "slots", store.git, testing, 1, "modal", config, world.environment) as verifier:
        slot = FarSlot(world.root / "slots" / "one", store.git, verifier.hosts, 0)
        with pytest.raises(LaunchError) as raised:
            slot.agent()
    assert raised.value.tool_exit_status == 1  # 2 is what a wrong argument ends with
    assert "Unknown provider backend: modal" in raised.value.detail
    argv = raised.value.argv
    assert argv[argv.index("-b") + 1] == "timeout=3600"
    assert argv[2].endswith("@.modal")
    assert "team=shop" in argv
