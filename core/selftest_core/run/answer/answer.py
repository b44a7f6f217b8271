"""An answer of a person to an agent: the value, its limits, and the texts that the agent gets. Pure.

An agent whose session can be started again is sent one line that names a file with the answer: models are told to
distrust longer messages, which arrive as pasted text. A new agent finds the same page at the end of its prompt, and the
answer in `SELFTEST_ANSWER`.
"""

from __future__ import annotations

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass

LONGEST = 10_000
"""Characters of an answer: it must fit into one variable of an environment."""
ANSWER_FILE = ".selftest/answer.md"
"""Path of the answer in an agent's copy of the repository."""
ANSWER_VARIABLE = "SELFTEST_ANSWER"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `id`: of its request. `asked`: the agent's question or last words; untrusted.

    `start`: the last commit of the attempt that was answered, from which a new agent starts; empty for the base.
    `start_attempt`: the attempt whose bundle has it.
    """

    id: str
    text: str
    asked: str = ""
    start: str = ""
    start_attempt: int = 0


def clean_answer(text: str) -> str:
    """Return the text without what no message can hold. Raises UsageError if it is empty or too long."""
    said = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()
    said = "".join(letter for letter in said if letter.isprintable() or letter in "\n\t").strip()
    if not said:
        raise UsageError("The answer is empty", "", "Write what the agent should know.")
    if len(said) > LONGEST:
        hint = "Put the rest into a file of the repository, and name it."
        raise UsageError(f"The answer has {len(said):,} characters", f"{LONGEST:,} are sent at most.", hint)
    return said


def answer_line(attempt: int) -> str:
    """Return the message to an agent that goes on. It differs in each attempt, so a transcript tells them apart."""
    return f"A person answered: read {ANSWER_FILE} and go on as it says (attempt {attempt})."


def answer_page(answer: Answer, *, is_continued: bool, until: str = "") -> str:
    """Return the answer as Markdown. `is_continued`: for the agent that asked, not for a new one in its place.

    `until`: the time of day when its new time is over, with its zone.
    """
    from selftest_core.run.plan.prompt import fenced

    if is_continued:
        after = (
            "Your earlier results were collected and moved away. Go on with your task as `.selftest/prompt.md` says, "
            "and write a new outcome file when you are done; without one, nothing comes back. Make a new bundle, too, "
            "if you made one."
        )
        after += f" You have time until {until}." if until else ""
    else:
        begins = "Your copy begins with the commits of that attempt. " if answer.start else ""
        after = f"{begins}Go on from there. The answer is in `${ANSWER_VARIABLE}`, too."
    whose = "You ended with" if is_continued else "An earlier attempt at this task ended with"
    parts = ["# A person's answer"]
    if answer.asked.strip():
        parts.append(f"{whose}:\n\n{fenced(answer.asked.strip())}")
    parts.append(f"A person answers:\n\n{fenced(answer.text)}")
    return "\n\n".join([*parts, after]) + "\n"
