"""Hits of a search: words and beginnings of words from the index, or a regular expression over all its lines.

A query is words: a line is found that has all of them, in any order, case ignored; each of three characters or more may
go on behind what was typed. What stands in quotes must stand so. A word with other characters than letters and digits,
such as a path or `test_login.py::redirect`, must stand so too. Hits come newest run first, and in it by kind, test and
place.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.paths import runs_folder
from selftest_core.review.changes.inputs import Request
from selftest_core.review.repository import LOG, read_log
from selftest_recorder.search.database import SHIFT
from selftest_recorder.search.sources import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from selftest_recorder.search.database import Database, Stored

EXCERPT = 240
"""Characters of a line that are shown, around its first match."""
_BEFORE = 60
_MOST_MATCHES = 20_000
_MOST_SPANS = 20
_LEAST_BEGINNING = 3
"""Characters of a word that may go on: fewer begin so many words that looking them up takes long."""
_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_TOKENS = re.compile(r"[^\W_]+")
_KINDS = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Scope:
    """Scope of a search: one run or review by its id, and kinds; empty for all."""

    run: str = ""
    kinds: frozenset[Kind] = frozenset()


EVERYTHING = Scope()


class Hit(NamedTuple):
    """One line with a match. Texts are untrusted; `text` has no control characters.

    `id`: unique in the index. `path`: the file, relative to the folder of the run for `name`. `seconds` of a
    recording, or `line` of a file, from 1. `commit`: of a diff, a note or a decision; `file`: the path in a diff.
    `spans`: begin and end of the matches in `text`, which is the line or a part of it.
    """

    id: int
    run: str
    kind: Kind
    test: str
    agent: str
    path: str
    seconds: float | None
    line: int | None
    commit: str
    file: str
    text: str
    spans: tuple[tuple[int, int], ...]


class Found(NamedTuple):
    """The first hits; `is_cut`: there are more."""

    hits: tuple[Hit, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Query:
    """Words to search. `expression`: for FTS5; `literals`: must stand so, case ignored; `marks`: finds the matches."""

    text: str
    expression: str
    literals: tuple[str, ...]
    marks: re.Pattern[str]


def parse_query(text: str) -> Query:
    """Parse words. Raises UsageError where there is none with a letter or a digit."""
    terms, literals, marks = [], [], []
    for quoted, word in _WORDS.findall(text):
        wanted = quoted or word
        tokens = _TOKENS.findall(wanted)
        if tokens:
            escaped = wanted.replace('"', '""')
            is_whole = bool(quoted) or len(wanted) < _LEAST_BEGINNING
            terms.append(f'"{escaped}"' if is_whole else f'"{escaped}" *')
            marks.append(r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, tokens)))
        if wanted and (len(tokens) != 1 or tokens[0] != wanted):
            literals.append(wanted.casefold())
    if not terms:
        raise UsageError(
            "There is no word to search", "A word has a letter or a digit.", "--regex searches for other characters."
        )
    return Query(text, " AND ".join(terms), tuple(literals), re.compile("|".join(marks), re.IGNORECASE))


def parse_regex(text: str) -> re.Pattern[str]:
    """Compile a regular expression, case ignored. Raises UsageError."""
    try:
        return re.compile(text, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            "This is no regular expression", f"{text[:200]}: {error}", "Without --regex words are searched."
        ) from error


class Searcher:
    """Searches an index. Runs whose folders are gone have no hits, even before a builder has removed them."""

    def __init__(self, database: Database, repository: Path) -> None:
        self._database = database
        self._top = runs_folder(repository)
        self._agents: dict[tuple[str, str], str] = {}

    def find(self, query: Query, most: int, scope: Scope = EVERYTHING) -> Found:
        """Find words; returns at most so many hits."""
        sources = self._sources(scope)
        is_narrow = scope != EVERYTHING
        numbers = self._database.matching(query.expression, 50 * _MOST_MATCHES if is_narrow else _MOST_MATCHES)
        of_source: dict[int, list[int]] = {}
        for number in reversed(numbers):  # from the first line of each source on
            of_source.setdefault(number >> SHIFT, []).append(number)
        known = (number for source in sources for number in of_source.get(source, ()))
        hits: list[Hit] = []
        for number, place, detail, text in self._database.lines(known):
            folded = text.casefold() if query.literals else ""
            if all(literal in folded for literal in query.literals):
                if len(hits) == most:
                    return Found(tuple(hits), is_cut=True)
                hits.append(self._hit(number, sources[number >> SHIFT], place, detail, text, query.marks))
        return Found(tuple(hits), is_cut=not is_narrow and len(numbers) == _MOST_MATCHES)

    def scan(
        self, pattern: re.Pattern[str], scope: Scope = EVERYTHING, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[Hit]:
        """Find a regular expression in every line. `progress` is called with sources that are done and in all."""
        sources = self._sources(scope)
        for done, source in enumerate(sources.values()):
            if progress is not None:
                progress(done, len(sources))
            for number, place, detail, text in self._database.lines_of(source.id):
                if pattern.search(text) is not None:
                    yield self._hit(number, source, place, detail, text, pattern)
        if progress is not None:
            progress(len(sources), len(sources))

    def _sources(self, scope: Scope) -> dict[int, Stored]:
        """Return the sources by number, in the order in which their hits are shown."""
        there: dict[str, bool] = {}
        newest: dict[str, float] = {}
        found = []
        for one in self._database.sources():
            if one.run not in there:
                there[one.run] = (self._top / one.run).is_dir()
            if there[one.run]:
                newest[one.run] = max(newest.get(one.run, 0.0), one.at)
                if one.agent and one.test:
                    self._agents[one.run, one.agent] = one.test
                if (not scope.run or one.run == scope.run) and (not scope.kinds or one.kind in scope.kinds):
                    found.append(one)
        found.sort(key=lambda one: (-newest[one.run], one.run, _KINDS[one.kind], one.test, one.name))
        return {one.id: one for one in found}

    def _hit(self, number: int, source: Stored, place: float, detail: str, text: str, marks: re.Pattern[str]) -> Hit:
        agent, test, commit, file = source.agent, source.test, "", ""
        match source.kind:
            case Kind.DIFF:
                commit, agent, file = (*detail.split("\t", 2), "", "")[:3]
            case Kind.NOTE | Kind.DECISION:
                commit = detail
            case Kind.OUTCOME if not agent:
                agent, _, test = detail.partition("\t")
            case Kind.OUTCOME | Kind.TRANSCRIPT | Kind.CONVERSATION | Kind.TERMINAL:
                pass
        test = test or self._agents.get((source.run, agent), "")
        shown, spans = excerpt(text, marks)
        is_timed = source.kind is Kind.TERMINAL
        seconds = place if is_timed else None
        line = int(place) if place and not is_timed else None
        return Hit(number, source.run, source.kind, test, agent, source.path, seconds, line, commit, file, shown, spans)


def excerpt(text: str, marks: re.Pattern[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Cut a line around its first match, and find the matches in what is left."""
    first = marks.search(text)
    begin = max(0, min(first.start() - _BEFORE, len(text) - EXCERPT)) if first is not None else 0
    cut = text[begin : begin + EXCERPT]
    head, tail = ("…" if begin else ""), ("…" if begin + EXCERPT < len(text) else "")
    spans: list[tuple[int, int]] = []
    for found in marks.finditer(text, begin):
        if found.start() >= begin + EXCERPT or len(spans) == _MOST_SPANS:
            break
        if found.end() > found.start():
            end = min(found.end() - begin, EXCERPT)
            spans.append((found.start() - begin + len(head), end + len(head)))
    return f"{head}{cut}{tail}", tuple(spans)


def review_request(repository: Path, run: str) -> Request | None:
    """Return the request that opens the review of a run, or the one with this id; None if it cannot be opened again."""
    if (runs_folder(repository) / run / "plan.json").is_file():
        return Request((run,))
    subject = read_log(runs_folder(repository) / run / LOG).subject
    if subject is None or subject.kind not in ("range", "branches", "agents"):
        return None
    words = tuple(subject.key.split(" "))
    match subject.kind:
        case "range":
            return Request(words)
        case "branches":
            return Request(words[1:], base=words[0])
        case _:
            return Request(agents=words)


def command_of(hit: Hit, repository: Path) -> str:
    """Return the command that opens a hit at its place, for a shell in the repository."""
    match hit.kind:
        case Kind.TERMINAL:
            words = ["selftest-tui", "replay", hit.path, "--at", f"{hit.seconds or 0:.1f}"]
        case Kind.TRANSCRIPT | Kind.CONVERSATION:
            words = ["less", f"+{hit.line or 1}", hit.path]
        case Kind.OUTCOME:
            words = ["selftest-tui", "runs", hit.run]
        case Kind.DIFF | Kind.NOTE | Kind.DECISION:
            request = review_request(repository, hit.run) or Request((hit.run,))
            base = () if request.base is None else ("--base", request.base)
            agents = ("--agents", *request.agents) if request.agents else ()
            words = ["selftest-tui", "review", *base, *request.targets, *agents]
    return shlex.join(words)
