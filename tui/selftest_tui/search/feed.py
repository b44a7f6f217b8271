"""The workers of the search screen: one follows the builder of the index, one searches what was asked for last.

A search is done again when the index has grown, so hits come in while it is built. Only the newest question counts: a
regular expression is scanned by a process, which is ended when another text is typed. The workers only post that there
is news, and only one such message is pending at a time.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.message import Message

from selftest_core.errors import SelftestError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import find_place
from selftest_core.paths import runs_folder
from selftest_recorder.search.building import Progress, follow, start_builder
from selftest_recorder.search.database import DamagedIndexError, Database, discard, index_file
from selftest_recorder.search.hits import EVERYTHING, Query, Scope, Searcher, parse_query, parse_regex
from selftest_recorder.search.scanning import follow_scan, start_scan
from selftest_recorder.search.sources import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.tools.process import Running
    from selftest_recorder.search.hits import Hit

MOST_HITS = 1_000
SECONDS_TO_END = 2.0
_SECONDS_APART = 0.1
_SECONDS_BETWEEN_LOOKS = 1.0
_REGEX = re.compile(r"/(.+)/", re.DOTALL)
_TERM = re.compile(r"(?<!\S)(run|kind):(\S+)")


class SearchSeen(Message):
    """There is news: `SearchFeed.take()`."""

    def can_replace(self, message: Message) -> bool:
        """Merge with a pending message of the same kind."""
        return isinstance(message, SearchSeen)


@dataclass(frozen=True, slots=True)
class SearchNews:
    """The present state. `hits` are those of `text`; `is_cut`: there are more; `share`: how much of it is searched.

    `index`: the progress of the builder, None before it started. `problem`: why the text cannot be searched; `error`:
    why nothing can. `query`: the words, None for a regular expression.
    """

    text: str = ""
    hits: tuple[Hit, ...] = ()
    is_cut: bool = False
    share: float = 1.0
    repository: Path | None = None
    index: Progress | None = None
    problem: str = ""
    error: SelftestError | None = None

    @property
    def is_indexing(self) -> bool:
        """The index is not complete yet."""
        return self.error is None and (self.index is None or not self.index.is_done)


@dataclass(frozen=True, slots=True)
class Question:
    """A text that was typed: words, or `/a regular expression/`, within a scope."""

    query: Query | None
    expression: str
    scope: Scope


def parse_question(text: str, top: Path | None = None) -> Question:
    """Parse what was typed; `run:` and `kind:` restrict it. `top`: the folder of runs. Raises UsageError."""
    scope = EVERYTHING
    for name, value in _TERM.findall(text):
        if name == "kind":
            scope = replace(scope, kinds=scope.kinds | {_kind(value)})
        elif top is not None:
            names = sorted(path.name for path in top.iterdir()) if top.is_dir() else []
            found = next((one for one in reversed(names) if one.startswith(value)), None)
            if found is None:
                raise UsageError(f"There is no run {value[:40]}")
            scope = replace(scope, run=found)
    words = _TERM.sub("", text).strip()
    matched = _REGEX.fullmatch(words)
    if matched is None:
        return Question(parse_query(words), "", scope)
    parse_regex(matched[1])
    return Question(None, matched[1], scope)


def _kind(value: str) -> Kind:
    found = next((kind for kind in Kind if kind.startswith(value)), None)
    if found is None:
        raise UsageError(f"There is no kind {value[:20]}", "", f"The kinds are {', '.join(Kind)}.")
    return found


class SearchFeed:
    """Searches the repository around `folder` from `start` to `stop`. `post` must be safe to call from any thread."""

    def __init__(self, folder: Path, environ: Mapping[str, str], post: Callable[[Message], object]) -> None:
        self._folder = folder
        self._environ = environ
        self._post = post
        self._lock = threading.Lock()
        self._news = SearchNews()
        self._is_posted = self._is_ended = False
        self._wanted = threading.Event()
        self._text = ""
        self._asked = 0
        self._builder: Running | None = None
        self._scan: Running | None = None
        self._index_wanted = threading.Event()
        self._indexer = threading.Thread(target=self._index_all, name="search index", daemon=True)
        self._searcher = threading.Thread(target=self._search_all, name="search", daemon=True)

    def start(self) -> None:
        """Start indexing and searching."""
        self._searcher.start()
        self._indexer.start()
        self.refresh()

    def stop(self) -> None:
        """End both, and their processes."""
        self._is_ended = True
        self._asked += 1
        self._wanted.set()
        self._index_wanted.set()
        for running in (self._builder, self._scan):
            if running is not None:
                running.end()
        for thread in (self._indexer, self._searcher):
            if thread.is_alive():
                thread.join(SECONDS_TO_END)

    def refresh(self) -> None:
        """Index what is new or has changed, after what is being indexed now."""
        self._index_wanted.set()

    def ask(self, text: str) -> None:
        """Search for this text instead of the last one."""
        self._text = text.strip()
        self._again()

    def take(self) -> SearchNews:
        """Return the present state."""
        with self._lock:
            self._is_posted = False
            return self._news

    def around(self, hit: Hit, most: int) -> list[tuple[int, str]]:
        """Return the whole line of a hit and lines around it, with their numbers. Blocks. Raises SelftestError."""
        repository = self._news.repository
        if repository is None:
            return []
        with Database(index_file(repository, self._environ)) as database:
            return database.around(hit.id, most)

    # threads

    def _tell(self, **changes: Any) -> None:
        with self._lock:
            self._news = replace(self._news, **changes)
            must_post, self._is_posted = not self._is_posted, True
        if must_post and not self._is_ended:
            self._post(SearchSeen())

    def _again(self) -> None:
        self._asked += 1
        scan = self._scan
        if scan is not None:
            scan.end()
        self._wanted.set()

    def _index_all(self) -> None:
        while not self._is_ended:
            self._index_wanted.wait()
            self._index_wanted.clear()
            if not self._is_ended:
                self._index()

    def _index(self) -> None:
        try:
            repository = find_place(self._folder, self._environ).top
            self._tell(repository=repository, index=Progress(), error=None)
            self._builder = start_builder(repository, self._environ)
            lines, looked = 0, 0.0
            try:
                for progress in follow(self._builder):
                    if self._is_ended:
                        return
                    self._tell(index=progress)
                    # A scan begins anew only when all is there: else it might never end. Of words, there may be enough
                    # hits already: the newest run is indexed first.
                    is_due = time.monotonic() - looked > _SECONDS_BETWEEN_LOOKS and not self._news.is_cut
                    is_more = progress.lines > lines and not _REGEX.search(self._text)
                    if progress.is_done or (is_due and is_more):
                        lines, looked = progress.lines, time.monotonic()
                        self._again()
                if progress.error:
                    raise SelftestError(progress.error, progress.detail, progress.hint)
            finally:
                self._builder.end()
        except SelftestError as error:
            self._tell(error=error)

    def _search_all(self) -> None:
        while not self._is_ended:
            self._wanted.wait()
            self._wanted.clear()
            if not self._is_ended:
                self._search_one()

    def _search_one(self) -> None:
        asked, text, repository = self._asked, self._text, self._news.repository
        if not text or repository is None:
            self._tell(text=text, hits=(), is_cut=False, share=1.0, problem="")
            return
        try:
            question = parse_question(text, runs_folder(repository))
            if question.query is None:
                self._scan_for(question, asked, text, repository)
                return
            with Database(index_file(repository, self._environ)) as database:
                found = Searcher(database, repository).find(question.query, MOST_HITS, question.scope)
            if asked == self._asked or self._text == text:
                self._tell(text=text, hits=found.hits, is_cut=found.is_cut, share=1.0, problem="")
        except UsageError as error:
            self._tell(text=text, hits=(), is_cut=False, share=1.0, problem=f"{error.title} {error.hint}".strip())
        except DamagedIndexError:
            discard(index_file(repository, self._environ))
            self.refresh()
        except SelftestError as error:
            # Before the builder has made it there is none to read.
            if self._news.index is not None and self._news.index.is_done:
                self._tell(error=error)
            else:
                self._tell(text=text, hits=(), is_cut=False, share=1.0, problem="")

    def _scan_for(self, question: Question, asked: int, text: str, repository: Path) -> None:
        hits: list[Hit] = []
        told, share, is_cut = 0.0, 0.0, False
        self._tell(text=text, hits=(), is_cut=False, share=0.0, problem="")
        scan = self._scan = start_scan(repository, question.expression, question.scope, self._environ)
        try:
            for found in follow_scan(scan):
                if asked != self._asked:
                    return
                if isinstance(found, float):
                    share = found
                elif len(hits) == MOST_HITS:
                    is_cut = True
                    break
                else:
                    hits.append(found)
                # The first hit at once, others together.
                if len(hits) == 1 or time.monotonic() - told > _SECONDS_APART:
                    told = time.monotonic()
                    self._tell(hits=tuple(hits), share=share)
            if asked == self._asked:
                self._tell(hits=tuple(hits), share=1.0, is_cut=is_cut)
        finally:
            self._scan = None
            scan.end()
