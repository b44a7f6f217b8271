"""Recording of an agent by its name, looked up in the runs of this repository, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from selftest_core.errors import SelftestError
from selftest_core.run.crew.recording import recording_of
from selftest_core.run.overview import own_folders, repository_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class AgentRecording(NamedTuple):
    """The recording of an agent. `is_ended`: its test has ended, so nothing is added to it."""

    path: Path
    is_ended: bool


def recording_of_agent(name: str, environ: Mapping[str, str], cwd: Path) -> AgentRecording | None:
    """Return the newest recording of the agent with this name or id, or of the agent of this test; None without one."""
    try:
        repository = repository_of(cwd, environ)
        folders = own_folders(environ, repository) if repository is not None else ()
    except SelftestError:
        return None  # without git there is no repository to have runs
    for folder in folders:
        try:
            run = folder.read()
        except SelftestError:
            continue  # a run that cannot be read has no names to look up
        for row in run.rows.values():
            members = [row.member, *(one.member for one in reversed(row.retries))]
            for member in members:
                if member is not None and name in (member.name, member.agent_id, member.test):
                    found = recording_of(folder, member)
                    if found is not None:
                        return AgentRecording(found, member is not row.member or row.end is not None)
    return None
