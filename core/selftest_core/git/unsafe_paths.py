"""Paths of a change that git treats specially: paths that no checkout may write, and files that configure git. Pure.

A path into `.git` would be a hook or a setting for whoever checks it out. git refuses to write such a path, so a branch
with one is not accepted. A submodule or `.gitattributes` is accepted with a caution: its effect is not in its diff.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from selftest_core.git.commit_changes import PathChange

_SUBMODULE = "160000"
_CONFIGURING = {
    ".gitattributes": "it changes how git treats other files",
    ".gitmodules": "it sets where submodules come from",
}


DEEPEST = 200
"""Folders within folders of a path; a file system allows some 2,000 of one letter, and no project has them."""


def forbidden_path(paths: Iterable[PathChange]) -> str:
    """Find the first path that no checkout may write, empty if there is none."""
    return next((one.path for one in paths if _has_forbidden(one.path.split("/"))), "")


def _has_forbidden(parts: Sequence[str]) -> bool:
    return len(parts) > DEEPEST or any(_is_forbidden(part) for part in parts)


def _is_forbidden(part: str) -> bool:
    # File systems ignore case, trailing dots and blanks, and invisible characters.
    plain = "".join(char for char in part if unicodedata.category(char) != "Cf").casefold().rstrip(". ")
    return part in ("", ".", "..") or plain in (".git", "git~1") or plain.startswith(".git:")


def cautions(paths: Iterable[PathChange]) -> tuple[str, ...]:
    """Warnings about a change before it is kept, with its paths, which are not yet safe to show."""
    found: list[str] = []
    for one in paths:
        if _SUBMODULE in (one.before.mode if one.before else "", one.after.mode if one.after else ""):
            found.append(f"{one.path} is a submodule: the commit that it names is not checked")
        name = one.path.rpartition("/")[2].casefold()
        if name in _CONFIGURING:
            found.append(f"{one.path}: {_CONFIGURING[name]}")
    return tuple(found)
