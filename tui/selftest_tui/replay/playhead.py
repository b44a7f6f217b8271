"""Position of a player in a recording, and its progress: speed, and skipping of idle stretches. Pure."""

from __future__ import annotations

from selftest_core.frozen import dataclass

SPEEDS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0)
IDLE = 2.0
"""Seconds without output after which the rest of an idle stretch is skipped."""
LONGEST_STEP = 0.25
"""Seconds of one step at most, so that the player does not jump after the screen was blocked."""


@dataclass(frozen=True, slots=True)
class Playhead:
    """A position. `time` in seconds of the recording; `idle`: seconds without output before it skips."""

    time: float = 0.0
    speed: float = 1.0
    is_playing: bool = False
    skips_idle: bool = True
    idle: float = IDLE

    def after(self, seconds: float, last_event: float, next_event: float | None) -> float:
        """Return the time after `seconds` have passed. `next_event` is None if there is none."""
        time = self.time + min(seconds, LONGEST_STEP) * self.speed
        if self.skips_idle and next_event is not None and time < next_event and time >= last_event + self.idle:
            return next_event
        return time

    def faster(self, steps: int) -> float:
        """Return the speed that is `steps` further in SPEEDS."""
        nearest = min(range(len(SPEEDS)), key=lambda number: abs(SPEEDS[number] - self.speed))
        return SPEEDS[min(max(nearest + steps, 0), len(SPEEDS) - 1)]


def clock_text(seconds: float, *, like: float | None = None) -> str:
    """Return a time as `2:14` or `1:02:14`; with `like`, as wide as that time."""
    whole = max(0, int(seconds))
    longest = max(whole, 0 if like is None else int(like))
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    if longest >= 3600:
        return f"{hours:0{len(str(longest // 3600))}}:{minutes:02}:{second:02}"
    return f"{minutes:0{len(str(longest // 60))}}:{second:02}"


def time_of(text: str, duration: float) -> float | None:
    """Parse a time: `134`, `2:14`, `1:02:14`, `50%`, `-30` (before the end). Returns None for other texts."""
    text = text.strip()
    if text.endswith("%"):
        share = _number(text[:-1])
        # The end must be the end: multiplied and divided, it may come out a little before the last event.
        return None if share is None else duration * (share / 100)
    from_end = text.startswith("-")
    parts = [_number(part) for part in text.removeprefix("-").split(":")]
    if not parts or len(parts) > 3 or any(part is None for part in parts):
        return None
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + (part or 0.0)
    return duration - seconds if from_end else seconds


def _number(text: str) -> float | None:
    digits = text.replace(".", "", 1)
    return float(text) if digits.isascii() and digits.isdigit() and len(text) < 12 else None
