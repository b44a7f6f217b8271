"""The commands of shell text such as a block of the tutorial, their programs, and of these the project's own. Pure.

Only simple shell is read: the first word of each command, also behind `&&`, `|`, `if` and the like, behind variables
and behind words such as `env` or `uv run`. Programs inside of quotes, of `$(…)` in quotes and of `eval` are not found.
"""

from __future__ import annotations

import re
import shlex
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.tutorial.shell_reading import Open, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_OPERATORS = "();<>|&"
_STARTS = frozenset({"then", "do", "else", "elif", "if", "while", "until", "!", "{", "time"})
"""Shell words behind which a command begins."""
_BEFORE = frozenset({"sudo", "env", "exec", "command", "nohup", "nice", "timeout", "xargs", "stdbuf", "setsid"})
"""Programs whose argument is a command."""
_RUNNERS = {
    "uv": "run", "poetry": "run", "pdm": "run", "hatch": "run", "rye": "run", "pipenv": "run", "bundle": "exec",
    "npm": "exec", "pnpm": "exec", "yarn": "exec",
}  # fmt: skip
"""Programs whose argument behind this word is a command."""
_INTERPRETERS = frozenset({"sh", "bash", "dash", "zsh", "node", "ruby", "perl", "php", "deno", "bun"})
"""Programs whose first argument without a dash is a file that they run."""
_SHELL = frozenset({
    *("[", "[[", ".", "alias", "bg", "break", "cd", "continue", "declare", "echo", "eval", "exit", "export", "false"),
    *("fg", "getopts", "hash", "jobs", "kill", "let", "local", "popd", "printf", "pushd", "pwd", "read", "readonly"),
    *("return", "set", "shift", "source", "test", "times", "trap", "true", "type", "ulimit", "umask", "unalias"),
    *("unset", "wait", "case", "esac", "for", "in", "fi", "done", "function", "select", "coproc", "}"),
})  # fmt: skip


class ProgramKind(StrEnum):
    """Form in which a block names a program."""

    NAME = "name"
    """Found on PATH."""
    FILE = "file"
    """A path, or the argument of an interpreter."""
    MODULE = "module"
    """`python -m NAME`."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a block, by the word that names it."""

    kind: ProgramKind
    word: str


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments."""

    program: Program
    arguments: tuple[str, ...]


def commands_of(text: str) -> tuple[Command, ...]:
    """Return the commands of a block in their order, each once, without what belongs to the shell."""
    found = (command_of(words) for line in _lines(text) for words in _simple_commands(line))
    return tuple(dict.fromkeys(command for command in found if command is not None))


def programs_of(text: str) -> tuple[Program, ...]:
    """Return the programs of a block in their order, each once, without what belongs to the shell."""
    return tuple(dict.fromkeys(command.program for command in commands_of(text)))


def own_programs(
    text: str, is_file: Callable[[str], bool], is_of_the_system: Callable[[str], bool]
) -> tuple[Program, ...]:
    """Return the programs of a block that are the project's own.

    `is_file`: a path is in its tree. `is_of_the_system`: a name is a program of every such system.
    """

    def is_own(program: Program) -> bool:
        match program.kind:
            case ProgramKind.FILE:
                return is_file(program.word)
            case ProgramKind.MODULE:
                return any(is_file(path) for path in module_files(program.word))
            case ProgramKind.NAME:
                return not is_of_the_system(program.word) and not _PYTHON.fullmatch(program.word)

    return tuple(program for program in programs_of(text) if is_own(program))


def module_files(module: str) -> tuple[str, ...]:
    """Return the files that `python -m` may run for a module."""
    path = module.replace(".", "/")
    return tuple(f"{folder}{name}" for folder in ("", "src/") for name in (f"{path}/__main__.py", f"{path}.py"))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of commands: continued lines and open strings as one, heredocs left out."""
    state, pending = Open(), ""
    for number, line in enumerate(text.splitlines(), start=1):
        is_body = bool(state.heredocs)
        state = read([line], number, state)
        if is_body:
            continue
        if line.endswith("\\") and state.string is None:
            pending += line[:-1] + " "
            continue
        pending += line + "\n"
        if state.string is None:
            yield pending
            pending = ""
    if pending:
        yield pending


def _simple_commands(line: str) -> Iterator[list[str]]:
    """Split a line at its operators; a line that is no shell is left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        tokens = list(lexer)
    except ValueError:
        return
    is_target = False
    for token in tokens:
        if token and set(token) <= set(_OPERATORS):
            is_target = "<" in token or ">" in token
            if not is_target:
                yield words
                words = []
            elif words and words[-1].isdecimal():
                words.pop()  # 2>file
        elif is_target:
            is_target = False
        else:
            words.append(token)
    yield words


def command_of(words: Sequence[str]) -> Command | None:
    """Return the command that a list of words runs, None for one of the shell."""
    left = list(words)
    while left:
        word = left.pop(0)
        if _ASSIGNMENT.match(word) or word in _STARTS:
            continue
        name = word.rpartition("/")[2]
        if name in _BEFORE:
            while left and (left[0].startswith("-") or left[0][:1].isdecimal()):
                left.pop(0)
            continue
        if name in _RUNNERS:
            if left[:1] != [_RUNNERS[name]]:
                return Command(Program(ProgramKind.NAME, word), tuple(left))
            del left[0]
            while left and left[0].startswith("-"):
                left.pop(0)
            continue
        if "/" not in word or word.startswith("/"):
            if _PYTHON.fullmatch(name) and left[:1] == ["-m"] and len(left) > 1:
                return Command(Program(ProgramKind.MODULE, left[1]), tuple(left[2:]))
            if _PYTHON.fullmatch(name) or name in _INTERPRETERS:
                at = next((number for number, one in enumerate(left) if not one.startswith("-")), None)
                if "-c" in left or at is None or not left[at]:
                    return None
                return Command(Program(ProgramKind.FILE, _relative(left[at])), tuple(left[at + 1 :]))
        if word in _SHELL or not word:
            return None
        program = Program(ProgramKind.FILE, _relative(word)) if "/" in word else Program(ProgramKind.NAME, word)
        return Command(program, tuple(left))
    return None


def _relative(path: str) -> str:
    return path.removeprefix("./")
