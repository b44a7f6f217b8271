"""Plans for a shell in the work folder of an agent, on this machine or over ssh."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from selftest_core.actions.attach import AttachPlan, new_window_argv
from selftest_core.errors import RefusedError
from selftest_core.tools.tmux import own_server, tmux_environment
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.fleet.view import Row

_HERE = 'cd -- "$1" && exec "${SHELL:-/bin/sh}"'
_THERE = 'exec "${SHELL:-/bin/sh}" -l'


def plan_shell(row: Row, environ: Mapping[str, str]) -> AttachPlan:
    """Plan the person's shell in the agent's work folder; inside tmux in a new window. Raises RefusedError."""
    agent = row.agent
    if not agent.work_dir:
        raise RefusedError(f"{agent.name} has no work dir", "mngr names none for it.")
    if agent.host.is_local:
        inner: tuple[str, ...] = ("/bin/sh", "-c", _HERE, "sh", agent.work_dir)
    elif agent.host.ssh is not None:
        script = f"cd -- {shlex.quote(agent.work_dir)} && {_THERE}"
        there = f"exec sh -c {shlex.quote(script)}"
        inner = ("/bin/sh", "-c", f"{agent.host.ssh.command} -t {shlex.quote(there)}")
    else:
        raise RefusedError(f"{agent.name} cannot be reached", "mngr gives no ssh command for its host.")
    where = f"A shell in {clean(agent.work_dir)}"
    own = own_server(environ)
    if own is None:
        return AttachPlan(inner, dict(environ), "hand over", f"{where}; `exit` brings you back.", agent.name)
    argv = new_window_argv(own, "shell", inner, environ)
    return AttachPlan(argv, tmux_environment(environ), "window", f"{where} opens in a new tmux window.", agent.name)
