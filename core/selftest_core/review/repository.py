"""The user's repository around a review: its log on disk, its branches, the main branch, and what was published.

A review is found by the words it was asked for with, not by its commits, since branches move. It keeps the base that it
was opened with; a main branch that moved is shown, and rebasing is up to the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.journal import Journal, read
from selftest_core.paths import runs_folder
from selftest_core.review.changes.inputs import Inputs, find_inputs, words_of
from selftest_core.review.changes.plan import Targets, find_main
from selftest_core.review.publishing import Branches, own_ref
from selftest_core.review.review_log import ReviewLog, Subject, fold
from selftest_core.review.state import Published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.changes.collect_changes import Branch
    from selftest_core.review.changes.inputs import Request
    from selftest_core.review.engine import Engine

LOG = "review.jsonl"
_LARGEST = 256 * 1024 * 1024


def open_log(home: Path) -> Journal:
    """Open and lock a review's log. Raises RefusedError where another process has it, JournalError."""
    try:
        return Journal(home / LOG)
    except RefusedError as error:
        hint = "Close it there first: two reviews of the same commits would overwrite each other's decisions."
        raise RefusedError(f"{home.name} is under review in another process", str(home / LOG), hint) from error


def read_log(path: Path) -> ReviewLog:
    """Read a review's log without locking it; empty where there is none that can be read."""
    try:
        return fold(read(path.read_bytes()).entries) if path.stat().st_size <= _LARGEST else ReviewLog()
    except OSError:
        return ReviewLog()


def find_review(
    request: Request, cwd: Path, environ: Mapping[str, str], say: Callable[[str], None]
) -> tuple[Inputs, str]:
    """Resolve a request to its inputs and the id of the review: an earlier one with the same words, else a new one."""
    words, place = words_of(request), None
    if words is not None:
        place = find_place(cwd, environ)
        known = find_log(place.top, *words)
        if known is not None:
            name, subject = known
            user = Git(place.git_dir, environ)
            onto = subject.base if request.onto is None else user.resolve(request.onto)
            targets = Targets(subject.base, onto, subject.branches, subject.is_linear, id=name)
            return Inputs(subject.kind, subject.key, place, targets, subject.base_name), name
    inputs = find_inputs(request, cwd, environ, say, place)
    known = find_log(inputs.place.top, inputs.kind, inputs.key) if inputs.folder is None else None
    return inputs, inputs.name if known is None else known[0]


def find_log(top: Path, kind: str, key: str) -> tuple[str, Subject] | None:
    """Find the newest review that was opened with these words; returns its id and subject."""
    found: list[tuple[float, str, Subject]] = []
    for path in runs_folder(top).glob(f"review-*/{LOG}"):
        subject = read_log(path).subject
        if subject is not None and (subject.kind, subject.key) == (kind, key):
            found.append((path.stat().st_mtime, path.parent.name, subject))
    return max(found)[1:] if found else None


def subject_of(inputs: Inputs) -> Subject:
    """The subject of a new review of these inputs."""
    targets = inputs.targets
    return Subject(inputs.kind, inputs.key, targets.base, inputs.base_name, targets.branches, targets.is_linear)


def current_subject(subject: Subject, inputs: Inputs, user: Git) -> Subject:
    """The subject with the branches where they are now.

    The branches of a run and of agents come with `inputs`. Of others, a branch that was deleted stays where it was; one
    that was rebased onto a newer base moves the base too, since commits of the base are not changes of the branch.
    """
    if subject.kind in ("run", "agents"):
        return replace(subject, branches=with_proposed(inputs.targets, subject).branches)
    tips = user.resolve_each(branch.agent for branch in subject.branches if not branch.alternative_of)
    branches = tuple(replace(branch, tip=tips.get(branch.agent, branch.tip)) for branch in subject.branches)
    if branches == subject.branches:
        return subject
    return replace(subject, branches=branches, base=_current_base(subject, branches, user))


def with_proposed(targets: Targets, subject: Subject | None) -> Targets:
    """Add the changes that agents proposed in a review to its branches, as they were found."""
    proposed = () if subject is None else tuple(one for one in subject.branches if one.alternative_of)
    known = {branch.tip for branch in targets.branches}
    return replace(targets, branches=(*targets.branches, *(one for one in proposed if one.tip not in known)))


def _current_base(subject: Subject, branches: Iterable[Branch], user: Git) -> str:
    try:
        main = user.resolve(subject.base_name or subject.base)
    except UsageError:
        return subject.base
    done = user.run("merge-base", "--octopus", main, *(branch.tip for branch in branches))
    found = done.stdout.strip()
    is_newer = done.ok and len(found) == 40 and user.run("merge-base", "--is-ancestor", subject.base, found).ok
    return found if is_newer else subject.base


def new_commits(before: Subject, now: Subject, user: Git) -> list[str]:
    """Find the commits that are under review now and were not before."""
    wanted = [branch.tip for branch in now.branches]
    known = [f"^{oid}" for oid in (before.base, now.base, *(branch.tip for branch in before.branches))]
    if not wanted:
        return []
    text = "".join(f"{word}\n" for word in dict.fromkeys([*wanted, *known]))
    try:
        return user.ask("rev-list", "--stdin", text=text).split()
    except ToolFailedError:  # an earlier tip of a branch was deleted by git
        return []


def keep_sources(user: Git, name: str, tips: Iterable[str]) -> None:
    """Protect the reviewed commits from `git gc` by refs of ours. The branches of a run have such refs already."""
    have = user.refs(own_ref(name, ""))
    # What git cannot read is left out of a review, and git makes no ref to it.
    missing = user.resolve_each(tip for tip in dict.fromkeys(tips) if tip not in have.values())
    lines = [f"create {own_ref(name, f'sources/{tip}')}\0{tip}\0" for tip in missing]
    if lines:
        user.ask("update-ref", "--stdin", "-z", text="".join(lines))


@dataclass(frozen=True)
class Upstream:
    """The refs of the repository as they were read, and what follows from them. Equal when the refs are."""

    refs: tuple[tuple[str, str], ...] = ()
    head: str = ""
    main: str = field(default="", compare=False)
    user: Git | None = field(default=None, compare=False)
    names: Branches | None = field(default=None, compare=False)
    branches: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)
    _moved: dict[str, int] = field(default_factory=dict, compare=False)
    _stats: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict, compare=False)

    def moved(self, base: str) -> int:
        """Count the commits that the main branch is ahead of `base`."""
        if not self.main or self.user is None:
            return 0
        if base not in self._moved:
            refs = dict(self.refs)
            tip = refs.get(f"refs/heads/{self.main}") or refs[f"refs/remotes/{self.main}"]
            done = None if tip == base else self.user.run("rev-list", "--count", tip, f"^{base}")
            self._moved[base] = int(done.stdout) if done is not None and done.ok else 0
        return self._moved[base]

    def published(self, kept: Line) -> Published | None:
        """The branch that was published last and still exists there."""
        for ref, tip, without_trailers in reversed(self.branches):
            if dict(self.refs).get(ref) == tip:
                return Published(ref, tip, without_trailers == kept.tip)
        return None

    def stat(self, engine: Engine, base: str, tree: str) -> tuple[int, int]:
        """Count the lines added and removed between a commit and a tree; binary files count nothing."""
        if (base, tree) not in self._stats:
            self._stats[base, tree] = engine.count_lines(engine.store.tree_of(base), tree)
        return self._stats[base, tree]


def read_upstream(user: Git, name: str, subject: Subject, log: ReviewLog, before: Upstream | None = None) -> Upstream:
    """Read the refs that matter for this review; returns `before` where they are the same."""
    refs = user.refs()
    head = user.head()
    # The candidate's ref is moved by the review itself.
    outer = {ref: tip for ref, tip in refs.items() if ref != own_ref(name, "candidate")}
    if before is not None and (before.refs, before.head) == (tuple(outer.items()), head):
        return before
    mark = own_ref(name, "published/")
    others = tuple(
        (f"refs/heads/{ref.removeprefix(mark)}", tip, tip) for ref, tip in refs.items() if ref.startswith(mark)
    )
    main = find_main(user, subject.base_name, subject.base, refs)
    folders = {ref: str(folder) for ref, folder in user.checked_out().items()}
    names = Branches(name, refs, folders)
    return Upstream(tuple(outer.items()), head, main, user, names, (*others, *log.published))
