"""Command `runs`: lists the runs, shows one on the screen, as a table or as JSON, or compares two.

The tables are pure: values in, lines out.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from selftest_core.errors import RefusedError, UsageError
from selftest_core.run.events import RUNNING, Phase
from selftest_core.run.fold import end_of
from selftest_core.run.outcome.ends import End
from selftest_core.run.overview import glance, glances, repository_of
from selftest_core.run.store import RunFolder, find_run
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, has_terminal, print_lines, write_answer
from selftest_tui.run.words import GROUPS, SYMBOLS, WORDS
from selftest_tui.shared.loading import loading
from selftest_tui.shared.present import ago, clean, fit, fit_end, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.compare.comparison import Comparison
    from selftest_core.fleet.clusters import Cluster
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.outcome.foreign import ForeignRun
    from selftest_core.run.overview import RunGlance
    from selftest_tui.cli.command import AddCommand, Call

_RUN, _STATE, _AGE, _TESTS = 18, 10, 6, 5
_MARKS = {"live": "●", "ended": "✓", "resumable": "‖", "unreadable": "?"}
_TEST_SHARE = 0.55
_MOST_CLUSTERED = 3


def add_runs(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """With RUN: open its screen, also of a run that has ended; without a terminal, print it. With PATH: show the
        run in that folder, also one of another program.""",
        """
        selftest-tui runs
        selftest-tui runs 20261121-0931    its screen
        selftest-tui runs --json | jq -r '.runs[] | [.run, .state] | @tsv'
        selftest-tui runs ~/old/outcomes
        selftest-tui runs --compare      the newest with the run before it
        selftest-tui runs --compare 20261120 20261121   1 if a test is worse
        """,
    )
    command.add_argument(
        "path", nargs="?", metavar="RUN|PATH", help="a run, or the beginning of its name, or a folder of outcomes"
    )
    command.add_argument(
        "--compare",
        nargs="*",
        metavar="RUN",
        help="compare two runs: tests that are newly red, newly flaky, mended, slower, dearer, new or gone; one RUN is "
        "compared with the run before it, none: the newest",
    )
    command.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    command.set_defaults(run=runs)


def runs(call: Call) -> int:
    """List the runs, show one, or compare two."""
    if call.arguments.compare is not None:
        return _compare(call)
    if call.arguments.path is not None:
        return _show_run(Path(call.arguments.path).expanduser(), call)
    found = glances(call.environ, repository_of(call.cwd, call.environ))
    if call.is_for_programs:
        from selftest_core.schema.run import runs_document

        write_answer(runs_document(found).model_dump(mode="json"), is_batch=call.arguments.batch)
    else:
        print_lines(_runs_lines(found, time.time(), _width()))
    return DONE


def _show_run(path: Path, call: Call) -> int:
    path = call.cwd / path
    own = RunFolder(path.resolve()) if (path / "plan.json").is_file() else None
    if own is None and not path.exists() and "/" not in call.arguments.path:
        own = find_run(call.environ, repository_of(call.cwd, call.environ), call.arguments.path)
    if call.is_for_programs:
        from selftest_core.schema.run_detail import foreign_document, own_document

        document = foreign_document(_foreign(path)) if own is None else own_document(own, own.read())
        write_answer(document.model_dump(mode="json"), is_batch=call.arguments.batch)
        return DONE
    if own is not None and read_run(own).run is not None and has_terminal():
        with loading():
            from selftest_tui.app.app import run

        return run(call.config, call.environ, run=own)
    width = _width()
    print_lines(foreign_lines(_foreign(path), width) if own is None else _run_lines(own.read(), width))
    return DONE


def _compare(call: Call) -> int:
    """Compare two runs; 1 where a test is newly red, newly flaky or has no result any more."""
    from selftest_core.compare.reading import compare_runs, previous_run

    names = call.arguments.compare
    if call.arguments.path is not None or len(names) > 2:
        raise UsageError(
            "--compare takes two runs", "", "`selftest-tui runs --compare RUN RUN`: the earlier one first."
        )
    after = _own_run(names[-1] if names else None, call)
    before = _own_run(names[0], call) if len(names) == 2 else previous_run(after, call.environ)
    if before is None:
        raise UsageError(f"There is no run before {after.run}", "", "Name two runs; `selftest-tui runs` lists them.")
    if before.path == after.path:
        raise UsageError("These are the same run", after.run, "Name two runs; `selftest-tui runs` lists them.")
    found = compare_runs(before, after, call.environ)
    if call.is_for_programs:
        from selftest_core.schema.comparison import comparison_document

        document = comparison_document(found).model_dump(mode="json")
        of_run = {"run": after.run} if call.arguments.batch else {}
        write_answer({**of_run, **document}, is_batch=call.arguments.batch)
    else:
        print_lines(comparison_lines(found, _width()))
    return SOMETHING_LEFT if found.is_worse else DONE


def _own_run(name: str | None, call: Call) -> RunFolder:
    """Find a run by its folder, its name or the beginning of it; None: the newest of this repository."""
    path = None if name is None else call.cwd / Path(name).expanduser()
    if path is not None and (path / "plan.json").is_file():
        return RunFolder(path.resolve())
    return find_run(call.environ, repository_of(call.cwd, call.environ), name)


def _foreign(path: Path) -> ForeignRun:
    from selftest_core.run.outcome.foreign import read_foreign

    return read_foreign(path)


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


# tables


def _runs_lines(found: Sequence[RunGlance], now: float, width: int) -> list[str]:
    """Return a table of the runs; `now` in seconds since the epoch, `width` in cells."""
    if not found:
        return ["No runs. `selftest-tui run` starts one."]
    spare = max(20, width - _RUN - _STATE - _AGE - _TESTS - 10)
    open_width = max(len("OPEN"), *(len(_open_words(one.run)) for one in found))
    open_width = min(open_width, spare * 2 // 3)
    titles = ("  RUN", "STATE", "AGE", "TESTS", "OPEN", "REPOSITORY")
    widths = (_RUN + 2, _STATE, _AGE, _TESTS, open_width, max(10, spare - open_width))
    lines = [" ".join(fit(title, cells) for title, cells in zip(titles, widths, strict=True)).rstrip()]
    for one in found:
        run = one.run
        cells = (
            fit(f"{_MARKS[one.state]} {one.folder.run}", widths[0]),
            fit(one.state, widths[1]),
            fit("" if run is None else ago(now - run.plan.created_at), widths[2]),
            fit("" if run is None else str(len(run.rows)), widths[3]),
            fit(one.error if run is None else _open_words(run), widths[4]),
            fit_end(one.repository, widths[5]),
        )
        lines.append(" ".join(cells).rstrip())
    return lines


def _open_words(run: Run | None) -> str:
    """Return the open tests of a run, as `paused, 2 running, 1 failed`; `nothing` where all ended well."""
    if run is None:
        return ""
    rows = tuple(run.rows.values())
    ends = Counter(row.end.group for row in rows if row.end is not None)
    counted = {
        "need you": sum(bool(row.attention) for row in rows),
        "running": sum(row.phase in RUNNING and not row.attention for row in rows),
        "waiting": sum(row.phase is Phase.WAITING for row in rows),
        **{look.word: ends[group] for group, look in GROUPS.items() if group.is_open},
    }
    said = [f"{count} {word}" for word, count in counted.items() if count]
    return ", ".join([*(["paused"] if run.paused else []), *said]) or "nothing"


def _run_lines(run: Run, width: int) -> list[str]:
    """Return a table of the tests of one of our runs."""
    lines = [clean(f"run {run.plan.run} of {run.plan.repository}"), _open_words(run), ""]
    name = _name_width((row.planned.node_id for row in run.rows.values()), width)
    for row in run.rows.values():
        how = row.end if row.end is not None else row.phase
        lines.append(_test_line(SYMBOLS[how], WORDS[how], row.planned.node_id, _why(row), name, width))
    return lines


def foreign_lines(found: ForeignRun, width: int) -> list[str]:
    """Return a table of the tests of another program's run, then its clusters and its kinds of change."""
    ends = {end: count for end, count in found.ends().items() if count}
    head = ", ".join(f"{count} {WORDS[end]}" for end, count in ends.items())
    lines = [clean(f"{found.path}: {plural(len(found.tests), 'outcome')}{f': {head}' if head else ''}"), ""]
    name = _name_width((test.test for test in found.tests), width)
    for test in found.tests:
        kinds = ", ".join(f"{one.kind} {one.status.lower()}" for one in test.outcome.changes) if test.outcome else ""
        says = test.error or " · ".join(part for part in (kinds, test.outcome.summary if test.outcome else "") if part)
        lines.append(_test_line(SYMBOLS[test.end], WORDS[test.end], test.test, says, name, width))
    lines += _cluster_lines(found.clusters(), width)
    lines += _kind_lines(found.kinds(), width)
    for joining in found.joinings:
        count = len(joining.branches)
        failed = f", {len(joining.failed)} failed" if joining.failed else ""
        lines += ["", fit(f"joined {count} branch{'' if count == 1 else 'es'}{failed}: {joining.path}", width)]
    if found.passed_over:
        lines += ["", f"{plural(found.passed_over, 'JSON file')} ignored: no outcomes"]
    return [line.rstrip() for line in lines]


def comparison_lines(found: Comparison, width: int) -> list[str]:
    """Return the comparison of two runs as a table, `width` in cells."""
    from selftest_core.compare.words import counts, sections

    lines = [clean(f"run {found.after.plan.run} since run {found.before.plan.run}"), clean(counts(found))]
    lines += [clean(f"! {problem}") for problem in found.problems]
    for one in sections(found):
        lines += ["", one.title]
        name = _name_width((each.test for each in one.tests), width)
        how = max(cell_len(clean(words)) for words in one.words)
        for test, words, says in zip(one.tests, one.words, one.says, strict=True):
            rest = width - name - how - 6
            lines.append(f"  {fit(words, how)}  {fit_end(test.test, name)}  {fit(says, max(10, rest))}".rstrip())
    return lines


def _name_width(tests: Iterable[str], width: int) -> int:
    """Return the width of the tests' names: as much as they need, and not much more than half of the line."""
    longest = max((cell_len(clean(test)) for test in tests), default=0)
    return max(20, min(longest, int((width - 16) * _TEST_SHARE)))


def _test_line(symbol: str, word: str, test: str, says: str, name: int, width: int) -> str:
    return f"{symbol} {fit(word, 11)}  {fit_end(test, name)}  {fit(says, max(10, width - name - 17))}".rstrip()


def _why(row: RunRow) -> str:
    if row.attention:
        return row.attention
    if row.end is None or end_of(row) is End.UNCHANGED:
        return ""
    lines = [line for line in row.text.splitlines() if line.strip()]
    return lines[0] if lines and row.end is End.SUCCEEDED else lines[-1] if lines else ""


def _cluster_lines(clusters: Sequence[Cluster], width: int) -> list[str]:
    shared = [one for one in clusters if len(one.tests) > 1]
    if not shared:
        return []
    lines = ["", "failed or blocked with one cause"]
    for one in shared:
        lines.append(fit(f"  {len(one.tests)} tests: {one.signature or 'without a message'}", width))
        lines += [f"      {fit_end(test, width - 6)}" for test in one.tests[:_MOST_CLUSTERED]]
        if len(one.tests) > _MOST_CLUSTERED:
            lines.append(f"      and {len(one.tests) - _MOST_CLUSTERED} more")
    return lines


def _kind_lines(kinds: Mapping[str, int], width: int) -> list[str]:
    if not kinds:
        return []
    return ["", fit("changes: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()), width)]


# shared with `resume` and `stop`


def read_run(folder: RunFolder) -> RunGlance:
    """Read a run. Raises RefusedError if its files are damaged."""
    found = glance(folder)
    if found.state == "unreadable":
        raise RefusedError(
            f"The run {folder.run} cannot be read", found.error, "Restore its files, or start a new run."
        )
    return found
