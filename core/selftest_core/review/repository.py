"""The user's repository around a review: its log on disk, its branches, the branch it is meant for, published branches.

A review is found by the words it was asked for with, not by its commits, since branches move. Its base stays the one
it was opened with; a main branch that moved is shown, and rebasing is up to the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.journal import Journal, read
from selftest_core.paths import runs_folder
from selftest_core.review.changes.collect_changes import Branch
from selftest_core.review.changes.inputs import Inputs, find_inputs, words_of
from selftest_core.review.changes.plan import Targets, find_main
from selftest_core.review.publishing import own_ref
from selftest_core.review.review_log import ReviewLog, Subject, fold
from selftest_core.review.state import Published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.changes.inputs import Request
    from selftest_core.review.engine import Engine

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
    for path in runs_folder(top).glob(f"review-*/{LOG}"):
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


@dataclass(frozen=True)
class Around:
    """The refs as they were read, and what follows from them. Two are equal when the refs were."""

    refs: tuple[tuple[str, str], ...] = ()
    head: str = ""
    main: str = field(default="", compare=False)
    user: Git | None = field(default=None, compare=False)
    branches: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    _moved: dict[str, int] = field(default_factory=dict, compare=False)
    _stats: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict, compare=False)

    def moved(self, ground: str) -> int:
        """How many commits the branch has that a line on this commit is not laid on."""
        if not self.main or self.user is None:
            return 0
        if ground not in self._moved:
            done = self.user.run("rev-list", "--count", _main_oid(dict(self.refs), self.main), f"^{ground}")
            self._moved[ground] = int(done.stdout) if done.ok else 0
        return self._moved[ground]

    def published(self, kept: Line) -> Published | None:
        """What was published last and is still there."""
        for ref, tip in reversed(self.branches):
            if dict(self.refs).get(ref) == tip:
                return Published(ref, tip, tip == kept.tip)
        return None

    def stat(self, engine: Engine, base: str, tree: str) -> tuple[int, int]:
        """Lines added and removed between a commit and a tree; binary files count nothing."""
        if (base, tree) not in self._stats:
            self._stats[base, tree] = engine.count_lines(engine.store.tree_of(base), tree)
        return self._stats[base, tree]


def look_around(user: Git, name: str, subject: Subject, log: ReviewLog, before: Around | None = None) -> Around:
    """Read the refs, and find what matters for this review; `before` again where they are the same."""
    refs = user.refs()
    head = user.head()
    # Where the candidate is says nothing about the world around.
    outer = {ref: tip for ref, tip in refs.items() if ref != own_ref(name, "candidate")}
    if before is not None and (before.refs, before.head) == (tuple(outer.items()), head):
        return before
    mark = own_ref(name, "published/")
    others = tuple((f"refs/heads/{ref.removeprefix(mark)}", tip) for ref, tip in refs.items() if ref.startswith(mark))
    main = find_main(user, subject.base_name, subject.base)
    return Around(tuple(outer.items()), head, main, user, (*others, *log.published))


def _main_oid(refs: dict[str, str], main: str) -> str:
    return refs.get(f"refs/heads/{main}") or refs[f"refs/remotes/{main}"]
