"""All that a repository can make git run is planted at once; whatever this program does there, none of it runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.run.rehearsals import a_plan
from core.verify.desks import SETTINGS
from selftest_core.collect.changes import changed_paths, paths_of_work_tree
from selftest_core.git.command import Git, find_place
from selftest_core.git.history import read_commit_diff
from selftest_core.git.object_store import ObjectStore
from selftest_core.run.fetch.bundles import take
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.plan.source import identity, look_at
from selftest_core.verify.slots import Slot
from selftest_tui.fleet.feed import place_of

if TYPE_CHECKING:
    from pathlib import Path

# Not part of `make quick`: it verifies a review.
pytestmark = pytest.mark.real

PROGRAMS = (
    "core.fsmonitor", "core.editor", "core.pager", "core.gitProxy", "core.alternateRefsCommand", "core.askPass",
    "diff.external", "diff.x.textconv", "diff.x.command", "diff.x.wordRegex", "filter.x.clean", "filter.x.smudge",
    "filter.lfs.process", "filter.lfs.clean", "filter.lfs.smudge", "merge.x.driver", "mergetool.x.cmd", "gpg.program",
    "gpg.ssh.program", "sequence.editor", "interactive.diffFilter", "credential.helper", "uploadpack.packObjectsHook",
    "pager.diff", "pager.log", "pager.status", "browser.x.cmd", "remote.origin.vcs", "fsmonitor.socketDir",
)  # fmt: skip
ALIASES = ("status", "diff", "diff-tree", "rev-parse", "config", "cat-file", "bundle", "merge-tree", "ls-tree")
HOOKS = (
    "post-checkout", "post-index-change", "pre-commit", "post-commit", "reference-transaction", "pre-push",
    "post-merge", "post-rewrite", "pre-auto-gc", "fsmonitor-watchman", "update", "pre-receive", "post-receive",
)  # fmt: skip
TEST = "from shop import f\n\n\ndef test_f():\n    assert f() == 1\n"


class Planted:
    """A repository in which every program that git could be told to run is planted, with branches to review."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = Repository.make(folder / "shop")
        self.ran = folder / "ran"
        tree = {".gitattributes": "* filter=x diff=x merge=x\n*.bin filter=lfs\n", "a.bin": "x\n", "a.txt": "x\n"}
        modules = '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n'
        self.repository.commit("Start", {"shop.py": "def f():\n    return 0\n", "test_shop.py": TEST, **tree})
        inner = self.repository.git("rev-parse", "HEAD")
        self.repository.git("update-index", "--add", "--cacheinfo", f"160000,{inner},sub")
        self.repository.commit("More", {".gitmodules": modules, "conflict.txt": "1\n2\n3\n"})
        for name, result, line in (("ada", "1", "a"), ("bob", "0 + 1", "b")):
            self.repository.git("checkout", "-q", "-b", name, "main")
            changed = {
                f"{name}.py": "",
                "shop.py": f"def f():\n    return {result}\n",
                "conflict.txt": f"1\n{line}\n3\n",
            }
            self.repository.commit(f"[FIX_IMPL] Mend {name}", changed, name)
        self.repository.git("checkout", "-q", "main")
        self.base = self.repository.git("rev-parse", "main")
        bundle = folder / "branch.bundle"
        self.repository.git("bundle", "create", "-q", str(bundle), "ada", f"^{self.base}")
        self.bundle = bundle
        self._plant()

    def _plant(self) -> None:
        program = self.folder / "planted"
        program.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(self.ran))}\n')
        program.chmod(0o755)
        git, git_dir = self.repository.git, self.repository.folder / ".git"
        more = self.folder / "more.config"
        for number, name in enumerate(PROGRAMS):
            # Half of them by way of a file that the repository includes.
            where = ("--file", str(more)) if number % 2 else ("--local",)
            git("config", *where, name, f"{program} {name}")
        for name in ALIASES:
            git("config", f"alias.{name}", f"!{program} alias.{name}")
        for name, value in {
            "include.path": str(more), "core.hooksPath": str(git_dir / "planted"), "commit.gpgSign": "true",
            "tag.gpgSign": "true", "log.showSignature": "true", "filter.x.required": "true",
            "filter.lfs.required": "true", "submodule.sub.update": f"!{program} submodule", "submodule.recurse": "true",
            "submodule.sub.active": "true", "submodule.sub.url": f"ext::{program} url", "protocol.ext.allow": "always",
            "fetch.recurseSubmodules": "true", "push.recurseSubmodules": "check", "status.submoduleSummary": "true",
            "diff.submodule": "diff", "gc.auto": "1", "diff.ignoreSubmodules": "none",
        }.items():  # fmt: skip
            git("config", name, value)
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info" / "attributes").write_text("* filter=x diff=x merge=x\n")
        for folder in ("hooks", "planted"):
            (git_dir / folder).mkdir(exist_ok=True)
            for name in HOOKS:
                (git_dir / folder / name).write_text(f"#!/bin/sh\n{program} {name}\n")
                (git_dir / folder / name).chmod(0o755)

    def touch(self) -> None:
        """Make git look at the content of each file."""
        for path in self.repository.folder.iterdir():
            if path.is_file():
                os.utime(path, (1, 1))

    def what_ran(self) -> list[str]:
        """List what ran since the last time, and forget it."""
        found = self.ran.read_text().splitlines() if self.ran.exists() else []
        self.ran.unlink(missing_ok=True)
        return sorted({line.split()[0] for line in found})


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def test_what_is_planted_would_run(planted: Planted) -> None:
    planted.touch()
    git = planted.repository.git
    for words in (("status",), ("diff",), ("checkout", "-q", "-f", "ada"), ("merge", "-q", "bob"), ("log", "-p")):
        git(*words, check=False)
    assert set(planted.what_ran()) >= {
        "core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.x.command", "merge.x.driver", "post-checkout",
        "post-index-change",
    }  # fmt: skip


def test_no_command_runs_it(planted: Planted, tmp_path: Path) -> None:
    planted.touch()
    decisions = tmp_path / "decisions.json"
    decisions.write_text('{"default": "keep"}')
    environ = {**os.environ, **SETTINGS, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    targets = ("--base", "main", "ada", "bob")
    for command in (
        ("verify", "--batch", *targets),
        ("review", "--batch", "--verify", "--decisions", str(decisions), "--publish", "fixes", *targets),
        ("report", "--batch", *targets),
        ("search", "return"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "selftest_tui", *command], cwd=planted.repository.folder, env=environ,
            stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, timeout=600,
        )  # fmt: skip
        assert (command[0], planted.what_ran()) == (command[0], []), done.stderr
        assert done.returncode in (0, 1), (command, done.stdout, done.stderr)
    assert planted.repository.git("-c", "core.fsmonitor=false", "rev-parse", "fixes") != planted.base


def test_nothing_that_a_run_or_a_screen_does_runs_it(planted: Planted, tmp_path: Path) -> None:
    planted.touch()
    root, environ = planted.repository.folder, {**os.environ, "HOME": str(tmp_path)}
    place = find_place(root, environ)
    user = Git(place.git_dir, environ)
    assert place_of(root, environ).endswith("shop @ main")
    assert identity(place, environ)[0]
    assert look_at(root, "main", environ).base == planted.base
    make_clone(root, planted.base, tmp_path / "clone", environ)
    taken = take(a_plan(1, repository=str(root), base=planted.base), planted.bundle, "agent-00", environ)
    assert taken.tip == user.resolve("ada")
    assert "shop.py" in paths_of_work_tree(root, user)
    (root / "shop.py").write_text("changed\n")
    assert changed_paths(root, planted.base, user)["shop.py"] == "changed"
    assert read_commit_diff(place.git_dir, user.resolve("ada"), environ)
    with ObjectStore.open(tmp_path / "engine.git", place.git_dir, environ) as store:
        slot = Slot(tmp_path / "slot", store.git)
        for name in ("main", "ada", "bob"):
            slot.lay(store.tree_of(user.resolve(name)))
            slot.absent()
    assert planted.what_ran() == []
