"""Play one agent of the demo in a terminal: think, read, edit, test, ask, commit, report. No model, no network.

    actor.py STAGE.json

STAGE has `stories` (by task, which SELFTEST_TEST names, else by SELFTEST_ROLE: steps as in `scenarios`), `pytest` (the
command), `speed` (divides every pause) and `patience` (seconds to wait for the user before it continues; 0: for ever).
Its edits, test runs, commits and outcome are real: the outcome reports what pytest did, unless the story replaces it.

It is copied and runs alone: standard library only, without slow imports. It keeps mngr's marker files as coding agents
do: `active` during a turn, and `permissions_waiting` beside it while a question blocks the turn.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import time
from pathlib import Path

GREY, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN = (f"\033[{code}m" for code in (90, 31, 32, 33, 34, 35, 36))
BOLD, DIM, ITALIC, PLAIN = "\033[1m", "\033[2m", "\033[3m", "\033[0m"
ON_GREEN, ON_RED = "\033[48;5;22m", "\033[48;5;52m"
ORANGE = "\033[38;5;209m"
PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
SPINNER = "·✢✳✶✻✽✻✶✳✢"
TASK = ".selftest/task"
CLASH = re.compile(r"^<{7,} .*?^>{7,} [^\n]*\n", re.MULTILINE | re.DOTALL)
WITHOUT_STORY: list[list[object]] = [["report", "There is no story for this task; nothing was changed.", {}]]
MOODS = ("Pondering", "Weighing", "Tracing", "Untangling", "Sifting", "Whittling", "Squinting", "Reckoning")


class Actor:
    """One agent. The verbs of the stories are its methods."""

    def __init__(self, stage: dict[str, object]) -> None:
        self.test_id = os.environ["SELFTEST_TEST"]
        stories: dict[str, list[list[object]]] = stage["stories"]  # type: ignore[assignment]
        role = os.environ.get("SELFTEST_ROLE", "")
        self.story = stories.get(self.test_id) or stories.get(role) or WITHOUT_STORY
        self.pytest: list[str] = stage["pytest"]  # type: ignore[assignment]
        self.speed = float(str(stage["speed"]))
        self.patience = float(str(stage["patience"])) / self.speed
        self.state = Path(os.environ.get("MNGR_AGENT_STATE_DIR") or ".selftest")
        self.out = Path(os.environ.get("SELFTEST_OUT") or ".selftest/out")
        self.base = os.environ.get("SELFTEST_BASE") or "HEAD"
        self.name = os.environ.get("MNGR_AGENT_NAME", "agent")
        self.changes: dict[str, dict[str, str]] = {}
        self.runs: list[tuple[str, bool]] = []
        self.has_input = True
        self.moods = 0
        self.began = time.monotonic()

    def play(self) -> None:
        """Play the whole story."""
        self._work()
        self.write(f"\033]2;{self.name}\007{ORANGE}{BOLD}✻ demo agent{PLAIN} {self.name}\n")
        self.write(f"{GREY}  {Path.cwd()}\n  {self.test_id}{PLAIN}\n\n")
        self.perform(self.story)
        self.write(f"\n{GREEN}✔ finished{PLAIN} {GREY}after {time.monotonic() - self.began:.0f} s{PLAIN}\n")
        self._linger()

    def perform(self, steps: list[list[object]]) -> None:
        """Play some steps in order."""
        for verb, *arguments in steps:
            getattr(self, str(verb))(*arguments)

    # -- verbs

    def say(self, text: str) -> None:
        """Print words one by one."""
        self.write(f"{BOLD}●{PLAIN} ")
        for word in text.split(" "):
            self.write(word + " ")
            self.pause(0.06)
        self.write("\n\n")

    def think(self, seconds: float) -> None:
        """Show a spinner with the seconds."""
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
        """Read a file and show its number of lines."""
        lines = Path(path).read_text(encoding="utf-8").count("\n")
        self.write(f"{GREEN}●{PLAIN} {BOLD}Read{PLAIN}({path})\n  {GREY}⎿  {lines} lines{PLAIN}\n\n")
        self.pause(0.6)

    def edit(self, path: str, old: str, new: str) -> None:
        """Change a file and show the diff; after a restart the change may be there already."""
        text = Path(path).read_text(encoding="utf-8")
        self.write(f"{GREEN}●{PLAIN} {BOLD}Update{PLAIN}({path})\n")
        if old not in text:
            self.write(f"  {GREY}⎿  it is already so{PLAIN}\n\n")
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

    def create(self, path: str, text: str) -> None:
        """Write a new file and show it; after a restart it may be there already."""
        self.write(f"{GREEN}●{PLAIN} {BOLD}Write{PLAIN}({path})\n")
        Path(path).write_text(text, encoding="utf-8")
        for number, words in enumerate(text.splitlines(), 1):
            self.write(f"  {GREEN}{number:4} +{PLAIN} {ON_GREEN}{words}{PLAIN}\n")
            self.pause(0.1)
        # A commit takes known files only, so that nothing else gets into it.
        os.spawnvp(os.P_WAIT, "git", ["git", "add", "--intent-to-add", "--", path])
        self.write("\n")
        self.pause(0.8)

    def resolve(self, path: str, lines: str) -> None:
        """Answer a conflict of its task: put these lines in place of what clashes, between the markers."""
        for text, name in conflicts(json.loads(Path(TASK, "task.json").read_text(encoding="utf-8")), path):
            merged = Path(TASK, text).read_text(encoding="utf-8")
            self.write(f"{GREEN}●{PLAIN} {BOLD}Write{PLAIN}(resolved/{name})\n")
            for number, words in enumerate(lines.splitlines(), 1):
                self.write(f"  {GREEN}{number:4} +{PLAIN} {ON_GREEN}{words}{PLAIN}\n")
                self.pause(0.25)
            answer = self.out / "resolved" / name
            answer.parent.mkdir(parents=True, exist_ok=True)
            answer.write_text(CLASH.sub(lambda _: lines, merged), encoding="utf-8")
            self.write("\n")

    def bash(self, command: str) -> None:
        """Run a shell command, with its files in the agent's folder for results."""
        self.write(f"{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}({command})\n{GREY}")
        sys.stdout.flush()
        scratch = self.out / "artifacts"
        status = os.spawnvpe(
            os.P_WAIT, "sh", ["sh", "-c", command],
            {**os.environ, "ACME_HOME": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        self.write(f"  ⎿  exit status {status}{PLAIN}\n\n")
        self.pause(0.8)

    def test(self, *tests: str) -> None:
        """Run these tests with pytest, by default its own."""
        chosen = tests or (self.test_id,)
        self.write(f"{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}(pytest {' '.join(chosen)})\n{DIM}")
        kept = self.out / "artifacts" / f"test-{len(self.runs) + 1}.xml"
        command = [*self.pytest, "-q", "--color=yes", f"--junitxml={kept}", *chosen]
        # Plugins of pytest that happen to be installed would take longer than the test.
        environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        began = shown = time.monotonic()
        child = os.posix_spawnp(command[0], command, environ)
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            time.sleep(0.02)
            if time.monotonic() - shown > 2.0:
                shown = time.monotonic()
                self.write(f"\r\033[K{GREY}  ⎿  still running ({shown - began:.0f}s){PLAIN}")
        is_green = os.waitstatus_to_exitcode(ended[1]) == 0
        self.runs.append(("after" if self.changes else "before", is_green))
        self.write(f"{PLAIN}\n")
        self.pause(0.8)

    def ask(self, question: str, choices: list[str], then: list[list[list[object]]]) -> None:
        """Ask the user. `then`: the steps for each choice, and last for no answer.

        An answer that came while it did not run is in SELFTEST_ANSWER.
        """
        if given := os.environ.get("SELFTEST_ANSWER", "").strip():
            number = next((at for at, choice in enumerate(choices, 1) if choice.casefold() in given.casefold()), 1)
            self.write(f"{BOLD}●{PLAIN} I was told: {ITALIC}{printable(given)}{PLAIN}\n\n")
            self.perform(then[number - 1])
            return
        self.write(f"{YELLOW}{BOLD}?{PLAIN} {BOLD}{question}{PLAIN}\n")
        for number, choice in enumerate(choices, 1):
            self.write(f"  {CYAN}{number}.{PLAIN} {choice}\n")
        answer = self._hear(
            f"{GREY}a number or your own words, then Enter{PLAIN} {YELLOW}{PROMPT}{PLAIN} ", "", is_permission=True
        )
        if not answer:
            self.perform(then[-1])
            return
        number = int(answer) if answer.isdecimal() and len(answer) < 3 and 0 < int(answer) <= len(choices) else 0
        chosen = choices[number - 1] if number else printable(answer)
        self.write(f"\n{BOLD}●{PLAIN} Understood: {ITALIC}{chosen}{PLAIN}\n\n")
        self.perform(then[max(number, 1) - 1])

    def permit(self, command: str) -> None:
        """Ask for permission to run a command."""
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
            self.write(f"\n{BOLD}●{PLAIN} Then I will go on without it.\n\n")

    def commit(self, kind: str, subject: str, why: str) -> None:
        """Commit to the agent's own branch, and note the change for the outcome."""
        self.write(f"{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}(git commit -am '[{kind}] {subject}')\n{GREY}")
        sys.stdout.flush()
        os.spawnvp(os.P_WAIT, "git", ["git", "commit", "-q", "-a", "-m", f"[{kind}] {subject}", "-m", why])
        os.spawnvp(os.P_WAIT, "git", ["git", "--no-pager", "log", "-1", "--color=always", "--oneline", "--stat"])
        self.write(f"{PLAIN}\n")
        self.changes[kind] = {"status": "SUCCEEDED", "summary_markdown": f"{subject}. {why}"}

    def undo(self, kind: str, why: str) -> None:
        """Discard the changes, and note the failed attempt for the outcome."""
        self.write(f"{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}(git checkout -- .)\n\n")
        sys.stdout.flush()
        os.spawnvp(os.P_WAIT, "git", ["git", "checkout", "-q", "--", "."])
        self.changes[kind] = {"status": "FAILED", "summary_markdown": why}

    def report(self, summary: str, claims: dict[str, object]) -> None:
        """Write the bundle, then the outcome. `claims`: fields that replace what was observed."""
        bundle, outcome = self.out / "branch.bundle", self.out / "outcome.json"
        if any(change["status"] == "SUCCEEDED" for change in self.changes.values()):
            made = ["git", "bundle", "create", "-q", f"{bundle}.draft", f"{self.base}..HEAD"]
            os.spawnvp(os.P_WAIT, "git", made)
            Path(f"{bundle}.draft").replace(bundle)
        document = {
            "errored": False,
            "tests_passing_before": self.runs[0][1] if self.runs else None,
            "tests_passing_after": self.runs[-1][1] if self.runs else None,
            "summary_markdown": summary,
            "changes": self.changes,
            "test_runs": [
                {"run_name": when, "description_markdown": "passed" if is_green else "failed"}
                for when, is_green in self.runs
            ],
            "escalations": [],
            **claims,
        }
        self._leave(outcome, json.dumps(document, indent=1))
        self.say(summary)

    def babble(self, text: str) -> None:
        """Write an outcome that cannot be parsed, and exit."""
        self._leave(self.out / "outcome.json", text)
        self.say("All done, I think.")
        self._rest()
        raise SystemExit(0)

    def crash(self, why: str) -> None:
        """Exit with a traceback. Its marker files stay, as they do after a real crash."""
        self.write(
            f'{RED}Traceback (most recent call last):\n  File "agent.py", line 212, in run\n{BOLD}{why}{PLAIN}\n'
        )
        sys.stdout.flush()
        raise SystemExit(3)

    # -- input and output

    def _leave(self, path: Path, text: str) -> None:
        """Write a file atomically."""
        draft = path.with_name(f"{path.name}.draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        self.write(f"{GREEN}●{PLAIN} {BOLD}Write{PLAIN}({path.name})\n\n")

    def write(self, text: str) -> None:
        """Print a text at once."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def pause(self, seconds: float) -> None:
        """Wait, and acknowledge input meanwhile, as a busy agent does."""
        until = time.monotonic() + seconds / self.speed
        while (left := until - time.monotonic()) > 0:
            words = self._line(left)
            if words:
                self.write(f"\n{GREY}{PROMPT} {printable(words)}\n  ⎿  noted; I will read it after this step{PLAIN}\n")

    def _line(self, seconds: float | None) -> str | None:
        """Read a typed line within the time; None without input."""
        if not self.has_input:
            time.sleep(60.0 if seconds is None else seconds)
            return None
        if not select.select([0], [], [], seconds)[0]:
            return None
        typed = os.read(0, 65536)
        self.has_input = bool(typed)
        return typed.decode("utf-8", "replace").strip()

    def _hear(self, prompt: str, otherwise: str, *, is_permission: bool) -> str:
        """Wait for an answer of the user; return `otherwise` after `patience` seconds."""
        self._rest(is_permission=is_permission)
        self.write(prompt)
        until = time.monotonic() + self.patience if self.patience else None
        words: str | None = None
        while not words:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                words = otherwise
                self.write(f"{GREY}(no answer){PLAIN}\n")
                break
            words = self._line(left)
        self._work()
        return words or ""

    def _linger(self) -> None:
        """Stay until somebody ends it, as coding agents do, and read input. Without a terminal it exits."""
        self._rest()
        self.write(f"{GREY}──────────{PLAIN}\n{PROMPT} ")
        while (words := self._line(None if self.has_input else 0.0)) is not None:
            if words.casefold() in {"exit", "quit", "/exit"}:
                return
            if words:
                self.write(f"{GREY}  ⎿  noted: “{printable(words)}”; my outcome is already written{PLAIN}\n{PROMPT} ")

    def _work(self) -> None:
        (self.state / "active").touch()
        (self.state / "permissions_waiting").unlink(missing_ok=True)

    def _rest(self, *, is_permission: bool = False) -> None:
        if is_permission:  # a question during a turn: the turn goes on, and so `active` stays
            (self.state / "permissions_waiting").touch()
        else:
            (self.state / "active").unlink(missing_ok=True)


def conflicts(task: dict[str, list[dict[str, object]]], path: str) -> list[tuple[str, str]]:
    """List the conflicts of a task in a file: the name of the merge's text, and the name of the answer."""
    return [
        (f"{file['texts']}.merged", "/".join(part for part in (str(change["folder"]), path) if part))
        for change in task["changes"]
        for file in change["files"]  # type: ignore[attr-defined]
        if file["path"] == path
    ]


def printable(words: str) -> str:
    """Replace control characters, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else "·" for letter in words)


def main(arguments: list[str]) -> None:
    """Play the story of the test in SELFTEST_TEST."""
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    Actor(json.loads(Path(arguments[0]).read_text(encoding="utf-8"))).play()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        raise SystemExit(130) from None
