"""No program of the host works where agents' code has run: each process of a verification is looked at."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import SANDBOX, SETTINGS
from core.verify.traced import Started, traced

if TYPE_CHECKING:
    from pathlib import Path

# Not part of `make quick`: it starts several processes of pytest.
pytestmark = [pytest.mark.real, pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)]

RAN = ("tree", "home", "exchange", "environment", "packages")
"""Folders of a slot to which agents' code may have written."""


def test_nothing_outside_of_the_sandbox_is_started_in_a_slot_or_told_of_it(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "shop")
    test = "from shop import f\n\n\ndef test_f():\n    assert f() == 1\n"
    attributes = {".gitattributes": "*.bin filter=lfs\n", "a.bin": "version https://git-lfs\n", ".gitmodules": ""}
    repository.commit("Start", {"shop.py": "def f():\n    return 0\n", "test_shop.py": test, **attributes})
    for name, files in {
        "ada": {"shop.py": "def f():\n    return 1\n"},
        "eve": {
            "more.py": "",
            "test_more.py": "import more\n\n\ndef test_it():\n    assert more.__name__ == 'more'\n",
            "pyproject.toml": "",
        },
    }.items():
        repository.git("checkout", "-q", "-b", name, "main")
        repository.commit(f"[FIX_IMPL] Mend {name}", files, name)
    repository.git("checkout", "-q", "main")
    cache = tmp_path / "cache"
    environ = {**os.environ, **SETTINGS, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(cache)}
    sets = {
        "setup_command": "mkdir .venv && touch .venv/made made.txt && env > $XDG_CACHE_HOME/fetched",
        "verify_command": f"{sys.executable} -m pytest",
        "verify_readable": os.pathsep.join((sys.prefix, sys.base_prefix)),
    }  # fmt: skip
    words = ["verify", "--batch", "--base", "main", "ada", "eve"]
    words += [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    done, started = traced(tmp_path / "traced", repository.folder, words, environ)
    assert '"passed"' in done.stdout, done.stdout + done.stderr
    slots = cache / "selftest-tui" / "verify"
    sandboxes = [one for one in started if is_sandbox(one)]
    others = [one for one in started if not is_sandbox(one)]
    # What is looked for is there to be seen.
    assert any(is_told(one, slots, RAN) for one in sandboxes)
    assert any(is_told(one, slots, ("untouched",)) for one in others)
    assert [one for one in others if is_told(one, slots, RAN)] == []


def is_sandbox(one: Started) -> bool:
    """True for the start of bubblewrap, from a folder that is no slot's."""
    return any(word.endswith("/bwrap") for word in one.words[:6]) and "--unshare-all" in one.words


def is_told(one: Started, slots: Path, names: tuple[str, ...]) -> bool:
    """True for a process that works in one of these folders of a slot, or has it in an argument."""
    # …/verify/REVIEW/NUMBER/NAME
    parts = [text.partition(f"{slots}/")[2].split("/") for text in (one.cwd, *one.words) if f"{slots}/" in text]
    return any(len(found) > 2 and found[2] in names for found in parts)
