"""The command line: runs the command that the arguments name, and returns its exit status.

`--help` answers in some 100 ms, so nothing here may import Textual, pydantic or mngr's parts at the top. Statuses: 0
done; 1 done, with something left; 2 usage, configuration or a broken tool; 3 stopped early; 4 refused for safety.
Every error is shown by `selftest_tui.cli.command`, never as a traceback.
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

    from selftest_core.config import Config
    from selftest_core.run.store import RunFolder

STOPPED_EARLY = 3
_SECONDS_OF_ONE_HANGUP = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
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
        return _show(_stopped_early(), environ, words)
    except BrokenPipeError:
        # The reader of our output has closed it, as `head` does: not an error.
        return 0
    except OSError as error:
        # Errors of files have a file name; one without it is about a stream.
        return _show(_unwritable(error) if error.filename is None else error, environ, words)
    except Exception as error:
        # The last resort: the user never sees a traceback.
        return _show(error, environ, words)
    finally:
        _flush_or_forget()
    return status


def _dispatch(words: Sequence[str], environ: Mapping[str, str]) -> int:
    if not words:  # the screen does not wait for the parser
        from selftest_core.config import load_config

        cwd = _folder()
        return _supervise(load_config(cwd, environ), environ, cwd)
    from selftest_tui.cli.arguments import parse
    from selftest_tui.cli.command import Call

    arguments = parse(words)
    call = Call(arguments, environ, _folder())
    if arguments.command is None:
        return _supervise(call.config, call.environ, call.cwd)
    status: int = arguments.run(call)
    return status


def _supervise(config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Open the screen: on the run of this repository that is live or can be resumed, else on the fleet."""
    from selftest_tui.cli.command import require_terminal
    from selftest_tui.shared.loading import loading

    require_terminal("`selftest-tui list` lists the agents once, `selftest-tui list --batch` as JSON.")
    with loading():
        from selftest_tui.app.app import run

    folder = _open_run(cwd, environ)
    return run(config, environ) if folder is None else run(config, environ, run=folder)


def _open_run(cwd: Path, environ: Mapping[str, str]) -> RunFolder | None:
    """Return the run to open in the repository around `cwd`. Calls git only where a run exists."""
    top = next((folder for folder in (cwd, *cwd.parents) if (folder / ".selftest" / "runs").is_dir()), None)
    if top is None:
        return None
    from selftest_core.run.overview import open_run

    return open_run(environ, top)


def _folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("The folder that this was started in is gone", "", "`cd` to one that exists.") from error


def _stop_on(*numbers: int) -> None:
    """Make these signals stop the program as Ctrl-C does, so that no mngr is left running. Ignored ones stay ignored.

    A closing terminal sends several: those that soon follow the first must not interrupt the shutdown.
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


def _stopped_early() -> SelftestError:
    stopped = SelftestError("Stopped")
    stopped.exit_status = STOPPED_EARLY
    return stopped


def _show(error: Exception, environ: Mapping[str, str], words: Sequence[str]) -> int:
    from selftest_tui.cli.arguments import split
    from selftest_tui.cli.command import show_error

    try:
        return show_error(error, environ, is_batch="--batch" in split(words)[0])
    except OSError:  # a closed terminal or a full disk: the error cannot be shown
        return error.exit_status if isinstance(error, SelftestError) else 2


def _open_missing_streams() -> None:
    """Replace streams that were closed at the start (`>&-`) by /dev/null, so that no file of ours gets their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 -- open until the program ends
    for stream in (sys.stdout, sys.stderr):
        # Characters outside of the locale are written as `?`.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _unwritable(error: OSError) -> SelftestError:
    return SelftestError(
        "The output could not be written",
        error.strerror or str(error),
        "Free some space there, or write to another place.",
    )


def _flush_or_forget() -> None:
    """Flush the streams; if that fails, redirect them to /dev/null so that the interpreter's flush cannot fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
