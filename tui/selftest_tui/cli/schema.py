"""Command `schema`: prints the JSON Schema of all JSON output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.cli.command import DONE, write_answer

if TYPE_CHECKING:
    from selftest_tui.cli.command import AddCommand, Call


def add_schema(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command(
        "It covers everything that --json and --batch print.",
        "selftest-tui schema > selftest-tui.schema.json",
    )
    command.set_defaults(run=schema)


def schema(call: Call) -> int:
    """Print the schema."""
    from selftest_core.schema.registry import schema as all_documents

    write_answer(all_documents(), is_batch=call.arguments.batch)
    return DONE
