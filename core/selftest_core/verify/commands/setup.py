"""Set up the environment of a tree in its slot.

The command of the setting `setup_command` runs in the tree, in the same isolation as the tests, with the network for
this step alone. What it makes there (`.venv`, `node_modules`) is moved out of the tree, and put back, read-only, while
tests run.

A set-up runs code of its tree, which may write anything into what it makes. So a tree gets what was made from itself,
or from the base where lock, manifest and all that the command names are the base's: never what another branch made.
Only the base's set-up writes to the project's package cache; any other has a copy, which goes with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.verify.commands.contained import contained_variables, run_in_slot
from selftest_core.verify.folders.hostile import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from selftest_core.verify.environment import Setup, Testing
    from selftest_core.verify.slots import Slot

TIMEOUT = 1800.0
"""Seconds that a set-up may take."""
_MOST_MADE = 200
_MANIFESTS = frozenset(
    {
        "pyproject.toml", "setup.py", "setup.cfg", "uv.toml", ".python-version", "Pipfile", "tox.ini", "noxfile.py",
        "environment.yml", "package.json", ".nvmrc", ".npmrc", "Cargo.toml", "go.mod", "go.sum", "Gemfile",
        "composer.json", "pom.xml", "build.gradle", "mix.exs", "Makefile",
    }
)  # fmt: skip
_ENVIRONMENTS = frozenset({".venv", "venv", "node_modules", ".tox", ".nox"})
"""Names of folders that hold what a manifest names, and nothing of the project's own sources."""


@dataclass(frozen=True, slots=True)
class SetupFailure:
    """A set-up that failed: nothing can be said of the tree. `output`: what it printed, not safe to show."""

    reason: str
    output: str = ""


def prepare(slot: Slot, testing: Testing, should_stop: Callable[[], bool], base: str = "") -> SetupFailure | None:
    """Have the environment for the tree that is laid in the slot. Blocking; nothing to do where there is no set-up.

    `base`: the tree that no branch has changed; "" where nobody knows it.
    """
    setup = testing.environment.setup
    if setup is None:
        return None
    tree = slot.laid
    entries = slot.entries(tree)
    digest = _digest(entries, setup)
    if base and base != tree and digest not in slot.unshared and digest == _digest(slot.entries(base), setup):
        if slot.made_for != (digest, base):
            failure = _make(slot, testing, setup, should_stop, base, base)
            slot.lay(tree)
            if failure is not None:
                if should_stop():
                    return failure
                slot.unshared.add(digest)  # what its own set-up makes may be well
        if not all(_is_environment(path) for path in slot.made):
            slot.unshared.add(digest)  # it may be built from sources
        if digest not in slot.unshared and not _hides(slot.made, entries):
            return None
    if slot.made_for == (digest, tree):
        return None
    return _make(slot, testing, setup, should_stop, tree, base)


def _make(
    slot: Slot, testing: Testing, setup: Setup, should_stop: Callable[[], bool], tree: str, base: str
) -> SetupFailure | None:
    """Run the set-up on a tree, and keep what it makes."""
    slot.forget_made()
    slot.lay(tree)
    packages = setup.packages
    packages.mkdir(parents=True, exist_ok=True)
    os.utime(packages)  # a sweep removes what was not used for long
    remove_tree(slot.packages)
    if tree != base:
        packages = slot.packages
        # What another set-up of the base is writing just now is fetched anew.
        with contextlib.suppress(shutil.Error):
            shutil.copytree(setup.packages, packages, symlinks=True)
    # Isolated, it appears where the base's is: files in a cache may name others by their whole path.
    seen = setup.packages if testing.isolation.is_isolated else packages
    ended = run_in_slot(
        slot, testing, ["/bin/sh", "-c", setup.command], _variables(slot, testing, setup, seen), timeout=TIMEOUT,
        should_stop=should_stop, bindings={seen: packages}, network=True,
    )  # fmt: skip
    remove_tree(slot.packages)
    if ended.reason or ended.status:
        why = ended.reason or f"ended with status {ended.status}"
        hint = '(setup_command = "" uses your own environment)'
        return SetupFailure(f"the set-up of its environment failed: `{setup.command}` {why} {hint}", ended.output)
    made = slot.untracked(_MOST_MADE + 1)
    if len(made) > _MOST_MADE:
        return SetupFailure(f"`{setup.command}` makes more than {_MOST_MADE} files and folders among the project's own")
    slot.keep_made(made, (_digest(slot.entries(tree), setup), tree))
    return None


def _hides(made: Sequence[str], entries: Sequence[str]) -> bool:
    """True where a tree holds itself what was made for another, or has something else than a folder around it."""
    inside = tuple(f"{path}/" for path in made)
    around = {str(parent) for path in made for parent in PurePosixPath(path).parents}
    paths = [line.partition("\t")[2] for line in entries]
    return any(f"{path}/".startswith(inside) or path in around for path in paths if inside)


def _is_environment(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in _ENVIRONMENTS or name.endswith((".egg-info", ".dist-info"))


def _digest(entries: Sequence[str], setup: Setup) -> str:
    """Name what the environment depends on: locks, manifests and files that the command names, as they are in the tree.

    Interpreter, variables and the command itself are the same for all slots of one verification.
    """
    try:
        named = {word.removeprefix("./") for word in shlex.split(setup.command)}
    except ValueError:
        named = set(setup.command.split())
    lines = [line for line in entries if _is_manifest(line.partition("\t")[2], named)]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()


def why_environment_differs(paths: Iterable[str]) -> str:
    """Return the reason why an agent's environment may not have been that of the base, empty where it was."""
    path = next((one for one in paths if _is_manifest(one, set())), None)
    return "" if path is None else f"it changes {path}, and tests run in the environment of the base here"


def _is_manifest(path: str, named: set[str]) -> bool:
    name = path.rpartition("/")[2]
    return (
        path in named
        or name in _MANIFESTS
        or name.endswith((".lock", "-lock.json", "-lock.yaml", ".lockb"))
        or name.startswith(("requirements", "constraints"))
    )


def _variables(slot: Slot, testing: Testing, setup: Setup, packages: Path) -> dict[str, str]:
    return {
        **dict(setup.variables),
        **contained_variables(slot, testing),
        "XDG_CACHE_HOME": str(packages),
        "UV_CACHE_DIR": str(packages / "uv"),
        "PIP_CACHE_DIR": str(packages / "pip"),
        "npm_config_cache": str(packages / "npm"),
        # Links would let a test write into the cache; an interpreter is never fetched.
        "UV_LINK_MODE": "copy",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PYTHON": setup.python,
        "UV_PROJECT_ENVIRONMENT": ".venv",
        "UV_COMPILE_BYTECODE": "1",
    }
