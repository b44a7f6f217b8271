"""What `--batch` and `--json` write to stdout: JSON, one line each under `--batch`, and nothing else.

Every line has `event`, `at` and `run`; the last one is the summary, or the error that ended the command.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.errors import SelftestError


def instant(at: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, with milliseconds and a Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line(event: str, fields: Mapping[str, Any], *, run: str | None = None) -> dict[str, Any]:
    """One line of `--batch`, of now."""
    return {"event": event, "at": instant(datetime.now(UTC).timestamp()), "run": run, **fields}


def error_line(error: SelftestError) -> dict[str, Any]:
    """The line that a command ends with when it failed."""
    return line(
        "error",
        {"title": error.title, "detail": error.detail, "hint": error.hint, "exit_status": error.exit_status},
    )


def write_line(fields: Mapping[str, Any]) -> None:
    """Write one line of JSON, and have it read at once."""
    # ASCII, so that neither an odd locale nor half a surrogate in some agent's title can break it.
    sys.stdout.write(json.dumps(fields, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def write_document(document: Mapping[str, Any]) -> None:
    """Write one JSON document for `--json`: indented, since people read it too."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()
