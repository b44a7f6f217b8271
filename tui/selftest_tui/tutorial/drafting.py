"""The key actions that start agents on the tutorial, and those that decide about what drafters propose.

Each act opens the draft, writes its line into the log and closes it, so that the command line can decide too.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from selftest_core.actions.terminal import hand_over
from selftest_core.draft.decisions import BlockDecision
from selftest_core.errors import RefusedError
from selftest_core.run.store import find_run
from selftest_tui.fleet.messages import StartWanted
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.editing import plan_edit
from selftest_tui.shared.filtered import FilteredScreen
from selftest_tui.shared.keys import shown
from selftest_tui.shared.worker import Worker
from selftest_tui.tutorial.lines import PROPOSED as SIGNS
from selftest_tui.tutorial.lines import command_of
from selftest_tui.tutorial.view import PROPOSED, BlockLine, DrafterLine, ProposalLine, Section, StaleLine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from selftest_core.draft.session import DraftSession
    from selftest_core.run.plan.preparation import Prepared
    from selftest_core.run.store import RunFolder
    from selftest_tui.shared.widgets.prompt import Prompt
    from selftest_tui.tutorial.drafts import DraftView, ProposalView
    from selftest_tui.tutorial.feed import TutorialNews
    from selftest_tui.tutorial.table import TutorialTable
    from selftest_tui.tutorial.view import HeadingView, TutorialView

_BRANCH = "tutorial-draft"
_MOST_COLUMNS = 60


class DraftActions(FilteredScreen):
    """The actions `draft` and `sync`, and the decisions on proposed blocks."""

    table: TutorialTable
    environ: Mapping[str, str]
    view: TutorialView | None
    news: TutorialNews | None
    is_preparing = False

    def __init__(self) -> None:
        super().__init__()
        self._acts = Worker("draft")

    def look_again(self) -> None:
        """Read the files now."""
        raise NotImplementedError

    def run_folder(self, run: str) -> RunFolder:
        """Find the folder of a run. Blocks. Raises UsageError if it is gone."""
        assert self.news is not None, "the key table lets keys through that need a run once there is one"
        return find_run(self.environ, self.news.root, run)

    # agents

    async def do_draft(self) -> None:
        """Let agents draft blocks: of one heading, of those without blocks, or of all."""
        headings = await self._choose_headings()
        if headings is not None:
            await self._start("draft", lambda *options: _prepare_draft(headings, *options))

    async def _choose_headings(self) -> Sequence[str] | None:
        """Ask which headings; an empty list is all of them, None nothing."""
        from selftest_tui.shared.dialogs.options import Options, Way

        assert self.view is not None, "the key table lets this key through where there are headings"
        every = self.view.headings
        here = self._heading_here(every)
        bare = [one.id for one in every if not one.has_blocks]
        ways = []
        if here is not None:
            ways.append(Way("h", f"This heading: {present.clean(here.title)}"))
        if bare and bare != [one.id for one in every]:
            ways.append(Way("w", f"{present.plural(len(bare), 'heading')} without blocks"))
        ways.append(Way("a", f"All headings: {len(every)}"))
        says = "An agent for each heading fills in its blocks. You decide about each block; the plan is shown first."
        match await self.app.push_screen_wait(Options("Draft the tutorial?", says, (), ways)):
            case "h" if here is not None:
                return (here.id,)
            case "w":
                return bare
            case "a":
                return ()
            case _:
                return None

    def _heading_here(self, headings: Sequence[HeadingView]) -> HeadingView | None:
        """Return the heading that the cursor is beneath."""
        match self.table.line:
            case BlockLine(view):
                above = [one for one in headings if one.line < view.block.line]
                return above[-1] if above else None
            case DrafterLine(heading) | ProposalLine(heading, _):
                return next((one for one in headings if one.id == heading.id), None)
            case Section(title):
                return next((one for one in headings if one.title == title.removeprefix(PROPOSED)), None)
            case _:
                return None

    async def do_sync(self) -> None:
        """Let agents write missing tests and mend stale citations: of one block, or all."""
        from selftest_tui.shared.dialogs.options import Options, Way

        assert self.view is not None, "the key table lets this key through where something is missing"
        news = self.news
        assert news is not None, "there is no view without news"
        ways = [Way("a", f"All of it: {present.plural(self.view.uncited, 'block')} without a test, "
                    f"{present.plural(self.view.stale, 'stale citation')}")]  # fmt: skip
        name, label = "", ""
        match self.table.line:
            case BlockLine(view) if not view.tests:
                name, label = f"{view.block.line}", command_of(view.block.text)
            case StaleLine(_, stale):
                name = label = stale.citation.test
        if name:
            ways.insert(0, Way("h", f"Only this: {present.clean(label)[:_MOST_COLUMNS]}"))
        says = "An agent for each writes or mends the tests. They are run, also without the command, before they count."
        chosen = await self.app.push_screen_wait(Options("Write the missing tests?", says, (), ways))
        if chosen:
            names = (name,) if chosen == "h" and name else ()
            await self._start("sync", lambda *options: _prepare_sync(names, news.tests, *options))

    async def _start(self, word: str, prepare: Callable[..., Awaitable[Prepared]]) -> None:
        """Prepare a run, and have its plan shown."""
        from selftest_core.config import load_config

        assert self.news is not None, "there is no heading and no block without news"
        root, tutorial = self.news.root, self.news.tutorial
        self.is_preparing = True
        self.say("mngr is asked, and the costs are estimated. Nothing starts yet.", f"Preparing the plan of {word} …")
        try:
            config = await asyncio.to_thread(load_config, root, self.environ)
            prepared = await prepare(tutorial, config, self.environ, root)
        finally:
            self.is_preparing = False
        self.post_message(StartWanted(prepared))

    # decisions

    @property
    def draft(self) -> DraftView | None:
        """The newest draft of the repository."""
        return self.view.draft if self.view is not None else None

    @property
    def targets(self) -> tuple[ProposalView, ...]:
        """The proposed block under the cursor, or those of the heading."""
        match self.table.line:
            case ProposalLine(_, proposal):
                return (proposal,)
            case DrafterLine(heading):
                return heading.proposals
            case Section(title) if self.draft is not None:
                found = (one for one in self.draft.headings if title in (one.title, f"{PROPOSED}{one.title}"))
                return next((one.proposals for one in found), ())
            case _:
                return ()

    async def act[T](self, act: Callable[[DraftSession], T]) -> T:
        """Do one act on the draft, after those before it, and show the result."""
        draft = self.draft
        assert draft is not None, "the key table lets these keys through where there is a draft"

        def job() -> T:
            from selftest_core.draft.session import DraftSession

            with DraftSession.open(self.run_folder(draft.run), self.environ) as session:
                return act(session)

        try:
            return await self._acts.submit(job)
        finally:
            self.look_again()

    async def do_keep(self) -> None:
        """Keep the block, and go on to the next open line; or all of the heading."""
        await self._decide(BlockDecision.KEEP)

    async def do_revert(self) -> None:
        """Drop the block, and go on to the next open line; or all of the heading."""
        await self._decide(BlockDecision.DROP)

    async def do_undecide(self) -> None:
        """Make the block undecided again, or all of the heading."""
        await self._decide(BlockDecision.UNDECIDED)

    async def _decide(self, decision: BlockDecision) -> None:
        blocks = tuple(one.block.id for one in self.targets)
        if decision is not BlockDecision.UNDECIDED and isinstance(self.table.line, ProposalLine):
            self.table.go_to_open(1)  # at once, so that the next key is for the next block
        await self.act(lambda session: session.decide(blocks, decision))

    async def do_note(self) -> None:
        """Write a finding about the block, or about the whole heading."""
        from selftest_tui.shared.dialogs.composer import Composer

        match self.table.line:
            case ProposalLine(heading, proposal):
                about, before, what = proposal.block.id, proposal.finding, command_of(proposal.text)
            case DrafterLine(heading):
                about, before, what = heading.id, heading.noted, heading.title
            case _:
                return
        lines = [what, "What is confusing about the interface here? It goes into the report. Empty removes it."]
        text = before or "confusing because "
        composed = await self.app.push_screen_wait(Composer("Finding", lines, text, may_be_empty=True, send="save"))
        if composed is not None and composed.is_sent and composed.text.strip() not in (before, text.strip()):
            await self.act(lambda session: session.find(about, composed.text))

    async def do_undo(self) -> None:
        """Undo the last act."""
        self.say(await self.act(lambda session: session.undo()), "Undone")

    async def do_redo(self) -> None:
        """Redo the act that was undone last."""
        self.say(await self.act(lambda session: session.redo()), "Redone")

    async def edit_proposal(self, proposal: ProposalView) -> None:
        """Edit the text of a proposed block in the user's editor, on a copy; it is kept then."""
        with tempfile.TemporaryDirectory(prefix="selftest-draft-") as folder:
            path = Path(folder) / "block.sh"
            path.write_text(f"{proposal.text}\n", encoding="utf-8", errors="surrogateescape")
            plan = plan_edit(path, 1, self.environ)
            try:
                with self.app.suspend():
                    end = hand_over(plan)
            except SuspendNotSupported as error:
                raise RefusedError("The terminal cannot be handed over here", str(error)) from error
            if end.exit_status:
                raise RefusedError("Nothing was edited", end.text or "The editor ended with an error.")
            try:
                text = path.read_bytes().decode("utf-8", "replace").strip("\n")
            except OSError as error:
                raise RefusedError("Nothing was edited", error.strerror or str(error)) from error
        if text == proposal.text:
            self.say("The text is as it was.", "Nothing was edited")
            return
        block = proposal.block.id
        await self.act(lambda session: session.edit(block, text))
        self.say(f"It is kept with your text. {shown('tutorial.undo', 'z')} undoes it.", "Edited")

    # publishing

    def do_publish(self) -> None:
        """Ask for the name of the branch."""
        draft = self.draft
        assert draft is not None, "the key table lets this key through where something is kept"
        self.open_prompt("publish", "publish as branch", "⏎ continue  esc leave", draft.published or _BRANCH)

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Publish under that name. (The base handles the filter.)"""
        if event.purpose == "publish":
            self.perform(lambda: self._publish_as(event.text.strip()))

    async def _publish_as(self, branch: str) -> None:
        """List what will be published, and publish it after a yes."""
        from selftest_tui.shared.dialogs.dialogs import Question

        draft = self.draft
        if not branch:
            raise RefusedError("A branch needs a name")
        if draft is None or not draft.kept:
            raise RefusedError("No proposed block is kept", "", f"{shown('tutorial.keep', 'y')} keeps one.")
        lines = [f"{SIGNS[one.block.kind]} {command_of(one.text or one.block.base)}" for one in draft.kept]
        left = (
            f"{present.plural(draft.open, 'block')} undecided, not published." if draft.open else "None is undecided."
        )
        says = f"{present.plural(len(draft.kept), 'block')} as one commit on the draft's base. {left}"
        if not await self.app.push_screen_wait(Question(f"Publish as {branch}?", says, lines, yes="Publish")):
            return
        done: Any = await self.act(lambda session: session.publish(branch))
        self.say(f"{done.ref} is at {done.tip[:12]}.", f"Published {present.plural(done.blocks, 'block')}")


async def _prepare_draft(headings: Sequence[str], tutorial: Path, *options: Any) -> Prepared:
    from selftest_core.draft.drafting import prepare_draft
    from selftest_core.run.plan.preparation import RunOptions

    config, environ, root = options
    wanted = RunOptions(tutorial=_within(tutorial, root))
    return await prepare_draft(headings, wanted, config, environ, root, lambda said: None)


async def _prepare_sync(names: Sequence[str], tests: Path, tutorial: Path, *options: Any) -> Prepared:
    from selftest_core.run.plan.preparation import RunOptions
    from selftest_core.sync.preparation import prepare_sync
    from selftest_core.verify.on_arrival import isolation_of_claims

    config, environ, root = options
    wanted = RunOptions(tutorial=_within(tutorial, root))
    prepared = await prepare_sync(
        names, _within(tests, root), wanted, config, environ, root, lambda said: None, isolation_of_claims
    )
    if prepared.run is None:
        hint = "Commit the tutorial and its tests first, so that agents see them."
        raise RefusedError("Nothing is missing at HEAD, where agents start", "Every block is cited there.", hint)
    return prepared.run


def _within(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
