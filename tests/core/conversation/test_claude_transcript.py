"""The lines of Claude Code itself: its errors, and what mngr has not converted yet."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.conversation.claude_transcript import ApiError, last_error, later_steps
from selftest_core.conversation.common_transcript import parse_lines
from worlds import ROOT

SAMPLES = ROOT / "tests" / "fixtures" / "claude" / "2.1.330" / "own_lines"


def lines_of(name: str) -> list[bytes]:
    return (SAMPLES / f"{name}.jsonl").read_bytes().splitlines()


def prompt(text: str, number: int = 1) -> bytes:
    return json.dumps({"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": text}}).encode()


def answer(text: str, number: int = 1, **more: object) -> bytes:
    message = {"id": f"m{number}", "model": "claude-x", "content": [{"type": "text", "text": text}]}
    return json.dumps({"type": "assistant", "uuid": f"a{number}", "message": message, **more}).encode()


@pytest.mark.parametrize(
    ("name", "kind", "status", "text"),
    [
        ("poor", "billing_error", 400, "Credit balance is too low"),
        (
            "limited",
            "rate_limit",
            429,
            "API Error: Request rejected (429) · This request would exceed your rate limit.",
        ),
        ("denied", "authentication_failed", 401, "Invalid API key · Fix external API key"),
    ],
)
def test_an_error_is_told_with_its_kind_and_status(name: str, kind: str, status: int, text: str) -> None:
    error = last_error(lines_of(name))
    assert error is not None
    assert (error.kind, error.status, error.text) == (kind, status, text)
    assert error.is_turned_away
    assert error.line.startswith(f"{text} ({kind.replace('_', ' ')}")


def test_a_conversation_that_went_on_has_no_last_error() -> None:
    assert last_error(lines_of("work")) is None
    failed = lines_of("poor")
    assert last_error([*failed, prompt("Again")]) is not None
    assert last_error([*failed, prompt("Again"), answer("Here I am.")]) is None
    assert last_error([*failed, answer("aside", isSidechain=True)]) is not None


def test_an_error_in_itself_is_no_limit() -> None:
    assert not ApiError(
        "API Error: 400 orphaned tool_result in conversation history.", "invalid_request", 400
    ).is_turned_away
    assert not ApiError("API Error: 500", "server_error", 500).is_turned_away
    assert ApiError("API Error: Request rejected (429)", "rate_limit", 429).is_turned_away
    assert ApiError("Overloaded", "", 529).is_turned_away


def test_the_steps_that_mngr_has_not_converted_yet_are_added_once() -> None:
    common = (SAMPLES.parent / "common_transcript" / "work.jsonl").read_bytes().splitlines()
    own = lines_of("work")
    everything = later_steps(own, ())
    assert [step.source for step in everything] == [step.source for step in parse_lines(common)[0]]
    for length in range(len(everything)):
        later = later_steps(own, everything[:length])
        assert [step.id for step in later] == [step.id for step in everything[length:]]
    assert everything[5].tool_calls[0].arguments["command"] == "python -m pytest -q -p no:cacheprovider"
    assert everything[6].results[0].text.startswith("Exit code 5")


def test_the_lines_of_one_answer_are_one_step() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    second = json.dumps({"type": "assistant", "uuid": "a2", "message": {"id": "m1", "content": [call]}}).encode()
    (step,) = later_steps([answer("I look.", 1), second], ())
    assert (step.text, [one.name for one in step.tool_calls], step.id) == ("I look.", ["Bash"], "a1-assistant")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["type", "message", "content", "id", "uuid", "timestamp", "error", "apiErrorStatus", "text"])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.dictionaries(FIELDS, JUNK | st.sampled_from(["user", "tool_use"]), max_size=5), max_size=4))
def test_odd_lines_are_read_without_an_error(records: list[dict[str, object]]) -> None:
    lines = [json.dumps({"type": "assistant", **record}).encode() for record in records]
    later_steps([*lines, b'{"type": "assistant", "mess', b"\xff\xfe"], ())
    last_error(lines)
