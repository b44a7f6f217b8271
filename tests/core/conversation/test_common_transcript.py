"""The common transcript, read from files that mngr 0.3.0 wrote about Claude Code 2.1.330, and from hostile ones."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.conversation import appended_lines
from selftest_core.conversation.appended_lines import BEGINNING, Place, read_appended
from selftest_core.conversation.claude_transcript import parse_session
from selftest_core.conversation.common_transcript import (
    Reading,
    Step,
    Tokens,
    parse_lines,
    read_transcript,
    transcript_of,
)
from selftest_core.conversation.conversation import readable
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = ROOT / "tests" / "fixtures" / "claude" / "2.1.330" / "common_transcript"


def steps_of(name: str) -> tuple[Step, ...]:
    reading = read_transcript(SAMPLES, f"{name}.jsonl")
    assert reading.skipped == 0
    return reading.steps


def test_the_work_of_an_agent_is_read_with_its_calls_and_their_results() -> None:
    steps = steps_of("work")
    assert [step.source for step in steps] == ["user", *["agent", "tool"] * 4, "agent"]
    assert steps[0].text == "PLAY work"
    (call,) = steps[5].tool_calls
    assert (call.name, call.arguments["command"]) == ("Bash", "python -m pytest -q -p no:cacheprovider")
    (result,) = steps[6].results
    assert (result.call_id, result.tool_name, result.is_error) == (call.id, "Bash", True)
    assert result.text == "Exit code 5\n\nno tests ran in 0.00s"
    last = steps[-1]
    assert last.text.startswith("Done: `Cart.total`")
    assert (last.model, last.message_id, last.finish_reason) == (
        "claude-opus-5-5",
        "msg_64b519a386244532b22e",
        "end_turn",
    )
    assert last.tokens == Tokens(input=20, cached=12_000, cache_write=500, output=28)
    assert last.at == pytest.approx(1795338420.492)
    assert not any(step.is_error for step in steps)


def test_each_answer_of_the_model_is_one_step() -> None:
    answers = [step for step in steps_of("many") if step.source == "agent"]
    assert len({step.message_id for step in answers}) == len(answers) == 6
    assert [step.tool_calls[0].arguments["command"] for step in answers[:5]] == [f"echo line {n}" for n in range(5)]


def test_an_api_error_is_told_from_an_answer() -> None:
    steps = steps_of("denied")
    assert [(step.text, step.is_error, step.model) for step in steps[1:]] == [
        ("Invalid API key · Fix external API key", True, "")
    ]
    assert not steps_of("busy")[-1].is_error


def test_the_transcript_is_found_below_the_folder_of_its_plugin(tmp_path: Path) -> None:
    assert transcript_of(tmp_path) is None
    for plugin in ("logs", "codex"):
        (tmp_path / "events" / plugin / "common_transcript").mkdir(parents=True)
        (tmp_path / "events" / plugin / "common_transcript" / "events.jsonl").touch()
    assert transcript_of(tmp_path) == "events/codex/common_transcript/events.jsonl"


def test_a_plugin_that_cannot_be_looked_into_has_none(tmp_path: Path) -> None:
    folder = tmp_path
    while len(str(folder)) < 3_810:
        folder /= "x" * min(200, 3_812 - len(str(folder)))
    (folder / "events" / ("y" * 255)).mkdir(parents=True)  # what would be below it has too long a path
    assert transcript_of(folder) is None


HOSTILE = [
    b"null",
    b'{"type":"step","message":"half a character: \xed\xa0\x80"}',
    '{"type":"step"}'.encode("utf-16"),
    b"[1]",
    b"{",
    b'{"type":"user_message","content":"old format"}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"type":"step","n":' + b"9" * 5000 + b"}",
]


def test_what_is_no_line_of_a_transcript_is_counted() -> None:
    assert parse_lines(HOSTILE) == ((), len(HOSTILE))


def test_odd_fields_are_empty() -> None:
    line = json.dumps(
        {
            "type": "step",
            "event_id": 3,
            "source": "root",
            "timestamp": "9999999-01-01",
            "message": ["x"],
            "tool_calls": [1, {"function_name": None, "arguments": "x"}],
            "metrics": {"prompt_tokens": -5, "completion_tokens": 1e300, "cached_tokens": "9", "extra": [1]},
            "extra": "x",
            "observation": {"results": {"a": 1}},
        }
    ).encode()
    ((step,), skipped) = parse_lines([line])
    assert skipped == 0
    assert (step.id, step.source, step.at, step.text, step.tokens) == ("", "system", None, "", Tokens())
    assert [(call.name, dict(call.arguments)) for call in step.tool_calls] == [("", {})]


NAMES = (
    "source", "extra", "metrics", "tool_calls", "observation", "results", "message", "model_name", "event_id",
    "message_id", "timestamp", "arguments", "content", "usage", "id", "model", "error", "apiErrorStatus", "input",
)  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(("", "agent", "tool", "\ud800", "x" * 300)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(("step", "observation", "assistant")), fields=st.dictionaries(st.sampled_from(NAMES), VALUES)
)
def test_json_of_any_shape_is_read_without_an_error(kind: str, fields: dict[str, object]) -> None:
    line = json.dumps({"type": kind, **fields}).encode()
    steps, _ = parse_lines([line])
    readable((*steps, *parse_session([line]))).encode()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1", "true", '"12"', "1e300", "12.5", "9" * 30, "null", "[]"])
def test_what_is_no_count_counts_nothing(number: str) -> None:
    line = f'{{"type":"step","metrics":{{"prompt_tokens":{number},"completion_tokens":{number},"cached_tokens":7}}}}'
    ((step,), _) = parse_lines([line.encode()])
    assert step.tokens == Tokens(cached=7)


def test_half_characters_become_writable() -> None:
    line = b'{"type":"step","message":"a\\ud800b","tool_calls":[{"arguments":{"k\\udfff":["\\udc00"]}}]}'
    ((step,), _) = parse_lines([line])
    assert step.text == "a?b"
    assert dict(step.tool_calls[0].arguments) == {"k?": ["?"]}


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    whole = (SAMPLES / "many.jsonl").read_bytes()
    path = tmp_path / "events.jsonl"
    path.write_bytes(whole[:1000])
    first = read_transcript(tmp_path, "events.jsonl")
    append(path, whole[1000:])
    second = read_transcript(tmp_path, "events.jsonl", first.place)
    assert not second.is_anew
    assert first.steps + second.steps == steps_of("many")
    third = read_transcript(tmp_path, "events.jsonl", second.place)
    assert third == Reading((), second.place)


@given(st.lists(st.integers(0, 5300), max_size=12))
def test_any_pieces_give_the_same_steps(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    whole = (SAMPLES / "many.jsonl").read_bytes()
    path = tmp_path_factory.mktemp("pieces") / "events.jsonl"
    path.touch()
    place = BEGINNING
    steps: tuple[Step, ...] = ()
    bounds = [0, *sorted(cuts), len(whole)]
    for start, end in pairwise(bounds):
        append(path, whole[start:end])
        reading = read_transcript(path.parent, path.name, place)
        assert not reading.is_anew
        place = reading.place
        steps += reading.steps
    assert steps == steps_of("many")


@pytest.mark.parametrize("how", ["replaced", "cut", "rewritten in place"])
def test_another_file_is_read_from_its_beginning(tmp_path: Path, how: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"type":"step","message":"old"}\n' * 3)
    first = read_transcript(tmp_path, path.name)
    new = b'{"type":"step","message":"new"}\n'
    if how == "replaced":
        (tmp_path / "next").write_bytes(new * 9)
        (tmp_path / "next").replace(path)
    else:
        path.write_bytes(new if how == "cut" else new * 9)
    second = read_transcript(tmp_path, path.name, first.place)
    assert second.is_anew
    assert {step.text for step in second.steps} == {"new"}


def test_a_file_that_went_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert not read_appended(tmp_path, path.name).is_anew
    path.write_bytes(b"one\n")
    first = read_appended(tmp_path, path.name)
    path.unlink()
    gone = read_appended(tmp_path, path.name, first.place)
    assert (gone.is_anew, gone.lines) == (True, ())
    assert not read_appended(tmp_path, path.name, gone.place).is_anew


def test_a_long_line_is_skipped_however_it_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appended_lines, "LINE_LIMIT", 100)
    monkeypatch.setattr(appended_lines, "READ_LIMIT", 250)
    path = tmp_path / "lines"
    path.write_bytes(b"first\n" + b"x" * 1000 + b"\nlast\n" + b"y" * 101)
    lines: list[bytes] = []
    skipped = 0
    place: Place = BEGINNING
    while True:
        reading = read_appended(tmp_path, path.name, place)
        assert not reading.is_anew
        lines += reading.lines
        skipped += reading.skipped
        place = reading.place
        if not reading.has_more:
            break
    assert (lines, skipped) == ([b"first", b"last"], 2)
    append(path, b"yy\nafter\n")
    after = read_appended(tmp_path, path.name, place)
    assert (after.lines, after.skipped) == ((b"after",), 0)


@pytest.mark.parametrize("linked", ["events", "events/claude", "events/claude/common_transcript/events.jsonl"])
def test_no_link_is_followed(tmp_path: Path, linked: str) -> None:
    relative = "events/claude/common_transcript/events.jsonl"
    (tmp_path / relative).parent.mkdir(parents=True)
    (tmp_path / relative).write_bytes(b"secret\n")
    assert read_appended(tmp_path, relative).lines == (b"secret",)
    (tmp_path / linked).rename(tmp_path / "elsewhere")
    (tmp_path / linked).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"Not a directory|symbolic link"):
        read_appended(tmp_path, relative)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no plain file"):
        read_appended(tmp_path, "pipe")
    with pytest.raises(ValueError, match="no plain path"):
        read_appended(tmp_path, "../etc/passwd")
