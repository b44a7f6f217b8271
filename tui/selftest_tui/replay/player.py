"""Plays a recording anywhere on a screen: its terminal, and the bar under it.

    player = Player(environ)
    player.open(path, at=134.0)

Opening reads the recording in a thread, since a long one takes a moment; what else it does takes milliseconds. It
follows a recording that is still being written, and can be wound back in it. It posts `Changed` when something that a
title tells of is another; keys are for the screen that it stands on. Whatever the recording holds is shown, never
passed on to the person's terminal.
"""

from __future__ import annotations

import time as clocks
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.message import Message

from selftest_core.errors import SelftestError
from selftest_recorder.index.timeline import open_timeline
from selftest_tui.replay.player_search import Searching
from selftest_tui.replay.playhead import IDLE, Playhead
from selftest_tui.replay.seek_bar import Places, SeekBar
from selftest_tui.replay.terminal_view import TerminalView
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.timer import Timer

    from selftest_recorder.index.timeline import Timeline

FRAMES = 30
"""Pictures a second while it plays."""
_POLL = 0.1
_LIVE_FOR = 20.0
"""Seconds since its last growth for which a recording counts as live."""


class Player(Vertical):
    """A player. `environ` says where indexes are kept."""

    DEFAULT_CSS = """
    Player { width: 1fr; height: 1fr; }
    """

    class Changed(Message):
        """It stands elsewhere, plays or not, knows more, or could not open."""

        def __init__(self, player: Player) -> None:
            super().__init__()
            self.player = player

    class Opened(Message):
        """The recording lies ready (from a thread), or an error."""

        def __init__(self, path: Path, timeline: Timeline | None, error: SelftestError | None) -> None:
            super().__init__()
            self.path = path
            self.timeline = timeline
            self.error = error

    def __init__(self, environ: Mapping[str, str], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._environ = environ
        self.timeline: Timeline | None = None
        self.head = Playhead()
        self.error: SelftestError | None = None
        self.path: Path | None = None
        self.is_following = False
        """It stays at the end of what is being written."""
        self.searching = Searching()
        self._wanted: float | None = None
        self._ticks: Timer | None = None
        self._ticked_at = 0.0
        self._polls: Timer | None = None
        self._grew_at: float | None = None
        self._at: float | None = None
        self._marker: tuple[str, ...] = ()
        self._follows_at_once = False
        self._told_live = False

    def compose(self) -> ComposeResult:
        """The terminal above, the bar below."""
        yield TerminalView()
        yield SeekBar()

    def on_mount(self) -> None:
        """Find the parts."""
        self.view = self.query_one(TerminalView)
        self.bar = self.query_one(SeekBar)

    def on_unmount(self) -> None:
        """Files and processes end with the widget."""
        self.close()

    # opening

    def open(self, path: Path, at: float | None = None, *, marker: tuple[str, ...] = (), follows: bool = False) -> None:
        """Show a recording at `at` seconds, None its beginning.

        `marker`: at the last marker that begins with one of these words, else at its end. `follows`: at its end, and
        stay there while it grows.
        """
        self.close()
        self.path, self._at, self._marker, self._follows_at_once = path, at, marker, follows
        self.view.say("Reading the recording …", clean(path.name))
        self.run_worker(partial(self._open, path), thread=True, group="open", description="open a recording")

    def _open(self, path: Path) -> None:
        """In a thread."""
        timeline, error = None, None
        try:
            timeline = open_timeline(path, self._environ)
        except SelftestError as raised:
            error = raised
        except OSError as raised:
            error = SelftestError(f"{path.name} cannot be read", raised.strerror or str(raised))
        if not self.post_message(self.Opened(path, timeline, error)) and timeline is not None:
            timeline.close()

    def on_player_opened(self, event: Opened) -> None:
        """Begin to show it."""
        event.stop()
        if event.path != self.path or not self.is_attached:
            if event.timeline is not None:
                event.timeline.close()
            return
        if event.timeline is None:
            self.error = event.error
            if event.error is not None:
                self.view.say(*(clean(part) for part in (event.error.title, event.error.detail, event.error.hint)))
            self._tell()
            return
        timeline = self.timeline = event.timeline
        limit = timeline.header.idle_time_limit
        self.head = replace(self.head, time=0.0, idle=limit if limit else IDLE)
        self._polls = self.set_interval(_POLL, self._poll)
        if self._follows_at_once and timeline.recording.can_grow and not timeline.has_ended:
            self.go_live()
        elif self._at is None and (self._marker or self._follows_at_once):
            self._show(timeline.duration)
            self._go_to_marker(timeline)
        else:
            self.seek(self._at or 0.0)

    def _go_to_marker(self, timeline: Timeline) -> None:
        """Once all markers are known, and nothing else was asked for meanwhile."""
        if not timeline.is_complete:
            return
        found = [one.time for one in timeline.markers if one.label.startswith(self._marker)] if self._marker else []
        self._marker, self._follows_at_once = (), False
        self.seek(found[-1] if found else timeline.duration)

    def close(self) -> None:
        """Let go of the recording."""
        self.searching.stop()
        for timer in (self._ticks, self._polls):
            if timer is not None:
                timer.stop()
        self._ticks = self._polls = None
        if self.timeline is not None:
            self.timeline.close()
            self.timeline = None
        self.head = replace(self.head, time=0.0, is_playing=False)
        self.error = self._wanted = self._grew_at = None
        self.is_following = False

    # where it stands

    @property
    def is_opening(self) -> bool:
        """A recording is asked for, and neither there nor refused."""
        return self.timeline is None and self.error is None

    @property
    def time(self) -> float:
        """Seconds of the recording."""
        return self.head.time

    @property
    def duration(self) -> float:
        """Seconds that are known."""
        return self.timeline.duration if self.timeline is not None else 0.0

    @property
    def is_live(self) -> bool:
        """The recording is being written just now, or somebody waits at its end for that."""
        if self.timeline is None or self.timeline.has_ended or not self.timeline.recording.can_grow:
            return False
        grew_lately = self._grew_at is not None and clocks.monotonic() - self._grew_at < _LIVE_FOR
        return self.is_following or grew_lately

    # acts

    def play(self) -> None:
        """Let time go on; from the beginning where it stood at the end."""
        if self.timeline is None:
            return
        if self.time >= self.duration and self.timeline.is_complete and not self.is_live:
            self.seek(0.0)
        self.head = replace(self.head, is_playing=True)
        self._ticked_at = clocks.monotonic()
        if self._ticks is None:
            self._ticks = self.set_interval(1 / FRAMES, self._tick)
        self._tell()

    def pause(self) -> None:
        """Stand still."""
        self.head = replace(self.head, is_playing=False)
        self.is_following = False
        if self._ticks is not None:
            self._ticks.stop()
            self._ticks = None
        self._tell()

    def seek(self, time: float) -> None:
        """Go to a moment. What is not known yet is shown as soon as it is."""
        if self.timeline is None:
            return
        self.is_following = self._follows_at_once = False
        self._marker = ()
        time = max(time, 0.0)
        is_ahead = time > self.duration and not self.timeline.is_complete
        self._wanted = time if is_ahead else None
        self._show(time)

    def seek_by(self, seconds: float) -> None:
        """Go on, or back."""
        self.seek((self.time if self._wanted is None else self._wanted) + seconds)

    def seek_share(self, share: float) -> None:
        """Go to a share of the whole, 0 to 1."""
        self.seek(self.duration * share)

    def step(self, steps: int) -> bool:
        """To the next or the previous event, standing still. False where there is none."""
        if self.timeline is None:
            return False
        self.pause()
        time = self.timeline.next_event() if steps > 0 else self.timeline.previous_event()
        if time is None:
            return False
        self.seek(time)
        return True

    def to_marker(self, steps: int) -> bool:
        """To the next or the previous marker. False where there is none."""
        if self.timeline is None:
            return False
        times = [marker.time for marker in self.timeline.markers]
        # Playing on, one is past a marker at once: back means the one before it.
        near = 1.0 if self.head.is_playing else 0.0
        found = [one for one in times if (one > self.time if steps > 0 else one < self.time - near)]
        if not found:
            return False
        self.seek(found[0] if steps > 0 else found[-1])
        return True

    def go_live(self) -> None:
        """To the end, and stay there while it grows."""
        if self.timeline is None:
            return
        self.pause()
        self._wanted, self._marker, self._follows_at_once = None, (), False
        self.is_following = True
        self._show(self.duration)

    def set_speed(self, speed: float) -> None:
        """Times as fast as it was."""
        self.head = replace(self.head, speed=speed)
        self._tell()

    def set_skips_idle(self, skips: bool) -> None:
        """Whether stretches without anything new are skipped."""
        self.head = replace(self.head, skips_idle=skips)
        self._tell()

    def refresh_bar(self) -> None:
        """Show where it stands."""
        timeline = self.timeline
        if timeline is None:
            return
        places = Places(
            self.time,
            timeline.duration,
            timeline.progress,
            tuple(timeline.markers),
            tuple(self.searching.hits),
            self.is_live,
        )
        self.bar.show(places, timeline.activity)

    def search(self, needle: str) -> None:
        """Look for a text in all that was shown; the first hit behind here is shown once it is found. "" ends it."""
        self.view.find(needle)
        self.searching.stop()
        self.searching = Searching()
        if needle and self.timeline is not None:
            self.searching.start(self.timeline, needle)
            self.searching.wants_next_after = self.time
        self._tell()

    def to_hit(self, steps: int) -> bool:
        """To the next or the previous hit. False where there is none."""
        hits = self.searching.hits
        found = [one for one in hits if (one > self.time if steps > 0 else one < self.time)]
        if not found:
            return False
        self.searching.wants_next_after = None
        self.pause()
        self.seek(found[0] if steps > 0 else found[-1])
        return True

    # what happens by itself

    def _tick(self) -> None:
        timeline, now = self.timeline, clocks.monotonic()
        seconds, self._ticked_at = now - self._ticked_at, now
        if timeline is None or not self.head.is_playing:
            return
        following = timeline.next_event()
        time = self.head.after(seconds, timeline.last_event(), following)
        if time >= timeline.duration and timeline.is_complete:
            self._show(timeline.duration)
            if self.is_live:
                self.go_live()
            else:
                self.pause()
            return
        self._show(min(time, timeline.duration))

    def _poll(self) -> None:
        timeline = self.timeline
        if timeline is None:
            return
        was_complete = timeline.is_complete
        is_more = timeline.poll()
        if is_more and was_complete:
            self._grew_at = clocks.monotonic()
        if is_more and (self._marker or self._follows_at_once):
            self._go_to_marker(timeline)
        if self._wanted is not None and (self._wanted <= timeline.duration or timeline.is_complete):
            self.seek(self._wanted)
        elif self.is_following and is_more:
            self._show(timeline.duration)
        elif self.searching.has_news(timeline.is_complete):
            hit = self.searching.wanted_hit(timeline.is_complete)
            if hit is not None:
                self.pause()
                self.seek(hit)
            self._tell()
        elif is_more or was_complete != timeline.is_complete or self._told_live != self.is_live:
            self._tell()

    def _show(self, time: float) -> None:
        assert self.timeline is not None
        try:
            self.timeline.seek(time)
        except (SelftestError, OSError) as error:
            gone = SelftestError("The recording cannot be read any more", str(error))
            self.error = error if isinstance(error, SelftestError) else gone
            self.pause()
            return
        self.head = replace(self.head, time=self.timeline.time)
        self.view.show(self.timeline.read_update())
        self._tell()

    def _tell(self) -> None:
        self._told_live = self.is_live
        self.refresh_bar()
        self.post_message(self.Changed(self))

    def on_seek_bar_sought(self, event: SeekBar.Sought) -> None:
        """The bar was clicked or dragged."""
        event.stop()
        self.seek_share(event.share)
