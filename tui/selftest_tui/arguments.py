"""The arguments: every command with its flags and examples, and what the words of one call mean.

`--help` answers in some 100 ms, so nothing here may import Textual, pydantic or mngr's parts at the top. Nothing is
looked at and nothing is run: what a flag means is decided by its command.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING, NoReturn

from selftest_core import __version__
from selftest_core.errors import UsageError
from selftest_tui.recording_arguments import add_record
from selftest_tui.replay_arguments import add_replay

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
    _add_run(
        command(
            "run",
            "Start an agent for each test, watch them, take in what they did, stop them.\n"
            "The plan is shown first and nothing starts before a yes; under --batch the\n"
            "flags are the yes. Agents start from a commit in copies of their own: your\n"
            "checkout, index and branches are never touched. Arguments behind -- go to\n"
            "pytest. Ends with 1 where a test is blocked or failed, with 3 where it\n"
            "stopped early and `resume` goes on.",
            "  selftest-tui run --dry-run         what would start, cost, leave this machine\n"
            "  selftest-tui run tests/e2e --max-running 5\n"
            "  selftest-tui run --affected-by main\n"
            "  selftest-tui run --agent-command ./agent.sh -- -m 'not slow'\n"
            "  selftest-tui run --batch --on modal --env ANTHROPIC_API_KEY --budget-usd 20",
        )
    )
    runs = command(
        "runs",
        "List the runs of this repository and of others, with what is open in each.\n"
        "With a PATH: read one run there, also one that another program left behind.",
        "  selftest-tui runs\n"
        "  selftest-tui runs --json | jq -r '.runs[] | [.run, .state] | @tsv'\n"
        "  selftest-tui runs ~/old/outcomes",
    )
    runs.add_argument("path", nargs="?", metavar="PATH", help="a folder with the outcomes of one run")
    runs.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    resume = command(
        "resume",
        "Go on where a run stopped: after Ctrl-C, a crash, a power cut, a full disk.\n"
        "What happened meanwhile is looked up; no agent is lost and none made twice.",
        "  selftest-tui resume\n  selftest-tui resume 20261121-0931\n  selftest-tui resume --batch",
    )
    resume.add_argument("run", nargs="?", metavar="RUN", help="a run, or how its name begins; default: the newest here")
    stop = command(
        "stop",
        "Stop a run: its agents are emptied and stopped, the rest is not started.\nWaits until that is done.",
        "  selftest-tui stop\n  selftest-tui stop 20261121-0931\n  selftest-tui stop --batch",
    )
    stop.add_argument("run", nargs="?", metavar="RUN", help="a run, or how its name begins; default: the newest here")
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
    _add_review(
        command(
            "review",
            "Turn many branches into one linear branch: of a run, of agents that are there,\n"
            "or any. Identical changes are collapsed and everybody is credited; conflicts\n"
            "are held out. Only what is kept is published; your checkout, index and other\n"
            "refs are never touched. Ends with 1 where something is undecided or held.",
            "  selftest-tui review                the newest run of this repository\n"
            "  selftest-tui review --agents ada bob eve\n"
            "  selftest-tui review main..fixes --onto origin/main\n"
            "  selftest-tui review --batch --base main ada bob --decisions decisions.json\n"
            "  selftest-tui review --batch 20261121-0931 --publish fixes --pr",
        )
    )
    add_record(command)
    add_replay(command)
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
        "A run of scripted agents in a world of its own: they test and mend a small shop.\n"
        "Needs mngr and tmux, but no model, no key and no network, and leaves nothing.",
        "  selftest-tui demo\n"
        "  selftest-tui demo --agents 40\n"
        "  selftest-tui demo --batch         no screen: its run, as JSON Lines",
    )
    demo.add_argument("--agents", type=_count, default=None, metavar="N", help="how many to start; default: 14")
    demo.add_argument("--keep", action="store_true", help="leave the demo's world there; `sweep` removes it later")
    sweep = command(
        "sweep",
        "Remove what earlier demos and ended runs left behind: agents and their copies,\n"
        "tmux sessions, clones, refs, old folders. Shows all of it and asks first.",
        "  selftest-tui sweep\n  selftest-tui sweep --yes",
    )
    sweep.add_argument("--json", action="store_true", help="one JSON document on stdout instead of words")
    sweep.add_argument("--yes", action="store_true", help="do not ask")
    return parser, tuple(commands.choices)


def _add_run(run: argparse.ArgumentParser) -> None:
    """The flags of `run`. None is what the setting of that name says."""
    run.add_argument(
        "tests", nargs="*", metavar="TESTS", help="files, folders or node ids; default: all that pytest finds"
    )
    what = run.add_argument_group("which tests, and from where")
    what.add_argument("--base", metavar="REF", default="HEAD", help="the commit that agents start from; default: HEAD")
    what.add_argument("--affected-by", metavar="BASE", help="only tests that what changed since BASE concerns")
    what.add_argument("--tutorial", metavar="FILE", default="tutorial.sh", help="default: tutorial.sh")
    who = run.add_argument_group("who works, and where")
    who.add_argument("--agent", metavar="TYPE", help="an agent type that mngr knows: claude, codex, command, …")
    who.add_argument("--agent-command", metavar="SCRIPT", help="what a command agent runs, with its arguments")
    who.add_argument("--on", metavar="PROVIDER", help="local, modal, or another provider that mngr knows")
    who.add_argument("--transfer", choices=("mirror", "worktree"), help="how an agent gets its copy")
    who.add_argument(
        "--env", nargs="+", action="extend", type=_variable, metavar="NAME",
        help="variables that agents get, by name; nothing else of yours reaches them",
    )  # fmt: skip
    limits = run.add_argument_group("limits")
    limits.add_argument("--max-running", type=_count, metavar="N", help="agents at once")
    limits.add_argument("--launch-rate", type=_positive, metavar="PER_SECOND", help="agents made in a second")
    limits.add_argument("--timeout", type=_positive, metavar="S", help="seconds that one agent may take")
    limits.add_argument("--budget-usd", type=_money, metavar="X", help="stop starting agents at this estimate")
    limits.add_argument(
        "--on-cluster", choices=("ask", "pause", "go"), help="when many fail alike: ask, pause, or go on all the same"
    )
    run.add_argument("--dry-run", action="store_true", help="show the plan, start nothing")
    run.add_argument("--json", action="store_true", help="with --dry-run: one JSON document")


def _add_review(review: argparse.ArgumentParser) -> None:
    """The flags of `review`."""
    what = review.add_argument_group("what is reviewed")
    what.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a run, or one BASE..BRANCH, or branches with --base"
    )
    what.add_argument(
        "--agents", nargs="+", action="extend", metavar="NAME", help="agents that are there, whoever started them"
    )
    what.add_argument("--base", metavar="REF", help="what the branches build on: several become one line")
    review.add_argument("--onto", metavar="REF", help="lay the line on this commit instead, as on a newer main")
    review.add_argument("--decisions", metavar="FILE", help="keep, revert or undecided for each change, as JSON")
    review.add_argument("--publish", metavar="BRANCH", help="publish the base plus what is kept as this branch")
    review.add_argument("--pr", action="store_true", help="open a pull request of what is published, with gh")


def _setting_lines(key: Key) -> str:
    import textwrap

    says = textwrap.wrap(f"{key.says} (default {key.default_text})", 62)
    return "\n".join(f"  {key.name if number == 0 else '':<14} {line}" for number, line in enumerate(says))


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def _positive(text: str) -> float:
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not more than 0")
    return number


def _money(text: str) -> float:
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 0")
    return number


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return number


def _variable(text: str) -> str:
    name = text.partition("=")[0]
    if "=" in text and name.isidentifier():
        # Its value would be seen by everybody who lists processes.
        raise argparse.ArgumentTypeError(f"name the variable alone, as {name}: its value is taken from here")
    if not (text.isascii() and text.isidentifier()):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a variable (TESTS come before --env)")
    return text


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one call. Raises UsageError; `--help` and `--version` print and raise SystemExit.

    `pytest_args`: what stands behind `--`. No command but `--batch` is `run` on everything collected.
    """
    parser, commands = build_parser()
    own, pytest_args = split(argv)
    _check_command(own, commands)
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
