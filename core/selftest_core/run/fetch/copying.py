"""Copy an agent's files into staging, and stop it: through mngr for remote agents, directly for local ones.

A call of mngr costs a second or two of CPU, so a finished local agent would run on for many seconds while others are
fetched and stopped. Its files and its session are therefore read directly. The agent owns its files: no link is
followed, and git runs without hooks and with the configuration of the copy only.
"""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, ToolFailedError
from selftest_core.git.command import environment
from selftest_core.run.crew.mngr_commands import (
    OUT,
    bundle_script,
    exec_arguments,
    parse_exec,
    rsync_arguments,
    rsync_limits,
)
from selftest_core.tools.mngr import Act, read_answer, stop_arguments
from selftest_core.tools.mngr_files import host_dir_of, prefix_of
from selftest_core.tools.process import run_async
from selftest_core.tools.tmux import Tmux

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.run.fold import Member
    from selftest_core.tools.mngr import Mngr
    from selftest_core.tools.process import Completed

_RSYNC = 280.0
_EXEC = 60.0
_STOP = 110.0
_PARTIAL_STATUS = (23, 24)
"""rsync's exit statuses for: some files could not be copied or vanished; the rest was copied."""
_PARTIAL = tuple(f"status {number}" for number in _PARTIAL_STATUS)


async def pull_local(mngr: Mngr, work_dir: Path, staging: Path, *, bundle_base: str = "") -> None:
    """Copy the out folder of a local agent. `bundle_base`: first bundle its commits over this one.

    Raises ToolError, and ValueError if the out folder is no plain folder.
    """
    _refuse_odd_folders(work_dir, "what the agent left could not be copied")
    if bundle_base:
        script = ("/bin/sh", "-c", bundle_script(bundle_base))
        done = await run_async(script, timeout=_EXEC, cwd=work_dir, env=environment(mngr.environ))
        if not done.ok:
            _note_failed_bundle(staging, done.stderr_end or done.stdout)
    copy = ("rsync", "-rtp", *rsync_limits(), f"{work_dir / OUT}/", f"{staging}/")
    done = await run_async(copy, timeout=_RSYNC, cwd=Path("/"), env=mngr.environ)
    if not done.ok and done.exit_status not in _PARTIAL_STATUS:
        raise _not_copied(done)


def _refuse_odd_folders(work_dir: Path, title: str) -> None:
    """Raise ToolFailedError if the agent's folders are not there, ValueError if one is a link or a file."""
    for folder in (work_dir, work_dir / ".selftest", work_dir / OUT):
        try:
            is_folder = stat.S_ISDIR(folder.lstat().st_mode)
        except OSError as error:
            raise ToolFailedError(title, str(error)) from error
        if not is_folder:
            raise ValueError(f"{folder} is no plain folder")


async def put_answer(mngr: Mngr, member: Member, work_dir: Path | None, script: str) -> None:
    """Run `answer_script` in the agent's copy: at `work_dir` on this machine, else by mngr. Raises as `pull_local`."""
    title = "the answer could not be put into its copy"
    if work_dir is not None:
        _refuse_odd_folders(work_dir, title)
        done = await run_async(("/bin/sh", "-c", script), timeout=_EXEC, cwd=work_dir, env=environment(mngr.environ))
        ok, output = done.ok, done.stderr_end or done.stdout
    else:
        done = await mngr.call(exec_arguments((member,), script, _EXEC - 10.0), timeout=_EXEC)
        ok, output = next(iter(parse_exec(done.stdout).values()), (False, done.stderr_end))
    if not ok:
        raise ToolFailedError(title, output, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr)


async def pull_remote(mngr: Mngr, member: Member, staging: Path, *, bundle_base: str = "") -> None:
    """Copy the out folder of a remote agent, as `pull_local` does. Raises ToolError."""
    if bundle_base:
        script = bundle_script(bundle_base)
        done = await mngr.call(exec_arguments((member,), script, _EXEC - 10.0), timeout=_EXEC)
        answers = tuple(parse_exec(done.stdout).values())
        if not answers:  # no answer: its branch must not be taken for empty
            raise ToolFailedError(
                "the agent could not be asked for its branch", done.stderr_end,
                argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
            )  # fmt: skip
        ok, output = answers[0]
        if not ok:
            _note_failed_bundle(staging, output)
    done = await mngr.call(rsync_arguments(member, staging), timeout=_RSYNC)
    if not done.ok and not any(words in done.stderr for words in _PARTIAL):
        raise _not_copied(done)


async def stop_local(mngr: Mngr, members: Sequence[Member]) -> frozenset[str]:
    """Stop local agents; return the ids of those that mngr reports as stopped and that have no session."""
    try:
        done = await mngr.call(stop_arguments([member.address for member in members]), timeout=_STOP)
        answers = read_answer(Act.STOP, done.stdout) or {}
        tmux = Tmux(mngr.default_socket, mngr.environ)
        listed = await asyncio.to_thread(tmux.ask, "list-sessions", "-F", "#{session_name}")
    except ToolError:
        return frozenset()
    prefix = prefix_of(mngr.environ, host_dir_of(mngr.environ))
    sessions = set(listed.stdout.split("\n"))
    return frozenset(
        member.agent_id
        for member in members
        if (answer := answers.get(member.name)) is not None and answer.ok and f"{prefix}{member.name}" not in sessions
    )


def _note_failed_bundle(staging: Path, output: str) -> None:
    (staging / "bundle-failed.txt").write_text(f"{output}\n", encoding="utf-8", errors="replace")


def _not_copied(done: Completed) -> ToolFailedError:
    return ToolFailedError(
        "what the agent left could not be copied", done.stderr_end,
        argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
    )  # fmt: skip
