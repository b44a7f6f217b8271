"""Sources of the search: what a run or a review left, as values with a stamp that changes when their text does.

Everything is found anew by listing folders and refs, which takes milliseconds; only what has changed is read. All of it
is untrusted: links are not followed, lines are bounded and made harmless, and what cannot be read is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.conversation.conversation import harmless
from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.paths import runs_folder
from selftest_core.review.repository import LOG, read_log
from selftest_core.review.review_log import decisions_of
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.crew.recording import LIVE, TERMINAL
from selftest_core.run.fetch.bundles import agent_ref
from selftest_core.run.fetch.conversations import LINES, TEXT
from selftest_core.run.fold import end_of
from selftest_core.run.outcome.outcome_file import LARGEST, UnreadableOutcomeError, parse_outcome
from selftest_core.run.store import RunFolder
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.search.diff_lines import changed_lines
from selftest_recorder.search.terminal_lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.plan.plan import RunPlan

LONGEST = 2_000
"""Characters of a line; a longer one is cut into several at the same place."""
_MOST_READ = 256 * 1024 * 1024
_CHUNK = 1024 * 1024
_TEXTS = frozenset({".txt", ".md", ".log"})
_ATTEMPT = re.compile(r"attempt-(\d{1,6})")
_RECORDING = re.compile(r"(.+)-attempt-(\d{1,6})\.cast")
_MOST_FILES = 2_000
"""Files of one attempt that are looked at."""


class Kind(StrEnum):
    """The kind of a place, in the order in which hits of one run are shown."""

    OUTCOME = "outcome"
    NOTE = "note"
    DECISION = "decision"
    DIFF = "diff"
    TRANSCRIPT = "transcript"
    CONVERSATION = "conversation"
    TERMINAL = "terminal"


class Line(NamedTuple):
    """A line of a source. `place`: its line from 1, or seconds of a recording; 0 where there is no such place.

    `detail`: of a test's end its planned agent and node id; of a decision or note the commit; of a diff commit, agent
    and path. Tabs are between them.
    """

    place: float
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """One source. `name`: unique in its run and kind. `stamp`: equal as long as its text is. `path`: its file.

    `agent`: the planned agent name, `test` its node id; both empty for a source of the whole run. `at`: seconds since
    the epoch of its last change; `size`: bytes to read, for the progress.
    """

    run: str
    kind: Kind
    name: str
    stamp: str
    path: Path
    agent: str = ""
    test: str = ""
    at: float = 0.0
    size: int = 0


class Sources:
    """The sources of a repository. `git_dir`: its common git folder, None outside of git."""

    def __init__(self, repository: Path, git_dir: Path | None, environ: Mapping[str, str], cache: Path) -> None:
        self._top = runs_folder(repository)
        self._git = None if git_dir is None else Git(git_dir, environ)
        self._cache = cache
        self._branches: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}

    def find(self) -> tuple[Source, ...]:
        """Find all sources, those of the run that changed last first."""
        refs = self._refs()
        runs = []
        for folder in _folders(self._top):
            found = tuple(self._of_run(folder, refs))
            if found:
                runs.append((max(one.at for one in found), found))
        runs.sort(key=lambda run: run[0], reverse=True)
        return tuple(one for _, found in runs for one in found)

    def read(self, source: Source) -> Iterator[Line]:
        """Read the lines of a source; nothing where it is gone or damaged. Raises OSError, SelftestError."""
        match source.kind:
            case Kind.TERMINAL:
                recording = read_cast(source.path, self._cache / "recordings")
                for time, text in lines_of(recording):
                    for part in _parts(text):
                        yield Line(time, part)
            case Kind.TRANSCRIPT | Kind.CONVERSATION:
                yield from _text_lines(source.path)
            case Kind.OUTCOME if source.agent:
                yield from _outcome_lines(source.path)
            case Kind.OUTCOME:
                yield from _end_lines(RunFolder(source.path))
            case Kind.DIFF:
                base, tips = self._branches[source.run]
                if self._git is not None:
                    for oid, agent, path, number, text in changed_lines(self._git, base, tips):
                        for part in _parts(text):
                            yield Line(number, part, f"{oid}\t{agent}\t{path}")
            case Kind.DECISION | Kind.NOTE:
                yield from _review_lines(source.path, source.kind)

    def _refs(self) -> dict[str, str]:
        if self._git is None:
            return {}
        try:
            return self._git.refs("refs/selftest/")
        except SelftestError:
            return {}

    def _of_run(self, folder: Path, refs: Mapping[str, str]) -> Iterator[Source]:
        run = folder.name
        plan = _plan(folder)
        if plan is not None:
            tests = {planned.agent_name: planned.node_id for planned in plan.tests}
            yield from _files_of_run(folder, tests)
            mark = agent_ref(run, "")
            tips = tuple((ref.removeprefix(mark), tip) for ref, tip in refs.items() if ref.startswith(mark))
            yield from self._diffs(run, _told(folder / "plan.json"), folder, plan.base, tips)
        log = folder / LOG
        told = _told(log)
        if told is None:
            return
        for kind in (Kind.NOTE, Kind.DECISION):
            yield Source(run, kind, LOG, _stamp(told), log, at=told.st_mtime, size=told.st_size)
        subject = read_log(log).subject if plan is None else None
        if subject is not None:
            tips = tuple((branch.agent, branch.tip) for branch in subject.branches)
            yield from self._diffs(run, told, folder, subject.base, tips)

    def _diffs(
        self, run: str, told: os.stat_result | None, folder: Path, base: str, tips: tuple[tuple[str, str], ...]
    ) -> Iterator[Source]:
        if tips:
            self._branches[run] = (base, tips)
            stamp = hashlib.sha256(json.dumps((base, sorted(tips))).encode("utf-8", "surrogatepass")).hexdigest()
            yield Source(run, Kind.DIFF, "commits", stamp, folder, at=told.st_mtime if told is not None else 0.0)


def _folders(top: Path) -> list[Path]:
    try:
        return sorted(path for path in top.iterdir() if not path.name.startswith(".") and path.is_dir())
    except OSError:
        return []


def _plan(folder: Path) -> RunPlan | None:
    try:
        return RunFolder(folder).plan()
    except SelftestError:
        return None


def _files_of_run(folder: Path, tests: Mapping[str, str]) -> Iterator[Source]:
    run = folder.name
    told = _told(folder / "journal.jsonl")
    if told is not None:
        yield Source(run, Kind.OUTCOME, "journal", _stamp(told), folder, at=told.st_mtime, size=told.st_size)
    ended = set()
    for agent, attempt, home in _attempts(folder / "agents"):
        for path, status in _files(home):
            kind = _kind(path, home)
            if kind is None:
                continue
            name = path.relative_to(folder).as_posix()
            if path.name == TERMINAL and path.parent == home:
                ended.add((agent, attempt))
            yield _of_file(run, kind, name, path, status, agent, tests.get(agent, ""))
    for path, status in _files(folder / LIVE):
        matched = _RECORDING.fullmatch(path.name)
        if matched is not None and not path.name.startswith(".") and (matched[1], matched[2]) not in ended:
            # Under the name that it gets with the results of its attempt.
            name = f"agents/{matched[1]}/attempt-{matched[2]}/{TERMINAL}"
            yield _of_file(run, Kind.TERMINAL, name, path, status, matched[1], tests.get(matched[1], ""))


def _of_file(run: str, kind: Kind, name: str, path: Path, told: os.stat_result, agent: str, test: str) -> Source:
    return Source(run, kind, name, _stamp(told), path, agent, test, told.st_mtime, told.st_size)


def _attempts(agents: Path) -> Iterator[tuple[str, str, Path]]:
    for agent in _folders(agents):
        for home in _folders(agent):
            matched = _ATTEMPT.fullmatch(home.name)
            if matched is not None:
                yield agent.name, matched[1], home


def _kind(path: Path, home: Path) -> Kind | None:
    if path.suffix == ".cast" or path.name.endswith(".cast.gz"):
        return Kind.TERMINAL
    if path.parent == home and path.name in (OUTCOME, TEXT, LINES):
        return {OUTCOME: Kind.OUTCOME, TEXT: Kind.CONVERSATION}.get(path.name)
    return Kind.TRANSCRIPT if path.suffix in _TEXTS else None


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Iterate over the plain files below a folder, links left out."""
    left = _MOST_FILES
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(top, name)
            told = _told(path)
            if told is not None:
                yield path, told
            left -= 1
            if not left:
                return


def _told(path: Path) -> os.stat_result | None:
    try:
        told = path.lstat()
    except OSError:
        return None
    return told if stat.S_ISREG(told.st_mode) else None


def _stamp(told: os.stat_result) -> str:
    return f"{told.st_size} {told.st_mtime_ns}"


# lines


def _parts(text: str) -> Iterator[str]:
    for begin in range(0, len(text), LONGEST):
        part = harmless(text[begin : begin + LONGEST]).strip()
        if part:
            yield part


def _paragraphs(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from _parts(line)


def _text_lines(path: Path) -> Iterator[Line]:
    """Read a text line by line; a line without an end is cut, so nothing large is held."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        number, read, is_new = 0, 0, True
        while read < _MOST_READ and (data := file.readline(_CHUNK)):
            read += len(data)
            number += is_new
            is_new = data.endswith(b"\n")
            for part in _parts(data.decode("utf-8", "replace").replace("\r", "\n").replace("\n", " ")):
                yield Line(number, part)


def _outcome_lines(path: Path) -> Iterator[Line]:
    told = _told(path)
    if told is None or told.st_size > LARGEST:
        return
    try:
        outcome = parse_outcome(path.read_bytes())
    except UnreadableOutcomeError:
        return
    for text in _texts_of(outcome):
        for part in _paragraphs(text):
            yield Line(0, part)


def _texts_of(outcome: Outcome) -> Iterable[str]:
    yield outcome.summary
    for change in outcome.changes:
        yield f"{change.kind} {change.status}: {change.summary}"
    for one in outcome.escalations:
        yield f"{one.kind}: {one.title}"
        yield one.detail
        yield from (f"{place.path}:{place.line or ''}" for place in one.locations)
    for run in outcome.test_runs:
        yield f"{run.name}: {run.description}"
    if outcome.importance is not None:
        yield f"{outcome.importance.level}: {outcome.importance.reason}"


def _end_lines(folder: RunFolder) -> Iterator[Line]:
    for name, row in folder.read().rows.items():
        detail = f"{name}\t{row.planned.node_id}"
        yield Line(0, harmless(f"{row.planned.node_id} {end_of(row)}"), detail)
        if row.member is None or not (folder.attempt(row.member) / OUTCOME).is_file():
            for part in _paragraphs(row.text):  # else it is the outcome's
                yield Line(0, part, detail)


def _review_lines(path: Path, kind: Kind) -> Iterator[Line]:
    log = read_log(path)
    if kind is Kind.NOTE:
        for oid, text in decisions_of(log)[0].notes.items():
            for part in _paragraphs(text):
                yield Line(0, part, oid)
        return
    for act in log.acts[: log.done]:
        if act.event != "noted":
            for part in _paragraphs(act.text):
                yield Line(0, part, _oid_of(act.fields))


def _oid_of(fields: Mapping[str, object]) -> str:
    oid = fields.get("oid")
    if isinstance(oid, str):
        return oid
    for name in ("items", "oids"):
        several = fields.get(name)
        if isinstance(several, dict | list) and several:
            return str(next(iter(several)))
    return ""
