"""Sessions of all tmux servers of this user, asked with one tmux process for each server.

A socket without a listener is neither a server nor an error. A server that hangs is reported and not asked for a while,
since it would slow every look. Parsed panes are cached by their line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, ToolFailedError, ToolMissingError, ToolTimeoutError
from selftest_core.fleet.observations import TmuxServer, TmuxSession
from selftest_core.tools.tmux import Pane, SessionRef, Tmux, default_socket, is_gone, own_server, sockets_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DEADLINE = 5.0
_REST = 10.0
"""Seconds before a server that did not answer is asked again."""


@dataclass(slots=True)
class Server:
    """Answer of one server: the panes of each session, in tmux's order. `error` is empty if it answered."""

    socket: str
    panes: dict[str, tuple[Pane, ...]]
    error: str = ""


class TmuxServers:
    """Reader of every server of this user. For one thread."""

    def __init__(self, environ: Mapping[str, str], named: Sequence[str] = ()) -> None:
        self._environ = dict(environ)
        self._named = tuple(named)
        self._resting: dict[str, tuple[float, str]] = {}
        self._known: dict[str, dict[str, Pane]] = {}
        self._observed: dict[str, dict[str, tuple[tuple[Pane, ...], TmuxSession]]] = {}

    def observation(self, server: Server) -> TmuxServer:
        """Convert an answer to an observation; unchanged sessions are the same objects as before."""
        before = self._observed.get(server.socket, {})
        sessions = {}
        for name, panes in server.panes.items():
            kept = before.get(name)
            is_same = kept is not None and kept[0] == panes
            sessions[name] = kept if kept and is_same else (panes, _session(SessionRef(server.socket, name), panes))
        self._observed[server.socket] = sessions
        is_default = server.socket == default_socket(self._environ)
        return TmuxServer(server.socket, is_default, tuple(session for _, session in sessions.values()), server.error)

    def ask(self, now: float) -> tuple[list[Server], str]:
        """Ask each server, mngr's default first even if nothing runs there; the second value is a problem of tmux."""
        servers: list[Server] = []
        own = own_server(self._environ)
        asked_for = {own[0] if own else "", *self._named}
        sockets = sockets_of(self._environ, self._named)
        for index, socket in enumerate(sockets):
            server = Server(socket, {})
            rest = self._resting.get(socket)
            if rest is not None and now < rest[0]:
                server.error = rest[1]
                servers.append(server)
                continue
            self._resting.pop(socket, None)
            try:
                server.panes = _by_session(
                    Tmux(socket, self._environ).panes(_DEADLINE, self._known.setdefault(socket, {}))
                )
            except ToolMissingError as error:
                return [Server(socket, {}, error.title)], "\n".join(filter(None, (error.title, error.hint)))
            except ToolTimeoutError:
                server.error = f"it did not answer within {_DEADLINE:g} s"
                self._resting[socket] = (now + _REST, server.error)
            except ToolFailedError as error:
                if is_gone(error.stderr):
                    if index > 0 and socket not in asked_for:
                        continue
                else:
                    server.error = error.detail or error.title
            except ToolError as error:
                server.error = f"{error.title}: {error.detail}"
            servers.append(server)
        for gone in self._known.keys() - set(sockets):
            del self._known[gone]
            self._observed.pop(gone, None)
        return servers, ""


def _session(ref: SessionRef, panes: Sequence[Pane]) -> TmuxSession:
    shown = next((pane for pane in panes if pane.window_is_active and pane.is_active), panes[0])
    return TmuxSession(
        ref=ref,
        session_id=shown.session_id,
        created_at=shown.session_created,
        activity_at=max(pane.window_activity for pane in panes),
        windows=shown.session_windows,
        attached=shown.session_attached,
        agent_id=shown.agent_id or None,
        command=shown.command,
        title=shown.title,
    )


def _by_session(panes: Sequence[Pane]) -> dict[str, tuple[Pane, ...]]:
    sessions: dict[str, list[Pane]] = {}
    for pane in panes:
        sessions.setdefault(pane.session, []).append(pane)
    return {name: tuple(held) for name, held in sessions.items()}
