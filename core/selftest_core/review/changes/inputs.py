"""The inputs of a review: a run, agents, a range, or branches, resolved to ids once.

The branches of a run are its refs, `refs/selftest/<run>/agents/<agent>`, to which a conductor may still add; evidence
of its agents comes with them. Only `.selftest/`, which is ours, is written.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.errors import SelftestError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.paths import REPOSITORY_FOLDER
from selftest_core.review.changes.collect_changes import EARLIER, Branch
from selftest_core.review.changes.plan import Targets, resolve_branches, resolve_range, split_range
from selftest_core.run.outcome.claims import ClaimResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from selftest_core.git.command import Place
    from selftest_core.review.evidence import Evidence
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.store import RunFolder

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_HINT = "Write a run, BASE..BRANCH, `--base REF BRANCH…` for several branches, or `--agents NAME…`."


@dataclass(frozen=True, slots=True)
class Request:
    """A user's request: a run, `agents`, one `BASE..BRANCH`, or branches with a `base`.

    `targets`: the arguments; a single one without `..` is a run, none at all is the newest run of this repository.
    `agents`: names, ids or addresses. `pr`: open a pull request for what is published.
    """

    targets: tuple[str, ...] = ()
    base: str | None = None
    onto: str | None = None
    decisions: Path | None = None
    publish: str | None = None
    pr: bool = False
    run: str | None = None
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inputs:
    """A resolved request. `name` is the id of a new review; `key` finds an existing one after its branches moved.

    `base_name`: the name that was given for `base`, empty for an id. `folder`: the run's, None for other reviews.
    `left_out`: branches that could not be read or were refused, each with the reason. `clusters`: failures of a run by
    cause, with the number of tests.
    """

    kind: str
    key: str
    place: Place
    targets: Targets
    base_name: str = ""
    folder: RunFolder | None = None
    evidence: Mapping[str, Evidence] = field(default_factory=lambda: _NOTHING)
    left_out: tuple[tuple[str, str], ...] = ()
    clusters: tuple[tuple[str, int], ...] = ()
    is_live: bool = False

    @property
    def name(self) -> str:
        """The id of a new review of these inputs."""
        return self.targets.name

    @property
    def stamp(self) -> int:
        """The size of the run's journal, which changes with each event; 0 for other reviews."""
        return 0 if self.folder is None else self.folder.journal.stat().st_size


def find_inputs(
    request: Request, cwd: Path, environ: Mapping[str, str], say: Callable[[str], None], place: Place | None = None
) -> Inputs:
    """Resolve a request; `say` is called with the names of slow steps. Raises UsageError, ToolError.

    `place`: that of `cwd`, if it was found already.
    """
    run = _run_of(request)
    if run is not None:
        return run_inputs(run or None, cwd, environ, request.onto)
    place = place or find_place(cwd, environ)
    user = Git(place.git_dir, environ)
    if request.agents:
        from selftest_core.review.changes.agents_branches import fetch_branches

        found = fetch_branches(request.agents, place, environ, say)
        onto_oid = found.base if request.onto is None else user.resolve(request.onto)
        targets = Targets(found.base, onto_oid, found.branches, is_linear=False)
        return Inputs("agents", found.key, place, targets, found.base_name, left_out=found.left_out)
    if request.base is not None:
        if not request.targets:
            raise UsageError("No branch to review", "", "Name one or more: `review --base main BRANCH…`.")
        targets = resolve_branches(user, request.base, request.targets, request.onto)
        return Inputs("branches", _key(request.base, request.targets), place, targets, request.base)
    if len(request.targets) != 1:
        names = " ".join(request.targets)
        raise UsageError("Name what to review", f"Several branches, such as {names}, need --base.", _HINT)
    base, branch = split_range(request.targets[0])
    return Inputs("range", f"{base}..{branch}", place, resolve_range(user, base, branch, request.onto), base)


def words_of(request: Request) -> tuple[str, str] | None:
    """The kind and key of a review of branches or a range; None for a run and for agents."""
    if _run_of(request) is not None or request.agents:
        return None
    if request.base is not None:
        return ("branches", _key(request.base, request.targets)) if request.targets else None
    return ("range", "..".join(split_range(request.targets[0]))) if len(request.targets) == 1 else None


def _key(base: str, branches: Iterable[str]) -> str:
    return " ".join((base, *sorted(set(branches))))


def _run_of(request: Request) -> str | None:
    """The requested run, empty for the newest, None where the request is not for a run."""
    others = [bool(request.agents), request.base is not None, bool(request.targets) and request.base is None]
    if sum(others) + (request.run is not None) > 1:
        raise UsageError("A review is of one run, range, or set of branches or agents", "", _HINT)
    if request.run is not None:
        return request.run
    if request.agents or request.base is not None or len(request.targets) > 1:
        return None
    if not request.targets:
        return ""
    return None if ".." in request.targets[0] else request.targets[0]


def run_inputs(
    run: str | None,
    cwd: Path,
    environ: Mapping[str, str],
    onto: str | None = None,
    known: Mapping[str, Evidence] | None = None,
) -> Inputs:
    """Read the current branches of a run. Raises UsageError where there is no such run.

    `known`: evidence that was read before, which is not read again.
    """
    from selftest_core.run.store import find_run

    try:
        here: Path | None = find_place(cwd, environ).top
    except UsageError:
        if run is None:
            raise
        here = None
    try:
        folder = find_run(environ, here, run, is_wanted=_has_branches)
    except UsageError as error:
        raise UsageError(error.title, error.detail, f"{error.hint} Or: {_HINT[0].lower()}{_HINT[1:]}") from error
    standing = folder.read()
    return inputs_of_run(folder, standing, environ, onto, known)


def _has_branches(folder: RunFolder) -> bool:
    """False for a run of integrators: their answers belong to the review that asked for them."""
    try:
        return folder.plan().role != "integrator"
    except SelftestError:
        return True  # it is named with the reason when it is read


def inputs_of_run(
    folder: RunFolder,
    standing: Run,
    environ: Mapping[str, str],
    onto: str | None = None,
    known: Mapping[str, Evidence] | None = None,
) -> Inputs:
    """Read the current branches of a run whose journal was read. Raises UsageError, ToolError."""
    from selftest_core.run.fetch.bundles import agent_ref, earlier_ref

    plan = standing.plan
    place = find_place(Path(plan.repository), environ)
    user = Git(place.git_dir, environ)
    refs = user.refs(agent_ref(plan.run, ""))
    branches = tuple(
        Branch(name if _has_last_word(row) else f"{name}{EARLIER}", tip)
        for name, row in standing.rows.items()
        if _is_offered(plan, row) and (tip := refs.get(agent_ref(plan.run, name))) is not None
    )
    if plan.role == "tester":  # of others, the gate judges the last attempt only
        earlier = user.refs(earlier_ref(plan.run, "")).items()
        branches += tuple(Branch(f"{ref.split('/')[-2]} {tip[:8]}{EARLIER}", tip) for ref, tip in earlier)
    onto_oid = plan.base if onto is None else user.resolve(onto)
    targets = Targets(user.resolve(plan.base), onto_oid, branches, is_linear=False, id=plan.run)
    from selftest_core.review.evidence import read_evidence
    from selftest_core.run.conduct.circuit_breaker import run_clusters

    clusters = tuple((one.signature, len(one.tests)) for one in run_clusters(standing))
    evidence = read_evidence(folder, standing, known)
    return Inputs(
        "run", plan.run, place, targets, "", folder, evidence, left_out=_refused(standing), clusters=clusters,
        is_live=not standing.is_over,
    )  # fmt: skip


def _is_offered(plan: RunPlan, row: RunRow) -> bool:
    """Return whether work is reviewed: of an agent that is no tester only what its gate let pass."""
    return plan.role == "tester" or row.gate == ClaimResult.PASSED


def _refused(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the agents whose work is not offered, each with the reason; those that are still at work are missing."""
    found = []
    for name, row in run.rows.items():
        if row.commits and row.end is not None and not row.is_verifying and not _is_offered(run.plan, row):
            why = row.verified_reason.partition("\n")[0] or row.text.partition("\n")[0]
            found.append((name, f"refused: {why}" if row.gate == ClaimResult.FAILED else f"not checked: {why}"))
    return tuple(found)


def _has_last_word(row: RunRow) -> bool:
    """Return whether the branch of a test may be of its last attempt: not where that one reported, without a commit."""
    from selftest_core.run.outcome.ends import End

    reported = (End.SUCCEEDED, End.UNCHANGED, End.BLOCKED, End.RED)
    return row.attempt <= 1 or row.commits > 0 or row.end not in reported


def renewed(inputs: Inputs, environ: Mapping[str, str]) -> Inputs:
    """Read the inputs again where they are of a run; others do not change. Raises as `run_inputs` does."""
    if inputs.folder is None:
        return inputs
    return run_inputs(inputs.folder.run, inputs.place.top, environ, known=inputs.evidence)


def own_folder(top: Path) -> Path:
    """Create `.selftest/` at the top of a work tree, ignored by git from the start, and return it."""
    folder = top / REPOSITORY_FOLDER
    ignore = folder / ".gitignore"
    if not ignore.is_file():
        folder.mkdir(exist_ok=True)
        ignore.write_text("*\n")
    return folder


def home_of(inputs: Inputs, name: str) -> Path:
    """Create the folder of a review and return it: the run's own, else one beside the runs."""
    home = inputs.folder.path if inputs.folder is not None else own_folder(inputs.place.top) / "runs" / name
    home.mkdir(parents=True, exist_ok=True)
    return home
