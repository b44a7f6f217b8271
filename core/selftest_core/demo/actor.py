"""Plays one agent of the demo in a terminal: thinks, reads, edits, tests, asks, commits, crashes. No LLM, no network.

    actor.py STORY.json SPEED PATIENCE

STORY is a list of steps as `scenarios` describes; SPEED divides every pause; PATIENCE is how many seconds it waits
for a person before it goes on by itself (0: for ever). What it edits, tests and commits is real, in its folder.

It runs by itself, apart from the rest of the package: plain standard library, and nothing imported that is slow.
It keeps mngr's marker files as coding agents do: `active` during a turn, `permissions_waiting` beside it while a
question holds the turn up.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import traceback
from pathlib import Path

GREY, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN = (f"\033[{code}m" for code in (90, 31, 32, 33, 34, 35, 36))
BOLD, DIM, ITALIC, PLAIN = "\033[1m", "\033[2m", "\033[3m", "\033[0m"
ON_GREEN, ON_RED = "\033[48;5;22m", "\033[48;5;52m"
ORANGE = "\033[38;5;209m"
PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
SPINNER = "·✢✳✶✻✽✻✶✳✢"
MOODS = ("Pondering", "Weighing", "Tracing", "Untangling", "Sifting", "Whittling", "Squinting", "Reckoning")


class Actor:
    """One agent on its stage. The verbs of the stories are its methods."""

    def __init__(self, story: list[list[object]], speed: float, patience: float) -> None:
        self.story = story
        self.speed = speed
        self.patience = patience / speed
        self.state = Path(os.environ.get("MNGR_AGENT_STATE_DIR") or ".selftest")
        self.name = os.environ.get("MNGR_AGENT_NAME", "agent")
        self.hears = True
        self.moods = 0
        self.began = time.monotonic()

    def play(self) -> None:
        """The whole story, from the curtain on."""
        self._work()
        self.write(f"\033]2;{self.name}\007{ORANGE}{BOLD}✻ demo agent{PLAIN} {self.name}\n")
        self.write(f"{GREY}  {Path.cwd()}{PLAIN}\n\n")
        self.perform(self.story)
        self._rest()
        self.write(f"\n{GREEN}✔ finished{PLAIN} {GREY}after {time.monotonic() - self.began:.0f} s{PLAIN}\n")

    def perform(self, steps: list[list[object]]) -> None:
        """Some steps, in order."""
        for verb, *arguments in steps:
            getattr(self, str(verb))(*arguments)

    # -- verbs

    def say(self, text: str) -> None:
        """Words that appear as they are thought of."""
        self.write(f"{BOLD}●{PLAIN} ")
        for word in text.split(" "):
            self.write(word + " ")
            self.pause(0.06)
        self.write("\n\n")

    def think(self, seconds: float) -> None:
        """A spinner that counts."""
        mood = MOODS[self.moods % len(MOODS)]
        self.moods += 1
        began = time.monotonic()
        turn = 0
        while (passed := (time.monotonic() - began) * self.speed) < seconds:
            mark = SPINNER[turn % len(SPINNER)]
            self.write(
                f"\r\033[K{ORANGE}{mark} {mood}…{PLAIN} {GREY}({passed:.0f}s · {self.moods * 312} tokens){PLAIN}"
            )
            self.pause(0.12 * self.speed)
            turn += 1
        self.write("\r\033[K")

    def read(self, path: str) -> None:
        """A file is opened."""
        lines = Path(path).read_text(encoding="utf-8").count("\n")
        self.write(f"{GREEN}●{PLAIN} {BOLD}Read{PLAIN}({path})\n  {GREY}⎿  {lines} lines{PLAIN}\n\n")
        self.pause(0.6)

    def edit(self, path: str, old: str, new: str) -> None:
        """A real change of a file, shown as a diff; one that is there already (a restart) is only mentioned."""
        text = Path(path).read_text(encoding="utf-8")
        self.write(f"{GREEN}●{PLAIN} {BOLD}Update{PLAIN}({path})\n")
        if old not in text:
            self.write(f"  {GREY}⎿  it says so already{PLAIN}\n\n")
            return
        line = text[: text.index(old)].count("\n") + 1
        before = text.splitlines()
        changed = text.replace(old, new, 1)
        olds, news = old.splitlines(), new.splitlines()
        for number in range(max(1, line - 2), line):
            self.write(f"  {GREY}{number:4}{PLAIN}   {before[number - 1]}\n")
        for number, words in enumerate(olds, line):
            self.write(f"  {RED}{number:4} -{PLAIN} {ON_RED}{words}{PLAIN}\n")
            self.pause(0.25)
        for number, words in enumerate(news, line):
            self.write(f"  {GREEN}{number:4} +{PLAIN} {ON_GREEN}{words}{PLAIN}\n")
            self.pause(0.25)
        for number in range(line + len(olds), min(len(before), line + len(olds) + 1) + 1):
            self.write(f"  {GREY}{number + len(news) - len(olds):4}{PLAIN}   {before[number - 1]}\n")
        Path(path).write_text(changed, encoding="utf-8")
        self.write("\n")
        self.pause(0.8)

    def test(self, nodes: list[str]) -> None:
        """The tests of the sample, run for real."""
        self.write(f"{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}(pytest -q {' '.join(nodes)})\n")
        passed, failures = 0, []
        began = time.monotonic()
        for node in nodes:
            path, _, only = node.partition("::")
            for name, why in run_tests(Path(path), only):
                passed += not why
                if why:
                    failures.append((f"{path}::{name}", why))
                self.write(f"{RED}F{PLAIN}" if why else f"{GREEN}.{PLAIN}")
                self.pause(0.3)
        self.write("\n")
        for node, why in failures:
            self.write(f"  {RED}FAILED{PLAIN} {BOLD}{node}{PLAIN}\n")
            for text in why.splitlines():
                self.write(f"  {RED}E{PLAIN}   {text}\n")
        counts = [f"{RED}{BOLD}{len(failures)} failed{PLAIN}"] if failures else []
        counts += [f"{GREEN}{passed} passed{PLAIN}"] if passed else []
        self.write(f"  {', '.join(counts)} {GREY}in {time.monotonic() - began:.2f}s{PLAIN}\n\n")
        self.pause(0.8)

    def ask(self, question: str, choices: list[str]) -> None:
        """A question that only a person can answer."""
        self.write(f"{YELLOW}{BOLD}?{PLAIN} {BOLD}{question}{PLAIN}\n")
        for number, choice in enumerate(choices, 1):
            self.write(f"  {CYAN}{number}.{PLAIN} {choice}\n")
        answer = self._hear(
            f"{GREY}a number, or words, then Enter{PLAIN} {YELLOW}{PROMPT}{PLAIN} ", "1", is_permission=True
        )
        chosen = choices[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(choices) else answer
        self.write(f"\n{BOLD}●{PLAIN} Understood: {ITALIC}{printable(chosen)}{PLAIN}\n\n")

    def permit(self, command: str) -> None:
        """A command that it may not run unasked."""
        self.write(f"{YELLOW}╭─{PLAIN} {BOLD}May I run this command?{PLAIN}\n")
        self.write(f"{YELLOW}│{PLAIN}  {command}\n{YELLOW}│{PLAIN}  {CYAN}1.{PLAIN} Yes   {CYAN}2.{PLAIN} No\n")
        answer = self._hear(f"{YELLOW}╰─{PROMPT}{PLAIN} ", "1", is_permission=True)
        if answer.casefold() in {"1", "y", "yes"}:
            self.write(f"\n{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}({command})\n  {GREY}⎿  {PLAIN}")
            sys.stdout.flush()
            words = command.split()
            os.spawnvp(os.P_WAIT, words[0], [words[0], "--no-pager", *words[1:]])
            self.write("\n")
        else:
            self.write(f"\n{BOLD}●{PLAIN} Then I do without it.\n\n")

    def wait(self, words: str) -> None:
        """The end of a turn: idle until somebody says something, which is then done as far as an actor can."""
        self.say(words)
        while answer := self._hear(f"{GREY}──────────{PLAIN}\n{PROMPT} ", "", is_permission=False):
            if answer.casefold() in {"exit", "quit", "/exit"}:
                return
            self.say(f"You said “{printable(answer)}”. I look again.")
            self.think(4.0)
            self.test(["tests/test_cart.py::test_total"])

    def commit(self, subject: str) -> None:
        """A real commit on the agent's own branch."""
        self.write(f"{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}(git commit -am {subject!r})\n{GREY}")
        sys.stdout.flush()
        os.spawnvp(os.P_WAIT, "git", ["git", "commit", "-q", "-a", "-m", subject])
        os.spawnvp(os.P_WAIT, "git", ["git", "--no-pager", "log", "-1", "--color=always", "--oneline", "--stat"])
        self.write(f"{PLAIN}\n")

    def again(self, times: int, steps: list[list[object]]) -> None:
        """The same steps many times; once is enough where nobody watches for ever."""
        for _ in range(1 if self.patience else times):
            self.perform(steps)

    def crash(self, why: str) -> None:
        """The end of an agent that met something it did not expect. Nobody takes its markers away: as in life."""
        self.write(
            f'{RED}Traceback (most recent call last):\n  File "agent.py", line 212, in run\n{BOLD}{why}{PLAIN}\n'
        )
        sys.stdout.flush()
        raise SystemExit(3)

    # -- the stage

    def write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def pause(self, seconds: float) -> None:
        """Wait, listening: what is said meanwhile is acknowledged, as a busy agent does."""
        until = time.monotonic() + seconds / self.speed
        while (left := until - time.monotonic()) > 0:
            words = self._line(left)
            if words:
                self.write(f"\n{GREY}{PROMPT} {printable(words)}\n  ⎿  noted, after this step{PLAIN}\n")

    def _line(self, seconds: float | None) -> str | None:
        """A line that was typed within the time, without its end; None: nothing came."""
        if not self.hears:
            time.sleep(60.0 if seconds is None else seconds)
            return None
        if not select.select([0], [], [], seconds)[0]:
            return None
        typed = os.read(0, 65536)
        self.hears = bool(typed)
        return typed.decode("utf-8", "replace").strip()

    def _hear(self, prompt: str, otherwise: str, *, is_permission: bool) -> str:
        """Wait for words of a person; `otherwise` when patience ends first."""
        self._rest(is_permission=is_permission)
        self.write(prompt)
        until = time.monotonic() + self.patience if self.patience else None
        words: str | None = None
        while not words:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                words = otherwise
                self.write(f"{GREY}(nobody here: {otherwise or 'done'}){PLAIN}\n")
                break
            words = self._line(left)
        self._work()
        return words or ""

    def _work(self) -> None:
        (self.state / "active").touch()
        (self.state / "permissions_waiting").unlink(missing_ok=True)

    def _rest(self, *, is_permission: bool = False) -> None:
        if is_permission:  # a question in the middle of a turn: the turn, and so `active`, goes on
            (self.state / "permissions_waiting").touch()
        else:
            (self.state / "active").unlink(missing_ok=True)


def printable(words: str) -> str:
    """What was typed, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "·" for letter in words)


def run_tests(path: Path, only: str) -> list[tuple[str, str]]:
    """Each test function of a file, freshly imported, with why it failed ("" where it passed)."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]
    space: dict[str, object] = {"__name__": path.stem}
    source = path.read_text(encoding="utf-8")
    exec(compile(source, str(path), "exec"), space)  # the sample's own tests, in the actor's own folder
    results = []
    for name, test in list(space.items()):
        if name.startswith("test_") and callable(test) and name in (only or name):
            why = ""
            try:
                test()
            except Exception as error:
                line = traceback.extract_tb(error.__traceback__)[1].lineno or 1
                why = f"{source.splitlines()[line - 1].strip()}\n{type(error).__name__} {error}".rstrip()
            results.append((name, why))
    return results


def main(arguments: list[str]) -> None:
    """Play the story that the arguments name."""
    story, speed, patience = arguments
    sys.path.insert(0, str(Path.cwd()))
    sys.dont_write_bytecode = True
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    Actor(json.loads(Path(story).read_text(encoding="utf-8")), float(speed), float(patience)).play()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        raise SystemExit(130) from None
