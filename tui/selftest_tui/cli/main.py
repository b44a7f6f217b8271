"""The command line: arguments in, exit status out. Everything heavy is imported by the command that needs it.

`--help` answers in some 100 ms, so nothing here may import Textual, pydantic or mngr's parts at the top. Statuses: 0
done; 1 done, with something left; 2 usage, configuration or a broken tool; 3 stopped early; 4 refused for safety.
Every error ends in `selftest_tui.cli.error_text`, never in a traceback.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

STOPPED_EARLY = 3
_SECONDS_OF_ONE_HANGUP = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """The whole program; returns its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    environ = dict(os.environ)
    _open_missing_streams()
    try:
        _stop_on(signal.SIGTERM, signal.SIGHUP)
        try:
            status = _dispatch(words, environ)
        except SystemExit as ended:
            # argparse has printed the help or the version.
            status = ended.code if isinstance(ended.code, int) else 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _complain(_stopped(), environ, words)
    except BrokenPipeError:
        # Whoever read our output has enough, as `head` does: that is no error of ours, nor theirs.
        return 0
    except OSError as error:
        # Errors about files name them: this one is about a stream.
        return _complain(_unwritten(error) if error.filename is None else error, environ, words)
    except Exception as error:
        # The last place: a person never meets a traceback.
        return _complain(error, environ, words)
    finally:
        _flush_or_forget()
    return status


def _dispatch(words: Sequence[str], environ: Mapping[str, str]) -> int:
    from selftest_tui.cli import commands

    if not words:  # the screen waits for no parser
        from selftest_core.config import load_config

        cwd = _folder()
        return commands.supervise(load_config(cwd, environ), environ, cwd)
    from selftest_tui.cli.arguments import overrides_of, parse

    arguments = parse(words)
    cwd = _folder()
    if arguments.command == "doctor":
        return commands.doctor(arguments, environ, cwd)
    if arguments.command == "schema":
        return commands.schema(arguments)
    if arguments.command == "check":
        return commands.check(arguments, environ, cwd)
    from selftest_core.config import as_variables, load_config

    overrides = overrides_of(arguments)
    config = load_config(cwd, environ, overrides)
    environ = {**environ, **as_variables(overrides)}  # a conductor reads its settings itself
    match arguments.command:
        case None:
            return commands.supervise(config, environ, cwd)
        case "run":
            return commands.run(arguments, config, environ, cwd)
        case "runs":
            return commands.runs(arguments, config, environ, cwd)
        case "resume":
            return commands.resume(arguments, config, environ, cwd)
        case "review":
            return commands.review(arguments, config, environ, cwd)
        case "stop":
            return commands.stop(arguments, config, environ, cwd)
        case "list":
            return commands.list_fleet(arguments, config, environ, cwd)
        case "demo":
            return commands.demo(arguments, config, environ)
        case "record":
            return commands.record(arguments, config, environ, cwd)
        case "replay":
            return commands.replay(arguments, config, environ, cwd)
        case "sweep":
            return commands.sweep(arguments, environ, cwd)
        case _:
            raise UsageError(f"There is no command {arguments.command!r}")


def _folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("The folder that this was started in is gone", "", "`cd` to one that exists.") from error


def _stop_on(*numbers: int) -> None:
    """Let these signals stop us as Ctrl-C does, so that no mngr is left running. Ignored ones stay ignored.

    A closing terminal sends several: those soon behind the first must not interrupt the ending that it began.
    """
    last = -math.inf

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _SECONDS_OF_ONE_HANGUP:
            last = now
            raise KeyboardInterrupt

    for number in numbers:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)


def _stopped() -> SelftestError:
    stopped = SelftestError("Stopped")
    stopped.exit_status = STOPPED_EARLY
    return stopped


def _complain(error: Exception, environ: Mapping[str, str], words: Sequence[str]) -> int:
    from selftest_tui.cli.arguments import split
    from selftest_tui.cli.error_text import complain

    try:
        return complain(error, environ, is_batch="--batch" in split(words)[0])
    except OSError:  # a closed terminal, a full disk: nobody is there to be told
        return error.exit_status if isinstance(error, SelftestError) else 2


def _open_missing_streams() -> None:
    """Started with closed streams (`>&-`), we write to nowhere rather than fail, or write into a file of ours."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 -- lives as long as we do
    for stream in (sys.stdout, sys.stderr):
        # What cannot be written in this locale is written as `?`: names are not worth a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _unwritten(error: OSError) -> SelftestError:
    return SelftestError(
        "The output could not be written", error.strerror or str(error), "Free some space there, or write elsewhere."
    )


def _flush_or_forget() -> None:
    """Write what is left; where that cannot be, let the interpreter's last flush go nowhere, and not fail for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
