"""How an error looks on the command line: what happened, the details, what to do. The one place that decides that.

On stderr, without a traceback: SELFTEST_TUI_DEBUG=1 shows it, for a report. Under `--batch` the last line of stdout
says the same for a program. Parts of an error may be the words of an agent or an outside program: made harmless here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

_DETAIL_LINES = 20
INTERNAL = 2
"""The exit status of an error that is a defect of ours."""


def complain(error: Exception, environ: Mapping[str, str], *, is_batch: bool) -> int:
    """Show an error and return the exit status that it means."""
    if not isinstance(error, SelftestError):
        error = _defect(error)
    sys.stderr.write(complaint_text(error))
    if environ.get("SELFTEST_TUI_DEBUG", "") not in ("", "0"):
        import traceback

        sys.stderr.write("".join(clean(line) + "\n" for line in _lines("".join(traceback.format_exception(error)))))
    sys.stderr.flush()
    if is_batch:
        from selftest_tui.cli.batch import write_error

        write_error(error)
    return error.exit_status


def complaint_text(error: SelftestError) -> str:
    """The title, the indented details and the hint, one or more lines each, harmless, ending in a newline."""
    shown = [f"selftest-tui: {clean(error.title)}"]
    details = _lines(error.detail)
    shown += [f"  {clean(line)}" for line in details[-_DETAIL_LINES:]]
    shown += [f"  → {clean(line)}" for line in _lines(error.hint)]
    return "\n".join(shown) + "\n"


def _defect(error: Exception) -> SelftestError:
    says = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    made = SelftestError(
        "Something went wrong inside selftest-tui",
        says,
        "SELFTEST_TUI_DEBUG=1 shows where: please report it with that.",
    )
    made.exit_status = INTERNAL
    made.__cause__ = error
    return made


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
