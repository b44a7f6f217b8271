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
        from selftest_tui.cli.run import conduct_in_batch

        def conduct(folder: RunFolder, tools: Mapping[str, str], policy: Policy, on_change: OnChange) -> int:
            review = partial(review_demo, say=tell, conduct=_conduct)
            return conduct_in_batch(folder, tools, policy, is_kept=arguments.keep, review=review, on_change=on_change)

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
