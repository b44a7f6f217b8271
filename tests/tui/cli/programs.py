"""Runs the installed console script in a private world."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from worlds import BIN

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from worlds import World

PROGRAM = BIN / "selftest-tui"


def ours(
    world: World, *arguments: str, env: Mapping[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Our program, run to its end; a real mngr gets as long as it needs on a busy machine."""
    patient = {"SELFTEST_TUI_LIST_DEADLINE": "280", **(env or {})}
    return world.run([PROGRAM, *arguments], env=patient, check=check, timeout=300)


def listed(world: World, *arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What `list --json` says; it must end with 0."""
    document: dict[str, Any] = json.loads(ours(world, "list", "--json", *arguments, env=env, check=True).stdout)
    return document


def by_name(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The agents of a listing, ours or mngr's, by name."""
    return {agent["name"]: agent for agent in document["agents"]}
