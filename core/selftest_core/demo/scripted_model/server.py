"""The scripted model's server: listens on 127.0.0.1 only, answers, and logs requests and answers.

The log has one JSON object a line: `at` (seconds since the epoch), `event`, and its fields.

    asked      conversation, model, folder, play, step, is_aside, said (its end)
    refused    conversation, status: an error was sent instead of an answer
    answered   conversation, message, model, tool (empty: the turn ends), is_aside, usage (tokens): all of it was sent
    begun      the same: the first event was sent, which has the tokens that were read, and one that is written
    broken     conversation: the stream was broken off on purpose, or the agent disconnected
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
import time
import uuid
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.demo.scripted_model.answers import FOR_EVER
from selftest_core.demo.scripted_model.conversation import read_messages, read_responses
from selftest_core.demo.scripted_model.plays import answer
from selftest_core.demo.scripted_model.streams import (  # fmt: skip
    message_document,
    message_events,
    response_events,
    usage_of,
)
from selftest_core.demo.scripted_model.testers import Stage, read_stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from selftest_core.demo.scripted_model.answers import Answer, Refusal
    from selftest_core.demo.scripted_model.conversation import Conversation
    from selftest_core.demo.scripted_model.streams import StreamEvent

LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of a request; a larger one is refused."""
HOST = "127.0.0.1"
_LONGEST_SILENCE = 30.0
"""Seconds after which a connection without a request is closed."""
_RETRIED = (429, 529)
_SAID = 300


class ModelServer(ThreadingHTTPServer):
    """A listening model. `log`: the file of the log; `stage`: the stories of the tests. Answers in threads."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, log: Path, stage: Stage | None = None, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.stage = stage or Stage()
        self._log = log.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, ...], int] = {}

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://{HOST}:{self.server_address[1]}"

    def note(self, event: str, **what: Any) -> None:
        """Write one line of the log. For any thread."""
        line = json.dumps({"at": round(time.time(), 3), "event": event, **what})
        with self._lock:
            self._log.write(f"{line}\n")
            self._log.flush()

    def times(self, talk: Conversation) -> int:
        """Count this request for this step of the conversation, and return the count. For any thread."""
        key = (talk.key, talk.said, str(talk.asked), str(len(talk.results)))
        with self._lock:
            self._asked[key] = self._asked.get(key, 0) + 1
            return self._asked[key]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore an agent that disconnects; report anything else."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def server_close(self) -> None:
        """Stop listening and close the log."""
        super().server_close()
        with self._lock:
            self._log.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _LONGEST_SILENCE
    server: ModelServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class names it so
        """Nothing: the log is `ModelServer.note`."""

    def do_HEAD(self) -> None:
        """Answer a check whether the server runs."""
        self._send({}, with_body=False)

    def do_GET(self) -> None:
        """Return the list of models."""
        if self.path.split("?")[0].endswith("/models"):
            self._send({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})
        else:
            self._send(_error("not_found_error", "No such path."), 404)

    def do_POST(self) -> None:
        """Answer a request to the model."""
        body = self._body()
        path = self.path.split("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        if body is None:
            self.close_connection = True
            self._send(_error("invalid_request_error", "The request is not a JSON object, or is too large."), 400)
        elif path.endswith("/messages/count_tokens"):
            self._send({"input_tokens": len(json.dumps(body)) // 4})
        elif path.endswith("/messages"):
            self._answer(read_messages(body, headers), is_messages=True, is_stream=bool(body.get("stream")))
        elif path.endswith("/responses"):
            self._answer(read_responses(body, headers), is_messages=False, is_stream=True)
        else:
            self._send(_error("not_found_error", "No such path."), 404)

    def _answer(self, talk: Conversation, *, is_messages: bool, is_stream: bool) -> None:
        name, made = answer(talk, self.server.stage)
        times = self.server.times(talk)
        about = {"conversation": talk.key, "is_aside": talk.is_aside}
        self.server.note(
            "asked", **about, model=talk.model, folder=talk.folder, play=name, step=len(talk.results),
            said=talk.said[-_SAID:],
        )  # fmt: skip
        if made.refusal is not None and times <= made.refusal.times:
            self._refuse(made.refusal, about)
            return
        number = uuid.uuid4().hex[:20]
        usage = usage_of(made)
        sent = {
            "message": f"{'msg' if is_messages else 'resp'}_{number}", "model": talk.model, "tool": made.tool,
            "usage": asdict(usage),
        }  # fmt: skip
        begun = {**about, **sent, "usage": asdict(replace(usage, output=1))}
        try:
            time.sleep(made.silence)
            if not is_stream:
                self._send(message_document(made, usage, talk.model, number))
            elif is_messages:
                self._stream(message_events(made, usage, talk.model, number), made, times, begun)
            else:
                self._stream(response_events(made, usage, number), made, times)
        except OSError:
            self.server.note("broken", **about)
            self.close_connection = True
            return
        self.server.note("answered", **about, **sent)

    def _refuse(self, refusal: Refusal, about: dict[str, Any]) -> None:
        headers = {"x-should-retry": "true" if refusal.status in _RETRIED else "false"}
        if refusal.retry_after and refusal.times < FOR_EVER:
            headers["retry-after"] = str(refusal.retry_after)
        self._send(_error(refusal.kind, refusal.message), refusal.status, headers)
        self.server.note("refused", **about, status=refusal.status)

    def _stream(
        self, events: Iterator[StreamEvent], made: Answer, times: int, begun: dict[str, Any] | None = None
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        whole = list(events)
        sent = whole[: len(whole) // 2] if times <= made.broken else whole
        for number, event in enumerate(sent):
            time.sleep(event.pause)
            self.wfile.write(event.encoded())
            self.wfile.flush()
            if number == 0 and begun is not None:
                self.server.note("begun", **begun)
        if len(sent) < len(whole):
            raise ConnectionAbortedError("broken off on purpose")

    def _send(
        self, document: object, status: int = 200, headers: dict[str, str] | None = None, *, with_body: bool = True
    ) -> None:
        data = json.dumps(document).encode() if with_body else b""
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(data), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> dict[str, Any] | None:
        """Read the request's JSON object; None if it is no object, or too large."""
        try:
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                raw = self._chunks()
            else:
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length) if 0 <= length <= LARGEST_BODY else b""
            document = json.loads(raw)
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    def _chunks(self) -> bytes:
        raw = b""
        while size := int(self.rfile.readline(100).split(b";")[0], 16):
            if size < 0 or len(raw) + size > LARGEST_BODY:
                raise ValueError("too large")
            raw += self.rfile.read(size)
            self.rfile.readline(100)
        self.rfile.readline(100)
        return raw


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until a signal; the base URL is written to `--url` once the server listens."""
    parser = argparse.ArgumentParser("scripted_model", description="A scripted model on 127.0.0.1, for coding agents.")
    parser.add_argument("--log", type=Path, required=True, help="the file that gets a line of JSON for each event")
    parser.add_argument("--url", type=Path, required=True, help="the file that gets the base URL")
    parser.add_argument("--stage", type=Path, help="a JSON file with the stories of a run's tests")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--with-parent", action="store_true", help="end when the process that started this has ended")
    said = parser.parse_args(arguments)
    parent = os.getppid()
    server = ModelServer(said.log, read_stage(said.stage) if said.stage else None, said.port)
    draft = said.url.with_name(f"{said.url.name}.draft")
    draft.write_text(server.url, encoding="utf-8")
    draft.replace(said.url)
    if said.with_parent:
        threading.Thread(target=_end_with, args=(parent,), name="wait for the parent's end", daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    server.server_close()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)  # no event for a parent's end exists on every system
    os._exit(0)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}
