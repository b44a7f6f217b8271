"""Markers from an agent's conversation: start and result of pytest, commits, errors.

Claude Code hides the output of its tools, so the screen and the recording do not show them. The times are those of the
conversation. Markers that the recording has already, from the screen or git's log, are not added twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.conversation.conversation import command_of, harmless
from selftest_core.conversation.tool_calls import RUNS_PYTEST, SHELLS
from selftest_recorder.cast.writer import add_missing_markers
from selftest_recorder.onhost.markers import MarkerFinder, clean_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from selftest_core.conversation.common_transcript import Step, ToolResult

PYTEST_BEGINS = "pytest begins"
MOST = 300
"""Most markers of one conversation; the newest are kept."""
_BETWEEN = re.compile(r"[;&|\n]")
_GIT = re.compile(r"\bgit\b")
_COMMIT = re.compile(r"\scommit\b")
_COMMITTED = re.compile(r"^\[[^\]\n]{1,200} [0-9a-f]{7,40}\] (.+)$", re.MULTILINE)
_NONE_RAN = re.compile(r"\bno tests ran in \d")
_EXIT = re.compile(r"Exit code (\d+)\s*")
_CODEX = re.compile(
    r"\A(?:[A-Z][^\n]{0,80}\n){0,4}Process exited with code (\d+)\n(?:[A-Z][^\n]{0,80}\n){0,3}?Output:\n?"
)
"""The lines of Codex before the output of a command, the only place of its exit status."""
_LAST = 64 * 1024


def markers_of(steps: Iterable[Step]) -> list[tuple[float, str]]:
    """Return the markers of a conversation in order: seconds since the epoch, and label; at most `MOST`."""
    commands: dict[str, str] = {}
    found: list[tuple[float, str]] = []
    for step in steps:
        if step.at is None:
            continue
        if step.is_error:
            found.append((step.at, clean_label(f"error: {harmless(step.text)}")))
        for call in step.tool_calls:
            command = command_of(call) if call.name.lower() in SHELLS else ""
            commands[call.id] = command
            if RUNS_PYTEST.search(command):
                found.append((step.at, PYTEST_BEGINS))
        for result in step.results:
            found += [(step.at, label) for label in _of_result(commands.get(result.call_id), result)]
    return found[-MOST:]


def mark_conversation(path: Path, steps: Iterable[Step], mask: Callable[[str], str]) -> None:
    """Add the markers of a conversation to the recording at `path`. Raises RecordingError, OSError."""
    add_missing_markers(path, [(at, mask(label)) for at, label in markers_of(steps)])


def _of_result(command: str | None, result: ToolResult) -> Iterator[str]:
    headed = _CODEX.match(result.text)
    is_error = result.is_error or (headed is not None and headed[1] != "0")
    text = harmless(result.text[headed.end() if headed is not None else 0 :][-_LAST:])
    if command and RUNS_PYTEST.search(command):
        ends = [
            label for label in MarkerFinder().feed(text.encode("utf-8", "replace") + b"\n") if label != PYTEST_BEGINS
        ]
        if ends:
            yield ends[-1]
        elif _NONE_RAN.search(text):
            yield "pytest: no tests ran"
        elif is_error:
            yield clean_label(f"pytest: {_first_line(text) or 'failed'}")
        return
    committed = list(_COMMITTED.finditer(text)) if command and _commits(command) else []
    yield from (clean_label(f"commit: {one[1]}") for one in committed)
    if is_error and not committed:
        line = _first_line(text)
        if line:
            yield clean_label(f"error: {line}")


def _commits(command: str) -> bool:
    """Return True for a command that runs `git commit`; in linear time, for commands of any length."""
    gits = ((part, _GIT.search(part)) for part in _BETWEEN.split(command))
    return any(git is not None and _COMMIT.search(part, git.end()) is not None for part, git in gits)


def _first_line(text: str) -> str:
    """Return the first line with text, without the exit status that Claude Code writes before it."""
    return next((line.strip() for line in _EXIT.sub("", text, count=1).splitlines() if line.strip()), "")
