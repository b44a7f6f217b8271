"""Every fact of a test of a run, for the details; and the list of what came back. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.fleet.pane.details import Fact, when
from selftest_tui.run import words as run_words
from selftest_tui.run.lines import how_of, state_word
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.fleet.view import Row
    from selftest_core.run.cluster_view import ClusterRow
    from selftest_core.run.fold import Run, RunRow
    from selftest_tui.run.files import CameBack


def test_facts(row: RunRow, agent: Row | None, run: Run, folder: str, now: float) -> tuple[Fact, ...]:
    """All that is known of a test; what is not known is left out."""
    return tuple(fact for fact in _facts(row, agent, run, folder, now) if fact.value)


test_facts.__test__ = False  # type: ignore[attr-defined]  # no test of ours, whatever a collector thinks of its name


def _facts(row: RunRow, agent: Row | None, run: Run, folder: str, now: float) -> Iterator[Fact]:
    yield Fact("test", row.planned.node_id)
    yield Fact("state", f"{run_words.SYMBOLS[how_of(row)]} {state_word(row)}")
    yield Fact("needs you", row.attention if row.end is None else "")
    yield Fact("held up", row.limited if row.end is None else "")
    yield Fact("failed at", row.stage)
    yield Fact("says", row.text.strip().rpartition("\n")[2])
    yield Fact("not stopped", row.says)
    yield Fact("last fetch", row.missed if row.end is None else "")
    yield Fact("attempt", str(row.attempt or ""))
    member = row.member
    if member is not None:
        yield Fact("agent", member.name)
        yield Fact("agent id", member.agent_id)
        yield Fact("host", member.host_id)
        yield Fact("provider", member.provider)
    yield Fact("now", "" if agent is None else f"{present.symbol(agent)} {agent.category.value}")
    yield Fact("session", "" if agent is None or agent.session is None else agent.session.name)
    yield Fact("made", when(row.launching_at, now))
    yield Fact("setup", "" if row.setup is None else present.duration(row.setup))
    yield Fact("began", when(row.launched_at, now))
    yield Fact("ended", when(row.ended_at, now))
    if row.launching_at is not None and row.ended_at is not None:
        yield Fact("took", present.duration(row.ended_at - row.launching_at))
    elif row.launched_at is not None:
        left = run.plan.timeout - (now - row.launched_at)
        yield Fact("time left", present.duration(left) if left > 0 else "none: its time is up")
    yield Fact("reminded", "once, to write its outcome" if row.is_reminded else "")
    live = agent.usage if agent is not None and row.end is None else None
    yield Fact("used", present.used(live or row.usage))
    yield Fact("commits", f"{row.commits}, the last is {row.tip[:12]}" if row.commits else "")
    yield Fact("came back", folder)
    for retry in row.retries:
        yield Fact(f"try {retry.member.attempt}", f"{retry.reason}: {present.clean(retry.text)[:200]}")
        yield Fact("", f"{retry.member.name}  {retry.member.agent_id}")
        yield Fact("", present.used(retry.usage))
    label = "cites"
    for block in row.planned.blocks:
        for line in block.splitlines()[:20]:
            yield Fact(label, line)
            label = ""
        label = "and"


def cluster_facts(cluster: ClusterRow, now: float) -> tuple[Fact, ...]:
    """All that is known of a cluster."""
    facts = [
        Fact("cluster", cluster.kind.value),
        Fact("signature", cluster.signature),
        Fact("stage", cluster.stage),
        Fact("tests", str(len(cluster.members))),
        Fact("first", when(cluster.first_at, now)),
        Fact("last", when(cluster.last_at, now)),
        *(Fact("host" if number == 0 else "", host) for number, host in enumerate(cluster.hosts[:50])),
        Fact("pauses", "launching rests for it now" if cluster.is_pausing else ""),
        Fact("accepted", "it was waved through" if cluster.is_accepted else ""),
    ]
    return tuple(fact for fact in facts if fact.value)


def files_text(back: CameBack | None) -> str:
    """The files that came back, one a line, with their sizes on the right of a column."""
    if back is None:
        return "Only tests have files: move to one."
    if back.folder is None:
        return "Nothing has come back yet."
    lines = [f"{size:>13,}  {present.clean(path)}" for path, size in back.files]
    head = [f"{present.plural(len(back.files), 'file')}{' at least' if back.is_cut else ''} in", str(back.folder), ""]
    return "\n".join([*head, f"{'bytes':>13}  file", *lines, "", "! opens a shell there."])
