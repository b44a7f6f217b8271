"""The branch of an agent, taken from the bundle that it wrote: checked in quarantine, then kept under a ref of ours.

A quarantine repository borrows the user's objects, and the bundle is unpacked there first. Only when its tip is a
commit that descends from the base, it is unpacked into the user's object store and named
`refs/selftest/<run>/agents/<agent>`; refs in the bundle and the agent's branch name are ignored. The branch of an
earlier attempt is kept under `refs/selftest/<run>/earlier/<agent>/`, unless the new one contains it. A fetch would need
git's file protocol, which stays forbidden, so `git bundle unbundle` is used.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.git.object_store import ObjectStore
from selftest_core.git.objects import is_oid
from selftest_core.run.store import folder_of, temporary_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.fold import Member
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.tools.process import Completed

MOST_COMMITS = 1000
_TIMEOUT = 120.0


class UnusableBundleError(SelftestError):
    """A file that is no bundle, or whose commits do not descend from the run's base."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A branch that was taken: its tip and its number of commits over the base. Without commits there is no ref."""

    tip: str = ""
    commits: int = 0


class Bundles(Protocol):
    """Takes branches from bundles."""

    async def take(self, bundle: Path, member: Member) -> Taken:
        """Check the bundle and keep its branch. Idempotent.

        Raises UnusableBundleError, or another SelftestError if our own repository fails.
        """
        ...


def agent_ref(run: str, test: str) -> str:
    """Return the ref of a test's branch; `test` is the planned agent name."""
    return f"refs/selftest/{run}/agents/{test}"


def earlier_ref(run: str, test: str) -> str:
    """Return the folder of the refs of a test's branches that the branch of a later attempt replaced."""
    return f"refs/selftest/{run}/earlier/{test}"


class GitBundles:
    """Takes branches into the user's repository, one at a time, since each walks many objects."""

    def __init__(self, plan: RunPlan, environ: Mapping[str, str]) -> None:
        self._plan = plan
        self._environ = dict(environ)
        self._one_at_a_time = asyncio.Lock()

    async def take(self, bundle: Path, member: Member) -> Taken:
        """Check and keep one branch, in a thread."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(take, self._plan, bundle, member.test, self._environ)


def take(plan: RunPlan, bundle: Path, test: str, environ: Mapping[str, str]) -> Taken:
    """Check the bundle in quarantine, then keep its branch as the test's. Raises UnusableBundleError."""
    place = find_place(Path(plan.repository), environ)
    quarantine = Path(tempfile.mkdtemp(prefix=f"{temporary_prefix(folder_of(plan).path)}quarantine-"))
    try:
        with ObjectStore.open(quarantine / "git", place.git_dir, environ) as store:
            taken = _examine(store.git, plan.base, bundle)
        if taken.commits:
            own = Git(place.git_dir, environ)
            _must(own.run("bundle", "unbundle", str(bundle), timeout=_TIMEOUT))
            ref = agent_ref(plan.run, test)
            before = own.refs(ref).get(ref)
            if before not in (None, taken.tip) and not own.run("merge-base", "--is-ancestor", before, taken.tip).ok:
                own.ask("update-ref", "--no-deref", f"{earlier_ref(plan.run, test)}/{before}", before)
            own.ask("update-ref", "--no-deref", ref, taken.tip)
        return taken
    finally:
        shutil.rmtree(quarantine, ignore_errors=True)


def _examine(git: Git, base: str, bundle: Path) -> Taken:
    _must(git.run("bundle", "verify", "--quiet", str(bundle), timeout=_TIMEOUT))
    heads = _heads(_must(git.run("bundle", "list-heads", str(bundle), timeout=_TIMEOUT)).stdout)
    _must(git.run("bundle", "unbundle", str(bundle), timeout=_TIMEOUT))
    tip = _tip(heads)
    if git.run("cat-file", "-t", tip).stdout.strip() != "commit":
        raise UnusableBundleError("The bundle's branch is no commit", tip)
    if not git.run("merge-base", "--is-ancestor", base, tip).ok:
        raise UnusableBundleError("The bundle's commits do not descend from the run's base", f"{tip} over {base}")
    # Walk all new objects, so that a missing one is found here and not in a review.
    _must(git.run("rev-list", "--objects", "--quiet", tip, f"^{base}", timeout=_TIMEOUT))
    commits = int(_must(git.run("rev-list", "--count", tip, f"^{base}")).stdout)
    if commits > MOST_COMMITS:
        raise UnusableBundleError(f"The bundle has {commits:,} commits", f"{MOST_COMMITS:,} are taken at most.")
    return Taken(tip, commits)


def _heads(text: str) -> dict[str, str]:
    pairs = (line.split(" ", 1) for line in text.splitlines() if " " in line)
    return {name: oid for oid, name in pairs if is_oid(oid)}


def _tip(heads: Mapping[str, str]) -> str:
    """Return the tip: HEAD where the bundle has it, else its only branch."""
    if "HEAD" in heads:
        return heads["HEAD"]
    tips = {oid for name, oid in heads.items() if name.startswith("refs/heads/")} or set(heads.values())
    if len(tips) != 1:
        problem = "has no ref" if not tips else "has several branches and no HEAD"
        raise UnusableBundleError(f"The bundle {problem}", ", ".join(sorted(heads))[:500])
    return tips.pop()


def _must(done: Completed) -> Completed:
    if not done.ok:
        raise UnusableBundleError("The bundle cannot be used", done.stderr_end)
    return done
