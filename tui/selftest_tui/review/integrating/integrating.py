"""The key of a review's screen that asks agents to resolve conflicts: which ones, the plan, and a conductor.

Their answers come by themselves, while the person goes on: the review's regular look takes them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.review.candidate_branch import Status
from selftest_tui.review.actions import ReviewActions
from selftest_tui.review.lines import subject_of
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.options import Options, Way
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from selftest_core.integrate.integration import Conflicts
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState
    from selftest_core.run.plan.offer import Offer
    from selftest_core.run.plan.preparation import Prepared
    from selftest_core.run.store import RunFolder

_WORD_WIDTH = 10


class ReviewIntegrating(ReviewActions):
    """The part of a review's screen that asks integrators."""

    async def wait_for[T](self, work: Awaitable[T], says: str) -> T:
        """Wait for work outside of the session, and say so in the header."""
        raise NotImplementedError

    async def do_integrate(self) -> None:
        """Ask an agent for the conflict under the cursor, for all, or for one change instead of a row's texts.

        First ask which, where there are several ways.
        """
        held = [row for row in self.rows if row.status is Status.HELD]
        here = [row for row in self.targets if row in held]
        row = self.table.row
        ways = []
        if here and len(here) < len(held):
            one = f"“{subject_of(here[0].change)}”" if len(here) == 1 else present.plural(len(here), "conflict")
            ways.append(Way("o", f"The conflict of {one}" if len(here) == 1 else f"Only {one}"))
        if held:
            ways.append(Way("a", f"All {len(held)} conflicts" if len(held) > 1 else "The conflict"))
        texts = 0 if row is None else len(self._state.reviewed.row_of[row.oid].members)
        if texts > 1:
            ways.append(Way("t", f"One change instead of these {texts} texts"))
        chosen = ways[0].key if len(ways) == 1 else ""
        if len(ways) > 1:
            says = "Changes that are in conflict in the same files are one agent's. The plan is shown next."
            chosen = await self.app.push_screen_wait(Options("Ask agents for …", says, (), ways))
        from selftest_core.integrate.integration import find_alternatives  # not needed for the first frame

        if chosen == "t" and row is not None:
            oid = row.oid
            await self._start_run(lambda session: find_alternatives(session, oid))
        elif chosen:
            await self.integrate({one.oid for one in (here if chosen == "o" else held)})

    async def integrate(self, oids: Collection[str] | None = None) -> None:
        """Show the plan of a run about these changes in conflict, or all; start it after a yes."""
        from selftest_core.integrate.integration import find_conflicts  # not needed for the first frame

        await self._start_run(lambda session: find_conflicts(session, oids))

    async def _start_run(self, find: Callable[[ReviewSession], Conflicts]) -> None:
        from selftest_core.integrate.integration import prepare_integration, tasks_of
        from selftest_core.run.plan.preparation import RunOptions, begin

        environ = self.fleet.environ
        conflicts = await self.ask(find, "reading all sides")
        preparing = prepare_integration(conflicts, RunOptions(), self.feed.config, environ, lambda text: None)
        prepared = await self.wait_for(preparing, "preparing the agents' plan")
        if await self.app.push_screen_wait(_question(prepared, conflicts)) is not True:
            return
        folder = await self.wait_for(asyncio.to_thread(begin, prepared, environ), "making the private clone")
        tasks = tasks_of(prepared.plan, conflicts)
        await self.act(lambda session: session.begin_integration(folder.run, tasks), says="noting it")
        try:
            await self.wait_for(asyncio.to_thread(_start, folder, environ), "starting the conductor")
        except SelftestError as error:
            reason = f"its run could not be started: {error.title}"

            def give_up(session: ReviewSession) -> ReviewState:
                for agent in tasks:
                    session.end_integration(folder.run, agent, 0, reason)
                return session.state

            await self.act(give_up, says="noting it")
            raise
        agents = present.plural(len(tasks), "agent")
        self.say("Go on meanwhile: answers come by themselves, and w of the fleet shows the run.", f"{agents} started")

    def say_answers(self, before: ReviewState, after: ReviewState) -> None:
        """Say which answers came between two states."""
        if before.integrations is after.integrations:
            return
        known = before.integrations.by_change
        subjects = {change.oid: change for change in after.reviewed.order}
        for oid, found in after.integrations.by_change.items():
            if not found.is_ended or known.get(oid) == found or oid not in subjects:
                continue
            title = f"“{subject_of(subjects[oid])}”"
            agent, reason = present.clean(found.agent), present.clean(found.reason)
            row = after.reviewed.row_of[oid]
            if agent in (one for member in row.members for one in subjects[member].agents):
                if oid == row.chosen:  # once for the whole row
                    five = shown("review.show_alternatives", "5")
                    self.say(f"{agent} proposes one text instead of {len(row.members) - 1}: {five} shows it.", title)
            elif reason:
                self.say(f"Not used, it stays as it was: {reason}", title)
            else:
                self.say(f"Resolved by {agent}. {shown('review.undo', 'z')} undoes it.", title)


def _start(folder: RunFolder, environ: Mapping[str, str]) -> None:
    from selftest_tui.run.conducting import start_conductor  # in its thread: the screen needs none of it

    start_conductor(folder, environ)


def _question(prepared: Prepared, conflicts: Conflicts) -> Question:
    from selftest_core.integrate.integration import oids_of  # not needed for the first frame

    count = present.plural(len(prepared.plan.tests), "agent")
    changes = present.plural(sum(len(oids_of(task)) for task in conflicts.tasks), "change")
    says = f"{count} for {changes}."
    left = [f"left out: {subject}: {reason}" for subject, reason in conflicts.left_out]
    lines = [*left, *([""] if left else []), *_offer_lines(prepared.offer)]
    return Question(f"Start {count}?", f"{says} Nothing has started yet.", lines, yes="Start", no="Leave it")


def _offer_lines(offer: Offer) -> list[str]:
    from selftest_core.run.plan.offer import offer_parts

    return [
        f"{part.word if number == 0 else '':<{_WORD_WIDTH}}{line}"
        for part in offer_parts(offer)
        for number, line in enumerate(part.lines)
    ]
