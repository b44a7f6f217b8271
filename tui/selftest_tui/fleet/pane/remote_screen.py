"""Capture the screen of an agent on another host over its ssh command: only on request, since it takes seconds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.tools.mngr_files import host_dir_of, prefix_of
from selftest_core.tools.process import run_async
from selftest_core.tools.tmux import exact_session, tmux_environment
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.fleet.view import Row

TIMEOUT = 30.0


def remote_argv(ssh_command: str, session: str) -> tuple[str, ...]:
    """Build the argv that prints a session's screen on the other host. `ssh_command` is written for a shell."""
    script = f"exec tmux -u capture-pane -p -e -t {shlex.quote(exact_session(session) + ':')}"
    there = f"exec sh -c {shlex.quote(script)}"
    return ("/bin/sh", "-c", f"{ssh_command} {shlex.quote(there)}")


async def remote_screen(row: Row, environ: Mapping[str, str]) -> str:
    """Capture a remote agent's screen as text with its colours. Raises RefusedError or ToolError."""
    agent = row.agent
    if agent.host.ssh is None:
        raise RefusedError(f"{agent.name} cannot be reached", "mngr gives no ssh command for its host.")
    session = f"{prefix_of(environ, host_dir_of(environ))}{agent.name}"
    argv = remote_argv(agent.host.ssh.command, session)
    done = await run_async(argv, timeout=TIMEOUT, cwd=Path("/"), env=tmux_environment(environ))
    if not done.ok:
        raise ToolFailedError(
            f"The screen of {agent.name} could not be fetched", done.stderr_end, f"{shown('fleet.attach', '⏎')} "
            "attaches to it.",
            argv=argv, exit_status=done.exit_status, stderr=done.stderr,
        )  # fmt: skip
    return done.stdout
