"""A review that a person has open: acts are written to the log, then applied, and give the next state.

    acts         decide, move, note, resolve, rebase, undo, redo: here; what they mean: `review_log`
    state        built from the log by `state.StateBuilder`, through `apply_decisions` and `candidate_branch`
    repository   refs, branches that move, the log's file and lock: `repository`

Blocking, and for one thread; `open_reader` gives another thread its own engine. An act that fails leaves log and state
as they were. The log is locked until `close`, so one process at a time has a review open.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from selftest_core.errors import RefusedError, UsageError
from selftest_core.git.command import Git
from selftest_core.git.merges import Conflict
from selftest_core.journal import JournalError
from selftest_core.review import decisions as decisions_file
from selftest_core.review import repository
from selftest_core.review.apply_decisions import build_kept_line, publish_review
from selftest_core.review.candidate_branch import Decision, Squash, Status
from selftest_core.review.changes.collect_changes import Branch
from selftest_core.review.changes.inputs import home_of, renewed
from selftest_core.review.changes.messages import cleaned, split_trailers, squashed_message
from selftest_core.review.changes.parts import split_json
from selftest_core.review.changes.proposed import write_proposed
from selftest_core.review.changes.ranking import Ranked
from selftest_core.review.changes.rows import APART
from selftest_core.review.conflict_files import read_conflicts, read_sides
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import provenance_of
from selftest_core.review.publishing import keep_candidate, transfer
from selftest_core.review.pull_request import open_for, write_pull_request
from selftest_core.review.repository import Upstream, read_upstream
from selftest_core.review.resolutions import ResolutionMemory, resolution_folder, resolution_json
from selftest_core.review.review_log import apply, branch_fields, fold, subject_fields
from selftest_core.review.state import Consequences, Published, ReviewState, StateBuilder, find_consequences, pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.journal import Journal
    from selftest_core.review.candidate_branch import LineItem
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.inputs import Inputs, Request
    from selftest_core.review.changes.parts import Split
    from selftest_core.review.conflict_files import ConflictFile
    from selftest_core.review.pull_request import PullRequest, VerifiedTests
    from selftest_core.review.resolutions import Resolution
    from selftest_core.review.review_log import Subject

_SEARCH, _IDLE_SEARCH = 0.02, 0.3
"""Seconds for the search for dependents: after an act, and while nothing else is to do."""
_AT_REST = 2.0
"""Seconds after the last act until the candidate's ref is updated."""
DECISIONS = "decisions.json"
"""The decisions beside the log, in the format that `--decisions` reads."""


class ReviewSession:
    """One open review. `state` is the newest state; every act returns the next one."""

    def __init__(
        self, journal: Journal, engine: Engine, user: Git, inputs: Inputs, name: str, environ: Mapping[str, str]
    ) -> None:
        self._journal = journal
        self._engine = engine
        self._user = user
        self._inputs = inputs
        self._environ = dict(environ)
        self._name = name
        self._home = journal.path.parent
        self._log = fold(journal.entries)
        self._memory = ResolutionMemory(resolution_folder(environ))
        self._builder = StateBuilder(engine, name, self._home, self._memory)
        self._changes: dict[str, list[Change]] = {}
        self._upstream = Upstream()
        self._stamp = -1
        self._acted = time.monotonic()
        self._candidate = ""
        self._unwritten: list[str] = []
        self.is_awaited: Callable[[], bool] = lambda: False
        """True while somebody waits for this thread: searches that can go on later stop then."""
        self.state: ReviewState

    # Opening and closing

    @classmethod
    def open(cls, request: Request, cwd: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> Self:
        """Open a review as it was left; `say` is called with the names of slow steps.

        Raises RefusedError when another process has it open, UsageError where there is nothing to review, ToolError.
        """
        given = None if request.decisions is None else decisions_file.read_decisions(request.decisions)
        inputs, name = repository.find_review(request, cwd, environ, say)
        home = home_of(inputs, name)
        journal = repository.open_log(home)
        try:
            engine = Engine.open(home / "engine.git", inputs.place.git_dir, environ)
        except BaseException:
            journal.close()
            raise
        session = cls(journal, engine, Git(inputs.place.git_dir, environ), inputs, name, environ)
        try:
            say("applying the changes")
            session._start()
            if request.onto is not None and inputs.targets.onto_oid != session.state.plan.base:
                session.rebase(request.onto)
            if given is not None:
                session._import(decisions_file.decisions_json(given))
        except BaseException:
            session._release()
            raise
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Update the candidate's ref, and unlock the review."""
        try:
            self._write_pending()
            self._update_candidate()
        finally:
            self._release()

    def open_reader(self) -> Engine:
        """Open another engine on the same objects, for another thread; the caller closes it."""
        return Engine.open(self._home / "engine.git", self._inputs.place.git_dir, self._environ)

    @property
    def top(self) -> Path:
        """The user's work tree."""
        return self._inputs.place.top

    @property
    def base(self) -> str:
        """The commit that the reviewed branches start from."""
        return self._subject.base

    @property
    def kind(self) -> str:
        """The subject's kind: run, agents, branches or range."""
        return self._subject.kind

    def _start(self) -> None:
        if self._log.subject is None:
            subject = repository.subject_of(self._inputs)
            # Nothing is written before there is something to review.
            self._builder.collect(subject, self._inputs, may_be_empty=self._inputs.is_live)
            if subject.kind != "run":
                repository.keep_sources(self._user, self._name, (branch.tip for branch in subject.branches))
            self._append("opened", **subject_fields(subject))
        else:
            self._builder.collect(self._subject, self._inputs, self._log.new)
        # First the refs, then the branches: one that moves in between is another ref to the next refresh.
        self._upstream, before = self._read_upstream(), self._subject
        self._take_arrivals()
        if self._subject != before:
            self._upstream = self._read_upstream()
        elif self._inputs.folder is None:
            self._stamp = self._inputs.stamp
        self.state = self._build()
        decisions_file.write_decisions(self._home / DECISIONS, self.state.decisions)

    def _release(self) -> None:
        self._engine.close()
        self._journal.close()

    # Acts

    def decide(self, oids: Iterable[str], decision: Decision) -> ReviewState:
        """Keep or revert changes, or make them undecided again. A change is named by any of its sources."""
        return self.decide_each(dict.fromkeys(oids, decision))

    def decide_each(self, decisions: Mapping[str, Decision]) -> ReviewState:
        """Make several decisions as one act: one line of the log, one step of undo."""
        items = {change.oid: decision for oid, decision in decisions.items() for change in self._named(oid)}
        if not items:
            return self.state
        by_decision = {decision: [oid for oid, one in items.items() if one is decision] for decision in items.values()}
        text = ", ".join(f"{decision} {self._describe(oids)}" for decision, oids in by_decision.items())
        choices = pinned(self.state.reviewed, items)
        more: dict[str, Any] = {"alternatives": choices} if choices else {}
        return self._act("decided", items={oid: one.value for oid, one in items.items()}, **more, says=text)

    def choose(self, oid: str, instead_of: Iterable[str] = ()) -> ReviewState:
        """Choose a change in its row, and in the rows of the changes `instead_of`; it gets the decision on the row."""
        reviewed, choices, change = self.state.reviewed, self.state.decisions.alternatives, self._change(oid)
        rows = [reviewed.row_of[one.oid] for one in (change, *map(self._change, instead_of))]
        members = {one for row in rows for member in row.members for one in self._change(member).original_oids}
        # Each row that was joined is named, so that a later choice can join the same again.
        heads = [row.members[0] for row in reviewed.plan.rows if not members.isdisjoint(row.members)]
        named = [one for one in choices if one in members]
        chosen = dict.fromkeys([*named, *heads, rows[0].id], change.original_oids[0])
        items: dict[str, Decision] = {}
        for before in (row.chosen for row in rows if row.chosen != change.oid):
            if any(one in self.state.decisions.items for one in self._change(before).oids):
                items |= {before: Decision.UNDECIDED, change.oid: reviewed.decided[before]}
        if not items and all(choices.get(one) == other for one, other in chosen.items()):
            return self.state
        return self._choose(chosen, items, f"choose {self._describe([change.oid])}")

    def set_apart(self, oid: str) -> ReviewState:
        """Take a change out of its row: from now on it has a row of its own. Raises RefusedError for the only one."""
        change = self._change(oid)
        if not self.state.reviewed.row_of[change.oid].others:
            raise RefusedError(f"{self._describe([change.oid])} has no alternatives", "It has a row of its own.")
        ends = {
            one: None
            for one, other in self.state.decisions.alternatives.items()
            if not {one, other}.isdisjoint(change.original_oids)
        }
        return self._choose({**ends, change.original_oids[0]: APART}, {}, f"set {self._describe([change.oid])} apart")

    def rejoin(self, oid: str) -> ReviewState:
        """Put a change back into its row; its own decision ends. Raises RefusedError for one that is in its row."""
        change, reviewed, decisions = self._change(oid), self.state.reviewed, self.state.decisions
        oids = set(change.original_oids)
        row = next(one for one in reviewed.plan.rows if not oids.isdisjoint(one.members))
        inside = {one for member in reviewed.row_of[change.oid].members for one in self._change(member).original_oids}
        if inside.issuperset(row.members):
            raise RefusedError(f"{self._describe([change.oid])} is not apart", "All that says the same is in its row.")
        ends = {one: None for one in decisions.alternatives if one in oids}
        items = {one: Decision.UNDECIDED for one in decisions.items if one in oids}
        return self._choose(ends, items, f"rejoin {self._describe([change.oid])}")

    def _choose(self, chosen: Mapping[str, str | None], items: Mapping[str, Decision], text: str) -> ReviewState:
        words = {oid: decision.value for oid, decision in items.items()}
        return self._act("chosen", alternatives=dict(chosen), items=words, says=text)

    def move(self, oids: Sequence[str], before: str | None) -> ReviewState:
        """Move changes before another one, or to the end (None). Changes that share a commit stay before the others."""
        reviewed = self.state.reviewed
        named = (one for oid in oids for one in self._together(oid))
        moved = list(dict.fromkeys(other for one in named for other in reviewed.row_of[one].members))
        row = () if before is None else reviewed.row_of[self._change(before).oid].members
        place = next((change.oid for change in reviewed.order if change.oid in row), None)
        rest = [change.oid for change in reviewed.order if change.oid not in moved]
        if place in moved:
            return self.state
        index = len(rest) if place is None else rest.index(place)
        order = [*rest[:index], *moved, *rest[index:]]
        if order == [change.oid for change in reviewed.order]:
            return self.state
        chosen = [oid for oid in moved if reviewed.is_chosen(oid)]
        return self._act("moved", oids=moved, before=place, order=order, says=f"move {self._describe(chosen)}")

    def note(self, oid: str, text: str) -> ReviewState:
        """Set the note of a change, for the text of the pull request; an empty text removes it."""
        change = self._change(oid)
        if self.state.notes.get(change.oid, "") == text:
            return self.state
        return self._act("noted", oid=change.oid, text=text, says=f"note on {self._describe([change.oid])}")

    def resolve(self, oid: str, resolution: Resolution | None) -> ReviewState:
        """Resolve the conflicts of a change, wherever these contents meet again, in later reviews too.

        None removes the resolution.
        """
        change = self._change(oid)
        document = None if resolution is None else resolution_json(resolution)
        word = "resolve" if resolution is not None else "unresolve"
        agent = next((answer.agent for answer in resolution.answers if answer.agent), "") if resolution else ""
        text = f"{word} {self._describe([change.oid])}{f' by {agent}' if agent else ''}"
        state = self._act("resolved", oid=change.oid, resolution=document, says=text)
        if resolution is not None:
            # Without this memory later reviews ask again, and this one loses nothing.
            with contextlib.suppress(OSError):
                self._memory.remember(resolution)
        return state

    def split(self, oid: str, split: Split | None, *, keep: Sequence[int] = ()) -> ReviewState:
        """Split a change into parts, or make it whole again (None). Its parts have its decision.

        `keep`: the numbers of the parts to keep, from 1; the others are reverted by the same act. Raises UsageError for
        a split that does not fit.
        """
        if split is None:
            names = next((level for one in self._named(oid) for level in one.names[1:] if oid in level), ())
            named = next((name for name in names if name in self.state.decisions.splits), None)
            if named is None:
                raise UsageError(f"{oid} is not split", "There is nothing to make whole again.")
            levels = [one.names for one in self._named(oid)]
            ends = {
                part for names in levels for level in takewhile(lambda one: oid not in one, names) for part in level
            }
            says = f"make {self._describe([oid])} whole"
            return self._act("split", oid=named, parts=None, items={}, ends=sorted(ends), says=says)
        change = self._change(oid)
        if oid not in change.names[0]:
            raise UsageError(f"{oid} is split already", "", "Split one of its parts, or make it whole again first.")
        made = self._engine.shapes.shape((Ranked(change, ""),), {change.oid: split}, lambda changes: {})
        items = {}
        if keep:
            items = {
                one.change.oid: Decision.KEEP if number in keep else Decision.REVERT
                for number, one in enumerate(made, 1)
            }
        word = f"keep {len(keep)} of {len(made)} parts of" if keep else "split"
        return self._act(
            "split", oid=change.oid, parts=split_json(split), items={one: word.value for one, word in items.items()},
            says=f"{word} {self._describe([change.oid])}",
        )  # fmt: skip

    def squash(self, oids: Sequence[str]) -> ReviewState:
        """Make changes share one commit, together with those that they share one with already.

        One change alone gets a commit of its own again.
        """
        named = list(dict.fromkeys(change.oid for oid in oids for change in self._named(oid)))
        groups = [[change.oid for oid in group for change in self._named(oid)] for group in self.state.decisions.squash]
        touched = [group for group in groups if not set(group).isdisjoint(named)]
        rest = [group for group in groups if group not in touched]
        if len(named) > 1:
            squash = [*rest, list(dict.fromkeys([*named, *(oid for group in touched for oid in group)]))]
            says = f"squash {self._describe(named)}"
        else:
            left = [[oid for oid in group if oid not in named] for group in touched]
            squash = [*rest, *(group for group in left if len(group) > 1)]
            says = f"take {self._describe(named)} out of its commit"
        if squash == groups:
            return self.state
        return self._act("squashed", squash=squash, says=says)

    def reword(self, oid: str, text: str) -> ReviewState:
        """Replace the message of a commit, without its trailers, which stay; an empty text: its author's again.

        The message of squashed changes is that of the first of them.
        """
        reviewed, own, text = self.state.reviewed, self._change(oid).oid, cleaned(text).decode()
        groups = decisions_file.squashed_in(reviewed.order, reviewed.decisions, reviewed.row_of)
        first = next((group.first for group in groups if any(one.oid == own for one in group.members)), own)
        if self.state.decisions.messages.get(first, "") == text:
            return self.state
        return self._act("reworded", oid=first, text=text, says=f"reword {self._describe([first])}")

    def message(self, oid: str) -> str:
        """The message of the commit that a change is part of, without the trailers that every message keeps."""
        change = self._change(oid)
        message, reviewed = change.item.message, self.state.reviewed
        for one in reviewed.line.entries:
            if isinstance(one, Squash) and not one.is_joint and change.item in one.items:
                items = [item for item in one.items if reviewed.is_chosen(item.oid)]
                messages, authors = [item.message for item in items], [item.author for item in items]
                message = squashed_message(messages, authors, one.text)
        return split_trailers(message)[0].decode("utf-8", "replace")

    def rebase(self, ref: str | None) -> ReviewState:
        """Rebase the branch onto another commit, such as a newer main; None: back onto the review's own base."""
        oid = None if ref is None else self._user.resolve(ref)
        if (oid or self._subject.base) == self.state.plan.base:
            return self.state
        return self._act("onto", name=ref, oid=oid, says=f"rebase onto {ref or 'the first base'}")

    def store_candidate(self) -> str:
        """Write the candidate branch to its ref now, and return its last commit: agents can start from there."""
        self._update_candidate()
        return self.state.reviewed.line.tip

    def propose(self, oids: Sequence[str], contents: Mapping[str, bytes | None], agent: str) -> ReviewState:
        """Add one change instead of several of a row, with these files, to that row; nothing is chosen by that.

        No act: it arrives, like a commit of an agent. Raises ToolError where git cannot write it.
        """
        members = [self._change(oid) for oid in oids]
        subject = self._subject
        tip = write_proposed(self._engine.store, subject.base, members, contents, agent)
        transfer(self._engine.store, self._user, tip, subject.base)
        branch = Branch(agent, tip, members[0].original_oids[0])
        if tip not in {one.tip for one in subject.branches}:
            row = self.state.reviewed.row_of[members[0].oid]
            # It may be the smallest, which would be chosen where nobody chose.
            self._append("preferred", rows={row.id: self._change(row.chosen).original_oids[0]})
            self._arrive(subject, replace(subject, branches=(*subject.branches, branch)))
            self.state = self._build()
        return self.state

    def begin_integration(self, run: str, tasks: Mapping[str, Sequence[str]]) -> ReviewState:
        """Note that agents of a run work on conflicts: the changes by agent. No act: there is nothing to undo."""
        return self._note_integration(
            "integrating", run=run, tasks={agent: list(oids) for agent, oids in tasks.items()}
        )

    def end_integration(self, run: str, agent: str, attempt: int, reason: str) -> ReviewState:
        """Note that the answer of an agent was taken, or refused for a reason."""
        return self._note_integration("integrated", run=run, agent=agent, attempt=attempt, reason=reason)

    def _note_integration(self, event: str, **fields: Any) -> ReviewState:
        self._append(event, **fields)
        self.state = replace(self.state, integrations=self._log.integrations)
        return self.state

    def undo(self) -> ReviewState:
        """Undo the last act."""
        return self._act("undone", reverse="redone") if self._log.undo_text else self.state

    def redo(self) -> ReviewState:
        """Redo the act that was undone last."""
        return self._act("redone", reverse="undone") if self._log.redo_text else self.state

    def _import(self, document: dict[str, Any]) -> None:
        """Import a decisions file. The same file again is no new act."""
        mark = json.dumps(document, sort_keys=True)
        if mark != self._log.imported:
            # Unknown commits in a file are refused; commits that the log names may have been deleted since.
            self._builder.check(decisions_file.parse_decisions(document))
            self._act("imported", decisions=document, mark=mark, says="import decisions")

    def _act(self, event: str, reverse: str = "withdrawn", **fields: Any) -> ReviewState:
        """Write an act to the log, then apply it. If that fails, `reverse` is written and the error raised."""
        self._append(event, **fields)
        self._acted = time.monotonic()
        try:
            state = self._build()
            decisions_file.write_decisions(self._home / DECISIONS, state.decisions)
        except BaseException:
            self._unwritten.append(reverse)
            with contextlib.suppress(JournalError):  # a full disk: it is written before the next act
                self._write_pending()
            raise
        self.state = state
        return state

    def _append(self, event: str, **fields: Any) -> None:
        self._write_pending()
        self._log = apply(self._log, self._journal.append(event, time.time(), **fields))

    def _write_pending(self) -> None:
        """Write the reversal of an act that failed, if that failed too."""
        while self._unwritten:
            self._log = apply(self._log, self._journal.append(self._unwritten[0], time.time()))
            self._unwritten.pop()

    # State

    def consequences(self, oids: Iterable[str], decision: Decision) -> Consequences:
        """Find the effects of a decision on other changes, without making it."""
        return find_consequences(self._engine, self.state.reviewed, [self._change(oid).oid for oid in oids], decision)

    def conflict_files(self, oid: str) -> tuple[ConflictFile, ...]:
        """Read the files in which a change is in conflict, each with its three sides.

        Raises RefusedError where it is not in conflict, or where the paths themselves are.
        """
        change = self._change(oid)
        placed = self._placed(oid)
        if placed.status is not Status.HELD:
            raise RefusedError(
                f"{self._describe([change.oid])} is not in conflict", f"Its state: {placed.status.label}."
            )
        return read_conflicts(self._engine, placed.conflicts)

    def resolved_files(self, oid: str) -> tuple[ConflictFile, ...]:
        """Read the three sides of each file of a change in which a conflict was resolved."""
        placed = self._placed(oid)
        conflicts = tuple(
            Conflict(answer.path, answer.base, answer.ours, answer.theirs, ()) for answer in placed.answers
        )
        return read_sides(self._engine, conflicts)

    def _placed(self, oid: str) -> LineItem:
        change = self._change(oid)
        return next(one for one in self.state.reviewed.line.items if one.item.oid == change.oid)

    def _build(self, seconds: float = _SEARCH) -> ReviewState:
        """Build the state from the log: the only place where one is made. `seconds`: for the search for dependents."""
        while True:
            applied = self._builder.apply(self._log, self._subject, seconds, self.is_awaited)
            recalled = self._builder.recall(self._log, applied.reviewed)
            if not recalled:
                break
            # In the log, so that this review can be repeated without the memory.
            for oid, resolution in recalled.items():
                self._append("recalled", oid=oid, resolution=resolution_json(resolution))
        reviewed, upstream = applied.reviewed, self._upstream
        self._changes = {}
        for change in reviewed.order:
            for oid in change.oids:
                self._changes.setdefault(oid, []).append(change)
        return replace(
            self._builder.build(self._log, applied),
            main=upstream.main,
            main_moved=upstream.moved(reviewed.plan.base),
            published=upstream.published(applied.kept),
            stat=upstream.stat(self._engine, reviewed.plan.base, applied.kept.tree),
            evidence=self._inputs.evidence,
            branches=self._subject.branches,
            branch_names=upstream.names,
            is_live=self._inputs.is_live,
        )

    def _change(self, oid: str) -> Change:
        """The change that this id names, the first part of one that is split."""
        return self._named(oid)[0]

    def _named(self, oid: str) -> Sequence[Change]:
        """The change that this id names, or all its parts."""
        changes = self._changes.get(oid)
        if changes is None:
            hint = "Refresh: its branch may have moved."
            raise UsageError(f"{oid} is not in this review", "None of its branches has that commit.", hint)
        return changes

    def _together(self, oid: str) -> list[str]:
        """The changes that this id names, with those that share a commit with them."""
        named = [change.oid for change in self._named(oid)]
        squashed = [one for one in self.state.reviewed.line.entries if isinstance(one, Squash) and not one.is_joint]
        groups = [[item.oid for item in one.items] for one in squashed]
        return [one for oid in named for one in next((group for group in groups if oid in group), [oid])]

    def _describe(self, oids: Sequence[str]) -> str:
        return f"“{self._change(oids[0]).subject[:60]}”" if len(oids) == 1 else f"{len(oids)} changes"

    # Repository

    def refresh(self) -> ReviewState:
        """Look for new commits, moved branches and a moved main; the same state where nothing changed. Runs no mngr.

        An unfinished search for dependents goes on, for a third of a second at most. Some time after the last act the
        candidate's ref is updated.
        """
        upstream, stamp = self._read_upstream(self._upstream), self._inputs.stamp
        if upstream is self._upstream and stamp == self._stamp:
            if not self.state.reviewed.dependents.is_whole:
                self.state = self._build(_IDLE_SEARCH)
            elif time.monotonic() - self._acted > _AT_REST:
                self._update_candidate()
            return self.state
        before = self._upstream, self._stamp
        left_out = self._inputs.left_out
        try:
            self._stamp, self._inputs = stamp, renewed(self._inputs, self._environ)
            self._take_arrivals()
            if self._inputs.left_out != left_out:
                self._builder.collect(self._subject, self._inputs, self._log.new)
            self._upstream = self._read_upstream()
            state = self._build()
            decisions_file.write_decisions(self._home / DECISIONS, state.decisions)
        except BaseException:
            # The next refresh tries it all again.
            self._upstream, self._stamp = before
            raise
        self.state = self.state if state == self.state else state
        return self.state

    def publish(
        self, branch: str, *, has_trailers: bool = False, verdicts: Mapping[str, str] = MappingProxyType({})
    ) -> Published:
        """Publish the base plus what is kept. Raises RefusedError or UsageError, and nothing is changed then.

        `has_trailers`: each commit names its run, agents, tests and verdict; `verdicts`: ours by change, on that tree.
        """
        if self.state.publish_disabled_reason:
            raise RefusedError("There is nothing to publish", self.state.publish_disabled_reason)
        kept = self.state.kept_line.tip
        provenance = provenance_of(self._name, self._inputs.evidence, verdicts) if has_trailers else None
        ref, line = publish_review(
            self._engine, self._user, self.state.reviewed, branch, self._home, self._environ, provenance
        )
        self._update_candidate()
        entry = self._journal.append("published", time.time(), ref=ref, tip=line.tip, tree=line.tree, kept=kept)
        self._log = apply(self._log, entry)
        self._upstream = self._read_upstream()
        published = Published(ref, line.tip)
        self.state = replace(self.state, published=published)
        return published

    def pull_request(self, verified: VerifiedTests | None = None) -> PullRequest:
        """Write the title and the text of a pull request for what is kept now. `verified`: our own run of its tests."""
        state, kept = self.state, build_kept_line(self._engine, self.state.reviewed)
        return write_pull_request(
            state.reviewed,
            kept,
            notes=state.notes,
            evidence=state.evidence,
            clusters=self._inputs.clusters,
            verified=verified,
            review=self._name,
        )

    def open_pull_request(self, verified: VerifiedTests | None = None) -> str:
        """Push what was published and open a pull request for it with `gh`; returns its address.

        Raises RefusedError where what is kept now is not published, or the target branch is unknown; ToolError.
        """
        published = self.state.published
        if published is None or not published.is_current:
            raise RefusedError("What is kept now is not published", "Publish it first.")
        return open_for(published.ref, self.state.main, self._inputs, self._environ, self.pull_request(verified))

    @property
    def _subject(self) -> Subject:
        assert self._log.subject is not None
        return self._log.subject

    def _take_arrivals(self) -> None:
        """Add commits that came since. No decision changes by that."""
        before = self._subject
        now = repository.current_subject(before, self._inputs, self._user)
        if now != before:
            self._arrive(before, now)

    def _arrive(self, before: Subject, now: Subject) -> None:
        new = repository.new_commits(before, now, self._user)
        repository.keep_sources(self._user, self._name, (branch.tip for branch in now.branches))
        number = max(self._log.new.values(), default=0) + 1
        self._builder.collect(now, self._inputs, {**self._log.new, **dict.fromkeys(new, number)})
        self._append("arrived", base=now.base, branches=branch_fields(now.branches), new=new)

    def _read_upstream(self, before: Upstream | None = None) -> Upstream:
        return read_upstream(self._user, self._name, self._subject, self._log, before)

    def _update_candidate(self) -> None:
        """Write the branch to the candidate's ref, for tests. It takes longer than an act may, so not after each."""
        line = self.state.reviewed.line
        if line.items and line.tip != self._candidate:
            keep_candidate(self._engine, self._user, self._name, line)
            self._candidate = line.tip
