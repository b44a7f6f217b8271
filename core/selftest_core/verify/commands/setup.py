"""Set up the environment of a tree in its slot, and keep it for other trees with the same lock and manifest.

The command of the setting `setup_command` runs in the tree, in the same isolation as the tests, with the network for
this step alone. What it makes there (`.venv`, `node_modules`) is moved out of the tree, and put back, read-only, while
tests run. What is built from sources is made anew for each tree: only environments may be kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.verify.commands.contained import contained_variables, run_in_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def prepare(slot: Slot, testing: Testing, should_stop: Callable[[], bool]) -> SetupFailure | None:
    """Have the environment for the tree that is laid in the slot. Blocking; nothing to do where there is no set-up."""
    setup = testing.environment.setup
    if setup is None:
        return None
    entries = slot.entries()
    digest = _digest(entries, setup)
    # What a tree holds itself must not be hidden by what was made for another.
    own = tuple(f"{path}/" for path in slot.made)
    if slot.made_for in ((digest, ""), (digest, slot.laid)) and not any(
        f"{line.partition('\t')[2]}/".startswith(own) for line in entries if own
    ):
        return None
    slot.forget_made()
    setup.packages.mkdir(parents=True, exist_ok=True)
    os.utime(setup.packages)  # a sweep removes what was not used for long
    ended = run_in_slot(
        slot, testing, ["/bin/sh", "-c", setup.command], _variables(slot, testing, setup), timeout=TIMEOUT,
        should_stop=should_stop, writable=[setup.packages], network=True,
    )  # fmt: skip
    if ended.reason or ended.status:
        why = ended.reason or f"ended with status {ended.status}"
        hint = '(setup_command = "" uses your own environment)'
        return SetupFailure(f"the set-up of its environment failed: `{setup.command}` {why} {hint}", ended.output)
    made = slot.untracked()
    if len(made) > _MOST_MADE:
        return SetupFailure(f"`{setup.command}` makes {len(made)} files and folders among the project's own")
    is_kept = all(_is_environment(path) for path in made)
    slot.keep_made(made, (digest, "" if is_kept else slot.laid))
    return None


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


def _is_manifest(path: str, named: set[str]) -> bool:
    name = path.rpartition("/")[2]
    return (
        path in named
        or name in _MANIFESTS
        or name.endswith((".lock", "-lock.json", "-lock.yaml", ".lockb"))
        or name.startswith(("requirements", "constraints"))
    )


def _variables(slot: Slot, testing: Testing, setup: Setup) -> dict[str, str]:
    packages = setup.packages
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
