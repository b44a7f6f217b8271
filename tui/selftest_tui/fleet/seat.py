"""The `acting.Cockpit` of a screen above the fleet's: its own toasts, the fleet's agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from textual.app import App

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.view import FleetView
    from selftest_core.tools.mngr import Mngr
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.shared.problems import Severity


class AboveFleet(Protocol):
    """A screen that knows the fleet's."""

    fleet: FleetScreen

    @property
    def app(self) -> App[Any]: ...
    def say(self, text: str, title: str = "", kind: Severity = "information") -> None: ...


class Seat:
    """The `acting.Cockpit` of such a screen."""

    def __init__(self, screen: AboveFleet) -> None:
        self._screen = screen

    @property
    def app(self) -> App[Any]:
        """The app that shows dialogs."""
        return self._screen.app

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of programs that are started."""
        return self._screen.fleet.environ

    @property
    def mngr(self) -> Mngr:
        """The mngr of this environment; raises ToolError if there is none."""
        return self._screen.fleet.mngr

    @property
    def view(self) -> FleetView:
        """The newest view of the fleet."""
        return self._screen.fleet.view

    def watch_refresh(self) -> None:
        """Ask for news of the fleet now."""
        self._screen.fleet.watch_refresh()

    def select_keys(self, found: Collection[AgentKey], /) -> None:
        """Make these the marked agents of the fleet."""
        self._screen.fleet.select_keys(found)

    def say(self, text: str, title: str = "", kind: Severity = "information") -> None:
        """Show a toast on the screen that started the action."""
        self._screen.say(text, title, kind)
