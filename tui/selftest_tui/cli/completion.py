"""Command `completion`: a script that completes commands, flags, files and runs in a shell.

shtab makes it from the parsers of the command line. Completing starts no Python: runs are the names of their folders.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from selftest_core.errors import UsageError
from selftest_tui.cli.command import DONE, write_answer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from selftest_tui.cli.command import AddCommand, Call

    type BuildParser = Callable[[], tuple[argparse.ArgumentParser, tuple[str, ...]]]

SHELLS = ("bash", "zsh", "fish", "tcsh")

# Shells expand the words that they offer, so that a folder called `$(rm -rf ~)` would run: only harmless names.
_RUNS = (
    "sh -c 'set -f; until test -d .selftest/runs || test . -ef /; do cd ..; done; "
    "ls .selftest/runs 2>/dev/null | LC_ALL=C grep -x [A-Za-z0-9_-][A-Za-z0-9._-]*'"
)
_FUNCTION = "_selftest_tui_runs"
# By "_file" in its name shtab's script for bash knows that it offers files: a folder is completed without a blank.
_WITH_FILES = f"{_FUNCTION}_and_files"
RUNS: dict[str, Any] = {
    "bash": _FUNCTION,
    "zsh": _FUNCTION,
    "fish": f"({_FUNCTION})",
    "tcsh": "",  # its words are written between slashes and quotes, which leaves no room for a command
    "preamble": {
        "bash": f'{_FUNCTION}() {{\n  compgen -W "$({_RUNS})" -- "$1"\n}}',
        "zsh": f"{_FUNCTION}() {{\n  compadd -- $({_RUNS})\n}}",
        "fish": f"function {_FUNCTION}\n  {_RUNS}\nend",
    },
}
"""How each shell finds the runs of the repository around the current folder."""
RUNS_AND_FILES: dict[str, Any] = {
    "bash": _WITH_FILES,
    "zsh": _WITH_FILES,
    "fish": f"({_FUNCTION}; __fish_complete_path (commandline -ct))",
    "tcsh": "f",
    "preamble": {
        "bash": f'{_WITH_FILES}() {{\n  {_FUNCTION} "$1"\n  compgen -f -- "$1"\n}}',
        "zsh": f"{_WITH_FILES}() {{\n  {_FUNCTION}\n  _files\n}}",
    },
}
"""The runs, and files and folders. The function of the runs is that of `RUNS`."""


def add_completion(add_command: AddCommand, build_parser: BuildParser) -> None:
    """Add the command and its argument. `build_parser` makes the parser of all commands."""
    command = add_command(
        "It completes commands, flags, their values, files, and the runs of the repository.",
        """
        selftest-tui completion bash > ~/.selftest-tui.bash
        echo 'source ~/.selftest-tui.bash' >> ~/.bashrc
        selftest-tui completion zsh > ~/.zfunc/_selftest-tui
        selftest-tui completion fish > ~/.config/fish/completions/selftest-tui.fish
        selftest-tui completion tcsh >> ~/.tcshrc
        """,
    )
    command.add_argument(
        "shell", nargs="?", metavar="SHELL", choices=SHELLS, help=f"{', '.join(SHELLS)}; default: that of $SHELL"
    )
    command.set_defaults(run=partial(completion, build_parser=build_parser))


def completion(call: Call, build_parser: BuildParser) -> int:
    """Print the script. Raises UsageError where no shell is named and that of the user is another one."""
    import shtab

    shell = call.arguments.shell or call.environ.get("SHELL", "").rpartition("/")[2]
    if shell not in SHELLS:
        raise UsageError(
            f"There is no completion for {shell[:40] or 'an unknown shell'}", "", f"Name one of {', '.join(SHELLS)}."
        )
    parser, _ = build_parser()
    for action in _arguments(parser):
        match action.metavar:
            case "RUN" | "TARGET":
                action.complete = RUNS  # type: ignore[attr-defined]  # shtab's own way
            case "RUN|PATH":
                action.complete = RUNS_AND_FILES  # type: ignore[attr-defined]
            case "FILE" | "RECORDING" | "SCRIPT" | "PATH" | "TESTS":
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            case "DIR" | "FOLDER":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    script = shtab.complete(parser, shell)
    if call.is_for_programs:
        write_answer({"shell": shell, "script": script}, is_batch=True)
    else:
        sys.stdout.write(script if script.endswith("\n") else f"{script}\n")
        sys.stdout.flush()
    return DONE


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """List the arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from _arguments(command)
