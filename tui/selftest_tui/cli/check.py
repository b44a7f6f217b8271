"""`selftest-tui check`: every block of the tutorial cited, every citation a block; for people, scripts and CI."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING

from selftest_core.tutorial.check import check
from selftest_tui.shared.present import clean, fit, plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.tutorial.check import Check
    from selftest_core.tutorial.coverage import Stale

OK = 0
INCOMPLETE = 1


def run(arguments: argparse.Namespace, environ: Mapping[str, str], cwd: Path, width: int) -> int:
    """Check, print, and return 0 when nothing is uncited or stale, else 1."""
    found = check(_root(cwd, environ), cwd / arguments.tutorial, cwd / arguments.tests)
    if arguments.json or arguments.batch:
        from selftest_core.schema.check import check_document
        from selftest_tui.cli import batch

        batch.write_answer(check_document(found).model_dump(mode="json"), is_batch=arguments.batch)
    else:
        sys.stdout.write("\n".join(check_lines(found, arguments.tutorial, width)) + "\n")
        sys.stdout.flush()
    return OK if found.is_ok else INCOMPLETE


def check_lines(found: Check, tutorial: str, width: int) -> list[str]:
    """A table by file with line numbers; what is wrong comes last, where a terminal leaves the eye."""
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
    """Node ids are relative to the repository; outside of one, to where the person stands."""
    from selftest_core.errors import UsageError
    from selftest_core.git.command import find_place

    try:
        return find_place(cwd, environ).top
    except UsageError:
        return cwd
