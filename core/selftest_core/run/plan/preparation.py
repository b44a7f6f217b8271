"""Prepare a run: check the options, collect the tests, ask mngr, estimate; then start it.

    prepared = await prepare(wanted, config, environ, cwd, say)     # changes nothing of the user's
    folder = begin(prepared, environ)                               # makes the run's folder and its clone

`tasks.prepare_tasks` prepares a run whose agents are no testers, with the same parts.

What cannot work is refused here, before the first agent. A file that cannot be collected becomes a row of the run
with its error; the other tests run.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agent_types.profiles import needs, service_of
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import ConfigError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.journal import Journal
from selftest_core.paths import runs_registry
from selftest_core.run.budget.ledger import DayLedger
from selftest_core.run.crew.env_filter import inherited_from, withheld
from selftest_core.run.crew.mngr_commands import files_to_upload
from selftest_core.run.events import Event
from selftest_core.run.history.growth import comparable, deletions, new_and_gone, rewritten_base
from selftest_core.run.history.past_runs import earlier_plans, past_runs
from selftest_core.run.history.resting import MOST_RUNS, rests
from selftest_core.run.outcome.claims import NOT_ISOLATED, ChosenIsolation
from selftest_core.run.outcome.ends import End
from selftest_core.run.pace.sweet_spots import kept_sweet_spot
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.plan.copy_setup import ENVIRONMENT, Setup, choose_setup
from selftest_core.run.plan.estimates import estimate, typical
from selftest_core.run.plan.modal_place import look_at_modal
from selftest_core.run.plan.offer import Offer, Uncollected, offered_tests
from selftest_core.run.plan.plan import Suite
from selftest_core.run.plan.plan_builder import COMMAND, Choices, check_choices, make_plan, refuse_taken
from selftest_core.run.plan.preflight import ask_mngr, refuse_missing_tools, warnings_of
from selftest_core.run.plan.programs import PytestCommands, agent_command, pytest_commands
from selftest_core.run.plan.selection import TUTORIAL, CollectionRequest, SelectedTests, select_tests
from selftest_core.run.plan.source import Source, look_at
from selftest_core.run.providers import places, providers_of
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_core.tools.mngr_files import host_dir_of
from selftest_core.tools.tmux import default_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from selftest_core.agents import Agent
    from selftest_core.config import Config, OnCluster, Transfer
    from selftest_core.run.outcome.claims import IsolationChooser
    from selftest_core.run.plan.estimates import Estimates
    from selftest_core.run.plan.plan import Role, RunPlan
    from selftest_core.run.store import RunFolder

_LONGEST_TEMPLATE = 1024 * 1024
_COMPARED = 10
"""Earlier runs that are read to find one with the same arguments."""
_FIX_PROMPT = "Fix the setting `prompt`."


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The user's options of a run; None: use the setting. `tests`: relative to the current folder.

    `agent_command`: one text, parsed like a shell's. `affected_by`: a commit, None for all tests. `tutorial`: relative
    to the repository. `is_resting`: tests may rest, as the settings say.
    """

    tests: tuple[str, ...] = ()
    pytest_args: tuple[str, ...] = ()
    base: str = "HEAD"
    provider: str | None = None
    agent_type: str | None = None
    agent_command: str | None = None
    transfer: Transfer | None = None
    env_names: tuple[str, ...] | None = None
    max_running: int | None = None
    launch_rate: float | None = None
    timeout: float | None = None
    budget_usd: float | None = None
    on_cluster: OnCluster | None = None
    is_smoke: bool | None = None
    is_verify_on_arrival: bool | None = None
    affected_by: str | None = None
    tutorial: str = TUTORIAL
    is_resting: bool = True


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to start. `picked`: why `affected_by` selected each test, by node id.

    `uncollected`: files that cannot be collected: rows of the plan without an agent.
    """

    plan: RunPlan
    source: Source
    picked: Mapping[str, tuple[str, ...]]
    uncollected: tuple[Uncollected, ...]
    offer: Offer


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """The options of a run, checked as far as they can be without its tests. `notes`: warnings for the user."""

    source: Source
    choices: Choices
    pytest: PytestCommands
    mngr: Mngr
    notes: tuple[str, ...]


async def prepare(
    wanted: RunOptions,
    config: Config,
    environ: Mapping[str, str],
    cwd: Path,
    say: Callable[[str], None],
    choose_isolation: IsolationChooser | None = None,
) -> Prepared:
    """Prepare a run. `say` gets progress messages. `choose_isolation`: of tests; without it no claim is verified here.

    Raises UsageError, ConfigError, RefusedError or ToolError for what cannot work.
    """
    checked = await check_options(wanted, config, environ, cwd, say, choose_isolation)
    top, after = checked.source.place.top, config.rest_after if wanted.is_resting else 0
    now, most = time.time(), max(MOST_RUNS, after + config.rest_for) if after else _COMPARED
    plans, future = await asyncio.to_thread(earlier_plans, top, now, most)
    past = await asyncio.to_thread(past_runs, top, plans, now) if after else ()
    say("collecting the tests, and asking mngr")
    asking = asyncio.ensure_future(ask_mngr(checked.mngr, checked.choices))
    try:
        chosen = await select_tests(
            checked.source,
            CollectionRequest(
                wanted.tests, checked.pytest.collecting, wanted.pytest_args, wanted.affected_by, wanted.tutorial, cwd
            ),
            environ,
            rests(past, after, config.rest_for),
        )
        agents = await asking
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await asking
    suite, notes = await asyncio.to_thread(_suite, checked.source, chosen, wanted, plans, environ)
    notes += tuple(f"run {run} is dated in the future, so it is not compared with" for run in future)
    checked = replace(checked, notes=(*checked.notes, *notes))
    prepared = await asyncio.to_thread(_prepared, wanted, checked, chosen, suite, agents, environ)
    modal = await asyncio.to_thread(look_at_modal, checked.mngr, checked.choices.provider, config.modal_sandboxes)
    return replace(prepared, offer=replace(prepared.offer, modal=modal))


async def check_options(
    wanted: RunOptions,
    config: Config,
    environ: Mapping[str, str],
    cwd: Path,
    say: Callable[[str], None],
    choose_isolation: IsolationChooser | None = None,
    role: Role = "tester",
) -> CheckedOptions:
    """Read the repository, and check the options that need no tests. Raises as `prepare` does."""
    transfer = wanted.transfer or config.transfer
    say("reading the repository")
    source = await asyncio.to_thread(look_at, cwd, wanted.base, environ, transfer)
    provider = ",".join(places(config.on if wanted.provider is None else wanted.provider))
    is_local = providers_of(provider) == (LOCAL_PROVIDER,)
    setup = choose_setup(config.setup_command, source, environ, is_local=is_local)
    pytest = pytest_commands(config.pytest_command, source, environ, is_local=is_local, has_own=setup.has_own)
    arrival = ChosenIsolation("")
    if choose_isolation is not None and _is_verified_on_arrival(wanted, config, is_local=is_local):
        arrival = await asyncio.to_thread(choose_isolation, config, environ)
    choices = _choices(wanted, config, source, environ, cwd, provider, pytest, setup, arrival, role)
    check_choices(choices, environ)
    refuse_missing_tools(choices, environ)
    rights = f"claims are verified with all your rights, so agents' code can reach your files: {arrival.reason}"
    notes = (
        *pytest.notes, *warnings_of(choices, environ), *((rights,) if arrival.kind == NOT_ISOLATED else ()),
    )  # fmt: skip
    return CheckedOptions(source, choices, pytest, Mngr(find_mngr(environ), environ, source.place.top), notes)


def begin(prepared: Prepared, environ: Mapping[str, str]) -> RunFolder:
    """Make the run's folder, its clone, and the rows of files that cannot be collected; undo all of it on an error."""
    folder = make_run_folder(prepared.plan, environ)
    try:
        make_clone(Path(prepared.plan.repository), prepared.plan.base, folder.clone, environ)
        if prepared.uncollected:
            _end_uncollected(prepared, folder)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        with suppress(OSError):
            (runs_registry(environ) / f"{folder.run}.json").unlink()
        raise
    return folder


def _end_uncollected(prepared: Prepared, folder: RunFolder) -> None:
    names = {test.node_id: test.agent_name for test in prepared.plan.tests}
    with Journal(folder.journal) as journal:
        for one in prepared.uncollected:
            journal.append(
                Event.ENDED, time.time(), agent=names[one.path], attempt=0, end=End.NOT_STARTED, stage="collection",
                text=f"cannot be collected: {one.message}".encode("utf-8", "replace").decode(), tip="", commits=0,
            )  # fmt: skip


def _is_verified_on_arrival(wanted: RunOptions, config: Config, *, is_local: bool) -> bool:
    """Decide by the flag, else the setting; agents on other machines: only where somebody set it."""
    if wanted.is_verify_on_arrival is not None:
        return wanted.is_verify_on_arrival
    return config.verify_on_arrival and (is_local or "verify_on_arrival" in config.sources)


def _choices(
    wanted: RunOptions, config: Config, source: Source, environ: Mapping[str, str], cwd: Path, provider: str,
    pytest: PytestCommands, setup: Setup, arrival: ChosenIsolation, role: Role,
) -> Choices:  # fmt: skip
    named = wanted.agent_command
    # A command without a type means a command agent.
    agent_type = wanted.agent_type or (COMMAND if named is not None else config.agent)
    command = None
    if named is not None or (agent_type == COMMAND and config.agent_command):
        is_local = providers_of(provider) == (LOCAL_PROVIDER,)
        command = agent_command(named, config.agent_command, source, environ, cwd, is_local=is_local)
    transfer = wanted.transfer or config.transfer
    needed = needs(agent_type, config, environ, providers_of(provider), is_copy=transfer == "mirror")
    # Who names a number for this run wants that number, unless the setting was set, too.
    is_adapting = config.adapt and (wanted.max_running is None or "adapt" in config.sources)
    named_variables = config.env if wanted.env_names is None else wanted.env_names
    return Choices(
        pytest_command=pytest.agents,
        started_with=pytest.collecting if pytest.is_found else (),
        provider=provider,
        agent_type=agent_type,
        agent_command=command,
        transfer=transfer,
        env_names=(*named_variables, *needed.env_names),
        agent_env=(*needed.fixed, *(ENVIRONMENT if setup.command else ())),
        setup_command=setup.command,
        agent_settings=needed.settings,
        max_running=wanted.max_running or config.max_running,
        launch_rate=wanted.launch_rate or config.launch_rate,
        timeout=wanted.timeout or config.timeout,
        budget_usd=config.budget_usd if wanted.budget_usd is None else wanted.budget_usd,
        usd_per_agent=config.usd_per_agent,
        create_args=config.create_args,
        on_cluster=wanted.on_cluster or config.on_cluster,
        is_smoke=config.smoke if wanted.is_smoke is None else wanted.is_smoke,
        verify_on_arrival=arrival.kind,
        pytest_args=wanted.pytest_args,
        prompt_template=_template(config.prompt) if role == "tester" else "",
        role=role,
        tutorial="" if role == "tester" else wanted.tutorial,
        cluster_alike=config.cluster_alike,
        cluster_window=config.cluster_window,
        launch_retries=config.launch_retries,
        lost_retries=config.lost_retries,
        retry_pause=config.retry_pause,
        longest_retry_pause=config.longest_retry_pause,
        budget_day_usd=config.budget_day_usd,
        budget_day_tokens=config.budget_day_tokens,
        adapt=is_adapting,
        start_running=kept_sweet_spot(provider, agent_type, environ) if is_adapting else 0,
    )


def _template(path: str) -> str:
    if not path:
        return ""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_LONGEST_TEMPLATE + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"The prompt template {path} cannot be read", str(error), _FIX_PROMPT) from error
    if not text.strip() or len(text) > _LONGEST_TEMPLATE:
        what = "is empty" if not text.strip() else "is longer than a megabyte"
        raise ConfigError(f"The prompt template {path} {what}", "", _FIX_PROMPT)
    return text


def _suite(
    source: Source, chosen: SelectedTests, wanted: RunOptions, plans: Sequence[RunPlan], environ: Mapping[str, str]
) -> tuple[Suite, tuple[str, ...]]:
    """Compare the collected tests with those of the last run with the same arguments; also returns warnings."""
    git = Git(source.place.git_dir, environ)
    suite = Suite(chosen.asked, chosen.unselected, chosen.resting, unknown=chosen.unknown)
    warning = rewritten_base(plans[0], source.base, git) if plans else ""
    before = comparable(plans, chosen.asked, wanted.pytest_args)
    if before is not None:
        resting = (one.node_id for one in chosen.resting)
        found = (*(test.node_id for test in chosen.tests), *chosen.unselected, *resting)
        grown, gone = new_and_gone(before, found, chosen.unknown)
        suite = replace(suite, since=before.run, grown=grown, deleted=deletions(gone, before.base, source.base, git))
    return suite, ((warning,) if warning else ())


def _prepared(
    wanted: RunOptions,
    checked: CheckedOptions,
    chosen: SelectedTests,
    suite: Suite,
    agents: tuple[Agent, ...],
    environ: Mapping[str, str],
) -> Prepared:
    tests = tuple(test.node_id for test in chosen.tests)
    uncollected = tuple(Uncollected(error.path, error.message) for error in chosen.broken)
    plan = make_plan(
        checked.source, (*tests, *(one.path for one in uncollected)), chosen.blocks, checked.choices,
        environ=environ, at=time.time(), random_hex=secrets.token_hex, warnings=(*checked.notes, *chosen.notes),
        suite=suite,
    )  # fmt: skip
    refuse_taken(plan, {agent.name for agent in agents}, {agent.id for agent in agents})
    will_run = frozenset(tests)
    offer = Offer(
        plan=plan,
        estimates=estimates_of(plan, checked.source, environ, tests=len(tests)),
        tests=tuple(test for test in offered_tests(plan, chosen.picked) if test.node_id in will_run),
        uncollected=uncollected,
        base_name=wanted.base,
        affected_by=wanted.affected_by or "",
        found=chosen.found,
        deselected=chosen.deselected,
        free=free_bytes(plan, environ),
        withheld=withheld_variables(plan, environ),
    )
    return Prepared(plan, checked.source, chosen.picked, uncollected, offer)


def estimates_of(plan: RunPlan, source: Source, environ: Mapping[str, str], *, tests: int) -> Estimates:
    """Estimate a planned run of which so many tests get an agent."""
    along = files_to_upload(plan.agent_command)
    service = service_of(plan.agent_type, plan.env_names, environ)
    spent = None
    if plan.budget_day_usd is not None or plan.budget_day_tokens:
        spent = DayLedger(source.place.top).read(plan.created_at)
    usual = typical(source.place.top, plan)
    return estimate(plan, source.size, usual, tests=tests, along=along, service=service, spent=spent)


def withheld_variables(plan: RunPlan, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the user's variables that are hidden from agents on this machine."""
    if LOCAL_PROVIDER not in providers_of(plan.provider):
        return ()
    given = (*plan.env_names, *(pair.partition("=")[0] for pair in plan.agent_env))
    return withheld(inherited_from(default_socket(environ), environ), given)


def free_bytes(plan: RunPlan, environ: Mapping[str, str]) -> int | None:
    """Return the free bytes where the copies will be: at mngr's folder, or its nearest parent that exists."""
    place = host_dir_of(environ) if plan.transfer == "mirror" else Path(plan.repository)
    while not place.exists() and place != place.parent:
        place = place.parent
    with suppress(OSError):
        return shutil.disk_usage(place).free
    return None
