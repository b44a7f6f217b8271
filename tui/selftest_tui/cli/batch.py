"""What `--batch` and `--json` write to stdout: JSON, one line each under `--batch`, and nothing else.

Every line has `event`, `at` and `run`; the last one is the summary, or the error that ended the command. The shapes
are those of `selftest_core.schema`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.errors import SelftestError


def write_line(fields: Mapping[str, Any]) -> None:
    """Write one line of JSON, and have it read at once."""
    # ASCII, so that no locale can break it.
    sys.stdout.write(json.dumps(fields, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def write_document(document: Mapping[str, Any]) -> None:
    """Write one JSON document for `--json`: indented, since people read it too."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def write_answer(document: Mapping[str, Any], *, is_batch: bool) -> None:
    """Write what a one-shot command answers: the document of its `--json`, under `--batch` as its summary line."""
    if not is_batch:
        write_document(document)
        return
    from selftest_core.schema.model import instant

    write_line({"event": "summary", "at": instant(time.time()), "run": None, **document})


def write_error(error: SelftestError) -> None:
    """Write the line that a command ends with when it failed."""
    from selftest_core.schema.model import error_line

    write_line(error_line(error, time.time()).model_dump(mode="json"))
