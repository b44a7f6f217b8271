"""`selftest-tui review`: many branches into one, on the screen or, with `--batch`, under a decisions file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.git.unsafe_paths import cautions
from selftest_core.review.changes.inputs import Request
from selftest_tui.shared.loading import loading
from selftest_tui.shared.present import clean, plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.review.batch import Answer

DONE = 0
SOMETHING_OPEN = 1


def run(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Review, and return 0 when nothing stays open, else 1."""
    request = request_of(arguments, cwd)
    if arguments.batch:
        return _run_batch(request, environ, cwd)
    if request.publish is not None:
        hint = "Publish with P on the screen, or add --batch."
        raise UsageError("--publish and --pr go with --batch", "On the screen, you say when.", hint)
    with loading():
        from selftest_tui.app.app import run_review

    return run_review(request, config, environ, cwd)


def request_of(arguments: argparse.Namespace, cwd: Path) -> Request:
    """What the flags ask for. Raises UsageError for flags that do not go together."""
    if arguments.pr and arguments.publish is None:
        raise UsageError("--pr needs --publish", "A pull request is of a published branch.", "Add --publish BRANCH.")
    return Request(
        targets=tuple(arguments.targets),
        base=arguments.base,
        onto=arguments.onto,
        decisions=None if arguments.decisions is None else cwd / arguments.decisions,
        publish=arguments.publish,
        pr=arguments.pr,
        agents=tuple(arguments.agents or ()),
    )


def _run_batch(request: Request, environ: Mapping[str, str], cwd: Path) -> int:
    from selftest_core.review.batch import review
    from selftest_core.schema.review import review_document
    from selftest_tui.cli import batch

    answer = review(request, cwd, environ, _say)
    published = None if answer.published is None else answer.published[0]
    document = review_document(answer.reviewed, answer.candidate, published, answer.pull_request)
    for line in _says(answer):
        _say(line)
    batch.write_answer({"run": answer.run, **document.model_dump(mode="json")}, is_batch=True)
    return DONE if answer.is_done else SOMETHING_OPEN


def _says(answer: Answer) -> list[str]:
    reviewed = answer.reviewed
    agents = {source.agent for change in reviewed.order for source in change.sources}
    lines = [f"{plural(len(reviewed.order), 'change')} of {plural(len(agents), 'agent')}"]
    lines += [f"left out: {name}: {reason}" for name, reason in reviewed.plan.left_out]
    lines += [f"look at {change.oid[:12]}: {words}" for change in reviewed.order for words in cautions(change.paths)]
    if reviewed.open:
        lines.append(f"{len(reviewed.open)} open: undecided or held; nothing undecided is ever published")
    if answer.published is not None:
        lines.append(f"published {answer.published[0]} at {answer.published[1].tip[:12]}")
    if answer.pull_request is not None:
        lines.append(f"opened {answer.pull_request}")
    return lines


def _say(text: str) -> None:
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()
