"""The plan of a run for its report, also where it is damaged or of another version: what can be read of it.

Nothing is started from such a plan, so what is unknown is left out, and what is missing is taken as usual.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from selftest_core.errors import SelftestError
from selftest_core.run.plan.plan import VERSION, RunPlan, UnreadablePlanError, plan_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_core.run.store import RunFolder

_LARGEST = 64 * 1024 * 1024
_USUAL: dict[str, Any] = {
    "run": "19700101-0000-0000", "repository": "/", "base": "0" * 40, "provider": "unknown", "agent_type": "unknown",
    "agent_command": None, "transfer": "mirror", "env_names": [], "max_running": 1, "launch_rate": 1.0, "timeout": 1.0,
    "budget_usd": None, "usd_per_agent": None, "create_args": [], "on_cluster": "ask", "pytest_command": ["pytest"],
    "pytest_args": [], "tests": [], "left_out": [], "created_at": 0.0,
}  # fmt: skip
_OF_A_TEST = ("node_id", "agent_name", "agent_id", "blocks")


def readable_plan(folder: RunFolder) -> tuple[RunPlan, str]:
    """Read the plan of a run; where it cannot be read, what can be, and the reason."""
    try:
        return folder.plan(), ""
    except SelftestError as error:
        reason = f"{error.title}: {error.detail}"
    said = _document(folder.path / "plan.json")
    tests = [_test(one) for one in said.get("tests", []) if isinstance(one, dict)] or list(_from_folders(folder.path))
    document = {"version": VERSION, **_USUAL, "tests": [one for one in tests if _is_readable("tests", [one])]}
    for name in _USUAL.keys() & said.keys() - {"tests"}:
        if _is_readable(name, said[name]):
            document[name] = said[name]
    try:
        return plan_from_json(document), reason
    except UnreadablePlanError:  # two tests of one name
        return plan_from_json({**document, "tests": []}), reason


def _document(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_bytes()) if path.stat().st_size <= _LARGEST else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) and isinstance(said.get("tests", []), list) else {}


def _test(one: dict[str, Any]) -> dict[str, Any]:
    """Complete a test of another version."""
    name = str(one.get("agent_name") or one.get("node_id"))
    usual = {"node_id": name, "agent_name": name, "agent_id": _agent_id(name), "blocks": []}
    return {key: one.get(key, usual[key]) for key in _OF_A_TEST}


def _from_folders(home: Path) -> Iterator[dict[str, Any]]:
    """Name the tests after the folders of their agents."""
    for place in sorted((home / "agents").glob("*")):
        yield _test({"agent_name": place.name})


def _agent_id(name: str) -> str:
    return f"agent-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:32]}"


def _is_readable(name: str, value: object) -> bool:
    try:
        plan_from_json({"version": VERSION, **_USUAL, name: value})
    except UnreadablePlanError:
        return False
    return True
