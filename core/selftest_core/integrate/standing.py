"""The state of a review as another process reads it: from its log, without its lock, on an engine of its own.

The gate of a run works beside a person who has the review open. It sees what they decided so far, and changes nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.paths import runs_folder
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.candidate_branch import Squash, Status, build_line
from selftest_core.review.changes.inputs import Inputs, run_inputs
from selftest_core.review.changes.plan import Targets
from selftest_core.review.conflict_files import read_conflicts
from selftest_core.review.engine import Engine
from selftest_core.review.repository import LOG, current_subject, read_log
from selftest_core.review.resolutions import ResolutionMemory, answers_of, resolution_folder
from selftest_core.review.state import StateBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.candidate_branch import Item, Line, LineItem
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.conflict_files import ConflictFile
    from selftest_core.review.resolutions import Resolution
    from selftest_core.review.review_log import Subject


class Standing:
    """A review at one moment. `before`: as it is; `reviewed`: with the resolutions that were tried on it."""

    def __init__(self, engine: Engine, inputs: Inputs, subject: Subject, reviewed: Reviewed) -> None:
        self.engine = engine
        self.base = subject.base
        self.inputs = inputs
        self.before = self.reviewed = reviewed
        self._tips = {branch.agent: branch.tip for branch in subject.branches}

    def status_of(self, oid: str) -> Status | None:
        """The status of a change, None where it is not in the review any more."""
        placed = self._placed(oid)
        return None if placed is None else placed.status

    def conflict_files(self, oid: str) -> tuple[ConflictFile, ...]:
        """The files in which a change is in conflict. Raises RefusedError for conflicts of paths."""
        placed = self._placed(oid)
        return read_conflicts(self.engine, () if placed is None else placed.conflicts)

    def resolve(self, oid: str, resolution: Resolution) -> None:
        """Try a resolution: here only, the review does not change."""
        decisions = self.reviewed.decisions
        resolutions = {**decisions.resolutions, oid: resolution}
        self.reviewed = apply_decisions(
            self.engine,
            self.reviewed.plan,
            replace(decisions, resolutions=resolutions),
            stored=False,
            should_stop=lambda: True,
        )

    def changes(self, oids: tuple[str, ...]) -> tuple[Change, ...]:
        """The changes with these ids, in the order of the branch."""
        return tuple(change for change in self.reviewed.order if change.oid in oids)

    def trees(self, oids: tuple[str, ...]) -> tuple[str, str]:
        """The trees of the branch up to the last of these changes: as it was, and with the resolutions. Both stored."""
        last = max(number for number, change in enumerate(self.reviewed.order) if change.oid in oids)
        return self._tree(self.before, last + 1), self._tree(self.reviewed, last + 1)

    def tree_with(self, oid: str, item: Item) -> str | None:
        """The tree of the whole branch with another item instead of a change; None where that is in conflict."""
        items = tuple(item if one.oid == oid else one.item for one in self.reviewed.order)
        line = self._line(self.reviewed, items)
        placed = next(one for one in line.items if one.item.oid == item.oid)
        return None if placed.status is Status.HELD else line.tree

    def whole_tree(self) -> str:
        """The tree of the whole branch, stored."""
        return self._tree(self.before, len(self.before.order))

    def own_tree(self, agent: str) -> str | None:
        """The tree of an agent's own branch."""
        tip = self._tips.get(agent)
        return None if tip is None else self.engine.store.tree_of(tip)

    def _tree(self, reviewed: Reviewed, count: int) -> str:
        return self._line(reviewed, tuple(change.item for change in reviewed.order[:count])).tree

    def _line(self, reviewed: Reviewed, items: tuple[Item, ...]) -> Line:
        store, base = self.engine.store, reviewed.plan.base
        answers = answers_of(reviewed.decisions.resolutions.values())
        # Only the tree counts here, so it may be one commit.
        return build_line(self.engine, base, store.tree_of(base), [Squash(items)], reviewed.decided, answers=answers)

    def _placed(self, oid: str) -> LineItem | None:
        return next((one for one in self.reviewed.line.items if one.item.oid == oid), None)


@contextlib.contextmanager
def open_standing(top: Path, review: str, environ: Mapping[str, str]) -> Iterator[Standing]:
    """Read the review of that name of a work tree. Raises UsageError where there is none, ToolError."""
    home = runs_folder(top) / review
    log = read_log(home / LOG)
    subject = log.subject
    if subject is None:
        raise UsageError(f"There is no review {review}", str(home / LOG))
    place = find_place(top, environ)
    if subject.kind == "run":
        inputs = run_inputs(subject.key, top, environ)
    else:
        targets = Targets(subject.base, subject.base, subject.branches, subject.is_linear, id=review)
        inputs = Inputs(subject.kind, subject.key, place, targets, subject.base_name)
    subject = current_subject(subject, inputs, Git(place.git_dir, environ))
    with Engine.open(home / "engine.git", place.git_dir, environ) as engine:
        builder = StateBuilder(engine, review, home, ResolutionMemory(resolution_folder(environ)))
        builder.collect(subject, inputs, log.new)
        reviewed = builder.apply(log, subject, 0.0, lambda: True).reviewed
        yield Standing(engine, inputs, subject, reviewed)
