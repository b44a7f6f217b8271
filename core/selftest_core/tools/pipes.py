"""Speaking with a running program over its pipes: both outputs read while they come, its input written as it takes it.

Apart from `process`, which starts and ends programs: here are file descriptors, a deadline and a cap alone.
"""

from __future__ import annotations

import os
import selectors
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_STDERR_KEPT = 256 * 1024
_CHUNK = 256 * 1024
_AFTERMATH = 0.25
"""Seconds of silence after which a pipe that an orphan of an ended program keeps open is given up."""
_TO_SEE_THE_END = 0.01
_BETWEEN_LOOKS = 1.0


class InterruptedExchange(Exception):  # noqa: N818 -- no error: somebody asked for it
    """Another thread asked to stop."""


class TooLate(Exception):  # noqa: N818 -- `process` makes the error that a person meets
    """The deadline has passed; `stderr` is what was said there until then."""

    def __init__(self, stderr: bytes) -> None:
        super().__init__()
        self.stderr = stderr


class TooMuch(Exception):  # noqa: N818 -- `process` makes the error that a person meets
    """It printed more than the cap."""


def exchange(
    out: int,
    errors: int,
    stdin: IO[bytes] | None,
    text: bytes,
    *,
    ear: int,
    has_ended: Callable[[], bool],
    deadline: float,
    limit: int,
) -> tuple[bytes, bytes]:
    """Write `text` to `stdin` and close it, read both outputs until the program has ended; returns both.

    `deadline` is a time of time.monotonic(); a byte on `ear` stops at once; `limit` is in bytes of `out`. Of stderr
    the end is kept. Raises InterruptedExchange, TooLate and TooMuch, and leaves the program as it is then.
    """
    gathered = {out: bytearray(), errors: bytearray()}
    to_write = memoryview(text)
    with selectors.DefaultSelector() as selector:
        for stream in (out, errors, ear):
            os.set_blocking(stream, False)
            selector.register(stream, selectors.EVENT_READ)
        if stdin is not None:
            os.set_blocking(stdin.fileno(), False)
            selector.register(stdin, selectors.EVENT_WRITE)
        open_pipes = 2
        while True:
            # Asked before the pipes are, so that what it wrote last is always seen.
            ended = has_ended()
            if ended and not open_pipes:
                return bytes(gathered[out]), bytes(gathered[errors])
            left = deadline - time.monotonic()
            # With both pipes closed only the end itself is awaited, and it sends no event here.
            patience = _AFTERMATH if ended else _BETWEEN_LOOKS if open_pipes else _TO_SEE_THE_END
            ready = selector.select(max(0.0, min(left, patience)))
            if ended and not ready:
                return bytes(gathered[out]), bytes(gathered[errors])
            for key, _ in ready:
                if key.fd == ear:
                    raise InterruptedExchange
                if key.fd in gathered:
                    chunk = _available(key.fd)
                    if chunk is None:
                        selector.unregister(key.fd)
                        open_pipes -= 1
                    else:
                        gathered[key.fd] += chunk
                elif stdin is not None:
                    to_write = _written(key.fd, to_write)
                    if not to_write:
                        selector.unregister(stdin)
                        stdin.close()
            del gathered[errors][:-_STDERR_KEPT]
            if len(gathered[out]) > limit:
                raise TooMuch
            # We may have been held up, not the program: so what has come until now counts, and an end as well.
            if left <= 0 and ended:
                return bytes(gathered[out]), bytes(gathered[errors])
            if left <= 0:
                raise TooLate(bytes(gathered[errors]))


def _available(fd: int) -> bytes | None:
    """What can be read now (nothing is b""), or None at the end."""
    try:
        return os.read(fd, _CHUNK) or None
    except BlockingIOError:
        return b""


def _written(fd: int, text: memoryview) -> memoryview:
    """What is left to write; nothing where the reader has gone, which is its right."""
    if not text:
        return text
    try:
        return text[os.write(fd, text[:65536]) :]
    except BlockingIOError:
        return text
    except BrokenPipeError:
        return text[:0]
