"""Decisions on proposed blocks: keep, drop or undecided, edited texts, and findings about the interface.

The file, which the command line reads:

    {"default": "keep|drop|undecided", "blocks": {"<id>": "keep|drop|undecided"}, "edits": {"<id>": "text"},
     "findings": {"<id of a block, or a heading>": "confusing because …"}}

Read strictly: an unknown key, word or id is an error, since a decision that is silently ignored is lost work. An edit
without a decision keeps the block with that text.
"""

from __future__ import annotations

import json
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.draft.proposals import ProposalKind, block_reason
from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.draft.proposals import ProposedBlock

_NONE: Mapping[str, Any] = MappingProxyType({})
_HINT = (
    'Such a file is {"default": "undecided", "blocks": {"<id>": "keep|drop|undecided"}, "edits": {"<id>": "text"}, '
    '"findings": {"<id>": "confusing because …"}}.'
)
_LARGEST = 16 * 1024 * 1024


class BlockDecision(StrEnum):
    """The decision on one proposed block."""

    KEEP = "keep"
    DROP = "drop"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class DraftDecisions:
    """All decisions, by the ids of blocks. `findings`: by the id of a block or of a heading."""

    default: BlockDecision = BlockDecision.UNDECIDED
    blocks: Mapping[str, BlockDecision] = field(default_factory=lambda: _NONE)
    edits: Mapping[str, str] = field(default_factory=lambda: _NONE)
    findings: Mapping[str, str] = field(default_factory=lambda: _NONE)

    def on(self, block: ProposedBlock) -> BlockDecision:
        """The decision on a block."""
        decided = self.blocks.get(block.id)
        if decided is not None:
            return decided
        return BlockDecision.KEEP if block.id in self.edits else self.default

    def text_of(self, block: ProposedBlock) -> str:
        """The text that a kept block gets: the person's, else the agent's."""
        return self.edits.get(block.id, block.text)


def read_decisions(path: Path) -> DraftDecisions:
    """Read a decisions file. Raises UsageError with the mistake."""
    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"The decisions in {path} are larger than {_LARGEST:,} bytes", "", _HINT)
        return parse_decisions(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the decisions in {path}", str(error), _HINT) from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON", str(error), _HINT) from error


def parse_decisions(document: object) -> DraftDecisions:
    """Parse decisions from a JSON document. Raises UsageError."""
    body = _mapping(document, "the file")
    known = ("default", "blocks", "edits", "findings")
    unknown = sorted(set(body) - set(known))
    if unknown:
        raise UsageError(f"Unknown key {unknown[0]!r:.80} in the decisions", f"Known: {', '.join(known)}.", _HINT)
    return DraftDecisions(
        _decision(body.get("default", "undecided"), "default"),
        {name: _decision(word, name) for name, word in _mapping(body.get("blocks", {}), "blocks").items()},
        {name: _text(text, name).strip("\n") for name, text in _mapping(body.get("edits", {}), "edits").items()},
        {name: _text(text, name).strip() for name, text in _mapping(body.get("findings", {}), "findings").items()},
    )


def decisions_json(decisions: DraftDecisions) -> dict[str, Any]:
    """Convert decisions to the JSON of their file, which `parse_decisions` reads."""
    return {
        "default": decisions.default.value,
        "blocks": {name: decision.value for name, decision in decisions.blocks.items()},
        "edits": dict(decisions.edits),
        "findings": dict(decisions.findings),
    }


def check_decisions(decisions: DraftDecisions, blocks: Iterable[ProposedBlock], headings: Iterable[str]) -> None:
    """Raise UsageError for an id that names no proposed block, and for an edit that is no block."""
    by_id = {block.id: block for block in blocks}
    for name in (*decisions.blocks, *decisions.edits):
        if name not in by_id:
            detail = "No agent of this draft proposes it."
            raise UsageError(f"{name!r:.80} is not a block of this draft", detail, "`draft --batch --run` lists them.")
    known = {*by_id, *headings}
    for name in decisions.findings:
        if name not in known:
            raise UsageError(f"{name!r:.80} is neither a block nor a heading of this draft", "", _HINT)
    for name, text in decisions.edits.items():
        reason = edit_reason(by_id[name], text)
        if reason:
            raise UsageError(f"The edited text of block {name} cannot be used", reason, "Write one block of shell.")


def edit_reason(block: ProposedBlock, text: str) -> str:
    """The reason why a block cannot get this text, empty where it can."""
    if block.kind is ProposalKind.REMOVED:
        return "the proposal removes the block: keep or drop that"
    return block_reason(text)


def _decision(word: object, where: str) -> BlockDecision:
    for decision in BlockDecision:
        if decision == word:
            return decision
    raise UsageError(f"{word!r:.80} is not a decision (at {where:.80})", "It is keep, drop or undecided.", _HINT)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"The text of {where!r:.80} is no text", "", _HINT)
    return value.replace("\r\n", "\n").replace("\r", "\n")


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be an object of JSON", "", _HINT)
    return value
