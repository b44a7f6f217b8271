"""The arguments: every command with its flags and examples, and what the words of one call mean.

`--help` answers in some 100 ms, so nothing here may import Textual, pydantic or mngr's parts at the top. Nothing is
looked at and nothing is run: what a flag means is decided by its command.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, NoReturn

from selftest_core import __version__
from selftest_core.errors import UsageError
from selftest_tui.cli.command_arguments import (
    add_check,
    add_demo,
    add_doctor,
    add_list,
    add_review,
    add_schema,
    add_sweep,
)
from selftest_tui.cli.recording_arguments import add_record
from selftest_tui.cli.replay_arguments import add_replay
from selftest_tui.cli.run_arguments import add_resume, add_run, add_runs, add_stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.config import Key

_EPILOG = """\
examples:
  selftest-tui                    supervise the agents of this machine, and of
                                  every provider that mngr knows
  selftest-tui run --dry-run      what a run of an agent for each test would be
  selftest-tui list               see the agents once
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

    def parse_known_args(  # type: ignore[override]  # our namespaces are the plain ones
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses what it does not know, each command for itself: the top would not say whose help to look at."""
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


_COMMANDS = {
    "list": add_list,
    "run": add_run,
    "runs": add_runs,
    "resume": add_resume,
    "stop": add_stop,
    "check": add_check,
    "review": add_review,
    "record": add_record,
    "replay": add_replay,
    "doctor": add_doctor,
    "schema": add_schema,
    "demo": add_demo,
    "sweep": add_sweep,
}


def build_parser(only: str | None = None) -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    """The parser, and the names of the commands that exist.

    `only` names the one command that is to be parsed, for a start that does not wait for the others. Without it the
    parser knows all, and its help is whole.
    """
    parser = _Parser(
        prog="selftest-tui",
        description="Supervise a hundred coding agents: see who needs you, answer, attach, steer.",
        epilog=_epilog() if only is None else "",
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

    for name, add in _COMMANDS.items():
        if only in (None, name):
            add(command)
    return parser, tuple(_COMMANDS)


def _epilog() -> str:
    from selftest_core.config import CONFIG_KEYS, shown_agent_keys

    return _EPILOG.format(settings="\n".join(_setting_lines(key) for key in (*CONFIG_KEYS, *shown_agent_keys())))


def _setting_lines(key: Key) -> str:
    import textwrap

    says = textwrap.wrap(f"{key.says} (default {key.default_text})", 62)
    head = (key.name,) if len(key.name) > 14 else ()  # a long name has a line of its own
    lines = (f"  {key.name if number == 0 and not head else '':<14} {line}" for number, line in enumerate(says))
    return "\n".join((*(f"  {name}" for name in head), *lines))


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one call. Raises UsageError; `--help` and `--version` print and raise SystemExit.

    `pytest_args`: what stands behind `--`. No command but `--batch` is `run` on everything collected.
    """
    own, pytest_args = split(argv)
    named = _command_of(own)
    wants_help = not {"-h", "--help"}.isdisjoint(own)
    parser, _ = build_parser(None if wants_help else named or "run")
    arguments = parser.parse_args(own)
    if arguments.command is None and arguments.batch:
        arguments = parser.parse_args([*own, "run"])
    if pytest_args and arguments.command != "run":
        hint = "`selftest-tui run TESTS -- -k name` hands what follows to pytest."
        raise UsageError("Only `run` takes arguments behind --", "", hint)
    arguments.pytest_args = tuple(pytest_args)
    arguments.sockets = [*(arguments.sockets or ()), *(getattr(arguments, "more_sockets", None) or ())]
    arguments.settings = [*(arguments.settings or ()), *(getattr(arguments, "more_settings", None) or ())]
    return arguments


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own words, and those behind the first `--`."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def _command_of(argv: Sequence[str]) -> str | None:
    """The command that is named, if any. An unknown one is refused with the nearest known: argparse would list all."""
    known = tuple(_COMMANDS)
    words = iter(argv)
    for word in words:
        if word in ("--socket", "--set"):
            next(words, None)
        elif word in known:
            return word
        elif not word.startswith("-"):
            import difflib

            if word == "help":
                raise UsageError(
                    "There is no command 'help'", "", "`selftest-tui --help`, or `--help` after a command."
                )
            near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
            hint = f"Did you mean `selftest-tui {near[0]}`?" if near else f"The commands are: {', '.join(known)}."
            raise UsageError(f"There is no command {word[:60]!r}", "", hint)
    return None


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
