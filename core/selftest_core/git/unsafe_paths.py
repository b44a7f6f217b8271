"""What in a change git itself treats apart: paths that no checkout may write, and files that steer git. Pure.

A path into `.git` would be a hook or a setting of whoever checks it out. git refuses to write such a path, so a branch
that has one is not taken at all. A submodule or `.gitattributes` is a change like any other, but one to be looked at:
what it does is not in its diff.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.git.commit_changes import PathChange

_SUBMODULE = "160000"
_STEERING = {
    ".gitattributes": "it tells git how to treat other files",
    ".gitmodules": "it names where submodules come from",
}


def forbidden_path(paths: Iterable[PathChange]) -> str:
    """The first path that no checkout may write, empty where there is none."""
    return next((one.path for one in paths if any(_is_forbidden(part) for part in one.path.split("/"))), "")


def _is_forbidden(part: str) -> bool:
    # File systems ignore case, dots and blanks at the end, and characters that nobody sees.
    plain = "".join(char for char in part if unicodedata.category(char) != "Cf").casefold().rstrip(". ")
    return part in ("", ".", "..") or plain in (".git", "git~1") or plain.startswith(".git:")


def cautions(paths: Iterable[PathChange]) -> tuple[str, ...]:
    """What a person should know before keeping a change, in words with its paths, which are not yet safe to show."""
    found: list[str] = []
    for one in paths:
        if _SUBMODULE in (one.before.mode if one.before else "", one.after.mode if one.after else ""):
            found.append(f"{one.path} is a submodule: the commit that it names is not looked at")
        name = one.path.rpartition("/")[2].casefold()
        if name in _STEERING:
            found.append(f"{one.path}: {_STEERING[name]}")
    return tuple(found)
