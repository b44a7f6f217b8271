"""Command `doctor`: shows what is missing or misconfigured, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.cli.command import DONE, SOMETHING_LEFT, Progress, print_lines, write_answer

if TYPE_CHECKING:
    from selftest_tui.cli.command import AddCommand, Call

_MARKS = {"ok": "✓", "warning": "!", "failed": "✗"}


def add_doctor(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        "Ends with 1 where something is wrong.",
        """
        selftest-tui doctor
        selftest-tui doctor --json | jq '.checks[] | select(.status != "ok")'
        """,
    )
    command.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    command.set_defaults(run=doctor)


def doctor(call: Call) -> int:
    """Check this machine, and print the results."""
    import asyncio

    from selftest_core.doctor.doctor import diagnose

    with Progress("checking"):
        checks = asyncio.run(diagnose(call.environ, call.cwd))
    if call.is_for_programs:
        from selftest_core.schema.maintenance import doctor_document

        write_answer(doctor_document(checks).model_dump(mode="json"), is_batch=call.arguments.batch)
    else:
        from selftest_tui.shared.present import clean

        longest = max(len(check.name) for check in checks)
        lines = []
        for check in checks:
            lines.append(f"{_MARKS[check.status]} {check.name:<{longest}}  {clean(check.says)}")
            if check.hint and check.status != "ok":
                lines.append(f"  {'':<{longest}}  → {clean(check.hint)}")
        print_lines(lines)
    return SOMETHING_LEFT if any(check.status == "failed" for check in checks) else DONE
