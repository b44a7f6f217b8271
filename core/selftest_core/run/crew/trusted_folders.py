"""Folders that mngr marks as trusted for a run's agents in the user's ~/.claude.json, and their removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agent_types.trust import claude_file, remove_entries
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.run.providers import providers_of
from selftest_core.tools.mngr_files import host_dir_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder


def trusted_folders(folder: RunFolder, run: Run, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the copies of a run's local agents and the clone that worktrees share, as mngr spells them."""
    copies = host_dir_of(environ) / "copies"
    paths = [folder.clone, *(copies / agent_id for agent_id in agent_ids(run))]
    return frozenset(str(one) for path in paths for one in (path, path.resolve()))


def remove_trust(folder: RunFolder, run: Run, environ: Mapping[str, str]) -> str:
    """Remove the entries of an ended run; return why that failed, which leaves them to `sweep`."""
    if run.plan.agent_type == "command" or LOCAL_PROVIDER not in providers_of(run.plan.provider):
        return ""
    return remove_entries(claude_file(environ), trusted_folders(folder, run, environ))


def agent_ids(run: Run) -> frozenset[str]:
    """Return the ids of all agents that a run made or tried to make, smoke agents included."""
    rows = run.rows.values()
    made = [row.member for row in rows if row.member is not None]
    given_up = [retry.member for row in rows for retry in row.retries]
    return frozenset((*(member.agent_id for member in (*made, *given_up)), *(one.agent_id for one in run.smoke)))
