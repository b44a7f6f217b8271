"""Texts of values. Pure. Every text of an agent passes through here on its way to the screen.

`clean` makes text harmless: no control character, no escape sequence, no invisible or direction-changing character is
left, and no markup is ever read (what leaves here is put into segments or `Content`, never parsed). Widths are
terminal cells, so wide and combining characters keep columns straight. No clock is read here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from selftest_core.agent_types.condition import Kind
from selftest_core.agent_types.condition import reason as condition_reason
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.fleet.observations import TmuxSession
from selftest_core.fleet.view import Category
from selftest_core.usage.tokens import Label

if TYPE_CHECKING:
    from selftest_core.agents import Agent
    from selftest_core.fleet.view import LaneStatus, Row
    from selftest_core.usage.tokens import Usage

ELLIPSIS = "…"
LONGEST = 4_000
"""Characters of one text that are shown: a name of a megabyte must not cost a second a frame."""

SYMBOLS = {
    Category.WORKING: "●",
    Category.NEEDS_YOU: "◆",
    Category.WAITING: "○",
    Category.DONE: "✓",
    Category.FAILED: "✗",
    Category.STOPPED: "■",
    Category.UNKNOWN: "?",
}
ENDED_SYMBOL = "□"
ENDED_MEANING = "its program has ended; the exit status is unknown, since mngr keeps none"
STALE_SYMBOL = "⌁"
STALE_MEANING = "stale: its provider does not answer; the last known state, with its age"
SESSION_SYMBOL = "▫"

WORDS = {
    Category.WORKING: "working",
    Category.NEEDS_YOU: "need you",
    Category.WAITING: "waiting",
    Category.DONE: "done",
    Category.FAILED: "failed",
    Category.STOPPED: "stopped",
    Category.UNKNOWN: "unknown",
}

MEANINGS = {
    Category.NEEDS_YOU: "needs you: it is blocked on a question, or its turn ended without a result",
    Category.FAILED: "failed",
    Category.WORKING: "working",
    Category.WAITING: "idle: waiting, but not for a person",
    Category.DONE: "done: its program has ended with exit status 0",
    Category.STOPPED: "stopped",
    Category.UNKNOWN: "in an unknown state",
}

# CSI, OSC, DCS and other string sequences, two-character escapes; then what is left of control and format characters.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_SPACES = re.compile(r"[\t\n\v\f\r\x85\xa0\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
# A base character may carry this many marks; towers of them would paint over neighbouring rows.
_MARKS = "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_TOWERS = re.compile(f"({_MARKS}{{2}}){_MARKS}+")


def clean(text: str) -> str:
    """Make one harmless line: remove escapes and invisible characters, replace line breaks and tabs by one space."""
    if text.isascii() and text.isprintable():  # not cached: most are times, which are never asked for again
        return text if len(text) <= LONGEST else text[:LONGEST]
    return _cleaned(text)


@lru_cache(maxsize=4_096)
def _cleaned(text: str) -> str:
    text = _SPACES.sub(" ", _ESCAPES.sub("", text[:LONGEST]))
    return _TOWERS.sub(r"\1", _INVISIBLE.sub("", text))


@lru_cache(maxsize=4_096)
def fit(text: str, width: int) -> str:
    """Harmless text in exactly `width` cells: padded on the right, cut at the right with an ellipsis."""
    text = clean(text)
    if width <= 0:
        return ""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    if cell_len(text) <= width:
        return text + " " * (width - cell_len(text))
    return _cut(text, width)


def _cut(text: str, width: int) -> str:
    kept = set_cell_size(text, width - 1)
    return kept + ELLIPSIS + " " * (width - 1 - cell_len(kept))


@lru_cache(maxsize=4_096)
def fit_end(text: str, width: int) -> str:
    """Fit the text like `fit`, but cut its beginning: for paths and test ids, which differ at their ends."""
    text = clean(text)
    if cell_len(text) <= width or width <= 1:
        return fit(text, width)
    kept = text
    while cell_len(kept) > width - 1:
        kept = kept[1:]
    return fit(ELLIPSIS + kept, width)


def fit_right(text: str, width: int) -> str:
    """Fit the text like `fit`, but pad it on the left: for numbers."""
    text = clean(text)
    spare = width - cell_len(text)
    return " " * spare + text if spare >= 0 else fit(text, width)


def duration(seconds: float) -> str:
    """A span in at most 6 cells: `0:09`, `12:04`, `3h07`, `2d 4h`, `41d`. Negative spans (skewed clocks) are `0:00`."""
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{second:02}"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:2}h" if days < 10 else f"{min(days, 99_999)}d"


def ago(seconds: float) -> str:
    """An age in words of one unit: `3 s`, `4 min`, `2 h`, `5 d`."""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def symbol(row: Row) -> str:
    """The symbol of an agent's state; of a stale row the symbol for stale."""
    if row.stale_since is not None:
        return STALE_SYMBOL
    return ENDED_SYMBOL if has_ended_somehow(row) else SYMBOLS[row.category]


def has_ended_somehow(row: Row) -> bool:
    """Return whether its program has ended with an unknown exit status, which must not be shown as success."""
    return row.category is Category.DONE and row.exit_status is None


def test_or_branch(agent: Agent) -> str:
    """The test it owns, without the folders before the file; else its branch."""
    if agent.test:
        path, separator, name = agent.test.partition("::")
        return path.rpartition("/")[2] + separator + name
    return agent.branch or ""


def host_name(agent: Agent, *, with_provider: bool = True) -> str:
    """`local`, or the name of the host and its provider: names come first, they tell two hosts apart."""
    if agent.host.provider == LOCAL_PROVIDER:
        return LOCAL_PROVIDER
    if not agent.host.name or agent.host.name == agent.host.provider:
        return agent.host.provider
    return f"{agent.host.name} {agent.host.provider}" if with_provider else agent.host.name


def running_for(row: Row, now: float) -> str:
    """The time that it has run, or ran; empty if unknown, and for a stopped agent."""
    seconds = seconds_running(row, now)
    return "" if seconds is None else duration(seconds)


def seconds_running(row: Row, now: float) -> float | None:
    """The seconds that it has run, or ran; None if unknown, and for a stopped agent."""
    began = row.agent.started_at if row.agent.started_at is not None else row.agent.created_at
    match row.category:
        case Category.STOPPED | Category.UNKNOWN:
            return None
        case Category.DONE | Category.FAILED:
            until = row.idle_since
        case _:
            until = now
    if row.stale_since is not None:
        until = row.stale_since
    return None if began is None or until is None else until - began


def idle_for(row: Row, now: float) -> str:
    """The time since it last did something; empty while it works, and where unknown."""
    seconds = seconds_idle(row, now)
    return "" if seconds is None else duration(seconds)


def seconds_idle(row: Row, now: float) -> float | None:
    """The seconds since it last did something; None while it works, and where unknown."""
    if row.idle_since is None or row.category is Category.WORKING or row.stale_since is not None:
        return None
    return now - row.idle_since


ENDED = (Category.DONE, Category.FAILED, Category.STOPPED)
"""The categories of agents whose program has ended."""


def reason(row: Row, now: float) -> str:
    """The reason why it needs the user, or that it retries or compacts; of a stale row its age first."""
    says = row.attention or ""
    if row.outcome and row.category in ENDED:
        says = row.outcome
    if not says and row.condition is not None and row.condition.kind in (Kind.RETRYING, Kind.COMPACTING):
        says = condition_reason(row.condition)
    if row.stale_since is None:
        return says
    age = f"as of {ago(now - row.stale_since)} ago"
    return f"{age} · {says}" if says else age


def list_age(lanes: tuple[LaneStatus, ...], now: float) -> str:
    """The age of mngr's newest answer; empty before the first."""
    answers = [lane.answered_at for lane in lanes if lane.lane != "probe" and lane.answered_at is not None]
    return f"list {ago(now - max(answers))} ago" if answers else ""


def line_name(line: Row | TmuxSession) -> str:
    """The name of an agent or a session; its id where the name has no visible character."""
    name, identity = (
        (line.ref.name, line.session_id) if isinstance(line, TmuxSession) else (line.agent.name, line.agent.id)
    )
    return clean(name).strip() or clean(identity)


def tokens(count: int) -> str:
    """A number of tokens in at most 5 cells: `812`, `12.5k`, `340k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    for size, unit in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G")):
        shown = count / size
        if shown < 99.95:
            return f"{shown:.1f}{unit}"
        if shown < 999.5:
            return f"{shown:.0f}{unit}"
    return "many"


def cost(usage: Usage | None) -> str:
    """Dollars and their source: `$0.29` metered, `~$0.29` imputed, `$0.29 est` estimated; empty if unknown."""
    if usage is None or usage.usd is None:
        return ""
    digits = 2 if usage.usd >= 0.01 or usage.usd == 0 else 4
    amount = f"${usage.usd:,.{digits}f}"
    match usage.label:
        case Label.METERED:
            return amount
        case Label.IMPUTED:
            return f"~{amount}"
        case Label.ESTIMATED:
            return f"{amount} est"


def used(usage: Usage | None) -> str:
    """Usage in one line: dollars and their source, tokens by kind, model; empty if unknown."""
    if usage is None:
        return ""
    amounts = (
        f"{tokens(usage.input)} input, {tokens(usage.cached)} cached, {tokens(usage.cache_write)} cache write, "
        f"{tokens(usage.output)} output tokens"
    )
    money = f"{cost(replace(usage, label=Label.METERED))} {usage.label}" if usage.usd is not None else "no known price"
    return " · ".join(part for part in (money, amounts if usage.tokens else "", clean(usage.model)) if part)


def plural(count: int, noun: str) -> str:
    """`1 agent`, `3 agents`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`, `11th`."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
