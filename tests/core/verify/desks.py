"""A repository whose changes are good, lied about, breaking and flaky; and what verification needs of it."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.verify.environment import Environment, Testing, find_environment
from selftest_core.verify.sandbox import Isolation, choose_isolation
from selftest_core.verify.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from selftest_core.git.command import Git

PYTEST = (sys.executable, "-m", "pytest")
SETTINGS = {"SELFTEST_TUI_PYTEST_COMMAND": " ".join(PYTEST), "SELFTEST_TUI_ENV": PLAIN_PYTEST, PLAIN_PYTEST: "1"}
"""Variables with which the program verifies by this pytest, without plugins: they take most of its start."""
SANDBOX = choose_isolation("auto", os.environ)
NONE = Isolation("none", "asked for by a test")
ISOLATIONS = [NONE, SANDBOX] if SANDBOX.is_isolated else [NONE]


def with_pytest(
    checkout: Path, isolation: Isolation = SANDBOX, timeout: float = 60.0, *, has_plugins: bool = False
) -> Testing:
    """Pytest of this interpreter, on trees of this checkout."""
    return Testing(environment_of(checkout, isolation, has_plugins=has_plugins), isolation, timeout)


def environment_of(checkout: Path, isolation: Isolation, *, has_plugins: bool = False) -> Environment:
    """The environment of this interpreter. `has_plugins`: load its plugins, which takes most of pytest's start."""
    environ = os.environ if has_plugins else {**os.environ, PLAIN_PYTEST: "1"}
    return find_environment(checkout, PYTEST, (PLAIN_PYTEST,), isolation, environ)


@contextmanager
def laid(folder: Path, repository: Repository, files: Mapping[str, str | bytes | None]) -> Iterator[Slot]:
    """A slot with these files laid out."""
    from selftest_core.git.object_store import ObjectStore

    repository.commit("Tests", files)
    tree = repository.git("rev-parse", "HEAD^{tree}")
    with ObjectStore.open(folder / "engine.git", repository.folder / ".git", os.environ) as store:
        slot = Slot(folder / "slot", store.git)
        slot.lay(tree)
        yield slot


def never() -> threading.Event:
    """An event that nobody sets."""
    return threading.Event()


def slot_of(folder: Path, git: Git) -> Slot:
    """An empty slot."""
    return Slot(folder / "slot", git)


def make_shop(folder: Path) -> Repository:
    """Branches of eight agents on one base: each mends one module, for whose test it was started.

    cat lies: her test stays red. eve breaks test_common, which nobody owns. fay's test is red where cat's is
    loaded too. gus adds a test. hal changes conftest.py. fay's and kim's tests were green before.
    """
    repository = Repository.make(folder)
    files = {"shop/__init__.py": "", "conftest.py": "", "shop/common.py": "RATE = 1\n"}
    files["tests/test_common.py"] = "from shop.common import RATE\n\n\ndef test_rate():\n    assert RATE == 1\n"
    for name in ("ada", "bob", "cat", "eve", "fay", "gus", "hal", "kim"):
        files[f"shop/{name}.py"] = f"def f():\n    return {1 if name in ('fay', 'kim') else 0}\n"
        files[f"tests/test_{name}.py"] = f"from shop.{name} import f\n\n\ndef test_f():\n    assert f() == 1\n"
    repository.commit("Start", files)
    mends = {name: {f"shop/{name}.py": "def f():\n    return 1\n"} for name in ("ada", "bob", "eve", "gus", "hal")}
    mends["cat"] = {"shop/cat.py": "def f():\n    return 2\n"}
    mends["eve"]["shop/common.py"] = "RATE = 2\n"
    mends["fay"] = {"shop/fay.py": "import sys\n\n\ndef f():\n    return 1 + ('test_cat' in sys.modules)\n"}
    mends["gus"]["tests/test_gus.py"] = (
        "from shop.gus import f\n\n\ndef test_f():\n    assert f() == 1\n\n\n"
        "def test_twice():\n    assert f() + f() == 2\n"
    )
    mends["hal"]["conftest.py"] = "collect_ignore = []\n"
    mends["kim"] = {"shop/kim.py": "def f():\n    return 2 - 1\n"}
    for name, changed in mends.items():
        repository.git("checkout", "-q", "-b", name, "main")
        repository.commit(f"[FIX_IMPL] Mend {name}", changed, name)
    repository.git("checkout", "-q", "main")
    return repository
