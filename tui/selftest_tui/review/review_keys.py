"""What the keys of a review's screen do that changes something: decisions, the line, messages, publishing.

Nothing is asked here whether a key may: the key table's reasons were, before. Every decision can be undone, so one
change is decided without asking; what others need is said first, and acts on many name each of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from selftest_core.actions.agent_actions import target_of
from selftest_core.actions.terminal import hand_over
from selftest_core.errors import RefusedError
from selftest_core.review.candidate_branch import Decision, Status
from selftest_tui.fleet.acting import Acting
from selftest_tui.fleet.seat import Seat
from selftest_tui.review import words as review_words
from selftest_tui.review.lines import scopes, subject_of
from selftest_tui.review.review_moves import ReviewMoves
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.dialogs.composer import Composer
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.editing import plan_edit
from selftest_tui.shared.dialogs.options import Options, Way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import Published, ReviewState
    from selftest_tui.review.lines import ReviewRow
    from selftest_tui.review.screen import ReviewScreen

_VERBS = {Decision.KEEP: "Keep", Decision.REVERT: "Revert", Decision.UNDECIDED: "Make undecided"}
_DEFAULT_BRANCH = "reviewed"
TAKING_BACK, DOING_AGAIN = "taking it back", "doing it again"
"""What is said of an undo and a redo that are under way."""


class ReviewKeys(ReviewMoves):
    """The acts behind the keys of one review's screen."""

    def __init__(self, screen: ReviewScreen) -> None:
        super().__init__(screen)
        self._acting = Acting(Seat(screen))
        self.is_relaid = False

    @property
    def under_way(self) -> tuple[str, ...]:
        """Acts on agents that quitting now would cut short, in words."""
        return self._acting.is_running

    @property
    def _row(self) -> ReviewRow:
        row = self._screen.table.row
        assert row is not None, "the key table lets this key through on changes only"
        return row

    @property
    def _state(self) -> ReviewState:
        assert self._screen.state is not None, "the key table lets this key through in a review that is open"
        return self._screen.state

    # deciding

    async def keep(self) -> None:
        """Keep it, or all of the group."""
        await self._decide(self._screen.targets, Decision.KEEP)

    async def undecide(self) -> None:
        """Undecided again."""
        await self._decide(self._screen.targets, Decision.UNDECIDED)

    async def revert(self) -> None:
        """Drop it from the line, or all of the group; what that does to others is said first."""
        rows = [row for row in self._screen.targets if row.decision is not Decision.REVERT]
        needing, let_in = await self._consequences(rows)
        if not needing and not let_in:
            # By itself: keys that came behind this one wait for a dialog, and there is none.
            self._screen.perform(lambda: self._decide(rows, Decision.REVERT))
            return
        about = f"“{subject_of(rows[0].change)}”" if len(rows) == 1 else present.plural(len(rows), "change")
        lines = [f"needs it:   {subject_of(change)}" for change in needing]
        lines += [f"let in:     {subject_of(change)}" for change in let_in]
        says = []
        ways = []
        if needing:
            count = len(needing)
            says.append(f"{count} later {'change needs' if count == 1 else 'changes need'} it.")
            ways.append(Way("a", f"Revert it and {'the one' if count == 1 else f'the {count}'} that need it"))
            ways.append(Way("x", f"Revert it alone; {'the other is' if count == 1 else 'the others are'} then held"))
        else:
            ways.append(Way("x", "Revert it"))
        if let_in:
            count = len(let_in)
            says.append(f"Without it {count} held {'change' if count == 1 else 'changes'} can be laid.")
        chosen = await self._screen.app.push_screen_wait(Options(f"Revert {about}?", " ".join(says), lines, ways))
        oids = [row.oid for row in rows] + ([change.oid for change in needing] if chosen == "a" else [])
        if chosen:
            await self._decide_oids(oids, Decision.REVERT)

    async def _consequences(self, rows: Sequence[ReviewRow]) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
        """What needs them, and what they keep out. Of one change that is known; of several it is tried."""
        state = self._state
        if len(rows) == 1 and state.reviewed.dependents.is_whole:
            by_oid = {row.oid: row for row in self._screen.rows}
            dependents, oid = state.reviewed.dependents, rows[0].oid
            needing = [by_oid[one] for one in dependents.needed_by.get(oid, ()) if one in by_oid]
            # One that a person has reverted meanwhile needs nothing any more.
            return (
                tuple(row.change for row in needing if row.decision is not Decision.REVERT),
                tuple(by_oid[one].change for one in dependents.lets_in.get(oid, ()) if one in by_oid),
            )
        oids = [row.oid for row in rows]
        found = await self._screen.ask(
            lambda session: session.consequences(oids, Decision.REVERT), "seeing what needs these"
        )
        return found.breaks, found.lets_in

    async def _decide(self, rows: Sequence[ReviewRow], decision: Decision) -> None:
        await self._decide_oids([row.oid for row in rows if row.decision is not decision], decision)

    async def _decide_oids(self, oids: Sequence[str], decision: Decision) -> None:
        await self._decide_each(dict.fromkeys(oids, decision))

    async def _decide_each(self, decisions: Mapping[str, Decision]) -> None:
        await self._screen.act(lambda session: session.decide_each(decisions), decisions)

    async def keep_many(self) -> None:
        """Keep all of its agent, its kind, all like it, or all that is shown."""
        await self._decide_many(Decision.KEEP, "Y")

    async def revert_many(self) -> None:
        """Revert as many."""
        await self._decide_many(Decision.REVERT, "X")

    async def undecide_many(self) -> None:
        """As many, undecided."""
        await self._decide_many(Decision.UNDECIDED, "U")

    async def _decide_many(self, decision: Decision, key: str) -> None:
        screen = self._screen
        first = screen.targets[0]
        offered = [
            (words, [row for row in rows if row.decision is not decision])
            for words, rows in scopes(first, screen.rows, screen.table.shown.rows, self._state.similar)
        ]
        named = {f"{words}  {present.plural(len(rows), 'change')}": rows for words, rows in offered if rows}
        verb = _VERBS[decision]
        if not named:
            raise RefusedError(f"{verb} many", f"All of them are {review_words.DECISION_WORDS[decision]} already.")
        chosen = await screen.app.push_screen_wait(Choose(f"{verb} …", list(named), "", key))
        if chosen is None:
            return
        rows = named[chosen]
        lines = [f"{f'{row.number:>3}' if row.number else '  ∑'}  {subject_of(row.change)}" for row in rows]
        says = "z undoes it in one step."
        if decision is Decision.REVERT:
            needing, let_in = await self._consequences(rows) if len(rows) > 1 else ((), ())
            if needing:
                says = f"{len(needing)} others need one of these, and are held then. {says}"
            if let_in:
                says = f"{len(let_in)} held ones are let in. {says}"
        question = Question(f"{verb} {chosen}?", says, lines, yes=verb)
        if await screen.app.push_screen_wait(question) is True:
            await self._decide_oids([row.oid for row in rows], decision)

    async def pick(self) -> None:
        """Keep this one of its alternatives, revert the others: one act, one undo."""
        row = self._row
        decisions = dict.fromkeys(self._state.similar.get(row.oid, ()), Decision.REVERT) | {row.oid: Decision.KEEP}
        await self._decide_each(decisions)
        self._screen.say(
            f"{present.plural(len(decisions) - 1, 'other')} like it reverted; z undoes it.",
            subject_of(row.change),
        )

    async def undo(self) -> None:
        """Take the last act back."""
        said: list[str] = []

        def do(session: ReviewSession) -> ReviewState:
            said.append(session.state.undo_text)  # by now: acts before it were under way when the key was pressed
            return session.undo()

        await self._screen.act(do, says=TAKING_BACK)
        self._screen.say(present.clean(said[0]) or "the last decision", "Taken back")

    async def redo(self) -> None:
        """Do again what was taken back."""
        said: list[str] = []

        def do(session: ReviewSession) -> ReviewState:
            said.append(session.state.redo_text)
            return session.redo()

        await self._screen.act(do, says=DOING_AGAIN)
        self._screen.say(present.clean(said[0]), "Done again")

    async def note(self) -> None:
        """A note about this change, for the pull request."""
        row = self._row
        before = self._state.notes.get(row.oid, "")
        lines = [
            subject_of(row.change),
            "It goes into the pull request; an empty one goes away.",
        ]
        composed = await self._screen.app.push_screen_wait(Composer("Note", lines, before, may_be_empty=True))
        if composed is not None and composed.is_sent and composed.text.strip() != before:
            text = composed.text.strip()
            await self._screen.act(lambda session: session.note(row.oid, text), says="keeping the note")

    # the line

    async def move_down(self) -> None:
        """One place down the line."""
        await self._move_by(1)

    async def move_up(self) -> None:
        """One place up the line."""
        await self._move_by(-1)

    async def _move_by(self, step: int) -> None:
        """Past its neighbour of the line."""
        row = self._row
        line = [one for one in self._screen.rows if one.number]
        at = next(number for number, one in enumerate(line) if one.oid == row.oid)
        if not 0 <= at + step < len(line):
            raise RefusedError("It is " + ("the last" if step > 0 else "the first") + " of the line already")
        after = at + 2 if step > 0 else at - 1
        before = line[after].oid if after < len(line) else None
        await self._screen.act(lambda session: session.move([row.oid], before), says="moving it")

    async def rebase(self) -> None:
        """On what the ground has become; else on the review's own base again."""
        state = self._state
        ref = state.main if state.main_moved else None
        ahead = present.plural(state.main_moved, "commit")
        await self._screen.act(lambda session: session.rebase(ref), says="rebasing")
        self.is_relaid = ref is not None
        now = self._state
        void = sum(one.status is Status.VOID for one in now.reviewed.line.items)
        where = f"{present.clean(ref)}, {ahead} further" if ref else "the review's own base"
        self._screen.say(f"Onto {where}. {now.held} in conflict, {void} no longer needed. z undoes it.", "Rebased")

    def copy(self) -> None:
        """Copy the id of the change's commit."""
        row = self._row
        self._screen.app.copy_to_clipboard(row.oid)
        self._screen.say(f"{row.oid[:12]}  {subject_of(row.change)}", "Copied")

    async def edit(self) -> None:
        """Resolve the conflicts in the person's editor, on copies."""
        from selftest_core.review.conflict_files import read_copies, write_copies

        row, screen = self._row, self._screen
        files = await screen.ask(lambda session: session.conflict_files(row.oid), "reading both sides")
        with tempfile.TemporaryDirectory(prefix="selftest-resolve-") as folder:
            paths = await asyncio.to_thread(write_copies, files, Path(folder))
            plans = [plan_edit(path, 1, screen.fleet.environ) for path in paths]
            try:
                with screen.app.suspend():
                    ends = [hand_over(plan) for plan in plans]
            except SuspendNotSupported as error:
                raise RefusedError("The terminal cannot be handed over here", str(error)) from error
            failed = next((end for end in ends if end.exit_status), None)
            if failed is not None:
                raise RefusedError("Nothing was resolved", failed.says or "The editor ended with an error.")
            resolution = await asyncio.to_thread(read_copies, files, paths)
        await screen.act(lambda session: session.resolve(row.oid, resolution), says="laying it as resolved")
        screen.say("It is remembered, also for the next run. z undoes it.", "Resolved")

    # agents

    async def message(self) -> None:
        """Send the authors the hunk that is chosen, and the note."""
        row, screen = self._row, self._screen
        note = self._state.notes.get(row.oid, "")
        parts = [note or f"About “{subject_of(row.change)}”:", screen.pane.diff.hunk_text]
        targets = tuple(target_of(agent) for agent in screen.authors(row))
        missing = len(row.change.agents) - len({target.name for target in targets})
        more = [f"not possible: {present.plural(missing, 'other author')} not in the fleet any more"] if missing else []
        await self._acting.message_to(targets, more, text="\n\n".join(part for part in parts if part))

    async def replay(self) -> None:
        """The recording of its agent, at the moment of this commit; of several the one that is chosen."""
        from selftest_tui.fleet.messages import ReplayWanted

        row, screen = self._row, self._screen
        evidence = self._state.evidence
        found = {
            f"{present.clean(agent)}  {path.name}": (agent, path)
            for agent in row.change.agents
            if agent in evidence
            for path in evidence[agent].recordings
        }
        name = next(iter(found))
        if len(found) > 1:
            chosen = await screen.app.push_screen_wait(Choose("play", list(found), name, "r"))
            if chosen is None:
                return
            name = chosen
        agent, path = found[name]
        screen.post_message(ReplayWanted(path, agent, marker=(f"commit: {row.change.subject}"[:60],)))

    # publishing

    def publish(self) -> None:
        """Ask for the branch's name."""
        state = self._state
        if state.publish_disabled_reason:
            raise RefusedError("Nothing can be published yet", state.publish_disabled_reason)
        name = state.published.ref.removeprefix("refs/heads/") if state.published is not None else _DEFAULT_BRANCH
        self._screen.add_class("-asking")
        self._screen.prompt.ask("publish", "publish as branch", "⏎ go on  esc leave", name)

    async def publish_as(self, name: str) -> None:
        """Say exactly what will be published, and do it after a yes."""
        branch, screen, state = name.strip(), self._screen, self._state
        if not branch:
            raise RefusedError("A branch needs a name")
        rows = screen.rows
        kept = [row for row in rows if row.decision is Decision.KEEP and row.status is Status.LAID]
        counts = {
            "undecided, not published": sum(row.decision is Decision.UNDECIDED for row in rows),
            "held by a conflict, not published": sum(
                row.status is Status.HELD and row.decision is Decision.KEEP for row in rows
            ),
            "reverted": sum(row.decision is Decision.REVERT for row in rows),
        }
        left = "; ".join(f"{count} {words}" for words, count in counts.items() if count)
        says = (
            f"{present.plural(len(kept), 'change')} on {state.plan.base[:12]}: +{state.stat[0]} -{state.stat[1]} lines."
        )
        says += f"\n{left[:1].upper()}{left[1:]}." if left else "\nNothing is left out."
        lines = [f"{row.number or '∑':>3}  {subject_of(row.change)}" for row in kept]
        question = Question(f"Publish as {branch}?", says, lines, yes="Publish")
        if await screen.app.push_screen_wait(question) is not True:
            return
        published: list[Published] = []

        def do(session: ReviewSession) -> ReviewState:
            published.append(session.publish(branch))
            return session.state

        now = await screen.act(do, says=f"proving and publishing {present.clean(branch)}")
        open_still = f" {now.open} still open." if now.open else " Nothing is open."
        screen.say(
            f"{published[0].ref} is at {published[0].tip[:12]}.{open_still} O shows the text of the pull request.",
            f"Published {present.plural(len(kept), 'change')}",
        )

    async def pull_request(self) -> None:
        """Show the text of the pull request; from there it is opened."""
        from selftest_tui.review.pull_request import PullRequestPage

        screen, state = self._screen, self._state
        request = await screen.ask(lambda session: session.pull_request(), "writing the text")
        is_published = state.published is not None and state.published.is_current
        why_not = "" if is_published else "Publish first (P): gh opens a pull request of a branch that is there."
        page = PullRequestPage(request.title, request.body, why_not)
        if await screen.app.push_screen_wait(page) is True:
            said = await screen.ask(lambda session: session.open_pull_request(), "gh opens the pull request")
            screen.say(present.clean(str(said or "")) or "gh has opened it.", "Pull request")

    # the rest

    async def refresh(self) -> None:
        """Look for arrivals and moved branches."""
        before = self._screen.state
        now = await self._screen.act(lambda session: session.refresh(), says="looking for news")
        self._screen.say("Something new has come." if now is not before else "Nothing has moved.", "Refresh")
