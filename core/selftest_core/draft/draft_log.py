"""The log of a draft: each act is a line on disk before it counts, and the decisions are the fold of these lines.

    decided     blocks, says            keep, drop or undecided, by the id of a block
    edited      block, text, says       keep the block with this text
    found       about, text, says       a finding about a block or a heading; an empty text removes it
    imported    decisions, mark, says   the decisions of a file, over earlier ones
    undone, redone                      the last act that is not undone; the first that is
    published   ref, tip                no act: it cannot be undone here

Pure but for `open_log`. Undo and redo move a mark in the list of acts, so they reach any depth and outlive restarts; a
new act drops the undone ones. A line of a later version, or one that does not fit, changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.draft.decisions import BlockDecision, DraftDecisions, parse_decisions
from selftest_core.errors import RefusedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import is_oid
from selftest_core.journal import Journal, read
from selftest_core.undo import Act, Acts, act_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from selftest_core.journal import Entry

LOG = "draft.jsonl"
"""Name of the log in the folder of the draft's run."""
ACTS = frozenset({"decided", "edited", "found", "imported"})
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DraftLog(Acts):
    """The folded log. `published`: refs and tips, the newest last."""

    published: tuple[tuple[str, str], ...] = ()


def open_log(folder: Path) -> Journal:
    """Open and lock the log of a draft. Raises RefusedError where another process has it, JournalError."""
    try:
        return Journal(folder / LOG)
    except RefusedError as error:
        hint = "Close it there first: two people's decisions would overwrite each other."
        raise RefusedError(f"The draft {folder.name} is open in another process", str(folder / LOG), hint) from error


def read_log(folder: Path) -> DraftLog:
    """Read the log of a draft without locking it; empty where there is none that can be read."""
    path = folder / LOG
    try:
        return fold(read(path.read_bytes()).entries) if path.stat().st_size <= _LARGEST else DraftLog()
    except OSError:
        return DraftLog()


def fold(entries: Iterable[Entry]) -> DraftLog:
    """Fold the lines of a log."""
    log = DraftLog()
    for entry in entries:
        log = apply(log, entry)
    return log


def apply(log: DraftLog, entry: Entry) -> DraftLog:
    """Fold one more line."""
    fields = entry.fields
    match entry.event:
        case "undone":
            return log.undone()
        case "redone":
            return log.redone()
        case "published" if is_oid(str(fields.get("tip"))):
            return replace(log, published=(*log.published, (str(fields.get("ref")), str(fields["tip"]))))
        case event if event in ACTS:
            act = act_of(event, fields)
            try:
                _applied(DraftDecisions(), act)
            except (KeyError, TypeError, ValueError, AttributeError, UsageError):
                return log
            return log.with_act(act)
        case _:
            return log


def decisions_of(log: DraftLog) -> DraftDecisions:
    """The decisions in effect."""
    found = DraftDecisions()
    for act in log.acts[: log.done]:
        found = _applied(found, act)
    return found


def _applied(before: DraftDecisions, act: Act) -> DraftDecisions:
    """Apply one act. Raises for an invalid one."""
    fields = act.fields
    match act.event:
        case "decided":
            decided = {str(name): BlockDecision(word) for name, word in fields["blocks"].items()}
            return replace(before, blocks={**before.blocks, **decided})
        case "edited":
            name, text = str(fields["block"]), _text(fields["text"])
            kept = {**before.blocks, name: BlockDecision.KEEP}
            return replace(before, blocks=kept, edits={**before.edits, name: text})
        case "found":
            about, text = str(fields["about"]), _text(fields["text"])
            findings = {**before.findings, about: text}
            return replace(before, findings={name: said for name, said in findings.items() if said})
        case _:
            given = parse_decisions(fields["decisions"])
            return DraftDecisions(
                given.default,
                {**before.blocks, **given.blocks},
                {**before.edits, **given.edits},
                {name: said for name, said in {**before.findings, **given.findings}.items() if said},
            )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value
