"""The flags of the commands that make and play recordings; beside `arguments`, which has all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def add_record(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """`record`. `command` makes a parser from a name, what it does, and examples."""
    record = command(
        "record",
        "Record what happens in tmux sessions, of agents or any, each into a file of its\n"
        "own (asciicast v3), until they end or Ctrl-C. Of each the pane that is active.\n"
        "Values of `env` and `mask_env` are masked. Runs record their agents themselves.",
        "  selftest-tui record build          the tmux session `build`, as build.cast\n"
        "  selftest-tui record ada bob --to recordings\n"
        "  selftest-tui record --batch ada | jq -r '.recordings[].file'",
    )
    record.add_argument("sessions", nargs="*", metavar="SESSION", help="a tmux session, or an agent of this machine")
    record.add_argument("--to", metavar="FOLDER", default=".", help="where the files are made; default: here")
    record.add_argument("--json", action="store_true", help="one JSON document on stdout instead of words")
