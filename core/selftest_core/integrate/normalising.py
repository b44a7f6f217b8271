"""One change instead of many that say the same: the task, and what is checked before it is proposed.

find_group   the members of a row as texts side by side, for an agent that starts from the review's base
judge_group  its files parse, and the tests of all members pass with them instead of the chosen member
apply_group  they become a change of the same row; the person chooses
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.frozen import dataclass
from selftest_core.git.diffs import read_diff
from selftest_core.git.merges import Conflict
from selftest_core.git.patches import shown
from selftest_core.integrate.answer import UnusableAnswerError, read_answer
from selftest_core.integrate.checks import marker_left, parse_error
from selftest_core.integrate.task import (
    TASK_FILE,
    Intent,
    StoredTask,
    TaskChange,
    TaskFile,
    fenced_path,
    intent_lines,
    intent_of,
    task_id,
)
from selftest_core.review.candidate_branch import Item
from selftest_core.review.changes.proposed import write_proposed
from selftest_core.review.conflict_files import ConflictFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.git.diffs import FileDiff
    from selftest_core.integrate.answer import IntegratorAnswer
    from selftest_core.integrate.standing import Standing
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.session import ReviewSession
    from selftest_core.run.outcome.outcome import Outcome

_REFUSED = "One change instead of these cannot be asked for"
_MOST_TEXTS = 60
_LARGEST_PATCH = 128 * 1024


@dataclass(frozen=True, slots=True)
class GroupTask:
    """A row to be normalised. `members`: the chosen one first; `patches`: their diffs; `bases`: their files before.

    A base is None where there is no such file yet.
    """

    review: str
    members: tuple[Intent, ...]
    patches: tuple[str, ...]
    bases: Mapping[str, str | None]

    @property
    def id(self) -> str:
        """The id of the task."""
        return f"One for {len(self.members)}: {task_id(self.members[:1])}"


def group_disabled_reason(members: tuple[Change, ...]) -> str:
    """The reason why no agent is asked for one change instead of these, empty where one can be."""
    if len(members) < 2:
        return "It is the only text of its row."
    if len(members) > _MOST_TEXTS:
        return f"It has more than {_MOST_TEXTS} texts."
    if any(change.part is not None for change in members):
        return "One of its texts is a part of a change."
    sides = [side for one in members for path in one.paths for side in (path.before, path.after) if side is not None]
    if any(side.mode not in ("100644", "100755") for side in sides):
        return "It has something else than regular files."
    return ""


def find_group(session: ReviewSession, oid: str) -> GroupTask:
    """Read the row of a change as a task. Raises RefusedError where no agent can be asked."""
    state = session.state
    row = state.reviewed.row_of[oid]
    by_oid = {change.oid: change for change in state.reviewed.order}
    members = tuple(by_oid[one] for one in (row.chosen, *row.others))
    why = group_disabled_reason(members)
    if why:
        raise RefusedError(_REFUSED, why)
    with session.open_reader() as engine:
        patches = tuple(_patch(read_diff(engine.store, one.oid)) for one in members)
        bases: dict[str, str | None] = {}
        for one in members:
            for path in one.paths:
                content = None if path.before is None else engine.store.read(path.before.oid)[1]
                try:
                    bases.setdefault(path.path, None if content is None else content.decode("utf-8"))
                except UnicodeDecodeError as error:
                    raise RefusedError(
                        "One change instead of these cannot be asked for", "A file is no text."
                    ) from error
    return GroupTask(state.name, tuple(intent_of(state, one) for one in members), patches, bases)


def _patch(files: tuple[FileDiff, ...]) -> str:
    signs = {"added": "+", "removed": "-", "context": " "}
    lines: list[str] = []
    for file in files:
        lines.append(f"--- {file.path}")
        for hunk in file.hunks:
            lines.append(f"@@ -{hunk.old_start} +{hunk.new_start} @@")
            lines += [f"{signs[line.kind.value]}{line.text}" for line in hunk.lines]
    text = "\n".join(lines) + "\n"
    return text if len(text) <= _LARGEST_PATCH else f"{text[:_LARGEST_PATCH]}\n…\n"


def group_files(task: GroupTask) -> dict[str, str]:
    """Return the text files for the agent by name."""
    document = {
        "kind": "normalise",
        "review": task.review,
        "members": [{"oid": one.oid, "subject": one.subject} for one in task.members],
        "paths": list(task.bases),
    }
    found = {TASK_FILE: json.dumps(document, indent=1) + "\n"}
    found |= {f"text-{number}.patch": patch for number, patch in enumerate(task.patches, 1)}
    return found | {f"base-{number}": text for number, text in enumerate(task.bases.values(), 1) if text is not None}


def group_brief(task: GroupTask) -> str:
    """Write the part of the prompt that only this task has, as Markdown."""
    agents = sum(len(one.agents) for one in task.members)
    lines = [
        f"{agents} agents made the same change in {len(task.members)} texts. There are no markers here:",
        "write one text that does what all of them want, the simplest that does. It is offered to the reviewer beside",
        "the others. Your working directory is the commit that all of them started from, without any of the texts.",
        "",
    ]
    for number, member in enumerate(task.members, 1):
        lines += [f"## Text {number}: `.selftest/task/text-{number}.patch`", "", *intent_lines(member)]
    lines += ["## Files", "", "Answer each file that should differ from the one before, whole:", ""]
    for number, (path, text) in enumerate(task.bases.items(), 1):
        before = f"before: `.selftest/task/base-{number}`" if text is not None else "there is no such file yet"
        lines.append(f"- {fenced_path(path)} as {fenced_path(f'$SELFTEST_OUT/resolved/{path}')} ({before})")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A stored task of a row. `members`: ids, the chosen one first."""

    review: str
    members: tuple[str, ...]
    paths: tuple[str, ...]


def read_group(text: str) -> StoredGroup | None:
    """Read a stored task, None for one of another kind. Raises ValueError, KeyError, TypeError for a damaged one."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("kind") != "normalise":
        return None
    members = tuple(str(one["oid"]) for one in document["members"])
    return StoredGroup(str(document["review"]), members, tuple(str(path) for path in document["paths"]))


def read_group_answer(place: Path, task: StoredGroup, outcome: Outcome | None) -> dict[str, bytes | None]:
    """Read the files of an answer, by path. Raises UnusableAnswerError."""
    files = tuple(TaskFile(path, None, None, None) for path in task.paths)
    stored = StoredTask(task.review, (TaskChange(task.members[0], "", "", files),))
    answer: IntegratorAnswer = read_answer(place, stored, outcome, is_partial=True)
    found: dict[str, bytes | None] = {**answer.texts, **dict.fromkeys(answer.deleted)}
    if not found:
        raise UnusableAnswerError("it answers no file")
    for path, content in found.items():
        if content is not None:
            file = ConflictFile(Conflict(path, None, None, None), None, None, None, None)
            why = marker_left(file, content) or parse_error(file, content)
            if why:
                raise UnusableAnswerError(f"{shown(path)} {why}")
    return found


def members_of(task: StoredGroup, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The members that are in the review still, in their order. Raises UnusableAnswerError where too few are left."""
    by_oid = {oid: change for change in changes for oid in (change.oid, *change.original_oids)}
    found = tuple(dict.fromkeys(by_oid[oid] for oid in task.members if oid in by_oid))
    if len(found) < 2:
        raise UnusableAnswerError("the changes are not in the review any more")
    return found


def lay_group(
    standing: Standing, task: StoredGroup, contents: Mapping[str, bytes | None], agent: str
) -> tuple[tuple[Change, ...], str]:
    """Lay the answer instead of the chosen member; returns the members, and the tree of the branch with it.

    Raises UnusableAnswerError where it cannot be applied.
    """
    members = members_of(task, standing.reviewed.order)
    store = standing.engine.store
    tip = write_proposed(store, standing.base, members, contents, agent)
    commit = store.commit(tip)
    item = Item(tip, store.tree_of(standing.base), commit.tree, commit.author, commit.message)
    tree = standing.tree_with(next(one.oid for one in members if standing.reviewed.is_chosen(one.oid)), item)
    if tree is None:
        raise UnusableAnswerError("it is in conflict with the branch")
    return members, tree


def apply_group(session: ReviewSession, task: StoredGroup, contents: Mapping[str, bytes | None], agent: str) -> None:
    """Add the answer to its row. Raises UnusableAnswerError where that row is gone, or a member is chosen no more."""
    members = members_of(task, session.state.reviewed.order)
    session.propose([one.oid for one in members], contents, agent)
