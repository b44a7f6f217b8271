"""Player of a recording: a widget with the recorded terminal and the seek bar under it.

    player = Player(environ)
    player.open(path, at=134.0)

Opening reads the recording in a thread, because a long one takes a moment; everything else takes milliseconds. It
follows a recording that still grows. It posts `Changed` when time, state or search changed; keys belong to its screen.
Control sequences of the recording never reach the user's terminal.
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
"""Frames per second while it plays."""
_POLL = 0.1
_LIVE_FOR = 20.0
"""Seconds after its last growth for which a recording counts as live."""
_FIRST_EVENTS = 200
"""Events among which the first text of a recording is looked for: more would delay its first frame."""


class Player(Vertical):
    """A player. `environ` names the folder of indexes."""

    DEFAULT_CSS = """
    Player { width: 1fr; height: 1fr; }
    """

    class Changed(Message):
        """Its time, state, search or recording changed, or the recording could not be opened."""

        def __init__(self, player: Player) -> None:
            super().__init__()
            self.player = player

    class Opened(Message):
        """The recording is open, or could not be opened; posted from a thread."""

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
        """True while it stays at the end of a growing recording."""
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
        self._is_ended = False

    def compose(self) -> ComposeResult:
        """Place the terminal above the bar."""
        yield TerminalView()
        yield SeekBar()

    def on_mount(self) -> None:
        """Look up the child widgets."""
        self.view = self.query_one(TerminalView)
        self.bar = self.query_one(SeekBar)

    def on_unmount(self) -> None:
        """Close the recording with the widget."""
        self.close()

    # opening

    def open(
        self,
        path: Path,
        at: float | None = None,
        *,
        marker: tuple[str, ...] = (),
        follows: bool = False,
        is_ended: bool = False,
    ) -> None:
        """Show a recording at `at` seconds, None for the beginning of what it shows.

        `marker`: at the last marker that begins with one of these words, else at its end. `follows`: at its end, and
        stay there while it grows. `is_ended`: nothing is added to it, whatever its file says.
        """
        self.close()
        self._is_ended = is_ended
        self.path, self._at, self._marker, self._follows_at_once = path, at, marker, follows
        self.view.say("Reading the recording …", clean(path.name))
        self.run_worker(partial(self._open, path), thread=True, group="open", description="open a recording")

    def _open(self, path: Path) -> None:
        """Open the recording; called in a thread."""
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
        """Show the opened recording, or the error."""
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
        if self._follows_at_once and self.can_grow:
            self.go_live()
        elif self._at is None and (self._marker or self._follows_at_once):
            self._show(timeline.duration)
            self._go_to_marker(timeline)
        else:
            self.seek(_first_words(timeline) if self._at is None else self._at)

    def _go_to_marker(self, timeline: Timeline) -> None:
        """Go to the wanted marker, once all markers are known."""
        if not timeline.is_complete:
            return
        found = [one.time for one in timeline.markers if one.label.startswith(self._marker)] if self._marker else []
        self._marker, self._follows_at_once = (), False
        self.seek(found[-1] if found else timeline.duration)

    def close(self) -> None:
        """Close the recording."""
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

    # state

    @property
    def is_opening(self) -> bool:
        """True while the recording is being opened."""
        return self.timeline is None and self.error is None

    @property
    def time(self) -> float:
        """The time that is shown, in seconds."""
        return self.head.time

    @property
    def duration(self) -> float:
        """The length of the recording as far as it is known, in seconds."""
        return self.timeline.duration if self.timeline is not None else 0.0

    @property
    def can_grow(self) -> bool:
        """True if more may be added to the recording: neither its agent nor its file has ended."""
        timeline = self.timeline
        return timeline is not None and not self._is_ended and timeline.recording.can_grow and not timeline.has_ended

    @property
    def is_live(self) -> bool:
        """True while the recording grows, or may grow and is followed at its end."""
        if not self.can_grow:
            return False
        grew_lately = self._grew_at is not None and clocks.monotonic() - self._grew_at < _LIVE_FOR
        return self.is_following or grew_lately

    # actions

    def play(self) -> None:
        """Play, from the beginning if it is at the end."""
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
        """Pause."""
        self.head = replace(self.head, is_playing=False)
        self.is_following = False
        if self._ticks is not None:
            self._ticks.stop()
            self._ticks = None
        self._tell()

    def seek(self, time: float) -> None:
        """Go to a time. A time that is not read yet is shown once it is read."""
        if self.timeline is None:
            return
        self.is_following = self._follows_at_once = False
        self._marker = ()
        time = max(time, 0.0)
        is_ahead = time > self.duration and not self.timeline.is_complete
        self._wanted = time if is_ahead else None
        self._show(time)

    def seek_by(self, seconds: float) -> None:
        """Go forward or back by `seconds`."""
        self.seek((self.time if self._wanted is None else self._wanted) + seconds)

    def seek_share(self, share: float) -> None:
        """Go to a share of the duration, 0 to 1."""
        self.seek(self.duration * share)

    def step(self, steps: int) -> bool:
        """Pause, and go to the next or previous event. Returns False if there is none."""
        if self.timeline is None:
            return False
        self.pause()
        time = self.timeline.next_event() if steps > 0 else self.timeline.previous_event()
        if time is None:
            return False
        self.seek(time)
        return True

    def to_marker(self, steps: int) -> bool:
        """Go to the next or previous marker. Returns False if there is none."""
        if self.timeline is None:
            return False
        times = [marker.time for marker in self.timeline.markers]
        # While it plays, it has just passed a marker: going back means the marker before that one.
        near = 1.0 if self.head.is_playing else 0.0
        found = [one for one in times if (one > self.time if steps > 0 else one < self.time - near)]
        if not found:
            return False
        self.seek(found[0] if steps > 0 else found[-1])
        return True

    def go_live(self) -> None:
        """Go to the end, and stay there while the recording grows."""
        if self.timeline is None:
            return
        self.pause()
        self._wanted, self._marker, self._follows_at_once = None, (), False
        self.is_following = True
        self._show(self.duration)

    def set_speed(self, speed: float) -> None:
        """Set the speed; 1 is normal."""
        self.head = replace(self.head, speed=speed)
        self._tell()

    def set_skips_idle(self, skips: bool) -> None:
        """Skip idle stretches, or play them."""
        self.head = replace(self.head, skips_idle=skips)
        self._tell()

    def refresh_bar(self) -> None:
        """Update the seek bar."""
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
        """Search for a text, and show its next match once it is found. "" ends the search."""
        self.view.find(needle)
        self.searching.stop()
        self.searching = Searching()
        if needle and self.timeline is not None:
            self.searching.start(self.timeline, needle)
            self.searching.wants_next_after = self.time
        self._tell()

    def to_hit(self, steps: int) -> bool:
        """Go to the next or previous match. Returns False if there is none."""
        hits = self.searching.hits
        found = [one for one in hits if (one > self.time if steps > 0 else one < self.time)]
        if not found:
            return False
        self.searching.wants_next_after = None
        self.pause()
        self.seek(found[0] if steps > 0 else found[-1])
        return True

    # timers

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
        """Seek to the place on the bar that was clicked."""
        event.stop()
        self.seek_share(event.share)


def _first_words(timeline: Timeline) -> float:
    """Return the time at which the screen shows its first text, 0.0 where that is not among the first events."""
    timeline.seek(0.0)
    time = 0.0
    for _ in range(_FIRST_EVENTS):
        if any(line.strip() for line in timeline.lines()):
            return time
        following = timeline.next_event()
        if following is None:
            break
        time = following
        timeline.seek(time)
    return 0.0
