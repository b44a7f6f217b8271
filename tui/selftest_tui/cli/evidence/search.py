"""Command `search`: everything that agents did, over all runs and reviews of this repository.

The index is brought up to date first, by a process of its own; its progress is shown on stderr.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, UsageError
from selftest_core.git.command import find_place
from selftest_core.paths import runs_folder
from selftest_recorder.search.building import follow, start_builder
from selftest_recorder.search.database import DamagedIndexError, Database, discard, index_file
from selftest_recorder.search.hits import Scope, Searcher, command_of, parse_query, parse_regex
from selftest_recorder.search.sources import Kind
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, print_lines, tell, write_answer
from selftest_tui.shared.present import clean, fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from selftest_recorder.search.building import Progress
    from selftest_recorder.search.hits import Hit
    from selftest_tui.cli.command import AddCommand, Call

USUAL_LIMIT = 100
_SLOW = 1.0
"""Seconds of indexing from which on its rate is told."""
_CLEAR = "\r\x1b[K"
_MARKED, _MARKED_PLAINLY, _UNMARKED = "\x1b[1;31m", "\x1b[1;4m", "\x1b[0m"


def add_search(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """In outcomes, notes, decisions, diffs, transcripts, conversations, and what was on terminals. A line is found
        that has all words, in any order, case ignored; a word may go on behind what is given; "several words" in
        quotes stand together. Each hit comes with the command that opens its place. What is new is indexed first. Ends
        with 0 if there is a hit, with 1 if there is none.""",
        """
        selftest-tui search redirect
        selftest-tui search 'test_login.py::redirect'
        selftest-tui search '"connection refused" port' --kind terminal
        selftest-tui search --regex 'E +assert .* == 10[67]' --run 20261121
        selftest-tui search timeout --json | jq -r ".hits[].test"
        """,
    )
    command.add_argument("text", nargs="?", metavar="TEXT", help="words, or with --regex a regular expression")
    command.add_argument("--regex", action="store_true", help="search every line for a regular expression of Python")
    command.add_argument(
        "--run", dest="only", metavar="RUN", help="only this run or review, or the beginning of its name"
    )
    command.add_argument(
        "--kind",
        action="append",
        choices=[str(kind) for kind in Kind],
        metavar="KIND",
        help=f"only this kind of place (repeatable): {', '.join(Kind)}",
    )
    command.add_argument("--limit", type=_limit, default=USUAL_LIMIT, metavar="N", help="most hits; default: 100")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.set_defaults(run=search)


def search(call: Call) -> int:
    """Search, and print the hits."""
    arguments = call.arguments
    if not arguments.text:
        raise UsageError(
            "No text is given to search",
            "",
            "Such as `selftest-tui search redirect`. On the screen, F searches while you type.",
        )
    (parse_regex if arguments.regex else parse_query)(arguments.text)  # refused before anything is indexed
    top = find_place(call.cwd, call.environ).top
    scope = Scope(_run_named(arguments.only, top), frozenset(map(Kind, arguments.kind or ())))
    indexed = update_index(top, call.environ)
    try:
        return _search(call, top, scope, indexed)
    except DamagedIndexError:  # where a builder had nothing to read
        discard(index_file(top, call.environ))
        return _search(call, top, scope, update_index(top, call.environ))


def _search(call: Call, top: Path, scope: Scope, indexed: Progress) -> int:
    arguments = call.arguments
    query = None if arguments.regex else parse_query(arguments.text)
    pattern = parse_regex(arguments.text) if arguments.regex else None
    with Database(index_file(top, call.environ)) as database:
        searcher = Searcher(database, top)
        if query is not None:
            found = searcher.find(query, arguments.limit, scope)
            hits, is_cut = iter(found.hits), found.is_cut
        else:
            assert pattern is not None
            hits, is_cut = _limited(searcher.scan(pattern, scope, _show_scan), arguments.limit + 1), False
        if call.is_for_programs:
            shown = list(hits)
            return _answer(call, top, shown[: arguments.limit], is_cut or len(shown) > arguments.limit, indexed)
        printer = _Printer(top, call.environ)
        for hit in hits:
            if printer.count == arguments.limit:
                is_cut = True
                break
            printer.show(hit)
    _clear()
    if is_cut:
        tell(f"There are more than {printer.count} hits: --limit, --run or --kind show others.")
    elif not printer.count:
        tell("Nothing was found.")
    return DONE if printer.count else SOMETHING_LEFT


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)


def _run_named(name: str | None, top: Path) -> str:
    """Return the run or review with this name or beginning of one, empty for none. Raises UsageError."""
    if name is None:
        return ""
    folder = runs_folder(top)
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    found = [one for one in names if one == name] or [one for one in names if one.startswith(name)]
    if len(found) != 1:
        says = "There are several runs" if found else "There is no run"
        raise UsageError(f"{says} {name[:60]}", ", ".join(found[:10]), "`selftest-tui runs` lists them.")
    return found[0]


def _limited(hits: Iterator[Hit], most: int) -> Iterator[Hit]:
    for _, hit in zip(range(most), hits, strict=False):
        yield hit


# the index


def update_index(repository: Path, environ: Mapping[str, str]) -> Progress:
    """Bring the index up to date, with its progress on stderr. Raises SelftestError if it cannot be."""
    builder = start_builder(repository, environ)
    try:
        for progress in follow(builder):
            _show_progress(progress)
    finally:
        builder.end()
        _clear()
    if progress.error:
        raise SelftestError(progress.error, progress.detail, progress.hint)
    if progress.seconds >= _SLOW and progress.done:
        megabytes = progress.done / 1e6
        tell(f"Indexed {megabytes:.1f} MB in {progress.seconds:.1f} s ({progress.rate / 1e6:.1f} MB/s).")
    return progress


def _show_progress(progress: Progress) -> None:
    if progress.is_waiting:
        _show("Another process is indexing; waiting for it …")
    elif progress.all_sources and not progress.is_done:
        _show(f"Indexing: {progress.share:.0%}, {progress.rate / 1e6:.1f} MB/s …")


def _show_scan(done: int, of: int) -> None:
    if of:
        _show(f"Searching: {done / of:.0%} …")


def _show(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(_CLEAR + text)
        sys.stderr.flush()


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


# the answer


class _Printer:
    """Prints hits under headings of run and test. `count`: how many so far."""

    def __init__(self, repository: Path, environ: Mapping[str, str]) -> None:
        self._repository = repository
        self.count = 0
        self._heading = ("", "")
        self._width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 0
        plain = bool(environ.get("NO_COLOR"))
        self._mark = (_MARKED_PLAINLY if plain else _MARKED) if sys.stdout.isatty() else ""

    def show(self, hit: Hit) -> None:
        """Print one hit at once, so that the first is seen while others are searched."""
        lines = []
        heading = (hit.run, hit.test)
        if heading != self._heading:
            lines += [*([""] if self.count else []), f"{clean(hit.run)}  {clean(hit.test)}".rstrip()]
            self._heading = heading
        self.count += 1
        lines += [
            f"  {fit(kind_and_place(hit), 20)} {self._marked(hit)}",
            f"      {clean(command_of(hit, self._repository))}",
        ]
        _clear()
        print_lines(lines)

    def _marked(self, hit: Hit) -> str:
        """The text with its matches marked, cut to the width of the terminal."""
        text, spans = hit.text, hit.spans
        if not self._mark:
            return clean(text)
        parts, at = [], 0
        for begin, end in spans:
            parts += [clean(text[at:begin]), self._mark, clean(text[begin:end]), _UNMARKED]
            at = end
        return "".join((*parts, clean(text[at:])))


def kind_and_place(hit: Hit) -> str:
    """Return the kind and the place of a hit in words, such as `terminal 2:14` or `diff shop.py:12`."""
    if hit.seconds is not None:
        minutes, seconds = divmod(int(hit.seconds), 60)
        return f"{hit.kind} {minutes}:{seconds:02}"
    if hit.commit:
        return f"{hit.kind} {hit.commit[:9]}"
    return f"{hit.kind} {hit.line}" if hit.line else str(hit.kind)


def _answer(call: Call, top: Path, hits: list[Hit], is_cut: bool, indexed: Progress) -> int:
    from selftest_core.schema.search import HitItem, SearchDocument

    document = SearchDocument(
        text=call.arguments.text,
        regex=call.arguments.regex,
        hits=[
            HitItem(
                run=hit.run, kind=hit.kind.value, test=hit.test or None, agent=hit.agent or None, path=hit.path,
                seconds=hit.seconds, line=hit.line, commit=hit.commit or None, file=hit.file or None, text=hit.text,
                matches=list(hit.spans), command=command_of(hit, top),
            )
            for hit in hits
        ],
        more=is_cut,
        runs=len({hit.run for hit in hits}),
        indexed_bytes=indexed.done,
        indexed_seconds=round(indexed.seconds, 3),
    )  # fmt: skip
    write_answer(document.model_dump(mode="json"), is_batch=call.arguments.batch)
    return DONE if hits else SOMETHING_LEFT
