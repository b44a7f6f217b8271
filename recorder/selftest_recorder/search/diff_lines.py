"""Lines that the commits of a run's or a review's branches add and remove, read with four calls of git."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import ToolOutputError
from selftest_core.git.diffs import BIGGEST
from selftest_core.git.objects import is_oid
from selftest_core.git.patches import LineKind, Patch, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from selftest_core.git.command import Git

_MOST = 128 * 1024 * 1024
"""Bytes of the patches of all commits together; beyond it they are read one by one, and bigger ones are left out."""
_MOST_OF_ONE = 8 * 1024 * 1024
_MOST_LINES = 2_000_000
_DIFF = ("diff-tree", "--stdin", "-r", "-M", "--root", "--no-textconv", "--no-ext-diff", "--full-index")


def changed_lines(git: Git, base: str, tips: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str, int, str]]:
    """Iterate over commit, agent, path, number of the line and its text, which begins with `+ ` or `- `.

    The number is that of the new file, of a removed line that of the old. A commit of several agents counts to the
    first. The commit's subject comes first, with the number 0. Raises ToolError.
    """
    authors = _authors(git, base, tips)
    if not authors:
        return
    yield from _subjects(git, authors)
    try:
        yield from _lines(git, authors, list(authors), _MOST)
    except ToolOutputError:
        for oid in authors:
            try:
                yield from _lines(git, authors, [oid], _MOST_OF_ONE)
            except ToolOutputError:
                continue


def _authors(git: Git, base: str, tips: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Find the commits beyond the base, each with the first agent that has it."""
    if not is_oid(base):
        return {}
    authors: dict[str, str] = {}
    known = [(agent, tip) for agent, tip in tips if is_oid(tip)]
    text = "".join(f"{tip}\n" for _, tip in known)
    there = {
        line.split(" ")[0]
        for line in git.ask("cat-file", "--batch-check", text=text).splitlines()
        if " commit " in line
    }
    # One walk tells the parents; each branch is then followed from its tip.
    wanted = "".join(f"{tip}\n" for _, tip in known if tip in there)
    if not wanted:
        return {}
    parents: dict[str, list[str]] = {}
    for line in git.ask("rev-list", "--parents", "--stdin", text=f"{wanted}^{base}\n").splitlines():
        oid, *above = line.split(" ")
        parents[oid] = above
    for agent, tip in known:
        waiting = [tip]
        while waiting:
            oid = waiting.pop()
            if oid in parents and oid not in authors:
                authors[oid] = agent
                waiting += parents[oid]
    return authors


def _subjects(git: Git, authors: dict[str, str]) -> Iterator[tuple[str, str, str, int, str]]:
    out = git.ask(
        "log", "--no-walk=unsorted", "--stdin", "-z", "--format=%H %s", text="".join(f"{oid}\n" for oid in authors)
    )
    for entry in out.split("\0"):
        oid, _, subject = entry.partition(" ")
        if oid in authors:
            yield oid, authors[oid], "", 0, shown(subject)


def _lines(
    git: Git, authors: dict[str, str], oids: Sequence[str], most: int
) -> Iterator[tuple[str, str, str, int, str]]:
    text = "".join(f"{oid}\n" for oid in oids)
    entries = _entries(git.ask(*_DIFF, "--raw", "-z", text=text, limit=most))
    # Not as options of `_DIFF`: settings stand before the command.
    patch = Patch(
        git.ask("-c", f"core.bigFileThreshold={BIGGEST}", "-c", "diff.context=0", *_DIFF, "-p", text=text, limit=most),
        _MOST_LINES,
    )
    for oid, path, is_retyped in entries:
        for _ in range(2 if is_retyped else 1):
            section = patch.section()
            for hunk in section.hunks if section is not None else ():
                for line in hunk.lines:
                    if line.kind is not LineKind.CONTEXT and line.text.strip():
                        sign = "+" if line.kind is LineKind.ADDED else "-"
                        yield oid, authors[oid], path, line.new or line.old or 0, f"{sign} {line.text.strip()}"


def _entries(out: str) -> Iterator[tuple[str, str, bool]]:
    """Parse the raw form: commit, path, and whether the file changed its type, which makes two patches."""
    oid = ""
    words = iter(out.split("\0"))
    for word in words:
        if is_oid(word):
            oid = word
        elif word.startswith(":"):
            letter = word.rsplit(" ", 1)[-1][:1]
            path = next(words, "")
            if letter in "RC":
                path = next(words, "")
            yield oid, shown(path), letter == "T"
