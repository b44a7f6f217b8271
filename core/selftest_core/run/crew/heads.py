"""What commit an agent's copy of the repository stands at, read from two small files: no git runs in it for that.

The copy is the agent's, so nothing of it is trusted: links are not followed, sizes are capped, and what is not plain
is unknown. An agent that commits nothing costs no call of mngr then, which would take a second to find that out.
"""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_OID = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"ref: (refs/heads/[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)")
_LONGEST = 1000


def head_of(work_dir: Path) -> str:
    """The full id of the commit that is checked out, empty where these files do not plainly say it."""
    git_dir = work_dir / ".git"
    if git_dir.is_symlink():
        return ""
    said = _line(git_dir / "HEAD")
    ref = _REF.fullmatch(said)
    oid = _line(git_dir / ref[1]) if ref else said
    return oid if _OID.fullmatch(oid) else ""


def _line(path: Path) -> str:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
            return ""
        return path.read_text(encoding="ascii").removesuffix("\n")
    except (OSError, ValueError):
        return ""
