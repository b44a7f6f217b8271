"""Drives the real app over a scene: frozen clock, no mngr, no tmux, and the screen as text and as SVG.

Sessions of scenes are moved to a tmux folder that does not exist, so that nothing on the machine is ever looked at.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import scenes
from selftest_core.tools.tmux import SessionRef
from selftest_tui.app.app import FleetApp
from selftest_tui.fleet.agent_table import AgentTable
from selftest_tui.fleet.pane.preview import Preview
from selftest_tui.fleet.status_bar import StatusBar
from selftest_tui.shared.widgets.key_bar import KeyBar
from simulated.watch import StillWatch
from tui.quiet import PATIENCE, press, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from textual.pilot import Pilot

    from selftest_core.config import Config
    from selftest_core.fleet.view import FleetView, Row
    from selftest_core.run.plan.offer import Offer
    from selftest_tui.app.app import Begin
    from selftest_tui.fleet.feed import Publish
    from selftest_tui.fleet.screen import FleetScreen

__all__ = ["PATIENCE", "Driven", "compare", "driven", "elsewhere", "normalised", "text_of"]

NOWHERE = "/nonexistent/tmux"
ENVIRONMENT = {
    "PATH": "/nonexistent",
    "HOME": "/nonexistent",
    "TMUX_TMPDIR": NOWHERE,
    "MNGR_HOST_DIR": "/nonexistent/m",
}
SNAPSHOTS = Path(__file__).parent / "snapshots"


_MOVED: dict[int, tuple[Row, Row]] = {}


def elsewhere(view: FleetView, sockets: Mapping[str, str] | None = None) -> FleetView:
    """The view with every tmux socket replaced: by `sockets`, else by one that does not exist."""

    def moved(socket: str) -> str:
        return (sockets or {}).get(socket, f"{NOWHERE}/{Path(socket).name}")

    def seated(row: Row) -> Row:
        """The same object for the same row: that is how a table knows that nothing changed."""
        if row.session is None:
            return row
        known = _MOVED.get(id(row))
        if known is None or known[0] is not row or sockets:
            pane = None if sockets else row.pane_id
            known = (row, replace(row, session=SessionRef(moved(row.session.socket), row.session.name), pane_id=pane))
            _MOVED[id(row)] = known
        return known[1]

    return replace(
        view,
        rows=tuple(map(seated, view.rows)),
        sessions=tuple(
            replace(one, ref=SessionRef(moved(one.ref.socket), one.ref.name)) for one in view.sessions
        ),
        servers=tuple(replace(server, socket=moved(server.socket), sessions=()) for server in view.servers),
    )  # fmt: skip


@dataclass
class Driven:
    """A running app, and what a person would see of it. Its clock stands `seconds` after the scene's."""

    app: FleetApp
    pilot: Pilot[None]
    watch: StillWatch
    seconds: float = 0.0

    @property
    def screen(self) -> FleetScreen:
        return self.app.fleet

    @property
    def table(self) -> AgentTable:
        return self.screen.query_one(AgentTable)

    @property
    def status(self) -> str:
        """The line at the top."""
        return self.screen.query_one(StatusBar).render().plain

    @property
    def key_line(self) -> str:
        """The line at the bottom."""
        return self.screen.query_one(KeyBar).render().plain

    @property
    def lines(self) -> list[str]:
        """The lines of the table that are on the screen, trailing blanks cut."""
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    @property
    def toasts(self) -> str:
        """All that was said in toasts."""
        return "\n".join(f"{toast.title}: {toast.text}" for toast in self.screen.said)

    @property
    def name(self) -> str:
        """The name of the agent under the cursor."""
        return self.table.row.agent.name if self.table.row is not None else ""

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until all that they caused is on the screen."""
        await press(self.app, *keys)
        if self.app.is_running:
            await self.until(lambda: self.screen.is_at_rest, "rest")

    async def show(self, view: FleetView) -> None:
        """Let the watch publish another view, from another thread as the real one does, and wait for it."""
        view = elsewhere(view)
        await asyncio.to_thread(self.watch.show, view)
        await self.until(lambda: self.screen.view is view and self.screen.is_at_rest)

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for a condition."""
        await until(self.app, condition, lambda: "\n".join([what, self.status, *self.lines]))

    @property
    def preview(self) -> str:
        """What the right pane's preview shows."""
        preview = self.screen.query_one(Preview)
        return "\n".join(preview.render_line(y).text.rstrip() for y in range(preview.size.height)).strip()

    async def picture(self) -> str:
        """The screen as SVG, the same on every machine and in every run, once the preview has looked."""
        await self.until(lambda: self.screen.pane.tab != "preview" or not self.screen.pane_is_open or self.preview)
        return normalised(self.app.export_screenshot())


@asynccontextmanager
async def driven(
    view: FleetView,
    *,
    size: tuple[int, int] = (140, 40),
    theme: str = "textual-dark",
    environ: Mapping[str, str] | None = None,
    sockets: Mapping[str, str] | None = None,
    start: tuple[Offer, Begin] | None = None,
    folder: Path = Path("/"),
    config: Config | None = None,
) -> AsyncIterator[Driven]:
    """The app over a view, its first frame on the screen; with `start`, the question before a run on top."""
    made: list[StillWatch] = []
    shown = elsewhere(view, sockets)
    ahead: list[Driven] = []

    def make_watch(publish: Publish) -> StillWatch:
        made.append(StillWatch(shown, publish))
        return made[0]

    state = None if environ and "XDG_STATE_HOME" in environ else TemporaryDirectory(prefix="state")
    own = {"XDG_STATE_HOME": state.name} if state is not None else {}  # preferences are nobody else's
    app = FleetApp(
        make_watch,
        {**(environ or ENVIRONMENT), **own},
        folder=folder,
        theme=theme,
        clock=lambda: scenes.NOW + (ahead[0].seconds if ahead else 0.0),
        place="acme/api @ main",
        start=start,
        config=config,
    )
    async with app.run_test(size=size) as pilot:
        one = Driven(app, pilot, made[0])
        ahead.append(one)
        await one.until(lambda: app.fleet.has_view and app.fleet.is_at_rest, "the first view")
        yield one
    if state is not None:
        state.cleanup()


def normalised(svg: str) -> str:
    """An SVG without what differs from run to run or fetches something, and with its blanks kept."""
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def text_of(svg: str) -> list[str]:
    """The lines of text that an SVG shows."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        rows.setdefault(float(y), []).append((float(x), unescape(text).replace("\xa0", " ")))
    lines = []
    for _, pieces in sorted(rows.items()):
        line = ""
        for x, text in sorted(pieces):
            line = line.ljust(round(x / 12.2)) + text
        lines.append(line.rstrip())
    return lines


def compare(name: str, svg: str) -> None:
    """Compare with the kept snapshot, or write it where UPDATE_SNAPSHOTS=1 stands in the environment."""
    path = SNAPSHOTS / f"{name}.svg"
    if UPDATES:
        path.write_text(svg, encoding="utf-8")
        return
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    if kept == svg:
        return
    difference = list(difflib.unified_diff(text_of(kept), text_of(svg), "kept", "now", lineterm="", n=1))
    what = "\n".join(difference) if difference else "the text is the same, colours or styles differ"
    raise AssertionError(f"{path.name} is another picture now (make screenshots takes the new one):\n{what}")


UPDATES = os.environ.get("UPDATE_SNAPSHOTS") == "1"
