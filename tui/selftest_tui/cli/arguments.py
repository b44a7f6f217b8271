"""Parser of the command line: the table of commands, and the options of every command.

`--help` answers in some 100 ms, so nothing here may import Textual, pydantic or mngr's parts. Each command is a module
that adds its own flags and its function; only the module of the command that was called is imported.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from selftest_core import __version__
from selftest_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import SupportsWrite

    from selftest_core.config import Key
    from selftest_tui.cli.command import AddCommand

_EPILOG = """\
examples:
  selftest-tui                    supervise the agents of this machine, and of
                                  every provider that mngr knows
  selftest-tui run --dry-run      show the plan of a run: an agent for each test
  selftest-tui list               list the agents once
  selftest-tui list --json | jq '.agents[] | select(.attention) | .name'
  selftest-tui demo               try it on scripted agents; leaves nothing
  selftest-tui doctor             show what is missing, and how to fix it

settings (each: in selftest-tui.toml, in [tool.selftest-tui] of pyproject.toml,
in the environment as SELFTEST_TUI_ and its name in capitals, or by --set):
{settings}

exit status: 0 done; 1 done, with something left to look at; 2 usage,
configuration or a broken tool; 3 stopped early; 4 refused for safety
"""

COMMANDS = {
    "list": "list the agents and tmux sessions once",
    "run": "start one agent for each test, and follow them",
    "runs": "list the runs, or open one",
    "resume": "resume a run that stopped early",
    "answer": "answer agents that asked, are blocked or have ended; they go on",
    "stop": "stop a run and its agents",
    "draft": "let agents fill in the blocks of the tutorial, and decide about each",
    "sync": "start agents that write the tests which the tutorial lacks",
    "check": "check that every block of the tutorial is cited by a test",
    "review": "review the commits of many agents, and publish one branch",
    "verify": "run the tests of a review again: which claims hold, which change breaks what",
    "report": "write the report of a run or review: pages that open offline",
    "record": "record tmux sessions into files",
    "replay": "play a recording, or print one moment of it",
    "search": "search everything that agents did, over all runs",
    "doctor": "show what is missing or misconfigured, and how to fix it",
    "key-guard": "show or switch whether Ctrl-Q and Ctrl-T ask first in agents' terminals",
    "completion": "print a script that completes this command line in a shell",
    "schema": "print the JSON Schema of all JSON output",
    "demo": "show a run of scripted agents on a sample repository",
    "sweep": "remove what earlier runs, reviews and demos left behind",
}
"""The commands in the order of the help, each with one line of help."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, which is shown like all errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message[:1].upper() + message[1:], "", f"See `{self.prog} --help`.")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help. Raises OSError if that fails, which argparse's own method hides."""
        (file or sys.stdout).write(self.format_help())

    def parse_known_args(  # type: ignore[override]  # our namespaces are the plain ones
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown arguments in each command, so that the hint names the right help."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            import difflib

            word = unknown[0]
            flags = [flag for action in self._actions for flag in action.option_strings]
            near = (
                difflib.get_close_matches(word.partition("=")[0], flags, n=1, cutoff=0.7)
                if word.startswith("-")
                else []
            )
            hint = f"Did you mean {near[0]}? `{self.prog} --help` names all." if near else f"See `{self.prog} --help`."
            raise UsageError(f"`{self.prog}` does not take {word[:60]!r}", "", hint)
        return found, unknown


class _TopParser(_Parser):
    """The parser of the whole program, whose help lists the settings too."""

    def format_help(self) -> str:
        """Return the help with the settings, which no other use of the parser needs."""
        from selftest_core.config import CONFIG_KEYS, shown_agent_keys, shown_named_keys

        keys = (*CONFIG_KEYS, *shown_agent_keys(), *shown_named_keys())
        self.epilog = _EPILOG.format(settings="\n".join(_setting_lines(key) for key in keys))
        return super().format_help()


def _common_options(*, at_top: bool) -> _Parser:
    """Make the options that may stand before or after the command. After it they must not undo those before it."""
    options = _Parser(add_help=False, allow_abbrev=False)
    group = options.add_argument_group("options of every command")
    group.add_argument(
        "--batch",
        action="store_true",
        default=False if at_top else argparse.SUPPRESS,
        help="no questions and no screen: JSON Lines on stdout, progress on stderr",
    )
    group.add_argument(
        "--socket",
        action="append",
        metavar="PATH",
        default=None,
        dest="sockets" if at_top else "more_sockets",
        help="also read this tmux socket (repeat for more)",
    )
    group.add_argument(
        "--set",
        action="append",
        metavar="KEY=VALUE",
        default=None,
        dest="settings" if at_top else "more_settings",
        help="change a setting for this call (repeat for more)",
    )
    return options


def build_parser(only: str | None = None) -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    """Return the parser and the names of all commands.

    `only`: the one command whose flags are added, for a fast start; "" for none, which is enough for the help.
    """
    parser = _TopParser(
        prog="selftest-tui",
        description="Supervise a hundred coding agents: see who needs you, answer, attach, steer.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_common_options(at_top=True)],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"selftest-tui {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=_Parser)

    def add_command(name: str, summary: str, description: str, examples: str) -> _Parser:
        import textwrap

        text = f"{summary[:1].upper()}{summary[1:]}. {' '.join(description.split())}"
        return commands.add_parser(
            name,
            help=summary,
            description=textwrap.fill(text, 79),
            epilog="examples:\n" + textwrap.indent(textwrap.dedent(examples).strip("\n"), "  "),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[_common_options(at_top=False)],
            allow_abbrev=False,
        )

    for name, summary in COMMANDS.items():
        if only == "":
            commands.add_parser(name, help=summary, add_help=False)
        elif only in (None, name):
            _add_flags(name, partial(add_command, name, summary))
    return parser, tuple(COMMANDS)


def _add_flags(name: str, add_command: AddCommand) -> None:
    """Import the module of a command, which adds its flags and its function."""
    match name:
        case "list":
            from selftest_tui.cli.list import add_list

            add_list(add_command)
        case "run":
            from selftest_tui.cli.runs.run import add_run

            add_run(add_command)
        case "runs":
            from selftest_tui.cli.runs.runs import add_runs

            add_runs(add_command)
        case "resume":
            from selftest_tui.cli.runs.steering import add_resume

            add_resume(add_command)
        case "answer":
            from selftest_tui.cli.runs.steering import add_answer

            add_answer(add_command)
        case "stop":
            from selftest_tui.cli.runs.steering import add_stop

            add_stop(add_command)
        case "draft":
            from selftest_tui.cli.tutorial.draft import add_draft

            add_draft(add_command)
        case "sync":
            from selftest_tui.cli.tutorial.sync import add_sync

            add_sync(add_command)
        case "check":
            from selftest_tui.cli.tutorial.check import add_check

            add_check(add_command)
        case "review":
            from selftest_tui.cli.review import add_review

            add_review(add_command)
        case "verify":
            from selftest_tui.cli.verify import add_verify

            add_verify(add_command)
        case "report":
            from selftest_tui.cli.evidence.report import add_report

            add_report(add_command)
        case "record":
            from selftest_tui.cli.evidence.record import add_record

            add_record(add_command)
        case "replay":
            from selftest_tui.cli.evidence.replay import add_replay

            add_replay(add_command)
        case "search":
            from selftest_tui.cli.evidence.search import add_search

            add_search(add_command)
        case "doctor":
            from selftest_tui.cli.doctor import add_doctor

            add_doctor(add_command)
        case "key-guard":
            from selftest_tui.cli.doctor import add_key_guard

            add_key_guard(add_command)
        case "completion":
            from selftest_tui.cli.completion import add_completion

            add_completion(add_command, build_parser)
        case "schema":
            from selftest_tui.cli.command import add_schema

            add_schema(add_command)
        case "demo":
            from selftest_tui.cli.demo import add_demo

            add_demo(add_command)
        case "sweep":
            from selftest_tui.cli.sweep import add_sweep

            add_sweep(add_command)
        case _:
            raise AssertionError(name)


def _setting_lines(key: Key) -> str:
    import textwrap

    lines = textwrap.wrap(f"{key.help} (default {key.default_text})", 62)
    head = (key.name,) if len(key.name) > 14 else ()  # a long name has a line of its own
    shown = (f"  {key.name if number == 0 and not head else '':<14} {line}" for number, line in enumerate(lines))
    return "\n".join((*(f"  {name}" for name in head), *shown))


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse one call. Raises UsageError; `--help` and `--version` print and raise SystemExit.

    `pytest_args`: the arguments after `--`. `--batch` without a command is `run` with all tests.
    """
    own, pytest_args = split(argv)
    name = _command_of(own)
    is_batch_alone = name is None and "--batch" in own and {"-h", "--help", "--version"}.isdisjoint(own)
    if is_batch_alone:
        name, own = "run", [*own, "run"]
    parser, _ = build_parser(name or "")
    arguments = parser.parse_args(own)
    if pytest_args and arguments.command not in ("run", "verify"):
        hint = "`run TESTS -- -k name` passes the rest to pytest; `verify -- TESTS` runs these tests alone."
        raise UsageError("Only `run` and `verify` take arguments after --", "", hint)
    arguments.pytest_args = tuple(pytest_args)
    arguments.sockets = [*(arguments.sockets or ()), *(getattr(arguments, "more_sockets", None) or ())]
    arguments.settings = [*(arguments.settings or ()), *(getattr(arguments, "more_settings", None) or ())]
    return arguments


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return our own arguments, and those after the first `--`."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def _command_of(argv: Sequence[str]) -> str | None:
    """Return the command of a call, None without one. Raises UsageError with the nearest name for an unknown one."""
    words = iter(argv)
    for word in words:
        if word in ("--socket", "--set"):
            next(words, None)
        elif word in COMMANDS:
            return word
        elif word in ("-h", "--help"):
            return None
        elif not word.startswith("-"):
            import difflib

            if word == "help":
                raise UsageError(
                    "There is no command 'help'", "", "`selftest-tui --help`, or `--help` after a command."
                )
            near = difflib.get_close_matches(word.lower(), COMMANDS, n=1, cutoff=0.5)
            hint = f"Did you mean `selftest-tui {near[0]}`?" if near else f"The commands are: {', '.join(COMMANDS)}."
            raise UsageError(f"There is no command {word[:60]!r}", "", hint)
    return None
