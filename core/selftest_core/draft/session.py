"""A draft that a person decides about: acts are written before they count, and can be undone.

    with DraftSession.open(folder, environ) as session:
        session.decide((block.id,), BlockDecision.KEEP)
        session.publish("tour")

Its log is locked while it is open. For one thread at a time; git is called by `refresh` and `publish`.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Self

from selftest_core.draft.decisions import BlockDecision, check_decisions, decisions_json, edit_reason, read_decisions
from selftest_core.draft.draft import read_draft
from selftest_core.draft.draft_log import apply, decisions_of, fold, open_log
from selftest_core.draft.gate import syntax_reason
from selftest_core.draft.publishing import nothing_kept_reason, publish_draft
from selftest_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.draft.decisions import DraftDecisions
    from selftest_core.draft.draft import Draft
    from selftest_core.draft.draft_log import DraftLog
    from selftest_core.draft.proposals import ProposedBlock
    from selftest_core.draft.publishing import PublishedDraft
    from selftest_core.journal import Journal
    from selftest_core.run.store import RunFolder


class DraftSession:
    """One open draft. `draft` is what its run left, `decisions` what the person decided."""

    def __init__(self, folder: RunFolder, journal: Journal, draft: Draft, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.draft = draft
        self._journal = journal
        self._environ = dict(environ)
        self.log: DraftLog = fold(journal.entries)

    @classmethod
    def open(cls, folder: RunFolder, environ: Mapping[str, str]) -> Self:
        """Open and lock a draft. Raises UsageError for another run, RefusedError where it is open elsewhere."""
        draft = read_draft(folder, environ)
        return cls(folder, open_log(folder.path), draft, environ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlock the log."""
        self._journal.close()

    @property
    def decisions(self) -> DraftDecisions:
        """The decisions in effect."""
        return decisions_of(self.log)

    @property
    def open_blocks(self) -> tuple[ProposedBlock, ...]:
        """The blocks that nobody has decided."""
        return undecided(self.draft, self.decisions)

    def refresh(self) -> Draft:
        """Read the run again: headings may have been drafted since."""
        self.draft = read_draft(self.folder, self._environ)
        return self.draft

    def decide(self, blocks: Sequence[str], decision: BlockDecision) -> None:
        """Decide blocks by their ids. Raises UsageError for an unknown id, JournalError."""
        named = [self._block(name) for name in blocks]
        what = _first_line(named[0]) if len(named) == 1 else f"{len(named)} blocks"
        says = f"{decision.value} {what}"
        self._act("decided", blocks={block.id: decision.value for block in named}, says=says)

    def edit(self, block: str, text: str) -> None:
        """Keep a block with another text. Raises UsageError if that is not one block of shell."""
        found, text = self._block(block), text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
        reason = edit_reason(found, text) or syntax_reason(text, self._environ)
        if reason:
            raise UsageError("This text cannot be used", reason, "Write one block of shell, without an empty line.")
        self._act("edited", block=block, text=text, says=f"edit {_first_line(found)}")

    def find(self, about: str, text: str) -> None:
        """Note a finding about a block or a heading; an empty text removes it."""
        if about not in {block.id for block in self.draft.blocks} | {one.id for one in self.draft.headings}:
            raise UsageError(f"{about!r:.80} is neither a block nor a heading of this draft")
        text = " ".join(text.split())
        self._act("found", about=about, text=text, says="note a finding" if text else "remove a finding")

    def undo(self) -> str:
        """Undo the last act; return its description, empty where there was none."""
        told = self.log.undo_text
        if told:
            self._act("undone")
        return told

    def redo(self) -> str:
        """Redo the act that was undone last; return its description, empty where there was none."""
        told = self.log.redo_text
        if told:
            self._act("redone")
        return told

    def import_decisions(self, path: Path) -> None:
        """Apply a decisions file over what was decided, as one act; the same file twice is one. Raises UsageError."""
        given = read_decisions(path)
        check_decisions(given, self.draft.blocks, (one.id for one in self.draft.headings))
        for name, text in given.edits.items():
            reason = syntax_reason(text, self._environ)
            if reason:
                raise UsageError(f"The edited text of block {name} cannot be used", reason)
        document = decisions_json(given)
        mark = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
        if mark != self.log.imported or self.log.undo_text != f"import {path.name}":
            self._act("imported", decisions=document, mark=mark, says=f"import {path.name}")

    def publish_disabled_reason(self) -> str:
        """The reason why nothing can be published, empty where something can."""
        return nothing_kept_reason(self.draft, self.decisions)

    def publish(self, branch: str) -> PublishedDraft:
        """Publish what is kept as this branch. Raises RefusedError, UsageError; nothing is changed then."""
        published = publish_draft(self.folder, self.draft, self.decisions, branch, self._environ)
        self._act("published", ref=published.ref, tip=published.tip)
        return published

    def _block(self, name: str) -> ProposedBlock:
        found = next((block for block in self.draft.blocks if block.id == name), None)
        if found is None:
            raise UsageError(f"{name!r:.80} is not a block of this draft", "No agent proposes it.")
        return found

    def _act(self, event: str, **fields: object) -> None:
        self.log = apply(self.log, self._journal.append(event, time.time(), **fields))


def undecided(draft: Draft, decisions: DraftDecisions) -> tuple[ProposedBlock, ...]:
    """The blocks that nobody has decided."""
    return tuple(block for block in draft.blocks if decisions.on(block) is BlockDecision.UNDECIDED)


def _first_line(block: ProposedBlock) -> str:
    lines = (block.text or block.base).splitlines()
    return next((line for line in lines if not line.lstrip().startswith("#")), lines[0] if lines else "")[:80]
