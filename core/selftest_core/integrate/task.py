"""One task of an integrator: the conflicted files of one or more changes, both sides' intents, and their tests.

A task is stored with its run: as text files for the agent, as a brief for its prompt, and as `task.json`, from which
the gate and the review read which changes it is about. All words in it are of agents, so untrusted.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.git.merges import Side
from selftest_core.git.objects import is_oid
from selftest_core.git.patches import shown
from selftest_core.run.plan.prompt import fenced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.conflict_files import ConflictFile
    from selftest_core.review.state import ReviewState

TASK_FILE = "task.json"
LARGEST_SIDE = 256 * 1024
"""Bytes of one side of a file; a larger one is for a person."""
_TAG = re.compile(r"\[[A-Za-z_]+\]\s*")
_LONGEST_WORDS = 4000
_LONGEST_SUBJECT = 80
_MOST_TESTS = 40
_MOST_REPORTS = 3


class UnreadableTaskError(SelftestError):
    """A `task.json` that cannot be read."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The intent of one change: its message, what its agents reported, the reviewer's note, and its tests."""

    oid: str
    subject: str
    message: str = ""
    agents: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    note: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldChange:
    """A change in conflict. `files`: the three sides of each path in conflict."""

    intent: Intent
    files: tuple[ConflictFile, ...]


@dataclass(frozen=True, slots=True)
class ConflictTask:
    """The changes that one agent resolves, in the order of the branch. `rivals`: what they conflict with."""

    review: str
    changes: tuple[HeldChange, ...]
    rivals: tuple[Intent, ...]

    @property
    def id(self) -> str:
        """The id of the task, and the subject of its first change."""
        return task_id([change.intent for change in self.changes])


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One path of a task with the three sides that the agent was given."""

    path: str
    base: Side | None
    ours: Side | None
    theirs: Side | None


@dataclass(frozen=True, slots=True)
class TaskChange:
    """One change of a stored task. `folder`: of its answer below `resolved/`, empty for a task of one change."""

    oid: str
    subject: str
    folder: str
    files: tuple[TaskFile, ...]


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as it was stored with its run. `rivals`: ids of changes."""

    review: str
    changes: tuple[TaskChange, ...]
    rivals: tuple[str, ...] = ()


def intent_of(state: ReviewState, change: Change) -> Intent:
    """Collect what a change wanted."""
    told = [state.evidence[agent] for agent in change.agents if agent in state.evidence]
    source = next(one for one in change.sources if one.oid == change.oid)
    return Intent(
        change.oid,
        change.subject,
        source.commit.text,
        change.agents,
        tuple(one.words for one in told[:_MOST_REPORTS] if one.words),
        state.notes.get(change.oid, ""),
        tuple(dict.fromkeys(test for one in told for test, _ in one.tests)),
    )


def task_id(intents: Sequence[Intent]) -> str:
    """Return the id of a task about these changes: the subject of the first, without its tag, and its commit."""
    first = intents[0]
    more = f" and {len(intents) - 1} more" if len(intents) > 1 else ""
    subject = _TAG.sub("", shown(first.subject), count=1)[:_LONGEST_SUBJECT].strip()
    return f"{subject or '(no message)'}{more} ({first.oid[:8]})"


def unsuited_reason(files: Sequence[ConflictFile]) -> str:
    """The reason why a conflict is for a person and not for an agent, empty where an agent can resolve it."""
    for file in files:
        sides = (file.base, file.ours, file.theirs)
        modes = {side.mode for side in (file.conflict.base, file.conflict.ours, file.conflict.theirs) if side}
        name = shown(file.path)
        if "120000" in modes:
            return f"{name} is a symbolic link: choose a side (C)"
        if not _is_utf8(file.path.encode("utf-8", "surrogateescape"), *sides):
            return f"{name} is not UTF-8 text: choose a side (C)"
        if any(len(side or b"") > LARGEST_SIDE for side in sides):
            return f"{name} has more than {LARGEST_SIDE // 1024} KiB: resolve it in your editor (E)"
    return ""


def _is_utf8(*texts: bytes | None) -> bool:
    try:
        return all(text is None or (b"\0" not in text and text.decode("utf-8") is not None) for text in texts)
    except UnicodeDecodeError:
        return False


def task_files(task: ConflictTask) -> dict[str, str]:
    """Return the text files for the agent by name: `task.json`, and the sides of each file with their merge."""
    found = {TASK_FILE: json.dumps(_document(task), indent=1) + "\n"}
    for _, _, file, name in _numbered(task):
        sides = {"base": file.base, "ours": file.ours, "theirs": file.theirs, "merged": file.merged}
        found |= {f"{name}.{side}": text.decode("utf-8") for side, text in sides.items() if text is not None}
    return found


def _numbered(task: ConflictTask) -> Iterator[tuple[int, HeldChange, ConflictFile, str]]:
    """Each file with the number of its change, and the beginning of the names of its texts."""
    for number, change in enumerate(task.changes, 1):
        for place, file in enumerate(change.files, 1):
            yield number, change, file, f"{number}-{place}"


def _folder(task: ConflictTask, number: int) -> str:
    return str(number) if len(task.changes) > 1 else ""


def _document(task: ConflictTask) -> dict[str, Any]:
    return {
        "kind": "resolve",
        "review": task.review,
        "changes": [
            {
                "oid": change.intent.oid,
                "subject": change.intent.subject,
                "folder": _folder(task, number),
                "files": [
                    {
                        "path": file.path,
                        **{side: _side_text(getattr(file.conflict, side)) for side in ("base", "ours", "theirs")},
                        "texts": f"{number}-{place}",
                    }
                    for place, file in enumerate(change.files, 1)
                ],
            }
            for number, change in enumerate(task.changes, 1)
        ],
        "rivals": [{"oid": one.oid, "subject": one.subject} for one in task.rivals],
    }


def _side_text(side: Side | None) -> str | None:
    return None if side is None else f"{side.mode} {side.oid}"


def read_task(text: str) -> StoredTask:
    """Read a stored `task.json`. Raises UnreadableTaskError."""
    try:
        document = json.loads(text)
        changes = tuple(
            TaskChange(
                _oid(change["oid"]),
                str(change["subject"]),
                str(change["folder"]),
                tuple(
                    TaskFile(str(one["path"]), _side(one["base"]), _side(one["ours"]), _side(one["theirs"]))
                    for one in change["files"]
                ),
            )
            for change in document["changes"]
        )
        rivals = tuple(_oid(one["oid"]) for one in document["rivals"])
        return StoredTask(str(document["review"]), changes, rivals)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableTaskError(
            "The task of an integrator cannot be read", f"{type(error).__name__}: {error}"
        ) from error


def _oid(value: object) -> str:
    if not isinstance(value, str) or not is_oid(value):
        raise ValueError(f"{value!r:.60} is no object id")
    return value


def _side(value: object) -> Side | None:
    if value is None:
        return None
    mode, _, oid = str(value).partition(" ")
    return Side(mode, _oid(oid))


def brief(task: ConflictTask) -> str:
    """Write the part of the prompt that only this task has, as Markdown."""
    lines: list[str] = []
    is_one = len(task.changes) == 1
    if not is_one:
        lines += [
            f"{len(task.changes)} changes are in conflict in the same files. Resolve them in this order: the text of a "
            "file after change 2 has what change 1 made of it, too.",
            "",
        ]
    for number, change in enumerate(task.changes, 1):
        lines += [f"## The change in conflict{'' if is_one else f', {number} of {len(task.changes)}'}", ""]
        lines += intent_lines(change.intent)
        for place, file in enumerate(change.files, 1):
            lines += [*_file_lines(file, f"{number}-{place}", _folder(task, number)), ""]
    lines += ["## What it is in conflict with", ""]
    if not task.rivals:
        lines += ["The branch itself: its base has changed these files since the change was made.", ""]
    for rival in task.rivals:
        lines += intent_lines(rival)
    tests = list(dict.fromkeys(test for one in _all_intents(task) for test in one.tests))
    lines += ["## Tests of both sides", ""]
    lines += [f"- `{shown(test)}`" for test in tests[:_MOST_TESTS]] or ["None is known."]
    lines += [f"- and {len(tests) - _MOST_TESTS} more"] if len(tests) > _MOST_TESTS else []
    return "\n".join(lines) + "\n"


def _all_intents(task: ConflictTask) -> Iterator[Intent]:
    yield from (change.intent for change in task.changes)
    yield from task.rivals


def intent_lines(intent: Intent) -> list[str]:
    """Quote what a change wanted: its message, reports and note."""
    who = ", ".join(shown(agent) for agent in intent.agents[:5])
    more = f" and {len(intent.agents) - 5} more" if len(intent.agents) > 5 else ""
    lines = [f"Commit {intent.oid[:12]}{f' of {who}{more}' if who else ''}:", ""]
    lines += [fenced(_cut(intent.message or intent.subject)), ""]
    for report in intent.reports:
        lines += ["Its agent reported:", "", fenced(_cut(report)), ""]
    if intent.note:
        lines += ["The reviewer noted:", "", fenced(_cut(intent.note)), ""]
    return lines


def _file_lines(file: ConflictFile, name: str, folder: str) -> list[str]:
    names = {"base": file.base, "ours": file.ours, "theirs": file.theirs, "merged": file.merged}
    words = {
        "base": "before both",
        "ours": "the branch so far",
        "theirs": "with this change",
        "merged": "both, with markers (diff3) where they clash",
    }
    answer = "/".join(part for part in ("resolved", folder, file.path) if part)
    lines = [f"File {fenced_path(file.path)}, to be answered as {fenced_path(f'$SELFTEST_OUT/{answer}')}:", ""]
    for side, text in names.items():
        if text is not None:
            lines.append(f"- `.selftest/task/{name}.{side}`: {words[side]}")
        elif side != "merged":
            lines.append(f"- there is no file {words[side]}")
    if file.merged is not None:
        clashes = _clashes(file.merged, file.marker)
        lines += ["", f"Where they clash ({len(clashes)}):" if clashes else "", ""]
        lines += [fenced(_cut(clash)) for clash in clashes]
    return lines


def fenced_path(path: str) -> str:
    """Put a path between backquotes, made harmless."""
    return f"`{shown(path).replace('`', '?')}`"


def _clashes(merged: bytes, size: int) -> list[str]:
    """The parts of a merge between markers."""
    found: list[str] = []
    part: list[str] | None = None
    for line in merged.decode("utf-8").splitlines():
        if line.startswith("<" * size + " "):
            part = []
        if part is not None:
            part.append(line)
        if part is not None and line.startswith(">" * size + " "):
            found.append("\n".join(part))
            part = None
    return found


def _cut(text: str) -> str:
    text = "\n".join(shown(line) for line in text.strip().split("\n"))
    return text if len(text) <= _LONGEST_WORDS else f"{text[:_LONGEST_WORDS]}\n…"


def join_sharing(held: Mapping[str, HeldChange]) -> list[tuple[HeldChange, ...]]:
    """Join the changes that are in conflict in the same files, directly or through others; in their order."""
    groups: list[tuple[set[str], list[str]]] = []
    for oid, change in held.items():
        paths = {file.path for file in change.files}
        mine = [group for group in groups if group[0] & paths]
        rest = [group for group in groups if not group[0] & paths]
        joined = (paths.union(*(group[0] for group in mine)), [*(one for group in mine for one in group[1]), oid])
        groups = [*rest, joined]
    order = {oid: place for place, oid in enumerate(held)}
    groups.sort(key=lambda group: min(order[oid] for oid in group[1]))
    return [tuple(held[oid] for oid in sorted(group[1], key=order.__getitem__)) for group in groups]
