"""Command `demo`: a run of scripted agents on a sample repository, on the screen or as JSON Lines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from selftest_tui.cli.command import count, require_terminal, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.demo.demo import OnChange
    from selftest_core.demo.world import DemoWorld
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.store import RunFolder
    from selftest_core.schema.review import ReviewDocument
    from selftest_core.schema.run import RunSummary
    from selftest_tui.cli.command import AddCommand, Call

_SECONDS_TO_END = 30.0


def add_demo(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """The agents test and repair a small shop, in a folder of their own. The demo needs mngr and tmux, but no
        model, no key and no network, and leaves nothing behind.""",
        """
        selftest-tui demo
        selftest-tui demo --agents 40
        selftest-tui demo --batch         without a screen: JSON Lines
        selftest-tui demo --agent claude  the real Claude Code, on a scripted model
        """,
    )
    command.add_argument(
        "--agents", type=count, default=None, metavar="N", help="number of agents; default: 14, of claude 4"
    )
    command.add_argument(
        "--agent", choices=("command", "claude"), default="command",
        help="scripts (the default), or the real Claude Code on a scripted model: no key, no network",
    )  # fmt: skip
    command.add_argument("--keep", action="store_true", help="keep the demo's folder; `sweep` removes it later")
    command.set_defaults(run=demo)


def demo(call: Call) -> int:
    """Run the demo."""
    arguments, environ, config = call.arguments, call.environ, call.config
    if arguments.batch:
        from selftest_core.demo.demo import run_demo_batch
        from selftest_core.demo.final_review import review_demo
        from selftest_tui.cli.runs.run import conduct_in_batch

        def conduct(world: DemoWorld, folder: RunFolder, policy: Policy, on_change: OnChange) -> int:
            return conduct_in_batch(
                folder, world.tools_environ, policy, is_kept=arguments.keep, on_change=on_change,
                review=partial(review_demo, say=tell, conduct=_conduct),
                others=partial(_draft_and_sync, world) if world.is_whole else None,
            )  # fmt: skip

        return run_demo_batch(environ, arguments.agents, arguments.keep, conduct, tell, arguments.agent)
    require_terminal("`selftest-tui demo --batch` prints JSON Lines instead.")
    from selftest_tui.shared.loading import loading

    with loading():
        from selftest_core.config import load_config
        from selftest_core.demo.demo import run_demo
        from selftest_core.demo.world import PLAIN_PYTEST
        from selftest_tui.app.app import run
        from selftest_tui.run.conducting import start_conductor

    # The demo's mngr has no remote providers, so there is nothing to wait for.
    local = replace(config, remote=False)

    def show(world: DemoWorld, folder: RunFolder) -> int:
        # Reviews verify the shop as its own settings say, not those of the folder that the demo was started in.
        shop = load_config(world.repository, world.tools_environ, {"env": PLAIN_PYTEST})
        config = replace(local, pytest_command=shop.pytest_command, env=shop.env)
        return run(config, world.environ, run=folder, seconds_behind=_SECONDS_TO_END, is_kept=False)

    return run_demo(
        environ, arguments.agents, arguments.keep, show, tell,
        lambda folder, tools, policy: start_conductor(folder, tools, policy=policy), arguments.agent,
    )  # fmt: skip


def _conduct(folder: RunFolder, environ: Mapping[str, str]) -> None:
    """Conduct a run of the demo that is a part of its review: its lines are not those of the demo's run."""
    from selftest_core.demo.world import POLICY
    from selftest_tui.run.conducting import conduct

    asyncio.run(conduct(folder, environ, policy=replace(POLICY, leave_when_paused=True)))


def _draft_and_sync(world: DemoWorld) -> list[RunSummary]:
    """Conduct and decide the draft and the sync of a demo; return their summaries."""
    import time

    from selftest_core.demo.whole_loop import WholeLoop
    from selftest_core.schema.draft import draft_document
    from selftest_core.schema.run import run_summary
    from selftest_recorder.report.writer import write_run_report

    environ = world.tools_environ
    loop = WholeLoop(world.repository, environ, lambda folder: _conduct(folder, environ), tell)

    def summary(folder: RunFolder, line: ReviewDocument | None = None) -> RunSummary:
        # The conductor's report is older than what was decided.
        report = write_run_report(folder, environ, tell)
        return run_summary(folder.read(), time.time(), str(folder.path), line, report)

    drafted, draft = loop.draft()
    written, line = loop.sync()
    return [summary(drafted).model_copy(update={"draft": draft_document(draft)}), summary(written, line)]
