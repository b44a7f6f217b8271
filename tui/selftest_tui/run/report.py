"""What came back for a test, as Markdown and as lines to read. Pure: who calls reads the files.

All of it was written by an agent. It is made harmless line by line and cut to what a person reads, before it is put
into Markdown: a report of a megabyte, or of ten thousand paragraphs, costs no more than a long one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.run.cluster_view import ClusterKind
from selftest_core.run.events import Phase
from selftest_core.run.outcome.outcome import verdict
from selftest_tui.run import words as run_words
from selftest_tui.run.lines import cluster_title, state_word
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.run.cluster_view import ClusterRow
    from selftest_core.run.fold import RunRow
    from selftest_core.run.outcome.outcome import Outcome

MOST_LINES = 200
"""Lines of one text of an agent that are shown; `artifacts` tells where all of it is."""
MOST_CHARACTERS = 12_000
_MOST_ITEMS = 40
_MOST_NAMES = 200
_MOST_HOSTS = 8


def markdown_text(text: str) -> str:
    """A text of an agent as harmless Markdown: its lines, cleaned, and no more of them than are read."""
    cut = text[:MOST_CHARACTERS]
    lines = cut.replace("\r\n", "\n").split("\n")
    shown = [_line(line) for line in lines[:MOST_LINES]]
    fences = sum(line.lstrip().startswith("```") for line in shown)
    if fences % 2:
        shown.append("```")
    if len(text) > len(cut) or len(lines) > MOST_LINES:
        shown += ["", "*… more is in the file: see artifacts.*"]
    return "\n".join(shown)


def _line(line: str) -> str:
    indent = len(line) - len(line.lstrip(" \t"))
    return " " * min(len(line[:indent].expandtabs(4)), 16) + present.clean(line[indent:])


def inline(text: str) -> str:
    """A short text of an agent inside a line of Markdown: nothing in it is markup."""
    said = present.clean(text)[:400]
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]()<>#+-!|~&:." else letter for letter in said)


def outcome_markdown(row: RunRow, outcome: Outcome | None, trouble: str, conversation: str = "") -> str:
    """The report of a test. `trouble`: why it could not be read, where that is so; `conversation`: its end."""
    parts = [f"## {run_words.SYMBOLS[row.end if row.end is not None else row.phase]} {state_word(row)}"]
    why = _why(row)
    if why:
        parts.append(why)
    if trouble:
        parts.append(f"**The outcome cannot be read:** {inline(trouble)}")
    if outcome is not None:
        parts += _reported(row, outcome)
    elif not trouble:
        parts.append(_nothing_yet(row))
    if conversation.strip():
        parts += ["### The end of its conversation", _fenced(conversation)]
    return "\n\n".join(part for part in parts if part)


def _why(row: RunRow) -> str:
    if row.end is None:
        if row.attention:
            return f"**It needs you:** {inline(row.attention)}"
        return f"It is held up: {inline(row.limited)}" if row.limited else ""
    if row.text and row.end.group.is_open:
        where = f" at {present.clean(row.stage)}" if row.stage else ""
        return f"*What was seen{where}:*\n\n{_fenced(row.text)}"
    return ""


def _fenced(text: str) -> str:
    lines = [_line(line).replace("```", "'''") for line in text[-MOST_CHARACTERS:].splitlines()[-60:]]
    return "\n".join(["```", *lines, "```"])


def _nothing_yet(row: RunRow) -> str:
    if row.end is not None:
        return "No outcome came back."
    if row.phase is Phase.WAITING:
        again = f"It was tried {present.plural(row.attempt, 'time')}. " if row.attempt else ""
        return f"{again}It waits for an agent."
    return "Its agent has not written an outcome yet: p shows what it does."


def _reported(row: RunRow, outcome: Outcome) -> list[str]:
    said = verdict(outcome, row.commits > 0)
    facts = [
        f"claims **{said}**, not verified",
        f"test before: {_passing(outcome.tests_passing_before)}, after: {_passing(outcome.tests_passing_after)}",
        present.plural(row.commits, "commit"),
    ]
    if outcome.errored:
        facts.append("**says that it failed itself**")
    if outcome.importance is not None:
        reason = f": {inline(outcome.importance.reason)}" if outcome.importance.reason else ""
        facts.append(f"importance {inline(outcome.importance.level)}{reason}")
    parts = ["\n".join(f"- {fact}" for fact in facts)]
    if outcome.summary.strip():
        parts += ["### Summary", markdown_text(outcome.summary)]
    for title, blocks in (
        (
            "Changes",
            [f"**{inline(c.kind)}** {inline(c.status)}\n\n{markdown_text(c.summary)}" for c in outcome.changes],
        ),
        ("For you", [_escalated(outcome, number) for number in range(len(outcome.escalations))]),
        (
            "Test runs",
            [f"**{inline(one.name)}**\n\n{markdown_text(one.description)}" for one in outcome.test_runs],
        ),
    ):
        if blocks:
            parts += [f"### {title}", *blocks[:_MOST_ITEMS]]
            if len(blocks) > _MOST_ITEMS:
                parts.append(f"*and {len(blocks) - _MOST_ITEMS} more*")
    if outcome.more:
        names = ", ".join(inline(name) for name in list(outcome.more)[:_MOST_ITEMS])
        parts += ["### Fields that this version does not know", names]
    return parts


def _escalated(outcome: Outcome, number: int) -> str:
    one = outcome.escalations[number]
    places = [
        f"- {inline(place.path)}{f', line {place.line}' if place.line is not None else ''}"
        for place in one.locations[:_MOST_ITEMS]
    ]
    parts = [f"**{inline(one.kind)}** {inline(one.title)}", markdown_text(one.detail), "\n".join(places)]
    return "\n\n".join(part for part in parts if part.strip())


def _passing(passed: bool | None) -> str:
    return {True: "passed", False: "failed", None: "not told"}[passed]


def cluster_markdown(cluster: ClusterRow, now: float) -> str:
    """What the members of a cluster have in common."""
    count = present.plural(len(cluster.members), "test")
    parts = [f"## {run_words.CLUSTER_SIGNS[cluster.kind]} {count}: {inline(cluster_title(cluster))}"]
    facts = []
    if cluster.first_at is not None and cluster.last_at is not None:
        first, last = (f"{present.ago(now - at)} ago" for at in (cluster.first_at, cluster.last_at))
        facts.append(f"first {first}, last {last}" if first != last else f"seen {first}")
    if cluster.kind is ClusterKind.FAILED and cluster.stage:
        facts.append(f"failed at {inline(cluster.stage)}")
    if cluster.hosts:
        facts.append(
            f"on {', '.join(inline(host) for host in cluster.hosts[:8])}{' …' if len(cluster.hosts) > 8 else ''}"
        )
    if cluster.is_pausing:
        facts.append("**launching is paused for it: H resumes it**")
    if cluster.is_accepted:
        facts.append("waved through: it pauses the run no more")
    parts.append("\n".join(f"- {fact}" for fact in facts if fact))
    if cluster.evidence.strip() and present.clean(cluster.evidence).strip() != cluster_title(cluster):
        parts += ["### Evidence, of the newest", _fenced(cluster.evidence)]
    names = cluster.node_ids
    parts += ["### Tests", "\n".join(f"- {inline(name)}" for name in names[:_MOST_NAMES])]
    if len(names) > _MOST_NAMES:
        parts.append(f"*and {len(names) - _MOST_NAMES} more*")
    return "\n\n".join(part for part in parts if part)


def group_markdown(title: str, members: Sequence[RunRow]) -> str:
    """A group of tests that are in the same state."""
    names = [f"- {inline(row.planned.node_id)}" for row in members[:_MOST_NAMES]]
    more = [f"*and {len(members) - _MOST_NAMES} more*"] if len(members) > _MOST_NAMES else []
    return "\n\n".join([f"## {present.plural(len(members), 'test')} {title}", "\n".join(names), *more])
