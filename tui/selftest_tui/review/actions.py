"""The keys of a review's screen that change something: decisions, the branch, messages, publishing.

One method for each action of the key table, and the state that they depend on. A disabled key does not get here:
`keyed` has asked for its reason before. Every decision can be undone, so one change is decided without a question;
consequences for other changes are listed first, and decisions on many list each of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from selftest_core.errors import RefusedError
from selftest_core.review.apply_decisions import find_unused_resolutions
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.verify.background.background_verifier import Phase
from selftest_tui.fleet.seat import Seat
from selftest_tui.review import words as review_words
from selftest_tui.review.keys import ReviewSituation
from selftest_tui.review.lines import ReviewGroup, ReviewRow, scopes, subject_of
from selftest_tui.review.verifying import ReviewVerifying, has_red, related
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.editing import editor_of, plan_edit
from selftest_tui.shared.dialogs.options import Options, Way
from selftest_tui.shared.keys import shown
from selftest_tui.shared.reports import show_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from selftest_core.fleet.view import Row
    from selftest_core.review.apply_decisions import UnusedResolution
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.inputs import Request
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import Published, ReviewState
    from selftest_tui.fleet.acting import Acting
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.shared.widgets.prompt import Prompt

_VERBS = {Decision.KEEP: "Keep", Decision.REVERT: "Revert", Decision.UNDECIDED: "Make undecided"}
_DEFAULT_BRANCH = "reviewed"
UNDOING, REDOING = "undoing", "redoing"
"""Descriptions of a running undo and redo."""


def _check_published(home: Path, tip: str, environ: Mapping[str, str]) -> str:
    """Say what the tutorial's check finds in what was published; empty where the agents of the run were no writers."""
    from selftest_core.sync.reviewed import check_tree, words_on

    found = check_tree(home, tip, environ)
    return "" if found is None else words_on(found)


def _unused(one: UnusedResolution) -> str:
    """Say that a resolution is not published, and why."""
    rivals = ", ".join(f"“{subject_of(rival)}”" for rival in one.rivals) or "a change that is left out"
    published = "it is in conflict and not published" if one.is_held else "its agent's commit is published as it is"
    text = f"▲ “{subject_of(one.change)}” was resolved against {rivals}, which is undecided: without it, {published}."
    return present.clean(text)


def _listed(row: ReviewRow) -> str:
    """Return a change as a line of a question."""
    mark = f"{review_words.WEAKENS} " if row.weakens else ""
    texts = f"  ({review_words.texts(row)}; that of {present.clean(row.change.agents[0])})" if row.others else ""
    return f"{row.number or '':>3}  {mark}{subject_of(row.change)}{texts}"


class ReviewActions(ReviewVerifying):
    """The part of a review's screen that keys reach; `ReviewScreen` shows the rest."""

    def __init__(self, request: Request, fleet: FleetScreen, clock: Callable[[], float]) -> None:
        super().__init__(request, fleet, clock)
        self.is_rebased = False
        self._pending: dict[str, tuple[int, Decision]] = {}
        self._under_way: dict[int, str] = {}
        self._acting_made: Acting | None = None

    async def act(
        self,
        do: Callable[[ReviewSession], ReviewState],
        pending: Mapping[str, Decision] | None = None,
        says: str = "",
    ) -> ReviewState:
        """Run it in the session's thread, and show the new state. `pending`: decisions that are shown at once.

        Raises the exception of `do`; pending decisions are then shown as before.
        """
        raise NotImplementedError

    async def ask[T](self, ask: Callable[[ReviewSession], T], says: str) -> T:
        """Read something from the session."""
        raise NotImplementedError

    # the state that keys depend on

    @property
    def targets(self) -> tuple[ReviewRow, ...]:
        """The changes of the group under the cursor, or the one under it."""
        line = self.table.line
        if isinstance(line, ReviewGroup):
            return line.members
        return (line,) if line is not None else ()

    @property
    def above(self) -> ReviewRow | None:
        """The change above the one under the cursor, None where it shares its commit, or has none of its own."""
        row = self.table.row
        line = [one for one in self.rows if one.number]
        at = next((number for number, one in enumerate(line) if row is not None and one.oid == row.oid), 0)
        return line[at - 1] if at and row is not None and line[at - 1].commit_mates.isdisjoint({row.oid}) else None

    def authors(self, row: ReviewRow | None) -> tuple[Row, ...]:
        """The agents of a change that the fleet knows."""
        if row is None:
            return ()
        names = set(row.change.agents)
        return tuple(one for one in self.fleet.view.rows if {one.agent.name, one.agent.address} & names)

    def _count_authors(self, row: ReviewRow | None) -> int:
        """Count the agents of a change that can be reached: those of a run go on where they have ended."""
        if row is None or self.state is None:
            return 0
        return len(self.authors(row)) or sum(agent in self.state.evidence for agent in row.change.agents)

    def situation(self) -> ReviewSituation:
        """The state that decides which keys are disabled."""
        row, state, verification = self.table.row, self.state, self.feed.verification
        evidence = state.evidence if state is not None else {}
        # Keys before this one may have begun a decision, an undo or a redo, which will be done by then.
        will_undo = "a decision" if self._pending or REDOING in self._under_way.values() else ""
        will_redo = "the act that is being undone" if UNDOING in self._under_way.values() else ""
        return ReviewSituation(
            row=row,
            on_group=isinstance(self.table.line, ReviewGroup),
            targets=self.targets,
            changes=len(self.rows),
            shown=len(self.table.shown.rows),
            opens=sum(one.is_open for one in self.rows),
            problems=len(self.problems) + len(self.said),
            is_opening=state is None,
            is_linear=state is not None and state.plan.is_linear,
            undo_text=(state.undo_text if state is not None else "") or will_undo,
            redo_text=(state.redo_text if state is not None else "") or will_redo,
            main_moved=state.main_moved if state is not None else 0,
            is_rebased=self.is_rebased,
            hunks=self.pane.shown_diff.layout_of_rows.hunks,
            authors=self._count_authors(row),
            recordings=sum(len(evidence[agent].recordings) for agent in row.change.agents if agent in evidence)
            if row is not None
            else 0,
            editor=editor_of(self.fleet.environ),
            pane_is_open=self.pane_is_open,
            shows_diff=self.pane.shows_diff,
            shows_texts=self.pane.tab == "alternatives",
            marked_text=self.pane.alternatives.marked,
            differs=self.pane.differs,
            needle=self.needle,
            marked=sum(one.oid in self.table.marked for one in self.rows),
            has_above=self.above is not None,
            is_filtered=bool(self.query_text or self.only_open),
            is_sorted=self.table.columns.sort is not None,
            verification=verification.phase if verification is not None else Phase.OFF,
            conflicts=sum(one.status is Status.HELD for one in self.rows),
            can_jump=row is not None and (bool(related(row, self.rows)) or has_red(row)),
        )

    @property
    def under_way(self) -> tuple[str, ...]:
        """Running actions that quitting would interrupt, in words."""
        acting = self._acting_made.is_running if self._acting_made is not None else ()
        return (*dict.fromkeys(self._under_way.values()), *acting)

    @property
    def _acting(self) -> Acting:
        """Actions on agents. Loaded with the first key, as on the fleet's screen."""
        if self._acting_made is None:
            from selftest_tui.fleet.acting import Acting

            self._acting_made = Acting(Seat(self))
        return self._acting_made

    @property
    def _row(self) -> ReviewRow:
        row = self.table.row
        assert row is not None, "the key table lets this key through on changes only"
        return row

    @property
    def _state(self) -> ReviewState:
        assert self.state is not None, "the key table lets this key through in a review that is open"
        return self.state

    # the prompt

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Publish under that name, or search in the diff. (The base handles the filter.)"""
        if event.purpose == "publish":
            self.perform(lambda: self.publish_as(event.text))
        elif event.purpose == "search_diff":
            self.perform(lambda: self.search(event.text))

    # deciding

    async def do_keep(self) -> None:
        """Keep it and go on to the next open change; of a group, keep all that weaken no test."""
        line, rows = self.table.line, self.targets
        if not isinstance(line, ReviewGroup):
            self._go_on()
            await self._decide(rows, Decision.KEEP)
            return
        left = [row for row in rows if row.weakens and row.decision is not Decision.KEEP]
        if left:
            self.fold(line, False)
            self.table.go_to_key(left[0].key)
            changes = "1 change weakens a test" if len(left) == 1 else f"{len(left)} changes weaken a test"
            self.say(
                f"{changes}, and stays as it was. Look at the lines; {shown('review.keep', 'y')} keeps it.", "Not kept"
            )
        await self._decide([row for row in rows if not row.weakens], Decision.KEEP)

    def _go_on(self) -> None:
        """Move to the next open change below, if there is one."""
        lines = self.table.shown.lines[self.table.cursor + 1 :]
        following = next((one.key for one in lines if isinstance(one, ReviewRow) and one.is_open), None)
        if following is not None:
            self.table.go_to_key(following)

    async def do_undecide(self) -> None:
        """Make it undecided, or all of the group."""
        await self._decide(self.targets, Decision.UNDECIDED)

    async def do_revert(self) -> None:
        """Revert it, or all of the group; consequences for other changes are listed first."""
        rows = [row for row in self.targets if row.decision is not Decision.REVERT]
        needing, unblocked = await self._consequences(rows)
        if not needing and not unblocked:
            # Not awaited here: keys after this one are queued for a dialog, and none opens.
            self.perform(lambda: self._decide(rows, Decision.REVERT))
            return
        about = f"“{subject_of(rows[0].change)}”" if len(rows) == 1 else present.plural(len(rows), "change")
        lines = [f"needs it:   {subject_of(change)}" for change in needing]
        lines += [f"unblocked:  {subject_of(change)}" for change in unblocked]
        says = []
        ways = []
        if needing:
            count = len(needing)
            says.append(f"{count} later {'change needs' if count == 1 else 'changes need'} it.")
            ways.append(Way("a", f"Revert it and {'the one' if count == 1 else f'the {count}'} that need it"))
            ways.append(
                Way("x", f"Revert it alone; {'the other is' if count == 1 else 'the others are'} then in conflict")
            )
        else:
            ways.append(Way("x", "Revert it"))
        if unblocked:
            count = len(unblocked)
            says.append(f"Without it {count} {'change is' if count == 1 else 'changes are'} no longer in conflict.")
        chosen = await self.app.push_screen_wait(Options(f"Revert {about}?", " ".join(says), lines, ways))
        oids = [row.oid for row in rows] + ([change.oid for change in needing] if chosen == "a" else [])
        if chosen:
            await self._decide_oids(oids, Decision.REVERT)

    async def _consequences(self, rows: Sequence[ReviewRow]) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
        """The changes that need these, and those whose conflicts end without them. Tried in the session for several."""
        state = self._state
        if len(rows) == 1 and state.reviewed.dependents.is_whole:
            by_oid = {row.oid: row for row in self.rows}
            dependents, oid = state.reviewed.dependents, rows[0].oid
            needing = [by_oid[one] for one in dependents.needed_by.get(oid, ()) if one in by_oid]
            # A change that was reverted meanwhile needs nothing.
            return (
                tuple(row.change for row in needing if row.decision is not Decision.REVERT),
                tuple(by_oid[one].change for one in dependents.lets_in.get(oid, ()) if one in by_oid),
            )
        oids = [row.oid for row in rows]
        found = await self.ask(
            lambda session: session.consequences(oids, Decision.REVERT), "searching dependent changes"
        )
        return found.breaks, found.lets_in

    async def _decide(self, rows: Sequence[ReviewRow], decision: Decision) -> None:
        await self._decide_oids([row.oid for row in rows if row.decision is not decision], decision)

    async def _decide_oids(self, oids: Sequence[str], decision: Decision) -> None:
        await self._decide_each(dict.fromkeys(oids, decision))

    async def _decide_each(self, decisions: Mapping[str, Decision]) -> None:
        await self.act(lambda session: session.decide_each(decisions), decisions)

    async def do_keep_many(self) -> None:
        """Keep all of its agent, its kind, its files, or all that are shown."""
        await self._decide_many(Decision.KEEP, "keep_many")

    async def do_revert_many(self) -> None:
        """Revert many."""
        await self._decide_many(Decision.REVERT, "revert_many")

    async def do_undecide_many(self) -> None:
        """Make many undecided."""
        await self._decide_many(Decision.UNDECIDED, "undecide_many")

    async def _decide_many(self, decision: Decision, action: str) -> None:
        again = self.KEYS.row_now(action)
        first = self.targets[0]
        offered = [
            (words, [row for row in rows if row.decision is not decision])
            for words, rows in scopes(first, self.rows, self.table.shown.rows)
        ]
        named = {f"{words}  {present.plural(len(rows), 'change')}": rows for words, rows in offered if rows}
        verb = _VERBS[decision]
        if not named:
            raise RefusedError(f"{verb} many", f"All of them are {review_words.DECISION_WORDS[decision]} already.")
        chosen = await self.app.push_screen_wait(Choose(f"{verb} …", list(named), "", again))
        if chosen is None:
            return
        rows = named[chosen]
        lines = [_listed(row) for row in rows]
        says = f"{shown('review.undo', 'z')} undoes it in one step."
        weaker = sum(row.weakens for row in rows)
        if decision is Decision.KEEP and weaker:
            says = f"{weaker} of them {'weakens' if weaker == 1 else 'weaken'} a test ({review_words.WEAKENS}). {says}"
        if decision is Decision.REVERT:
            needing, unblocked = await self._consequences(rows) if len(rows) > 1 else ((), ())
            if needing:
                says = f"{len(needing)} others need one of these, and are then in conflict. {says}"
            if unblocked:
                says = f"{len(unblocked)} are no longer in conflict. {says}"
        question = Question(f"{verb} {chosen}?", says, lines, yes=verb)
        if await self.app.push_screen_wait(question) is True:
            await self._decide_oids([row.oid for row in rows], decision)

    async def do_pick(self) -> None:
        """Choose the marked text of the row; the cursor stays on the row."""
        marked = self.pane.alternatives.marked
        await self.act(lambda session: session.choose(marked), says="choosing a text")
        self.say(f"It is applied instead; {shown('review.undo', 'z')} undoes it.", "Chosen")

    async def do_apart(self) -> None:
        """Set the marked text apart, as a row of its own; or put a change back into its row."""
        row = self._row
        if row.others:
            marked = self.pane.alternatives.marked
            state = await self.act(lambda session: session.set_apart(marked), says="setting a text apart")
            # The one that arrived first takes the key of the row along.
            stays = row.oid if marked != row.oid else row.others[0].oid
            self.table.go_to_key(state.reviewed.row_of[stays].id)
            self.say(
                f"It has a row of its own now; {shown('review.apart', '$')} on "
                f"that row puts it back, {shown('review.undo', 'z')} undoes it.",
                "Set apart",
            )
        else:
            await self.act(lambda session: session.rejoin(row.oid), says="putting a text back")
            self.say(f"It is one of the texts of its row again; {shown('review.undo', 'z')} undoes it.", "Put back")

    async def do_undo(self) -> None:
        """Undo the last action."""
        said: list[str] = []

        def do(session: ReviewSession) -> ReviewState:
            said.append(session.state.undo_text)  # by now: acts before it were under way when the key was pressed
            return session.undo()

        await self.act(do, says=UNDOING)
        self.say(present.clean(said[0]) or "the last decision", "Undone")

    async def do_redo(self) -> None:
        """Redo what was undone."""
        said: list[str] = []

        def do(session: ReviewSession) -> ReviewState:
            said.append(session.state.redo_text)
            return session.redo()

        await self.act(do, says=REDOING)
        self.say(present.clean(said[0]), "Redone")

    async def do_note(self) -> None:
        """Write a note about this change, for the pull request."""
        from selftest_tui.shared.dialogs.composer import Composer  # not needed for the first frame

        row = self._row
        before = self._state.notes.get(row.oid, "")
        lines = [
            subject_of(row.change),
            "It goes into the text of the pull request. An empty note is removed.",
        ]
        composed = await self.app.push_screen_wait(Composer("Note", lines, before, may_be_empty=True, send="save"))
        if composed is not None and composed.is_sent and composed.text.strip() != before:
            text = composed.text.strip()
            await self.act(lambda session: session.note(row.oid, text), says="storing the note")

    # the line

    async def do_move_down(self) -> None:
        """Move it one place down."""
        await self._move_change(1)

    async def do_move_up(self) -> None:
        """Move it one place up."""
        await self._move_change(-1)

    async def _move_change(self, step: int) -> None:
        """Move it past its neighbour."""
        row = self._row
        # The changes of a squashed commit move together.
        line = [one for one in self.rows if one.number and (one.oid == row.oid or one.oid not in row.commit_mates)]
        at = next(number for number, one in enumerate(line) if one.oid == row.oid)
        if not 0 <= at + step < len(line):
            raise RefusedError("It is " + ("the last" if step > 0 else "the first") + " of the branch already")
        after = at + 2 if step > 0 else at - 1
        before = line[after].oid if after < len(line) else None
        await self.act(lambda session: session.move([row.oid], before), says="moving it")

    async def do_rebase(self) -> None:
        """Rebase onto the updated base, or back onto the review's own base."""
        state = self._state
        ref = state.main if state.main_moved else None
        ahead = present.plural(state.main_moved, "commit")
        await self.act(lambda session: session.rebase(ref), says="rebasing")
        self.is_rebased = ref is not None
        now = self._state
        void = sum(one.status is Status.VOID for one in now.reviewed.line.items)
        where = f"{present.clean(ref)}, {ahead} further" if ref else "the review's own base"
        self.say(
            f"Onto {where}. {now.held} in conflict, {void} no longer needed. {shown('review.undo', 'z')} undoes it.",
            "Rebased",
        )

    def do_copy(self) -> None:
        """Copy the id of the change's commit."""
        row = self._row
        self.app.copy_to_clipboard(row.oid)
        self.say(f"{row.oid[:12]}  {subject_of(row.change)}", "Copied")

    async def do_edit(self) -> None:
        """Resolve the conflicts in the user's editor, on copies."""
        from selftest_core.review.conflict_files import read_copies, write_copies

        row = self._row
        files = await self.ask(lambda session: session.conflict_files(row.oid), "reading both sides")
        with tempfile.TemporaryDirectory(prefix="selftest-resolve-") as folder:
            paths = await asyncio.to_thread(write_copies, files, Path(folder))
            self.edit_files(paths, "Nothing was resolved")
            resolution = await asyncio.to_thread(read_copies, files, paths)
        await self.act(lambda session: session.resolve(row.oid, resolution), says="applying the resolution")
        self.say(f"It is remembered, also for the next run. {shown('review.undo', 'z')} undoes it.", "Resolved")

    def edit_files(self, paths: Sequence[Path], otherwise: str) -> None:
        """Open files in the user's editor, one after the other. Raises RefusedError, `otherwise`, where it fails."""
        from selftest_core.actions.terminal import hand_over  # not needed for the first frame

        plans = [plan_edit(path, 1, self.fleet.environ) for path in paths]
        try:
            with self.app.suspend():
                ends = [hand_over(plan) for plan in plans]
        except SuspendNotSupported as error:
            raise RefusedError("The terminal cannot be handed over here", str(error)) from error
        failed = next((end for end in ends if end.exit_status), None)
        if failed is not None:
            raise RefusedError(otherwise, failed.text or "The editor ended with an error.")

    # agents

    async def do_message(self) -> None:
        """Send the authors the selected hunk, and the note."""
        from selftest_core.actions.agent_actions import target_of  # not needed for the first frame
        from selftest_tui.fleet.answering import authors_of_run

        row = self._row
        note = self._state.notes.get(row.oid, "")
        parts = [note or f"About “{subject_of(row.change)}”:", self.pane.diff.hunk_text]
        authors = await asyncio.to_thread(authors_of_run, self._state.home, row.change.agents)
        if authors is None:
            ended, targets = None, tuple(target_of(agent) for agent in self.authors(row))
        else:
            ended, targets = authors
        missing = len(row.change.agents) - len(targets) - (0 if ended is None else len(ended.rows))
        if not targets and ended is None:
            raise RefusedError("None of its authors can be reached", "They are gone, or are being launched.")
        more = [f"not possible: {present.plural(missing, 'other author')} cannot be reached"] if missing > 0 else []
        text = "\n\n".join(part for part in parts if part)
        if ended is None:
            await self._acting.message_to(targets, more, text=text)
        else:
            await self._acting.message_to(targets, more, text=f"{text}\n\n", ended=(ended,))

    async def do_replay(self) -> None:
        """Play the recording of its agent at the moment at which it made the selected hunk; of several the chosen one.

        On the tab of its tests: at the agent's own run of the red test.
        """
        from selftest_tui.fleet.messages import ReplayWanted

        row = self._row
        evidence = self._state.evidence
        agents = {present.clean(one): one for one in row.change.agents if one in evidence and evidence[one].recordings}
        name = next(iter(agents))
        if len(agents) > 1:
            chosen = await self.app.push_screen_wait(Choose("play", list(agents), name, self.KEYS.row_now("replay")))
            if chosen is None:
                return
            name = chosen
        moment = await self.pane.find_moment(row, agents[name])
        if moment is not None and moment.recording is not None:
            self.post_message(ReplayWanted(moment.recording, f"{name} · {moment.source}", at=moment.time))
            return
        path = evidence[agents[name]].recordings[0]
        self.post_message(ReplayWanted(path, name, marker=(f"commit: {row.change.subject}"[:60],)))

    # publishing

    def do_publish(self) -> None:
        """Ask for the name of the branch."""
        state = self._state
        if state.publish_disabled_reason and not self._pending:
            raise RefusedError("Nothing can be published yet", state.publish_disabled_reason)
        name = state.published.ref.removeprefix("refs/heads/") if state.published is not None else _DEFAULT_BRANCH
        self.add_class("-asking")
        self.prompt.ask("publish", "publish as branch", "⏎ continue  esc leave", name)
        if state.branch_names is not None:
            self.prompt.check(state.branch_names.disabled_reason, is_refusing=True)

    async def publish_as(self, name: str) -> None:
        """List exactly what will be published, and publish it after a yes."""
        branch, state = name.strip(), self._state
        if not branch:
            raise RefusedError("A branch needs a name")
        rows = self.rows
        kept = [row for row in rows if row.decision is Decision.KEEP and row.status is Status.LAID]
        counts = {
            "undecided, not published": sum(row.decision is Decision.UNDECIDED for row in rows),
            "in conflict, not published": sum(
                row.status is Status.HELD and row.decision is Decision.KEEP for row in rows
            ),
            "reverted": sum(row.decision is Decision.REVERT for row in rows),
        }
        left = "; ".join(f"{count} {words}" for words, count in counts.items() if count)
        says = (
            f"{present.plural(len(kept), 'change')} on {state.plan.base[:12]}: +{state.stat[0]} -{state.stat[1]} lines."
        )
        says += f"\n{left[:1].upper()}{left[1:]}." if left else "\nNothing is left out."
        unused = find_unused_resolutions(state.reviewed, state.kept_line)
        lines = [*map(_unused, unused), *([""] if unused else []), *map(_listed, kept)]
        if not await self.may_publish(branch, says, lines):
            return
        published: list[Published] = []
        verdicts = self.verdicts_on_kept()

        def do(session: ReviewSession) -> ReviewState:
            published.append(session.publish(branch, has_trailers=self.feed.has_trailers, verdicts=verdicts))
            return session.state

        now = await self.act(do, says=f"checking and publishing {present.clean(branch)}")
        self.feed.renew_report(must=True)
        open_still = f" {now.open} still open." if now.open else " Nothing is open."
        checked = await asyncio.to_thread(_check_published, now.home, published[0].tip, self.fleet.environ)
        open_still += f" Its tutorial: {checked}." if checked else ""
        self.say(
            f"{published[0].ref} is at {published[0].tip[:12]}.{open_still} "
            f"{shown('review.pull_request', 'O')} shows the text of the pull request.",
            f"Published {present.plural(len(kept), 'change')}",
        )

    async def do_pull_request(self) -> None:
        """Show the text of the pull request, from where gh opens it."""
        from selftest_tui.review.pull_request import PullRequestPage

        state, verified = self._state, self.verified_tests()
        request = await self.ask(lambda session: session.pull_request(verified), "writing the text")
        is_published = state.published is not None and state.published.is_current
        why_not = (
            ""
            if is_published
            else f"Publish first ({shown('review.publish', 'P')}): gh opens a pull request of a branch that is there."
        )
        page = PullRequestPage(request.title, request.body, why_not)
        if await self.app.push_screen_wait(page) is True:
            said = await self.ask(lambda session: session.open_pull_request(verified), "gh opens the pull request")
            self.say(present.clean(str(said or "")) or "gh has opened it.", "Pull request")

    # the rest

    async def do_report(self) -> None:
        """Write the report, and open it in the browser."""
        page = await self.feed.write_report()
        self.say(show_page(page, self.fleet.environ), "Report")

    async def do_refresh(self) -> None:
        """Look for new commits and moved branches."""
        before = self.state
        now = await self.act(self.feed.look, says="looking for new commits")
        self.say("There are new commits." if now is not before else "There is nothing new.", "Refresh")
