"""Command `check`: checks that tests cite every block of a tutorial, and that every citation is a block."""

from __future__ import annotations

import difflib
import shutil
from typing import TYPE_CHECKING

from selftest_core.tutorial.check import check
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, print_lines, write_answer
from selftest_tui.shared.present import clean, fit, plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.tutorial.check import Check
    from selftest_core.tutorial.coverage import Stale
    from selftest_tui.cli.command import AddCommand, Call


def add_check(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """Every citation must be a block, too. Reads files and runs nothing. Ends with 1 where a block is uncited or
        a citation is stale.""",
        """
        selftest-tui check
        selftest-tui check --tutorial docs/tour.sh --tests tests/e2e
        selftest-tui check --json | jq '.uncited'
        """,
    )
    command.add_argument("--tutorial", metavar="FILE", default="tutorial.sh", help="default: tutorial.sh")
    command.add_argument("--tests", metavar="DIR", default="tests", help="a folder or one file; default: tests")
    command.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    command.set_defaults(run=check_tutorial)


def check_tutorial(call: Call) -> int:
    """Check the tutorial, and print the result."""
    arguments, cwd = call.arguments, call.cwd
    found = check(_root(cwd, call.environ), cwd / arguments.tutorial, cwd / arguments.tests)
    if call.is_for_programs:
        from selftest_core.schema.check import check_document

        write_answer(check_document(found).model_dump(mode="json"), is_batch=arguments.batch)
    else:
        print_lines(_lines(found, arguments.tutorial, shutil.get_terminal_size((80, 24)).columns))
    return DONE if found.is_ok else SOMETHING_LEFT


def _lines(found: Check, tutorial: str, width: int) -> list[str]:
    """Return a table of the blocks with line numbers, then the problems, which stay in view at the end."""
    coverage = found.coverage
    lines: list[str] = []
    for cited in coverage.blocks:
        mark = "✓" if cited.tests else "✗"
        commands = [line for line in cited.block.text.splitlines() if not line.lstrip().startswith("#")]
        first = clean(commands[0])
        by = plural(len(cited.tests), "test") if cited.tests else "no test"
        lines.append(fit(f"{mark} {tutorial}:{cited.block.line:<5} {by:>8}  {first}", width).rstrip())
    for warning in found.tutorial.warnings:
        lines.append(f"! {tutorial}:{warning.line}  {clean(warning.message)}")
    for unreadable in found.unreadable:
        lines.append(f"! {clean(unreadable.path)}:{unreadable.line}  {clean(unreadable.message)}")
    for stale in coverage.stale:
        lines += ["", *_stale_lines(stale, tutorial)]
    uncited = len(coverage.uncited)
    lines += ["", f"{plural(len(coverage.blocks), 'block')}, {plural(found.tests, 'test')}: " + (
        "every block is cited, and every citation is a block" if found.is_ok
        else f"{uncited} uncited, {plural(len(coverage.stale), 'stale citation')}"
    )]  # fmt: skip
    return lines


def _stale_lines(stale: Stale, tutorial: str) -> list[str]:
    citation = stale.citation
    where = f"✗ {clean(citation.path)}:{citation.line}  {clean(citation.test)} cites no block"
    if stale.nearest is None or stale.similarity is None:
        return [where, *(f"    {clean(line)}" for line in citation.text.strip("\n").splitlines())]
    head = f"{where}; nearest is {tutorial}:{stale.nearest.line} ({stale.similarity:.0%} alike):"
    cited = [line.strip() for line in citation.text.splitlines() if line.strip()]
    block = [line.strip() for line in stale.nearest.text.splitlines() if line.strip()]
    difference = difflib.ndiff(cited, block)
    return [head, *(f"    {clean(line.rstrip())}" for line in difference if not line.startswith("?"))]


def _root(cwd: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder that node ids are relative to: the repository, outside of one the current folder."""
    from selftest_core.errors import UsageError
    from selftest_core.git.command import find_place

    try:
        return find_place(cwd, environ).top
    except UsageError:
        return cwd
