"""The answers of the scripted model: words, then at most one call of a tool, or a refusal."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from selftest_core.demo.scripted_model.conversation import Conversation

FOR_EVER = 1_000_000
"""A number of refusals that never ends."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that is sent instead of an answer, for the first `times` requests of a step."""

    status: int
    kind: str
    message: str
    times: int = FOR_EVER
    retry_after: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `tool`, `given`: the tool call after the words; none if `tool` is empty.

    `seconds`: duration of the stream of words; `silence`: the pause before it. `broken`: number of requests whose
    stream breaks off in the middle. `context`: tokens that the answer claims to have read.
    """

    words: str = ""
    tool: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    silence: float = 0.0
    broken: int = 0
    context: int = 0
    refusal: Refusal | None = None


type Play = Generator[Answer, str, Answer]
"""A generator that yields an answer with a call, receives its result, and returns the last answer of its turn."""


def answer_at(play: Play | Answer, results: tuple[str, ...]) -> Answer:
    """Replay a play through the results so far, and return its next answer."""
    if isinstance(play, Answer):
        return play
    try:
        answer = next(play)
        for result in results:
            answer = play.send(result)
    except StopIteration as end:
        last: Answer = end.value
        return last
    return answer


def shell(talk: Conversation, command: str, why: str, words: str = "") -> Answer:
    """Call a shell command with the tool that this agent has for it."""
    if "Bash" in talk.tools:
        return Answer(words, "Bash", {"command": command, "description": why})
    if "exec_command" in talk.tools:
        return Answer(words, "exec_command", {"cmd": command})
    if "shell_command" in talk.tools:
        return Answer(words, "shell_command", {"command": command})
    return Answer(words, "shell", {"command": ["bash", "-lc", command]})


def wait_command(seconds: float) -> str:
    """Return a shell command that takes so long. Claude Code refuses a plain `sleep`."""
    return f"python3 -c 'import time; time.sleep({seconds:g})'"


def read(talk: Conversation, path: str, words: str = "") -> Answer:
    """Read a file; `path` is relative to the agent's folder."""
    if "Read" in talk.tools and talk.folder:
        return Answer(words, "Read", {"file_path": f"{talk.folder}/{path}"})
    return shell(talk, f"cat {path}", f"Read {path}", words)


def read_text(result: str) -> str:
    """Return a file's text from the result of `read`, without the line numbers of Claude Code."""
    return re.sub(r"^ *\d+(?:→|\t)", "", result, flags=re.M)


def edit(talk: Conversation, path: str, old: str, new: str, words: str = "") -> Answer:
    """Change a file that was read before."""
    if "Edit" in talk.tools and talk.folder:
        return Answer(words, "Edit", {"file_path": f"{talk.folder}/{path}", "old_string": old, "new_string": new})
    script = f"import pathlib; p = pathlib.Path({path!r}); p.write_text(p.read_text().replace({old!r}, {new!r}, 1))"
    return shell(talk, f"python3 - <<'SCRIPT'\n{script}\nSCRIPT", f"Edit {path}", words)


def question(talk: Conversation, text: str, choices: list[str], words: str = "") -> Answer:
    """Ask a question with choices: in a dialog where the agent has one, else at the end of a turn."""
    if "AskUserQuestion" not in talk.tools:
        return Answer(f"{words} {text} " + " ".join(f"{n}. {choice}" for n, choice in enumerate(choices, 1)))
    options = [{"label": choice, "description": choice} for choice in choices]
    asked = {"question": text, "header": "Decision", "multiSelect": False, "options": options}
    return Answer(words, "AskUserQuestion", {"questions": [asked]})
