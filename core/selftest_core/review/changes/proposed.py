"""Proposed changes: one text instead of several that say the same, as a commit on the review's base that credits all.

It is written once, from files that an agent answered with. The same files give the same commit: author and date come
from the changes that it is to replace.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.git.command import Git
from selftest_core.git.objects import Commit
from selftest_core.review.candidate_branch import COMMITTER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.review.changes.collect_changes import Branch, Change
    from selftest_core.review.changes.rows import Row


def write_proposed(
    store: ObjectStore, base: str, members: Sequence[Change], contents: Mapping[str, bytes | None], agent: str
) -> str:
    """Write the commit that has these files instead of what each of the members makes of them; returns its id.

    `base`: the commit that it builds on. `contents` by path; None deletes the file. The subject is the first member's.
    """
    modes = {path.path: path.after.mode for one in reversed(members) for path in one.paths if path.after is not None}
    lines = []
    for path, content in contents.items():
        if content is None:
            lines.append(f"0 {'0' * 40}\t{path}")
        else:
            lines.append(f"{modes.get(path, '100644')} {store.write(b'blob', content)}\t{path}")
    tree = _edited(store.git, store.tree_of(base), lines)
    newest = max(members, key=lambda one: (int(one.item.author.split()[-2]), one.oid)).item.author
    author = COMMITTER + b" " + b" ".join(newest.split()[-2:])
    return store.write_commit(Commit(tree, (base,), author, author, _message(members, agent)))


def _edited(git: Git, tree: str, lines: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory(dir=git.git_dir, prefix="index-") as folder:
        own = Git(git.git_dir, {})
        own.environment = {**git.environment, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        own.ask("read-tree", tree)
        own.ask("update-index", "--add", "-z", "--index-info", text="".join(f"{line}\0" for line in lines))
        return own.ask("write-tree").strip()


def _message(members: Sequence[Change], agent: str) -> bytes:
    subject = members[0].item.message.lstrip(b"\n").split(b"\n", 1)[0].strip() or b"(no message)"
    authors = dict.fromkeys(
        source.commit.author.rpartition(b">")[0] + b">" for one in members for source in one.sources
    )
    credited = b"".join(b"Co-authored-by: " + author + b"\n" for author in authors)
    said = f"One text instead of {len(members)} that say the same, proposed by {agent}.".encode()
    return b"\n".join([subject, b"", said, b"", credited])


def join_proposed(rows: Sequence[Row], changes: Sequence[Change], branches: Sequence[Branch]) -> tuple[Row, ...]:
    """Put proposed changes into the rows of those that they are to replace. What is chosen there stays chosen."""
    if not branches:
        return tuple(rows)
    named = {source.oid: change.oid for change in changes for source in change.sources}
    found = {row.members: row for row in rows}
    for branch in branches:
        tip, other = named.get(branch.tip), named.get(branch.alternative_of)
        into = next((row for row in found.values() if other in row.members), None)
        if tip is not None and into is not None and (tip,) in found and tip not in into.members:
            del found[tip,]
            # The key keeps the row's place.
            key = next(key for key, row in found.items() if row is into)
            found[key] = replace(into, members=(*into.members, tip))
    return tuple(found.values())
