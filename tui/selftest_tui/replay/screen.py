"""The screen of the player: a title line, the recorded terminal, the seek bar, the keys.

It wires keys to the player's methods, and the player's messages to the title line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from selftest_core.errors import RefusedError
from selftest_core.fleet.view import Problem
from selftest_tui.replay.keys import REPLAY, TENTHS, ReplaySituation
from selftest_tui.replay.player import Player
from selftest_tui.replay.playhead import clock_text, time_of
from selftest_tui.replay.seek_bar import HERE, HIT, MARK
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.help import problems_page
from selftest_tui.shared.keyed import KeyedScreen
from selftest_tui.shared.keys import Where, shown
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_tui.replay.terminal_view import TerminalView

LITTLE, MINUTE = 5.0, 60.0
PAN_COLUMNS, PAN_ROWS = 8, 4
_AT_ONCE = frozenset({"go_to", "search", "prompt_cancel", "zoom", "back", "problems"})
"""Actions that need no recording."""


class ReplayScreen(KeyedScreen):
    """Shows one recording, at the moment that `ReplayWanted` asks for."""

    CSS_PATH = "screen.tcss"
    KEYS = REPLAY
    BINDINGS: ClassVar[list[BindingType]] = REPLAY.bindings(Where.SCREEN)
    AUTO_FOCUS = "TerminalView"

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        *,
        at: float | None = None,
        title: str = "",
        marker: tuple[str, ...] = (),
        follows: bool = False,
        is_ended: bool = False,
    ) -> None:
        super().__init__()
        self._marker = marker
        self._is_ended = is_ended
        self.path = path
        self._follows = follows
        self._environ = environ
        self._at = at
        self._title = title or path.name
        self._waiting: list[Callable[[], object]] = []

    def compose(self) -> ComposeResult:
        """Place title, player and keys."""
        yield Static(id="title")
        yield Player(self._environ)
        with Horizontal(id="bottom"):
            yield KeyBar(REPLAY)
            yield Prompt()

    def on_mount(self) -> None:
        """Open the recording once the frame is on the screen."""
        self.player = self.query_one(Player)
        self.prompt = self.query_one(Prompt)
        self._show_title()
        self.call_after_refresh(
            self.player.open,
            self.path,
            self._at,
            marker=self._marker,
            follows=self._follows,
            is_ended=self._is_ended,
        )

    @property
    def field(self) -> Prompt:
        """The prompt, for searches and times."""
        return self.prompt

    # news

    def on_player_changed(self) -> None:
        """Update the title; once the recording is open, perform the keys that were pressed before."""
        if self._waiting and not self.player.is_opening:
            waiting, self._waiting = self._waiting, []
            for act in waiting:
                act()
        self._show_title()

    def on_terminal_view_clicked(self) -> None:
        """Play or pause on a click."""
        self.action_press("play")

    def on_terminal_view_scrolled(self, event: TerminalView.Scrolled) -> None:
        """Seek with the mouse wheel."""
        self.player.seek_by(event.steps * LITTLE)

    def on_resize(self) -> None:
        """Fit the title to the new width."""
        if self.is_mounted:
            self._show_title()

    def _show_title(self) -> None:
        player = self.player
        left, right = self._subject(), self._status()
        width = self.size.width
        pieces = right
        while len(pieces) > 1 and cell_len(" · ".join(pieces)) + 12 > width:
            pieces = pieces[1:]
        state = " · ".join(pieces)
        room = max(0, width - cell_len(state) - 2)
        self.query_one("#title", Static).update(
            Content.assemble((present.fit(f" {left}", room), "bold"), (f" {state} ", "bold" if player.is_live else "")),
            layout=False,
        )
        self.query_one(KeyBar).show(self.situation())

    def _subject(self) -> str:
        timeline = self.player.timeline
        words = [present.clean(self._title)]
        if timeline is not None:
            columns, rows = self.player.view.terminal_size
            words.append(f"{columns}x{rows}")
            if timeline.header.title and timeline.header.title != self._title:
                words.append(present.clean(timeline.header.title))
        return " · ".join(words)

    def _status(self) -> list[str]:
        """Return the parts of the status, the least wanted first: parts that do not fit are left out."""
        player = self.player
        timeline = player.timeline
        if timeline is None:
            return ["cannot be read" if player.error is not None else "reading …"]
        words = []
        problems = len(timeline.recording.problems) + timeline.recording.unlisted_problems
        if problems:
            words.append(f"{present.plural(problems, 'line')} skipped or repaired ({shown('replay.problems', 'e')})")
        if player.searching.needle:
            words.append(self._search_words())
        if player.head.skips_idle:
            words.append("skipping idle")
        if not timeline.is_complete:
            words.append(f"reading {timeline.progress:.0%}")
        if player.head.speed != 1:
            words.append(f"{player.head.speed:g}x")
        words.append(f"{clock_text(player.time, like=player.duration)} / {clock_text(player.duration)}")
        if player.is_following:
            words.append("● live")
        else:
            words.append("▶ playing" if player.head.is_playing else "‖ paused")
        return words

    def _search_words(self) -> str:
        searching, timeline = self.player.searching, self.player.timeline
        hits = searching.hits
        so_far = "" if searching.is_through and (timeline is None or timeline.is_complete) else " so far"
        number = sum(one <= self.player.time for one in hits)
        place = f"{number} of {len(hits)}" if hits else "no match"
        return f"/{present.clean(searching.needle)}: {place}{so_far}"

    # the prompt

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Search, or seek."""
        self.remove_class("-asking")
        text = event.text.strip()
        if event.purpose == "search":
            self._when_open(lambda: self.player.search(text))
        else:
            self._when_open(lambda: self.perform(lambda: self._go_to(text)))

    def on_prompt_cancelled(self) -> None:
        """Close the prompt."""
        self.remove_class("-asking")

    def _ask(self, purpose: str, sign: str, hint: str) -> None:
        self.add_class("-asking")
        self.prompt.ask(purpose, sign, hint)

    def _go_to(self, text: str) -> None:
        time = time_of(text, self.player.duration)
        if time is None:
            said = present.clean(text)[:40] or "Nothing"
            raise RefusedError(f"{said} is not a time", "", "Such as 134, 2:14, 50% or -30.")
        self.player.seek(time)

    # keys

    def situation(self) -> ReplaySituation:
        """Return the facts that decide which keys work."""
        player, timeline = self.player, self.player.timeline
        if timeline is None:
            return ReplaySituation(problems=len(self.said))
        return ReplaySituation(
            is_open=True,
            is_at_start=player.time <= 0,
            is_at_end=player.time >= timeline.duration,
            can_grow=player.can_grow,
            markers=len(timeline.markers),
            hits=len(player.searching.hits),
            is_searched=bool(player.searching.needle),
            is_cut=player.view.is_cut,
            problems=len(timeline.recording.problems) + len(self.said),
        )

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """Return the symbols of the bar with their meanings."""
        return (
            (HERE, "the moment that is shown"),
            ("▁ … █", "amount of output at that time; · none"),
            (MARK, "a marker, and its name where there is room"),
            (HIT, "a match of the search"),
        )

    def action_press(self, action: str) -> None:
        """Perform a key of the table; until the recording is open, keys that need it wait."""
        if action in _AT_ONCE:
            super().action_press(action)
        else:
            press = super().action_press
            self._when_open(lambda: press(action))

    def _when_open(self, act: Callable[[], object]) -> None:
        """Call `act` once the recording is open."""
        if self.player.is_opening:
            self._waiting.append(act)
        else:
            act()

    def do(self, action: str) -> object:
        """Perform the action of a key."""
        if action in TENTHS:
            self.player.seek_share(TENTHS.index(action) / 10)
            return None
        return super().do(action)

    def do_play(self) -> None:
        if self.player.head.is_playing:
            self.player.pause()
        else:
            self.player.play()

    def do_back_little(self) -> None:
        self.player.seek_by(-LITTLE)

    def do_on_little(self) -> None:
        self.player.seek_by(LITTLE)

    def do_back_minute(self) -> None:
        self.player.seek_by(-MINUTE)

    def do_on_minute(self) -> None:
        self.player.seek_by(MINUTE)

    def do_step_back(self) -> None:
        if not self.player.step(-1):
            self.player.seek(0.0)

    def do_step_on(self) -> None:
        self.player.step(1)

    def do_slower(self) -> None:
        self.player.set_speed(self.player.head.faster(-1))

    def do_faster(self) -> None:
        self.player.set_speed(self.player.head.faster(1))

    def do_plain_speed(self) -> None:
        self.player.set_speed(1.0)

    def do_skip_idle(self) -> None:
        self.player.set_skips_idle(not self.player.head.skips_idle)

    def do_first(self) -> None:
        self.player.seek(0.0)

    def do_last(self) -> None:
        self.player.seek(self.player.duration)

    def do_next_marker(self) -> None:
        if not self.player.to_marker(1):
            raise RefusedError("This is the last marker")

    def do_previous_marker(self) -> None:
        if not self.player.to_marker(-1):
            raise RefusedError("This is the first marker")

    def do_go_to(self) -> None:
        self._ask("go_to", "go to", "134  2:14  50%  -30   ⏎ go  esc cancel")

    def do_search(self) -> None:
        self._ask("search", "/", "⏎ search  esc cancel")

    def do_next_hit(self) -> None:
        if not self.player.to_hit(1):
            raise RefusedError(
                "This is the last match", "", f"{shown('replay.previous_hit', 'N')} goes to the previous match."
            )

    def do_previous_hit(self) -> None:
        if not self.player.to_hit(-1):
            raise RefusedError(
                "This is the first match", "", f"{shown('replay.next_hit', 'n')} goes to the next match."
            )

    def do_live(self) -> None:
        self.player.go_live()

    def do_fit(self) -> None:
        view = self.player.view
        view.make_small(not view.is_small)

    def do_pan_left(self) -> None:
        self._pan(-PAN_COLUMNS, 0)

    def do_pan_right(self) -> None:
        self._pan(PAN_COLUMNS, 0)

    def do_pan_up(self) -> None:
        self._pan(0, -PAN_ROWS)

    def do_pan_down(self) -> None:
        self._pan(0, PAN_ROWS)

    def _pan(self, columns: int, rows: int) -> None:
        self.player.view.make_small(False)
        self.player.view.pan(columns, rows)

    def do_follow_cursor(self) -> None:
        self.player.view.make_small(False)
        self.player.view.follow_cursor()

    def do_zoom(self) -> None:
        self.toggle_class("-full")

    def do_copy(self) -> None:
        self.app.copy_to_clipboard(self.player.view.text())
        self.say(f"The text of the screen at {clock_text(self.player.time)}", "Copied")

    def do_prompt_cancel(self) -> None:
        self.prompt.cancel()

    def do_back(self) -> None:
        if self.has_class("-full"):
            self.remove_class("-full")
        elif self.player.searching.needle:
            self.player.search("")
        else:
            self.dismiss(None)

    def do_problems(self) -> None:
        timeline = self.player.timeline
        found = [] if timeline is None else timeline.recording.problems
        more = 0 if timeline is None else timeline.recording.unlisted_problems
        detail = "\n".join(f"line {one.line}: {one.says}" for one in found[:200])
        if len(found) > 200 or more:
            detail += f"\n… and {len(found[200:]) + more} more"
        shown = [Problem("recording", "Not all of the recording could be read", detail, "")] if found else []
        self.clear_toasts()
        self.app.push_screen(problems_page(shown, self.said))
