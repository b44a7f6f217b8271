"""Blocks of the volumes of the control plane: an HTTP server on 127.0.0.1 that takes and gives bytes by their hash."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class BlockStore:
    """The server, in a thread of its own."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="block store", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    def url(self, digest: bytes = b"") -> str:
        """Return the address of a block."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{digest.hex()}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        blocks = self.blocks

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                blocks[hashlib.sha256(content).digest()] = content
                self._answer(b"kept")

            def do_GET(self) -> None:
                self._answer(blocks[bytes.fromhex(self.path[1:])])

            def _answer(self, content: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        return Handler
