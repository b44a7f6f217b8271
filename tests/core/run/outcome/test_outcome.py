"""Outcomes are read whatever new words they have, and refused in words where they cannot be judged."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.run.outcome.outcome import ChangeKind, Importance, Location, Outcome, reported_end
from selftest_core.run.outcome.outcome_file import LARGEST, UnreadableOutcomeError, outcome_schema, parse_outcome

THEIRS: dict[str, Any] = {
    "changes": {
        "FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "Tax is **rounded half up**."},
        "REWRITE_EVERYTHING": {"status": "PONDERED", "summary_markdown": "a kind of next year"},
    },
    "errored": False,
    "tests_passing_before": False,
    "tests_passing_after": True,
    "summary_markdown": "Fixed.",
    "test_runs": [{"run_name": "before", "description_markdown": "red"}],
    "escalations": [
        {
            "kind": "UNCAUGHT_BUG",
            "title": "Negative prices",
            "description_markdown": "They are taken.",
            "locations": [{"path": "shop/cart.py", "line": 12}, {"path": "shop/pay.py"}],
        }
    ],
    "harness_version": {"major": 3},
}
"""The shape of the pipeline that this one follows, with a kind, a status and a field that we do not know."""


def parsed(**fields: Any) -> Outcome:
    return parse_outcome(json.dumps({"errored": False, **fields}).encode())


def refusal(data: bytes) -> str:
    with pytest.raises(UnreadableOutcomeError) as raised:
        parse_outcome(data)
    assert raised.value.hint
    return raised.value.detail


def test_an_outcome_of_their_shape_is_read_with_all_that_we_do_not_know() -> None:
    outcome = parse_outcome(json.dumps(THEIRS).encode())
    assert [(one.kind, one.status) for one in outcome.changes] == [
        ("FIX_IMPL", "SUCCEEDED"),
        ("REWRITE_EVERYTHING", "PONDERED"),
    ]
    assert outcome.tests_passing_before is False
    assert outcome.tests_passing_after is True
    assert outcome.test_runs[0].name == "before"
    assert outcome.escalations[0].detail == "They are taken."
    assert outcome.escalations[0].locations == (Location("shop/cart.py", 12), Location("shop/pay.py", None))
    assert outcome.importance is None
    assert outcome.more == {"harness_version": {"major": 3}}
    assert reported_end(outcome, has_commits=True) == "succeeded"


def test_importance_is_ours_and_its_level_may_be_any_word() -> None:
    assert parsed(importance={"level": "high", "reason": "money"}).importance == Importance("high", "money")
    assert parsed(importance={"level": "cosmic"}).importance == Importance("cosmic", "")


def test_what_agents_write_beside_the_shape_costs_no_report() -> None:
    outcome = parsed(
        changes=None,
        summary_markdown=None,
        test_runs=None,
        escalations=[
            {"kind": "BLOCKER", "locations": ["a.py:3", {"path": "b", "line": "12"}, {"path": "c", "line": -1}]}
        ],
    )
    assert outcome.escalations[0].locations == (Location("a.py:3", None), Location("b", 12), Location("c", None))
    assert (outcome.changes, outcome.summary, outcome.test_runs) == ((), "", ())


def test_half_characters_and_a_byte_order_mark_are_no_reason_to_refuse() -> None:
    outcome = parse_outcome(
        b'\xef\xbb\xbf{"errored": false, "summary_markdown": "\\ud800 \\ud83d\\ude00", "\\udc00": 1}'
    )
    assert outcome.summary == "\ufffd \U0001f600"
    assert outcome.more == {"\ufffd": 1}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"{", "it is not JSON"),
        (b"done, all green!", "it is not JSON"),
        (b"\xff\xfe{}", "it is not UTF-8"),
        (b"[]", "it is not a JSON object"),
        (b"{}", "errored is missing"),
        (b'{"errored": null}', "errored is neither true nor false"),
        (b'{"errored": 0}', "errored is neither true nor false"),
        (b'{"errored": "false"}', "errored is neither true nor false"),
        (b'{"errored": false, "errored": true}', "'errored' occurs twice"),
        (b'{"errored": NaN}', "NaN"),
        (b'{"errored": false, "cost": 1e999}', "too large a number"),
        (b'{"errored": false, "cost": ' + b"9" * 5000 + b"}", "too large a number"),
        (b'{"errored": false, "tests_passing_after": "yes"}', "tests_passing_after is neither true nor false"),
        (b'{"errored": false, "changes": []}', "changes is not an object"),
        (b'{"errored": false, "changes": {"FIX_IMPL": "SUCCEEDED"}}', "changes.FIX_IMPL is not an object"),
        (b'{"errored": false, "changes": {"FIX_IMPL": {}}}', "changes.FIX_IMPL.status is missing"),
        (b'{"errored": false, "changes": {"\\u001b[31m": {}}}', "changes.\\x1b[31m.status"),
        (b'{"errored": false, "summary_markdown": ["a"]}', "summary_markdown is not a text"),
        (b'{"errored": false, "escalations": [{"kind": 1}, {}, {}, {}]}', "and 1 more"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b'{"errored": false, "x": ' + b"[" * 200 + b"]" * 200 + b"}", "nested too deeply"),
        (b" " * (50 * 1024 * 1024), "52,428,800 bytes"),
        (b'{"errored": false, "x": "' + b"x" * LARGEST + b'"}', "are read at most"),
    ],
    ids=lambda value: repr(value[:60]),
)
def test_what_cannot_be_judged_is_refused_in_words(data: bytes, reason: str) -> None:
    assert reason in refusal(data)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*THEIRS, "kind", "status", "x"]), inner),
        ).map(
            lambda document: json.dumps(
                {"errored": True, **document} if isinstance(document, dict) else document
            ).encode()
        ),
    )
)
def test_any_bytes_are_an_outcome_or_are_refused(data: bytes) -> None:
    reason = ""
    try:
        outcome = parse_outcome(data)
    except UnreadableOutcomeError as error:
        reason = error.detail
    else:
        reason = reported_end(outcome, has_commits=False)
        json.dumps(dict(outcome.more), allow_nan=False).encode()
    assert reason


def change(status: str) -> dict[str, Any]:
    return {"FIX_TEST": {"status": status}}


@pytest.mark.parametrize(
    ("fields", "has_commits", "expected"),
    [
        ({"errored": True, "changes": change("SUCCEEDED"), "tests_passing_after": True}, True, "red"),
        ({"tests_passing_after": False}, True, "red"),
        ({"tests_passing_after": True, "changes": change("FAILED")}, True, "red"),
        ({"changes": {**change("FAILED"), "FIX_IMPL": {"status": "BLOCKED"}}}, True, "blocked"),
        ({"tests_passing_after": False, "changes": change("BLOCKED")}, False, "blocked"),
        ({"tests_passing_after": False, "escalations": [{"kind": "BLOCKER"}]}, True, "blocked"),
        ({"tests_passing_after": False, "escalations": [{"kind": "FIX_DIRECTION_AMBIGUOUS"}]}, False, "blocked"),
        ({"escalations": [{"kind": " fix_direction_ambiguous"}]}, False, "blocked"),
        ({"tests_passing_after": False, "escalations": [{"kind": "SHARED_PATTERN"}]}, False, "red"),
        ({"tests_passing_after": True, "changes": change("BLOCKED")}, True, "blocked"),
        ({"changes": change(" blocked ")}, False, "blocked"),
        ({"escalations": [{"kind": "BLOCKER"}]}, False, "blocked"),
        ({"escalations": [{"kind": "UNCAUGHT_BUG"}]}, False, "unchanged"),
        ({"tests_passing_after": None}, False, "unchanged"),
        ({"tests_passing_after": True}, True, "succeeded"),
        ({"changes": change("SUCCEEDED")}, False, "succeeded"),
        ({"tests_passing_after": True, "changes": {"FIX_IMPL": {"status": "SUCCEEDED"}}}, False, "red"),
        ({"tests_passing_after": True, "changes": {"FIX_IMPL": {"status": "SUCCEEDED"}}}, True, "succeeded"),
        ({"changes": {"FIX_IMPL": {"status": "BLOCKED"}}}, False, "blocked"),
        ({"changes": change("PONDERED")}, False, "succeeded"),
    ],
)
def test_the_verdict_follows_the_contract(fields: dict[str, Any], has_commits: bool, expected: str) -> None:
    assert reported_end(parsed(**fields), has_commits) == expected


def test_the_printed_schema_takes_what_is_read_and_names_the_known_words() -> None:
    schema = outcome_schema()
    known = {**THEIRS, "changes": {kind.value: {"status": "SUCCEEDED"} for kind in ChangeKind}}
    jsonschema.validate(known, schema)
    with pytest.raises(jsonschema.ValidationError, match="PONDERED"):
        jsonschema.validate({"errored": False, "changes": change("PONDERED")}, schema)
    with pytest.raises(jsonschema.ValidationError, match="errored"):
        jsonschema.validate({"changes": {}}, schema)
    assert "title" in schema["$defs"]["EscalationShape"]["properties"]
