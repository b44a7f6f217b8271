"""`selftest-tui review --batch`: many branches into one, under a decisions file, without a screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_tui.present import clean, plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.integration.headless import Answer

DONE = 0
SOMETHING_OPEN = 1


def run(arguments: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> int:
    """Review, print the summary line, and return 0 when nothing stays open, else 1."""
    if not arguments.batch:
        detail = "Reviewing on the screen is not there yet; this version lays and publishes by a decisions file."
        hint = "`selftest-tui review --batch --base main BRANCH…` prints the line; see `selftest-tui review --help`."
        raise UsageError("review works with --batch only", detail, hint)
    from selftest_core.integration.headless import Request, review
    from selftest_core.integration.review_shapes import review_document
    from selftest_tui import batch

    request = Request(
        tuple(arguments.targets),
        arguments.base,
        arguments.onto,
        None if arguments.decisions is None else cwd / arguments.decisions,
        arguments.publish,
    )
    answer = review(request, cwd, environ)
    published = None if answer.published is None else answer.published[0]
    document = review_document(answer.reviewed, answer.candidate, published)
    for line in _says(answer):
        sys.stderr.write(clean(line) + "\n")
    batch.write_answer(document.model_dump(mode="json"), is_batch=True)
    return DONE if answer.is_done else SOMETHING_OPEN


def _says(answer: Answer) -> list[str]:
    reviewed = answer.reviewed
    agents = {source.agent for change in reviewed.order for source in change.sources}
    lines = [f"{plural(len(reviewed.order), 'change')} of {plural(len(agents), 'agent')}"]
    lines += [f"left out: {name}: {reason}" for name, reason in reviewed.plan.left_out]
    if reviewed.open:
        lines.append(f"{len(reviewed.open)} open: undecided or held; nothing undecided is ever published")
    if answer.published is not None:
        lines.append(f"published {answer.published[0]} at {answer.published[1].tip[:12]}")
    return lines
