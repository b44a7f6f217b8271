"""Parts of all commands: their call, with its settings; JSON on stdout; messages, progress and errors on stderr.

`--json` prints one document. `--batch` prints one JSON object a line, each with `event`, `at` and `run`; the last line
is the summary, or the error that ended the command. The models are in `selftest_core.schema`.

Errors are shown here and nowhere else: title, details, hint, without a traceback. SELFTEST_TUI_DEBUG=1 adds the
traceback. Texts of agents and programs are made harmless.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from selftest_core.errors import SelftestError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from selftest_core.config import Config
    from selftest_core.review.changes.inputs import Request

    type AddCommand = Callable[[str, str], argparse.ArgumentParser]
    """Makes the parser of a command from the rest of its description and its examples."""

DONE = 0
SOMETHING_LEFT = 1
INTERNAL = 2
"""The exit status of an error that is a defect of this program."""
STOPPED_EARLY = 3

_DETAIL_LINES = 20
_PATIENCE = 1.0
"""Seconds before a progress line is shown, and between two of its updates."""
_CLEAR = "\r\x1b[K"


class Call:
    """One call of a command: its arguments, its environment and its folder. The settings are read when asked for."""

    def __init__(self, arguments: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> None:
        self.arguments = arguments
        self.cwd = cwd
        self.environ = dict(environ)
        self._overrides = _overrides(arguments)
        self._environ = environ
        if self._overrides:
            from selftest_core.config import as_variables

            self.environ |= as_variables(self._overrides)  # for conductors, which read their settings themselves

    @cached_property
    def config(self) -> Config:
        """The settings. Raises UsageError for a setting that is wrong."""
        from selftest_core.config import load_config

        return load_config(self.cwd, self._environ, self._overrides)

    @property
    def is_for_programs(self) -> bool:
        """True where JSON is printed."""
        return bool(self.arguments.batch or getattr(self.arguments, "json", False))


def _overrides(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the settings that flags change, as `load_config` takes them."""
    overrides: dict[str, str] = {}
    if arguments.sockets:
        overrides["sockets"] = os.pathsep.join(arguments.sockets)
    for setting in arguments.settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--set wants KEY=VALUE, not {setting[:60]!r}", "", "Such as `--set poll_local=10`.")
        overrides[name.strip()] = value
    return overrides


def count(text: str) -> int:
    """Parse a number of agents, for argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


# What is reviewed, or verified


def add_targets(command: argparse.ArgumentParser) -> None:
    """Add the flags that say what is reviewed, or verified."""
    what = command.add_argument_group("branches")
    what.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a run, or one BASE..BRANCH, or branches with --base"
    )
    what.add_argument("--agents", nargs="+", action="extend", metavar="NAME", help="agents, whoever started them")
    what.add_argument("--base", metavar="REF", help="the commit that the branches start from")
    command.add_argument("--onto", metavar="REF", help="rebase onto this commit, such as a newer main")


def review_request(arguments: argparse.Namespace, cwd: Path) -> Request:
    """Return what the flags ask for. Raises UsageError for flags that do not go together."""
    if arguments.pr and arguments.publish is None:
        raise UsageError(
            "--pr needs --publish", "A pull request is made from a published branch.", "Add --publish BRANCH."
        )
    from selftest_core.review.changes.inputs import Request

    return Request(
        targets=tuple(arguments.targets),
        base=arguments.base,
        onto=arguments.onto,
        decisions=None if arguments.decisions is None else cwd / arguments.decisions,
        publish=arguments.publish,
        pr=arguments.pr,
        agents=tuple(arguments.agents or ()),
    )


# JSON


def write_line(fields: Mapping[str, Any]) -> None:
    """Write one line of JSON and flush it."""
    # ASCII, so that no locale can break it.
    sys.stdout.write(json.dumps(fields, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def write_answer(document: Mapping[str, Any], *, is_batch: bool) -> None:
    """Write the document of a command: indented under `--json`, as its summary line under `--batch`."""
    if not is_batch:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        sys.stdout.flush()
        return
    from selftest_core.schema.model import instant

    write_line({"event": "summary", "at": instant(time.time()), "run": None, **document})


def add_schema(add_command: AddCommand) -> None:
    """Add the command `schema`, which describes the JSON of all commands."""
    command = add_command(
        "It covers everything that --json and --batch print.",
        "selftest-tui schema > selftest-tui.schema.json",
    )
    command.set_defaults(run=schema)


def schema(call: Call) -> int:
    """Print the schema."""
    from selftest_core.schema.registry import schema as all_documents

    write_answer(all_documents(), is_batch=call.arguments.batch)
    return DONE


# texts


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def tell(text: str) -> None:
    """Print one message on stderr, made harmless."""
    from selftest_tui.shared.present import clean

    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()


def has_terminal() -> bool:
    """Return True if a screen can be shown and a question can be answered."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def require_terminal(advice: str) -> None:
    """Raise UsageError with `advice` if no screen can be shown."""
    if not has_terminal():
        raise UsageError("There is no terminal to show the screen on", "", advice)
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "No screen can be shown, as TERM is dumb", "", f"Set TERM to the name of your terminal. {advice}"
        )


class Progress:
    """Shows `text` and the seconds on stderr while its block takes longer than a second; only on a terminal."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        seconds = 0.0
        while not self._over.wait(_PATIENCE):
            seconds += _PATIENCE
            sys.stderr.write(f"{_CLEAR}{self._text} … {seconds:.0f} s")
            sys.stderr.flush()
        if seconds:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


# errors

_OF_THE_MACHINE = {
    errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOSPC,
    errno.ENOTDIR, errno.EPERM, errno.EROFS,
}  # fmt: skip
"""Errors of files that say how the machine is, not that something is wrong inside this program."""


def show_error(error: Exception, environ: Mapping[str, str], *, is_batch: bool) -> int:
    """Print an error, and return its exit status."""
    from selftest_tui.shared.present import clean

    if not isinstance(error, SelftestError):
        error = _defect(error)
    lines = [f"selftest-tui: {clean(error.title)}"]
    lines += [f"  {clean(line)}" for line in _lines(error.detail)[-_DETAIL_LINES:]]
    lines += [f"  → {clean(line)}" for line in _lines(error.hint)]
    if environ.get("SELFTEST_TUI_DEBUG", "") not in ("", "0"):
        import traceback

        lines += [clean(line) for line in _lines("".join(traceback.format_exception(error)))]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()
    if is_batch:
        from selftest_core.schema.model import error_line

        write_line(error_line(error, time.time()).model_dump(mode="json"))
    return error.exit_status


def _defect(error: Exception) -> SelftestError:
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes) and error.errno in _OF_THE_MACHINE:
        title = f"{os.fsdecode(error.filename)} cannot be used"
        made = SelftestError(title, error.strerror or str(error), "Move it, or allow to write there, then try again.")
        made.__cause__ = error
        return made
    detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    made = SelftestError(
        "Something went wrong inside selftest-tui",
        detail,
        "SELFTEST_TUI_DEBUG=1 shows where: please report it with that.",
    )
    made.exit_status = INTERNAL
    made.__cause__ = error
    return made


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
