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
    from selftest_core.review.batch import BatchResult

DONE = 0
SOMETHING_OPEN = 1


def run(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Review, and return 0 when nothing stays open, else 1."""
    request = request_of(arguments, cwd)
    if arguments.batch:
        return _run_batch(request, environ, cwd)
    if request.publish is not None:
        hint = "Publish with P on the screen, or add --batch."
        raise UsageError("--publish and --pr go with --batch", "On the screen you publish with a key.", hint)
    with loading():
        from selftest_tui.app.app import run_review

    return run_review(request, config, environ, cwd)


def request_of(arguments: argparse.Namespace, cwd: Path) -> Request:
    """Read the request from the flags. Raises UsageError for flags that do not go together."""
    if arguments.pr and arguments.publish is None:
        raise UsageError("--pr needs --publish", "A pull request needs a published branch.", "Add --publish BRANCH.")
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

    result = review(request, cwd, environ, _say)
    published = None if result.published is None else result.published[0]
    document = review_document(result.reviewed, result.candidate, published, result.pull_request, result.commits)
    for line in _summary(result):
        _say(line)
    batch.write_answer({"run": result.run, **document.model_dump(mode="json")}, is_batch=True)
    return DONE if result.is_done else SOMETHING_OPEN


def _summary(result: BatchResult) -> list[str]:
    reviewed = result.reviewed
    agents = {source.agent for change in reviewed.order for source in change.sources}
    lines = [f"{plural(len(reviewed.order), 'change')} of {plural(len(agents), 'agent')}"]
    lines += [f"left out: {name}: {reason}" for name, reason in reviewed.plan.left_out]
    lines += [f"check {change.oid[:12]}: {words}" for change in reviewed.order for words in cautions(change.paths)]
    if reviewed.open:
        lines.append(f"{len(reviewed.open)} open: undecided or in conflict; undecided changes are never published")
    if result.published is not None:
        authors = {name for commit in result.commits for name in commit.authors}
        made = f"{plural(len(result.commits), 'commit')} by {plural(len(authors), 'author')}"
        lines.append(f"published {result.published[0]} at {result.published[1].tip[:12]}: {made}")
    if result.pull_request is not None:
        lines.append(f"opened {result.pull_request}")
    return lines


def _say(text: str) -> None:
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()
