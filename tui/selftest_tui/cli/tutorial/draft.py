"""Command `draft`: agents fill in the blocks of the tutorial, and a person decides about each block.

With a terminal the plan is shown first, and the tutorial's screen decides. With `--batch` the run starts at once, and a
decisions file decides; `--run` decides about an earlier draft, and starts nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, tell, write_answer
from selftest_tui.cli.runs.run import add_agent_options, check_agent_options, run_options, start_or_show
from selftest_tui.shared.present import plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.draft.batch import DraftResult
    from selftest_core.run.store import RunFolder
    from selftest_core.schema.draft import DraftDocument
    from selftest_tui.cli.command import AddCommand, Call

_NEWEST = ""


def add_draft(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """Each agent works on a copy of a commit and fills in the blocks beneath one heading; it may change nothing
        else. Every proposed block is undecided until you keep or drop it, and only kept blocks are published, as one
        commit on a branch that is checked out nowhere. The plan is shown first; with --batch the run starts at once.
        Ends with 1 where a block is undecided or an agent left nothing usable, with 3 where the run stopped early.""",
        """
        selftest-tui draft --dry-run       show the plan: one agent for each heading
        selftest-tui draft 'Carts' 'Refunds'
        selftest-tui draft --batch --agent-command ./agent.sh
        selftest-tui draft --batch --run --decisions decisions.json --onto tour
        selftest-tui draft --batch --run 20261121-0931 | jq '.headings[].blocks'
        """,
    )
    command.add_argument(
        "headings",
        nargs="*",
        metavar="HEADING",
        help="headings of the tutorial, or a part of their words; default: all",
    )
    what = command.add_argument_group("tutorial")
    what.add_argument("--base", metavar="REF", default="HEAD", help="the commit that agents start from; default: HEAD")
    what.add_argument("--tutorial", metavar="FILE", default="tutorial.sh", help="default: tutorial.sh")
    add_agent_options(command, is_verifying=False)
    decide = command.add_argument_group("decisions, with --batch")
    decide.add_argument(
        "--run", nargs="?", const=_NEWEST, metavar="RUN", dest="run_name",
        help="decide about an earlier draft, the newest by default, and start no agent",
    )  # fmt: skip
    decide.add_argument("--decisions", metavar="FILE", help="JSON with keep, drop or undecided for each block")
    decide.add_argument("--onto", metavar="BRANCH", help="publish the kept blocks as one commit on this branch")
    command.set_defaults(run=draft)


def draft(call: Call) -> int:
    """Show the plan, ask on the screen, start at once with `--batch`, or decide about an earlier draft."""
    from selftest_core.draft.drafting import prepare_draft

    arguments = call.arguments
    _refuse_contradictions(call)
    if arguments.run_name is not None:
        return _decide_earlier(call)
    check_agent_options(call)
    _refuse_before_it_costs(call)
    wanted = run_options(arguments)
    prepared = asyncio.run(prepare_draft(arguments.headings, wanted, call.config, call.environ, call.cwd, tell))

    def decide(folder: RunFolder, environ: Mapping[str, str]) -> DraftDocument:
        return _decide(folder, environ, call)[1]

    return start_or_show(prepared, call, decide)


def _refuse_contradictions(call: Call) -> None:
    arguments = call.arguments
    if (arguments.decisions or arguments.onto or arguments.run_name is not None) and not arguments.batch:
        hint = "On the screen you decide about each block; or add --batch."
        raise UsageError("--run, --decisions and --onto need --batch", "", hint)
    if arguments.run_name is not None and (arguments.headings or arguments.dry_run):
        raise UsageError("--run starts no agent, so it takes neither headings nor --dry-run", "", "Leave them out.")


def _refuse_before_it_costs(call: Call) -> None:
    """Raise for a decisions file that cannot be read, and for a branch that a new draft cannot publish."""
    from selftest_core.draft.decisions import read_decisions
    from selftest_core.git.command import Git, find_place
    from selftest_core.review.publishing import read_branches

    arguments = call.arguments
    if arguments.decisions is not None:
        read_decisions(call.cwd / arguments.decisions)
    if arguments.onto is not None:
        read_branches(Git(find_place(call.cwd, call.environ).git_dir, call.environ), "new").check(arguments.onto)


def _decide_earlier(call: Call) -> int:
    from selftest_core.git.command import find_place
    from selftest_core.run.store import find_run
    from selftest_recorder.report.writer import write_run_report

    top = find_place(call.cwd, call.environ).top
    folder = find_run(call.environ, top, call.arguments.run_name or _newest_draft(call, top))
    result, document = _decide(folder, call.environ, call)
    if call.arguments.decisions is not None or result.published is not None:
        write_run_report(folder, call.environ, tell)
    write_answer({"run": folder.run, **document.model_dump(mode="json")}, is_batch=True)
    return DONE if result.is_done else SOMETHING_LEFT


def _newest_draft(call: Call, top: Path) -> str:
    from selftest_core.run.overview import own_folders

    for folder in own_folders(call.environ, top):
        try:
            if folder.plan().role == "drafter":
                return folder.run
        except UsageError:
            continue
    raise UsageError("There is no draft in this repository", "", "`selftest-tui draft` starts one.")


def _decide(folder: RunFolder, environ: Mapping[str, str], call: Call) -> tuple[DraftResult, DraftDocument]:
    from selftest_core.draft.batch import decide_draft, look_at_draft
    from selftest_core.schema.draft import draft_document

    given, onto = call.arguments.decisions, call.arguments.onto
    if given is None and onto is None:
        result = look_at_draft(folder, environ)
    else:
        result = decide_draft(folder, environ, None if given is None else call.cwd / given, onto)
    for line in _summary_lines(result):
        tell(line)
    return result, draft_document(result)


def _summary_lines(result: DraftResult) -> list[str]:
    draft = result.draft
    lines = [f"{plural(len(draft.blocks), 'proposed block')} beneath {plural(len(draft.headings), 'heading')}"]
    lines += [
        f"{one.id}: {one.reason.splitlines()[-1] if one.reason else one.state}"
        for one in draft.headings
        if not one.blocks
    ]
    lines += [f"{one.id}: {one.note}" for one in draft.headings if one.note]
    if result.open:
        lines.append(f"{result.open} undecided; undecided blocks are never published")
    if result.not_published:
        lines.append(f"nothing is published: {result.not_published}")
    if result.published is not None:
        made = f"{result.published.ref} at {result.published.tip[:12]}"
        lines.append(f"published {made}: {plural(result.published.blocks, 'block')}")
    return lines
