"""The agent of one task of a run, played by its prompt and the story that the stage has for its task.

The message names the prompt's file, so the agent reads that first. A story is a list of steps as in `demo.scenarios`, a
verb and its arguments; each verb becomes the tool calls that a coding agent would make. Its edits, test runs, commits
and outcome are real: the outcome reports what the calls did.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import field
from typing import TYPE_CHECKING

from selftest_core.demo.actor import CLASH, TASK, conflicts
from selftest_core.demo.scripted_model.answers import Answer, Refusal, edit, question, read, read_text, shell
from selftest_core.demo.scripted_model.conversation import PROMPT_FILE
from selftest_core.frozen import dataclass
from selftest_core.run.answer.answer import ANSWER_FILE

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from selftest_core.demo.scripted_model.answers import Play
    from selftest_core.demo.scripted_model.conversation import Conversation

type Steps = list[list[Any]]
type Calls = Generator[Answer, str, None]

_TASK = re.compile(r"^# Your task: (?P<owns>.+)$", re.M)
_ROLES = {
    "one test": "tester",
    "one heading of the tutorial": "drafter",
    "the tests of one block": "writer",
    "one conflict": "integrator",
}
"""The role by the words of the prompt's title."""
_RUNNING = re.compile(r"^## How to run .*$", re.M)
_WITHOUT_STORY: Steps = [["test"], ["report", "It was run as it is; nothing was changed.", {}]]
_FENCE = re.compile(r"^(?P<ends>`{3,})(?P<language>\w*)\n(?P<text>.*?)\n(?P=ends)$", re.S | re.M)


@dataclass(frozen=True, slots=True)
class Stage:
    """The stories by the id of their task, or by its role.

    `speed` divides every pause. `is_watched`: somebody answers questions.
    """

    stories: Mapping[str, Steps] = field(default_factory=dict)
    speed: float = 1.0
    is_watched: bool = False


def read_stage(path: Path) -> Stage:
    """Read a stage that `claude` or a test wrote. Raises OSError, ValueError, KeyError."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return Stage(document["stories"], float(document.get("speed", 1.0)), bool(document.get("is_watched", False)))


def tester(talk: Conversation, stage: Stage) -> Play:
    """Read the prompt, follow it, and write the outcome."""
    prompt = read_text((yield read(talk, PROMPT_FILE, "I will read my task.")))
    if ANSWER_FILE in talk.said:
        told = read_text((yield read(talk, ANSWER_FILE, "A person answered me.")))
    else:
        # The message that came behind its report; in a new agent's prompt, the answer to the one before it.
        told = _answer_in(prompt) if PROMPT_FILE in talk.said else talk.said
    fences = [(found["language"], found["text"]) for found in _FENCE.finditer(prompt)]
    title = _TASK.search(prompt)
    if title is None or not fences:
        # A smoke agent's prompt: run its commands.
        for language, text in fences:
            if language in ("sh", "bash"):
                yield shell(talk, text, "As the prompt says")
        return Answer("Done, as the prompt says.")
    task = fences[0][1].strip()
    actor = _Actor(talk, stage, task, _command(prompt, task), _answer_in(told) or told)
    story = stage.stories.get(task) or stage.stories.get(_ROLES.get(title["owns"], ""))
    yield from actor.perform(story or (_WITHOUT_STORY if title["owns"] == "one test" else _WITHOUT_STORY[1:]))
    return actor.last()


def is_answer(talk: Conversation, stage: Stage) -> bool:
    """Return whether the last message answers a question of a story, behind the prompt of a run."""
    return talk.asked > 0 and any(
        _chosen(talk.said, step[2]) is not None
        for story in stage.stories.values()
        for step in story
        if step[0] == "ask"
    )


def _command(prompt: str, task: str) -> str:
    """Return the command that runs tests, which follow it: the first one below the prompt's title about that."""
    title = _RUNNING.search(prompt)
    fence = _FENCE.search(prompt, title.end()) if title is not None else None
    command = fence["text"] if fence is not None else "python -m pytest"
    return command.replace(shlex.quote(task), "").replace(task, "").strip()


def _answer_in(page: str) -> str:
    """Return the answer on a page of `run.answer.answer.answer_page`, or in a prompt that ends with one."""
    head, _, rest = page.rpartition("\nA person answers:\n")
    found = _FENCE.search(rest) if head else None
    return found["text"] if found is not None else ""


def _chosen(said: str, choices: Sequence[str]) -> int | None:
    """Return the number of the choice that a message names, None without one."""
    return next((at for at, choice in enumerate(choices) if choice.casefold() in said.casefold()), None)


class _Actor:
    """One agent and its story. The verbs of the stories are its methods."""

    def __init__(self, talk: Conversation, stage: Stage, task: str, command: str, told: str) -> None:
        self._talk = talk
        self._stage = stage
        self._task = task
        self._command = command
        self._told = told
        self._words: list[str] = []
        self._seconds = 0.0
        self._refusal: Refusal | None = None
        self._is_over = False
        self._read: set[str] = set()
        self._runs: list[tuple[str, bool]] = []
        self._changes: dict[str, dict[str, str]] = {}

    def perform(self, steps: Steps) -> Calls:
        """Play some steps in order, until one of them ends the turn."""
        for verb, *arguments in steps:
            if not self._is_over:
                yield from getattr(self, verb)(*arguments)

    def last(self) -> Answer:
        """Return the answer that ends the turn."""
        return self._with_words(Answer("" if self._words else "I am done."))

    def _with_words(self, answer: Answer) -> Answer:
        """Put the words, pauses and refusals of the last steps before an answer."""
        words = "\n\n".join([*self._words, answer.words]).strip()
        seconds, refusal = self._seconds / self._stage.speed, self._refusal
        self._words, self._seconds, self._refusal = [], 0.0, None
        streamed, silent = (seconds, 0.0) if words else (0.0, seconds)
        return Answer(words, answer.tool, answer.given, seconds=streamed, silence=silent, refusal=refusal)

    def _call(self, answer: Answer) -> Generator[Answer, str, str]:
        return (yield self._with_words(answer))

    # -- verbs

    def say(self, text: str) -> Calls:
        """Put words before the next call."""
        self._words.append(text)
        yield from ()

    def think(self, seconds: float) -> Calls:
        """Delay the next answer."""
        self._seconds += seconds
        yield from ()

    def read(self, path: str) -> Calls:
        """Read a file."""
        self._read.add(path)
        yield from self._call(read(self._talk, path))

    def edit(self, path: str, old: str, new: str) -> Calls:
        """Change a file; read it first if it was not read yet."""
        if path not in self._read:
            yield from self.read(path)
        yield from self._call(edit(self._talk, path, old, new))

    def create(self, path: str, text: str) -> Calls:
        """Write a new file, so that the next commit takes it."""
        self._read.add(path)
        if "Write" in self._talk.tools and self._talk.folder:
            given = {"file_path": f"{self._talk.folder}/{path}", "content": text}
            yield from self._call(Answer("", "Write", given))
        else:
            command = f"cat > {shlex.quote(path)} <<'END_OF_FILE'\n{text.removesuffix('\n')}\nEND_OF_FILE"
            yield from self._call(shell(self._talk, command, "Write the file"))
        yield from self.bash(f"git add --intent-to-add -- {shlex.quote(path)}")

    def resolve(self, path: str, lines: str) -> Calls:
        """Answer a conflict of its task: put these lines in place of what clashes, between the markers."""
        task = json.loads(read_text((yield from self._call(read(self._talk, f"{TASK}/task.json")))))
        for text, name in conflicts(task, path):
            merged = read_text((yield from self._call(read(self._talk, f"{TASK}/{text}"))))
            answer = CLASH.sub(lambda _: lines, f"{merged.rstrip('\n')}\n")
            command = f"cat > \"$SELFTEST_OUT/resolved/{name}\" <<'END_OF_FILE'\n{answer}END_OF_FILE"
            folder = f'mkdir -p "$(dirname "$SELFTEST_OUT/resolved/{name}")"'
            yield from self._call(shell(self._talk, f"{folder}\n{command}", "Write the resolved file"))

    def test(self, *tests: str) -> Calls:
        """Run these tests by the command of its prompt, by default its own."""
        command = f"{self._command} {shlex.join(tests or (self._task,))}"
        result = yield from self._call(shell(self._talk, command, "Run the test"))
        is_green = re.search(r"\b\d+ passed\b", result) is not None and re.search(r"\bfailed\b", result) is None
        self._runs.append(("after" if self._changes else "before", is_green))

    def bash(self, command: str) -> Calls:
        """Run a shell command."""
        yield from self._call(shell(self._talk, command, "As needed"))

    def permit(self, command: str) -> Calls:
        """Run a shell command that a user may have to allow."""
        yield from self.bash(command)

    def commit(self, kind: str, subject: str, why: str) -> Calls:
        """Commit to the agent's branch, and note the change for the outcome."""
        command = f"git commit -qam {shlex.quote(f'[{kind}] {subject}')} -m {shlex.quote(why)} && git log --oneline -1"
        yield from self._call(shell(self._talk, command, "Commit"))
        self._changes[kind] = {"status": "SUCCEEDED", "summary_markdown": f"{subject}. {why}"}

    def undo(self, kind: str, why: str) -> Calls:
        """Discard the changes, and note the failed attempt for the outcome."""
        yield from self._call(shell(self._talk, "git checkout -q -- .", "Discard the changes"))
        self._changes[kind] = {"status": "FAILED", "summary_markdown": why}

    def ask(self, text: str, choices: list[str], then: list[Steps]) -> Calls:
        """Ask the user. `then`: the steps for each choice, and last for no answer."""
        if (told := _chosen(self._told, choices)) is not None:
            yield from self.perform(then[told])
            return
        if not self._stage.is_watched or "AskUserQuestion" not in self._talk.tools:
            yield from self.perform(then[-1])
            return
        said = yield from self._call(question(self._talk, text, choices))
        chosen = next((number for number, choice in enumerate(choices) if f'="{choice}"' in said), None)
        yield from self.perform(then[-1] if chosen is None else then[chosen])

    def report(self, summary: str, claims: dict[str, object]) -> Calls:
        """Write the outcome atomically. `claims`: fields that replace what was observed."""
        document = {
            "errored": False,
            "tests_passing_before": self._runs[0][1] if self._runs else None,
            "tests_passing_after": self._runs[-1][1] if self._runs else None,
            "summary_markdown": summary,
            "changes": self._changes,
            "test_runs": [
                {"run_name": when, "description_markdown": "passed" if is_green else "failed"}
                for when, is_green in self._runs
            ],
            "escalations": [],
            **claims,
        }
        yield from self._write_outcome(json.dumps(document, indent=1))
        self._words.append(summary)

    def babble(self, text: str) -> Calls:
        """Write an outcome that cannot be parsed, and end the turn."""
        yield from self._write_outcome(text)
        self._is_over = True

    def crash(self, why: str) -> Calls:
        """Kill the agent's program, which is the shell's parent, during its turn, once its transcript has this call."""
        # The program writes its transcript a moment later than it calls; what is killed before that is lost.
        written = f'grep -rqsF {shlex.quote(why)} "${{CLAUDE_CONFIG_DIR:-$HOME/.claude}}/projects"'
        wait = f"for i in $(seq 100); do {written} && break; python3 -c 'import time; time.sleep(0.1)'; done"
        yield from self._call(shell(self._talk, f"echo {shlex.quote(why)}; {wait}; kill -9 $PPID", "Try the service"))

    def limit(self, times: int, seconds: int) -> Calls:
        """Refuse the next answer so often with a rate limit."""
        self._refusal = Refusal(429, "rate_limit_error", "This request would exceed your rate limit.", times, seconds)
        yield from ()

    def refuse(self, status: int, kind: str, message: str) -> Calls:
        """Refuse the next answer for ever."""
        self._refusal = Refusal(status, kind, message)
        yield from ()

    def forget(self) -> Calls:
        """End the turn without a report, unless a reminder named the prompt again."""
        self._is_over = self._talk.asked < 2
        yield from ()

    def dawdle(self, seconds: float) -> Calls:
        """Delay the next answer, unless a reminder named the prompt again."""
        yield from self.think(seconds if self._talk.asked < 2 else 0.0)

    def _write_outcome(self, text: str) -> Calls:
        if "Write" in self._talk.tools and self._talk.folder:
            path = f"{self._talk.folder}/.selftest/out/outcome.json.draft"
            yield from self._call(Answer("My report.", "Write", {"file_path": path, "content": text}))
        else:
            command = f"cat > \"$SELFTEST_OUT/outcome.json.draft\" <<'REPORT'\n{text}\nREPORT"
            yield from self._call(shell(self._talk, command, "Write the report"))
        command = 'mv "$SELFTEST_OUT/outcome.json.draft" "$SELFTEST_OUT/outcome.json"'
        yield from self._call(shell(self._talk, command, "Rename the report"))
