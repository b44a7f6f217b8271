"""The crew of the real mngr: makes, sees, empties and stops agents, at as few and as cheap calls as can be.

`mngr list` costs seconds, so it is asked as seldom as its own cost allows; whether an outcome is there is asked of the
file system for local agents, and by one batched `mngr exec` for remote ones. What a listing did not have is never
called absent before a newer one said so. Nothing here starts an agent or a host.
"""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agent_files import host_dir_of, prefix_of
from selftest_core.agents import LOCAL_PROVIDER, AgentKey, State
from selftest_core.errors import ToolError, ToolFailedError
from selftest_core.observations import SessionRef
from selftest_core.panes import capture
from selftest_core.run.crew import BUNDLE, OUTCOME, LaunchError, Life, Seen
from selftest_core.run.mngr_commands import (
    OUT,
    bundle_script,
    create_arguments,
    exec_arguments,
    parse_created,
    parse_exec,
    provider_of,
    rsync_arguments,
    stamp_script,
    work_dir,
)
from selftest_core.run.prompt import render_prompt
from selftest_core.steering import Act, Target, steer
from selftest_core.tools.mngr import Mngr
from selftest_core.tools.process import run_async

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.agents import Agent
    from selftest_core.observations import Listed
    from selftest_core.run.clock import Clock
    from selftest_core.run.fold import Member
    from selftest_core.run.plan import RunPlan
    from selftest_core.run.store import RunFolder

_CREATE = 290.0
_LIST = 80.0
_RSYNC = 280.0
_EXEC = 60.0
_STOP = 110.0
_LEAST_AGE = 2.0
"""Seconds for which a listing is good at least; four times its own cost otherwise."""
_SETTLING = 5.0
"""Seconds after its creation in which an agent's shell may be seen before its program."""
_AT_ONCE = 20
_PARTIAL = ("status 23", "status 24")
"""rsync's words for: some files could not be copied, or vanished meanwhile; the rest came."""
_GONE_HOST = frozenset({"STOPPED", "STOPPING", "PAUSED", "CRASHED", "FAILED", "DESTROYED"})


class MngrCrew:
    """The agents of one run. `folder` has the private clone that they start from, and gets their prompts."""

    def __init__(self, plan: RunPlan, mngr: Mngr, folder: RunFolder, clock: Clock) -> None:
        self._plan = plan
        self._mngr = Mngr(mngr.program, mngr.environ, folder.clone)
        self._folder = folder
        self._clock = clock
        self._host_dir = host_dir_of(mngr.environ)
        self._is_local = provider_of(plan) == LOCAL_PROVIDER
        self._tests = {test.agent_name: test for test in plan.tests}
        self._listed: Listed | None = None
        self._listed_at = 0.0
        self._stamps: dict[str, str] = {}

    async def create(self, member: Member) -> Seen:
        """Make the agent in a copy of the clone. Raises LaunchError with mngr's own words, or another ToolError."""
        prompt = self._folder.path / "prompts" / f"{member.test}.md"
        if not prompt.is_file():
            prompt.parent.mkdir(exist_ok=True)
            prompt.write_text(render_prompt(self._plan, self._tests[member.test]), encoding="utf-8")
        folder = work_dir(self._plan, member, self._host_dir)
        project = Path(self._plan.repository).name or "selftest"
        arguments = create_arguments(self._plan, member, folder, prompt, project)
        done = await self._mngr.call(arguments, timeout=_CREATE)
        if not done.ok:
            raise LaunchError(
                "mngr could not make the agent", done.stderr_end, "See whether `selftest-tui doctor` finds the reason.",
                argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
            )  # fmt: skip
        return Seen(Life.WORKING, host_id=parse_created(done.stdout), provider=provider_of(self._plan))

    async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
        """What is to be seen of them, by a listing that is new enough and a look at their files."""
        listed = await self._listing(members)
        agents = _by_id(listed)
        present = [member for member in members if _find(agents, member) is not None]
        stamps = await self._outcomes(present, agents)
        absent = [member for member in members if _find(agents, member) is None]
        being_made = await self._being_made(absent) if absent else frozenset()
        seen: dict[str, Seen] = {}
        for member in members:
            agent = _find(agents, member)
            if agent is not None:
                seen[member.agent_id] = self._seen(agent, listed, stamps.get(member.agent_id, ""))
            elif member.agent_id in being_made:
                seen[member.agent_id] = Seen(Life.UNSEEN, says="it is being made")
            else:
                seen[member.agent_id] = _missing(member, listed)
        return seen

    async def pull(self, member: Member, staging: Path) -> None:
        """Make the bundle where the agent made none, and copy its out folder."""
        if not self._has_bundle(member):
            done = await self._mngr.call(
                exec_arguments((member,), bundle_script(self._plan.base), _EXEC - 10.0), timeout=_EXEC
            )
            ok, says = parse_exec(done.stdout).get(member.name, (False, done.stderr_end))
            if not ok:
                (staging / "bundle-failed.txt").write_text(f"{says}\n", encoding="utf-8", errors="replace")
        done = await self._mngr.call(rsync_arguments(member, staging), timeout=_RSYNC)
        if not done.ok and not any(words in done.stderr for words in _PARTIAL):
            raise ToolFailedError(
                "what the agent left could not be copied", done.stderr_end,
                argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
            )  # fmt: skip

    async def last_screen(self, member: Member) -> str:
        """The text of its screen: from tmux itself where it is local, for mngr refuses when its program has ended."""
        if self._is_local:
            ref = SessionRef(self._mngr.default_socket, f"{prefix_of(self._mngr.environ, self._host_dir)}{member.name}")
            shown = await asyncio.to_thread(
                capture, ref, lines_of_history=200, escapes=False, environ=self._mngr.environ
            )
            return shown.text
        done = await self._mngr.call(("capture", member.address, "--no-start"), timeout=_EXEC)
        return done.stdout if done.ok else ""

    async def remind(self, member: Member, text: str) -> None:
        """Send it a message. Raises ToolFailedError where it did not arrive."""
        (result,) = await steer(self._mngr, Act.MESSAGE, (_target(member),), text, timeout=_EXEC)
        if not result.ok:
            raise ToolFailedError("the message did not arrive", result.says, result.hint)

    async def stop(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Stop them, and see that they stopped."""
        targets = [_target(member) for member in members]
        results = await steer(self._mngr, Act.STOP, targets, timeout=_STOP)
        # One that is not there any more is as stopped as can be.
        return {
            result.target.key.agent_id: "" if result.ok or "not there" in result.says else result.says
            for result in results
        }

    async def _listing(self, members: Sequence[Member]) -> Listed:
        elapsed = self._clock.elapsed()
        listed = self._listed
        if listed is not None and elapsed - self._listed_at < max(_LEAST_AGE, 4.0 * listed.seconds):
            agents = _by_id(listed)
            found = [_find(agents, member) for member in members]
            # What would end a test is never taken from an older answer.
            if all(agent is not None and agent.state not in (State.DONE, State.STOPPED) for agent in found):
                return listed
        self._listed = listed = await self._mngr.list(provider_of(self._plan), timeout=_LIST)
        self._listed_at = self._clock.elapsed()
        return listed

    def _seen(self, agent: Agent, listed: Listed, stamp: str) -> Seen:
        life = self._life(agent, listed.at)
        says = f"its host is {agent.host.state}" if life is Life.LOST else ""
        return Seen(life, stamp, agent.host.id, agent.host.provider, says)

    def _life(self, agent: Agent, at: float) -> Life:
        if not agent.host.is_local and agent.host.state in _GONE_HOST:
            return Life.LOST
        is_new = agent.created_at is not None and at - agent.created_at < _SETTLING
        match agent.state:
            case State.DONE | State.STOPPED if is_new:
                return Life.WORKING
            case State.DONE:
                return Life.EXITED
            case State.STOPPED:
                booted, created = agent.host.boot_time, agent.created_at
                # The machine was started again in between: nobody stopped this agent.
                return Life.LOST if booted is not None and created is not None and booted > created else Life.STOPPED
            case State.WAITING if self._plan.agent_type != "command":
                return Life.ASKS if agent.waiting_reason == "PERMISSIONS" else Life.TURN_ENDED
            case State.UNKNOWN:
                return Life.UNSEEN
            case _:
                return Life.WORKING

    async def _outcomes(self, members: Sequence[Member], agents: Mapping[str, list[Agent]]) -> Mapping[str, str]:
        if self._is_local:
            found = {member.agent_id: _find(agents, member) for member in members}
            return {key: _stamp(Path(agent.work_dir) / OUT / OUTCOME) for key, agent in found.items() if agent}
        for start in range(0, len(members), _AT_ONCE):
            batch = [_placed(member, agents) for member in members[start : start + _AT_ONCE]]
            try:
                done = await self._mngr.call(exec_arguments(batch, stamp_script(), _EXEC - 10.0), timeout=_EXEC)
            except ToolError:
                continue  # what was known stays known; the listing tells what is wrong
            answers = parse_exec(done.stdout)
            for member in batch:
                ok, says = answers.get(member.name, (False, ""))
                if ok:
                    self._stamps[member.agent_id] = says.strip()[:80]
        return dict(self._stamps)

    async def _being_made(self, members: Sequence[Member]) -> frozenset[str]:
        """Those whose `mngr create` runs: one that an ended conductor left behind finishes all the same."""
        try:
            done = await run_async(("ps", "-axww", "-o", "args="), timeout=30.0, cwd=Path("/"))
        except ToolError:
            return frozenset()
        return frozenset(member.agent_id for member in members if f"--id {member.agent_id}" in done.stdout)

    def _has_bundle(self, member: Member) -> bool:
        if not self._is_local or self._listed is None:
            return False
        agent = _find(_by_id(self._listed), member)
        return agent is not None and bool(_stamp(Path(agent.work_dir) / OUT / BUNDLE))


def _by_id(listed: Listed) -> dict[str, list[Agent]]:
    agents: dict[str, list[Agent]] = {}
    for agent in listed.agents:
        agents.setdefault(agent.id, []).append(agent)
    return agents


def _find(agents: Mapping[str, list[Agent]], member: Member) -> Agent | None:
    """The member's agent: on its host where that is known, for ids are unique per host only."""
    found = agents.get(member.agent_id, [])
    return next((agent for agent in found if member.host_id in ("", agent.host.id)), None)


def _placed(member: Member, agents: Mapping[str, list[Agent]]) -> Member:
    """The member with the name and place that it has now."""
    from dataclasses import replace

    agent = _find(agents, member)
    if agent is None:
        return member
    return replace(member, name=agent.name, host_id=agent.host.id, provider=agent.host.provider)


def _missing(member: Member, listed: Listed) -> Seen:
    if listed.errors:
        return Seen(Life.UNSEEN, says=listed.errors[0].message)
    if member.host_id and member.provider != LOCAL_PROVIDER:
        return Seen(Life.LOST, says="neither it nor its host is there any more")
    return Seen(Life.ABSENT)


def _stamp(path: Path) -> str:
    """Changes whenever the file does; empty where there is no regular file with something in it."""
    try:
        found = path.lstat()
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) and found.st_size else ""


def _target(member: Member) -> Target:
    return Target(AgentKey(member.host_id, member.agent_id), member.address, member.name, member.provider)
