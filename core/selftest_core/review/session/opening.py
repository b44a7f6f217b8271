"""Where a review is found again, what it is of by now, and who may have it: all that happens before its first act.

A review is known by the words that it was asked for with, not by where its branches stood, since they may move. What
it was laid on stays as it was when it was first opened; that main has moved is shown, and is the person's to follow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.journal import Journal, read
from selftest_core.review.changes.collect_changes import Branch
from selftest_core.review.changes.inputs import OWN_FOLDER, Inputs, find_inputs, words_of
from selftest_core.review.publishing import own_ref
from selftest_core.review.review import Targets
from selftest_core.review.session.log import ReviewLog, Subject, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from selftest_core.review.changes.inputs import Request

LOG = "review.jsonl"
_LARGEST = 256 * 1024 * 1024


def hold(home: Path) -> Journal:
    """Open a review's log for writing. Raises RefusedError where another review has it, JournalError."""
    try:
        return Journal(home / LOG)
    except RefusedError as error:
        hint = "Leave it there first: two reviews of the same commits would overwrite each other's decisions."
        raise RefusedError(f"{home.name} is under review in another process", str(home / LOG), hint) from error


def find_review(
    request: Request, cwd: Path, environ: Mapping[str, str], say: Callable[[str], None]
) -> tuple[Inputs, str]:
    """What is to be reviewed, and the id of the review: one that was opened with these words before, else a new one."""
    words = words_of(request)
    if words is not None:
        place = find_place(cwd, environ)
        known = find_log(place.top, *words)
        if known is not None:
            name, subject = known
            user = Git(place.git_dir, environ)
            ground = subject.base if request.onto is None else user.resolve(request.onto)
            targets = Targets(subject.base, ground, subject.branches, subject.is_linear, id=name)
            return Inputs(subject.kind, subject.key, place, targets, subject.base_name), name
    inputs = find_inputs(request, cwd, environ, say)
    known = find_log(inputs.place.top, inputs.kind, inputs.key) if inputs.folder is None else None
    return inputs, inputs.name if known is None else known[0]


def find_log(top: Path, kind: str, key: str) -> tuple[str, Subject] | None:
    """The review that was opened with these words, and what it is of; the newest where there are several."""
    found: list[tuple[float, str, Subject]] = []
    for path in (top / OWN_FOLDER / "runs").glob(f"review-*/{LOG}"):
        log = read_log(path)
        subject = log.subject
        if subject is not None and (subject.kind, subject.key) == (kind, key):
            found.append((path.stat().st_mtime, path.parent.name, subject))
    return max(found)[1:] if found else None


def read_log(path: Path) -> ReviewLog:
    """A review's log as it stands; empty where there is none that can be read."""
    try:
        return fold(read(path.read_bytes()).entries) if path.stat().st_size <= _LARGEST else ReviewLog()
    except OSError:
        return ReviewLog()


def subject_of(inputs: Inputs) -> Subject:
    """What a new review of these inputs is of."""
    targets = inputs.targets
    return Subject(inputs.kind, inputs.key, targets.base, inputs.base_name, targets.branches, targets.is_linear)


def stands_now(subject: Subject, user: Git) -> Subject:
    """A review of branches or a range, with where its branches are by now.

    A branch that is gone stays where it was. One that was rebased onto a newer base takes the base along: what the
    base has is no change of the branch.
    """
    if subject.kind not in ("branches", "range"):
        return subject
    branches = tuple(_now(branch, user) for branch in subject.branches)
    if branches == subject.branches:
        return subject
    return replace(subject, branches=branches, base=_base_now(subject, branches, user))


def _now(branch: Branch, user: Git) -> Branch:
    try:
        return Branch(branch.agent, user.resolve(branch.agent))
    except UsageError:
        return branch


def _base_now(subject: Subject, branches: Iterable[Branch], user: Git) -> str:
    try:
        main = user.resolve(subject.base_name or subject.base)
    except UsageError:
        return subject.base
    done = user.run("merge-base", "--octopus", main, *(branch.tip for branch in branches))
    found = done.stdout.strip()
    is_newer = done.ok and len(found) == 40 and user.run("merge-base", "--is-ancestor", subject.base, found).ok
    return found if is_newer else subject.base


def new_commits(before: Subject, now: Subject, user: Git) -> list[str]:
    """The commits that are under review now and were not before."""
    wanted = [branch.tip for branch in now.branches]
    known = [f"^{oid}" for oid in (before.base, now.base, *(branch.tip for branch in before.branches))]
    if not wanted:
        return []
    text = "".join(f"{word}\n" for word in dict.fromkeys([*wanted, *known]))
    try:
        return user.ask("rev-list", "--stdin", text=text).split()
    except ToolFailedError:  # where a branch was before is not there any more
        return []


def keep_sources(user: Git, name: str, tips: Iterable[str]) -> None:
    """Keep the reviewed commits from git's own clearing up, whatever becomes of their branches.

    A run's branches have refs of ours already.
    """
    have = user.refs(own_ref(name, ""))
    missing = [tip for tip in dict.fromkeys(tips) if tip not in have.values()]
    lines = [f"create {own_ref(name, f'sources/{tip}')}\0{tip}\0" for tip in missing]
    if lines:
        user.ask("update-ref", "--stdin", "-z", text="".join(lines))
