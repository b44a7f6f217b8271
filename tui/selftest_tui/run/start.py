"""What a person sees before a run begins: what it will do, take and send away. One key says yes; all else leaves.

Nothing is made before the yes. After it the run folder and its private clone are made and a conductor is started, in a
thread; what goes wrong then is shown here, and the run can be taken up again by its name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from selftest_core.errors import SelftestError
from selftest_core.run.plan.offer import offer_parts
from selftest_tui.run.keys import START
from selftest_tui.shared import present, problems
from selftest_tui.shared.bindings import bindings_of
from selftest_tui.shared.keyed import KeyedScreen
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.key_bar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_core.run.plan.offer import Offer
    from selftest_core.run.store import RunFolder

WORD_WIDTH = 10
MOST_LINES = 400


class StartScreen(KeyedScreen):
    """Shows an offer. `begin` makes the run and starts its conductor, in a thread; then Begun is posted."""

    KEYS = START
    CSS_PATH = "start.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(START.of(Where.SCREEN))]

    class Begun(Message):
        """The run has begun."""

        def __init__(self, folder: RunFolder) -> None:
            super().__init__()
            self.folder = folder

    def __init__(self, offer: Offer, begin: Callable[[Callable[[str], None]], RunFolder]) -> None:
        super().__init__()
        self.offer = offer
        self._begin = begin
        self._is_beginning = False
        self._has_begun = False
        # Held, not looked for: what a thread says may come while the screen is being taken down.
        self._question = Static(Content.assemble(*_QUESTION), id="question")
        self._keys = KeyBar(START)

    def compose(self) -> ComposeResult:
        """The offer, the question, the keys."""
        plan = self.offer.plan
        repository = present.clean(plan.repository.rstrip("/").rpartition("/")[2])
        count = present.plural(len(plan.tests), "test")
        yield Static(Content.assemble((" run ", "bold"), f" {repository}  {count}"), id="title")
        with VerticalScroll(id="offer", can_focus=False) as box:
            box.border_title = Content("Begin this run?")
            box.border_subtitle = Content("↑↓ scroll")
            yield Static(offer_table(self.offer), id="parts")
        yield self._question
        yield self._keys

    def on_mount(self) -> None:
        """Say which keys there are."""
        self._keys.show(self.situation())

    def situation(self) -> str | None:
        """Why it cannot begin now: it begins already."""
        return "It begins already." if self._is_beginning or self._has_begun else None

    @property
    def under_way(self) -> tuple[str, ...]:
        """Making the run."""
        return ("The run is being made",) if self._is_beginning else ()

    def do(self, action: str) -> object:
        """Do it."""
        match action:
            case "begin":
                return self._begin_run()
            case "refuse":
                if self._is_beginning:
                    self.toast(problems.refusal("leave", "The run is being made: wait, or quit with q twice."))
                else:
                    self.app.exit(0)
            case _:
                lines = {"scroll_down": 1, "scroll_up": -1, "page_down": 10, "page_up": -10}[action]
                self.query_one("#offer").scroll_relative(y=lines, animate=False)
        return None

    async def _begin_run(self) -> None:
        self._is_beginning = True
        self._tell("The run is being made …")
        try:
            folder = await asyncio.to_thread(self._begin, self._say_from_thread)
        except SelftestError as error:
            self._tell_error(error)
            return
        finally:
            self._is_beginning = False
            self._keys.show(self.situation())
        self._has_begun = True
        self.post_message(self.Begun(folder))

    def _say_from_thread(self, words: str) -> None:
        self.app.call_from_thread(self._tell, words)

    def _tell(self, words: str) -> None:
        self._question.update(Content(f"◌ {present.clean(words)}"))
        self._keys.show(self.situation())

    def _tell_error(self, error: SelftestError) -> None:
        self.show_error(error)
        hint = present.clean(error.hint) or "y tries again, n leaves."
        self._question.update(Content.assemble((f"✗ {present.clean(error.title)}", "$text-error"), f"  {hint}"))


_QUESTION = (
    ("Nothing has started yet.  ", ""),
    ("y", "bold reverse"),
    (" begins exactly this   ", ""),
    ("n", "bold reverse"),
    (" or esc leaves", ""),
)


def offer_table(offer: Offer) -> Table:
    """The offer as words and what they mean; what leaves this machine stands out. All of it harmless."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=WORD_WIDTH, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for part in offer_parts(offer):
        if part.word in _APART:
            table.add_row("", "")
        lines = [present.clean(line) if not line.startswith(" ") else f"  {present.clean(line)}" for line in part.lines]
        stands_out = part.word in ("leaves", "broken", "note")
        for number, line in enumerate(lines[:MOST_LINES]):
            word = Text(part.word if number == 0 else "", style="bold")
            table.add_row(word, Text(line, style="bold" if stands_out else "" if number == 0 else "dim"))
        if len(lines) > MOST_LINES:
            table.add_row("", Text(f"and {len(lines) - MOST_LINES} more lines", style="dim"))
    return table


_APART = ("tests", "agents", "time", "leaves", "broken", "left out", "note")
"""Parts with an empty line before them."""
