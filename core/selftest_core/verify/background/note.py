"""Note in a review's folder that its verification was started, and what the user was told then.

With it, a review that is opened again goes on by itself; without it, nothing runs before the user asks.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from pathlib import Path

NOTE = "verification.json"


@dataclass(frozen=True, slots=True)
class Started:
    """The note that a review was verified. `isolation`, `network`: what the user was told that tests can reach."""

    isolation: str
    network: bool
    is_whole_suite: bool = False
    with_kept: bool = False


def read_start(home: Path) -> Started | None:
    """Read the note; None where there is none that can be read, so that the user is asked again."""
    try:
        data = json.loads((home / NOTE).read_text(encoding="utf-8"))
        return Started(
            str(data["isolation"]), data["network"] is True, data["whole_suite"] is True, data["kept"] is True
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_start(home: Path, started: Started) -> None:
    """Write the note, whole or not at all. Raises OSError."""
    data = {
        "isolation": started.isolation, "network": started.network, "whole_suite": started.is_whole_suite,
        "kept": started.with_kept,
    }  # fmt: skip
    draft = home / f"{NOTE}.{os.getpid()}"
    draft.write_text(json.dumps(data), encoding="utf-8")
    draft.replace(home / NOTE)


def forget_start(home: Path) -> None:
    """Remove the note. Raises OSError."""
    (home / NOTE).unlink(missing_ok=True)
