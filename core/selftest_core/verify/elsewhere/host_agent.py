"""One command agent of mngr that runs test jobs on another host: made, given jobs, followed, and removed.

It uses the ways of a run's crew: `mngr create` with uploads, `mngr rsync`, `mngr exec`, `mngr destroy`. What the host
gets: the runner, the plugin, and the objects of the trees that are tested, nothing else of the repository.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import shlex
from typing import TYPE_CHECKING, Any

from selftest_core.errors import ToolError, ToolFailedError
from selftest_core.frozen import dataclass
from selftest_core.run.crew.crew import LaunchError
from selftest_core.run.crew.mngr_commands import exec_arguments, parse_created, parse_exec
from selftest_core.run.fold import Member
from selftest_core.run.plan.names import ROLE_LABEL
from selftest_core.run.providers import address_suffix, provider_of, work_dir
from selftest_core.tools.mngr_files import host_dir_of
from selftest_core.verify.elsewhere import host_runner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.tools.mngr import Mngr
    from selftest_core.tools.process import Completed

_CREATE = 290.0
_RSYNC = 280.0
_EXEC = 90.0
_DESTROY = 280.0
_NEWS = 10.0
"""Seconds that one question waits for news."""
_HOME = ".selftest"
_RUNNER = "host_runner.py"


@dataclass(frozen=True, slots=True)
class News:
    """News of a job: more of the file of results, and how it ended, None while it runs."""

    data: bytes
    ended: Ended | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a job. `failure`: why pytest could not be run; `output`: what it printed. Both are untrusted."""

    status: int | None
    was_timeout: bool
    output: str
    failure: str


class HostAgent:
    """One agent. For one thread at a time. Its methods raise ToolError where the host or mngr fails."""

    def __init__(self, mngr: Mngr, place: str, member: Member) -> None:
        self._mngr, self.place, self._member = mngr, place, member
        self.folder = work_dir(place, member, host_dir_of(mngr.environ)) / _HOME
        self.objects: set[str] = set()
        """The trees whose objects the host has."""

    @classmethod
    def make(cls, mngr: Mngr, place: str, agent_id: str, name: str, arguments: Sequence[str]) -> HostAgent:
        """Make an agent at a place. `arguments`: passed to `mngr create`. Raises LaunchError, ToolError."""
        member = Member(name, "", 1, agent_id, name)
        target = work_dir(place, member, host_dir_of(mngr.environ))
        home = target / _HOME
        made = f"mkdir -p {shlex.quote(str(home))}/jobs && printf '*\\n' > {shlex.quote(str(home))}/.gitignore"
        words = [
            "create", f"{name}{address_suffix(place)}", "--id", agent_id, "--type", "command", "--no-connect",
            "--headless", "--yes", "--format", "json", "--no-ensure-clean", "--transfer", "git-mirror",
            "--target-path", str(target), "--project", "selftest-verify", "--extra-provision-command", made,
            "--upload-file", f"{host_runner.__file__}:{home / _RUNNER}",
        ]  # fmt: skip
        words += ["--label", f"{ROLE_LABEL}=verifier"]
        words += [*arguments, "--", "python3", str(home / _RUNNER), "serve", str(home)]
        done = asyncio.run(mngr.call(words, timeout=_CREATE))
        if not done.ok:
            raise LaunchError(
                f"mngr could not make an agent on {place}", done.stderr_end, argv=done.argv,
                exit_status=done.exit_status, stderr=done.stderr,
            )  # fmt: skip
        found = Member(name, "", 1, agent_id, name, parse_created(done.stdout), provider_of(place))
        return cls(mngr, place, found)

    def upload(self, folder: Path, job: str) -> None:
        """Upload the files of a job."""
        target = f"{self._member.address}:{_HOME}/jobs/{job}/"
        words = ["rsync", f"{folder}/", target, "--no-start", "--uncommitted-changes", "clobber", "--", "-r"]
        _must(asyncio.run(self._mngr.call(words, timeout=_RSYNC)), f"the job could not be sent to {self.place}")

    def news(self, job: str, offset: int) -> News:
        """Start a job where it is not started yet, wait for news, and return them: results from `offset` on."""
        script = shlex.join(
            ("python3", str(self.folder / _RUNNER), "follow", str(self.folder), job, str(offset), f"{_NEWS:g}")
        )
        done = asyncio.run(self._mngr.call(exec_arguments((self._member,), script, _EXEC - 20.0), timeout=_EXEC))
        ok, said = next(iter(parse_exec(done.stdout).values()), (False, done.stderr_end))
        try:
            found: Any = json.loads(said) if ok else None
            data = base64.b64decode(found["data"], validate=True)
            told = found["ended"]
            ended = None
            if told is not None:
                status = told["status"]
                ended = Ended(
                    status if isinstance(status, int) else None, told["timeout"] is True, str(told["output"]),
                    str(told["failure"]),
                )  # fmt: skip
            is_serving = found["serving"] is True
        except (ValueError, KeyError, TypeError) as error:
            raise ToolFailedError(f"{self.place} does not answer", said[-500:], argv=done.argv) from error
        if ended is None and not data and not is_serving:
            raise ToolFailedError(f"the runner on {self.place} has ended", "", argv=done.argv)
        return News(data, ended)

    def remove(self) -> str:
        """Remove the agent, its processes and its files; return why that failed."""
        return remove_agents(self._mngr, (self._member.agent_id,))


def new_agent_id() -> str:
    """Choose an id before the agent is made, so that a crash in between loses nothing."""
    return f"agent-{secrets.token_hex(16)}"


def remove_agents(mngr: Mngr, agent_ids: Sequence[str]) -> str:
    """Remove agents with their processes and files, and hosts that had no other; return why that failed."""
    script = 'folder=$PWD; cd /; rm -rf "$folder"'
    words = ("exec", *agent_ids, script, "--no-start", "--format", "json", "--on-error", "continue")
    try:
        with contextlib.suppress(ToolError):  # of a host that is gone: destroying its agent says the same
            asyncio.run(mngr.call((*words, "--timeout", f"{_EXEC - 20.0:g}"), timeout=_EXEC))
        done = asyncio.run(mngr.call(("destroy", "-f", *agent_ids, "--no-gc", "--format", "json"), timeout=_DESTROY))
    except ToolError as error:
        return error.title
    return "" if done.ok else done.stderr_end


def _must(done: Completed, title: str) -> None:
    if not done.ok:
        raise ToolFailedError(title, done.stderr_end, argv=done.argv, exit_status=done.exit_status)
