"""`selftest-tui record`: any tmux sessions into files, until they end or Ctrl-C."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_recorder.capture.recording_sessions import find_targets, record
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path
    from types import FrameType

    from selftest_core.config import Config
    from selftest_recorder.capture.recording_sessions import Recorded

DONE = 0
SOMETHING_LEFT = 1


def run(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Record, and say what was recorded. Ends with 1 where a session could not be."""
    if not arguments.sessions:
        hint = "`selftest-tui list` shows the agents and the other sessions that there are."
        raise UsageError("It is not said which session to record", "", hint)
    folder = cwd / arguments.to
    if not folder.is_dir():
        raise UsageError(f"There is no folder {arguments.to}", "", "Make it first, or leave --to out.")
    targets = find_targets(arguments.sessions, folder, environ, [str(path) for path in config.sockets])
    for target in targets:
        _say(f"recording {target.session} into {_shown(target.file, cwd)}")
    stop = "" if arguments.batch else " (Ctrl-C ends it)"
    _say(f"until {'it ends' if len(targets) == 1 else 'they end'}{stop}")
    signals: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, hear)
    masked = tuple(dict.fromkeys((*config.env, *config.mask_env)))
    try:
        found = record(targets, environ, masked, config.mask_patterns, lambda: bool(signals))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _show(found, arguments, cwd)
    return SOMETHING_LEFT if any(one.says for one in found) else DONE


def _show(found: tuple[Recorded, ...], arguments: argparse.Namespace, cwd: Path) -> None:
    if arguments.json or arguments.batch:
        from selftest_core.schema.recording import RecordDocument, RecordedItem
        from selftest_tui.cli import batch

        items = [
            RecordedItem(session=one.target.session, file=str(one.target.file), bytes=one.size, says=one.says)
            for one in found
        ]
        batch.write_answer(RecordDocument(recordings=items).model_dump(mode="json"), is_batch=arguments.batch)
        return
    for one in found:
        says = f"  ({clean(one.says)})" if one.says else ""
        sys.stdout.write(f"{one.size:>10,} bytes  {_shown(one.target.file, cwd)}{says}\n")
    sys.stdout.flush()


def _shown(file: Path, cwd: Path) -> str:
    return clean(str(file.relative_to(cwd) if file.is_relative_to(cwd) else file))


def _say(text: str) -> None:
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()
