"""The flags of what is done with runs: `run`, `runs`, `resume`, `stop`.

Nothing is looked at: None is what the setting of that name says.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    type Command = Callable[[str, str, str], argparse.ArgumentParser]
    """Makes a parser from a name, what the command does, and examples."""


def add_run(command: Command) -> None:
    """`run`."""
    run = command(
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
        help="variables that agents get, by name, besides those that the program of their type reads",
    )  # fmt: skip
    limits = run.add_argument_group("limits")
    limits.add_argument("--max-running", type=count, metavar="N", help="agents at once")
    limits.add_argument("--launch-rate", type=_positive, metavar="PER_SECOND", help="agents made in a second")
    limits.add_argument("--timeout", type=_positive, metavar="S", help="seconds that one agent may take")
    limits.add_argument("--budget-usd", type=_money, metavar="X", help="start no more agents once they spent this")
    limits.add_argument(
        "--on-cluster", choices=("ask", "pause", "go"), help="when many fail alike: ask, pause, or go on all the same"
    )
    run.add_argument(
        "--no-smoke", dest="smoke", action="store_false", default=None,
        help="send no agent with a tiny prompt ahead, on each provider, to see that agents work there",
    )  # fmt: skip
    run.add_argument("--dry-run", action="store_true", help="show the plan, start nothing")
    run.add_argument("--json", action="store_true", help="with --dry-run: one JSON document")


def add_runs(command: Command) -> None:
    """`runs`."""
    runs = command(
        "runs",
        "List the runs of this repository and of others, with what is open in each.\n"
        "With a RUN: open its screen, also of one that has ended; without a terminal,\n"
        "print it. With a PATH: one run there, also one that another program left.",
        "  selftest-tui runs\n"
        "  selftest-tui runs 20261121-0931    its screen\n"
        "  selftest-tui runs --json | jq -r '.runs[] | [.run, .state] | @tsv'\n"
        "  selftest-tui runs ~/old/outcomes",
    )
    runs.add_argument(
        "path",
        nargs="?",
        metavar="RUN|PATH",
        help="a run, how its name begins, or a folder of outcomes",
    )
    runs.add_argument("--json", action="store_true", help="one JSON document instead of the table")


def add_resume(command: Command) -> None:
    """`resume`."""
    resume = command(
        "resume",
        "Go on where a run stopped: after Ctrl-C, a crash, a power cut, a full disk.\n"
        "What happened meanwhile is looked up; no agent is lost and none made twice.",
        "  selftest-tui resume\n  selftest-tui resume 20261121-0931\n  selftest-tui resume --batch",
    )
    resume.add_argument("run", nargs="?", metavar="RUN", help="a run, or how its name begins; default: the newest here")


def add_stop(command: Command) -> None:
    """`stop`."""
    stop = command(
        "stop",
        "Stop a run: its agents are emptied and stopped, the rest is not started.\nWaits until that is done.",
        "  selftest-tui stop\n  selftest-tui stop 20261121-0931\n  selftest-tui stop --batch",
    )
    stop.add_argument("run", nargs="?", metavar="RUN", help="a run, or how its name begins; default: the newest here")


def count(text: str) -> int:
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
