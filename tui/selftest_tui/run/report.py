"""Texts of a run's right pane: the outcome as Markdown, the details, the list of collected files. Pure.

Agents write most of it. Each line is sanitized, and the text is cut to a readable length before it is put into
Markdown, so a huge report takes no longer than a long one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.run.cluster_view import ClusterKind
from selftest_core.run.events import Phase
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.outcome.outcome import reported_end
from selftest_tui.fleet.pane.details import Fact, when
from selftest_tui.run import words as run_words
from selftest_tui.run.lines import cluster_title, how_of, state_word
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from selftest_core.fleet.view import Row
    from selftest_core.run.cluster_view import ClusterRow
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_tui.run.collected import Collected

MOST_LINES = 200
"""Lines of one text of an agent that are shown; the tab `artifacts` tells where the whole text is."""
MOST_CHARACTERS = 12_000
_MOST_ITEMS = 40
_MOST_NAMES = 200
_MOST_HOSTS = 8
_MOST_LEVELS = 12
_MOST_BLOCK_LINES = 20


def markdown_text(text: str) -> str:
    """Return a text of an agent as harmless Markdown, cut to MOST_LINES and MOST_CHARACTERS."""
    cut = text[:MOST_CHARACTERS]
    lines = cut.replace("\r\n", "\n").split("\n")
    shown = [_line(line) for line in lines[:MOST_LINES]]
    fences = sum(line.lstrip().startswith("```") for line in shown)
    if fences % 2:
        shown.append("```")
    if len(text) > len(cut) or len(lines) > MOST_LINES:
        shown += ["", "*… cut here: the tab artifacts tells where the whole file is.*"]
    return "\n".join(shown)


def _line(line: str) -> str:
    indent = len(line) - len(line.lstrip(" \t"))
    return " " * min(len(line[:indent].expandtabs(4)), 16) + present.clean(line[indent:])


def inline(text: str) -> str:
    """Return a short text of an agent for a line of Markdown, with its markup escaped."""
    said = present.clean(text)[:400]
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]()<>#+-!|~&:." else letter for letter in said)


def outcome_markdown(row: RunRow, outcome: Outcome | None, trouble: str, conversation: str = "") -> str:
    """Return the report of a test. `trouble`: why the outcome cannot be read; `conversation`: its last lines."""
    parts = [f"## {run_words.SYMBOLS[row.end if row.end is not None else row.phase]} {state_word(row)}"]
    why = _reason(row)
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


def _reason(row: RunRow) -> str:
    if row.end is None:
        if row.attention:
            return f"**It needs you:** {inline(row.attention)}"
        return f"**Rate limited:** {inline(row.limited)}" if row.limited else ""
    if row.text and row.end.group.is_open:
        when_failed = f" {run_words.stage_words(row.stage)}" if row.stage else ""
        return f"*Evidence{when_failed}:*\n\n{_fenced(row.text)}"
    return ""


def _fenced(text: str) -> str:
    lines = [_line(line).replace("```", "'''") for line in text[-MOST_CHARACTERS:].splitlines()[-60:]]
    return "\n".join(["```", *lines, "```"])


def _nothing_yet(row: RunRow) -> str:
    if row.end is not None:
        return "The agent left no outcome."
    if row.phase is Phase.WAITING:
        again = f"Tried {present.plural(row.attempt, 'time')} so far. " if row.attempt else ""
        if row.answer is not None:
            who = "its agent" if row.continues is not None else "a new agent"
            return f"{again}It was answered: {who} goes on as soon as it can be launched."
        return f"{again}Its agent is not launched yet."
    return f"Its agent has not written an outcome yet: {shown('run.preview', 'p')} shows its terminal."


def _reported(row: RunRow, outcome: Outcome) -> list[str]:
    said = reported_end(outcome, row.commits > 0)
    facts = [
        f"claims **{said}**, {_verified(row)}",
        f"test before: {_passing(outcome.tests_passing_before)}, after: {_passing(outcome.tests_passing_after)}",
        present.plural(row.commits, "commit"),
    ]
    if outcome.errored:
        facts.append("**the agent reports an error of its own**")
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
        parts += ["### Unknown fields", names]
    return parts


_HOW_VERIFIED: dict[str, str] = {
    ClaimResult.PASSED: "verified: its test passes on its tree",
    ClaimResult.FAILED: "**verified: its test fails on its own tree**",
    ClaimResult.FLAKY: "verified: its test is flaky on its tree",
}


def _verified(row: RunRow) -> str:
    if row.is_verifying:
        return "being verified"
    if not row.verified:
        return "not verified"
    how = _HOW_VERIFIED.get(row.verified, "cannot be verified")
    return f"{how} ({inline(row.verified_reason)})" if row.verified_reason else how


def _escalated(outcome: Outcome, number: int) -> str:
    one = outcome.escalations[number]
    places = [
        f"- {inline(place.path)}{f', line {place.line}' if place.line is not None else ''}"
        for place in one.locations[:_MOST_ITEMS]
    ]
    parts = [f"**{inline(one.kind)}** {inline(one.title)}", markdown_text(one.detail), "\n".join(places)]
    return "\n\n".join(part for part in parts if part.strip())


def _passing(passed: bool | None) -> str:
    return {True: "passed", False: "failed", None: "not reported"}[passed]


def cluster_markdown(cluster: ClusterRow, now: float, noun: str) -> str:
    """Return what the tests of a cluster have in common. `noun`: what its agents own (`RunPlan.noun`)."""
    count = present.plural(len(cluster.members), noun)
    parts = [f"## {run_words.CLUSTER_SIGNS[cluster.kind]} {count}: {inline(cluster_title(cluster))}"]
    facts = []
    if cluster.first_at is not None and cluster.last_at is not None:
        first, last = (f"{present.ago(now - at)} ago" for at in (cluster.first_at, cluster.last_at))
        facts.append(f"first {first}, last {last}" if first != last else f"seen {first}")
    if cluster.kind is ClusterKind.FAILED and cluster.stage:
        facts.append(f"failed {inline(run_words.stage_words(cluster.stage))}")
    if cluster.hosts:
        more = " …" if len(cluster.hosts) > _MOST_HOSTS else ""
        facts.append(f"on {', '.join(inline(host) for host in cluster.hosts[:_MOST_HOSTS])}{more}")
    if cluster.is_pausing:
        facts.append(f"**launching is paused for this cause: {shown('run.pause', 'H')} resumes it**")
    if cluster.is_accepted:
        facts.append("accepted: it does not pause the run any more")
    parts.append("\n".join(f"- {fact}" for fact in facts if fact))
    if cluster.evidence.strip() and present.clean(cluster.evidence).strip() != cluster_title(cluster):
        parts += ["### Evidence from the newest failure", _fenced(cluster.evidence)]
    names = cluster.node_ids
    parts += [f"### {noun.capitalize()}s", "\n".join(f"- {inline(name)}" for name in names[:_MOST_NAMES])]
    if len(names) > _MOST_NAMES:
        parts.append(f"*and {len(names) - _MOST_NAMES} more*")
    return "\n\n".join(part for part in parts if part)


def group_markdown(title: str, members: Sequence[RunRow], noun: str) -> str:
    """Return the list of tests that are in the same state; `noun` as for a cluster."""
    names = [f"- {inline(row.planned.node_id)}" for row in members[:_MOST_NAMES]]
    more = [f"*and {len(members) - _MOST_NAMES} more*"] if len(members) > _MOST_NAMES else []
    return "\n\n".join([f"## {present.plural(len(members), noun)} {title}", "\n".join(names), *more])


# details


def test_facts(row: RunRow, agent: Row | None, run: Run, folder: str, now: float) -> tuple[Fact, ...]:
    """Return the known facts of a test; `folder` holds its collected files. Unknown facts are left out."""
    return tuple(fact for fact in _facts(row, agent, run, folder, now) if fact.value)


test_facts.__test__ = False  # type: ignore[attr-defined]  # no test of ours, whatever a collector thinks of its name


def _facts(row: RunRow, agent: Row | None, run: Run, folder: str, now: float) -> Iterator[Fact]:
    yield Fact(run.plan.noun, row.planned.node_id)
    yield Fact("state", f"{run_words.SYMBOLS[how_of(row)]} {state_word(row)}")
    yield Fact("needs you", row.attention if row.end is None else "")
    yield Fact("rate limit", row.limited if row.end is None else "")
    yield Fact("failed", run_words.stage_words(row.stage) if row.end is not None and row.end.is_failure else "")
    yield Fact("message", row.text.strip().rpartition("\n")[2])
    yield Fact("not stopped", row.says)
    yield Fact("last error", row.missed if row.end is None else "")
    yield Fact("attempt", str(row.attempt or ""))
    member = row.member
    if member is not None:
        yield Fact("agent", member.name)
        yield Fact("agent id", member.agent_id)
        yield Fact("host", member.host_id)
        yield Fact("provider", member.provider)
    yield Fact("now", "" if agent is None else f"{present.symbol(agent)} {agent.category.value}")
    yield Fact("session", "" if agent is None or agent.session is None else agent.session.name)
    yield Fact("launched", when(row.launching_at, now))
    yield Fact("setup", "" if row.setup is None else present.duration(row.setup))
    yield Fact("prompted", when(row.launched_at, now))
    yield Fact("ended", when(row.ended_at, now))
    if row.launching_at is not None and row.ended_at is not None:
        yield Fact("took", present.duration(row.ended_at - row.launching_at))
    elif row.launched_at is not None:
        left = run.plan.timeout - (now - row.launched_at)
        yield Fact("time left", present.duration(left) if left > 0 else "none: timed out")
    yield Fact("reminded", "once, to write its outcome" if row.is_reminded else "")
    live = agent.usage if agent is not None and row.end is None else None
    yield Fact("used", present.used(live or row.usage))
    yield Fact("commits", f"{row.commits}, newest {row.tip[:12]}" if row.commits else "")
    yield Fact("collected", folder)
    yield Fact("answer", "" if row.answer is None else present.clean(row.answer.text)[:200])
    for retry in row.retries:
        yield Fact(f"attempt {retry.member.attempt}", f"{retry.reason}: {present.clean(retry.text)[:200]}")
        yield Fact("", f"{retry.member.name}  {retry.member.agent_id}")
        yield Fact("", present.used(retry.usage))
    label = "cites"
    for block in row.planned.blocks:
        for line in block.splitlines()[:_MOST_BLOCK_LINES]:
            yield Fact(label, line)
            label = ""
        label = "and"
    yield from pace_facts(run, now)


def pace_facts(run: Run, now: float) -> tuple[Fact, ...]:
    """Return the number of agents at a time and its newest changes; none where it never changed."""
    if len(run.curve) < 2:
        return ()
    newest = run.curve[: -_MOST_LEVELS - 1 : -1]
    return (
        Fact("at once", f"{run.at_once} of {run.plan.max_running}"),
        *(Fact("", f"{one.limit}: {one.reason or 'at first'} ({present.ago(now - one.at)} ago)") for one in newest),
    )


def cluster_facts(cluster: ClusterRow, now: float) -> tuple[Fact, ...]:
    """Return the known facts of a cluster."""
    facts = [
        Fact("cluster", cluster.kind.value),
        Fact("signature", cluster.signature),
        Fact("failed", run_words.stage_words(cluster.stage)),
        Fact("tests", str(len(cluster.members))),
        Fact("first", when(cluster.first_at, now)),
        Fact("last", when(cluster.last_at, now)),
        *(Fact("host" if number == 0 else "", host) for number, host in enumerate(cluster.hosts[:50])),
        Fact("paused", "launching is paused for this cause" if cluster.is_pausing else ""),
        Fact("accepted", "it does not pause the run any more" if cluster.is_accepted else ""),
    ]
    return tuple(fact for fact in facts if fact.value)


def files_text(found: Collected | None) -> str:
    """Return the collected files, one a line, behind their sizes; None if the cursor is on no test."""
    if found is None:
        return "This is a group of tests: move to one of them to see its files."
    if found.folder is None:
        return "Nothing is collected yet."
    lines = [f"{size:>13,}  {present.clean(path)}" for path, size in found.files]
    head = [
        f"{present.plural(len(found.files), 'file')}{' at least' if found.is_cut else ''} in",
        str(found.folder),
        "",
    ]
    return "\n".join([*head, f"{'bytes':>13}  file", *lines, "", f"{shown('run.shell', '!')} opens a shell there."])
