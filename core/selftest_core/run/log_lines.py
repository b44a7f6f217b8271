"""Log lines of a run: one sentence for each line of the journal, for stderr and the conductor's pane.

Pure. Text of agents and tests is untrusted, and is reduced to one printable line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selftest_core.run.events import Event, Phase
from selftest_core.run.fold import claim_counts, end_of
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.plan.estimates import dollars
from selftest_core.run.plan.offer import growth_lines
from selftest_core.run.spending import spending

if TYPE_CHECKING:
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run, RunRow

_LONGEST = 160
_VERIFIED: dict[str, str] = {
    ClaimResult.PASSED: "is verified: it passes on its agent's tree",
    ClaimResult.FAILED: "was claimed green, and fails on its agent's tree",
    ClaimResult.FLAKY: "was claimed green, and is flaky on its agent's tree",
    ClaimResult.UNKNOWN: "was claimed green, and cannot be verified",
}
_GATE: dict[str, str] = {
    ClaimResult.PASSED: "was checked, and can be used",
    ClaimResult.FAILED: "was checked, and cannot be used",
}


def log_line(run: Run, entry: Entry) -> str:
    """Describe a line of the journal, `run` being the run after it; empty for lines that are not logged."""
    try:
        event = Event(entry.event)
    except ValueError:
        return ""
    row = run.rows.get(_text(entry, "agent"))
    said = _of_the_run(run, event, entry) if row is None else _of_a_test(run, event, entry, row)
    return plain(said)


def summary_lines(run: Run) -> list[str]:
    """Summarize a run: a line of counts, then one line for each end that occurs."""
    ends = run.ends()
    open_ = sum(row.phase is not Phase.ENDED for row in run.rows.values())
    head = f"run {run.plan.run}: {_plural(len(run.rows), run.plan.noun)}"
    lines = [f"{head}, {open_} not ended yet" if open_ else head]
    lines += [f"  {count:>5}  {end.replace('_', ' ')}" for end, count in ends.items() if count]
    claims = claim_counts(run)
    if any(claims.values()):
        told = ", ".join(f"{count} {result}" for result, count in claims.items() if count)
        lines.append(f"claims verified when they arrived: {told}")
    suite = run.plan.suite
    if suite is not None and suite.resting:
        lines.append(f"{_plural(len(suite.resting), 'further test')} had no agent: at rest")
    if suite is not None and (suite.grown or suite.deleted):
        lines.append(growth_lines(suite)[0])
    if len(run.curve) > 1:
        limits = [level.limit for level in run.curve]
        lines.append(f"at once: {limits[0]} at first, {min(limits)} to {max(limits)}, {limits[-1]} at the end")
    spent = spending(run)
    if spent.usage is not None:
        money = ", ".join(f"{dollars(usd)} {label}" for label, usd in spent.by_label.items())
        lines.append(f"used {money or 'no known price'}, {spent.usage.tokens:,} tokens")
    return lines


def plain(text: str, longest: int = _LONGEST) -> str:
    """Reduce a text to one line of printable characters."""
    line = " ".join(text[: 4 * longest].split())
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _of_the_run(run: Run, event: Event, entry: Entry) -> str:
    match event:
        case Event.CONDUCTING:
            begun = "started" if run.conductors == 1 else f"resumed (conductor {run.conductors})"
            return f"run {run.plan.run} of {_plural(len(run.rows), run.plan.noun)} {begun}"
        case Event.PAUSED:
            return f"paused: {_text(entry, 'reason')}"
        case Event.RESUMED:
            return "resumed"
        case Event.ADAPTED:
            return f"{run.at_once} at once from now on: {_text(entry, 'reason')}"
        case Event.SLOWED if _text(entry, "reason"):
            return f"launching slowed down: {_text(entry, 'reason')}"
        case Event.SLOWED:
            return "launches at normal speed again"
        case Event.CALLED if _text(entry, "says"):
            return f"notification failed: {_text(entry, 'says')}"
        case Event.DECLINED:
            about = run.rows.get(_text(entry, "test"))
            whom = f" {about.planned.node_id}" if about is not None else ""
            return f"cannot {_text(entry, 'wish').replace('_', ' ')}{whom}: {_text(entry, 'says')}"
        case Event.SMOKING:
            return f"smoke agent ({_text(entry, 'type')}) starts on {_text(entry, 'place')}"
        case Event.SMOKED if entry.fields.get("ok") is True:
            return f"smoke agent on {_text(entry, 'place')} succeeded ({entry.fields.get('seconds'):.0f} s)"
        case Event.SMOKED:
            return f"smoke agent on {_text(entry, 'place')} failed: {_text(entry, 'says')}"
        case Event.ERROR:
            about = run.rows.get(_text(entry, "test"))
            whom = f" {about.planned.node_id}" if about is not None else ""
            return f"unexpected error while {_text(entry, 'step')}{whom}: {_text(entry, 'says')}"
        case Event.HALTED:
            return "stopping: no more launches, and running agents are stopped"
        case Event.LEFT:
            return f"conductor ended: {_text(entry, 'why')}"
        case _:
            return ""


def _of_a_test(run: Run, event: Event, entry: Entry, row: RunRow) -> str:
    test = row.planned.node_id
    match event:
        case Event.MADE if _text(entry, "says"):
            return f"{test} has an agent, but mngr reported: {_text(entry, 'says')}"
        case Event.PROMPTING if _text(entry, "says"):
            return f"{test} did not receive its prompt, sending it again: {_text(entry, 'says')}"
        case Event.LAUNCHED if _text(entry, "unsure"):
            return f"{test} started, but may not have received its prompt: {_text(entry, 'unsure')}"
        case Event.LAUNCHED:
            found = " was found running" if entry.fields.get("adopted") is True else " started"
            return f"{test}{found}{f' (attempt {row.attempt})' if row.attempt > 1 else ''}"
        case Event.NOTICED if _text(entry, "reason"):
            return f"{test} needs you: {_text(entry, 'reason')}"
        case Event.LIMITED if _text(entry, "reason"):
            return f"{test} is rate limited: {_text(entry, 'reason')}"
        case Event.REMINDING:
            return f"{test} ended its turn without an outcome: reminded"
        case Event.ANSWERED if row.telling is not None:
            return f"{test} is being sent an answer: {_text(entry, 'text')}"
        case Event.ANSWERED:
            how = "its agent goes on" if row.continues is not None else "a new agent goes on"
            return f"{test} was answered, {how}: {_text(entry, 'text')}"
        case Event.TOLD if not _text(entry, "says"):
            return f"{test} has the answer"
        case Event.RETRYING if _text(entry, "reason") == "gone":
            return f"{test}: its agent cannot go on, a new one gets the answer: {_text(entry, 'text')}"
        case Event.RETRYING:
            return f"{test} is retried ({_text(entry, 'reason')}): {_text(entry, 'text')}"
        case Event.ENDED:
            why = f": {_last_line(row.text)}" if row.end is not None and row.end.group.is_open and row.text else ""
            return f"[{_ended(run)}/{len(run.rows)}] {test} {end_of(row).sentence}{why}"
        case Event.VERIFIED:
            why = f": {_text(entry, 'reason')}" if _text(entry, "reason") else ""
            told = _GATE.get(row.gate) if row.gate else _VERIFIED.get(row.verified)
            return f"{test} {told or 'could not be checked'}{why}"
        case Event.STOPPED if _text(entry, "says"):
            return f"{test}: the agent could not be stopped: {_text(entry, 'says')}"
        case _:
            return ""


def _ended(run: Run) -> int:
    return sum(row.end is not None for row in run.rows.values())


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _text(entry: Entry, name: str) -> str:
    value: Any = entry.fields.get(name, "")
    return value if isinstance(value, str) else ""


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
