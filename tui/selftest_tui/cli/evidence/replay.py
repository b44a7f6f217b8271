"""Command `replay`: plays a recording on the screen, or prints one moment as text, with colours, or as a picture.

Control sequences of a recording never reach the terminal: characters are printed, and with `--format ansi` colours.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_tui.cli.command import DONE, print_lines, require_terminal, write_answer
from selftest_tui.shared.loading import loading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_recorder.cast.events import Problem
    from selftest_tui.cli.command import AddCommand, Call


def add_replay(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """The player seeks, searches, steps and jumps to markers; it follows recordings that still grow. RECORDING is
        a file (asciicast v1, v2 or v3, also .gz), or an agent of a run of this repository: then its newest recording.
        With --format: print the screen at one moment; --format svg makes a picture.""",
        """
        selftest-tui replay demo.cast
        selftest-tui replay demo.cast --at 2:14
        selftest-tui replay demo.cast --at 134 --format text
        selftest-tui replay st-7f-login --format svg > end.svg
        """,
    )
    command.add_argument("recording", nargs="?", metavar="RECORDING", help="a file, or the name of an agent")
    command.add_argument("--at", metavar="TIME", help="seconds, M:SS or H:MM:SS; printed: also 50%%, -30; default: end")
    command.add_argument("--format", choices=("text", "ansi", "svg"), help="print that moment instead of playing")
    command.set_defaults(run=replay)


def replay(call: Call) -> int:
    """Play a recording, or print one moment of it."""
    arguments, environ, cwd = call.arguments, call.environ, call.cwd
    if arguments.recording is None:
        hint = "A file, or the name of an agent: `selftest-tui runs` lists the runs."
        raise UsageError("No recording is given to play", "", hint)
    path, title, is_ended = _find(arguments.recording, environ, cwd)
    if arguments.format is not None or arguments.batch:
        return _print(arguments, environ, path, title)
    require_terminal("`selftest-tui replay FILE --format text` prints a moment of it.")
    with loading():
        from selftest_recorder.cast.reader import read_cast
        from selftest_tui.app.replay_app import run_replay

    at = None if arguments.at is None else _moment(arguments.at, None)
    read_cast(path)  # a damaged file is reported here, not on a screen
    return run_replay(path, environ, at=at, title=title, config=call.config, is_ended=is_ended)


def _print(arguments: argparse.Namespace, environ: Mapping[str, str], path: Path, title: str) -> int:
    from selftest_recorder.index.timeline import open_timeline
    from selftest_tui.replay import frames

    with open_timeline(path, environ) as timeline:
        timeline.finish()
        at = timeline.duration if arguments.at is None else _moment(arguments.at, timeline.duration)
        timeline.seek(at)
        update = timeline.read_update(whole=True)
        rows = [update.rows.get(row, ()) for row in range(update.lines)]
        if arguments.batch:
            from selftest_core.schema.recording import replay_document

            document = replay_document(
                seconds=timeline.time,
                duration=timeline.duration,
                columns=update.columns,
                lines=frames.text_lines(rows),
                markers=[(marker.time, marker.label) for marker in timeline.markers],
                skipped=[(one.line, one.says) for one in timeline.recording.problems],
            )
            write_answer(document.model_dump(mode="json"), is_batch=True)
        else:
            match arguments.format:
                case "svg":
                    sys.stdout.write(frames.svg(rows, update.columns, title))
                case "ansi":
                    print_lines(frames.ansi_lines(rows))
                case _:
                    print_lines(frames.text_lines(rows))
        sys.stdout.flush()
        return _report_problems(timeline.recording.problems, timeline.recording.unlisted_problems)


def _report_problems(problems: Sequence[Problem], more: int) -> int:
    """Print the skipped lines on stderr. A damaged recording is shown as far as possible; that is no failure."""
    for one in problems[:20]:
        sys.stderr.write(f"line {one.line}: {one.says}\n")
    if len(problems) > 20 or more:
        sys.stderr.write(f"… and {max(len(problems) - 20, 0) + more} more\n")
    return DONE


def _moment(text: str, duration: float | None) -> float:
    from selftest_tui.replay.playhead import time_of

    needs_end = text.startswith("-") or text.endswith("%")
    time = time_of(text, duration or 0.0)
    if time is None or (needs_end and duration is None):
        detail = "" if time is None else "On the screen it must count from the beginning."
        raise UsageError(f"--at {text[:40]!r} is not a time", detail, "Such as 134, 134.5, 2:14 or 1:02:14.")
    return time


def _find(name: str, environ: Mapping[str, str], cwd: Path) -> tuple[Path, str, bool]:
    """Return the file of that name, else the newest recording of the agent of that name in this repository's runs.

    With it: a title, and whether its agent has ended.
    """
    path = cwd / name
    if path.exists() or "/" in name or re.search(r"\.cast(\.gz)?$|\.json$", name):
        return path, path.name, False
    from selftest_tui.replay.recordings import recording_of_agent

    found = recording_of_agent(name, environ, cwd)
    if found is None:
        detail = "There is no such file, and no run of this repository recorded an agent of that name."
        raise UsageError(f"There is no recording {name[:60]!r}", detail, "`selftest-tui runs` lists the runs.")
    return found.path, name, found.is_ended
