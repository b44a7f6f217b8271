"""What a run asks of `mngr create` is taken by mngr's own parser, for each type of agent and on Modal too.

Modal's plugin is not installed here: mngr reads the flags, the address and the settings of agent types before it looks
for the provider, and names that as what is missing. Only the values of `-b` are read by the plugin itself.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan
from selftest_core.agent_types.profiles import needs
from selftest_core.config import Config
from selftest_core.run.crew.mngr_commands import create_arguments
from selftest_core.run.crew.recording import Provision
from selftest_core.run.fold import Member
from selftest_core.run.plan.plan_builder import Choices, _create_args

if TYPE_CHECKING:
    from worlds import World


def asked_of_mngr(world: World, agent_type: str, *more: str) -> list[str]:
    """The arguments for an agent on Modal, with everything in them that a run may ask for."""
    world.load_mngr()
    environ = {**world.environment, "ANTHROPIC_API_KEY": "sk", "OPENAI_API_KEY": "sk"}
    command = ("./agent.sh", "--flag") if agent_type == "command" else None
    needed = needs(agent_type, Config(), environ, ("modal",), is_copy=True)
    choices = Choices(("pytest",), provider="modal", agent_type=agent_type, agent_command=command, timeout=900.5)
    plan = a_plan(
        1, is_real=True, provider="modal", agent_type=agent_type, agent_command=command, env_names=needed.env_names,
        agent_env=needed.fixed, agent_settings=needed.settings, setup_command="make venv",
        create_args=(*_create_args(choices)[0], *more),
    )  # fmt: skip
    test = plan.tests[0]
    member = Member(test.agent_name, test.node_id, 1, test.agent_id, test.agent_name)
    prompt = world.root / "prompt.md"
    prompt.write_text("x")
    recording = Provision(((prompt, PurePosixPath("/tmp/r")),), "true")
    folder = PurePosixPath("/tmp/selftest-copies") / test.agent_id
    return create_arguments(plan, member, "modal", folder, prompt, "shop", ("TOKEN",), (), recording)


@pytest.mark.parametrize("agent_type", ["claude", "codex", "command"])
def test_mngr_takes_all_that_a_run_on_modal_asks_for(world: World, agent_type: str) -> None:
    world.make_repository()
    arguments = asked_of_mngr(world, agent_type)
    assert arguments[1].endswith("@.modal")
    assert arguments[arguments.index("-b") + 1] == "timeout=1201"
    variables = {"ANTHROPIC_API_KEY": "sk", "OPENAI_API_KEY": "sk"}

    done = world.run(["mngr", *arguments], check=False, env=variables)

    assert done.returncode == 1, done.stderr  # 2 is what a wrong argument ends with
    assert "Unknown provider backend: modal" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "status", "says"),
    [
        (("--no-such-flag",), 2, "No such option"),
        (("-S", "agent_types.claude.no_such_setting=1"), 1, "Unknown fields in agent_types.claude"),
    ],
)
def test_an_argument_that_mngr_does_not_take_would_be_noticed(
    world: World, wrong: tuple[str, ...], status: int, says: str
) -> None:
    world.make_repository()
    done = world.run(["mngr", *asked_of_mngr(world, "claude", *wrong)], check=False, env={"ANTHROPIC_API_KEY": "sk"})
    assert done.returncode == status
    assert re.search(says, done.stderr)
    assert "Unknown provider backend" not in done.stderr
