"""Claims of agents verified as they arrive, with the real git and the real pytest."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from core.run.rehearsals import a_plan
from core.verify.desks import PYTEST, SANDBOX, make_shop
from selftest_core.config import Config
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.verify.kept.results import FILE_NAME
from selftest_core.verify.on_arrival import ArrivalVerifier, isolation_of_claims
from worlds import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_core.run.outcome.claims import ClaimVerdict

pytestmark = pytest.mark.real

type Claim = tuple[str, str]


def environ_of(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder), PLAIN_PYTEST: "1"}


def verifier_of(repository: Repository, environ: Mapping[str, str], **settings: Any) -> ArrivalVerifier:
    config = Config(pytest_command=PYTEST, env=(PLAIN_PYTEST,), verify_jobs=2, **settings)
    plan = a_plan(
        1, repository=str(repository.folder), base=repository.git("rev-parse", "main"),
        verify_on_arrival=SANDBOX.kind,
    )  # fmt: skip
    return ArrivalVerifier(plan, config, environ)


def verified(
    repository: Repository, environ: Mapping[str, str], claims: list[Claim], **settings: Any
) -> list[ClaimVerdict]:
    """Verify claims, a test and a branch each, all at once; nothing is left over."""

    async def verify() -> list[ClaimVerdict]:
        verifier = verifier_of(repository, environ, **settings)
        try:
            tips = [repository.git("rev-parse", branch) for _, branch in claims]
            return await asyncio.gather(
                *(verifier.verify(test, tip) for (test, _), tip in zip(claims, tips, strict=True))
            )
        finally:
            await verifier.close()

    found = asyncio.run(verify())
    assert not list((repository.folder.parent / "cache").rglob("*-arrival"))
    return found


def runs_of(repository: Repository) -> list[tuple[object, ...]]:
    """All runs that were kept, each with its time."""
    with closing(sqlite3.connect(repository.folder / ".selftest" / FILE_NAME)) as database:
        return database.execute("SELECT tree, test, number, at FROM run ORDER BY 1, 2, 3").fetchall()


def test_liars_and_flakes_are_told_from_those_that_hold_and_from_what_cannot_be_known(tmp_path: Path) -> None:
    repository, environ = make_shop(tmp_path / "shop"), environ_of(tmp_path)
    repository.git("checkout", "-q", "-b", "ivy", "main")
    repository.commit("Delete the test", {"tests/test_ada.py": None})
    repository.git("checkout", "-q", "-b", "kit", "main")
    repository.commit("Toss", {"shop/bob.py": "import time\n\n\ndef f():\n    return time.time_ns() // 1000 % 2\n"})
    repository.git("checkout", "-q", "-b", "joe", "main")
    repository.commit("Break the import", {"tests/test_bob.py": "import shop.of_nobody\n"})
    repository.git("checkout", "-q", "main")
    mine = {path: path.read_bytes() for path in repository.folder.rglob("*") if path.is_file()}
    claims = [(f"tests/test_{name}.py::test_f", name) for name in ("ada", "cat")]
    claims += [
        ("tests/test_bob.py::test_f", "kit"),
        ("tests/test_ada.py::test_f", "ivy"),
        ("tests/test_bob.py::test_f", "joe"),
    ]
    ada, cat, tossed, gone, broken = verified(repository, environ, claims)
    assert ada.result is ClaimResult.PASSED
    assert cat.result is broken.result is ClaimResult.FAILED
    assert cat.reason == "it failed in 3 of 3 runs"
    assert "assert 2 == 1" in cat.output
    # It is flaky, unless it happened to pass at once or to fail three times.
    assert tossed.result is not ClaimResult.UNKNOWN
    assert (gone.result, gone.reason) == (ClaimResult.UNKNOWN, "not collected on this tree")

    # The user's checkout, index and refs are as they were; only `.selftest/`, which is ignored, is new.
    now = {
        path: path.read_bytes()
        for path in repository.folder.rglob("*")
        if path.is_file() and ".selftest" not in path.relative_to(repository.folder).parts
    }
    assert now == mine

    # Results are kept, where a review finds them too: the same claims need no process.
    kept = runs_of(repository)
    again = verified(repository, environ, claims[:2])
    assert [one.result for one in again] == [ClaimResult.PASSED, ClaimResult.FAILED]
    assert runs_of(repository) == kept


def test_what_this_machine_cannot_import_accuses_nobody(tmp_path: Path) -> None:
    repository, environ = make_shop(tmp_path / "shop"), environ_of(tmp_path)
    repository.commit("Need something", {"tests/test_need.py": "import only_there\n\n\ndef test_it():\n    pass\n"})
    repository.git("checkout", "-q", "-b", "lea", "main")
    repository.commit("Mend", {"shop/ada.py": "def f():\n    return 1\n"})
    repository.git("checkout", "-q", "main")
    (one,) = verified(repository, environ, [("tests/test_need.py::test_it", "lea")])
    assert one.result is ClaimResult.UNKNOWN
    assert "the module only_there" in one.reason


def test_who_changes_a_manifest_or_lacks_something_here_is_not_accused(tmp_path: Path) -> None:
    repository, environ = make_shop(tmp_path / "shop"), environ_of(tmp_path)
    files = {
        "adds": {"shop/ada.py": "import of_a_new_dependency\n", "requirements.txt": "of-a-new-dependency\n"},
        "wrong": {"shop/ada.py": "def f():\n    return 0\n", "requirements.txt": "of-a-new-dependency\n"},
        "needs": {"shop/ada.py": "import os\n\n\ndef f():\n    return os.environ['SHOP_KEY']\n"},
        "lies": {"shop/ada.py": "def f():\n    return 0\n"},
    }
    for name, changed in files.items():
        repository.git("checkout", "-q", "-b", name, "main")
        repository.commit(name, changed)
    repository.git("checkout", "-q", "main")
    claims = [("tests/test_ada.py::test_f", name) for name in files]
    adds, wrong, needs, lies = verified(repository, environ, claims)
    assert [one.result for one in (adds, wrong, needs)] == [ClaimResult.UNKNOWN] * 3
    assert lies.result is ClaimResult.FAILED
    assert "the module of_a_new_dependency" in adds.reason
    assert "requirements.txt" in wrong.reason
    assert "the variable SHOP_KEY" in needs.reason


def test_a_cancelled_verification_ends_its_processes(tmp_path: Path) -> None:
    repository, environ = make_shop(tmp_path / "shop"), environ_of(tmp_path)
    hangs = "import time\n\n\ndef test_f():\n    time.sleep(100000)\n"
    repository.commit("Hang", {"tests/test_hangs.py": hangs})

    def begun(path: Path) -> bool:
        try:
            said = path.read_bytes()
        except FileNotFoundError:  # a slot is emptied between two processes
            return False
        return b"begun" in said and b"test_hangs" in said

    async def cancel() -> None:
        verifier = verifier_of(repository, environ)
        task = asyncio.ensure_future(
            verifier.verify("tests/test_hangs.py::test_f", repository.git("rev-parse", "main"))
        )
        results = tmp_path / "cache" / "selftest-tui" / "verify"
        async with asyncio.timeout(PATIENCE):
            while not any(begun(path) for path in results.rglob("results")):
                await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await verifier.close()

    asyncio.run(cancel())
    assert not list((tmp_path / "cache").rglob("*-arrival"))


def test_without_a_program_or_the_sandbox_that_was_promised_all_is_unknown(tmp_path: Path) -> None:
    repository, environ = make_shop(tmp_path / "shop"), environ_of(tmp_path)
    claim = [("tests/test_ada.py::test_f", "ada")]
    (one,) = verified(repository, environ, claim, verify_command=("no-such-pytest",))
    assert one.result is ClaimResult.UNKNOWN
    assert "no-such-pytest is not installed" in one.reason
    if SANDBOX.is_isolated:
        # What the person was told holds, whatever became of the machine.
        tools = tmp_path / "bin"
        tools.mkdir()
        for name in ("git", "sh"):
            (tools / name).symlink_to(shutil.which(name) or name)
        (one,) = verified(repository, {**environ, "PATH": str(tools)}, claim)
        assert (one.result, "cannot be isolated" in one.reason) == (ClaimResult.UNKNOWN, True)


def test_the_setting_decides_on_the_isolation(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    assert isolation_of_claims(Config(verify_isolation="none"), environ).kind == "none"
    assert isolation_of_claims(Config(), environ).kind == SANDBOX.kind
