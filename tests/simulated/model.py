"""The scripted model in threads of the test's process."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from selftest_core.demo.scripted_model.server import ModelServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_core.demo.scripted_model.testers import Stage


@contextlib.contextmanager
def running_model(log: Path, stage: Stage | None = None) -> Iterator[ModelServer]:
    """Serve for a block."""
    server = ModelServer(log, stage)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="scripted model", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
