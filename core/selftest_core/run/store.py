"""The folder of a run, and the registry of the runs of all repositories.

    .selftest/.gitignore                       holds `*`, before anything else is written
    .selftest/scheduled.jsonl                  scheduled runs: see `history.scheduled_log`
    .selftest/runs/<run>/plan.json             written once
                         journal.jsonl         all events of the run
                         wishes/<n>.json       requests of the user to the conductor
                         reminded/<agent id>       agents that were reminded: see `fleet.sources.reminders`
                         prompts/<agent>.md, tasks/<agent>/   what its newest agent got
                         agents/<agent>/attempt-N/   results, complete: renamed into place
    <state folder>/runs/<run>.json             the path of that run, so that `runs` finds other repositories

The staging folder is outside any repository, because `mngr rsync` guards the repository around its destination.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import zlib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import RefusedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.journal import is_held, read
from selftest_core.paths import REPOSITORY_FOLDER, runs_folder, runs_registry
from selftest_core.run.fold import Run, fold
from selftest_core.run.plan.plan import RunPlan, plan_from_json, plan_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.run.fold import Member


class RequestKind(StrEnum):
    """A request of the user to the conductor. `STOP` ends the whole run, `STOP_ONE` one test's agent."""

    PAUSE = "pause"
    GO = "go"
    STOP = "stop"
    STOP_ONE = "stop_one"
    SKIP = "skip"
    RETRY = "retry"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One request. `test`: the planned agent name, empty for the whole run.

    Of an answer: its `text`; the `attempt` that asked, 0 for any; and an `id`, so that it is taken once.
    """

    kind: RequestKind
    test: str = ""
    text: str = ""
    attempt: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def run(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.path / "journal.jsonl"

    @property
    def clone(self) -> Path:
        """The private clone that agents start from."""
        return self.path / "clone"

    def attempt(self, member: Member) -> Path:
        """Return the folder of an attempt's results; it exists once they are complete and checked."""
        return self.path / "agents" / member.test / f"attempt-{member.attempt}"

    def plan(self) -> RunPlan:
        """Read the plan. Raises UsageError if there is none, UnreadablePlanError if it is invalid."""
        try:
            document = json.loads((self.path / "plan.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"The run {self.run} cannot be read", str(error), "`selftest-tui runs` lists them."
            ) from error
        return plan_from_json(document)

    def read(self) -> Run:
        """Read the current state of the run; works while a conductor writes."""
        plan = self.plan()
        try:
            data = self.journal.read_bytes()
        except FileNotFoundError:
            data = b""
        return fold(plan, read(data).entries)

    def is_conducted(self) -> bool:
        """Return whether a conductor holds the journal."""
        return is_held(self.journal)

    def make_staging(self, member: Member) -> Path:
        """Make a temporary folder outside any repository, for fetching this agent's results."""
        return Path(tempfile.mkdtemp(prefix=f"{temporary_prefix(self.path)}{member.agent_id[6:14]}-"))

    def clear_temporary(self) -> None:
        """Remove the temporary folders of a conductor that was killed. Call it only while holding the journal."""
        for path in Path(tempfile.gettempdir()).glob(f"{temporary_prefix(self.path)}*"):
            shutil.rmtree(path, ignore_errors=True)

    def put_in_place(self, staging: Path, member: Member) -> Path:
        """Move the staged files to the attempt's folder atomically; keep a folder that exists already."""
        place = self.attempt(member)
        if place.exists():
            shutil.rmtree(staging, ignore_errors=True)
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            staging.rename(draft)
        except OSError:  # another file system
            shutil.copytree(staging, draft, symlinks=True)
            shutil.rmtree(staging, ignore_errors=True)
        draft.rename(place)
        return place

    def add_request(self, request: RunRequest) -> None:
        """Store a request for the conductor."""
        folder = self.path / "wishes"
        folder.mkdir(exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=folder, suffix=".draft")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            answer = {"text": request.text, "attempt": request.attempt, "id": request.id}
            json.dump({"kind": request.kind, "test": request.test, **(answer if request.id else {})}, file)
        taken = {int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal()}
        number = max(taken, default=0) + 1
        while True:
            try:
                os.link(draft, folder / f"{number:09}.json")
                break
            except FileExistsError:
                number += 1
        Path(draft).unlink()

    def requests(self) -> tuple[tuple[Path, RunRequest], ...]:
        """Return the waiting requests and their files, oldest first. Remove unreadable ones."""
        found: list[tuple[Path, RunRequest]] = []
        for path in sorted((self.path / "wishes").glob("*.json")):
            try:
                said = json.loads(path.read_text(encoding="utf-8"))
                found.append((path, _request(said)))
            except OSError:
                continue  # keep the request: reading may fail for too many open files
            except (ValueError, KeyError, TypeError, RecursionError):
                with contextlib.suppress(OSError):
                    path.unlink()
        return tuple(found)


def _request(said: Mapping[str, Any]) -> RunRequest:
    """Read a request. Raises ValueError, KeyError, TypeError."""
    kind, test = RequestKind(said["kind"]), str(said["test"])
    if kind is not RequestKind.ANSWER:
        return RunRequest(kind, test)
    return RunRequest(kind, test, str(said["text"]), int(said["attempt"]), str(said["id"]))


def folder_of(plan: RunPlan) -> RunFolder:
    """Return the folder of a planned run, which may not exist yet."""
    return RunFolder(runs_folder(Path(plan.repository)) / plan.run)


def temporary_prefix(folder: Path) -> str:
    """Return the prefix of the names of a run's folders in the temporary folder."""
    # Ids of runs are unique only in one repository.
    return f"selftest-{folder.name}-{zlib.crc32(os.fsencode(folder.resolve())):08x}-"


def make_own_folder(repository: Path) -> None:
    """Make the folder of this program in a repository, which ignores itself in git."""
    top = repository / REPOSITORY_FOLDER
    top.mkdir(exist_ok=True)
    _write(top / ".gitignore", "*\n")


def make_run_folder(plan: RunPlan, environ: Mapping[str, str]) -> RunFolder:
    """Make the folder of a new run and write its plan. Raises RefusedError if the run exists already."""
    make_own_folder(Path(plan.repository))
    folder = folder_of(plan)
    try:
        folder.path.mkdir(parents=True)
    except FileExistsError as error:
        raise RefusedError(f"The run {plan.run} exists already", str(folder.path)) from error
    (folder.path / "wishes").mkdir()
    _write(folder.path / "plan.json", json.dumps(plan_json(plan), indent=1) + "\n")
    register(folder, environ)
    return folder


def register(folder: RunFolder, environ: Mapping[str, str]) -> None:
    """Register the run, so that it is found from other repositories. Errors are ignored."""
    registry = runs_registry(environ)
    with contextlib.suppress(OSError):
        registry.mkdir(parents=True, exist_ok=True)
        _write(registry / f"{folder.run}.json", json.dumps({"path": str(folder.path)}) + "\n")


def forget(run: str, environ: Mapping[str, str]) -> None:
    """Remove a run from the registry."""
    with contextlib.suppress(OSError):  # a read-only state folder: readers skip a stale entry
        (runs_registry(environ) / f"{run}.json").unlink(missing_ok=True)


def run_folders(environ: Mapping[str, str], repository: Path | None = None) -> tuple[RunFolder, ...]:
    """List the runs of `repository`, newest first, then the existing ones of other repositories."""
    found = {} if repository is None else {path.parent.resolve(): True for path in plan_files(repository)}
    for pointer in sorted(runs_registry(environ).glob("*.json"), reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            said: Any = json.loads(pointer.read_text(encoding="utf-8"))
            path = Path(said["path"])
            if (path / "plan.json").is_file():
                found.setdefault(path.resolve(), True)
    return tuple(RunFolder(path) for path in found)


def plan_files(repository: Path) -> list[Path]:
    """List the files of the plans of a repository's runs, newest first."""
    return sorted(runs_folder(repository).glob("*/plan.json"), key=_order, reverse=True)


def _order(plan: Path) -> tuple[str, float, str]:
    """Return the order of a run by its plan's file: its id has the minute, and the file the order within it."""
    run = plan.parent.name
    try:
        written = plan.stat().st_mtime
    except OSError:  # swept meanwhile
        written = 0.0
    return (run.rpartition("-")[0] or run, written, run)


def find_run(
    environ: Mapping[str, str],
    repository: Path | None,
    run: str | None = None,
    *,
    is_wanted: Callable[[RunFolder], bool] = lambda folder: True,
) -> RunFolder:
    """Find the run with that id or prefix of it, or the newest of this repository that is wanted. Raises UsageError."""
    folders = run_folders(environ, repository)
    if run is None:
        own = [
            one for one in folders if repository and one.path.is_relative_to((repository / REPOSITORY_FOLDER).resolve())
        ]
        newest = next((one for one in own if is_wanted(one)), None)
        if newest is None:
            raise UsageError("There is no run in this repository", "", "`selftest-tui run` begins one.")
        return newest
    matching = [one for one in folders if one.run.startswith(run)]
    exact = [one for one in matching if one.run == run] or matching
    if len(exact) != 1:
        says = "There is no run" if not exact else "There are several runs"
        raise UsageError(f"{says} {run}", ", ".join(one.run for one in exact), "`selftest-tui runs` lists them.")
    return exact[0]


def _write(path: Path, text: str) -> None:
    """Write a file atomically, and sync it."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
