"""The messages of one agent: of its transcript on this machine, else what its run has kept, else what mngr tells."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.conversation.last_messages import has_conversation, last_messages, read_messages, state_folder
from selftest_core.run.fetch.conversations import kept_conversation
from selftest_core.run.plan.names import RUN_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.fleet.view import Row
    from selftest_core.tools.mngr import Mngr


async def messages_of(mngr: Mngr, row: Row, limit: int) -> tuple[str, ...]:
    """Its last `limit` steps, each a text whose first line says who and when. Raises ToolError."""
    if not has_conversation(row.agent):
        return ()
    found = await asyncio.to_thread(_on_this_machine, mngr.environ, row, limit)
    return found or await last_messages(mngr, row.agent, limit)


def _on_this_machine(environ: Mapping[str, str], row: Row, limit: int) -> tuple[str, ...]:
    folder = state_folder(environ, row.agent)
    found = read_messages(folder, limit) if folder is not None else ()
    if found:
        return found
    kept = kept_conversation(environ, row.agent.labels.get(RUN_LABEL, ""), row.agent.id)
    # Blank lines are between steps alone: those of a message are indented.
    return tuple(step for step in kept.split("\n\n") if step.strip())[-limit:]
