"""Details of the selected agent or session, as aligned labels and values.

Pure functions make the facts and the text; the widget shows them. Ages depend on the time, which is an argument.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from selftest_core.fleet.host_cost import host_cost
from selftest_core.fleet.view import Category
from selftest_tui.fleet.pane.aged_text import AgedText
from selftest_tui.shared.present import ago, clean, duration, running_for, symbol, used
from selftest_tui.shared.widgets.screen_text import wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Row

_GAP = 2
_ENDED = (Category.DONE, Category.FAILED)


class Fact(NamedTuple):
    """One line of details. An empty label continues the fact above."""

    label: str
    value: str


def when(at: float | None, now: float) -> str:
    """Format a time of day with its age, in the user's time zone; empty if it is unknown."""
    if at is None:
        return ""
    try:
        moment = datetime.fromtimestamp(at).astimezone()
    except (OverflowError, ValueError, OSError):
        return f"{at:g} s since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S}  ({ago(now - at)} ago)"


def row_facts(row: Row, view: FleetView, now: float) -> tuple[Fact, ...]:
    """Return the known facts of an agent."""
    return tuple(fact for fact in _row_facts(row, view, now) if fact.value)


def _row_facts(row: Row, view: FleetView, now: float) -> Iterator[Fact]:
    agent, host = row.agent, row.agent.host
    yield Fact(
        "state", f"{symbol(row)} {row.category.value}  ({agent.state_word or agent.state}, source: {row.source})"
    )
    yield Fact("why", row.attention or "")
    yield Fact("outcome", row.outcome)
    if row.stale_since is not None:
        yield Fact("as of", when(row.stale_since, now))
    yield Fact("waits for", agent.waiting_reason or "")
    yield Fact("exit status", "" if row.exit_status is None else str(row.exit_status))
    yield Fact("name", agent.name)
    yield Fact("id", agent.id)
    yield Fact("test", agent.test or "")
    yield Fact("run", agent.run or "")
    yield Fact("project", agent.project or "")
    yield Fact("type", agent.type)
    yield Fact("work dir", agent.work_dir)
    yield Fact("branch", agent.branch or "")
    yield Fact("created", when(agent.created_at, now))
    yield Fact("started", when(agent.started_at, now))
    yield Fact("ran" if row.category in _ENDED else "running", running_for(row, now))
    if row.idle_since is not None:
        yield Fact("idle", f"{duration(now - row.idle_since)}{f'  ({agent.idle_mode})' if agent.idle_mode else ''}")
    yield Fact("used", used(row.usage))
    yield Fact("you acted", when(agent.user_activity_at, now))
    # mngr updates its timestamp while a dialog is open, so the idle time is more accurate.
    yield Fact("it acted", when(agent.agent_activity_at if row.idle_since is None else None, now))
    yield Fact("pid", "" if agent.pid is None else str(agent.pid))
    yield Fact("url", agent.url or "")
    yield Fact("title", row.title)
    if row.session is not None:
        yield Fact("session", f"{row.session.name}{f'  pane {row.pane_id}' if row.pane_id else ''}")
        yield Fact("server", _server(row.session.socket, view))
    yield Fact("host", f"{host.name}  {host.id}" if host.name != host.id else host.id)
    yield Fact("provider", host.provider)
    yield Fact("host state", host.state or "")
    cost = host_cost(host, view.modal_costs, now)
    yield Fact("host cost", "" if cost is None else f"{cost.usd:.2f} USD  ({cost.label})")
    yield Fact("host failed", host.failure_reason or "")
    yield Fact("host locked", "yes" if host.is_locked else "")
    yield Fact("host booted", when(host.boot_time, now))
    yield Fact("image", host.image or "")
    yield Fact("ssh", host.ssh.command if host.ssh else "")
    yield Fact("on boot", "starts with its host" if agent.start_on_boot else "")
    yield from _pairs("labels", agent.labels.items())
    yield from _pairs("plugins", ((name, json.dumps(told, default=str)) for name, told in agent.plugin.items()))
    yield Fact("command", agent.command)  # last: that of a Claude Code agent has thirty lines


def session_facts(session: TmuxSession, view: FleetView, now: float) -> tuple[Fact, ...]:
    """Return the known facts of a tmux session that belongs to no agent."""
    facts = (
        Fact("session", session.ref.name),
        Fact("server", _server(session.ref.socket, view)),
        Fact("command", session.command),
        Fact("title", session.title),
        Fact("windows", str(session.windows)),
        Fact("attached", f"{session.attached} client{'' if session.attached == 1 else 's'}"),
        Fact("created", when(session.created_at, now)),
        Fact("activity", when(session.activity_at, now)),
        Fact("agent", session.agent_id or "none: not made by mngr"),
    )
    return tuple(fact for fact in facts if fact.value)


def _server(socket: str, view: FleetView) -> str:
    is_default = any(server.socket == socket and server.is_default for server in view.servers)
    return socket + ("  (the default)" if is_default else "")


def _pairs(label: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Fact]:
    for key, value in pairs:
        yield Fact(label, f"{key}={value}")
        label = ""


def laid_out(facts: Sequence[Fact], width: int) -> Content:
    """Lay the facts out in two columns, `width` cells in total; a long value wraps in its column."""
    column = max((len(fact.label) for fact in facts), default=0) + _GAP
    room = max(8, width - column)
    lines: list[Content] = []
    for fact in facts:
        value = clean(fact.value)
        parts = wrapped(value, room)
        lines.append(Content.assemble((fact.label.ljust(column), "$foreground-muted"), parts[0]))
        lines.extend(Content(" " * column + part) for part in parts[1:])
    return Content("\n").join(lines)


class Details(AgedText, can_focus=False):
    """The facts of the selected agent or session."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock, id="details", text_id="facts")
        self._ask: Callable[[float], tuple[Fact, ...]] = lambda now: ()

    def show_selected(self, row: Row | None, session: TmuxSession | None, view: FleetView) -> None:
        """Show the facts of the selected agent or session."""
        if row is not None:
            self.show(partial(row_facts, row, view))
        elif session is not None:
            self.show(partial(session_facts, session, view))
        else:
            self.show(lambda now: ())

    def show(self, ask: Callable[[float], tuple[Fact, ...]]) -> None:
        """Show the facts that `ask(now)` returns, and call it again as time passes."""
        self._ask = ask
        self.write()

    def content(self, now: float, width: int) -> Content:
        """Return the facts."""
        facts = self._ask(now)
        return laid_out(facts, width) if facts else Content("Nothing is selected.")
