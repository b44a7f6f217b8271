"""What is around a review in the person's repository: the branch it is meant for, and what was published of it.

Read by one call of git, so that asking every few seconds costs nothing that anybody notices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from selftest_core.review.changes.inputs import find_main
from selftest_core.review.publishing import own_ref
from selftest_core.review.session.state import Published

if TYPE_CHECKING:
    from selftest_core.git.command import Git
    from selftest_core.git.engine import Engine
    from selftest_core.review.line import Line
    from selftest_core.review.session.log import ReviewLog, Subject


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
            self._stats[base, tree] = engine.count_lines(engine.tree_of(base), tree)
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
