"""Decisions about a draft: a fold of its log, undone to any depth, and read from a file as strictly as they matter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.draft.decisions import BlockDecision, check_decisions, parse_decisions, read_decisions
from selftest_core.draft.draft_log import DraftLog, apply, decisions_of, fold
from selftest_core.draft.proposals import ProposalKind, ProposedBlock
from selftest_core.errors import UsageError
from selftest_core.journal import Entry

if TYPE_CHECKING:
    from pathlib import Path

NEW = ProposedBlock("n1", "Carts", ProposalKind.NEW, 3, 0, "", "shop new")
GONE = ProposedBlock("r1", "Carts", ProposalKind.REMOVED, 5, 0, "shop old", "")
BLOCKS = (NEW, GONE)

acts: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    st.tuples(st.just("decided"), st.fixed_dictionaries({"blocks": st.dictionaries(
        st.sampled_from(["n1", "r1"]), st.sampled_from(["keep", "drop", "undecided"]), min_size=1)})),
    st.tuples(st.just("edited"), st.fixed_dictionaries({"block": st.just("n1"), "text": st.sampled_from(["a", "b"])})),
    st.tuples(st.just("found"), st.fixed_dictionaries({
        "about": st.sampled_from(["n1", "Carts"]), "text": st.sampled_from(["", "confusing because …"])})),
    st.tuples(st.just("imported"), st.fixed_dictionaries({"decisions": st.just({"default": "keep"})})),
    st.tuples(st.sampled_from(["undone", "redone"]), st.just({})),
)  # fmt: skip


def entries(*events: tuple[str, dict[str, Any]]) -> list[Entry]:
    return [Entry(number, 0.0, event, fields) for number, (event, fields) in enumerate(events, 1)]


@given(st.lists(acts, max_size=12))
def test_undo_and_redo_reach_every_state_again(events: list[tuple[str, dict[str, Any]]]) -> None:
    log = fold(entries(*events))
    states = [decisions_of(log)]
    number = len(events)
    while log.undo_text:
        number += 1
        log = apply(log, Entry(number, 0.0, "undone", {}))
        states.append(decisions_of(log))
    assert decisions_of(log) == decisions_of(DraftLog())
    for state in reversed(states[:-1]):
        number += 1
        log = apply(log, Entry(number, 0.0, "redone", {}))
        assert decisions_of(log) == state


def test_nothing_is_kept_that_nobody_decided_and_an_edit_keeps() -> None:
    assert decisions_of(DraftLog()).on(NEW) is BlockDecision.UNDECIDED
    edited = decisions_of(fold(entries(("edited", {"block": "n1", "text": "shop anew"}))))
    assert (edited.on(NEW), edited.text_of(NEW), edited.on(GONE)) == (
        BlockDecision.KEEP, "shop anew", BlockDecision.UNDECIDED,
    )  # fmt: skip
    file = parse_decisions({"edits": {"n1": "shop anew\n"}})
    assert (file.on(NEW), file.text_of(NEW)) == (BlockDecision.KEEP, "shop anew")
    assert parse_decisions({"edits": {"n1": "x"}, "blocks": {"n1": "drop"}}).on(NEW) is BlockDecision.DROP


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("decided", {"blocks": {"n1": "perhaps"}}), ("decided", {"blocks": []}), ("decided", {}),
        ("edited", {"block": "n1", "text": 3}), ("found", {"about": "n1"}), ("imported", {"decisions": {"x": 1}}),
        ("of a later version", {}), ("published", {"ref": "refs/heads/x", "tip": "--output=x"}),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_changes_nothing(event: str, fields: dict[str, Any]) -> None:
    assert fold(entries((event, fields))) == DraftLog()


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"block": {}}, "Unknown key 'block'"), ([], "must be an object"), ({"default": "yes"}, "is not a decision"),
        ({"blocks": {"zz": "keep"}}, "is not a block"), ({"edits": {"r1": "ls"}}, "cannot be used"),
        ({"edits": {"n1": "a\n\nb"}}, "cannot be used"), ({"edits": {"n1": "# no command"}}, "cannot be used"),
        ({"edits": {"n1": 3}}, "is no text"), ({"findings": {"Refunds": "x"}}, "neither a block nor a heading"),
    ],
)  # fmt: skip
def test_a_file_that_would_be_ignored_in_part_is_refused(tmp_path: Path, document: object, said: str) -> None:
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=said):
        check_decisions(read_decisions(path), BLOCKS, ("Carts",))
    path.write_bytes(b"\xff{")
    with pytest.raises(UsageError, match="Cannot read"):
        read_decisions(path)
