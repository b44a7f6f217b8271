"""The tmux session that this program itself is shown in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.fleet.view import FleetView


def without_own_session(view: FleetView, environ: Mapping[str, str]) -> FleetView:
    """The view without the tmux session that this program itself is shown in: a mirror of itself helps nobody."""
    socket, _, rest = environ.get("TMUX", "").partition(",")
    session_id = f"${rest.rpartition(',')[2]}"
    others = tuple(one for one in view.sessions if (one.ref.socket, one.session_id) != (socket, session_id))
    return view if len(others) == len(view.sessions) else replace(view, sessions=others)
