"""Start screen of a run: shows what it will do, cost and send to other machines, and asks before it starts.

Nothing is created before the answer. Then the run folder, its private clone and the conductor are created in a thread;
errors are shown here, and the run can be resumed by its name.
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
from selftest_core.run.plan.plan import COMMANDS, NOUNS
from selftest_tui.run.keys import START
from selftest_tui.shared import present, problems
from selftest_tui.shared.keyed import KeyedScreen
from selftest_tui.shared.keys import Where, shown
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
    """Shows an offer. `begin` creates the run and starts its conductor, in a thread.

    Posts Begun or Refused, and stays until the app closes it.
    """

    KEYS = START
    CSS_PATH = "start.tcss"
    BINDINGS: ClassVar[list[BindingType]] = START.bindings(Where.SCREEN)

    class Begun(Message):
        """The run was started."""

        def __init__(self, folder: RunFolder) -> None:
            super().__init__()
            self.folder = folder

    class Refused(Message):
        """The user wants no run. Nothing was started."""

    def __init__(self, offer: Offer, begin: Callable[[Callable[[str], None]], RunFolder]) -> None:
        super().__init__()
        self.offer = offer
        self._begin = begin
        self._is_beginning = False
        self._has_begun = False
        # Kept as attributes: a thread's message may arrive while the screen is being removed.
        self._question = Static(Content.assemble(*_question()), id="question")
        self._keys = KeyBar(START)

    def compose(self) -> ComposeResult:
        """The offer, the question, the keys."""
        plan = self.offer.plan
        repository = present.clean(plan.repository.rstrip("/").rpartition("/")[2])
        count = present.plural(len(plan.tests), plan.noun)
        yield Static(Content.assemble((f" {COMMANDS[plan.role]} ", "bold"), f" {repository}  {count}"), id="title")
        with VerticalScroll(id="offer", can_focus=False) as box:
            box.border_title = Content("Start this run?")
            box.border_subtitle = Content("↑↓ scroll")
            yield Static(offer_table(self.offer), id="parts")
        yield self._question
        yield self._keys

    def on_mount(self) -> None:
        """Show the keys."""
        self._keys.show(self.situation())

    def situation(self) -> str | None:
        """Return why the run cannot be started now: it is being started already."""
        return "The run is being started already." if self._is_beginning or self._has_begun else None

    @property
    def under_way(self) -> tuple[str, ...]:
        """Return the actions that quitting now would interrupt."""
        return ("The run is being created",) if self._is_beginning else ()

    def do(self, action: str) -> object:
        """Perform the action of a key."""
        match action:
            case "begin":
                return self._begin_run()
            case "refuse":
                if self._is_beginning:
                    self.toast(
                        problems.refusal(
                            "leave", f"The run is being created: wait, or quit with {shown('app.leave', 'q')} twice."
                        )
                    )
                else:
                    self.post_message(self.Refused())
            case _:
                lines = {"scroll_down": 1, "scroll_up": -1, "page_down": 10, "page_up": -10}[action]
                self.query_one("#offer").scroll_relative(y=lines, animate=False, immediate=True)
        return None

    async def _begin_run(self) -> None:
        self._is_beginning = True
        self._tell("Creating the run …")
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
        hint = (
            present.clean(error.hint)
            or f"{shown('start.begin', 'y')} tries again, {shown('start.refuse', 'n')} leaves."
        )
        self._question.update(Content.assemble((f"✗ {present.clean(error.title)}", "$text-error"), f"  {hint}"))


def _question() -> tuple[tuple[str, str], ...]:
    """Return the question with the keys of now."""
    begin, (leave, *others) = shown("start.begin", "y"), START.row_now("refuse").shows.split()
    return (
        ("Nothing has started yet.  ", ""),
        (begin, "bold reverse"),
        (" starts exactly this   ", ""),
        (leave, "bold reverse"),
        (f"{''.join(f' or {one}' for one in others)} leaves", ""),
    )


def offer_table(offer: Offer) -> Table:
    """Return the offer as a table of labels and values, made harmless; data that leaves this machine stands out."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=WORD_WIDTH, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for part in offer_parts(offer):
        if part.word in _APART:
            table.add_row("", "")
        lines = [present.clean(line) if not line.startswith(" ") else f"  {present.clean(line)}" for line in part.lines]
        stands_out = part.word in ("sent out", "broken", "note")
        for number, line in enumerate(lines[:MOST_LINES]):
            word = Text(part.word if number == 0 else "", style="bold")
            table.add_row(word, Text(line, style="bold" if stands_out else "" if number == 0 else "dim"))
        if len(lines) > MOST_LINES:
            table.add_row("", Text(f"and {len(lines) - MOST_LINES} more lines", style="dim"))
    return table


_APART = (
    *(f"{noun}s" for noun in NOUNS.values()),
    "agents",
    "time",
    "sent out",
    "resting",
    "growth",
    "broken",
    "left out",
    "note",
)
"""Parts with an empty line above them."""
