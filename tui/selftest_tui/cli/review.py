"""Command `review`: turns many branches into one, on the screen or, with `--batch`, by a decisions file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.review.changes.inputs import Request
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, require_terminal, tell, write_answer
from selftest_tui.shared.loading import loading
from selftest_tui.shared.present import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.review.batch import BatchResult
    from selftest_tui.cli.command import AddCommand, Call


def add_review(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """The branches are those of a run, of agents, or any others. Identical changes are shown once, with all their
        authors; changes in conflict are left out until they are resolved. Only kept changes are published; your
        checkout, index and other branches are never touched. Ends with 1 where a change is undecided or in
        conflict.""",
        """
        selftest-tui review                the newest run of this repository
        selftest-tui review --agents ada bob eve
        selftest-tui review main..fixes --onto origin/main
        selftest-tui review --batch --base main ada bob --decisions decisions.json
        selftest-tui review --batch 20261121-0931 --publish fixes --pr
        """,
    )
    add_targets(command)
    command.add_argument("--decisions", metavar="FILE", help="JSON with keep, revert or undecided for each change")
    command.add_argument("--publish", metavar="BRANCH", help="publish the kept changes as this branch")
    command.add_argument("--pr", action="store_true", help="open a pull request of the published branch, with gh")
    command.set_defaults(run=review)


def add_targets(command: argparse.ArgumentParser) -> None:
    """Add the flags that say what is reviewed, or verified."""
    what = command.add_argument_group("branches")
    what.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a run, or one BASE..BRANCH, or branches with --base"
    )
    what.add_argument("--agents", nargs="+", action="extend", metavar="NAME", help="agents, whoever started them")
    what.add_argument("--base", metavar="REF", help="the commit that the branches start from")
    command.add_argument("--onto", metavar="REF", help="rebase onto this commit, such as a newer main")


def review(call: Call) -> int:
    """Review on the screen, or with a decisions file. Returns 0 when nothing is open, else 1."""
    arguments = call.arguments
    if not arguments.batch:
        require_terminal("`selftest-tui review --batch …` prints the changes, and publishes with a decisions file.")
    request = review_request(arguments, call.cwd)
    if arguments.batch:
        return _review_batch(request, call.environ, call.cwd)
    if request.publish is not None:
        hint = "Publish with P on the screen, or add --batch."
        raise UsageError("--publish and --pr need --batch", "", hint)
    with loading():
        from selftest_tui.app.app import run_review

    return run_review(request, call.config, call.environ, call.cwd)


def review_request(arguments: argparse.Namespace, cwd: Path) -> Request:
    """Return what the flags ask for. Raises UsageError for flags that do not go together."""
    if arguments.pr and arguments.publish is None:
        raise UsageError(
            "--pr needs --publish", "A pull request is made from a published branch.", "Add --publish BRANCH."
        )
    return Request(
        targets=tuple(arguments.targets),
        base=arguments.base,
        onto=arguments.onto,
        decisions=None if arguments.decisions is None else cwd / arguments.decisions,
        publish=arguments.publish,
        pr=arguments.pr,
        agents=tuple(arguments.agents or ()),
    )


def _review_batch(request: Request, environ: Mapping[str, str], cwd: Path) -> int:
    from selftest_core.review.batch import review as review_branches
    from selftest_core.schema.review import review_document

    result = review_branches(request, cwd, environ, tell)
    published = None if result.published is None else result.published[0]
    document = review_document(result.reviewed, result.candidate, published, result.pull_request, result.commits)
    for line in _summary_lines(result):
        tell(line)
    write_answer({"run": result.run, **document.model_dump(mode="json")}, is_batch=True)
    return DONE if result.is_done else SOMETHING_LEFT


def _summary_lines(result: BatchResult) -> list[str]:
    reviewed = result.reviewed
    agents = {source.agent for change in reviewed.order for source in change.sources}
    lines = [f"{plural(len(reviewed.order), 'change')} of {plural(len(agents), 'agent')}"]
    lines += [f"left out: {name}: {reason}" for name, reason in reviewed.plan.left_out]
    lines += [f"check {change.oid[:12]}: {words}" for change in reviewed.order for words in change.cautions]
    if reviewed.open:
        lines.append(f"{len(reviewed.open)} open: undecided or in conflict; undecided changes are never published")
    if result.published is not None:
        authors = {name for commit in result.commits for name in commit.authors}
        made = f"{plural(len(result.commits), 'commit')} by {plural(len(authors), 'author')}"
        lines.append(f"published {result.published[0]} at {result.published[1].tip[:12]}: {made}")
    if result.pull_request is not None:
        lines.append(f"opened {result.pull_request}")
    return lines
