"""The command line: arguments in, exit status out. Everything heavy is imported by the command that needs it.

`--help` answers in some 100 ms, so nothing here may import Textual, pydantic or mngr's parts at the top. Statuses: 0
done; 1 done, with something left; 2 usage, configuration or a broken tool; 3 stopped early; 4 refused for safety.
Every error ends in `selftest_tui.complaint`, never in a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from selftest_core import __version__
from selftest_core.errors import SelftestError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from selftest_core.config import Key

STOPPED_EARLY = 3

_EPILOG = """\
examples:
  selftest-tui                    supervise the agents of this machine, and of
                                  every provider that mngr knows
  selftest-tui list               see them once
  selftest-tui list --json | jq '.agents[] | select(.attention) | .name'
  selftest-tui demo               try it on scripted agents; leaves nothing
  selftest-tui doctor             what is missing or wrong, and what mends it

settings (each: in selftest-tui.toml, in [tool.selftest-tui] of pyproject.toml,
in the environment as SELFTEST_TUI_ and its name in capitals, or by --set):
{settings}

exit status: 0 done; 1 done, with something left to look at; 2 usage,
configuration or a broken tool; 3 stopped early; 4 refused for safety
"""


class _Parser(argparse.ArgumentParser):
    """Errors are raised, so that one place shows them."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message[:1].upper() + message[1:], "", f"See `{self.prog} --help`.")


def _common(*, at_top: bool) -> _Parser:
    """The options that may stand before or after the command. Behind it they must not undo what stood before."""
    options = _Parser(add_help=False, allow_abbrev=False)
    group = options.add_argument_group("options of every command")
    group.add_argument(
        "--batch",
        action="store_true",
        default=False if at_top else argparse.SUPPRESS,
        help="no questions, no screen: JSON Lines on stdout, progress on stderr",
    )
    group.add_argument(
        "--socket",
        action="append",
        metavar="PATH",
        default=None,
        dest="sockets" if at_top else "more_sockets",
        help="look on this tmux socket too (again for more)",
    )
    group.add_argument(
        "--set",
        action="append",
        metavar="KEY=VALUE",
        default=None,
        dest="settings" if at_top else "more_settings",
        help="a setting for this once (again for more)",
    )
    return options


def build_parser() -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    """The parser, and the names of the commands that exist."""
    from selftest_core.config import CONFIG_KEYS

    settings = "\n".join(_setting_lines(key) for key in CONFIG_KEYS)
    parser = _Parser(
        prog="selftest-tui",
        description="Supervise a hundred coding agents: see who needs you, answer, attach, steer.",
        epilog=_EPILOG.format(settings=settings),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_common(at_top=True)],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"selftest-tui {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=_Parser)

    def command(name: str, says: str, examples: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=" ".join((says[:1].lower() + says[1:].split(".")[0]).split()),
            description=says,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[_common(at_top=False)],
            allow_abbrev=False,
        )

    listing = command(
        "list",
        "Show the fleet once. Ends with 0 even where a provider does not answer: its\n"
        "agents are shown as they were last known, as stale, and the error is listed.",
        "  selftest-tui list\n"
        "  selftest-tui list --no-wait        what is seen at once, without asking mngr\n"
        "  selftest-tui list --json | jq -r '.agents[] | [.name, .state] | @tsv'\n"
        "  selftest-tui list --json --socket /tmp/other/tmux-1000/default",
    )
    listing.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    listing.add_argument(
        "--no-wait", action="store_true", help="do not ask mngr: the local agents, and the others as last known"
    )
    check = command(
        "check",
        "Hold a tutorial against its tests. Every block must be cited by a test, and\n"
        "every citation be a block. Reads files only, runs nothing. Ends with 1 where\n"
        "something is uncited or stale.",
        "  selftest-tui check\n"
        "  selftest-tui check --tutorial docs/tour.sh --tests tests/e2e\n"
        "  selftest-tui check --json | jq '.uncited'",
    )
    check.add_argument("--tutorial", metavar="FILE", default="tutorial.sh", help="default: tutorial.sh")
    check.add_argument("--tests", metavar="DIR", default="tests", help="a folder or one file; default: tests")
    check.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    review = command(
        "review",
        "Turn many branches into one linear branch. Identical changes are collapsed and\n"
        "everybody is credited; conflicts are held out. Only what is kept is published;\n"
        "your checkout, index and other refs are never touched. Ends with 1 where\n"
        "something is undecided or held. Needs --batch: it has no screen yet.",
        "  selftest-tui review --batch main..fixes\n"
        "  selftest-tui review --batch --base main ada bob eve --publish fixes\n"
        "  selftest-tui review --batch --base main ada bob --decisions decisions.json",
    )
    review.add_argument("targets", nargs="*", metavar="TARGET", help="one BASE..BRANCH, or branches with --base")
    review.add_argument("--base", metavar="REF", help="what the branches build on: several become one line")
    review.add_argument("--onto", metavar="REF", help="lay the line on this commit instead, as on a newer main")
    review.add_argument("--decisions", metavar="FILE", help="keep, revert or undecided for each change, as JSON")
    review.add_argument("--publish", metavar="BRANCH", help="publish the base plus what is kept as this branch")
    doctor = command(
        "doctor",
        "Say what is missing or misconfigured, and the command that mends it.\nEnds with 1 where something is wrong.",
        "  selftest-tui doctor\n  selftest-tui doctor --json",
    )
    doctor.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    command(
        "schema",
        "Print the JSON Schema of everything that --json and --batch print.",
        "  selftest-tui schema > selftest-tui.schema.json",
    )
    demo = command(
        "demo",
        "Start a handful of scripted agents in a world of their own and supervise them.\n"
        "Needs mngr and tmux, but no model, no key and no network, and leaves nothing.",
        "  selftest-tui demo\n"
        "  selftest-tui demo --agents 12\n"
        "  selftest-tui demo --batch         no screen: what changes, as JSON Lines",
    )
    demo.add_argument("--agents", type=_count, default=None, metavar="N", help="how many to start; default: 8")
    demo.add_argument("--keep", action="store_true", help="leave the demo's world running; `sweep` removes it later")
    sweep = command(
        "sweep",
        "Remove what earlier demos left behind: tmux servers, processes, folders.\nShows them and asks first.",
        "  selftest-tui sweep\n  selftest-tui sweep --yes",
    )
    sweep.add_argument("--json", action="store_true", help="one JSON document on stdout instead of words")
    sweep.add_argument("--yes", action="store_true", help="do not ask")
    return parser, tuple(commands.choices)


def _setting_lines(key: Key) -> str:
    import textwrap

    says = textwrap.wrap(f"{key.says} (default {key.default_text})", 62)
    return "\n".join(f"  {key.name if number == 0 else '':<14} {line}" for number, line in enumerate(says))


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one call. Raises UsageError; `--help` and `--version` print and raise SystemExit."""
    parser, commands = build_parser()
    _check_command(argv, commands)
    arguments = parser.parse_args(argv)
    arguments.sockets = [*(arguments.sockets or ()), *(getattr(arguments, "more_sockets", None) or ())]
    arguments.settings = [*(arguments.settings or ()), *(getattr(arguments, "more_settings", None) or ())]
    return arguments


def _check_command(argv: Sequence[str], known: Sequence[str]) -> None:
    """Refuse an unknown command with the nearest known one; argparse would only list them all."""
    words = iter(argv)
    for word in words:
        if word in ("--socket", "--set"):
            next(words, None)
        elif word in known:
            return
        elif not word.startswith("-"):
            import difflib

            if word == "help":
                raise UsageError(
                    "There is no command 'help'", "", "`selftest-tui --help`, or `--help` after a command."
                )
            near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
            hint = f"Did you mean `selftest-tui {near[0]}`?" if near else f"The commands are: {', '.join(known)}."
            raise UsageError(f"There is no command {word[:60]!r}", "", hint)


def overrides_of(arguments: argparse.Namespace) -> dict[str, str]:
    """What the flags set, as `load_config` takes it."""
    overrides: dict[str, str] = {}
    if arguments.sockets:
        overrides["sockets"] = os.pathsep.join(arguments.sockets)
    for setting in arguments.settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--set wants KEY=VALUE, not {setting[:60]!r}", "", "Such as `--set poll_local=10`.")
        overrides[name.strip()] = value
    return overrides


def main(argv: Sequence[str] | None = None) -> int:
    """The whole program; returns its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    environ = dict(os.environ)
    is_batch = "--batch" in words
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
        return _complain(_stopped(), environ, is_batch=is_batch)
    except BrokenPipeError:
        # Whoever read our output has enough, as `head` does: that is no error of ours, nor theirs.
        return 0
    except OSError as error:
        # Errors about files name them: this one is about a stream.
        return _complain(_unwritten(error) if error.filename is None else error, environ, is_batch=is_batch)
    except Exception as error:
        # The last place: a person never meets a traceback.
        return _complain(error, environ, is_batch=is_batch)
    finally:
        _flush_or_forget()
    return status


def _dispatch(words: Sequence[str], environ: Mapping[str, str]) -> int:
    arguments = parse(words)
    cwd = _folder()
    if arguments.command is None and arguments.batch:
        raise UsageError(
            "There are no runs to start yet",
            "`selftest-tui --batch` alone will run every test of the tutorial; this version watches agents.",
            "`selftest-tui list --batch` prints the fleet once, `selftest-tui demo --batch` shows it changing.",
        )
    from selftest_tui import commands

    if arguments.command == "doctor":
        return commands.doctor(arguments, environ, cwd)
    if arguments.command == "schema":
        return commands.schema(arguments)
    if arguments.command == "check":
        return commands.check(arguments, environ, cwd)
    if arguments.command == "review":
        return commands.review(arguments, environ, cwd)
    from selftest_core.config import load_config

    config = load_config(cwd, environ, overrides_of(arguments))
    match arguments.command:
        case None:
            return commands.supervise(config, environ)
        case "list":
            return commands.list_fleet(arguments, config, environ, cwd)
        case "demo":
            return commands.demo(arguments, config, environ)
        case "sweep":
            return commands.sweep(arguments, environ)
        case _:
            raise UsageError(f"There is no command {arguments.command!r}")


def _folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("The folder that this was started in is gone", "", "`cd` to one that exists.") from error


def _stop_on(*numbers: int) -> None:
    """Let these signals stop us as Ctrl-C does, so that no mngr is left running. Ignored ones stay ignored."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in numbers:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)


def _stopped() -> SelftestError:
    stopped = SelftestError("Stopped")
    stopped.exit_status = STOPPED_EARLY
    return stopped


def _complain(error: Exception, environ: Mapping[str, str], *, is_batch: bool) -> int:
    from selftest_tui.complaint import complain

    try:
        return complain(error, environ, is_batch=is_batch)
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
