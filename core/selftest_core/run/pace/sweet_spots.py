"""The numbers of agents at a time that earlier runs have found, in `at-once.json` of the user's state folder.

    {"local": {"claude": 8}}        by provider and agent type

A file that cannot be read or written costs nothing but a start from the plan's maximum.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.paths import state_folder
from selftest_core.run.pace.adapting import sweet_spot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.fold import Run

_FILE = "at-once.json"


def kept_sweet_spot(provider: str, agent_type: str, environ: Mapping[str, str]) -> int:
    """Return the number that earlier runs have found there; 0 if none did."""
    of_provider = _read(environ).get(provider)
    value = of_provider.get(agent_type) if isinstance(of_provider, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def keep_found(run: Run, environ: Mapping[str, str]) -> None:
    """Keep the number that a run has found, if any; its maximum too, since another run may have a higher one."""
    plan = run.plan
    ends = [row.ended_at for row in run.rows.values() if row.ended_at is not None]
    found = sweet_spot(run.curve, max(ends)) if plan.adapt and ends else None
    if found is None:
        return
    known = _read(environ)
    before = known.get(plan.provider)
    of_provider = before if isinstance(before, dict) else {}
    known[plan.provider] = {**of_provider, plan.agent_type: found}
    path = state_folder(environ) / _FILE
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{_FILE}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(known, file, indent=1, sort_keys=True)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise


def _read(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        known = json.loads((state_folder(environ) / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}
