"""Build the plan of a run from the user's options, the repository and the collected tests.

It refuses what cannot work before the first agent exists, with a hint: invalid settings, variables that are not set,
a template that cannot be rendered, names that are taken. Pure: time and random digits are arguments.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.config import Config
from selftest_core.errors import RefusedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.run.plan.names import agent_names
from selftest_core.run.plan.plan import PlannedTest, RunPlan, UnreadablePlanError, check_plan
from selftest_core.run.plan.prompt import render_prompt
from selftest_core.run.providers import places, provider_of, providers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from selftest_core.config import OnCluster, Transfer
    from selftest_core.run.plan.plan import Role, Suite
    from selftest_core.run.plan.source import Source
    from selftest_core.tutorial.coverage import Coverage

_DEFAULTS = Config()
MODAL = "modal"
COMMAND = "command"
_MOST_LEFT_OUT = 1000
_SPARE = 300
"""Seconds that a remote host must outlive its agent's timeout, for fetching the results."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of a run after flags and settings are merged; fields as in `RunPlan`."""

    pytest_command: tuple[str, ...]
    provider: str = _DEFAULTS.on
    agent_type: str = _DEFAULTS.agent
    agent_command: tuple[str, ...] | None = None
    transfer: Transfer = _DEFAULTS.transfer
    env_names: tuple[str, ...] = ()
    max_running: int = _DEFAULTS.max_running
    adapt: bool = False
    start_running: int = 0
    launch_rate: float = _DEFAULTS.launch_rate
    timeout: float = _DEFAULTS.timeout
    budget_usd: float | None = _DEFAULTS.budget_usd
    budget_day_usd: float | None = _DEFAULTS.budget_day_usd
    budget_day_tokens: int = _DEFAULTS.budget_day_tokens
    usd_per_agent: float | None = _DEFAULTS.usd_per_agent
    create_args: tuple[str, ...] = ()
    on_cluster: OnCluster = _DEFAULTS.on_cluster
    cluster_alike: int = _DEFAULTS.cluster_alike
    cluster_window: int = _DEFAULTS.cluster_window
    launch_retries: int = _DEFAULTS.launch_retries
    lost_retries: int = _DEFAULTS.lost_retries
    retry_pause: float = _DEFAULTS.retry_pause
    longest_retry_pause: float = _DEFAULTS.longest_retry_pause
    pytest_args: tuple[str, ...] = ()
    started_with: tuple[str, ...] = ()
    prompt_template: str = ""
    agent_env: tuple[str, ...] = ()
    agent_settings: tuple[str, ...] = ()
    setup_command: str = ""
    is_smoke: bool = False
    verify_on_arrival: str = ""
    role: Role = "tester"
    tutorial: str = ""


def run_id(at: float, random_hex: Callable[[int], str]) -> str:
    """Make the id of a run that starts at `at` (seconds since the epoch), like `20261121-0931-7f3a`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M}-{random_hex(2)}"


def make_plan(
    source: Source,
    node_ids: Sequence[str],
    blocks: Mapping[str, tuple[str, ...]],
    choices: Choices,
    *,
    environ: Mapping[str, str],
    at: float,
    random_hex: Callable[[int], str],
    warnings: Sequence[str] = (),
    suite: Suite | None = None,
) -> RunPlan:
    """Make the plan of a run. `node_ids`: with parameters; `blocks`: by node id without them (`blocks_by_test`).

    `random_hex`: `secrets.token_hex`. `environ`: only checked for the named variables. `warnings`: further warnings.
    Raises UsageError for what cannot work, ConfigError for the template.
    """
    check_choices(choices, environ)
    told = [*source.warnings, *warnings]
    once = tuple(dict.fromkeys(node_ids))
    if not once:
        hint = "Name tests that exist; `selftest-tui run --dry-run` lists them."
        raise UsageError("There is no test to run", "Nothing was collected or chosen.", hint)
    if len(once) < len(node_ids):
        told.append(f"tests were named more than once ({len(node_ids) - len(once)} extra); each runs once")
    left_out = source.left_out[:_MOST_LEFT_OUT]
    if len(left_out) < len(source.left_out):
        told.append(f"{len(source.left_out) - len(left_out):,} further paths that are not in the base are not listed")
    create_args, warning = _create_args(choices)
    told += [warning] if warning else []
    run = run_id(at, random_hex)
    names = agent_names(run, once)
    plan = RunPlan(
        run=run,
        repository=str(source.place.top),
        base=source.base,
        tests=tuple(
            PlannedTest(node_id, names[node_id], f"agent-{random_hex(16)}", blocks.get(without_parameters(node_id), ()))
            for node_id in once
        ),
        left_out=left_out,
        created_at=at,
        warnings=tuple(told),
        provider=choices.provider,
        agent_type=choices.agent_type,
        agent_command=choices.agent_command,
        transfer=choices.transfer,
        env_names=tuple(dict.fromkeys(choices.env_names)),
        max_running=choices.max_running,
        launch_rate=choices.launch_rate,
        timeout=choices.timeout,
        budget_usd=choices.budget_usd,
        usd_per_agent=choices.usd_per_agent,
        create_args=create_args,
        on_cluster=choices.on_cluster,
        pytest_command=choices.pytest_command,
        pytest_args=choices.pytest_args,
        started_with=choices.started_with,
        prompt_template=choices.prompt_template,
        agent_env=choices.agent_env,
        agent_settings=choices.agent_settings,
        setup_command=choices.setup_command,
        smoke=_smoke_places(choices),
        verify_on_arrival=choices.verify_on_arrival,
        role=choices.role,
        tutorial=choices.tutorial,
        cluster_alike=choices.cluster_alike,
        cluster_window=choices.cluster_window,
        launch_retries=choices.launch_retries,
        lost_retries=choices.lost_retries,
        retry_pause=choices.retry_pause,
        longest_retry_pause=choices.longest_retry_pause,
        budget_day_usd=choices.budget_day_usd,
        budget_day_tokens=choices.budget_day_tokens,
        adapt=choices.adapt,
        start_running=choices.start_running,
        suite=suite,
    )
    try:
        check_plan(plan)
    except UnreadablePlanError as error:
        raise UsageError("This run cannot be planned", error.detail, "Fix the setting or the name.") from error
    render_prompt(plan, plan.tests[0], at)
    return plan


def _smoke_places(choices: Choices) -> tuple[str, ...]:
    """Return one place of each provider; none for command agents, which cost nothing to try."""
    if not choices.is_smoke or choices.agent_type == COMMAND:
        return ()
    return tuple({provider_of(place): place for place in reversed(places(choices.provider))}.values())[::-1]


def blocks_by_test(coverage: Coverage) -> dict[str, tuple[str, ...]]:
    """Return the texts of the blocks that each test cites, by node id without parameters, in the tutorial's order."""
    found: dict[str, list[str]] = {}
    for cited in coverage.blocks:
        for test in cited.tests:
            found.setdefault(test, []).append(cited.block.text)
    return {test: tuple(texts) for test, texts in found.items()}


def without_parameters(node_id: str) -> str:
    """Return the node id of the test function. A folder's name may contain a bracket, and a parameter colons."""
    path, colons, rest = node_id.partition("::")
    return path + colons + rest.partition("[")[0]


def refuse_taken(plan: RunPlan, names: Collection[str], ids: Collection[str] = ()) -> None:
    """Raise RefusedError if one of the plan's agents exists already. `names`, `ids`: of all existing agents."""
    taken = [test.agent_name for test in plan.tests if test.agent_name in names or test.agent_id in ids]
    if taken:
        detail = ", ".join(taken[:10]) + (f" and {len(taken) - 10} more" if len(taken) > 10 else "")
        hint = "Start again for another run id, or destroy those agents first."
        raise RefusedError("Agents with these names exist already", detail, hint)


def check_choices(choices: Choices, environ: Mapping[str, str]) -> None:
    """Raise UsageError for options that cannot work with any tests."""
    if choices.agent_type == COMMAND and choices.agent_command is None:
        raise UsageError("A command agent needs a command", "", "Name a script with --agent-command SCRIPT.")
    if choices.agent_type != COMMAND and choices.agent_command is not None:
        hint = "Add --agent command, or leave --agent-command out."
        raise UsageError(f"--agent-command is for command agents, not for {choices.agent_type}", "", hint)
    if choices.transfer == "worktree" and choices.provider != LOCAL_PROVIDER:
        detail = f"A worktree shares the objects of a repository here, and {choices.provider} is elsewhere."
        raise UsageError("Worktrees are for this machine only", detail, "Leave --transfer out.")
    if choices.max_running < 1:
        raise UsageError(f"--max-running is {choices.max_running}", "", "It must be 1 or more.")
    for flag, value in (("--launch-rate", choices.launch_rate), ("--timeout", choices.timeout)):
        if not math.isfinite(value) or value <= 0:
            raise UsageError(f"{flag} is {value:g}", "", "It must be more than 0.")
    missing = [name for name in dict.fromkeys(choices.env_names) if name not in environ]
    if missing:
        hint = "Set it, or do not name it with --env."
        raise UsageError(f"Not set here: {', '.join(missing)}", "The agents would start without it.", hint)
    if choices.cluster_alike > choices.cluster_window:
        detail = f"{choices.cluster_alike} of the last {choices.cluster_window} ended tests can never fail alike."
        raise UsageError("cluster_alike is larger than cluster_window", detail, "Set it to cluster_window or less.")
    for name, budget in (("--budget-usd", choices.budget_usd), ("budget_day_usd", choices.budget_day_usd)):
        _check_money(name, budget, choices.usd_per_agent, is_command=choices.agent_type == COMMAND)
    if choices.budget_day_tokens and choices.agent_type == COMMAND:
        detail = "Command agents are not metered, so nothing would count towards budget_day_tokens."
        raise UsageError("A budget of tokens needs agents that are metered", detail, "Set budget_day_usd instead.")


def _check_money(flag: str, budget: float | None, each: float | None, *, is_command: bool) -> None:
    for name, value in ((flag, budget), ("usd_per_agent", each)):
        if value is not None and (not math.isfinite(value) or value < 0):
            raise UsageError(f"{name} is {value:g}", "", "It must be 0 or more.")
    if budget is None:
        return
    if each is None and is_command:
        detail = "Command agents are not metered, so the budget needs an estimate for each."
        raise UsageError("A budget needs the cost of an agent", detail, "Set usd_per_agent.")
    if each is not None and budget < each:
        detail = f"One agent is estimated at {each:.2f} USD, and the budget is {budget:.2f} USD."
        raise UsageError("The budget does not pay for one agent", detail, f"Raise {flag}.")


def _create_args(choices: Choices) -> tuple[tuple[str, ...], str]:
    """Return the arguments for `mngr create`, and a warning: a sandbox that ends before its agent loses the result."""
    if MODAL not in providers_of(choices.provider):
        return choices.create_args, ""
    least = math.ceil(choices.timeout) + _SPARE
    lives = [word.removeprefix("timeout=") for word in _words(choices.create_args) if word.startswith("timeout=")]
    if not lives:
        return (*choices.create_args, "-b", f"timeout={least}"), ""
    if lives[-1].isdecimal() and int(lives[-1]) < least:
        return choices.create_args, (
            f"sandboxes live {lives[-1]} s, and an agent may take {choices.timeout:g} s: `-b timeout={least}` is safe"
        )
    return choices.create_args, ""


def _words(arguments: Iterable[str]) -> Iterable[str]:
    """Return the values of arguments, with or without their flag in front."""
    for argument in arguments:
        yield argument.removeprefix("-b").removeprefix("--build-arg").removeprefix("=").strip()
