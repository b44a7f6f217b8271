"""Meter the agents of a run while it is conducted.

Usage of local agents is read live from their own files, that of remote ones from their fetched conversations.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.conversation.appended_lines import BEGINNING, read_appended
from selftest_core.conversation.common_transcript import parse_lines
from selftest_core.run.fetch.conversations import LINES as CONVERSATION
from selftest_core.tools.mngr_files import host_dir_of
from selftest_core.usage.meter import AgentMeter
from selftest_core.usage.prices import Prices, prices_of
from selftest_core.usage.tokens import Label, usage_of, with_answers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.run.fold import Member
    from selftest_core.run.store import RunFolder
    from selftest_core.usage.tokens import Answer, Usage

_MOST_READINGS = 8
"""Parts of a long transcript that one call reads."""


class RunMeter:
    """Reads usage in a thread, and keeps it. `latest`: usage by agent id."""

    def __init__(self, environ: Mapping[str, str], prices: Iterable[str] = ()) -> None:
        self.latest: dict[str, Usage] = {}
        self._agents_dir = host_dir_of(environ) / "agents"
        self._prices = Prices(prices_of(prices))
        self._meters: dict[str, AgentMeter] = {}
        self._gate = threading.Lock()

    @property
    def problem(self) -> str:
        """Why the package's prices cannot be used; empty as long as they can be."""
        return self._prices.problem

    async def read(self, members: Iterable[Member], folder: RunFolder) -> None:
        """Update the usage of these agents."""
        await asyncio.to_thread(self._read, tuple((member.agent_id, folder.attempt(member)) for member in members))

    def _read(self, agents: tuple[tuple[str, Path], ...]) -> None:
        with self._gate:
            for agent_id, fetched in agents:
                meter = self._meters.setdefault(agent_id, AgentMeter(self._agents_dir / agent_id))
                for _ in range(_MOST_READINGS):
                    usage = meter.look(self._prices.of, search=True)
                    if not meter.has_more:
                        break
                usage = usage or self._usage_of_conversation(fetched)
                if usage is not None:
                    self.latest[agent_id] = usage

    def _usage_of_conversation(self, fetched: Path) -> Usage | None:
        answers: dict[str, Answer] = {}
        place, is_whole = BEGINNING, False
        for _ in range(_MOST_READINGS):
            try:
                lines = read_appended(fetched, CONVERSATION, place)
            except (OSError, ValueError):
                break
            if place == BEGINNING:
                # Long conversations lack their beginning; a complete one starts with the header.
                is_whole = bool(lines.lines) and b'"header"' in lines.lines[0]
            answers = with_answers(answers, parse_lines(lines.lines)[0])
            place = lines.place
            if not lines.has_more:
                break
        usage = usage_of(answers, self._prices.of)
        return usage if usage is None or is_whole else replace(usage, label=Label.IMPUTED)
