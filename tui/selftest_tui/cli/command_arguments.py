"""The flags of the commands that are about no run and no recording, and of `review`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.cli.run_arguments import count

if TYPE_CHECKING:
    from selftest_tui.cli.run_arguments import Command


def add_list(command: Command) -> None:
    """`list`."""
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


def add_check(command: Command) -> None:
    """`check`."""
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


def add_review(command: Command) -> None:
    """`review`."""
    review = command(
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


def add_doctor(command: Command) -> None:
    """`doctor`."""
    doctor = command(
        "doctor",
        "Say what is missing or misconfigured, and the command that mends it.\nEnds with 1 where something is wrong.",
        "  selftest-tui doctor\n  selftest-tui doctor --json",
    )
    doctor.add_argument("--json", action="store_true", help="one JSON document instead of the table")


def add_schema(command: Command) -> None:
    """`schema`."""
    command(
        "schema",
        "Print the JSON Schema of everything that --json and --batch print.",
        "  selftest-tui schema > selftest-tui.schema.json",
    )


def add_demo(command: Command) -> None:
    """`demo`."""
    demo = command(
        "demo",
        "A run of scripted agents in a world of its own: they test and mend a small shop.\n"
        "Needs mngr and tmux, but no model, no key and no network, and leaves nothing.",
        "  selftest-tui demo\n"
        "  selftest-tui demo --agents 40\n"
        "  selftest-tui demo --batch         no screen: its run, as JSON Lines\n"
        "  selftest-tui demo --agent claude  the real Claude Code, on a scripted model",
    )
    demo.add_argument(
        "--agents", type=count, default=None, metavar="N", help="how many to start; default: 14, of claude 4"
    )
    demo.add_argument(
        "--agent", choices=("command", "claude"), default="command",
        help="scripts (the default), or the real Claude Code on a scripted model: no key, no network",
    )  # fmt: skip
    demo.add_argument("--keep", action="store_true", help="leave the demo's world there; `sweep` removes it later")


def add_sweep(command: Command) -> None:
    """`sweep`."""
    sweep = command(
        "sweep",
        "Remove what earlier demos and ended runs left behind: agents and their copies,\n"
        "tmux sessions, clones, refs, old folders. Shows all of it and asks first.\n"
        "Runs that have not ended are never touched; a run's folder is kept for 30 days.",
        "  selftest-tui sweep                all repositories, and demos\n"
        "  selftest-tui sweep --here         runs and reviews of this repository only\n"
        "  selftest-tui sweep 20261121-0931  one run only\n"
        "  selftest-tui sweep --yes          remove without a question",
    )
    sweep.add_argument(
        "runs", nargs="*", metavar="RUN",
        help="a run or review, or how its id begins: only what these left; default: all",
    )  # fmt: skip
    sweep.add_argument("--here", action="store_true", help="only runs and reviews of this repository")
    sweep.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    sweep.add_argument("--yes", action="store_true", help="do not ask")
