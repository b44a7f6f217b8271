"""Claude Code's screen: its text without the frame, and its line about a rate limit or a refused login.

The frame is the same for all agents, so it is no evidence: the banner, the input box with the hints below it, the line
of the spinner, and the user's messages. Seen with 2.1.330 (`>` is U+276F):

    > the user's words
    ● the agent's words, or an error that ended the turn
      ⎿  a result, or an error that ended the turn
    ✻ Shimmying… (51s · ↓ 872 tokens)    /    ✻ Cooked for 30s · done 9:06 AM
    ✻ API error · retrying in 17s · attempt 1/10
    ─────
    > the input box
    ─────
      ⏸ manual mode on · ? for shortcuts
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_END = 100_000
_RULER = re.compile(r"\s*[─━]{8,}")
_BANNER = re.compile(r"[\s▐▛▜▝▘▙▟█▌▀▄]*Claude Code v\d")
_DRAWN = re.compile(r"\s*[▐▛▜▝▘▙▟█▌▀▄]{2}")
_SPINNER = re.compile(r"[·✢✳✶✻✽*] +(\S.*)")
_RETRYING = re.compile(r"\bretrying in \d|\battempt \d+/\d+")
_HEAD = re.compile(r"[\u276f●⏺]|\s{0,6}⎿|[·✢✳✶✻✽*] ")
_FOLDED = re.compile(r"\s+[A-Z][a-z]+(?: for)? \d+ [a-z ,\d]+?(?: · \d+ failed)?(?: \(ctrl.*\))?")
"""Tool calls that are shown as a number, such as `Ran 2 shell commands · 2 failed`."""
_CHOICE = re.compile(r"\u276f\s+\d+\. ")
_MARKS = "●⏺⎿·✢✳✶✻✽* \xa0"
_MARKED = re.compile(rf"^\s{{0,6}}[{re.escape(_MARKS.strip())}][ \xa0]+")
_HINTS = re.compile(r"\s{30,}\S|\s{0,6}⎿\s+Tip: |\s*(?:Enter to select|Esc to cancel|Press .{1,20} again to exit)\b")
_TURNED_AWAY = re.compile(
    r"(?:[●⏺]|\s{0,6}⎿)\s+(?:"
    r"API error\b.{0,120}(?:\b(?:401|402|403|429|529)\b|overloaded|rate limit|credit|quota)"
    r"|Invalid API key\b|Credit balance (?:is )?too low\b|Please run /login\b|Not logged in\b"
    r"|OAuth token (?:revoked|has expired)"
    r"|(?:You've (?:hit|reached) your|Claude(?: AI)?|\d+-hour|Weekly|Usage|Session)(?: \w+)? limit\b"
    r")",
    re.IGNORECASE,
)


def without_chrome(screen: str) -> str:
    """Remove the frame from a screen of Claude Code; return any other screen unchanged."""
    lines = _content_lines(screen)
    if lines is None:
        return screen
    content = (line for line in lines if not _is_spinner(line) or _RETRYING.search(line))
    return "\n".join(_MARKED.sub("", line) for line in content)


def turned_away_line(screen: str) -> str | None:
    """Find the line about a rate limit or a refused login; "" for none. None: not a screen of Claude Code.

    Only the last entry on the screen counts: text about limits is no limit, and neither is one that is over.
    """
    lines = _content_lines(screen)
    if lines is None:
        return None
    heads = [line for line in lines if _HEAD.match(line)]
    if not heads:
        return ""
    last = heads[-1]
    if _is_spinner(last):
        return last.strip(_MARKS) if _RETRYING.search(last) else ""
    return last.strip(_MARKS) if _TURNED_AWAY.match(last) else ""


def _content_lines(screen: str) -> list[str] | None:
    """Return the lines above the input box, without banner and the user's messages; None for another program."""
    lines = [line.rstrip() for line in ESCAPES.sub("", screen[-_END:]).split("\n")]
    box = _box(lines)
    banner = next((at for at, line in enumerate(lines) if _BANNER.match(line)), None)
    if box is None and banner is None:
        return None
    kept: list[str] = []
    is_of_person = False
    for line in lines[:box]:
        if not line or _DRAWN.match(line) or _HINTS.match(line):
            continue
        if _HEAD.match(line):
            is_of_person = line.startswith("\u276f") and not _CHOICE.match(line)
        if not is_of_person and not _FOLDED.fullmatch(line):
            kept.append(line)
    return kept


def _box(lines: Sequence[str]) -> int | None:
    """Find the line where the input box begins: the last two rulers with a prompt after the first of them."""
    rulers = [at for at, line in enumerate(lines) if _RULER.match(line)]
    for first, second in zip(reversed(rulers[:-1]), reversed(rulers), strict=False):
        if first + 1 < second and lines[first + 1].startswith("\u276f"):
            return first
    return None


def _is_spinner(line: str) -> bool:
    return _SPINNER.match(line) is not None
