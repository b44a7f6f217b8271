"""Where a player stands in a recording, and how time takes it on: speed, and idle stretches that are skipped. Pure."""

from __future__ import annotations

from selftest_core.frozen import dataclass

SPEEDS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0)
IDLE = 2.0
"""Seconds of a recording without anything new after which the rest of the stretch is skipped."""
LONGEST_STEP = 0.25
"""Seconds: a screen that stood still for longer does not jump when it goes on."""


@dataclass(frozen=True, slots=True)
class Playhead:
    """`time` in seconds of the recording; `idle`: after how many quiet ones it goes on to the next event."""

    time: float = 0.0
    speed: float = 1.0
    is_playing: bool = False
    skips_idle: bool = True
    idle: float = IDLE

    def after(self, seconds: float, last_event: float, next_event: float | None) -> float:
        """The time that is reached when `seconds` have passed. `next_event` None: nothing more will happen."""
        time = self.time + min(seconds, LONGEST_STEP) * self.speed
        if self.skips_idle and next_event is not None and time < next_event and time >= last_event + self.idle:
            return next_event
        return time

    def faster(self, steps: int) -> float:
        """The speed that is `steps` further in the row of speeds."""
        nearest = min(range(len(SPEEDS)), key=lambda number: abs(SPEEDS[number] - self.speed))
        return SPEEDS[min(max(nearest + steps, 0), len(SPEEDS) - 1)]


def clock_text(seconds: float, *, like: float | None = None) -> str:
    """`2:14`, `1:02:14`; with `like`, as long as that time's."""
    whole = max(0, int(seconds))
    longest = max(whole, 0 if like is None else int(like))
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    if longest >= 3600:
        return f"{hours:0{len(str(longest // 3600))}}:{minutes:02}:{second:02}"
    return f"{minutes:0{len(str(longest // 60))}}:{second:02}"


def time_of(text: str, duration: float) -> float | None:
    """The moment that somebody typed: `134`, `2:14`, `1:02:14`, `50%`, `-30` (before the end); None for no time."""
    text = text.strip()
    if text.endswith("%"):
        share = _number(text[:-1])
        return None if share is None else duration * share / 100
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
