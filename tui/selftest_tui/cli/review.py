"""Command `review`: turns many branches into one, on the screen or, with `--batch`, by a decisions file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, UsageError
from selftest_tui.cli.command import (
    DONE,
    SOMETHING_LEFT,
    STOPPED_EARLY,
    add_targets,
    count,
    require_terminal,
    review_request,
    tell,
    write_answer,
)
from selftest_tui.shared.loading import loading
from selftest_tui.shared.present import plural

if TYPE_CHECKING:
    from selftest_core.review.batch import BatchResult
    from selftest_core.review.changes.inputs import Request
    from selftest_core.schema.review import ReviewDocument
    from selftest_tui.cli.command import AddCommand, Call


def add_review(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """The branches are those of a run, of agents, or any others. Identical changes are shown once, with all their
        authors; changes in conflict are left out until they are resolved. Every change is undecided until you keep or
        revert it, and only kept changes are published; your checkout, index and other branches are never touched.
        Ends with 1 where a change is undecided or in conflict, or where nothing is kept that could be published.
        --verify runs the tests again before a branch is written; --require-verified publishes only a branch whose own
        tests pass, else ends with 4. --integrate starts an agent for each conflict; an answer is used where it keeps
        both sides and their tests pass with it, else its change stays in conflict, with the reason.""",
        """
        selftest-tui review                the newest run of this repository
        selftest-tui review --agents ada bob eve
        selftest-tui review main..fixes --onto origin/main
        selftest-tui review --batch --base main ada bob --decisions decisions.json
        selftest-tui review --batch 20261121-0931 --publish fixes --pr
        selftest-tui review --batch main..fixes --publish good --require-verified
        selftest-tui review --integrate
        selftest-tui review --integrate --batch --base main ada bob eve
        selftest-tui review --integrate --texts --batch 20261121-0931
        """,
    )
    add_targets(command)
    command.add_argument("--decisions", metavar="FILE", help="JSON with keep, revert or undecided for each change")
    command.add_argument("--publish", metavar="BRANCH", help="publish the kept changes as this branch")
    command.add_argument("--pr", action="store_true", help="open a pull request of the published branch, with gh")
    command.add_argument(
        "--integrate", action="store_true",
        help="start agents that resolve the conflicts, as the settings of runs say; asks first, but not with --batch",
    )  # fmt: skip
    command.add_argument(
        "--texts", action="store_true",
        help="with --integrate --batch: agents write one text for each row of several instead",
    )  # fmt: skip
    tests = command.add_argument_group("verification, with --batch")
    tests.add_argument("--verify", action="store_true", help="run the tests again, as `selftest-tui verify` does")
    tests.add_argument(
        "--require-verified", action="store_true", help="publish only if the published tree's tests pass; else exit 4"
    )
    tests.add_argument("--jobs", type=count, metavar="N", help="test processes at once; default: half the cores")
    tests.add_argument("--all", action="store_true", help="run the whole test suite")
    command.set_defaults(run=review)


def review(call: Call) -> int:
    """Review on the screen, or with a decisions file. Returns 0 when nothing is open, else 1."""
    arguments = call.arguments
    if not arguments.batch:
        require_terminal("`selftest-tui review --batch …` prints the changes, and publishes with a decisions file.")
    request = review_request(arguments, call.cwd)
    if arguments.require_verified and request.publish is None:
        raise UsageError("--require-verified needs --publish", "", "Add --publish BRANCH, or use --verify alone.")
    if (arguments.jobs or arguments.all) and not (arguments.verify or arguments.require_verified):
        raise UsageError("--jobs and --all need --verify", "", "Add --verify.")
    if arguments.texts and not (arguments.integrate and arguments.batch):
        raise UsageError("--texts needs --integrate --batch", "", "On the screen A on a row of several texts asks.")
    if arguments.batch:
        status = DONE
        if arguments.integrate:
            from selftest_tui.cli.integrate import integrate

            request, status = integrate(call, request)
        done = _review_batch(call, request)
        return STOPPED_EARLY if status == STOPPED_EARLY else done
    if arguments.verify or arguments.require_verified:
        hint = "On the screen changes are verified in the background; or add --batch."
        raise UsageError("--verify and --require-verified need --batch", "", hint)
    if request.publish is not None:
        hint = "Publish with P on the screen, or add --batch."
        raise UsageError("--publish and --pr need --batch", "", hint)
    with loading():
        from selftest_tui.app.app import run_review

    return run_review(request, call.config, call.environ, call.cwd, is_integrating=arguments.integrate)


def _review_batch(call: Call, request: Request) -> int:
    arguments = call.arguments
    answer = None
    if arguments.verify or arguments.require_verified:
        from selftest_core.verify.batch import Verifying
        from selftest_tui.cli.verify import review_with_progress

        verifying = Verifying(request, arguments.jobs or 0, arguments.all, is_required=arguments.require_verified)
        result, answer = review_with_progress(verifying, call)
    else:
        from selftest_core.review.batch import review as review_branches

        result = review_branches(request, call.cwd, call.environ, tell, has_trailers=call.config.publish_trailers)
    from selftest_core.schema.review import review_document

    published = None if result.published is None else result.published[0]
    document = review_document(
        result.reviewed, result.candidate, published, result.pull_request, result.commits, answer, result.refused,
        result.integrations,
    )  # fmt: skip
    for line in _summary_lines(result):
        tell(line)
    if result.run is not None:
        tree = document.tree if result.published is None else result.published[1].tree
        document = _with_check(document, result.run, tree, call)
    if answer is not None:
        from selftest_tui.cli.verify import tell_verdicts

        tell_verdicts(answer, document)
    if result.published is not None or answer is not None:
        from selftest_tui.cli.evidence.report import renew_review_report

        document = document.model_copy(update={"report": renew_review_report(request, call)})
    write_answer({"run": result.run, **document.model_dump(mode="json")}, is_batch=True)
    if result.refused:
        tell(f"not published: {result.refused}")
        return RefusedError.exit_status
    is_green = answer is None or answer.is_green
    return DONE if result.is_done and is_green else SOMETHING_LEFT


def _with_check(document: ReviewDocument, run: str, tree: str, call: Call) -> ReviewDocument:
    """Add what `check` says of a tree where the agents of the run were writers, and tell it."""
    from selftest_core.git.command import find_place
    from selftest_core.run.store import find_run
    from selftest_core.schema.check import check_of_tree
    from selftest_core.sync.reviewed import check_tree, words_on

    folder = find_run(call.environ, find_place(call.cwd, call.environ).top, run)
    found = check_tree(folder.path, tree, call.environ)
    if found is None:
        return document
    tell(f"{'the published tree' if document.published else 'the candidate'}: {words_on(found)}")
    return document.model_copy(update={"check": check_of_tree(found)})


def _summary_lines(result: BatchResult) -> list[str]:
    reviewed = result.reviewed
    agents = {source.agent for change in reviewed.order for source in change.sources}
    texts = f" in {len(reviewed.order)} texts" if len(reviewed.order) > len(reviewed.chosen) else ""
    lines = [f"{plural(len(reviewed.chosen), 'change')}{texts} of {plural(len(agents), 'agent')}"]
    lines += [f"left out: {name}: {reason}" for name, reason in reviewed.plan.left_out]
    lines += [f"check {change.oid[:12]}: {words}" for change in reviewed.chosen for words in change.cautions]
    for changes, words in (
        (reviewed.kept_weakening, "kept, and weakens a test"),
        (reviewed.guarded, "not kept by its kind, since it weakens a test"),
    ):
        lines += [f"{words}: {change.oid[:12]}: {change.subject}" for change in changes]
    if reviewed.open:
        lines.append(f"{len(reviewed.open)} open: undecided or in conflict; undecided changes are never published")
    if result.not_published:
        lines.append(f"nothing is published: {result.not_published}")
    if result.published is not None:
        authors = {name for commit in result.commits for name in commit.authors}
        made = f"{plural(len(result.commits), 'commit')} by {plural(len(authors), 'author')}"
        lines.append(f"published {result.published[0]} at {result.published[1].tip[:12]}: {made}")
    if result.pull_request is not None:
        lines.append(f"opened {result.pull_request}")
    return lines
