"""Command `record`: records tmux sessions into files, until they end or Ctrl-C."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_recorder.capture.recording_sessions import find_targets, record_sessions
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, print_lines, tell, write_answer
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from selftest_recorder.capture.recording_sessions import Recorded
    from selftest_tui.cli.command import AddCommand, Call


def add_record(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """Each session goes into a file of its own (asciicast v3), until it ends or Ctrl-C. Its active pane is
        recorded. The values of `env` and `mask_env` are masked. Runs record their agents themselves.""",
        """
        selftest-tui record build          the tmux session `build`, as build.cast
        selftest-tui record ada bob --to recordings
        selftest-tui record --batch ada | jq -r '.recordings[].file'
        """,
    )
    command.add_argument("sessions", nargs="*", metavar="SESSION", help="a tmux session, or a local agent")
    command.add_argument("--to", metavar="FOLDER", default=".", help="folder of the files; default: here")
    command.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    command.set_defaults(run=record)


def record(call: Call) -> int:
    """Record the sessions, and print the files. Returns 1 where a session could not be recorded."""
    arguments, config, environ, cwd = call.arguments, call.config, call.environ, call.cwd
    if not arguments.sessions:
        hint = "`selftest-tui list` shows the agents and the other sessions."
        raise UsageError("No session is given to record", "", hint)
    folder = cwd / arguments.to
    if not folder.is_dir():
        raise UsageError(f"There is no folder {arguments.to}", "", "Create it first, or leave --to out.")
    targets = find_targets(arguments.sessions, folder, environ, [str(path) for path in config.sockets])
    for target in targets:
        tell(f"recording {target.session} into {_shown(target.file, cwd)}")
    stop = "" if arguments.batch else " (Ctrl-C ends it)"
    tell(f"until {'it ends' if len(targets) == 1 else 'they end'}{stop}")
    signals: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, note)
    masked = tuple(dict.fromkeys((*config.env, *config.mask_env)))
    try:
        found = record_sessions(targets, environ, masked, config.mask_patterns, lambda: bool(signals))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _show(found, call)
    return SOMETHING_LEFT if any(one.says for one in found) else DONE


def _show(found: tuple[Recorded, ...], call: Call) -> None:
    if call.is_for_programs:
        from selftest_core.schema.recording import RecordDocument, RecordedItem

        items = [
            RecordedItem(session=one.target.session, file=str(one.target.file), bytes=one.size, says=one.says)
            for one in found
        ]
        write_answer(RecordDocument(recordings=items).model_dump(mode="json"), is_batch=call.arguments.batch)
        return
    notes = [f"  ({clean(one.says)})" if one.says else "" for one in found]
    print_lines(
        f"{one.size:>10,} bytes  {_shown(one.target.file, call.cwd)}{note}"
        for one, note in zip(found, notes, strict=True)
    )


def _shown(file: Path, cwd: Path) -> str:
    return clean(str(file.relative_to(cwd) if file.is_relative_to(cwd) else file))
