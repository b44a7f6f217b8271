"""Tab of the right pane with the texts of a row: a list of them, and the marked one beside the chosen one.

Both are compared as each alone makes them of the base, so that only the words differ that their agents wrote.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from selftest_core.errors import SelftestError
from selftest_tui.review.alternatives.text_list import TextList, texts_of
from selftest_tui.review.diff.diff_view import DiffView
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import ComposeResult

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.verify.verification import Verified
    from selftest_tui.review.alternatives.text_list import RowText
    from selftest_tui.review.feed import ReviewFeed
    from selftest_tui.review.lines import ReviewRow

MINUS = "\N{MINUS SIGN}"
SPLIT_FROM = 90
"""Width in cells from which the two texts stand side by side."""
_MUTED = "$foreground-muted"


class AlternativesView(Vertical, can_focus=False):
    """Shows the texts of one row. `marked` is the change that keys and the comparison are about, None without texts."""

    DEFAULT_CSS = """
    AlternativesView { height: 1fr; }
    AlternativesView #says { height: auto; padding: 0 1; }
    AlternativesView #texts { height: auto; max-height: 40%; padding: 0 1; scrollbar-size-vertical: 1; }
    AlternativesView #sides { height: auto; padding: 0 1; background: $panel; }
    AlternativesView TextList { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    class Chosen(Message):
        """The marked text was clicked again."""

    class Compared(Message):
        """The texts were compared."""

    def __init__(self, feed: ReviewFeed, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._feed = feed
        self._key = ""
        self._marked = 0
        self._texts: tuple[RowText, ...] = ()
        self._compared: tuple[str, ...] = ()
        self._reviewed: Reviewed | None = None
        self._says = Static(id="says")
        self._list = TextList()
        self._scroll = VerticalScroll(self._list, id="texts", can_focus=False)
        self._sides = Static(id="sides")
        self.diff = DiffView(id="compared", split_from=SPLIT_FROM)
        self.is_reading = False
        self.text = ""

    def compose(self) -> ComposeResult:
        """Place the list above the comparison."""
        yield self._says
        yield self._scroll
        yield self._sides
        yield self.diff

    @property
    def marked(self) -> str:
        """The id of the marked change, "" where there is no other text."""
        return self._texts[self._marked].change.oid if len(self._texts) > 1 else ""

    def show_words(self, words: str) -> None:
        """Show a sentence: there is no row, or its change stands alone."""
        self._key, self._texts, self._compared, self.text = "", (), (), words
        self._says.update(Content.styled(words, _MUTED))
        self._list.update("")
        self._sides.update("")
        self._sides.display = False
        self.diff.show_words(("",))

    def show(self, row: ReviewRow, verdicts: Mapping[str, Verified], reviewed: Reviewed) -> None:
        """Show the texts of a row. The mark stays where it is until another row is shown."""
        marked = self.marked
        self._texts, self._reviewed = texts_of(row, verdicts), reviewed
        places = {text.change.oid: place for place, text in enumerate(self._texts)}
        # At first the second one is marked, so that there is something to compare.
        self._marked = places.get(marked, 1) if row.key == self._key else 1
        self._key = row.key
        self._says.update(
            Content.assemble(*says(row, is_verified=all(text.verdict is not None for text in self._texts)))
        )
        self._show_marked()

    def walk(self, step: int) -> None:
        """Mark the next text (1) or the previous one (-1), around the ends."""
        self._mark((self._marked + step) % len(self._texts))

    def on_text_list_clicked(self, event: TextList.Clicked) -> None:
        """Mark what was clicked, or choose what is marked."""
        event.stop()
        if event.number == self._marked:
            self.post_message(self.Chosen())
        elif event.number < len(self._texts):
            self._mark(event.number)

    def _mark(self, place: int) -> None:
        self._marked = place
        self._show_marked()
        self._scroll.scroll_to(y=max(0, place - 2), animate=False)

    def _show_marked(self) -> None:
        self._list.show(self._texts, self._marked)
        self.text = f"{self._says.content}\n{self._list.content}"
        # The chosen one has nothing to be compared with but another.
        other = self._marked or 1
        wanted = (self._texts[0].change.oid, self._texts[other].change.oid)
        self._sides.display = True
        self._sides.update(Content.assemble(*sides(other)))
        if wanted != self._compared:
            self._compared = wanted
            self.is_reading = True
            read = partial(self._compare, wanted)
            self.run_worker(read, group="compare", description="compare texts", exclusive=True)  # type: ignore[arg-type]  # no coroutine function

    async def _compare(self, wanted: tuple[str, str]) -> None:
        assert self._reviewed is not None, "it was given with the texts"
        words: tuple[str, ...] = ("They make the same of the base.",)
        files = None
        try:
            files = (await self._feed.comparison(*wanted, self._reviewed)).applied
        except SelftestError as error:
            words = (error.title, *error.detail.splitlines()[:10], error.hint)
        if wanted != self._compared:
            return
        self.is_reading = False
        if files:
            self.diff.show(files)
        else:
            self.diff.show_words(words)
        self.post_message(self.Compared())


def says(row: ReviewRow, *, is_verified: bool) -> list[str | tuple[str, str]]:
    """Return which keys work on a row of several texts. `is_verified`: there is a verdict on each."""
    walk = f"{shown('review.next_hit', 'n')} {shown('review.previous_hit', 'N')} walk"
    pick, apart = f"{shown('review.pick', 'b')} chooses the marked one", shown("review.apart", "$")
    pieces: list[str | tuple[str, str]] = [(f"◆ is applied · {walk} · {pick} · {apart} sets it apart", _MUTED)]
    if not is_verified:
        pieces.append(("\n`selftest-tui verify --texts` runs the tests of all texts.", _MUTED))
    if row.differing:
        pieces.append(
            (f"\nTheir verdicts differ: {apart} sets the marked one apart, as a row of its own.", "$text-warning")
        )
    return pieces


def sides(marked: int) -> list[str | tuple[str, str]]:
    """Return which text is on which side of the comparison. `marked`: the place of the one that is not chosen."""
    return [
        (f"{MINUS} 1, the chosen text", "$text-error"),
        "    ",
        (f"+ {marked + 1}, the marked one", "$text-success"),
    ]
