"""The branches of existing agents, found through mngr and fetched into this repository.

An agent works in a worktree of this repository, in a copy on this machine, or on another host. Commits of the first are
here already; those of a copy are packed from its object store; another host makes a bundle by `mngr exec`, which
`mngr rsync` fetches. No host is started, no work tree is written to, and all objects pass git's `index-pack --strict`
before the user's repository gets them.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, ToolFailedError, UsageError
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.frozen import dataclass
from selftest_core.git.command import GUARDED_GIT, TIMEOUT, Git, environment
from selftest_core.git.object_store import ObjectStore
from selftest_core.git.objects import is_oid
from selftest_core.review.changes.collect_changes import Branch
from selftest_core.review.changes.plan import MAIN_REFS
from selftest_core.review.publishing import transfer
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from selftest_core.agents import Agent
    from selftest_core.fleet.observations import Listed
    from selftest_core.git.command import Place

_ADDRESS = re.compile(r"agent-[0-9a-f]{32}@[^@]+\.([^.@]+)")
MOST_COMMITS = 1000
"""Commits of one agent that this repository may lack at most."""


class UnusableBranchError(SelftestError):
    """An agent whose branch cannot be fetched; it is left out, and the others are reviewed."""


@dataclass(frozen=True, slots=True)
class AgentBranches:
    """Branches of agents on one base. `key`: their addresses; `left_out`: agents without a branch, with the reason."""

    key: str
    base: str
    base_name: str
    branches: tuple[Branch, ...]
    left_out: tuple[tuple[str, str], ...] = ()


def fetch_branches(
    names: Sequence[str], place: Place, environ: Mapping[str, str], say: Callable[[str], None]
) -> AgentBranches:
    """Fetch the branches of these agents (names, ids or addresses), and find their common base.

    Raises UsageError for an unknown agent, an ambiguous name, and where no branch can be fetched; ToolError where mngr
    fails.
    """
    say("asking mngr")
    mngr = Mngr(find_mngr(environ), environ, place.top)
    agents = choose(names, asyncio.run(_list(mngr, names)))
    labels = _labels(agents)
    user = Git(place.git_dir, environ)
    branches: list[Branch] = []
    left_out: list[tuple[str, str]] = []
    for number, agent in enumerate(agents, start=1):
        say(f"fetching branches: {number} of {len(agents)}")
        label = labels[agent.address]
        try:
            branches.append(Branch(label, _fetch(agent, place, user, mngr)))
        except SelftestError as error:
            left_out.append((label, ": ".join(part for part in (error.title, error.detail) if part)))
    if not branches:
        detail = "\n".join(f"{name}: {reason}" for name, reason in left_out)
        raise UsageError("None of these agents has a branch that can be reviewed", detail)
    base, base_name = find_base(user, [branch.tip for branch in branches])
    key = " ".join(sorted(agent.address for agent in agents))
    return AgentBranches(key, base, base_name, tuple(branches), tuple(left_out))


async def _list(mngr: Mngr, names: Sequence[str]) -> Listed:
    """List the agents: only of the providers in the addresses, if all names are addresses, since others may be down."""
    found = [_ADDRESS.fullmatch(name) for name in names]
    providers = {match[1] if match is not None else None for match in found}
    answers = [
        await list_agents(mngr, one) for one in ((None,) if None in providers else sorted(filter(None, providers)))
    ]
    agents = tuple(agent for answer in answers for agent in answer.agents)
    return replace(answers[0], agents=agents, errors=tuple(error for answer in answers for error in answer.errors))


def choose(names: Sequence[str], listed: Listed) -> tuple[Agent, ...]:
    """Find the agents of these names, ids or addresses, each once. Raises UsageError."""
    chosen: dict[str, Agent] = {}
    for name in names:
        meant = [agent for agent in listed.agents if name in (agent.name, agent.id, agent.address)]
        if len(meant) > 1:
            detail = "\n".join(agent.address for agent in meant)
            raise UsageError(f"There are several agents named {name}", detail, "Give the address of one.")
        if not meant:
            raise _not_there(name, listed)
        chosen[meant[0].address] = meant[0]
    return tuple(chosen.values())


def _not_there(name: str, listed: Listed) -> UsageError:
    import difflib

    near = difflib.get_close_matches(name, [agent.name for agent in listed.agents], n=1)
    failed = [f"{error.provider or 'mngr'}: {error.message}" for error in listed.errors]
    hint = f"Did you mean {near[0]}?" if near else "`selftest-tui list` shows all agents."
    return UsageError(f"There is no agent {name}", "\n".join(failed), hint)


def find_base(user: Git, tips: Sequence[str]) -> tuple[str, str]:
    """Find the commit that all these branches build on, and the branch of this repository that has it.

    Of the usual main branches it takes the one that these branches are the fewest commits ahead of, and there the
    newest fork point. Raises UsageError where they share no history with any.
    """
    refs = user.refs()
    head = user.head()
    best: tuple[int, str, str] | None = None
    for ref in dict.fromkeys((head, *MAIN_REFS)):
        if ref not in refs:
            continue
        base = _fork(user, refs[ref], tips)
        if base is None:
            continue
        ahead = sum(int(user.ask("rev-list", "--count", tip, f"^{base}")) for tip in tips)
        if best is None or ahead < best[0]:
            best = (ahead, base, ref)
    if best is None:
        hint = "Start it in the repository that these agents work on."
        raise UsageError("These agents' branches share no history with this repository", "", hint)
    return best[1], best[2].removeprefix("refs/heads/").removeprefix("refs/remotes/")


def _fork(user: Git, main: str, tips: Iterable[str]) -> str | None:
    """Find the newest fork point of the branches on `main` if it descends from all others; else the common ancestor."""
    forks: list[str] = []
    for tip in tips:
        done = user.run("merge-base", main, tip)
        if not done.ok:
            return None
        forks.append(done.stdout.split()[0])
    distinct = list(dict.fromkeys(forks))
    for fork in distinct:
        if all(user.run("merge-base", "--is-ancestor", other, fork).ok for other in distinct):
            return fork
    shared = user.run("merge-base", "--octopus", *distinct)
    return shared.stdout.split()[0] if shared.ok else None


def _labels(agents: Sequence[Agent]) -> dict[str, str]:
    """Label the agents, by address: the name, with the host where two have that name."""
    counts = Counter(agent.name for agent in agents)
    return {
        agent.address: agent.name if counts[agent.name] == 1 else f"{agent.name}@{agent.host.name}" for agent in agents
    }


def _fetch(agent: Agent, place: Place, user: Git, mngr: Mngr) -> str:
    """Fetch the agent's branch into this repository and return its last commit. Raises SelftestError."""
    if not agent.host.is_local:
        return _fetch_remote(agent, place, user, mngr)
    folder = Path(agent.work_dir)
    if not agent.work_dir or not (folder / ".git").exists():
        kept = user.refs(f"refs/heads/{agent.branch}").get(f"refs/heads/{agent.branch}") if agent.branch else None
        if kept is None:
            raise UnusableBranchError("its copy of the repository was deleted", agent.work_dir)
        return kept
    if folder.resolve() == place.top.resolve():
        raise UnusableBranchError("it works in your own checkout", "It has no branch of its own.")
    git_dir, tip = _read_head(folder, mngr.environ)
    if git_dir.resolve() != place.git_dir.resolve() and not _has(user, [tip]):
        with (
            tempfile.TemporaryDirectory(prefix="selftest-branch-") as passing,
            ObjectStore.open(Path(passing) / "engine.git", git_dir, mngr.environ) as store,
        ):
            out = store.git.ask("rev-list", "--topo-order", f"--max-count={MOST_COMMITS + 1}", tip)
            transfer(store, user, tip, _known(user, out.split()))
    return tip


def _read_head(folder: Path, environ: Mapping[str, str]) -> tuple[Path, str]:
    """Read the git folder of a copy on this machine, and its HEAD commit."""
    argv = [
        "git", f"--git-dir={folder / '.git'}", "rev-parse", "--path-format=absolute", "--git-common-dir", "--verify",
        "HEAD^{commit}",
    ]  # fmt: skip
    done = run(argv, timeout=TIMEOUT, cwd=folder, env=environment(environ))
    lines = done.stdout.splitlines()
    if not done.ok or len(lines) != 2 or not is_oid(lines[1]):
        raise UnusableBranchError("its repository cannot be read", done.stderr_end)
    return Path(lines[0]), lines[1]


def _has(user: Git, oids: Sequence[str]) -> list[str]:
    """Filter the commits that this repository has."""
    out = user.ask("cat-file", "--batch-check=%(objectname) %(objecttype)", text="".join(f"{oid}\n" for oid in oids))
    return [line.split()[0] for line in out.splitlines() if line.endswith(" commit")]


def _known(user: Git, history: Sequence[str]) -> str:
    """Find the newest commit of a branch's history that this repository has."""
    if not all(is_oid(oid) for oid in history):
        raise UnusableBranchError("its history cannot be read")
    known = set(_has(user, history))
    found = next((oid for oid in history if oid in known), None)
    if found is None:
        is_long = len(history) > MOST_COMMITS
        raise UnusableBranchError(
            f"its branch has more than {MOST_COMMITS:,} commits that this repository lacks" if is_long
            else "its branch shares no history with this repository"
        )  # fmt: skip
    return found


def _fetch_remote(agent: Agent, place: Place, user: Git, mngr: Mngr) -> str:
    git = GUARDED_GIT
    history = _exec(agent, mngr, f"{git} rev-list --topo-order --max-count={MOST_COMMITS + 1} HEAD --").split()
    if not history or not is_oid(history[0]):
        raise UnusableBranchError("its repository cannot be read", " ".join(history)[:200])
    tip = history[0]
    base = _known(user, history)
    if base == tip:
        return tip
    # In its git folder, where it is not an untracked file; each review overwrites it.
    made = _exec(
        agent, mngr,
        f'd="$({git} rev-parse --absolute-git-dir)/selftest-review" && mkdir -p "$d" && '
        f'{git} bundle create -q "$d/branch.bundle" HEAD ^{base} && printf %s "$d"',
    ).strip()  # fmt: skip
    if not made.startswith("/"):
        raise UnusableBranchError("its branch cannot be packed", made[:200])
    with tempfile.TemporaryDirectory(prefix="selftest-branch-") as passing:
        staging = Path(passing) / "bundle"
        staging.mkdir()
        arguments = [
            "rsync", f"{agent.address}:{made}/", f"{staging}/", "--no-start", "--uncommitted-changes", "clobber", "--",
            "--no-links", "--no-devices", "--no-specials",
        ]  # fmt: skip
        done = asyncio.run(mngr.call(arguments, timeout=TIMEOUT))
        bundle = staging / "branch.bundle"
        if not done.ok or not bundle.is_file():
            raise ToolFailedError("its branch could not be copied", done.stderr_end, argv=done.argv)
        with ObjectStore.open(Path(passing) / "engine.git", place.git_dir, mngr.environ) as store:
            store.git.ask("bundle", "unbundle", str(bundle))
            if store.git.run("cat-file", "-t", tip).stdout.strip() != "commit":
                raise UnusableBranchError("its bundle does not have its last commit", tip)
            transfer(store, user, tip, base)
    return tip


def _exec(agent: Agent, mngr: Mngr, script: str) -> str:
    """Run a script in the agent's folder and return its stdout. Never starts a host. Raises UnusableBranchError."""
    from selftest_core.run.crew.mngr_commands import parse_exec

    arguments = [
        "exec", agent.address, script, "--no-start", "--format", "json", "--on-error", "continue",
        "--timeout", f"{TIMEOUT - 10:g}",
    ]  # fmt: skip
    done = asyncio.run(mngr.call(arguments, timeout=TIMEOUT))
    ok, output = parse_exec(done.stdout).get(agent.name, (False, done.stderr_end))
    if not ok:
        raise UnusableBranchError("its host cannot be reached", output[-500:])
    return output
