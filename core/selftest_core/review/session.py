"""A review that a person is in: each act is written to the log, then obeyed, and gives the state that is to be shown.

Blocking, and to be used from one thread; `open_reader` gives other threads an engine of their own. An act that fails
leaves log and state as they were. One process has a review at a time: the log is locked until `close`.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from selftest_core.errors import RefusedError, UsageError
from selftest_core.git.command import Git
from selftest_core.journal import JournalError
from selftest_core.review import decisions as deciding
from selftest_core.review import repository as opening
from selftest_core.review.apply_decisions import apply_decisions, build_kept_line, publish_review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import home_of, renewed
from selftest_core.review.changes.plan import Targets, make_plan
from selftest_core.review.changes.similar_changes import find_alternatives, hot_files
from selftest_core.review.conflict_files import read_conflicts
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import claims_of
from selftest_core.review.publishing import keep_candidate
from selftest_core.review.pull_request import open_for, write_pull_request
from selftest_core.review.repository import Around, look_around
from selftest_core.review.resolutions import ResolutionMemory, resolution_folder, resolution_json
from selftest_core.review.review_log import apply, branch_fields, decisions_of, fold, subject_fields
from selftest_core.review.state import Consequences, Memory, Published, ReviewState, find_consequences, recalled, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.journal import Journal
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.inputs import Inputs, Request
    from selftest_core.review.changes.plan import Plan
    from selftest_core.review.conflict_files import ConflictFile
    from selftest_core.review.pull_request import PullRequest
    from selftest_core.review.resolutions import Resolution
    from selftest_core.review.review_log import Subject

_PATIENCE, _IDLE_PATIENCE, _AT_REST = 0.02, 0.3, 2.0
"""Seconds: to look for dependents behind an act, and when nothing else is to do; after an act until it is at rest."""
DECISIONS = "decisions.json"
"""Beside the log: what is decided, in the form that `--decisions` reads."""


class ReviewSession:
    """One open review. `state` is the newest; every act returns the one after it."""

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
        self._named: Mapping[str, Change] = {}
        self._around = Around()
        self._memory = Memory(ResolutionMemory(resolution_folder(environ)))
        self._stamp = -1
        self._acted = time.monotonic()
        self._candidate = ""
        self._owed: list[str] = []
        self.is_awaited: Callable[[], bool] = lambda: False
        """Somebody waits for this thread, so what can be found out later is left for later."""
        self._alternatives: Mapping[str, tuple[str, ...]] = {}
        self._hot: Mapping[str, int] = {}
        self._plan: Plan
        self.state: ReviewState

    @classmethod
    def open(cls, request: Request, cwd: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> Self:
        """Open the review that is asked for, as it was left; `say` gets words of what takes a while.

        Raises RefusedError when another process has it, UsageError where there is nothing like it, ToolError.
        """
        given = None if request.decisions is None else deciding.read_decisions(request.decisions)
        inputs, name = opening.find_review(request, cwd, environ, say)
        home = home_of(inputs, name)
        journal = opening.hold(home)
        try:
            engine = Engine.open(home / "engine.git", inputs.place.git_dir, environ)
        except BaseException:
            journal.close()
            raise
        session = cls(journal, engine, Git(inputs.place.git_dir, environ), inputs, name, environ)
        try:
            say("laying the line")
            session._begin()
            if request.onto is not None and inputs.targets.ground != session.state.plan.base:
                session.lay_onto(request.onto)
            if given is not None:
                session._import(deciding.decisions_json(given))
        except BaseException:
            session._end()
            raise
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the review: the candidate's ref is put where the line is, and others may open it."""
        try:
            self._settle()
            self._keep_candidate()
        finally:
            self._end()

    def open_reader(self) -> Engine:
        """An engine of its own on the same objects, for another thread. Who asks closes it."""
        return Engine.open(self._home / "engine.git", self._inputs.place.git_dir, self._environ)

    def decide(self, oids: Iterable[str], decision: Decision) -> ReviewState:
        """Keep or revert changes, or leave them undecided again; any source of a change names it."""
        return self.decide_each(dict.fromkeys(oids, decision))

    def decide_each(self, decisions: Mapping[str, Decision]) -> ReviewState:
        """Several decisions as one act: one line of the log, one step of undo."""
        items = {self._change(oid).oid: decision for oid, decision in decisions.items()}
        if not items:
            return self.state
        words = {decision: [oid for oid, one in items.items() if one is decision] for decision in items.values()}
        says = ", ".join(f"{decision} {self._says(oids)}" for decision, oids in words.items())
        return self._act("decided", items={oid: decision.value for oid, decision in items.items()}, says=says)

    def move(self, oids: Sequence[str], before: str | None) -> ReviewState:
        """Lay changes before another one, or last (None). What is laid together stays before what is laid alone."""
        moved = list(dict.fromkeys(self._change(oid).oid for oid in oids))
        place = None if before is None else self._change(before).oid
        rest = [change.oid for change in self.state.reviewed.order if change.oid not in moved]
        if place in moved:
            return self.state
        index = len(rest) if place is None else rest.index(place)
        order = [*rest[:index], *moved, *rest[index:]]
        if order == [change.oid for change in self.state.reviewed.order]:
            return self.state
        return self._act("moved", oids=moved, before=place, order=order, says=f"move {self._says(moved)}")

    def note(self, oid: str, text: str) -> ReviewState:
        """Put a note beside a change, for the pull request's text; an empty one takes it away."""
        change = self._change(oid)
        if self.state.notes.get(change.oid, "") == text:
            return self.state
        return self._act("noted", oid=change.oid, text=text, says=f"note on {self._says([change.oid])}")

    def conflict_files(self, oid: str) -> tuple[ConflictFile, ...]:
        """The files in which a held change is in conflict with the line, each with its three sides.

        Raises RefusedError where it is not held, or where the paths themselves clash.
        """
        change = self._change(oid)
        placed = next(one for one in self.state.reviewed.line.items if one.item.oid == change.oid)
        if placed.status is not Status.HELD:
            raise RefusedError(f"{self._says([change.oid])} is not in conflict", f"It is {placed.status}.")
        return read_conflicts(self._engine, placed.conflicts)

    def resolve(self, oid: str, resolution: Resolution | None) -> ReviewState:
        """Settle a change's conflicts; it holds wherever these contents meet again, in later reviews too.

        None takes what settled them away.
        """
        change = self._change(oid)
        said = None if resolution is None else resolution_json(resolution)
        word = "resolve" if resolution is not None else "unresolve"
        state = self._act("resolved", oid=change.oid, resolution=said, says=f"{word} {self._says([change.oid])}")
        if resolution is not None:
            # A memory that cannot be written costs later reviews a question, and this one nothing.
            with contextlib.suppress(OSError):
                self._memory.remember(resolution)
        return state

    def lay_onto(self, ref: str | None) -> ReviewState:
        """Lay the line on another commit, as on a newer main; None: on the review's own base again."""
        oid = None if ref is None else self._user.resolve(ref)
        if (oid or self._subject.base) == self.state.plan.base:
            return self.state
        return self._act("onto", name=ref, oid=oid, says=f"lay onto {ref or 'the first base'}")

    def undo(self) -> ReviewState:
        """Take the last act back."""
        return self._act("undone", back="redone") if self._log.undo_says else self.state

    def redo(self) -> ReviewState:
        """Do again what was taken back last."""
        return self._act("redone", back="undone") if self._log.redo_says else self.state

    def refresh(self) -> ReviewState:
        """Look for arrivals, moved branches and a moved main; the same state where nothing is new. Asks no mngr.

        Where it is not known yet who needs whom (`dependents.is_whole`), it goes on finding out, for a third of a
        second at most. Where nothing was done for a while, the candidate's ref is put where the line is.
        """
        around, stamp = self._look_around(self._around), self._inputs.stamp
        if around is self._around and stamp == self._stamp:
            if not self.state.reviewed.dependents.is_whole:
                self.state = self._build(_IDLE_PATIENCE)
            elif time.monotonic() - self._acted > _AT_REST:
                self._keep_candidate()
            return self.state
        before = self._around, self._stamp
        try:
            self._stamp, self._inputs = stamp, renewed(self._inputs, self._environ)
            self._arrive(self._now())
            self._around = self._look_around()
            made = self._build()
            deciding.write_decisions(self._home / DECISIONS, made.decisions)
        except BaseException:
            # The next look finds it all again.
            self._around, self._stamp = before
            raise
        self.state = self.state if made == self.state else made
        return self.state

    def consequences(self, oids: Iterable[str], decision: Decision) -> Consequences:
        """What deciding so would break and let in, among the other changes. Nothing is decided by asking."""
        return find_consequences(self._engine, self.state.reviewed, [self._change(oid).oid for oid in oids], decision)

    def publish(self, branch: str) -> Published:
        """Publish the base plus what is kept. Raises RefusedError or UsageError, and nothing has changed then."""
        if self.state.publishable:
            raise RefusedError("There is nothing to publish", self.state.publishable)
        ref, line = publish_review(self._engine, self._user, self.state.reviewed, branch, self._home, self._environ)
        self._keep_candidate()
        entry = self._journal.append("published", time.time(), ref=ref, tip=line.tip, tree=line.tree)
        self._log = apply(self._log, entry)
        self._around = self._look_around()
        published = Published(ref, line.tip)
        self.state = replace(self.state, published=published)
        return published

    def pull_request(self) -> PullRequest:
        """The title and the text of a pull request for what is kept now."""
        state, kept = self.state, build_kept_line(self._engine, self.state.reviewed)
        return write_pull_request(
            state.reviewed, kept, notes=state.notes, evidence=state.evidence, clusters=self._inputs.clusters
        )

    def open_pull_request(self) -> str:
        """Push what was published and open a pull request for it with `gh`; returns its address.

        Raises RefusedError where what is kept now is not published, or nobody knows where it goes; ToolError.
        """
        published = self.state.published
        if published is None or not published.is_current:
            raise RefusedError("What is kept now is not published", "A pull request is of a published branch.")
        return open_for(published.ref, self.state.main, self._inputs, self._environ, self.pull_request())

    def _begin(self) -> None:
        if self._log.subject is None:
            subject = opening.subject_of(self._inputs)
            # Nothing is written before it is known that there is something to review.
            self._plan = self._gather(subject, may_be_empty=self._inputs.is_live)
            if subject.kind != "run":
                opening.keep_sources(self._user, self._name, (branch.tip for branch in subject.branches))
            self._append("opened", **subject_fields(subject))
        else:
            self._plan = self._gather(self._subject)
        self._arrive(self._now())
        self._around = self._look_around()
        self.state = self._build()
        deciding.write_decisions(self._home / DECISIONS, self.state.decisions)

    def _import(self, document: dict[str, Any]) -> None:
        """Take in a decisions file, once: asked for again it says nothing new."""
        mark = json.dumps(document, sort_keys=True)
        if mark != self._log.imported:
            # A file that names what is not there is refused; what the log has of it may well be gone.
            deciding.decide(self._plan.changes, deciding.parse_decisions(document))
            self._act("imported", decisions=document, mark=mark, says="the decisions of a file")

    def _act(self, event: str, back: str = "withdrawn", **fields: Any) -> ReviewState:
        """Write an act down, then obey it. One that cannot be obeyed is taken back before the error is raised."""
        self._append(event, **fields)
        self._acted = time.monotonic()
        try:
            state = self._build()
            deciding.write_decisions(self._home / DECISIONS, state.decisions)
        except BaseException:
            self._owed.append(back)
            with contextlib.suppress(JournalError):  # a full disk: it is written before the next act
                self._settle()
            raise
        self.state = state
        return state

    def _append(self, event: str, **fields: Any) -> None:
        self._settle()
        self._log = apply(self._log, self._journal.append(event, time.time(), **fields))

    def _settle(self) -> None:
        """Take back the act that failed when not even that could be written."""
        while self._owed:
            self._log = apply(self._log, self._journal.append(self._owed[0], time.time()))
            self._owed.pop()

    def _build(self, patience: float = _PATIENCE) -> ReviewState:
        """The state that the log and what is reviewed give: the only place where one is made.

        `patience`: seconds for finding out who needs whom, which goes on where it stopped.
        """
        reviewed, gone = self._lay(patience)
        while self._recall(reviewed):
            reviewed, gone = self._lay(patience)
        kept = build_kept_line(self._engine, reviewed)
        inputs, around = self._inputs, self._around
        self._named = {source.oid: change for change in reviewed.order for source in change.sources}
        made = tell(self._name, self._home, self._log, reviewed, kept)
        return replace(
            made, main=around.main, main_moved=around.moved(reviewed.plan.base), published=around.published(kept),
            stat=around.stat(self._engine, reviewed.plan.base, kept.tree), evidence=inputs.evidence, gone=gone,
            is_live=inputs.is_live, alternatives=self._alternatives, hot=self._hot,
        )  # fmt: skip

    def _lay(self, patience: float) -> tuple[Reviewed, tuple[str, ...]]:
        decisions, onto = decisions_of(self._log)
        plan = replace(self._plan, base=onto or self._subject.base)
        fitting, gone = deciding.without_missing(plan.changes, decisions)
        until = time.monotonic() + patience

        def should_stop() -> bool:
            return time.monotonic() > until or self.is_awaited()

        return apply_decisions(self._engine, plan, fitting, stored=False, should_stop=should_stop), gone

    def _recall(self, reviewed: Reviewed) -> bool:
        """Write down what earlier reviews resolved of what is held now, so that it can be repeated without them."""
        found = recalled(self._memory, reviewed, self._log)
        for oid, resolution in found.items():
            self._append("recalled", oid=oid, resolution=resolution_json(resolution))
        return bool(found)

    @property
    def _subject(self) -> Subject:
        assert self._log.subject is not None
        return self._log.subject

    def _gather(self, subject: Subject, *, may_be_empty: bool = True) -> Plan:
        base, inputs = subject.base, self._inputs
        targets = Targets(base, base, subject.branches, subject.is_linear, id=self._name)
        claims = claims_of(inputs.evidence)
        plan = make_plan(self._engine.store, targets, claims, inputs.left_out, may_be_empty=may_be_empty)
        self._alternatives, self._hot = find_alternatives(self._engine.store, plan.changes), hot_files(plan.changes)
        return plan

    def _now(self) -> Subject:
        """What is reviewed as it stands now: a run's and agents' branches came with the inputs."""
        if self._inputs.kind in ("run", "agents"):
            return replace(self._subject, branches=self._inputs.targets.branches)
        return opening.stands_now(self._subject, self._user)

    def _arrive(self, now: Subject) -> None:
        """Take in what was not there before. Nothing that was decided changes by it."""
        before = self._subject
        if now == before:
            return
        new = opening.new_commits(before, now, self._user)
        opening.keep_sources(self._user, self._name, (branch.tip for branch in now.branches))
        self._plan = self._gather(now)
        self._append("arrived", base=now.base, branches=branch_fields(now.branches), new=new)

    def _look_around(self, before: Around | None = None) -> Around:
        return look_around(self._user, self._name, self._subject, self._log, before)

    def _change(self, oid: str) -> Change:
        change = self._named.get(oid)
        if change is None:
            hint = "Look again: its branch may have moved."
            raise UsageError(f"{oid} is not in this review", "None of its branches has that commit.", hint)
        return change

    def _says(self, oids: Sequence[str]) -> str:
        return f"“{self._change(oids[0]).subject[:60]}”" if len(oids) == 1 else f"{len(oids)} changes"

    def _keep_candidate(self) -> None:
        """Have the line where it can be seen and tested. Costs more than an act may, so not behind each."""
        line = self.state.reviewed.line
        if line.items and line.tip != self._candidate:
            keep_candidate(self._engine, self._user, self._name, line)
            self._candidate = line.tip

    def _end(self) -> None:
        self._engine.close()
        self._journal.close()
