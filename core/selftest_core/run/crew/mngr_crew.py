"""The crew of the real mngr, with as few and as cheap calls as possible.

`mngr list` costs seconds, so its answers are cached (`run.crew.listings`). Whether an outcome exists is read from the
file system for local agents, and asked by one batched `mngr exec` for each remote provider. Each provider is asked on
its own: mngr fails a whole call when one host of it is down. An agent is absent only after a newer listing confirms it.
No call starts a stopped agent or host. Used in one event loop; threads run pure functions only, and the probe has a
thread of its own (`LocalFleet`).
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.actions.agent_actions import MAY_HAVE_ARRIVED, Act, Target, steer
from selftest_core.agent_types.condition import Kind, reason
from selftest_core.agents import LOCAL_PROVIDER, AgentKey, State
from selftest_core.errors import ToolError, ToolFailedError
from selftest_core.fleet.clusters import limit_line
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.modal.account import MODAL
from selftest_core.run.answer.answer import answer_page
from selftest_core.run.crew.crew import BUNDLE, OUTCOME, Delivery, DoubtfulMessageError, LaunchError, Life, Seen
from selftest_core.run.crew.delivery import find_message, may_have_arrived
from selftest_core.run.crew.env_filter import inherited_from, withheld
from selftest_core.run.crew.listings import Listings, by_id, find, missing_from
from selftest_core.run.crew.local_agents import (
    FreshOutcomes,
    LocalFleet,
    head_of,
    life_of,
    local_screens,
    stamp_of,
    state_of,
)
from selftest_core.run.crew.mngr_commands import (
    OUT,
    answer_script,
    create_arguments,
    delivery_script,
    exec_arguments,
    files_to_upload,
    parse_created,
    parse_delivery,
    parse_exec,
    parse_stamp,
    screen_script,
    stamp_script,
)
from selftest_core.run.crew.modal_hosts import ModalHosts
from selftest_core.run.crew.recording import NOT_RECORDED
from selftest_core.run.fetch.copying import pull_local, pull_remote, put_answer, stop_local
from selftest_core.run.fetch.mngr_conversations import MngrConversations
from selftest_core.run.fold import Member
from selftest_core.run.plan.copy_setup import raise_failed_setup, seconds_of
from selftest_core.run.plan.prompt import end_time, render_prompt, render_smoke_prompt
from selftest_core.run.providers import place_of, provider_for, provider_of, work_dir
from selftest_core.tools.mngr import Mngr
from selftest_core.tools.mngr_files import host_dir_of
from selftest_core.tools.process import run_async

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.agents import Agent
    from selftest_core.fleet.observations import Listed
    from selftest_core.fleet.view import Row
    from selftest_core.run.clock import Clock
    from selftest_core.run.crew.recording import Recorder
    from selftest_core.run.fetch.conversations import Conversation, Mask
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.store import RunFolder

_CREATE = 290.0
_EXEC = 60.0
_MESSAGE = 110.0
_STOP = 110.0
_OUTCOME_POLL = 0.5  # seconds between two looks at the outcome files while mngr lists
_LEAST_AGE = 2.0
"""Seconds for which an answer about files is valid at least; otherwise four times its own cost."""
_SETTLING = 5.0
"""Seconds after its creation in which an agent's shell may be seen without its program; and seconds that an interactive
agent must wait before its turn counts as ended: it also waits between two turns and before its first."""
_AT_ONCE = 20
_GONE_HOST = frozenset({"STOPPED", "STOPPING", "PAUSED", "CRASHED", "FAILED", "DESTROYED"})


class MngrCrew:
    """The agents of one run. `folder` has the private clone that they are made from, and keeps their prompts."""

    def __init__(
        self, plan: RunPlan, mngr: Mngr, folder: RunFolder, clock: Clock, recorder: Recorder | None = None,
        mask: Mask | None = None,
    ) -> None:  # fmt: skip
        """`recorder` provides the recording of remote agents. `mask` masks conversations; without it none is kept."""
        self._recorder = recorder
        self._plan = plan
        self._mngr = Mngr(mngr.program, mngr.environ, folder.clone, mngr.loaded)
        self._folder = folder
        self._clock = clock
        self._host_dir = host_dir_of(mngr.environ)
        self._tests = {test.agent_name: test for test in plan.tests}
        self._listings = Listings(partial(list_agents, self._mngr), clock)
        self._fresh = FreshOutcomes(self._host_dir)
        self._unfinished: set[asyncio.Future[dict[str, Listed | str]]] = set()  # listings that a look did not wait for
        self._conversations = MngrConversations(plan, self._mngr, mask)
        self._stamps: dict[str, tuple[str, bool]] = {}
        self._stamps_asked: dict[str, tuple[float, float]] = {}  # by provider: when, and how long it took
        self._local = LocalFleet(self._mngr.environ)
        self._waiting_since: dict[str, float] = {}
        self._not_creating_since: dict[str, float] = {}
        self._creating_seen_at = 0.0
        self._absent_in: dict[str, float] = {}  # by agent id: the time of the first listing without it
        self._begun: set[str] = set()  # agents whose program was seen, or whose end is certain
        self._restarted_at: dict[str, float] = {}
        self._naming = asyncio.Lock()
        self._on_modal = ModalHosts(self._mngr, clock)

    async def create(self, member: Member) -> Seen:
        """Make the agent in a copy of the clone. Raises LaunchError with mngr's own words, or another ToolError."""
        self._not_creating_since.pop(member.agent_id, None)
        self._begun.discard(member.agent_id)
        prompt = self._folder.path / "prompts" / f"{member.test}.md"
        prompt.parent.mkdir(exist_ok=True)
        # For each attempt anew: it has the agent's deadline.
        prompt.write_text(self._prompt_of(member), encoding="utf-8")
        task = await asyncio.to_thread(self._task_files, member)
        place = place_of(self._plan, member)
        folder = work_dir(place, member, self._host_dir)
        project = Path(self._plan.repository).name or "selftest"
        if place == LOCAL_PROVIDER:
            await self._ensure_host_id()
        cleared = await self._withheld() if place == LOCAL_PROVIDER else ()
        uploads = files_to_upload(self._plan.agent_command) if place != LOCAL_PROVIDER else ()
        recording = NOT_RECORDED
        if self._recorder is not None and place != LOCAL_PROVIDER:
            recording = self._recorder.provision(member, folder)
        arguments = create_arguments(
            self._plan,
            member,
            place,
            folder,
            prompt,
            project,
            cleared,
            uploads,
            recording,
            task,
            self._start_of(member),
        )
        done = await self._mngr.call(arguments, timeout=_CREATE)
        if not done.ok:
            raise_failed_setup(done)
            raise LaunchError(
                "mngr could not make the agent", done.stderr_end, "See whether `selftest-tui doctor` finds the reason.",
                argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
            )  # fmt: skip
        return Seen(
            Life.WORKING, host_id=parse_created(done.stdout), provider=provider_of(place), setup=seconds_of(done)
        )

    async def restart(self, member: Member) -> Seen:
        """Start it again by mngr, after its results were renamed away."""
        if member.answer is None:
            raise LaunchError("there is no answer for it")
        listed = await list_agents(self._mngr, member.provider, _CREATE)
        agent = find(by_id(listed), member)
        if agent is None or (not agent.host.is_local and agent.host.state in _GONE_HOST):
            why = "it is not there any more" if agent is None else f"its host is {agent.host.state}"
            raise LaunchError("the agent cannot go on", why)
        page = answer_page(member.answer, is_continued=True, until=end_time(self._plan, self._clock.now()))
        local = Path(work_dir(LOCAL_PROVIDER, member, self._host_dir)) if agent.host.is_local else None
        await put_answer(self._mngr, replace(member, name=agent.name), local, answer_script(member.attempt, page))
        ended = agent.state in (State.STOPPED, State.DONE, State.UNKNOWN)  # else a killed conductor has started it
        target = replace(_target(member), name=agent.name, state=agent.state)
        results = await steer(self._mngr, Act.START, (target,), timeout=_CREATE) if ended else ()
        # All that is known of it is from before.
        self._listings.doubt(agent.id)
        self._restarted_at[agent.id] = self._clock.elapsed()
        self._waiting_since.pop(agent.id, None)
        for failed in (result for result in results if not result.ok):
            raise LaunchError("the agent cannot go on", failed.text, failed.hint)
        return Seen(Life.WORKING, host_id=member.host_id, provider=member.provider)

    def _start_of(self, member: Member) -> Path | None:
        """Return the bundle with the commits that a new agent starts from. Raises LaunchError if it is gone."""
        if member.answer is None or not member.answer.start:
            return None
        bundle = self._folder.attempt(replace(member, attempt=member.answer.start_attempt)) / BUNDLE
        if not bundle.is_file():
            raise LaunchError("the commits that it should start from are gone", str(bundle))
        return bundle

    async def _ensure_host_id(self) -> None:
        """Have mngr give this machine its host id, once: the first creates, made at once, would each report another."""
        async with self._naming:
            if not (self._host_dir / "host_id").exists():
                await list_agents(self._mngr, LOCAL_PROVIDER, _CREATE)

    def _prompt_of(self, member: Member) -> str:
        if not member.node_id:
            return render_smoke_prompt(member.agent_id)
        prompt = render_prompt(self._plan, self._tests[member.test], self._clock.now())
        if member.answer is None:
            return prompt
        return f"{prompt.rstrip()}\n\n{answer_page(member.answer, is_continued=False)}"

    def _task_files(self, member: Member) -> Path | None:
        """Write the files of the agent's task into the run's folder, and return their folder; None without any."""
        files = self._tests[member.test].files if member.node_id else ()
        folder = self._folder.path / "tasks" / member.test
        for file in files:
            place = folder / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(file.text, encoding="utf-8", newline="")
        return folder if files else None

    async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
        """Observe them by a listing that is new enough and by their files."""
        fresh = self._fresh.look(members)
        if fresh:
            return fresh
        groups = self._by_provider(members)
        await self._note_creates(members)
        listing = asyncio.ensure_future(self._listings.of(groups))
        try:
            while not (await asyncio.wait((listing,), timeout=_OUTCOME_POLL))[0]:
                fresh = self._fresh.look(members)
                if fresh:  # the listing continues and serves the next look
                    self._unfinished.add(listing)
                    listing.add_done_callback(self._unfinished.discard)
                    return fresh
        except asyncio.CancelledError:
            listing.cancel()
            raise
        answers = listing.result()
        agents = {
            member.agent_id: find(by_id(answer), member)
            for provider, answer in answers.items()
            if not isinstance(answer, str)
            for member in groups[provider]
        }
        await self._ask_outcomes([agent for agent in agents.values() if agent is not None])
        rows: Mapping[str, Row] = {}
        if LOCAL_PROVIDER in groups:
            local = answers.get(LOCAL_PROVIDER)
            rows = await self._local.look(None if isinstance(local, str) else local)
        seen: dict[str, Seen] = {}
        for provider, answer in answers.items():
            for member in groups[provider]:
                agent = agents.get(member.agent_id)
                if isinstance(answer, str):
                    seen[member.agent_id] = Seen(Life.UNSEEN, detail=answer)
                elif agent is not None:
                    self._absent_in.pop(member.agent_id, None)
                    seen[member.agent_id] = self._seen(agent, answer, rows.get(agent.id))
                elif self._may_be_in_creation(member, self._listings.begun(provider)):
                    seen[member.agent_id] = Seen(Life.UNSEEN, detail="it may still be in creation")
                else:
                    seen[member.agent_id] = self._missing(member, answer)
        if MODAL in groups:
            self._on_modal.note()
            on_modal = {member.agent_id: member.host_id for member in groups[MODAL]}
            ends = await self._on_modal.explained({one: seen[one] for one in on_modal}, on_modal)
            seen = {**seen, **ends}
        self._fresh.note_full_look(seen)
        return seen

    async def pull(self, member: Member, staging: Path) -> None:
        """Bundle its branch where the agent did not, and copy its out folder."""
        base = self._plan.base if self._needs_bundle(member) else ""
        if self._is_local(member):
            folder = Path(work_dir(LOCAL_PROVIDER, member, self._host_dir))
            await pull_local(self._mngr, folder, staging, bundle_base=base)
        else:
            await pull_remote(self._mngr, member, staging, bundle_base=base)

    async def conversation(self, member: Member) -> Conversation:
        """Its conversation so far, masked."""
        return await self._conversations.of(member)

    async def limits(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Find rate limits by the last error of each transcript, else by the screens."""
        limits = {agent_id: limit_line(text) for agent_id, text in (await self.screens(members)).items()}
        return limits | await self._conversations.limits(members)

    async def screens(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Read their screens with some history, all of one provider in one call."""
        texts: dict[str, str] = {}
        for provider, group in self._by_provider(members).items():
            placed = [self._placed(member) for member in group]
            if provider == LOCAL_PROVIDER:
                texts |= await local_screens(self._mngr, placed)
            else:
                answers = await self._exec(placed, screen_script())
                texts |= {one.agent_id: answers[one.name] for one in placed if answers.get(one.name)}
        return texts

    async def send(self, member: Member, text: str) -> None:
        """Send a message. Raises ToolFailedError if it did not arrive, DoubtfulMessageError if it may have."""
        (result,) = await steer(self._mngr, Act.MESSAGE, (_target(member),), text, timeout=_MESSAGE)
        if not result.ok and (result.hint == MAY_HAVE_ARRIVED or may_have_arrived(result.text)):
            raise DoubtfulMessageError("it is not known whether the message arrived", result.text, result.hint)
        if not result.ok:
            raise ToolFailedError("the message did not arrive", result.text, result.hint)

    async def check_delivery(self, member: Member, text: str) -> Delivery:
        """Look for the message in the agent's transcript."""
        if f"message {member.agent_id}@" in await _command_lines():
            return Delivery.PENDING
        if self._is_local(member):
            return await asyncio.to_thread(find_message, self._host_dir / "agents" / member.agent_id, text)
        answers = await self._exec([self._placed(member)], delivery_script(text))
        return parse_delivery(" ".join(answers.values()))

    async def stop(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Stop them, and check that they stopped."""
        local = [self._placed(member) for member in members if self._is_local(member)]
        stopped = await stop_local(self._mngr, local) if local else frozenset()
        targets = [_target(member) for member in members if member.agent_id not in stopped]
        results = await steer(self._mngr, Act.STOP, targets, timeout=_STOP) if targets else ()
        # One that is not there any more counts as stopped.
        return dict.fromkeys(stopped, "") | {
            result.target.key.agent_id: "" if result.ok or "not there" in result.text else result.text
            for result in results
        }

    def _is_local(self, member: Member) -> bool:
        return provider_for(self._plan, member) == LOCAL_PROVIDER

    def _by_provider(self, members: Sequence[Member]) -> dict[str, list[Member]]:
        groups: dict[str, list[Member]] = {}
        for member in members:
            groups.setdefault(provider_for(self._plan, member), []).append(member)
        return groups

    def _agent(self, member: Member) -> Agent | None:
        """Return the agent of the last listing."""
        listed = self._listings.newest(member.provider)
        return None if listed is None else find(by_id(listed), member)

    def _placed(self, member: Member) -> Member:
        """Return the member with its name in the last listing: a user may rename an agent."""
        agent = self._agent(member)
        return member if agent is None else replace(member, name=agent.name)

    def _seen(self, agent: Agent, listed: Listed, row: Row | None) -> Seen:
        condition = None
        if self._is_beginning(agent, listed):
            life = Life.WORKING
            self._listings.doubt(agent.id)
        else:
            takes_turns = self._plan.agent_type != "command"
            state, condition = state_of(agent, row, has_begun=agent.id in self._begun, takes_turns=takes_turns)
            is_gone = not agent.host.is_local and agent.host.state in _GONE_HOST
            has_settled = self._has_settled(agent, state, listed.at)
            life = Life.LOST if is_gone else life_of(agent, state, condition, has_settled=has_settled)
        if agent.host.is_local:
            stamp = stamp_of(Path(agent.work_dir) / OUT / OUTCOME)
        else:
            stamp, _ = self._stamps.get(agent.id, ("", False))
        detail = f"its host is {agent.host.state}" if life is Life.LOST else ""
        if condition is None or life not in (Life.ASKS, Life.TURN_ENDED, Life.EXITED):
            return Seen(life, stamp, agent.host.id, agent.host.provider, detail)
        detail = "" if condition.kind in (Kind.TURN_ENDED, Kind.READY) else reason(condition)
        needs_you = row is not None and row.attention is not None
        return Seen(life, stamp, agent.host.id, agent.host.provider, detail, kind=condition.kind, needs_you=needs_you)

    def _is_beginning(self, agent: Agent, listed: Listed) -> bool:
        """True if an agent that seems to have ended may only be starting.

        mngr makes its files, then its session, then types its command, which the shell reads when it is ready. How long
        that takes depends on the machine, so the time counts from when no `mngr create` of the agent runs.
        """
        restarted_at = self._restarted_at.get(agent.id)
        if restarted_at is not None and agent.state in (State.DONE, State.STOPPED):
            # The listing may be from before, or from between its new session and its program.
            return self._listings.begun(agent.host.provider) < restarted_at + _SETTLING
        if agent.id in self._begun or agent.state is State.UNKNOWN or agent.host.state in _GONE_HOST:
            return False
        is_old = agent.created_at is None or listed.at - agent.created_at > 2.0 * _CREATE
        if agent.state in (State.DONE, State.STOPPED) and not is_old:
            since = self._not_creating_since.get(agent.id, math.inf)
            if self._listings.begun(agent.host.provider) < since + _SETTLING:
                return True
        self._begun.add(agent.id)
        return False

    def _has_settled(self, agent: Agent, state: State, at: float) -> bool:
        """True if it has waited for `_SETTLING` seconds."""
        if state is not State.WAITING:
            self._waiting_since.pop(agent.id, None)
            return False
        return at - self._waiting_since.setdefault(agent.id, at) >= _SETTLING

    async def _ask_outcomes(self, agents: Sequence[Agent]) -> None:
        """Ask remote hosts for the stamps of the outcomes; without an answer the last stamps stay."""
        groups: dict[str, list[Agent]] = {}
        for agent in agents:
            if not agent.host.is_local and agent.host.state not in _GONE_HOST:
                groups.setdefault(agent.host.provider, []).append(agent)
        async with asyncio.TaskGroup() as tasks:
            for provider, group in groups.items():
                asked_at, took = self._stamps_asked.get(provider, (-_LEAST_AGE, 0.0))
                if self._clock.elapsed() - asked_at >= max(_LEAST_AGE, 4.0 * took):
                    tasks.create_task(self._ask_outcomes_of(provider, group))

    async def _ask_outcomes_of(self, provider: str, agents: Sequence[Agent]) -> None:
        began = self._clock.elapsed()
        members = [Member("", "", 0, agent.id, agent.name, agent.host.id, agent.host.provider) for agent in agents]
        answers = await self._exec(members, stamp_script())
        self._stamps |= {one.agent_id: parse_stamp(answers[one.name]) for one in members if one.name in answers}
        self._stamps_asked[provider] = (self._clock.elapsed(), self._clock.elapsed() - began)

    async def _exec(self, members: Sequence[Member], script: str) -> dict[str, str]:
        """Run a script for agents of one provider; return its output by agent name, without those where it failed."""
        answers: dict[str, str] = {}
        for start in range(0, len(members), _AT_ONCE):
            batch = members[start : start + _AT_ONCE]
            try:
                done = await self._mngr.call(exec_arguments(batch, script, _EXEC - 10.0), timeout=_EXEC)
            except ToolError:
                continue
            answers |= {name: output for name, (ok, output) in parse_exec(done.stdout).items() if ok}
        return answers

    async def _withheld(self) -> tuple[str, ...]:
        """Return the variables that a local agent would inherit and must not have."""
        inherited = await asyncio.to_thread(inherited_from, self._mngr.default_socket, self._mngr.environ)
        return withheld(inherited, self._plan.env_names)

    async def _note_creates(self, members: Sequence[Member]) -> None:
        """Note since when no `mngr create` of them runs; one that an ended conductor started may still run.

        Called before the listing that may report an agent as absent or ended: an agent that is made in between is in
        neither.
        """
        unknown = [one for one in members if one.agent_id not in self._begun or self._agent(one) is None]
        if not unknown:
            return
        now = self._clock.elapsed()
        is_known = all(member.agent_id in self._not_creating_since for member in unknown)
        if is_known and now - self._creating_seen_at < _LEAST_AGE:
            return
        self._creating_seen_at = now
        try:
            command_lines = await _command_lines()
        except ToolError:
            return
        for member in unknown:
            if f"--id {member.agent_id}" in command_lines:
                self._not_creating_since.pop(member.agent_id, None)
            else:
                self._not_creating_since.setdefault(member.agent_id, now)

    def _missing(self, member: Member, listed: Listed) -> Seen:
        """Interpret a missing member: a created one is gone only when two listings do not have it."""
        found = missing_from(listed, member)
        is_first = self._absent_in.setdefault(member.agent_id, listed.at) == listed.at
        if member.host_id and is_first and found.life is not Life.UNSEEN:
            return Seen(Life.UNSEEN, detail="the last listing does not have it")
        return found

    def _may_be_in_creation(self, member: Member, listed_at: float) -> bool:
        since = self._not_creating_since.get(member.agent_id)
        return since is None or listed_at < since

    def _needs_bundle(self, member: Member) -> bool:
        """False if it made one itself, or is known to have no commits."""
        agent = self._agent(member)
        if agent is None:
            return True
        if agent.host.is_local:
            work_dir = Path(agent.work_dir)
            return not stamp_of(work_dir / OUT / BUNDLE) and head_of(work_dir) != self._plan.base
        return not self._stamps.get(agent.id, ("", False))[1]


async def _command_lines() -> str:
    """Return the command lines of all processes. Raises ToolError."""
    return (await run_async(("ps", "-axww", "-o", "args="), timeout=30.0, cwd=Path("/"))).stdout


def _target(member: Member) -> Target:
    return Target(AgentKey(member.host_id, member.agent_id), member.address, member.name, member.provider)
