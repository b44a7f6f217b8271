"""The answer of an integrator, read from what came back of its folder `$SELFTEST_OUT`: hostile until it is checked.

    resolved/PATH           the text of PATH with both sides; resolved/NUMBER/PATH in a task of several changes
    outcome.json            may have "deleted": [PATH…], and "one_side": {PATH: reason} where one side is dropped on
                            purpose; the other keys are those of any outcome

Files on arrival have no links and limited sizes already (`run.fetch.received_files`); it is checked here again, since
what is read here becomes content of a branch.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.git.patches import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from selftest_core.integrate.task import StoredTask, TaskChange
    from selftest_core.run.outcome.outcome import Outcome

RESOLVED = "resolved"
LARGEST_ANSWER = 1024 * 1024
"""Bytes of one resolved file."""
_MOST_FILES = 200
_DEEPEST = 24


class UnusableAnswerError(SelftestError):
    """An answer that cannot be used; the title is the reason, for the row of the change."""


@dataclass(frozen=True, slots=True)
class IntegratorAnswer:
    """Answer of an integrator. `texts` by the name below `resolved/`; `deleted`: such names.

    `one_side`: by such a name, the reason why one side is dropped on purpose.
    """

    texts: Mapping[str, bytes]
    deleted: frozenset[str] = frozenset()
    one_side: Mapping[str, str] | None = None

    def reason_for_one_side(self, name: str) -> str:
        """The agent's reason to drop one side of a file, empty where it gave none."""
        return (self.one_side or {}).get(name, "")


def answer_name(change: TaskChange, path: str) -> str:
    """Return the name of a file's answer below `resolved/`."""
    return f"{change.folder}/{path}" if change.folder else path


def read_answer(
    place: Path, task: StoredTask, outcome: Outcome | None, *, is_partial: bool = False
) -> IntegratorAnswer:
    """Read the answer to a task from the folder of an attempt. `is_partial`: not every file needs an answer.

    Raises UnusableAnswerError with the reason.
    """
    wanted = {answer_name(change, file.path): file.path for change in task.changes for file in change.files}
    found = dict(_files(place / RESOLVED))
    others = [name for name in found if name not in wanted]
    if others:
        raise UnusableAnswerError(f"it answers {shown(others[0])}, which is not in conflict")
    deleted = _names(None if outcome is None else outcome.more.get("deleted"), wanted)
    one_side = _reasons(None if outcome is None else outcome.more.get("one_side"), wanted)
    both = sorted(deleted & found.keys())
    if both:
        raise UnusableAnswerError(f"it deletes {shown(both[0])}, and answers it with a text")
    missing = [name for name in wanted if name not in found and name not in deleted]
    if missing and not is_partial:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UnusableAnswerError(f"it does not answer {shown(missing[0])}{more}")
    return IntegratorAnswer({name: _read(path) for name, path in found.items()}, deleted, one_side)


def _files(top: Path) -> Iterator[tuple[str, Path]]:
    """Each file below a folder by its relative name. Raises UnusableAnswerError for links, devices, and floods."""
    waiting = [(top, 0)]
    count = 0
    try:
        if not top.exists() and not top.is_symlink():
            return
        while waiting:
            path, depth = waiting.pop()
            mode = path.lstat().st_mode
            name = path.relative_to(top).as_posix() if path != top else RESOLVED
            if stat.S_ISDIR(mode):
                if depth > _DEEPEST:
                    raise UnusableAnswerError(f"its files are more than {_DEEPEST} folders deep")
                waiting += [(one, depth + 1) for one in sorted(path.iterdir(), reverse=True)]
                continue
            count += 1
            if count > _MOST_FILES:
                raise UnusableAnswerError(f"it answers with more than {_MOST_FILES} files")
            if not stat.S_ISREG(mode):
                raise UnusableAnswerError(f"{shown(name)} is not a regular file")
            yield name, path
    except OSError as error:
        raise UnusableAnswerError("its files cannot be read", str(error)) from error


def _read(path: Path) -> bytes:
    """Read one file, without following a link. Raises UnusableAnswerError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            content = file.read(LARGEST_ANSWER + 1)
    except OSError as error:
        raise UnusableAnswerError(f"{shown(path.name)} cannot be read", str(error)) from error
    if len(content) > LARGEST_ANSWER:
        raise UnusableAnswerError(f"{shown(path.name)} has more than {LARGEST_ANSWER // 1024} KiB")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableAnswerError(f"{shown(path.name)} is not UTF-8 text") from error
    if b"\0" in content:
        raise UnusableAnswerError(f"{shown(path.name)} is not text")
    return content


def _names(value: object, wanted: Mapping[str, str]) -> frozenset[str]:
    """The names that a list of the outcome means, each as a name below `resolved/` or as a path."""
    said = {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()
    return frozenset(name for name, path in wanted.items() if name in said or path in said)


def _reasons(value: object, wanted: Mapping[str, str]) -> dict[str, str]:
    said = value if isinstance(value, dict) else {}
    reasons = {name: said.get(name, said.get(path)) for name, path in wanted.items()}
    return {name: why.strip() for name, why in reasons.items() if isinstance(why, str) and why.strip()}
