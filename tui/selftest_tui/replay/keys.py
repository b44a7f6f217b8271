"""The keys of the player's screen, and the reasons why a key is disabled. Pure.

The keys are those of asciinema's player, mpv and less.
"""

from __future__ import annotations

from selftest_core.frozen import dataclass
from selftest_tui.shared.keys import APP, PROBLEMS, Key, KeyTable, Topic, Where, shown


@dataclass(frozen=True, slots=True)
class ReplaySituation:
    """The state that reasons depend on."""

    is_open: bool = False
    is_at_start: bool = True
    is_at_end: bool = False
    can_grow: bool = False
    markers: int = 0
    hits: int = 0
    is_searched: bool = False
    is_cut: bool = False
    problems: int = 0


def recording_disabled_reason(now: ReplaySituation) -> str | None:
    """There must be a recording."""
    return None if now.is_open else "No recording is open."


def step_on_disabled_reason(now: ReplaySituation) -> str | None:
    """The end must not be reached."""
    return recording_disabled_reason(now) or ("This is the end of the recording." if now.is_at_end else None)


def step_back_disabled_reason(now: ReplaySituation) -> str | None:
    """The beginning must not be reached."""
    return recording_disabled_reason(now) or ("This is the beginning of the recording." if now.is_at_start else None)


def marker_disabled_reason(now: ReplaySituation) -> str | None:
    """There must be a marker."""
    return recording_disabled_reason(now) or (None if now.markers else "This recording has no marker.")


def match_disabled_reason(now: ReplaySituation) -> str | None:
    """There must be a match."""
    if not now.is_searched:
        return recording_disabled_reason(now) or f"There is no search: {shown('replay.search', '/')} begins one."
    return None if now.hits else "No match so far."


def live_disabled_reason(now: ReplaySituation) -> str | None:
    """The recording must still be written."""
    return recording_disabled_reason(now) or (None if now.can_grow else "This recording is finished.")


def pan_disabled_reason(now: ReplaySituation) -> str | None:
    """The terminal must be larger than the screen."""
    return recording_disabled_reason(now) or (None if now.is_cut else "All of the recorded terminal is on the screen.")


TIME, JUMP, SEE = "Time", "Go to", "See"
TENTHS = tuple(f"tenth_{number}" for number in range(10))

PLAY = (
    Key(("space",), "space", "play", "play", "play, or pause", TIME, line=1,
        disabled_reason=recording_disabled_reason),
    Key(("left",), "←", "back_little", "5 s", "5 seconds back", TIME, line=2,
        disabled_reason=recording_disabled_reason),
    Key(("right",), "→", "on_little", "5 s on", "5 seconds on", TIME, line=3,
        disabled_reason=recording_disabled_reason),
    Key(("shift+left", "pageup"), "shift+← PgUp", "back_minute", "back a minute", "a minute back", TIME,
        disabled_reason=recording_disabled_reason),
    Key(("shift+right", "pagedown"), "shift+→ PgDn", "on_minute", "a minute on", "a minute on", TIME,
        disabled_reason=recording_disabled_reason),
    Key(("comma",), ",", "step_back", "step back", "to the previous event, and pause", TIME,
        disabled_reason=step_back_disabled_reason),
    Key(("full_stop",), ".", "step_on", "step", "to the next event, and pause", TIME, line=5,
        disabled_reason=step_on_disabled_reason),
    Key(("less_than_sign",), "<", "slower", "slower", "slower, down to a quarter", TIME,
        disabled_reason=recording_disabled_reason),
    Key(("greater_than_sign",), ">", "faster", "speed", "faster, up to 16 times", TIME, line=6,
        disabled_reason=recording_disabled_reason),
    Key(("equals_sign",), "=", "plain_speed", "normal speed", "normal speed", TIME,
        disabled_reason=recording_disabled_reason),
    Key(("a",), "a", "skip_idle", "skip idle", "skip idle stretches of more than two seconds, or play all of it",
        TIME, line=11, disabled_reason=recording_disabled_reason),
)  # fmt: skip

GO = (
    *(
        Key((str(number),), str(number), TENTHS[number], f"{number * 10} %", f"to {number * 10} % of it", JUMP,
            disabled_reason=recording_disabled_reason)
        for number in range(10)
    ),
    Key(("home",), "Home", "first", "beginning", "to the beginning", JUMP, disabled_reason=recording_disabled_reason),
    Key(("end", "G"), "End G", "last", "end", "to the end", JUMP, disabled_reason=recording_disabled_reason),
    Key(("right_square_bracket",), "]", "next_marker", "marker", "to the next marker", JUMP, line=4,
        disabled_reason=marker_disabled_reason),
    Key(("left_square_bracket",), "[", "previous_marker", "previous marker", "to the previous marker", JUMP,
        disabled_reason=marker_disabled_reason),
    Key(("at",), "@", "go_to", "go to", "to a time: 134, 2:14, 1:02:14, 50%, or -30: 30 seconds before the end", JUMP,
        line=9),
    Key(("slash",), "/", "search", "search", "search for a text in all that was on the screen", JUMP, line=7),
    Key(("n",), "n", "next_hit", "next match", "to the next match", JUMP, line=8,
        disabled_reason=match_disabled_reason),
    Key(("N",), "N", "previous_hit", "previous match", "to the previous match", JUMP,
        disabled_reason=match_disabled_reason),
    Key(("L",), "L", "live", "live", "to the end, and stay there while the recording is written", JUMP, line=10,
        disabled_reason=live_disabled_reason),
)  # fmt: skip

LOOK = (
    Key(("underscore",), "_", "fit", "fit", "all of a terminal that does not fit, drawn small; and back", SEE, line=13,
        disabled_reason=pan_disabled_reason),
    Key(("h",), "h", "pan_left", "left", "see what lies further left", SEE, disabled_reason=pan_disabled_reason),
    Key(("j",), "j", "pan_down", "down", "further down", SEE, disabled_reason=pan_disabled_reason),
    Key(("k",), "k", "pan_up", "up", "further up", SEE, disabled_reason=pan_disabled_reason),
    Key(("l",), "l", "pan_right", "right", "further right", SEE, disabled_reason=pan_disabled_reason),
    Key(("semicolon",), ";", "follow_cursor", "cursor", "show the cursor again, and follow it", SEE,
        disabled_reason=pan_disabled_reason),
    Key(("plus",), "+", "zoom", "full screen", "the terminal alone, or with the lines around it", SEE, line=14),
    Key(("c",), "c", "copy", "copy", "copy the text that is shown", SEE, line=12,
        disabled_reason=recording_disabled_reason),
)  # fmt: skip

PROGRAM = (
    Key(("escape",), "esc", "prompt_cancel", "cancel", "while typing: leave the prompt", Topic.PROMPT, Where.PROMPT),
    Key(("escape",), "esc", "back", "back", "end the full screen, then the search, then back to where this was opened",
        Topic.PROGRAM, line=15),
)  # fmt: skip

REPLAY = KeyTable("Replay", PLAY + GO + LOOK + PROGRAM, (PROBLEMS, *APP))
