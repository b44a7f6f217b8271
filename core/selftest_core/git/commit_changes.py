"""Changed paths of commits, each with its content before and after, read by one git process.

Renames are not detected: a rename is a deleted and an added path, which is enough to compare changes and to find hot
files. Merges detect renames by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.merges import Side
from selftest_core.git.objects import is_oid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from selftest_core.git.command import Git

_NOTHING = "000000"
_SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path of a commit. `before` None: it was added; `after` None: it was deleted."""

    path: str
    before: Side | None
    after: Side | None


def read_changes(git: Git, oids: Sequence[str]) -> dict[str, tuple[PathChange, ...]]:
    """Read the changed paths of each commit against its first parent, sorted by path; a root commit adds all."""
    if not oids:
        return {}
    if not all(is_oid(oid) for oid in oids):
        raise ValueError("only full object ids may reach git")
    out = git.ask(
        "diff-tree", "--stdin", "-r", "-z", "--raw", "--root", "--no-renames", "--diff-merges=first-parent",
        "--no-textconv", "--no-ext-diff", text="".join(f"{oid}\n" for oid in oids),
    )  # fmt: skip
    return parse_changes(out, oids)


def missing_contents(git: Git, changes: Iterable[PathChange]) -> frozenset[str]:
    """Find the blobs that these changes name and that are missing, as in a partial clone; returns their ids."""
    sides = (side for change in changes for side in (change.before, change.after))
    oids = dict.fromkeys(side.oid for side in sides if side is not None and side.mode != _SUBMODULE)
    if not oids:
        return frozenset()
    out = git.ask("cat-file", "--batch-check=%(objectname)", text="".join(f"{oid}\n" for oid in oids))
    return frozenset(line.split()[0] for line in out.splitlines() if line.endswith(" missing"))


def parse_changes(out: str, oids: Sequence[str]) -> dict[str, tuple[PathChange, ...]]:
    """Parse `diff-tree --stdin -z --raw`: a commit's id, then `:mode mode oid oid status`, path, and so on."""
    found: dict[str, list[PathChange]] = {oid: [] for oid in oids}
    current: list[PathChange] = []
    words = iter(out.split("\0"))
    for word in words:
        if word.startswith(":"):
            mode_before, mode_after, before, after, _ = word[1:].split(" ")
            path = next(words)
            current.append(
                PathChange(
                    path,
                    None if mode_before == _NOTHING else Side(mode_before, before),
                    None if mode_after == _NOTHING else Side(mode_after, after),
                )
            )
        elif word.strip():
            current = found[word.strip().split()[0]]
    return {oid: tuple(sorted(changes, key=lambda change: change.path)) for oid, changes in found.items()}
