"""The screens of a run's agents on this machine, read from tmux itself.

mngr refuses to capture where a program has ended, and costs a second for each agent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError
from selftest_core.tools.mngr_files import host_dir_of, prefix_of
from selftest_core.tools.panes import screens
from selftest_core.tools.tmux import SessionRef, is_gone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.run.fold import Member
    from selftest_core.tools.mngr import Mngr

_TIMEOUT = 25.0


async def local_screens(mngr: Mngr, members: Sequence[Member]) -> dict[str, str]:
    """The texts of their screens with history, by agent id; without those that have none. Raises ToolError."""
    prefix = prefix_of(mngr.environ, host_dir_of(mngr.environ))
    refs = {SessionRef(mngr.default_socket, f"{prefix}{one.name}"): one.agent_id for one in members}
    try:
        shown = await asyncio.to_thread(screens, tuple(refs), environ=mngr.environ, timeout=_TIMEOUT)
    except ToolFailedError as error:
        if not is_gone(error.stderr):
            raise
        return {}  # no server, and so no screen
    return {refs[ref]: text.rstrip() for ref, text in shown.items()}
