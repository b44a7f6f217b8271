"""Changed paths, read from real git for names that only an agent would choose."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from selftest_core.git.command import Git
from selftest_core.git.commit_changes import read_changes

if TYPE_CHECKING:
    from pathlib import Path


def test_each_commit_has_its_paths_before_and_after(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "r")
    hostile = ["--output=x", "a\tb", "a\nb", ":0:1", "\x1b[31m", "d/\udcff"]
    first = repository.commit("Start", {"a": "1\n", "gone": "x\n"})
    second = repository.commit("More", {"a": "2\n", "gone": None, **dict.fromkeys(hostile, "")})
    empty = repository.commit("Nothing", {})
    changes = read_changes(Git(repository.folder / ".git", os.environ), [second, first, empty])
    assert [(one.path, one.before is None, one.after is None) for one in changes[first]] == [
        ("a", True, False),
        ("gone", True, False),
    ]
    assert {one.path for one in changes[second]} == {"a", "gone", *hostile}
    assert {one.path for one in changes[second] if one.after is None} == {"gone"}
    (a,) = (one for one in changes[second] if one.path == "a")
    assert a.before is not None
    assert a.after is not None
    assert (a.before.mode, a.before.oid) == ("100644", repository.git("rev-parse", f"{first}:a"))
    assert changes[empty] == ()
