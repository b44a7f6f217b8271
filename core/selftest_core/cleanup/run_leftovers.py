"""Leftovers of ended runs: agents, clones, entries in Claude Code's settings, refs of runs that are gone, old folders.

Only what certainly belongs to a run is offered: an agent by id and label, a ref by a run's id and its missing folder. A
run that is live or can be resumed is never touched; this is checked again before each removal, with the journal locked
so that no conductor can start meanwhile.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from selftest_core.actions.agent_actions import Act, Target, steer
from selftest_core.agent_types.trust import claude_file, entries_of, remove_entries
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.cleanup.selection import ALL, REFS, RUN_ID, Selection
from selftest_core.errors import SelftestError, ToolError
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.paths import runs_folder
from selftest_core.run.conduct.conductor_process import hold
from selftest_core.run.conduct.conductor_session import ConductorSession, close_session, find_conductor
from selftest_core.run.crew.trusted_folders import agent_ids, trusted_folders
from selftest_core.run.overview import glance, own_folders
from selftest_core.run.plan.names import RUN_LABEL
from selftest_core.run.providers import providers_of
from selftest_core.run.store import forget, run_folders
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.agents import Agent
    from selftest_core.run.fold import Run
    from selftest_core.run.overview import RunGlance
    from selftest_core.run.store import RunFolder

type Kind = Literal["agents", "session", "clone", "branches", "trust", "refs", "run"]

OLD = 30 * 24 * 3600.0
"""Seconds after the end of a run before its folder is offered."""
_LISTING = 240.0
"""Seconds for a listing: no screen waits for it, and an agent that is not listed is not offered."""


@dataclass(frozen=True, slots=True)
class RunLeftover:
    """One leftover of a run. `names`: exactly what is removed. `path`: the run's folder, or the repository for refs."""

    kind: Kind
    run: str
    path: Path
    says: str
    names: tuple[str, ...] = ()
    folder: RunFolder | None = None
    targets: tuple[Target, ...] = ()
    session: ConductorSession | None = None
    oids: tuple[str, ...] = ()
    git_dir: Path | None = None


async def run_leftovers(
    environ: Mapping[str, str], repository: Path | None, now: float, selection: Selection = ALL
) -> tuple[tuple[RunLeftover, ...], tuple[str, ...]]:
    """Find the leftovers of ended runs, in the order of removal, and messages about what could not be checked.

    `now`: seconds since the epoch. mngr is only asked if there are runs: one listing for each of their providers.
    """
    own = own_folders(environ, repository) if selection.is_here and repository else run_folders(environ, repository)
    glanced = [glance(folder) for folder in own if selection.includes(folder.run)]
    found = [one for one in glanced if one.state == "ended"]
    agents, problems = await _agents_of(found, environ)
    left: list[RunLeftover] = []
    for one in found:
        if one.run is not None:
            left += _of_run(one, one.run, agents.get(one.folder.path, []), environ, now)
    if repository is not None:
        left += [one for one in _refs_of_none(repository, environ) if selection.includes(one.run)]
    return tuple(left), problems


async def remove(leftover: RunLeftover, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Remove a leftover, if its run has still ended; return messages about what failed."""
    try:
        with contextlib.ExitStack() as held:
            if leftover.folder is not None:
                held.enter_context(hold(leftover.folder))
                if not leftover.folder.read().is_over:
                    return (f"the run {leftover.run} is live again: kept",)
            return await _removed(leftover, environ)
    except (SelftestError, OSError) as error:
        return (" ".join(str(error).split("\n")),)


async def _removed(leftover: RunLeftover, environ: Mapping[str, str]) -> tuple[str, ...]:
    match leftover.kind:
        case "agents":
            mngr = Mngr(find_mngr(environ), environ, Path("/"))
            results = await steer(mngr, Act.DESTROY, leftover.targets)
            return tuple(f"{one.target.name}: {one.text}" for one in results if not one.ok)
        case "session":
            if leftover.session is not None:
                close_session(leftover.session, environ)
        case "clone":
            _remove_clone(leftover.path)
        case "trust":
            says = remove_entries(leftover.path, leftover.names)
            return (says,) if says else ()
        case "branches" | "refs":
            _remove_refs(leftover, environ)
        case "run":
            _remove_refs(leftover, environ)
            # The journal is removed last: after an interruption the rest is still an ended run.
            for path in leftover.path.iterdir():
                if path.name not in ("journal.jsonl", "plan.json"):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            shutil.rmtree(leftover.path)
            forget(leftover.run, environ)
    return ()


def _of_run(
    found: RunGlance, run: Run, agents: Sequence[Agent], environ: Mapping[str, str], now: float
) -> list[RunLeftover]:
    folder, name = found.folder, run.plan.run
    left: list[RunLeftover] = []
    if agents:
        targets = tuple(Target(one.key, one.address, one.name, one.host.provider, None, one.state) for one in agents)
        names = tuple(one.name for one in agents)
        says = f"run {name}: {_plural(len(agents), 'agent')} with their copies of the repository"
        left.append(RunLeftover("agents", name, folder.path, says, names, folder, targets))
    session = find_conductor(folder, environ)
    if session is not None:
        says = f"run {name}: the tmux session {session.name} of its conductor"
        left.append(RunLeftover("session", name, folder.path, says, (session.name,), folder, session=session))
    left += _branches_of(folder, run, environ)
    trusted = entries_of(claude_file(environ), trusted_folders(folder, run, environ))
    if trusted:
        entries = "1 entry" if len(trusted) == 1 else f"{len(trusted)} entries"
        says = f"run {name}: {entries} of its agents' folders among the trusted ones in ~/.claude.json"
        left.append(RunLeftover("trust", name, claude_file(environ), says, trusted, folder))
    ended_at = max((row.ended_at or 0.0 for row in run.rows.values()), default=0.0)
    if now - max(ended_at, run.plan.created_at) > OLD:
        refs = _refs_of(Path(run.plan.repository), f"{REFS}{name}/", environ)
        says = f"run {name}: its folder, and what its agents committed (it ended more than 30 days ago)"
        left.append(
            RunLeftover(
                "run", name, folder.path, says, (str(folder.path), *refs[1]), folder, oids=refs[2], git_dir=refs[0]
            )
        )
    elif folder.clone.is_dir():
        says = f"run {name}: the private clone that its agents came from"
        left.append(RunLeftover("clone", name, folder.path, says, (str(folder.clone),), folder))
    return left


async def _agents_of(
    found: Sequence[RunGlance], environ: Mapping[str, str]
) -> tuple[dict[Path, list[Agent]], tuple[str, ...]]:
    """List the existing agents of these runs, by the run's folder."""
    providers = {name: None for one in found if one.run is not None for name in providers_of(one.run.plan.provider)}
    agents: list[Agent] = []
    problems: list[str] = []
    for provider in providers:
        try:
            listed = await list_agents(Mngr(find_mngr(environ), environ, Path("/")), provider, _LISTING)
        except ToolError as error:
            problems.append(f"the agents of {provider} were not checked: {error.title}")
            continue
        agents += listed.agents
        problems += [f"the agents of {provider} were not all listed: {one.message}" for one in listed.errors]
    by_run: dict[Path, list[Agent]] = {}
    for one in found:
        if one.run is not None:
            ids = agent_ids(one.run)
            own = [agent for agent in agents if agent.id in ids and agent.labels.get(RUN_LABEL) == one.run.plan.run]
            by_run[one.folder.path] = own
    return by_run, tuple(problems)


def _branches_of(folder: RunFolder, run: Run, environ: Mapping[str, str]) -> list[RunLeftover]:
    """Find the branches in the user's repository with exactly the names that mngr gives to this run's agents."""
    if run.plan.transfer != "worktree" or LOCAL_PROVIDER not in providers_of(run.plan.provider):
        return []
    git_dir, names, oids = _refs_of(Path(run.plan.repository), "refs/heads/mngr/", environ)
    rows = run.rows.values()
    members = [row.member for row in rows if row.member is not None] + [
        retry.member for row in rows for retry in row.retries
    ]
    own = {f"refs/heads/mngr/{member.name}" for member in members}
    pairs = [(name, oid) for name, oid in zip(names, oids, strict=True) if name in own]
    if not pairs:
        return []
    says = f"run {run.plan.run}: {_plural(len(pairs), 'branch', 'es')} of its agents"
    return [
        RunLeftover(
            "branches", run.plan.run, folder.path, says, tuple(name for name, _ in pairs), folder,
            oids=tuple(oid for _, oid in pairs), git_dir=git_dir,
        )
    ]  # fmt: skip


def _refs_of_none(repository: Path, environ: Mapping[str, str]) -> list[RunLeftover]:
    """Find refs of runs whose folder is gone."""
    git_dir, names, oids = _refs_of(repository, REFS, environ)
    by_run: dict[str, list[tuple[str, str]]] = {}
    for name, oid in zip(names, oids, strict=True):
        run = name.removeprefix(REFS).partition("/")[0]
        if RUN_ID.fullmatch(run) and not (runs_folder(repository) / run).exists():
            by_run.setdefault(run, []).append((name, oid))
    return [
        RunLeftover(
            "refs", run, repository, f"run {run}: {_plural(len(pairs), 'ref')} of it, whose folder is gone",
            tuple(name for name, _ in pairs), oids=tuple(oid for _, oid in pairs), git_dir=git_dir,
        )
        for run, pairs in sorted(by_run.items())
    ]  # fmt: skip


def _refs_of(
    repository: Path, prefix: str, environ: Mapping[str, str]
) -> tuple[Path | None, tuple[str, ...], tuple[str, ...]]:
    try:
        place = find_place(repository, environ)
        refs = Git(place.git_dir, environ).refs(prefix)
    except (SelftestError, OSError):
        return None, (), ()
    return place.git_dir, tuple(refs), tuple(refs.values())


def _remove_refs(leftover: RunLeftover, environ: Mapping[str, str]) -> None:
    """Remove all refs or none, and only if they still have the ids that were shown."""
    names = [name for name in leftover.names if name.startswith("refs/")]
    if leftover.git_dir is None or not names:
        return
    git = Git(leftover.git_dir, environ)
    if leftover.kind == "branches":
        held = git.checked_out()
        for name in names:
            if name in held:
                raise SelftestError(f"{name} is checked out in {held[name]}: kept")
    commands = "".join(f"delete {name} {oid}\n" for name, oid in zip(names, leftover.oids, strict=True))
    git.ask("update-ref", "--no-deref", "--stdin", text=f"start\n{commands}commit\n")


def _remove_clone(folder: Path) -> None:
    clone = folder / "clone"
    trees = clone / ".git" / "worktrees"
    if trees.is_dir() and any(trees.iterdir()):
        raise SelftestError("agents still have work trees of this clone: kept", str(clone))
    shutil.rmtree(clone)


def _plural(count: int, word: str, ending: str = "s") -> str:
    return f"{count} {word}{'' if count == 1 else ending}"
