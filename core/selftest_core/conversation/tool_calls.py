"""Search of a conversation: the tool call that made a hunk or ran a test, and the words around a moment. Pure.

A call made a hunk when it names the file and has the hunk's lines: an Edit or Write of Claude Code, a patch of Codex, a
shell command with the text. Of several the one with the most lines counts, and of equal ones the last, because the file
has its text. A shell command that can write and names the file, without its lines (`sed -i`), counts where no other
call does. Calls that failed do not count.

Arguments are the agent's: they are compared, never obeyed; texts for people are made harmless.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from selftest_core.conversation.conversation import call_text, command_of, message_text
from selftest_core.frozen import dataclass
from selftest_core.git.patches import LineKind, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from selftest_core.conversation.common_transcript import Step, ToolCall
    from selftest_core.git.patches import Hunk

SHELLS = frozenset({"bash", "shell", "exec_command", "shell_command", "local_shell", "exec"})
"""Names of tools that run a command, in lower case."""
RUNS_PYTEST = re.compile(r"(?:^|[\s;&|/(\"'])(?:pytest|py\.test)(?:[\s\"']|$)")
_IS_RED = re.compile(r"\b[1-9]\d* (?:failed|errors?)\b|\bFAILED\b")
_PATHS = ("file_path", "notebook_path")
_INSERTED = ("new_string", "content", "new_source")
_DELETED = ("old_string",)
_LEAST_PART = 4
"""Characters of a part of a line that is searched in a hunk's lines."""
_WRITES = re.compile(
    r"\bsed\b[^\n]*\s-\w*i|\bperl\b[^\n]*\s-\w*i|>|\btee\b|\bpatch\b|\b(?:rm|mv|cp)\s|\bgit\s+(?:apply|rm|mv)\b"
)
_LONGEST = 256 * 1024
"""Characters of a call that are compared."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of an agent around a moment, safe to show: its message before, the tool call, its message after.

    `step` and `after_step`: their numbers in the conversation, from 0; None where there is none. `at`: seconds since
    the epoch, of the result of the call, when the file had changed. `lines`: how many lines of the hunk the call has.
    """

    before: str = ""
    call: str = ""
    after: str = ""
    step: int | None = None
    after_step: int | None = None
    at: float | None = None
    lines: int = 0


@dataclass(frozen=True, slots=True)
class _Text:
    """Lines that a call inserts or deletes: whole ones, and the first and last of each text, which may be parts."""

    lines: frozenset[str]
    parts: frozenset[str]

    def count(self, wanted: Iterable[str]) -> int:
        """Count the wanted lines that are here."""
        return sum(line in self.lines or any(part in line for part in self.parts) for line in wanted)


def find_edit(steps: Sequence[Step], path: str, hunk: Hunk) -> Words | None:
    """Find the tool call that made a hunk of `path` (relative to the repository); None without one."""
    added = _wanted(hunk, LineKind.ADDED)
    removed = _wanted(hunk, LineKind.REMOVED)
    results = {result.call_id: (step.at, result.is_error) for step in steps for result in step.results}
    best: tuple[int, int, ToolCall] | None = None
    for number, step in enumerate(steps):
        for call in step.tool_calls:
            if call.id in results and results[call.id][1]:
                continue
            lines = _lines_in(call, path, added, removed)
            if lines is not None and (best is None or lines >= best[0]):
                best = lines, number, call
    if best is None:
        return None
    lines, number, call = best
    at = results[call.id][0] if call.id in results else None
    found = _around(steps, number, number)
    return Words(found.before, call_text(call), found.after, number, found.after_step, at or steps[number].at, lines)


def find_test_run(steps: Sequence[Step], node_id: str, *, red_only: bool = False) -> Words | None:
    """Find the agent's own run of a test: the last that failed, else (unless `red_only`) the last; None without one.

    A run that names the test (in its command or its output) comes before one of the whole file, and that before any.
    """
    results = {result.call_id: (step.at, result) for step in steps for result in step.results}
    path, name = node_id.partition("::")[0], node_id.rpartition("::")[2]
    best: tuple[tuple[int, bool], int, ToolCall] | None = None
    for number, step in enumerate(steps):
        for call in step.tool_calls:
            if call.id not in results or call.name.lower() not in SHELLS:
                continue
            command, output = command_of(call), results[call.id][1].text
            if not RUNS_PYTEST.search(command) and path not in command:
                continue
            names = 2 if name in command or name in output else 1 if path in command or path in output else 0
            rank = (names, results[call.id][1].is_error or _IS_RED.search(output) is not None)
            if (rank[1] or not red_only) and (best is None or rank >= best[0]):
                best = rank, number, call
    if best is None:
        return None
    _, number, call = best
    at = results[call.id][0] or steps[number].at
    found = _around(steps, number, number)
    return Words(found.before, call_text(call), found.after, number, found.after_step, at)


def words_around(steps: Sequence[Step], at: float) -> Words:
    """Return the agent's messages before and after a moment, seconds since the epoch."""
    number = max((number for number, step in enumerate(steps) if step.at is not None and step.at <= at), default=-1)
    found = _around(steps, number, number)
    return Words(found.before, "", found.after, number if number >= 0 else None, found.after_step, at)


def _around(steps: Sequence[Step], number: int, last: int) -> Words:
    """Return the last message of the agent up to step `number`, and the first one after step `last`."""
    before = next((one for one in reversed(steps[: number + 1]) if one.source == "agent" and one.text.strip()), None)
    after = next(
        (at for at in range(last + 1, len(steps)) if steps[at].source == "agent" and steps[at].text.strip()), None
    )
    return Words(
        message_text(before) if before is not None else "",
        "",
        message_text(steps[after]) if after is not None else "",
        after_step=after,
    )


def _wanted(hunk: Hunk, kind: LineKind) -> frozenset[str]:
    return frozenset(text for line in hunk.lines if line.kind is kind and (text := line.text.strip()))


def _lines_in(call: ToolCall, path: str, added: frozenset[str], removed: frozenset[str]) -> int | None:
    """Count the lines of a hunk that a call has; 0 for a command that may have made it, None for any other call."""
    named = [value for name in _PATHS if isinstance(value := call.arguments.get(name), str)]
    if named:
        if not any(_is_same_path(value, path) for value in named):
            return None
        inserted, deleted = _texts_of(call, _INSERTED), _texts_of(call, _DELETED)
        if not inserted and not deleted:
            return None
        lines = _text(inserted).count(added) + _text(deleted).count(removed)
        if not lines and not added and not deleted and not _text(inserted).count(removed):
            return 1  # a whole file without the lines that the hunk removes
        return lines or None
    text = "\n".join(value for value in call.arguments.values() if isinstance(value, str)) or command_of(call)
    if path.rpartition("/")[2] not in text:
        return None
    body = text[:_LONGEST].split("\n")
    lines = _text(["\n".join(line.removeprefix("+") for line in body)]).count(added)
    lines += _text(["\n".join(line[1:] for line in body if line.startswith("-"))]).count(removed)
    return lines or (0 if _WRITES.search(text) else None)


def _texts_of(call: ToolCall, names: Sequence[str]) -> list[str]:
    """Return these arguments of a call, and of each edit in a call that makes several."""
    edits = call.arguments.get("edits")
    parts = [call.arguments, *(edits if isinstance(edits, list) else ())]
    values = (part.get(name) for part in parts if isinstance(part, Mapping) for name in names)
    return [value for value in values if isinstance(value, str)]


def _is_same_path(given: str, path: str) -> bool:
    return given == path or given.removeprefix("./") == path or given.endswith(f"/{path}")


def _text(texts: Iterable[str]) -> _Text:
    lines: set[str] = set()
    parts: set[str] = set()
    for text in texts:
        found = [shown(line).strip() for line in text[:_LONGEST].split("\n")]
        lines.update(found)
        parts.update(part for part in (found[0], found[-1]) if len(part) >= _LEAST_PART)
    return _Text(frozenset(lines), frozenset(parts))
