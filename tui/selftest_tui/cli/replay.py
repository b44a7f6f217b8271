"""`selftest-tui replay`: a recording on the screen, or one moment of it as text, with colours, or as a picture.

The same engine does both. Without a screen nothing of a recording is obeyed either: what is printed are characters,
and with `--format ansi` colours.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_tui.shared.loading import loading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_recorder.cast.events import Problem

DONE = 0


def replay(
    arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path, *, has_terminal: bool
) -> int:
    """Show it, or print a moment of it."""
    if arguments.recording is None:
        hint = "A file, or the name of an agent: `selftest-tui runs` lists the runs."
        raise UsageError("It is not said which recording to play", "", hint)
    path, title = _find(arguments.recording, environ, cwd)
    if arguments.format is None and not arguments.batch:
        if not has_terminal:
            hint = "`selftest-tui replay FILE --format text` prints a moment of it."
            raise UsageError("There is no terminal to show the screen on", "", hint)
        with loading():
            from selftest_recorder.cast.reader import read_cast
            from selftest_tui.app.replay_app import run_replay

        at = None
        if arguments.at is not None:
            at = _moment(arguments.at, None)
        read_cast(path)  # what is no recording is said here, not on a screen
        return run_replay(path, environ, at=at, title=title, theme=config.theme)
    return _print(arguments, environ, path, title)


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
            from selftest_tui.cli import batch

            document = replay_document(
                seconds=timeline.time,
                duration=timeline.duration,
                columns=update.columns,
                lines=frames.text_lines(rows),
                markers=[(marker.time, marker.label) for marker in timeline.markers],
                skipped=[(one.line, one.says) for one in timeline.recording.problems],
            )
            batch.write_answer(document.model_dump(mode="json"), is_batch=True)
        else:
            match arguments.format:
                case "svg":
                    sys.stdout.write(frames.svg(rows, update.columns, title))
                case "ansi":
                    sys.stdout.write("".join(f"{line}\n" for line in frames.ansi_lines(rows)))
                case _:
                    sys.stdout.write("".join(f"{line}\n" for line in frames.text_lines(rows)))
        sys.stdout.flush()
        return _tell(timeline.recording.problems, timeline.recording.unlisted_problems)


def _tell(problems: Sequence[Problem], more: int) -> int:
    """What was skipped, on stderr. A damaged recording is shown as far as it goes; that is no failure."""
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
        detail = "" if time is None else "On the screen it must be one from the beginning."
        raise UsageError(f"--at {text[:40]!r} is no time", detail, "Such as 134, 134.5, 2:14 or 1:02:14.")
    return time


def _find(name: str, environ: Mapping[str, str], cwd: Path) -> tuple[Path, str]:
    """The file of that name; else the newest recording of the agent of that name, in the runs of this repository."""
    path = cwd / name
    if path.exists() or "/" in name or re.search(r"\.cast(\.gz)?$|\.json$", name):
        return path, path.name
    from selftest_tui.replay.recordings import recording_of_agent

    found = recording_of_agent(name, environ, cwd)
    if found is None:
        detail = "It is no file here, and no run of this repository has a recording of an agent of that name."
        raise UsageError(f"There is no recording {name[:60]!r}", detail, "`selftest-tui runs` lists the runs.")
    return found, name
