"""Streams of the scripted model's answers in the format of each API: events with the pauses before them. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.demo.scripted_model.answers import Answer

WORDS_PER_SECOND = 80.0
_PIECE = 80


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that an answer reports. `input`: without those from the cache."""

    input: int
    output: int
    cache_read: int
    cache_creation: int


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream; `pause` seconds are waited before it."""

    kind: str
    fields: dict[str, Any]
    pause: float = 0.0

    def encoded(self) -> bytes:
        """Encode the event as a server-sent event."""
        return f"event: {self.kind}\ndata: {json.dumps({'type': self.kind, **self.fields})}\n\n".encode()


def usage_of(answer: Answer) -> Usage:
    """Compute the tokens of an answer: its context, and its own length at four letters a token."""
    created = min(500, answer.context)
    written = 8 + len(answer.words) // 4 + len(json.dumps(dict(answer.given))) // 4
    return Usage(input=20, output=written, cache_read=answer.context - created, cache_creation=created)


def messages_usage(usage: Usage) -> dict[str, int]:
    """Encode the usage for the Messages API."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_creation,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def message_document(answer: Answer, usage: Usage, model: str, number: str) -> dict[str, Any]:
    """Encode an answer of the Messages API without streaming."""
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.words}] if answer.words else []
    if answer.tool:
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": answer.tool, "input": dict(answer.given)})
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": "tool_use" if answer.tool else "end_turn", "stop_sequence": None, "usage": messages_usage(usage),
    }  # fmt: skip


def message_events(answer: Answer, usage: Usage, model: str, number: str) -> Iterator[StreamEvent]:
    """Encode an answer as the stream of the Messages API."""
    whole = message_document(answer, usage, model, number)
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield StreamEvent("message_start", {"message": begun})
    index = 0
    if answer.words:
        yield StreamEvent("content_block_start", {"index": index, "content_block": {"type": "text", "text": ""}})
        for word, pause in _words(answer):
            delta = {"type": "text_delta", "text": word}
            yield StreamEvent("content_block_delta", {"index": index, "delta": delta}, pause)
        yield StreamEvent("content_block_stop", {"index": index})
        index += 1
    if answer.tool:
        call = {**whole["content"][-1], "input": {}}
        yield StreamEvent("content_block_start", {"index": index, "content_block": call})
        text = json.dumps(dict(answer.given))
        for start in range(0, len(text), _PIECE):
            delta = {"type": "input_json_delta", "partial_json": text[start : start + _PIECE]}
            yield StreamEvent("content_block_delta", {"index": index, "delta": delta})
        yield StreamEvent("content_block_stop", {"index": index})
    yield StreamEvent(
        "message_delta",
        {"delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None}, "usage": whole["usage"]},
    )
    yield StreamEvent("message_stop", {})


def response_events(answer: Answer, usage: Usage, number: str) -> Iterator[StreamEvent]:
    """Encode an answer as the stream of the Responses API, with numbered events."""
    for count, event in enumerate(_response_events(answer, usage, number)):
        yield StreamEvent(event.kind, {"sequence_number": count, **event.fields}, event.pause)


def _response_events(answer: Answer, usage: Usage, number: str) -> Iterator[StreamEvent]:
    output: list[dict[str, Any]] = []
    begun = {"id": f"resp_{number}", "object": "response", "status": "in_progress", "output": []}
    yield StreamEvent("response.created", {"response": begun})
    if answer.words:
        item: dict[str, Any] = {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "status": "in_progress", "content": []
        }  # fmt: skip
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield StreamEvent("response.output_item.added", {"output_index": 0, "item": item})
        yield StreamEvent("response.content_part.added", {**place, "part": part})
        for word, pause in _words(answer):
            yield StreamEvent("response.output_text.delta", {**place, "delta": word}, pause)
        yield StreamEvent("response.output_text.done", {**place, "text": answer.words})
        output.append({**item, "status": "completed", "content": [{**part, "text": answer.words}]})
        yield StreamEvent("response.output_item.done", {"output_index": 0, "item": output[0]})
    if answer.tool:
        place = {"output_index": len(output)}
        call = {
            "id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": f"call_{number}",
            "name": answer.tool, "arguments": json.dumps(dict(answer.given)),
        }  # fmt: skip
        yield StreamEvent("response.output_item.added", {**place, "item": {**call, "arguments": ""}})
        done = {"item_id": call["id"], "arguments": call["arguments"]}
        yield StreamEvent("response.function_call_arguments.done", {**place, **done})
        yield StreamEvent("response.output_item.done", {**place, "item": call})
        output.append(call)
    whole = {**begun, "status": "completed", "output": output, "usage": _responses_usage(usage)}
    yield StreamEvent("response.completed", {"response": whole})


def _responses_usage(usage: Usage) -> dict[str, Any]:
    """Encode the usage for the Responses API: cached tokens are part of the input."""
    read = usage.input + usage.cache_read + usage.cache_creation
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + usage.output,
    }


def _words(answer: Answer) -> Iterator[tuple[str, float]]:
    words = re.findall(r"\s*\S+\s*", answer.words)
    pause = answer.seconds / max(1, len(words)) if answer.seconds else 1 / WORDS_PER_SECOND
    for word in words:
        yield word, pause
