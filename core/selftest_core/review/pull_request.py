"""The text of a pull request, and opening it with `gh`.

The text lists the changes, how they were decided, their agents, the tests (as verified on exactly this branch, else as
claimed by the agents), what weakens a test, and what was reverted, is in conflict, or is open. Texts of agents stand in
code spans, where they cannot mention a user (`@name`), close an issue (`fixes #1`) or render; the user's notes stand as
written.

Opening it pushes that one branch without hooks, and runs the user's own `gh` with their environment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.frozen import dataclass
from selftest_core.git.command import guarded
from selftest_core.git.patches import shown
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.decisions import Rule, rule_of
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.inputs import Inputs
    from selftest_core.review.decisions import Decisions
    from selftest_core.review.evidence import Evidence

LONGEST_TITLE = 72
LONGEST_BODY = 60_000
"""Characters; GitHub takes 65,536."""
_TIMEOUT = 120.0
_MOST_PLACES = 20
_MARKED = "selftest-tui run="
_MARKER = re.compile(rf"^<!-- {_MARKED}[A-Za-z0-9-]+ -->\s*$", re.MULTILINE)
_TAG = re.compile(r"^\[[A-Za-z_]+\]\s*")


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A title of one line, and a body in Markdown."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class VerifiedTests:
    """Our own run of the tests of a tree. `tests`: node ids, each with its verdict in words; `says`: how, and where."""

    tree: str
    says: str
    tests: tuple[tuple[str, str], ...]


def write_pull_request(
    reviewed: Reviewed,
    kept: Line,
    *,
    notes: Mapping[str, str] | None = None,
    evidence: Mapping[str, Evidence] | None = None,
    clusters: Sequence[tuple[str, int]] = (),
    verified: VerifiedTests | None = None,
    review: str = "",
) -> PullRequest:
    """Write the text for the branch of what is kept. `review`: the id for the marker, empty for a text without one.

    `notes` by oid; `clusters`: failures by cause, with the number of tests. `verified` counts only where it is of
    exactly this branch.
    """
    notes, evidence = notes or {}, evidence or {}
    changes = {change.oid: change for change in reviewed.order}
    applied = [changes[one.item.oid] for one in kept.items if one.status is Status.LAID]
    fixes = [change for change in applied if change.kind.is_implementation]
    others = [change for change in applied if not change.kind.is_implementation]
    agents = list(dict.fromkeys(agent for change in applied for agent in reviewed.agents_of(change.oid)))
    status = {one.item.oid: one.status for one in reviewed.line.items}
    reverted = [change for change in reviewed.chosen if reviewed.decided[change.oid] is Decision.REVERT]
    open_still = [change for change in reviewed.open if status[change.oid] is not Status.HELD]
    held = [change for change in reviewed.order if status[change.oid] is Status.HELD]
    void = sum(one is Status.VOID for one in status.values())

    parts = [_summary(applied, agents, reviewed.decisions)]
    resolved = frozenset(one.item.oid for one in kept.items if one.answers)
    parts += _section("Fixes", [_row(reviewed, change, notes, resolved) for change in fixes])
    parts += _section("Tests, docs and build files", [_row(reviewed, change, notes, resolved) for change in others])
    parts += _section("Kept, and weakens a test", [_weakening_row(change) for change in applied if change.weakenings])
    is_verified = verified is not None and verified.tree == kept.tree
    parts += _section("Tests", _verified_tests(verified) if verified and is_verified else _tests(agents, evidence))
    parts += _section(
        "Failures by cause", [f"- {code_span(sign)}: {_count(count, 'test')}" for sign, count in clusters]
    )
    parts += _section("Reverted", [_row(reviewed, change, notes) for change in reverted])
    parts += _section("In conflict, so not included", [_row(reviewed, change, notes) for change in held])
    parts += _section("Undecided, so not included", [_row(reviewed, change, notes) for change in open_still])
    if void:
        parts.append(f"{_count(void, 'change')} of the agents {'is' if void == 1 else 'are'} in the base already.")
    body = "\n\n".join(parts) + "\n"
    if len(body) > LONGEST_BODY:
        body = body[:LONGEST_BODY].rpartition("\n")[0] + "\n\n… shortened: the review has all of it.\n"
    if review:
        body += f"\n{marker(review)}\n"
    return PullRequest(_title(fixes or others, agents), body)


def marker(review: str) -> str:
    """Return the comment by which a pull request of a review is found again: no reader of the rendered text sees it."""
    return f"<!-- {_MARKED}{review} -->"


def has_marker(body: str) -> bool:
    """Return True for the text of a pull request that this program wrote."""
    return _MARKER.search(body) is not None


def open_pull_request(
    top: Path, environ: Mapping[str, str], ref: str, base: str, pull_request: PullRequest, remote: str | None = None
) -> str:
    """Push the published branch and open a pull request for it with `gh`; returns its address.

    `ref` is the full ref, `base` the target branch at the remote; `remote` None takes `origin`, else the first one.
    Raises RefusedError where there is no remote, ToolError where git or gh fails: the branch may be pushed then.
    """
    name = ref.removeprefix("refs/heads/")
    remote = remote or _remote(top, environ)
    # Without hooks: agents made these commits, which must not make anything run here.
    push = ("git", "push", "--no-verify", "--", remote, f"{ref}:{ref}")
    _run(push, top, environ, "The branch could not be pushed")
    argv = (
        "gh", "pr", "create", f"--head={name}", f"--base={base}", f"--title={pull_request.title}", "--body-file=-",
    )  # fmt: skip
    return _run(argv, top, environ, "gh could not open the pull request", pull_request.body).strip()


def _remote(top: Path, environ: Mapping[str, str]) -> str:
    names = _run(("git", "remote"), top, environ, "git cannot list the remotes").split()
    if not names:
        hint = "Add one (`git remote add origin URL`), or publish the branch and open it elsewhere."
        raise RefusedError("There is no remote for a pull request", "", hint)
    return "origin" if "origin" in names else names[0]


def _run(argv: Sequence[str], top: Path, environ: Mapping[str, str], title: str, text: str | None = None) -> str:
    # A prompt on the terminal would hang: they fail instead, and name what is missing.
    quiet = {**guarded(environ), "GH_PROMPT_DISABLED": "1"}
    done = run(argv, timeout=_TIMEOUT, cwd=top, env=quiet, input=text)
    if not done.ok:
        detail = done.stderr_end
        raise ToolFailedError(title, detail, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr)
    return done.stdout


def _title(changes: Sequence[Change], agents: Sequence[str]) -> str:
    if not changes:
        return "No change is kept yet"
    first = _TAG.sub("", shown(changes[0].subject).strip()) or "a change"
    more = f" and {_count(len(changes) - 1, 'more change')}" if len(changes) > 1 else ""
    by = f" by {_count(len(agents), 'agent')}"
    room = LONGEST_TITLE - len(more) - len(by)
    return (first if len(first) <= room else first[: room - 1].rstrip() + "…") + more + by


def _summary(applied: Sequence[Change], agents: Sequence[str], decisions: Decisions) -> str:
    if not applied:
        return "No change is kept yet."
    fixes = sum(change.kind.is_implementation for change in applied)
    parts = [
        _count(fixes, "fix", "fixes") if fixes else "",
        _count(len(applied) - fixes, "change") + " of tests, docs and build files" if len(applied) > fixes else "",
    ]
    made = " and ".join(part for part in parts if part)
    return f"{made}, made by {_count(len(agents), 'agent')}. {_decided(applied, decisions)}"


def _decided(applied: Sequence[Change], decisions: Decisions) -> str:
    """Tell how the changes came to be kept: each by name, or by a rule for many."""
    rules = [rule_of(change, decisions) for change in applied]
    if rules.count(Rule.ITEM) == len(rules):
        return "Each was decided on by name."
    kinds = dict.fromkeys(change.kind.value for change, rule in zip(applied, rules, strict=True) if rule is Rule.KIND)
    said = {
        "decided on by name": rules.count(Rule.ITEM),
        f"by the rule for changes of kind {', '.join(kinds)}": rules.count(Rule.KIND),
        "by the default for all changes": rules.count(Rule.DEFAULT),
    }
    return "Kept: " + ", ".join(f"{count} {words}" for words, count in said.items() if count) + "."


def _section(heading: str, rows: Sequence[str]) -> list[str]:
    return [f"## {heading}\n\n" + "\n".join(rows)] if rows else []


def _row(reviewed: Reviewed, change: Change, notes: Mapping[str, str], resolved: frozenset[str] = frozenset()) -> str:
    agents = reviewed.agents_of(change.oid)
    names = ", ".join(code_span(agent) for agent in agents[:5])
    more = f" and {len(agents) - 5} more" if len(agents) > 5 else ""
    texts = len(reviewed.row_of[change.oid].members)
    chosen = f", chosen of {texts} texts" if texts > 1 else ""
    conflict = ", its conflict resolved in the review" if change.oid in resolved else ""
    split = f", part {change.part.number} of {change.part.count}" if change.part is not None else ""
    facts = f"{_count(len(change.paths), 'file')}{chosen}{split}{conflict}"
    row = f"- {code_span(change.subject)} by {names}{more} ({facts})"
    note = notes.get(change.oid, "").strip()
    # A note of several lines stays inside its row of the list.
    return row + "".join(f"\n  > {line}" for line in note.splitlines())


def _weakening_row(change: Change) -> str:
    """Return a row with each place below it."""
    places = "".join(f"\n  - {code_span(one.place)}: {code_span(one.what)}" for one in change.weakenings[:_MOST_PLACES])
    more = len(change.weakenings) - _MOST_PLACES
    return f"- {code_span(change.subject)}{places}" + (f"\n  - and {_count(more, 'more place')}" if more > 0 else "")


def _tests(agents: Sequence[str], evidence: Mapping[str, Evidence]) -> list[str]:
    """The claims of the agents about their tests."""
    rows = []
    for agent in agents:
        for test, claim in evidence[agent].tests if agent in evidence else ():
            word = {True: "passes", False: "fails", None: "no result"}[claim]
            rows.append(f"- {code_span(test)}: {word}, reported by {code_span(agent)}")
    return [*rows, "", "Claimed by the agents; not run again."] if rows else []


def _verified_tests(verified: VerifiedTests) -> list[str]:
    """Our own verdicts, and how they were made."""
    rows = [f"- {code_span(test)}: {words}" for test, words in verified.tests]
    return [verified.says, *([""] if rows else []), *rows]


def code_span(text: str) -> str:
    """Quote text of an agent as a code span, whatever backticks it has: nothing in it is interpreted."""
    text = " ".join(shown(text[:300]).split()) or "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    gap = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def open_for(ref: str, main: str, inputs: Inputs, environ: Mapping[str, str], text: PullRequest) -> str:
    """Open a pull request of a published ref against `main`, a branch here or at a remote; returns its address.

    Raises RefusedError where there is no such branch or no remote, ToolError where git or gh fails.
    """
    if not main:
        detail = "None of the usual branches of this repository builds on the base of the review."
        raise RefusedError("The target branch of the pull request is unknown", detail, "Open it yourself.")
    # A remote's branch is `origin/main` here, and `main` there.
    return open_pull_request(inputs.place.top, environ, ref, main.removeprefix("origin/"), text)
