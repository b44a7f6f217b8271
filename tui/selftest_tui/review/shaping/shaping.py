"""The keys of a review's screen that shape its commits: split by hunk or file, squash, reword.

Each is an act like a decision: in the log before it is shown, undone by `z`, and verified again.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.review.changes.parts import PartSpec
from selftest_tui.review.actions import ReviewActions
from selftest_tui.review.lines import subject_of
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.dialogs.editing import editor_of
from selftest_tui.shared.dialogs.options import Options, Way
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.git.diffs import FileDiff
    from selftest_core.review.changes.parts import Split
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState

_LONGEST_MESSAGE = 1024 * 1024
"""Bytes of a message that an editor left."""


class ReviewShaping(ReviewActions):
    """The part of a review's screen that splits, squashes and rewords."""

    # split

    def do_select_hunk(self) -> None:
        """Select the hunk under the cursor for a split, or unselect it, and go to the next."""
        if self.pane.diff.select_hunk():
            self.pane.diff.go_to_hunk(1)
        self.show_frame()

    async def do_split(self) -> None:
        """Ask how to split it, and split it."""
        row, files = self._row, self.pane.files
        if not files:
            raise RefusedError("It cannot be split yet", "Its diff is still being read, or it changes no file.")
        change = row.change
        chosen = self.pane.diff.selection
        ways, lines = (
            [],
            [f"{file.path}  @@ -{hunk.old_start} +{hunk.new_start} @@ {hunk.heading}" for file, hunk in chosen],
        )
        if 0 < len(chosen) < sum(len(file.hunks) or 1 for file in files):
            what = "this hunk" if len(chosen) == 1 else f"these {len(chosen)} hunks"
            ways += [Way("y", f"Keep {what} only; the rest is reverted"), Way("s", f"Split {what} off from the rest")]
        if len(files) > 1:
            ways += [Way("f", "Split one file off …"), Way("e", "Split it into one part for each file")]
        if change.part is not None:
            ways.append(Way("w", f"Make it whole again: {change.part.count} parts become one change"))
        if not ways:
            raise RefusedError("It cannot be split", "It has one file, and all of its hunks are selected.")
        says = (
            "Parts are changes like others, each with a commit of its "
            f"own. {shown('review.undo', 'z')} undoes it in one step."
        )
        asked = Options(f"Split “{subject_of(change)}”?", says, lines, ways)
        match await self.app.push_screen_wait(asked):
            case "y" | "s" as way:
                self._check_hunks(chosen)
                hunks: dict[str, list[str]] = {}
                for file, hunk in chosen:
                    hunks.setdefault(file.name, []).append(hunk.id)
                part = PartSpec(hunks=tuple((path, tuple(ids)) for path, ids in hunks.items()))
                await self._split(row.oid, (part,), (1,) if way == "y" else ())
            case "f":
                names = {file.path: file for file in files}
                name = await self.app.push_screen_wait(Choose("split off", list(names), "", self.KEYS.row_now("split")))
                if name is not None:
                    await self._split(row.oid, (PartSpec(files=_paths(names[name])),))
            case "e":
                await self._split(row.oid, tuple(PartSpec(files=_paths(file)) for file in files[:-1]))
            case "w" if change.part is not None:
                whole = change.part.of
                await self.act(lambda session: session.split(whole, None), says="making it whole")
                self.table.go_to_key(self._state.reviewed.row_of[whole].id)
                self.say(f"{shown('review.undo', 'z')} undoes it.", "One change again")

    def _check_hunks(self, chosen: Sequence[tuple[FileDiff, object]]) -> None:
        """Refuse hunks that are not those of the agent's commit."""
        if not self.pane.has_hunks_of_its_commit:
            how = f"{shown('review.original', '=')} shows it." if self.pane.differs else "Split it by file."
            raise RefusedError("These are not the hunks of the agent's commit", f"It is applied otherwise. {how}")
        whole = next((file for file, _ in chosen if not file.has_parts), None)
        if whole is not None:
            why = "It is renamed, a link, too big, or its mode changes: choose the file instead."
            raise RefusedError(f"{whole.path} can be split off as a whole only", why)

    async def _split(self, oid: str, split: Split, keep: tuple[int, ...] = ()) -> None:
        await self.act(lambda session: session.split(oid, split, keep=keep), says="splitting it")
        parts = {row.change.part.number: row.key for row in self.rows if row.change.part and row.change.part.of == oid}
        if parts:
            self.table.go_to_key(parts[min(parts)])
        done = "its selected part is kept, the rest reverted" if keep else f"{len(parts)} parts"
        self.say(f"{done}; {shown('review.undo', 'z')} undoes it.", "Split")

    # squash

    def do_mark(self) -> None:
        """Mark the change under the cursor for a squash, or unmark it, and go on to the next line."""
        self.table.toggle_mark(self._row.oid)
        self.table.go_to(self.table.cursor + 1)
        self.show_frame()

    async def do_squash(self) -> None:
        """Make the marked changes one commit; without marks this one and the one above it."""
        oids = [row.oid for row in self.rows if row.oid in self.table.marked]
        if not oids:
            row, above = self._row, self.above
            assert above is not None, "the key table lets this key through below another change only"
            oids = [above.oid, row.oid]
        await self._squash(oids, f"{len(oids)} changes are one commit now")
        self.table.unmark()

    async def do_unsquash(self) -> None:
        """Give the change a commit of its own again."""
        await self._squash([self._row.oid], "It has a commit of its own again")

    async def _squash(self, oids: Sequence[str], title: str) -> None:
        held = self._state.held

        def do(session: ReviewSession) -> ReviewState:
            return session.squash(oids)

        now = await self.act(do, says="building its commit")
        more = now.held - held
        worse = f"{present.plural(more, 'more change')} in conflict now. " if more > 0 else ""
        self.say(f"{worse}{shown('review.undo', 'z')} undoes it.", title)

    # reword

    async def do_reword(self) -> None:
        """Edit the message of its commit, in the user's editor where there is one."""
        oid, subject = self._row.oid, subject_of(self._row.change)
        before = await self.ask(lambda session: session.message(oid), "reading the message")
        if editor_of(self.fleet.environ):
            with tempfile.TemporaryDirectory(prefix="selftest-message-") as folder:
                path = Path(folder) / "COMMIT_EDITMSG"
                await asyncio.to_thread(path.write_text, before, encoding="utf-8")
                self.edit_files([path], "The message is as it was")
                body = await asyncio.to_thread(path.read_bytes)
            text = body[:_LONGEST_MESSAGE].decode("utf-8", "replace")
        else:
            from selftest_tui.shared.dialogs.composer import Composer  # not needed for the first frame

            lines = [subject, "Authors and trailers are added. An empty message is that of its author again."]
            composed = await self.app.push_screen_wait(
                Composer("Reword", lines, before, may_be_empty=True, send="save")
            )
            if composed is None or not composed.is_sent:
                return
            text = composed.text
        if text.strip() == before.strip():
            self.say("The message is as it was.", "Reword")
            return
        await self.act(lambda session: session.reword(oid, text), says="rewording it")
        self.say(f"Authors and trailers stay. {shown('review.undo', 'z')} undoes it.", "Reworded")


def _paths(file: FileDiff) -> tuple[str, ...]:
    """The paths of a file: of a renamed one both."""
    return (file.old_name, file.name) if file.old_name is not None else (file.name,)
