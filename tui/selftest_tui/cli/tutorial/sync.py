"""Command `sync`: starts an agent for each block that no test cites, and for each test with a stale citation.

Its run is one like all others: `runs`, `resume`, `stop`, `report` and `review` work on it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_tui.cli.command import DONE, print_lines, tell, write_answer
from selftest_tui.cli.runs.run import add_agent_options, check_agent_options, run_options, start_or_show

if TYPE_CHECKING:
    from selftest_tui.cli.command import AddCommand, Call


def add_sync(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """One agent for each block that no test cites, and for each test whose citation is no block any more. Their
        tests are taken only if the block is then cited word for word by a test of the happy path and one of an unhappy
        path, if no other test is weaker, if they pass when we run them, and if they fail while the block's programs
        do nothing. Each result is reviewed like that of `run`. The tutorial is read from the base: commit it first.
        Ends with 1 where a block could not be covered, with 3 where the run stopped early and can be resumed.""",
        """
        selftest-tui sync --dry-run        show the plan: blocks, agents, costs
        selftest-tui sync                  for everything that `check` finds
        selftest-tui sync 12 40            for the blocks at these lines
        selftest-tui sync --batch --agent-command ./writer.sh
        """,
    )
    command.add_argument(
        "blocks", nargs="*", metavar="BLOCK-LINE",
        help="a line of an uncited block, or a test with a stale citation; default: all that `check` finds",
    )  # fmt: skip
    what = command.add_argument_group("blocks")
    what.add_argument("--base", metavar="REF", default="HEAD", help="the commit that agents start from; default: HEAD")
    what.add_argument("--tutorial", metavar="FILE", default="tutorial.sh", help="default: tutorial.sh")
    what.add_argument("--tests", metavar="DIR", default="tests", help="a folder or one file; default: tests")
    add_agent_options(command)
    command.set_defaults(run=sync)


def sync(call: Call) -> int:
    """Show the plan, ask on the screen, or start at once with `--batch`; say so where there is nothing to do."""
    from selftest_core.sync.preparation import prepare_sync
    from selftest_core.verify.on_arrival import isolation_of_claims

    arguments = call.arguments
    check_agent_options(call)
    found = asyncio.run(
        prepare_sync(
            arguments.blocks, arguments.tests, run_options(arguments), call.config, call.environ, call.cwd, tell,
            isolation_of_claims,
        )
    )  # fmt: skip
    is_answered = arguments.dry_run or found.run is None
    if call.is_for_programs and is_answered:
        from selftest_core.schema.sync import sync_document

        write_answer(sync_document(found).model_dump(mode="json"), is_batch=arguments.batch)
        return DONE
    if found.run is not None:
        return start_or_show(found.run, call)
    print_lines(["Nothing to do: every block is cited, and every citation is a block."])
    return DONE
