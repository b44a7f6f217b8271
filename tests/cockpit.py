"""The real screen over real terminals: agents whose sessions run in a world's own tmux, folded as the probe's would be.

No mngr is needed for what a pane shows or takes: an agent is a look of the probe that names a real session.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from textual.notifications import Notification, Notify

import scenes
from selftest_core.agents import State
from selftest_core.config import Config
from selftest_core.fleet.observations import Probed, TmuxServer, TmuxSession
from selftest_core.fleet.watch.fleet_watch import FleetWatch
from selftest_core.fleet.watch.poll_schedule import watch_settings
from selftest_core.tools.tmux import SessionRef
from selftest_tui.app.app import FleetApp
from selftest_tui.fleet.pane.preview import Preview
from selftest_tui.fleet.pane.side_pane import SidePane
from simulated.watch import StillWatch
from tui.quiet import press, quiet
from worlds import NUDGE_AFTER, PATIENCE, nudge_tmux

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from textual.message import Message
    from textual.pilot import Pilot

    from selftest_core.fleet.observations import LocalAgent
    from selftest_core.fleet.view import FleetView
    from worlds import World


@dataclass
class Seats:
    """Agents and sessions of one world, in the order they were seated."""

    world: World
    agents: list[LocalAgent] = field(default_factory=list)
    others: list[TmuxSession] = field(default_factory=list)

    @property
    def socket(self) -> str:
        return str(self.world.socket)

    def seat(self, name: str, command: str | Path, *, width: int = 80, height: int = 24) -> SessionRef:
        """An agent whose session runs `command`."""
        ref, pane = self._session(f"mngr-{name}", command, width, height)
        number = len(self.agents) + 1
        look = scenes.a_look(scenes.an_agent(number, name, age=600.0 - number))
        self.agents.append(replace(look, session=ref, pane_id=pane, work_dir=str(self.world.root)))
        return ref

    def stopped(self, name: str) -> None:
        """An agent without a session."""
        number = len(self.agents) + 1
        self.agents.append(scenes.a_look(scenes.an_agent(number, name, State.STOPPED, age=600.0 - number)))

    def other(self, name: str, command: str | Path) -> SessionRef:
        """A session that belongs to no agent."""
        ref, _ = self._session(name, command, 80, 24)
        self.others.append(replace(scenes.a_session(name), ref=ref))
        return ref

    def _session(self, name: str, command: str | Path, width: int, height: int) -> tuple[SessionRef, str]:
        size = ("-x", str(width), "-y", str(height))
        pane = self.world.tmux(
            "-f", "/dev/null", "new-session", "-d", *size, "-s", name, "-P", "-F", "#{pane_id}", str(command)
        )
        return SessionRef(self.socket, name), pane.strip()

    def probed(self) -> Probed:
        """What the probe would see of them."""
        server = TmuxServer(self.socket, is_default=True, sessions=tuple(self.others))
        return Probed(scenes.NOW, scenes.LOCAL.id, scenes.LOCAL.name, tuple(self.agents), (server,))

    def view(self) -> FleetView:
        """The fleet as the fold shows it."""
        return scenes.scene(self.probed()).view


class Driven:
    """One running app, with what tests ask of it."""

    pilot: Pilot[None]

    def __init__(self, app: FleetApp, watch: StillWatch | None = None) -> None:
        self.app = app
        self._watch = watch
        self._heard: list[Notification] = []
        self._toasts: list[str] = []

    @asynccontextmanager
    async def running(self, size: tuple[int, int]) -> AsyncIterator[Driven]:
        """The app, once its first view is on the screen."""
        async with self.app.run_test(size=size, message_hook=self.hear) as self.pilot:
            await self.until(lambda: self.app.fleet.is_mounted and self.app.fleet.view.has_local_answer, "a first view")
            yield self

    @property
    def watch(self) -> StillWatch:
        """The watch that stands still; there is none over a live world."""
        assert self._watch is not None
        return self._watch

    @property
    def pane(self) -> SidePane:
        return self.app.fleet.query_one(SidePane)

    @property
    def preview(self) -> str:
        """What the preview shows, line by line."""
        preview = self.app.fleet.query_one(Preview)
        return "\n".join(preview.render_line(y).text.rstrip() for y in range(preview.size.height)).rstrip()

    @property
    def toasts(self) -> str:
        """Every toast so far, gone ones too."""
        return "\n".join(self._toasts)

    def hear(self, message: Message) -> None:
        """Keep every toast: on the screen they go by themselves."""
        if isinstance(message, Notify) and message.notification not in self._heard:
            self._heard.append(message.notification)
            self._toasts.append(f"{message.notification.title}: {message.notification.message}")

    async def until(self, ask: Callable[[], object], what: str = "") -> None:
        """Let the app run until the condition holds, and then until it has nothing more to do by itself."""
        deadline = time.monotonic() + PATIENCE
        nudge_at = time.monotonic() + NUDGE_AFTER
        await quiet(self.app)
        while not ask():
            if time.monotonic() > deadline:
                raise AssertionError(f"never came: {what or ask}; preview:\n{self.preview}\ntoasts: {self.toasts}")
            if time.monotonic() > nudge_at:
                nudge_tmux()
                nudge_at = time.monotonic() + NUDGE_AFTER
            await asyncio.sleep(0.02)  # lets threads and outside programs go on
            await quiet(self.app)
        await quiet(self.app)

    async def press(self, *keys: str) -> None:
        """Press keys, each once the app has done all that the one before it caused."""
        await press(self.app, *keys)

    async def go_to(self, name: str) -> None:
        """Put the cursor on an agent."""
        row = next(row for row in self.app.fleet.view.rows if row.agent.name == name)
        assert self.app.fleet.table.go_to_key(row.key)
        await self.until(lambda: self.pane.border_title and name in self.pane.border_title, f"{name} selected")


@asynccontextmanager
async def driven(seats: Seats, size: tuple[int, int] = (140, 40)) -> AsyncIterator[Driven]:
    """The app over these seats, once they are on the screen."""
    watches: list[StillWatch] = []

    def make_watch(publish: Callable[[FleetView], None]) -> StillWatch:
        watches.append(StillWatch(seats.view(), publish))
        return watches[0]

    app = FleetApp(
        make_watch, seats.world.environment, folder=seats.world.root, clock=lambda: scenes.NOW, place="acme/api"
    )
    async with Driven(app, watches[0]).running(size) as it:
        yield it


@asynccontextmanager
async def live(world: World, size: tuple[int, int] = (140, 40)) -> AsyncIterator[Driven]:
    """The app over the world's own agents, with the real watch."""
    # There are no remote providers here: asking for them would only cost as much again.
    settings = watch_settings(Config(remote=False), world.repository)

    def make_watch(publish: Callable[[FleetView], None]) -> FleetWatch:
        return FleetWatch(settings, world.environment, publish)

    app = FleetApp(make_watch, world.environment, folder=world.repository, place="acme/api")
    async with Driven(app).running(size) as it:
        yield it
