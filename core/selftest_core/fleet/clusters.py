"""Clusters: failures grouped by cause, found by a signature of their text.

Forty agents that fail for one reason report it with forty ports, temporary folders and ids. So the signature of a
failure is its most significant line without these, and failures of one stage with one signature are a cluster. Words
are kept: two lines that differ in a word are two failures.

Any text may come in, such as screens full of escapes and megabytes of log: only its end is read, and every pattern here
takes linear time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.agent_types.claude_screen import ESCAPES, turned_away_line, without_chrome
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 240
"""Characters of a signature."""

# Lines of the shell around a program: the one that started the agent, and the prompt after its end.
_STARTED = re.compile(r"^.*[#$%>] \. \S*/launch_agent\.sh\s*$")
_PROMPT = re.compile(r"^(?:\([\w.-]+\) )?(?:\[?[\w.-]+@[\w.-]+[: ][^#$%>]*)?[#$%>\u276f]\s*$")
# The last line of a run of pytest; an error after it is none of the test.
_SUMMED = re.compile(r"\b\d+ (?:passed|failed|errors?|skipped|deselected)\b.* in \d")

_END = 100_000
_LINE = 1_000
_QUIET_LINES = 3
"""Last lines that represent a text without an error, such as the screen of an agent that hangs."""

_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_PICTURES = re.compile(r"[\u2500-\u259f\u25a0-\u25ff\u2800-\u28ff\u2190-\u21ff]+")

# The most significant line: pytest's own marks first, then a line that begins with the name of an error, then any line
# that mentions one.
_PYTEST = re.compile(r"E {2,}\S")
_PYTEST_GOES_ON = re.compile(r"E(?: {2,}|\s*$)")
_LONGEST_BLOCK = 50
"""Lines of pytest's own marks that are looked at."""
_NAMED = re.compile(r"(?:[\w.]+\.)?[A-Za-z_]\w*(?:Error|Exception|Refused|Timeout|Expired|Interrupt|Exit)\b")
_SPOKEN = re.compile(
    r"\b(?:errors?|fatal|failed|failure|refused|denied|panic|traceback|not found|no such|cannot|could not|unable"
    r"|timed out|killed|rate limit|overloaded|limit reached|no space)\b",
    re.IGNORECASE,
)

_LIMITED = re.compile(
    r"\brate[ _-]?limit(?!ers?\b|ing)|\busage limit|\blimit (?:was |is |has been )?(?:reached|exceeded)"
    r"|\boverloaded|\btoo many requests\b|\bretrying in \d"
    r"|\bquota (?:is |was |has been )?(?:reached|exceeded|exhausted)\b"
    r"|\bcredit balance is too low\b|\binvalid (?:x-)?api[ -]key\b|\b(?:429|529)\b",
    re.IGNORECASE,
)
# Words that may come before it: a line with another beginning is only text about limits.
_OF_ERRORS = re.compile(
    r"[\w.]*(?:error|exception)|api|https?(?:/[\d.]+)?|status|code|fatal|warning|request|rejected|failed|\d+"
    r"|you|you've|your|have|has|been|hit|reached|exceeded",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:https?(?:/[\d.]+)?|status|code|\w*error)\W*$", re.IGNORECASE)
_COLLECTING = re.compile(
    r"\berrors? collecting\b|\berrors? (?:during|at|in) (?:test )?collection\b|\bwhile importing test module\b"
    r"|\bcould not be collected\b|^ERROR: (?:not found|file or directory not found|found no collectors)\b"
    r"|\bno tests ran\b|\bcollected 0 items\b|^collecting \.\.\.\s*$",
    re.IGNORECASE,
)
_TESTING = re.compile(r"^E {2,}\S|^=+ FAILURES =+|^(?:FAILED|ERROR) \S+::|\b\d+ failed\b")
_SCREEN_LINES = 20
"""Lines further up are old."""

_WORD = r"[\w.+@%~-]"
_PLACE = r"(?:::[\w.\[\]-]+)*(?::\d+)*"
_STRIPPED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s'\"<>)\]]+"), "<address>"),
    (re.compile(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"(['\"`])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[^'\"`\n]*\1"), r"\1<path>\1"),
    (re.compile(rf"\b[A-Za-z]:\\[\w.\\+-]+{_PLACE}"), "<path>"),
    (re.compile(rf"(?<![\w<])(?:~|\.{{1,2}})?(?:/{_WORD}+)+/?{_PLACE}"), "<path>"),
    (re.compile(rf"(?<![\w/])[\w.+-]+(?:/{_WORD}+)*/{_WORD}*\.[A-Za-z]{{1,5}}\b{_PLACE}"), "<path>"),
    (re.compile(r"\b[\w-]+\.[a-z]{1,4}(?=:\d)(?:::[\w.\[\]-]+)*(?::\d+)+|\b[\w-]+\.py(?:::[\w.\[\]-]+)+"), "<path>"),
    (
        re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?"),
        "<time>",
    ),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?::\d+)?\b"), "<address>"),
    (re.compile(r"\[[0-9A-Fa-f:]*::?[0-9A-Fa-f:]*\](?::\d+)?"), "<address>"),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b[A-Za-z][\w-]*(?:\.[\w-]+)*:\d{2,5}\b"), "<address>"),
    (re.compile(r"(?<![\w:>]):\d{2,5}\b"), "<address>"),
    (re.compile(r"\b0[xX][0-9A-Fa-f]+\b"), "<id>"),
    (re.compile(r"(?i)(?<![A-Za-z0-9])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{4,}(?![A-Za-z0-9])"), "<id>"),
    (re.compile(r"\btmp[a-z0-9_]{6,10}\b"), "<id>"),
    (re.compile(r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?"), "<n>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<n>"),
    (re.compile(r"<n>(?:(?:, ?|; ?| |/|x|-)<n>)+"), "<n>"),
    (re.compile(r"([=\-_~*#.+!])\1{2,}"), r"\1"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed or blocked test. `stage`: such as `launch`; `text`: its evidence, unchanged.

    `is_signature`: the text is already the signature of the evidence.
    """

    test: str
    stage: str
    text: str
    is_signature: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failures with one cause. `signature` is empty for failures without text. `tests`: each once, in their order."""

    signature: str
    stage: str
    tests: tuple[str, ...]


def signature(text: str) -> str:
    """Return the most significant line of a text, without escapes, numbers, ids, paths, addresses and times.

    For a text without an error (a screen) its last lines are joined.
    """
    joined = " / ".join(stripped for line in _significant(_lines(text)) if (stripped := _strip(line)))
    return joined if len(joined) <= LONGEST else joined[: LONGEST - 1].rstrip() + "\u2026"


def significant(text: str) -> str:
    """Return the lines that the signature of a text is made of, with their numbers, ids and paths, as one line."""
    return " / ".join(line.strip() for line in _significant(_lines(text)) if line.strip())


def without_shell(screen: str) -> str:
    """Return the text of a program's screen: without escapes, its frame, and the lines of the shell around it."""
    lines = _lines(without_chrome(screen))
    begin = next((at + 1 for at in range(len(lines) - 1, -1, -1) if _STARTED.match(lines[at])), 0)
    while len(lines) > begin and _PROMPT.match(lines[-1]):
        lines.pop()
    return "\n".join(lines[begin:])


def limit_line(screen: str) -> str:
    """Find the last line of a screen about a rate limit, without escapes; "" for none."""
    known = turned_away_line(screen)
    if known is not None:
        return known[:LONGEST]
    lines = _lines(screen)[-_SCREEN_LINES:]
    return next((line.strip()[:LONGEST] for line in reversed(lines) if _is_about_limit(line)), "")


def _is_about_limit(line: str) -> bool:
    found = _LIMITED.search(line)
    if found is None:
        return False
    before = re.sub(r"[\w.]+\.$", "", line[: found.start()])
    if found[0].isdecimal() and not _NUMBERED.search(before):
        return False
    return all(_OF_ERRORS.fullmatch(word) for word in re.findall(r"[\w'./]+", before))


def where_failed(text: str) -> str:
    """Return the stage of a failure by its output: `collection`, `test`, or `work` if that is not clear."""
    lines = _lines(text)
    if any(_COLLECTING.search(line) for line in lines):
        return "collection"
    return "test" if any(_TESTING.search(line) for line in lines) else "work"


def cluster(failures: Iterable[Failure]) -> tuple[Cluster, ...]:
    """Group failures by stage and signature: the largest first, then in the order of their first failure.

    A failure without an equal is a cluster of one, so every failed test is in exactly one cluster of its stage.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for failure in failures:
        words = failure.text if failure.is_signature else signature(failure.text)
        found.setdefault((failure.stage, words), {})[failure.test] = None
    made = [Cluster(words, stage, tuple(tests)) for (stage, words), tests in found.items()]
    return tuple(sorted(made, key=lambda one: -len(one.tests)))


def _lines(text: str) -> list[str]:
    """Return the last lines as displayed: without escapes, and overwritten lines in their last version."""
    plain = ESCAPES.sub("", text[-_END:])
    seen = (line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n"))
    lines = (_PICTURES.sub(" ", _UNSEEN.sub("", line[:_LINE])).rstrip() for line in seen)
    return [line for line in lines if line.strip()]


def _significant(lines: list[str]) -> list[str]:
    marked = [number for number, line in enumerate(lines) if _PYTEST.match(line)]
    named = [number for number, line in enumerate(lines) if _NAMED.match(line.strip())]
    summed = [number for number, line in enumerate(lines) if _SUMMED.search(line)]
    if marked and not (named and summed and marked[-1] < summed[-1] < named[-1]):
        # The first line of the last block names the failure; the others explain it.
        first = marked[-1]
        while first > 0 and _PYTEST_GOES_ON.match(lines[first - 1]):
            first -= 1
        first = next((number for number in range(first, marked[-1]) if number in marked[-_LONGEST_BLOCK:]), marked[-1])
        return [lines[first][1:].strip()]
    if named:
        return [lines[named[-1]]]
    for line in reversed(lines):
        if _SPOKEN.search(line):
            return [line]
    return lines[-_QUIET_LINES:]


def _strip(line: str) -> str:
    for pattern, instead in _STRIPPED:
        line = pattern.sub(instead, line)
    return line.strip(" \t|")
