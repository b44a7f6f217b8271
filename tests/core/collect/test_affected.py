"""Which tests a change affects, and why, over real repositories."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from core.collect.picking import ALL, FILES, picked, write
from core.review.repositories import Repository
from selftest_core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "a shop")
    made.commit("first", FILES)
    made.git("tag", "base")
    return made


def test_nothing_changed_affects_nothing(repository: Repository) -> None:
    assert picked(repository.folder) == {}


def test_a_test_file_affects_its_tests_committed_or_not(repository: Repository) -> None:
    repository.commit("second", {"tests/test_till.py": FILES["tests/test_till.py"] + "\n"})
    assert picked(repository.folder) == {"tests/test_till.py::test_pay": ("tests/test_till.py changed",)}
    write(repository.folder, "tests/test_cart.py", FILES["tests/test_cart.py"] + "\n")
    assert picked(repository.folder, "HEAD") == {
        "tests/test_cart.py::test_add": ("tests/test_cart.py changed",),
        "tests/test_cart.py::test_remove": ("tests/test_cart.py changed",),
    }


def test_new_and_renamed_test_files(repository: Repository) -> None:
    repository.git("mv", "tests/test_till.py", "tests/test_tïll.py")
    write(repository.folder, "tests/test_new one.py", "def test_new(): ...\n")
    assert picked(repository.folder) == {
        "tests/test_tïll.py::test_pay": ("tests/test_tïll.py was tests/test_till.py",),
        "tests/test_new one.py::test_new": ("tests/test_new one.py is new and not committed",),
    }


def test_a_conftest_affects_the_tests_below_it(repository: Repository) -> None:
    below = {name for name in ALL if name.startswith("tests/cli/")}
    (repository.folder / "tests/cli/conftest.py").unlink()
    found = picked(repository.folder)
    assert set(found) == below
    assert set(found.values()) == {("tests/cli/conftest.py was deleted",)}
    write(repository.folder, "conftest.py", "x = 1\n")
    found = picked(repository.folder)
    assert set(found) == ALL
    assert found["tests/test_cart.py::test_add"] == ("conftest.py is new and not committed",)


@pytest.mark.parametrize(
    ("module", "tests"),
    [
        ("src/shop/cart.py", {name for name in ALL if "cart.py" in name or "plugin" in name}),
        ("src/shop/till.py", {"tests/test_till.py::test_pay"}),
        ("src/shop/types.py", set()),
        ("src/shop/__init__.py", {"tests/test_till.py::test_pay"}),
        ("tests/making.py", {"tests/test_till.py::test_pay"}),
        ("tests/cli/support.py", {name for name in ALL if "test_cli" in name}),
    ],
)
@pytest.mark.parametrize("is_deleted", [False, True], ids=["changed", "deleted"])
def test_a_module_affects_those_that_import_it_directly(
    repository: Repository, module: str, tests: set[str], is_deleted: bool
) -> None:
    if is_deleted:
        (repository.folder / module).unlink()
    else:
        write(repository.folder, module, "x = 1\n")
    found = picked(repository.folder)
    assert set(found) == tests
    what = "was deleted" if is_deleted else "changed"
    assert set(found.values()) <= {(f"it imports {module}, which {what}",)}


def test_a_cited_block_affects_those_that_cite_it_as_it_was_or_as_it_is(repository: Repository) -> None:
    write(repository.folder, "tutorial.sh", "#!/bin/sh\n\nshop add apple\nshop pay --cash\n\n\n  shop list\n")
    assert picked(repository.folder) == {
        "tests/cli/test_cli.py::test_buy": ("it cites the block that was at tutorial.sh:3, which changed",)
    }
    repository.commit("second", {"tests/cli/test_cli.py": FILES["tests/cli/test_cli.py"].replace("pay", "pay --cash")})
    repository.git("checkout", "-q", "HEAD~", "--", "tutorial.sh")
    assert picked(repository.folder, "HEAD") == {
        "tests/cli/test_cli.py::test_buy": ("it cites the block that was at tutorial.sh:3, which changed",)
    }
    repository.git("checkout", "-q", "HEAD", "--", "tutorial.sh")
    reason = "it cites the block at tutorial.sh:3, which changed"
    assert picked(repository.folder)["tests/cli/test_cli.py::test_buy"] == ("tests/cli/test_cli.py changed", reason)


def test_a_linked_work_tree_is_compared_with_its_own_files(repository: Repository, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    repository.git("worktree", "add", "-q", "-b", "side", str(linked))
    write(repository.folder, "tests/test_cart.py", "def test_add(): ...\n")
    repository.commit("on main", {"tests/extra.py": ""})
    assert picked(linked) == {}
    write(linked, "tests/test_till.py", "def test_pay(): ...\n")
    assert picked(linked) == {"tests/test_till.py::test_pay": ("tests/test_till.py changed",)}


def test_looking_changes_nothing_and_runs_nothing(repository: Repository) -> None:
    ran = repository.folder / "ran"
    repository.git("config", "core.fsmonitor", f"touch '{ran}'; false")
    repository.git("config", "diff.external", f"touch '{ran}'; false")
    os.utime(repository.folder / "tests/test_cart.py", (1, 1))
    index = (repository.folder / ".git/index").read_bytes()
    assert picked(repository.folder) == {}
    assert (repository.folder / ".git/index").read_bytes() == index
    assert not ran.exists()


def test_an_unknown_base_is_said(repository: Repository) -> None:
    with pytest.raises(UsageError, match="'nowhere' is not a commit of this repository"):
        picked(repository.folder, "nowhere")
    with pytest.raises(UsageError):
        picked(repository.folder, "--output=x")


PROGRAM = {
    **FILES,
    "pyproject.toml": "[project.scripts]\nshop = 'shop.cli.main:main'\n",
    "src/shop/cli/__init__.py": "",
    "src/shop/cli/main.py": (
        "from importlib import import_module\nfrom typing import TYPE_CHECKING\nfrom shop import log\n"
        "if TYPE_CHECKING:\n    from shop import till\n"
        "def main(name):\n    match name:\n        case 'add':\n            from shop.cli import adding\n"
        "        case 'list':\n            from . import listing\n"
        "        case _:\n            import_module(f'shop.more.{name}')\n"
    ),
    "src/shop/cli/adding.py": "from shop import cart\n",
    "src/shop/cli/listing.py": "MODULE = 'shop.shelf'\n",
    "src/shop/log.py": "import shop.cli.main\n",
    "src/shop/shelf.py": "from ..shop import log\n",
    "src/shop/more/__init__.py": "",
    "src/shop/more/tax.py": "",
    "src/shop/cart.json": "{}",
    "src/shop/__main__.py": "from shop import till\n",
    "bin/all.sh": "#!/bin/sh\nset -e\nshop list && shop add pear\n",
    "tests/calls/conftest.py": "import pytest\n@pytest.fixture\ndef listed(): return RUN(['shop', 'list'])\n",
    "tests/calls/callers.py": "def call(*words): return run([BIN / 'shop', *words])\n",
    "tests/calls/test_calls.py": (
        "import sys\nfrom callers import call\n"
        "def test_listed(listed): ...\n"
        "def test_helped(): call('list')\n"
        "def test_module(): run([sys.executable, '-m', 'shop', 'x'])\n"
        "def test_script(): run('bin/all.sh')\n"
        "def test_talk():\n    '''shop add nothing'''\n    assert 'shop' == 'shop'\n"
        "class TestShop:\n    def add(self): run(f'shop --fast add {self.it}')\n    def test_add(self): self.add()\n"
    ),
}  # fmt: skip

LISTING = {"cli.py::test_list", "::test_listed", "::test_helped", "::test_script"}


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/shop/cli/adding.py", {"cli.py::test_buy", "::test_helped", "::test_script", "::TestShop::test_add"}),
        ("src/shop/cli/listing.py", {*LISTING, "cli.py::test_buy"}),
        ("src/shop/shelf.py", {*LISTING, "cli.py::test_buy"}),
        ("src/shop/more/tax.py", {*LISTING, "cli.py::test_buy", "::TestShop::test_add"}),
        ("src/shop/cart.json", {*LISTING, "cli.py::test_buy", "::TestShop::test_add", "::test_module"}),
        ("src/shop/__main__.py", {"::test_module"}),
        ("src/shop/till.py", {"::test_module", "till.py::test_pay"}),
        ("bin/all.sh", {"::test_script"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_deleted", [False, True], ids=["changed", "deleted"])
def test_a_changed_file_affects_tests_that_run_a_program_which_uses_it(
    tmp_path: Path, path: str, tests: set[str], is_deleted: bool
) -> None:
    repository = Repository.make(tmp_path / "shop")
    repository.commit("first", PROGRAM)
    repository.git("tag", "base")
    if is_deleted:
        (repository.folder / path).unlink()
    else:
        write(repository.folder, path, PROGRAM[path] + "\n")

    found = picked(repository.folder)

    assert {re.sub("tests/(calls/test_calls.py|(cli/)?test_)", "", name) for name in found} == tests
    said = {reason for name, reasons in found.items() if "till.py" not in name for reason in reasons}
    what = "was deleted" if is_deleted else "changed"
    assert all(one.startswith("it runs `") and one.endswith(f"which uses {path}, which {what}") for one in said)
