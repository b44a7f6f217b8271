"""Record terminals by orders: `python -m selftest_recorder.onhost --socket PATH --orders FILE --fifos FOLDER`."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .collector import LIMIT, Collector, Orders
from .masking import Masks

if TYPE_CHECKING:
    from types import FrameType

PATTERNS = "SELFTEST_RECORDER_PATTERNS"
"""Environment variable with the patterns as a JSON list; not an argument, since everybody can read those."""


def main(argv: list[str] | None = None) -> int:
    """Record until all orders are done; one process at a time for each folder of FIFOs."""
    parser = argparse.ArgumentParser(prog="selftest-recorder", description="Records panes of tmux.")
    parser.add_argument("--socket", required=True, help="of the tmux server")
    parser.add_argument("--orders", required=True, type=Path, help="file of lines: what to record")
    parser.add_argument("--fifos", required=True, type=Path, help="folder for the FIFOs, of this collector alone")
    parser.add_argument("--owner", type=Path, help="file that is locked as long as orders may come")
    parser.add_argument("--limit", type=int, default=LIMIT, help="bytes of one recording")
    parser.add_argument("--mask", action="append", default=[], metavar="NAME", help="mask the value of this variable")
    parser.add_argument("--patience", type=float, default=float("inf"), help="seconds to wait for panes")
    parser.add_argument("--detach", action="store_true", help="go on by itself, for one who does not wait")
    arguments = parser.parse_args(argv)
    os.umask(0o077)
    fifos = arguments.fifos.resolve()
    fifos.mkdir(mode=0o700, parents=True, exist_ok=True)
    if arguments.detach:
        _detach(fifos / "log")
    lock = os.open(fifos / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0  # another process does it already
    for left in fifos.iterdir():
        if left.name not in ("lock", "log"):  # left by a process that was killed
            with contextlib.suppress(OSError):
                left.unlink()
    collector = Collector(
        arguments.socket, fifos, Orders(arguments.orders),
        Masks(arguments.mask, json.loads(os.environ.get(PATTERNS, "[]")), os.environ),
        arguments.limit, arguments.owner, arguments.patience, _say,
    )  # fmt: skip

    def end(number: int, frame: FrameType | None) -> None:
        collector.end()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    collector.run()
    return 0


def _detach(log: Path) -> None:
    """Become a daemon: a process of its own, without the files of the process that started it."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    os.closerange(3, 256)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
